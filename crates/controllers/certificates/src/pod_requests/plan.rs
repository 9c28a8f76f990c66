//! Which PodCertificateRequests are deleted in a round. Pure.

use flyball_api::time::SignedDuration;
use flyball_api::{Object, ObjectMeta, PartialObject, ResourceType, Timestamp};
use flyball_runtime::plan::Operation;
use flyball_runtime::{Effect, ErrorKinds, Plan, Write, exactly};

use crate::cleaner::{Request, View};

pub(super) const REQUESTS: ResourceType = ResourceType::new(
    "certificates.k8s.io",
    "v1beta1",
    "podcertificaterequests",
    "PodCertificateRequest",
    true,
);

const MAX_AGE: SignedDuration = SignedDuration::from_mins(15);

/// Only the metadata of PodCertificateRequests is needed.
impl Request for PartialObject {
    fn clean(view: &View<Self>) -> Plan {
        plan(view)
    }
}

pub fn plan(view: &View<PartialObject>) -> Plan {
    let old = view.requests.iter().filter(|request| is_old(request.meta(), view.now));
    let deletions = old.map(|request| {
        Write::of(REQUESTS, request.key(), Operation::Delete(exactly(request.meta())))
            .why("its signer has had fifteen minutes")
            .ignore(ErrorKinds::NOT_FOUND)
    });
    Plan::of([Effect::each(deletions)])
}

fn is_old(request: &ObjectMeta, now: Timestamp) -> bool {
    request.creation_timestamp.is_none_or(|created| now.duration_since(created) >= MAX_AGE)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_is_deleted_after_fifteen_minutes() {
        const DELETION: &str =
            "each\n  delete PodCertificateRequest ns/a: its signer has had fifteen minutes";
        for (created, want) in [("2026-03-10T11:45:01Z", "each"), ("2026-03-10T11:45:00Z", DELETION)] {
            let meta = json!({"namespace": "ns", "name": "a", "uid": "u", "creationTimestamp": created});
            let request = serde_json::from_value(json!({"metadata": meta})).unwrap();
            let now = "2026-03-10T12:00:00Z".parse().unwrap();
            let plan = plan(&View { requests: vec![Arc::new(request)], now });
            assert_eq!(plan.to_string(), want, "{created}");
        }
    }
}
