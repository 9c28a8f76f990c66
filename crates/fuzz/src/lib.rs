//! The parsers of foreign bytes as functions that a fuzzer calls: none may panic, and each has properties that must hold for
//! whatever it accepts. `fuzz/` runs them with libFuzzer; the test of this crate replays the seeds on every `cargo test`.

mod bytes;
mod files;
mod http;
mod streams;
mod text;
mod wire;

/// A target: takes any bytes, panics if a parser does or if a property does not hold.
pub type Target = fn(&[u8]);

/// All targets. Each has a folder of seeds in `fuzz/seeds` and a file in `fuzz/fuzz_targets`.
pub const TARGETS: &[(&str, Target)] = &[
    ("api_patch", http::api_patch),
    ("api_request", http::api_request),
    ("aws", text::aws),
    ("cel", text::cel),
    ("cron", text::cron),
    ("evaluate", text::evaluate),
    ("flexvolume", text::flexvolume),
    ("inventory", text::inventory),
    ("journal", files::journal),
    ("json", bytes::json),
    ("jwt", bytes::jwt),
    ("kubeconfig", text::kubeconfig),
    ("message", wire::message),
    ("netlink", bytes::netlink),
    ("page", http::page),
    ("pages", http::pages),
    ("protobuf", bytes::protobuf),
    ("quantity", text::quantity),
    ("recording", files::recording),
    ("selector", text::selector),
    ("snapshot", http::snapshot),
    ("spdy", streams::spdy),
    ("time", text::time),
    ("watch", bytes::watch),
    ("websocket", streams::websocket),
    ("wire", wire::wire),
    ("x509", bytes::x509),
];

/// Runs the target of this name.
///
/// # Panics
/// If there is none, or if the target finds something.
pub fn run(name: &str, data: &[u8]) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).expect("a target of this name");
    target(data);
}
