//! Plans keep the invariants for any history of Endpoints, and a second plan is empty.

use std::sync::Arc;

use flyball_api::EndpointSlice;
use proptest::prelude::*;
use serde_json::json;

use super::super::invariants::{after, check};
use super::super::plan::{View, plan};
use super::{service, subsets};

/// An address of either family, ready or not, or an invalid one, with one of three ports.
fn address() -> impl Strategy<Value = (String, u16)> {
    let text = prop_oneof![
        8 => (0_u8..6, any::<bool>(), any::<bool>()).prop_map(|(number, six, ready)| {
            let ip = if six { format!("fd00::{number}") } else { format!("10.0.0.{number}") };
            if ready { ip } else { format!("{ip}!") }
        }),
        1 => Just("nonsense".to_owned()),
    ];
    (text, 80_u16..83)
}

proptest! {
    #[test]
    fn every_history_ends_with_an_empty_plan(
        capacity in prop_oneof![Just(2_usize), Just(1000)],
        rounds in prop::collection::vec(prop::collection::vec(address(), 0..8), 1..6),
    ) {
        let service = service(json!({}));
        let mut slices: Vec<Arc<EndpointSlice>> = vec![];
        for (round, lines) in rounds.iter().enumerate() {
            let text: Vec<_> = lines.iter().map(|(ip, port)| format!("{ip}:{port}")).collect();
            let endpoints = subsets(&text.join("; "));
            let view =
                View { endpoints: Some(&endpoints), service: Some(&service), slices: &slices, capacity };
            let mirror = view.mirror().unwrap();
            prop_assert_eq!(check(&view, &mirror), Ok(()));
            let named = |(at, slice): (usize, &EndpointSlice)| {
                let mut slice = slice.clone();
                if slice.metadata.name.is_empty() {
                    slice.metadata.name = format!("m{round}-{at}").into();
                }
                Arc::new(slice)
            };
            let next: Vec<_> = after(&view, &mirror).into_iter().enumerate().map(named).collect();
            let again = View { slices: &next, ..view };
            prop_assert_eq!(plan(&again, again.mirror().as_ref()).writes().len(), 0);
            slices = next;
        }
    }
}
