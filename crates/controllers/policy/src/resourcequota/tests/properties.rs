//! The usage is the sum over the existing objects, for any history of them.

use std::collections::BTreeMap;

use flyball_api::pod::Pod;
use flyball_api::{Key, Quantity, ResourceList};
use proptest::prelude::*;
use serde_json::json;

use super::world::{ALL, now, quota};
use crate::resourcequota::invariants;
use crate::resourcequota::invariants::written;
use crate::resourcequota::plan::{View, plan};
use crate::resourcequota::usage::{Objects, Source, Sources};

/// What happens to one of a few pods in one of two namespaces.
#[derive(Debug, Clone)]
enum Event {
    Put { namespace: usize, name: usize, milli: i64, phase: usize },
    Delete { namespace: usize, name: usize },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let put = (0..2usize, 0..5usize, 0..4000i64, 0..4usize)
        .prop_map(|(namespace, name, milli, phase)| Event::Put { namespace, name, milli, phase });
    let delete = (0..2usize, 0..5usize).prop_map(|(namespace, name)| Event::Delete { namespace, name });
    proptest::collection::vec(prop_oneof![3 => put, 1 => delete], 0..40)
}

const NAMESPACES: [&str; 2] = ["n", "other"];
const PHASES: [&str; 4] = ["Pending", "Running", "Succeeded", "Failed"];

fn sources(pods: impl Iterator<Item = Pod>) -> Sources {
    let mut sources = Sources::default();
    let id = ("".into(), "pods".into());
    sources.put(id, Source::new(&("".into(), "pods".into()), Objects::Pods(pods.collect()), || true));
    sources
}

proptest! {
    #[test]
    fn usage_is_the_sum_over_what_is_there(events in events(), before in 0..9i64) {
        let mut there: BTreeMap<Key, (i64, usize)> = BTreeMap::new();
        for event in &events {
            match *event {
                Event::Put { namespace, name, milli, phase } => {
                    there.insert(Key::new(NAMESPACES[namespace], format!("p{name}")), (milli, phase));
                }
                Event::Delete { namespace, name } => {
                    there.remove(&Key::new(NAMESPACES[namespace], format!("p{name}")));
                }
            }
        }
        let pods = there.iter().map(|(key, (milli, phase))| {
            let spec = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": format!("{milli}m")}}}]});
            let pod = json!({"metadata": {"name": key.name, "namespace": key.namespace}, "spec": spec,
                "status": {"phase": PHASES[*phase]}});
            serde_json::from_value::<Pod>(pod).unwrap()
        });
        let quota = quota("pods=9 count/pods=9 requests.cpu=9", "pods=9", &format!("pods={before}"));
        let usage = sources(pods).usage(&quota, ALL, now());

        let mine = || there.iter().filter(|(key, _)| key.namespace == "n").map(|(_, pod)| pod);
        let living = || mine().filter(|(_, phase)| *phase < 2);
        let count = |n: usize| Quantity::new(i64::try_from(n).unwrap());
        let want: ResourceList = [
            ("count/pods", count(mine().count())),
            ("pods", count(living().count())),
            ("requests.cpu", living().map(|(milli, _)| Quantity::from_milli(*milli)).sum()),
        ]
        .into_iter()
        .collect();
        prop_assert!(usage.used.same_amounts(&want), "{:?} is not {want:?}", usage.used);
        let view = View { quota: &quota, usage: &usage };
        let planned = plan(&view);
        invariants::check(&view, &planned).map_err(TestCaseError::fail)?;

        // Once written, it is not written again.
        let mut after = flyball_api::ResourceQuota::clone(&quota);
        after.status = written(&planned).expect("the limits are new");
        let again = plan(&View { quota: &after, usage: &usage });
        prop_assert!(again.status.is_none());
    }

    /// For any resource name, sums are never negative, and only limits are in the status.
    #[test]
    fn any_resource_name_keeps_the_invariants(names in proptest::collection::vec("[a-z./]{0,40}|(requests|limits)\\.[a-z./-]{0,20}", 0..6)) {
        let hard: ResourceList = names.iter().map(|name| (name.as_str(), Quantity::new(1))).collect();
        let mut quota = flyball_api::ResourceQuota::default();
        quota.metadata.namespace = "n".into();
        quota.spec.hard = hard;
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "n"}})).unwrap();
        let usage = sources([pod].into_iter()).usage(&quota, ALL, now());
        let view = View { quota: &quota, usage: &usage };
        invariants::check(&view, &plan(&view)).map_err(TestCaseError::fail)?;
    }
}
