//! The routes of this crate for fuzz targets (`crates/fuzz`), and for nothing else.

use bytes::Bytes;
use http::Request;

use crate::{Pages, percent, routes};
use flyball_listen::SeldomEach;

/// The status of the answer to a request by a user who may do anything.
pub fn respond(pages: &Pages, request: &Request<Bytes>) -> u16 {
    let (head, body) = request.clone().into_parts();
    let Some(path) = percent::decoded(head.uri.path()) else { return 400 };
    let body = if routes::reads_body(&head.method, &path) { body } else { Bytes::new() };
    routes::route(pages, &SeldomEach::default(), &head, &path, &body).status().as_u16()
}
