//! Parsers of this crate for fuzz targets (`crates/fuzz`), and for nothing else.

use std::path::Path;

use bytes::Bytes;

use crate::frames::{Frame, Lines, MAX_FRAME};
use crate::kubeconfig::{ConnectOptions, Kubeconfig, resolve};

/// The events of a watch whose body comes in chunks of this size, as text, up to the first error.
pub fn watch_events(body: &[u8], chunk: usize) -> Vec<String> {
    let mut lines = Lines::new(MAX_FRAME);
    let mut events = Vec::new();
    for chunk in body.chunks(chunk) {
        lines.push(chunk);
        loop {
            let line: Bytes = match lines.next() {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(_) => return events,
            };
            let frame = Frame::parse(&line);
            events.push(format!("{frame:?}"));
            if frame.is_err() {
                return events;
            }
        }
    }
    events.push(format!("rest: {}", lines.has_rest()));
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
