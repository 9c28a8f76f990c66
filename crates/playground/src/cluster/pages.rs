//! `/debug/decisions` beside the API, as kube-controller-manager serves it: what `flyball why` reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_apiserver::Page;
use flyball_runtime::decisions::DecisionLog;
use flyball_serving::{DecisionFilter, DecisionSource};
use serde_json::json;

const SHOWN: usize = 100;
const AT_MOST: usize = 10_000;

pub(super) fn pages(log: &DecisionLog) -> BTreeMap<String, Page> {
    let log = log.clone();
    let page: Page = Arc::new(move |query| {
        let filter = read(query)?;
        Ok(json!({"decisions": DecisionSource::recent(&log, &filter)}))
    });
    BTreeMap::from([("/debug/decisions".to_owned(), page)])
}

fn read(query: &str) -> Result<DecisionFilter, String> {
    let mut filter = DecisionFilter { limit: SHOWN, ..DecisionFilter::default() };
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        let value = value.into_owned();
        match &*key {
            "controller" => filter.controller = value,
            "kind" => filter.kind = value,
            "namespace" => filter.namespace = value,
            "name" => filter.name = value,
            "limit" => {
                let limit = value.parse::<usize>().map_err(|_| format!("limit={value:?} is not a number"))?;
                filter.limit = limit.min(AT_MOST);
            }
            other => return Err(format!("{other:?} is none of controller, kind, namespace, name, limit")),
        }
    }
    Ok(filter)
}
