//! Properties of the small parsers that have no file of their own: what is printed reads back, and nothing panics.

use flyball_api::time::{self, Timestamp};
use flyball_api::{Key, Labels, RawJson, ResourceVersion, Uid, names};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Times {
    #[serde(with = "time::seconds_opt")]
    seconds: Option<Timestamp>,
    #[serde(with = "time::micros_opt")]
    micros: Option<Timestamp>,
}

proptest! {
    #[test]
    fn uids_keep_any_text(text in ".{0,50}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}") {
        let uid = Uid::from(text.as_str());
        prop_assert_eq!(uid.to_string(), text.clone());
        prop_assert_eq!(serde_json::from_value::<Uid>(text.into()).ok(), Some(uid));
    }

    #[test]
    fn uids_order_as_their_texts(a in "[0-9a-f-]{0,36}", b in "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}") {
        prop_assert_eq!(Uid::from(a.as_str()).cmp(&Uid::from(b.as_str())), a.cmp(&b));
    }

    #[test]
    fn resource_versions_read_back(number in any::<u64>(), text in ".{0,30}") {
        prop_assert_eq!(number.to_string().parse(), Ok(ResourceVersion(number)));
        let _ = text.parse::<ResourceVersion>();
    }

    #[test]
    fn keys_read_back(namespace in "[a-z0-9-]{0,10}", name in "[a-z0-9.-]{1,10}", text in ".{0,20}") {
        let key = Key::new(namespace, name);
        prop_assert_eq!(Key::parse(&key.to_string()), Some(key));
        let _ = Key::parse(&text);
    }

    #[test]
    fn times_read_back(seconds in -62_135_596_800i64..253_402_207_200, micros in 0i32..1_000_000, text in ".{0,30}") {
        let whole = Timestamp::from_second(seconds).ok();
        let times = Times { seconds: whole, micros: Timestamp::new(seconds, micros * 1000).ok() };
        let json = serde_json::to_string(&times).unwrap();
        prop_assert_eq!(serde_json::from_str::<Times>(&json).ok(), Some(times), "{}", json);
        let _ = serde_json::from_value::<Times>(serde_json::json!({"seconds": text, "micros": null}));
    }

    #[test]
    fn labels_hold_what_a_map_holds(entries in prop::collection::btree_map(".{0,30}", ".{0,30}", 0..6)) {
        let labels: Labels = serde_json::from_value(serde_json::json!(entries)).unwrap();
        prop_assert!(labels.iter().eq(entries.iter().map(|(key, value)| (key.as_str(), value.as_str()))));
        prop_assert!(entries.iter().all(|(key, value)| labels.get(key) == Some(value)));
        prop_assert_eq!(serde_json::to_value(labels.interned()).unwrap(), serde_json::json!(entries));
    }

    #[test]
    fn raw_json_takes_json_and_refuses_the_rest(text in ".{0,40}|[\\[\\]{}\",:0-9a ]{0,30}") {
        match RawJson::parse(&text) {
            Ok(raw) => {
                let digest = raw.to::<serde_json::Value>().map(|value| RawJson::from_value(&value).digest());
                prop_assert!(digest.is_ok_and(|digest| digest == raw.digest()));
            }
            Err(_) => prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_err()),
        }
    }

    #[test]
    fn names_never_panic(text in ".{0,80}") {
        let _ = (names::is_dns_label(&text), names::is_dns_subdomain(&text), names::is_qualified_name(&text));
    }
}
