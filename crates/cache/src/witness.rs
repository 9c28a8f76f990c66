//! Compares one cache with the server, to detect whether etcd was restored from an earlier snapshot.
//!
//! Custom and aggregated resources may have a store of their own, with its own versions: one that is lost at a restart, or one
//! for each replica behind a Service. If such a resource returns to an earlier version, that says nothing about others: before
//! all caches are listed again, a built-in resource is checked as well.

use std::sync::Arc;

use flyball_api::protobuf::Message;
use flyball_api::{Key, ResourceType, ResourceVersion, Uid};

use crate::decode::header;
use crate::era::{Evidence, Newest, Present, evidence};
use crate::source::{Class, Failure, Source};
use crate::state::InformerState;
use crate::store_writer::AnyStoreWriter;

/// A cache, and the server that it is compared with.
pub(crate) struct Witness {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) writer: Arc<dyn AnyStoreWriter>,
    pub(crate) state: Arc<InformerState>,
}

/// An object that the server did not have at this version.
pub(crate) type Missing = (Key, Uid, ResourceVersion);

impl Witness {
    /// Whether its server is the API server itself.
    pub(crate) fn is_built_in(resource: &ResourceType) -> bool {
        Message::of_kind(&resource.api_version(), &resource.kind).is_some()
    }

    /// Whether it can be compared: it has synced, and its server uses resourceVersions.
    pub(crate) fn is_comparable(&self) -> bool {
        self.state.has_synced() && !self.writer.version_reached().is_unknown()
    }

    /// Compares the server's current state with the cache.
    pub(crate) async fn compare(&self) -> Result<(Evidence, Option<Missing>), Failure> {
        let reached = self.writer.version_reached();
        if reached.is_unknown() {
            return Ok((Evidence::None, None));
        }
        // What is written after the request may be missing in its response.
        let written = self.state.written();
        let mut newest = self.writer.newest();
        let mut page = self.source.present(newest.as_ref().map(|newest| &newest.key)).await;
        if newest.is_some() && page.as_ref().is_err_and(|failure| failure.class == Class::Refused) {
            // Some aggregated APIs support no field selectors.
            page = self.source.present(None).await;
            newest = None;
        }
        let page = page?;
        self.state.era.contact.found();
        let there = page.items.first().filter(|_| newest.is_some()).and_then(header);
        let present = Present { version: page.version, newest: there };
        let evidence = match !page.version.is_unknown() && page.version < written {
            true => Evidence::Restored,
            false => evidence(reached, newest.as_ref(), &present),
        };
        let missing = newest.filter(|_| evidence == Evidence::Missing);
        Ok((evidence, missing.map(|Newest { key, header, .. }| (key, header.uid, page.version))))
    }
}
