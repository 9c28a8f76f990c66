//! get.

use super::{Answer, Call};
use crate::error::ApiError;

pub(super) async fn get(call: &Call<'_>) -> Result<Answer, ApiError> {
    let key = call.key();
    let entry = call
        .server
        .store
        .get(&call.resource.shelf, &key)
        .ok_or_else(|| ApiError::not_found(call.resource.named(&key.name)))?;
    Ok(call.entry(200, entry).await?.into())
}
