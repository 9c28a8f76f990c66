//! The identity of each controller: the manager's own, or with `--use-service-account-credentials` a service account each,
//! whose tokens are requested, renewed in time, and replaced when the server no longer accepts them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball_api::{Key, PartialObject, ResourceType};
use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderValue, StatusCode};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use smol_str::SmolStr;
use tokio::time::Instant;

use crate::chain::Chain;
use crate::client::{Client, ClientOptions};
use crate::credentials::bearer;
use crate::error::Error;
use crate::transport::{Body, Transport, TransportError};

pub const ACCOUNT_NAMESPACE: &str = "kube-system";

/// Upstream: controller-manager pkg/clientbuilder: an hour, renewed with a fifth of it left, four attempts.
const TOKEN_SECONDS: u64 = 3600;
const RENEW_WITH_LEFT: u32 = 5;
const ATTEMPTS: u32 = 4;
/// A token that is granted for longer is renewed after this time.
const LONGEST_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);
const FIRST_BACKOFF: Duration = Duration::from_millis(500);
/// The delay after a failed renewal, while the old token is still valid, and after a new token was refused.
const RENEWAL_PAUSE: Duration = Duration::from_secs(10);

const SERVICE_ACCOUNTS: ResourceType = ResourceType::new("", "v1", "serviceaccounts", "ServiceAccount", true);
const NAMESPACES: ResourceType = ResourceType::new("", "v1", "namespaces", "Namespace", false);

/// Creates one client for each controller.
#[derive(Clone)]
pub struct Identities {
    inner: Arc<Inner>,
}

struct Inner {
    /// The manager's own identity: used by all controllers, or only to request tokens.
    main: Client,
    /// The same without a rate limit: tokens are few, and a controller's first write must not wait for the tokens of fifty
    /// others.
    asking: Client,
    /// See [`user_agent`](crate::user_agent()), without a suffix.
    user_agent: String,
    /// For requests with their own token. Absent: all controllers use the manager's identity.
    bearer_transport: Option<Arc<dyn Transport>>,
    accounts: Mutex<BTreeMap<SmolStr, Arc<Account>>>,
}

impl Identities {
    /// Every controller uses the manager's identity, with its own user agent and rate limit.
    pub fn shared(main: Client, user_agent: impl Into<String>) -> Self {
        Self::new(main, user_agent.into(), None)
    }

    /// Every controller acts as its service account. `bearer_transport` must not carry credentials of its own
    /// ([`Connection::anonymous_transport`](crate::Connection::anonymous_transport)).
    pub fn per_account(
        main: Client,
        bearer_transport: Arc<dyn Transport>,
        user_agent: impl Into<String>,
    ) -> Self {
        Self::new(main, user_agent.into(), Some(bearer_transport))
    }

    fn new(main: Client, user_agent: String, bearer_transport: Option<Arc<dyn Transport>>) -> Self {
        // A request for a token stores nothing, so it is given up as early as a read.
        let unlimited = ClientOptions { qps: 0.0, ..main.options().clone() };
        let asking = main.with_options(unlimited.within(main.options().timeout));
        let accounts = Mutex::default();
        Self { inner: Arc::new(Inner { main, asking, user_agent, bearer_transport, accounts }) }
    }

    pub fn main(&self) -> &Client {
        &self.inner.main
    }

    /// The client of one controller. Nothing is sent before its first request.
    ///
    /// The user agent ends in `suffix`, or with accounts in the account's full name, as in upstream.
    pub fn client_for(&self, service_account: &str, suffix: &str) -> Client {
        let Inner { main, user_agent, bearer_transport, .. } = &*self.inner;
        let Some(bearer_transport) = bearer_transport else {
            return main.named(&format!("{user_agent}/{suffix}"));
        };
        let transport = Arc::new(AccountTransport {
            account: self.account(service_account),
            inner: bearer_transport.clone(),
        });
        let user_agent = format!("{user_agent}/system:serviceaccount:{ACCOUNT_NAMESPACE}:{service_account}");
        Client::new(transport, ClientOptions { user_agent, ..main.options().clone() })
    }

    /// Controllers that share an account share its token.
    fn account(&self, name: &str) -> Arc<Account> {
        let mut accounts = self.inner.accounts.lock();
        let account = accounts.entry(SmolStr::from(name)).or_insert_with(|| {
            Arc::new(Account {
                key: Key::new(ACCOUNT_NAMESPACE, name),
                client: self.inner.asking.clone(),
                token: Mutex::new(None),
                refused: Mutex::new(None),
                asking: tokio::sync::Mutex::new(()),
            })
        });
        account.clone()
    }
}

impl fmt::Debug for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per_account = self.inner.bearer_transport.is_some();
        f.debug_struct("Identities").field("per_account", &per_account).finish_non_exhaustive()
    }
}

/// A service account and its current token.
struct Account {
    key: Key,
    client: Client,
    token: Mutex<Option<Token>>,
    /// When a token was last given up because the server refused it.
    refused: Mutex<Option<Instant>>,
    /// Locked while a token is requested, so that a hundred requests share it.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Token {
    header: HeaderValue,
    renew_at: Instant,
    expires_at: Instant,
}

impl Account {
    async fn header(&self) -> Result<HeaderValue, TransportError> {
        if let Some(header) = self.fresh() {
            return Ok(header);
        }
        // Boxed, so that the future of the many requests that have a token is small.
        Box::pin(self.renewed()).await
    }

    async fn renewed(&self) -> Result<HeaderValue, TransportError> {
        let _one_at_a_time = self.asking.lock().await;
        if let Some(header) = self.fresh() {
            return Ok(header);
        }
        match self.ask_patiently().await {
            Ok(token) => {
                let header = token.header.clone();
                *self.token.lock() = Some(token);
                Ok(header)
            }
            Err(error) => self.fall_back(&error),
        }
    }

    fn fresh(&self) -> Option<HeaderValue> {
        self.token.lock().as_ref().filter(|t| Instant::now() < t.renew_at).map(|t| t.header.clone())
    }

    /// A token that is due for renewal is valid until it expires.
    fn fall_back(&self, error: &Error) -> Result<HeaderValue, TransportError> {
        let problem = format!("token of service account {}: {}", self.key, Chain(error));
        let now = Instant::now();
        let mut token = self.token.lock();
        match token.as_mut().filter(|t| now < t.expires_at) {
            Some(token) => {
                tracing::warn!(account = %self.key, %problem, "token could not be renewed, using the old one");
                token.renew_at = now + RENEWAL_PAUSE;
                Ok(token.header.clone())
            }
            None => Err(TransportError::Credentials(problem)),
        }
    }

    /// Removes a token that the server refused, unless it has been replaced meanwhile. Returns whether another one may be accepted:
    /// a server that issues tokens and refuses them is not asked for one with each request.
    fn refused(&self, header: &HeaderValue) -> bool {
        let mut token = self.token.lock();
        if token.as_ref().is_none_or(|token| token.header != *header) {
            return true;
        }
        let mut refused = self.refused.lock();
        if refused.is_some_and(|at| at.elapsed() < RENEWAL_PAUSE) {
            return false;
        }
        *refused = Some(Instant::now());
        *token = None;
        true
    }

    async fn ask_patiently(&self) -> Result<Token, Error> {
        let mut backoff = FIRST_BACKOFF;
        for _ in 1..ATTEMPTS {
            match self.request_token().await {
                Ok(token) => return Ok(token),
                Err(error) => tracing::debug!(account = %self.key, error = %Chain(&error), "no token yet"),
            }
            tokio::time::sleep(backoff).await;
            backoff *= 2;
        }
        self.request_token().await
    }

    async fn request_token(&self) -> Result<Token, Error> {
        self.ensure_exists().await?;
        let asked = Instant::now();
        let body = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": { "expirationSeconds": TOKEN_SECONDS },
        });
        let answer: TokenRequest =
            self.client.create_subresource(&SERVICE_ACCOUNTS, &self.key, "token", &body).await?;
        let what = || format!("create serviceaccounts/token {}", self.key).into();
        let header =
            bearer(&answer.status.token).map_err(|e| Error::Invalid { what: what(), source: e.into() })?;
        // The granted seconds on the local clock, so that the server's clock does not matter.
        let seconds =
            u64::try_from(answer.spec.expiration_seconds).ok().filter(|s| *s > 0).unwrap_or(TOKEN_SECONDS);
        let life = Duration::from_secs(seconds).min(LONGEST_LIFE);
        Ok(Token { header, renew_at: asked + life - life / RENEW_WITH_LEFT, expires_at: asked + life })
    }

    async fn ensure_exists(&self) -> Result<(), Error> {
        let client = &self.client;
        match client.get_as::<PartialObject>(&SERVICE_ACCOUNTS, &self.key, None).await {
            Err(error) if error.is_not_found() => {}
            other => return other.map(drop),
        }
        // On a new cluster the namespace may not exist yet. Continue if it cannot be read.
        let namespace = Key::cluster(ACCOUNT_NAMESPACE);
        if let Err(error) = client.get_as::<PartialObject>(&NAMESPACES, &namespace, None).await
            && error.is_not_found()
        {
            let body =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ACCOUNT_NAMESPACE}});
            tolerate_existing(client.create_as(&NAMESPACES, None, &body).await)?;
        }
        let body = json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": { "namespace": self.key.namespace.as_str(), "name": self.key.name.as_str() },
        });
        tolerate_existing(client.create_as(&SERVICE_ACCOUNTS, self.key.namespace(), &body).await)
    }
}

fn tolerate_existing(created: Result<PartialObject, Error>) -> Result<(), Error> {
    match created {
        Err(error) if !error.is_already_exists() => Err(error),
        _ => Ok(()),
    }
}

#[derive(Deserialize)]
struct TokenRequest {
    #[serde(default)]
    spec: TokenRequestSpec,
    status: TokenRequestStatus,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct TokenRequestSpec {
    expiration_seconds: i64,
}

#[derive(Deserialize)]
struct TokenRequestStatus {
    token: String,
}

/// Adds the account's token; after a 401 retries once with a new one.
struct AccountTransport {
    account: Arc<Account>,
    inner: Arc<dyn Transport>,
}

impl Transport for AccountTransport {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
        let (account, inner) = (self.account.clone(), self.inner.clone());
        Box::pin(async move {
            let header = account.header().await?;
            let response = inner.send(signed(request.clone(), header.clone())).await?;
            if response.status() != StatusCode::UNAUTHORIZED {
                return Ok(response);
            }
            if !account.refused(&header) {
                return Ok(response);
            }
            let header = account.header().await?;
            inner.send(signed(request, header)).await
        })
    }

    fn host(&self) -> &str {
        self.inner.host()
    }
}

fn signed(mut request: http::Request<Bytes>, header: HeaderValue) -> http::Request<Bytes> {
    request.headers_mut().insert(AUTHORIZATION, header);
    request
}

#[cfg(test)]
#[path = "tests/identities.rs"]
mod tests;
