//! The user of a request: static tokens, service account tokens, client certificates (the TLS server puts the `User` into
//! the request's extensions), or anonymous.

pub(crate) mod token;

use http::request;
use rustc_hash::FxHashMap;

use crate::authz::Attributes;
use crate::error::{ApiError, Named};
use crate::options::Options;
use crate::registry::User;
use crate::server::Inner;

pub(crate) use token::{Bound, Claims, KeyError, Keys};

const AUTHENTICATED: &str = "system:authenticated";

pub struct Authenticator {
    tokens: FxHashMap<String, User>,
    /// Signs and verifies service account tokens.
    pub keys: Keys,
    anonymous: bool,
}

impl Authenticator {
    /// Reads tokens and key from the options.
    pub fn new(options: &Options) -> Result<Self, KeyError> {
        Ok(Self {
            tokens: options.tokens.iter().map(|t| (t.token.clone(), t.user.clone())).collect(),
            keys: Keys::new(options.service_account_key.as_deref())?,
            anonymous: options.anonymous,
        })
    }

    /// The user of a bearer token, without `system:authenticated`.
    pub fn user_of_token(&self, server: &Inner, token: &str, audiences: &[&str]) -> Option<User> {
        match self.tokens.get(token) {
            Some(user) => Some(user.clone()),
            None => token::verify(server, &self.keys, token, audiences),
        }
    }
}

pub(crate) fn who(server: &Inner, parts: &request::Parts) -> Result<User, ApiError> {
    let header = parts.headers.get(http::header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    let bearer =
        header.and_then(|text| text.strip_prefix("Bearer ").or_else(|| text.strip_prefix("bearer ")));
    if let Some(token) = bearer {
        let audiences = [server.options.issuer.as_str()];
        return match server.authn.user_of_token(server, token.trim(), &audiences) {
            Some(user) => Ok(authenticated(user)),
            None => Err(ApiError::unauthorized()),
        };
    }
    if let Some(user) = parts.extensions.get::<User>() {
        return Ok(authenticated(user.clone()));
    }
    match server.authn.anonymous && header.is_none() {
        true => Ok(User {
            name: "system:anonymous".to_owned(),
            groups: vec!["system:unauthenticated".to_owned()],
            ..User::default()
        }),
        false => Err(ApiError::unauthorized()),
    }
}

fn authenticated(mut user: User) -> User {
    if !user.groups.iter().any(|group| group == AUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    user
}

/// Impersonation (`kubectl --as`), if it is allowed.
pub(crate) fn impersonate(server: &Inner, parts: &request::Parts, user: User) -> Result<User, ApiError> {
    let text = |name: &str| parts.headers.get(name).and_then(|v| v.to_str().ok());
    let Some(name) = text("impersonate-user") else { return Ok(user) };
    let groups: Vec<String> = parts
        .headers
        .get_all("impersonate-group")
        .iter()
        .filter_map(|v| v.to_str().ok())
        .map(str::to_owned)
        .collect();
    let account = name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
    let (resource, namespace, target) = match account {
        Some((namespace, name)) => ("serviceaccounts", namespace, name),
        None => ("users", "", name),
    };
    let mut wanted = vec![(resource, namespace, target)];
    wanted.extend(groups.iter().map(|group| ("groups", "", group.as_str())));
    for (resource, namespace, name) in wanted {
        let attributes =
            Attributes { verb: "impersonate", resource, namespace, name, ..Attributes::default() };
        if !server.authz.allows(server, &user, &attributes) {
            let why = format!(
                "User {:?} cannot impersonate resource {resource:?} in API group \"\" at the cluster scope",
                user.name
            );
            return Err(ApiError::forbidden(Named { group: "", what: resource, name }, &why));
        }
    }
    let mut groups = groups;
    if let Some((namespace, _)) = account
        && groups.is_empty()
    {
        groups = service_account_groups(namespace);
    }
    let impersonated = User { name: name.to_owned(), groups, ..User::default() };
    Ok(if name == "system:anonymous" { impersonated } else { authenticated(impersonated) })
}

/// The groups of every service account of a namespace.
pub(crate) fn service_account_groups(namespace: &str) -> Vec<String> {
    vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
}
