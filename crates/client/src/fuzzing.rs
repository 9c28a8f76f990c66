//! Parsers of this crate for fuzz targets (`crates/fuzz`), and for nothing else.

use std::path::Path;

use crate::encoding::Encoding;
use crate::frames::{Frames, MAX_FRAME};
use crate::kubeconfig::{ConnectOptions, Kubeconfig, resolve};

/// The events of a watch whose body comes in chunks of this size, as text, up to the first error.
pub fn watch_events(body: &[u8], encoding: Encoding, chunk: usize) -> Vec<String> {
    let mut frames = Frames::new(encoding, MAX_FRAME);
    let mut events = Vec::new();
    for chunk in body.chunks(chunk) {
        frames.push(chunk);
        loop {
            let frame = match frames.next() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(_) => return events,
            };
            events.push(format!("{frame:?}"));
            if frame.is_err() {
                return events;
            }
        }
    }
    events.push(format!("rest: {}", frames.has_rest()));
    events
}

/// Parses a kubeconfig and resolves its current context. If it refers to files, it is only parsed.
pub fn kubeconfig(text: &str) {
    let Ok(config) = Kubeconfig::parse(text, Path::new("")) else { return };
    let clusters = config.clusters.iter().flat_map(|named| &named.value);
    let users = config.users.iter().flat_map(|named| &named.value);
    let names_file = clusters.into_iter().any(|cluster| cluster.certificate_authority.is_some())
        || users.into_iter().any(|user| user.client_certificate.is_some() || user.client_key.is_some());
    if !names_file {
        let _ = resolve(config, &ConnectOptions::default(), "fuzz".to_owned());
    }
}
