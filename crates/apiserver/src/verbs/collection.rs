//! deletecollection.

use std::sync::Arc;

use super::write::{body_dry_run, delete_options, delete_review};
use super::{Answer, Call, list};
use crate::error::ApiError;
use crate::store::{Entry, Range};

pub(super) async fn delete(call: &Call<'_>) -> Result<Answer, ApiError> {
    let options = delete_options(call)?;
    let (labels, fields) = call.selectors()?;
    let namespace = call.resource.namespaced.then_some(call.info.namespace.as_deref()).flatten();
    let range = Range { namespace, ..Range::default() };
    let page = call.server.store.list(&call.resource.shelf, &range);
    let page = page.map_err(|_| ApiError::expired("the history has just been compacted"))?;
    let mut ops = call.ops()?;
    ops.dry_run |= body_dry_run(call);
    ops.review = Some(delete_review(call));
    let mut deleted: Vec<Arc<Entry>> = Vec::new();
    for entry in page.entries {
        if !(labels.matches(&entry.facets.labels) && fields.matches(&entry)) {
            continue;
        }
        match ops.delete(&entry.key, &options).await {
            Ok(_) => deleted.push(entry),
            // Another request has deleted it.
            Err(error) if error.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    let metadata = serde_json::json!({"resourceVersion": page.version.to_string()});
    Ok(call.done(list::answer(call, call.shown(deleted).await?, &metadata), &ops))
}
