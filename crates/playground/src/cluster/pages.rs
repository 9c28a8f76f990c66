//! `/debug/decisions` and `/debug/waiting` beside the API, as kube-controller-manager serves them: the input of `flyball why`.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_apiserver::Page;
use flyball_runtime::decisions::DecisionLog;
use flyball_serving::{decisions_page, waiting_page};

pub(super) fn pages(log: &DecisionLog) -> BTreeMap<String, Page> {
    let (decisions, waiting) = (log.clone(), log.clone());
    let decisions: Page = Arc::new(move |query| decisions_page(&decisions, query));
    let waiting: Page = Arc::new(move |query| waiting_page(&waiting, query));
    BTreeMap::from([("/debug/decisions".to_owned(), decisions), ("/debug/waiting".to_owned(), waiting)])
}
