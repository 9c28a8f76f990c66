//! Which schemas the expressions of a policy need, and the object types that follow from them. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flyball_client::{Discovery, Encoding, Error};
use serde::Deserialize;
use smol_str::SmolStr;

use super::kinds::{Kind, kinds, names_any};
use super::policy::Spec;
use super::schema::{Document, SchemaError};
use super::variables::{ObjectType, Params};

/// Where the server says at which paths schemas are published.
pub(super) const INDEX: &str = "/openapi/v3";

/// What was read for one policy so far.
pub(super) struct Sources<'a> {
    pub(super) spec: &'a Spec,
    pub(super) served: Option<Discovery>,
    pub(super) published: Option<Published>,
    /// By the path under which the index has them. `None` for one that cannot be used.
    pub(super) documents: BTreeMap<String, Option<Document>>,
}

/// The paths of published schemas.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Published {
    paths: BTreeMap<SmolStr, Place>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Place {
    #[serde(rename = "serverRelativeURL")]
    server_relative_url: String,
}

/// What is to be read next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Need {
    Discovery,
    Index,
    Document {
        /// Its path in the index.
        place: String,
        url: String,
    },
}

/// `None` once everything is there that the policy needs. Each document is read once; one that is not published is not read.
pub(super) fn need(sources: &Sources<'_>) -> Option<Need> {
    if sources.served.is_none() && names_any(sources.spec) {
        return Some(Need::Discovery);
    }
    let params = sources.spec.param_kind.as_ref().and_then(|kind| kind.kind());
    let mut unread = sources.kinds().into_iter().chain(params).map(|kind| kind.document());
    unread.find_map(|place| {
        let Some(published) = &sources.published else { return Some(Need::Index) };
        let is_read = sources.documents.contains_key(&place);
        let at = published.paths.get(place.as_str()).filter(|_| !is_read)?;
        Some(Need::Document { place, url: at.server_relative_url.clone() })
    })
}

/// What a policy's expressions are checked against.
#[derive(Debug)]
pub(super) struct Types {
    /// The kinds that the policy names and whose schemas are known.
    pub(super) kinds: Vec<(Kind, ObjectType)>,
    pub(super) params: Params,
    /// The schemas that are published and cannot be used.
    pub(super) unusable: Vec<(Kind, SchemaError)>,
}

/// The types of the objects and of the parameters of a policy, once [`need`] is `None`.
pub(super) fn types(sources: &Sources<'_>) -> Types {
    let mut unusable = vec![];
    let mut known = |kind: &Kind, role: Role| {
        let document = sources.documents.get(&kind.document())?.as_ref()?;
        match document.object_type(kind, &format!("{}{}", kind.kind, number_of(kind, role))) {
            Ok(found) => found.map(|(of, objects)| ObjectType { of, objects: Arc::new(objects) }),
            Err(error) => {
                unusable.push((kind.clone(), error));
                None
            }
        }
    };
    let found = sources.kinds().into_iter().filter_map(|kind| {
        let of = known(&kind, Role::Object)?;
        Some((kind, of))
    });
    let kinds = found.collect();
    let params = match sources.spec.param_kind.as_ref().and_then(|kind| kind.kind()) {
        None => Params::None,
        Some(kind) => known(&kind, Role::Params).map_or(Params::Unknown, Params::Known),
    };
    Types { kinds, params, unusable }
}

impl Sources<'_> {
    fn kinds(&self) -> BTreeSet<Kind> {
        self.served.as_ref().map(|served| kinds(self.spec, served)).unwrap_or_default()
    }
}

/// What follows from an answer of the server: a schema that cannot be read leaves its kinds unchecked, with a line in the log. An
/// error that may pass is returned, so that the policy is checked later: upstream ignores the kind, and does not retry.
pub(super) fn usable<T: for<'de> Deserialize<'de>>(
    path: &str,
    answer: Result<impl AsRef<[u8]>, Error>,
) -> Result<Result<T, Error>, Error> {
    let decode = |body: &[u8]| {
        serde_json::from_slice(body).map_err(|source| Error::Decode {
            what: path.into(),
            encoding: Encoding::Json,
            source,
        })
    };
    match answer.and_then(|body| decode(body.as_ref())) {
        Err(error) if is_transient(&error) => Err(error),
        done => Ok(done),
    }
}

/// Whether a retry can help: there was no answer, or the server could not give one.
pub(super) fn is_transient(error: &Error) -> bool {
    !matches!(error, Error::Decode { .. }) && error.code().is_none_or(|code| code == 429 || code >= 500)
}

#[derive(Debug, Clone, Copy)]
enum Role {
    Object,
    Params,
}

/// Makes the names of object types unique in an expression. Objects and parameters of one kind have different types, as
/// upstream.
fn number_of(kind: &Kind, role: Role) -> u32 {
    flyball_api::hash::fnv32a(format!("{kind} {role:?}").as_bytes()) % 1_000_000_000
}
