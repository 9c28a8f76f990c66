//! Whatever Endpoints say in turn, their mirror keeps the invariants and ends settled.

use std::sync::Arc;

use flyball_api::EndpointSlice;
use proptest::prelude::*;

use super::super::invariants::{after, broken};
use super::super::plan::{View, plan};
use super::{subsets, told};

/// An address of either family, ready or not, or none at all, with one of three ports.
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
    fn every_history_ends_settled(
        capacity in prop_oneof![Just(2_usize), Just(1000)],
        rounds in prop::collection::vec(prop::collection::vec(address(), 0..8), 1..6),
    ) {
        let mut slices: Vec<Arc<EndpointSlice>> = vec![];
        for (round, lines) in rounds.iter().enumerate() {
            let text: Vec<_> = lines.iter().map(|(ip, port)| format!("{ip}:{port}")).collect();
            let endpoints = subsets(&text.join("; "));
            let view = View { endpoints: &endpoints, slices: &slices, capacity };
            let planned = plan(&view);
            prop_assert_eq!(broken(&view, &planned), Vec::<String>::new());
            let named = |(at, slice): (usize, &EndpointSlice)| {
                let mut slice = slice.clone();
                if slice.metadata.name.is_empty() {
                    slice.metadata.name = format!("m{round}-{at}").into();
                }
                Arc::new(slice)
            };
            let next: Vec<_> = after(&view, &planned).into_iter().enumerate().map(named).collect();
            let again = plan(&View { endpoints: &endpoints, slices: &next, capacity });
            prop_assert_eq!(told(&again), "");
            slices = next;
        }
    }
}
