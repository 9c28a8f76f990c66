//! Authentication: by a front proxy, a client certificate or a bearer token; else the user is anonymous.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use flyball_api::ResourceType;
use flyball_client::Client;
use flyball_runtime::Fresh;
use flyball_runtime::metrics::{
    AUTHENTICATED_REQUESTS, AUTHENTICATION_ATTEMPTS, AUTHENTICATION_DURATION, AUTHN_DURATION, AUTHN_REQUESTS,
    CERTIFICATE_EXPIRATION, Metrics, TOKEN_CACHE_ACTIVE, TOKEN_CACHE_DURATION, TOKEN_CACHE_FETCHES,
    TOKEN_CACHE_REQUESTS,
};
use http::{HeaderMap, header};
use rustls::pki_types::CertificateDer;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    AuthenticationOptions, ClusterCa, certs,
    front_proxy::{Proxies, ProxyHeaders},
    reviews::{Cause, Reviewer},
    subject::{self, Authority, authority},
    ttl::TtlCache,
};

const TOKEN_REVIEWS: ResourceType =
    ResourceType::new("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", false);
/// For how long a client that has shown a valid token is not treated as a stranger.
const KNOWN_FOR: Duration = Duration::from_secs(3600);
const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const AUTHENTICATED: &str = "system:authenticated";

/// An authenticated or anonymous user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    fn anonymous() -> Self {
        Self { name: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..Self::default() }
    }

    /// Whether the user is anonymous, or a front proxy says so.
    pub(super) fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS || self.groups.iter().any(|group| group == UNAUTHENTICATED)
    }
}

/// The other side of a connection.
#[derive(Debug, Clone, Default)]
pub struct Peer {
    /// The client certificate, leaf first. The client has its key; its issuer is not verified yet.
    pub certificates: Vec<CertificateDer<'static>>,
}

/// The credentials are wrong; the reason is for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rejected(pub(super) String);

enum Trust<T> {
    None,
    Files(Fresh<T>),
    Cluster(ClusterCa),
}

pub struct Authenticator {
    clients: Trust<Authority>,
    proxies: Trust<Proxies>,
    reviews: Option<Reviewer>,
    /// By digest: tokens are long and secret, and anyone can send them.
    users: TtlCache<Vec<u8>, User>,
    /// Separate, so that invalid tokens do not displace valid ones.
    rejected: TtlCache<Vec<u8>, Rejected>,
    /// Tokens that have been valid of late.
    once_valid: TtlCache<Vec<u8>, ()>,
    reads_uid: bool,
    cache_ttl: Duration,
    metrics: Metrics,
}

impl Authenticator {
    /// `reviews` sends TokenReviews; `cluster` has the cluster's own CAs, for those that the options do not set. Errors name
    /// the file that cannot be used.
    pub fn new(
        options: &AuthenticationOptions,
        reviews: Option<Client>,
        cluster: Option<ClusterCa>,
        metrics: Metrics,
    ) -> Result<Self, String> {
        let cluster_trust = |cluster: Option<ClusterCa>| cluster.map(Trust::Cluster);
        let clients = match options.client_ca_file.as_str() {
            "" => cluster_trust(cluster.clone()).unwrap_or(Trust::None),
            file => {
                let name = file.to_owned();
                let parse = move |pem: &[Vec<u8>]| authority(certs::roots(&pem.concat(), &name)?);
                Trust::Files(Fresh::new(vec![PathBuf::from(file)], parse)?)
            }
        };
        let proxies = match options.requestheader_client_ca_file.as_str() {
            "" => cluster.map(Trust::Cluster).unwrap_or(Trust::None),
            file => {
                let (name, options) = (file.to_owned(), options.clone());
                let parse = move |pem: &[Vec<u8>]| {
                    let headers = ProxyHeaders {
                        allowed_names: options.requestheader_allowed_names.clone(),
                        username: options.requestheader_username_headers.clone(),
                        uid: options.requestheader_uid_headers.clone(),
                        group: options.requestheader_group_headers.clone(),
                        extra_prefixes: options.requestheader_extra_headers_prefix.clone(),
                    };
                    Ok(Proxies { authority: authority(certs::roots(&pem.concat(), &name)?)?, headers })
                };
                Trust::Files(Fresh::new(vec![PathBuf::from(file)], parse)?)
            }
        };
        Ok(Self {
            clients,
            proxies,
            reviews: reviews
                .map(|client| Reviewer::new(&client, (&AUTHN_REQUESTS, &AUTHN_DURATION), &metrics)),
            users: TtlCache::new(),
            rejected: TtlCache::new(),
            once_valid: TtlCache::new(),
            reads_uid: options.uid_from_certificate,
            cache_ttl: options.token_cache_ttl,
            metrics,
        })
    }

    /// The user of a request. Wrong credentials are refused, even where an anonymous user would be allowed.
    pub(super) async fn authenticate(&self, headers: &HeaderMap, peer: &Peer) -> Result<User, Rejected> {
        let start = Instant::now();
        let result = self.identify(headers, peer).await;
        let outcome = if result.is_ok() { "success" } else { "error" };
        self.metrics.counter(&AUTHENTICATION_ATTEMPTS, &[outcome]).inc();
        self.metrics.histogram(&AUTHENTICATION_DURATION, &[outcome]).observe(start.elapsed().as_secs_f64());
        if let Ok(user) = &result {
            self.metrics.counter(&AUTHENTICATED_REQUESTS, &[compressed(&user.name)]).inc();
        }
        result
    }

    async fn identify(&self, headers: &HeaderMap, peer: &Peer) -> Result<User, Rejected> {
        let mut rejected = None;
        let by_certificate = [
            |this: &Self, headers, peer| this.by_proxy(headers, peer),
            |this: &Self, _, peer| this.by_certificate(peer),
        ];
        for way in by_certificate {
            match way(self, headers, peer) {
                Ok(Some(user)) => return Ok(known(user)),
                Ok(None) => {}
                Err(reason) => rejected = Some(reason),
            }
        }
        if let (Some(token), Some(reviews)) = (bearer(headers), &self.reviews) {
            let user = match token {
                Ok(token) => self.by_token(token, reviews).await,
                Err(reason) => Err(reason),
            };
            match user {
                Ok(user) => return Ok(known(user)),
                Err(reason) => rejected = Some(reason),
            }
        }
        rejected.map_or_else(|| Ok(User::anonymous()), Err)
    }

    fn by_proxy(&self, headers: &HeaderMap, peer: &Peer) -> Result<Option<User>, Rejected> {
        let proxies = match &self.proxies {
            Trust::None => return Ok(None),
            Trust::Files(files) => Some(Proxies::clone(&files.get())),
            Trust::Cluster(cluster) => cluster.proxies(),
        };
        let Some(proxies) = proxies else { return Ok(None) };
        proxies.user(headers, peer)
    }

    fn by_certificate(&self, peer: &Peer) -> Result<Option<User>, Rejected> {
        let authority = match &self.clients {
            Trust::None => return Ok(None),
            Trust::Files(files) => Some(Authority::clone(&files.get())),
            Trust::Cluster(cluster) => cluster.clients(),
        };
        match authority {
            Some(authority) => {
                let subject = subject::verified(&authority, peer).inspect(|_| self.observe_lifetime(peer))?;
                subject.map_or(Ok(None), |subject| subject.user(self.reads_uid))
            }
            None => Ok(None),
        }
    }

    fn observe_lifetime(&self, peer: &Peer) {
        let leaf = peer.certificates.first();
        if let Some((_, leaf)) = leaf.and_then(|leaf| x509_parser::parse_x509_certificate(leaf).ok()) {
            let left = leaf.validity().time_to_expiration().map_or(0.0, |left| left.as_seconds_f64());
            self.metrics.histogram(&CERTIFICATE_EXPIRATION, &[]).observe(left);
        }
    }

    async fn by_token(&self, token: &str, reviews: &Reviewer) -> Result<User, Rejected> {
        let (start, digest) = (Instant::now(), certs::sha256(token.as_bytes()));
        let known = digest.as_ref().and_then(|digest| self.remembered(digest));
        let status = if known.is_some() { "hit" } else { "miss" };
        let result = match known {
            Some(known) => known,
            None => {
                let under_way =
                    ["blocked", "in_flight"].map(|s| self.metrics.gauge(&TOKEN_CACHE_ACTIVE, &[s]));
                under_way.iter().for_each(|gauge| gauge.add(1.0));
                let result = self.by_review(token, digest, reviews).await;
                under_way.iter().for_each(|gauge| gauge.add(-1.0));
                let fetched = if result.is_ok() { "ok" } else { "error" };
                self.metrics.counter(&TOKEN_CACHE_FETCHES, &[fetched]).inc();
                result
            }
        };
        self.metrics.counter(&TOKEN_CACHE_REQUESTS, &[status]).inc();
        self.metrics.histogram(&TOKEN_CACHE_DURATION, &[status]).observe(start.elapsed().as_secs_f64());
        result
    }

    fn remembered(&self, digest: &Vec<u8>) -> Option<Result<User, Rejected>> {
        self.users.get(digest).map(Ok).or_else(|| self.rejected.get(digest).map(Err))
    }

    async fn by_review(
        &self,
        token: &str,
        digest: Option<Vec<u8>>,
        reviews: &Reviewer,
    ) -> Result<User, Rejected> {
        let body = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": { "token": token },
        });
        let is_known = digest.as_ref().is_some_and(|digest| self.once_valid.get(digest).is_some());
        let cause = if is_known { Cause::Known } else { Cause::Stranger };
        let review = reviews
            .review(cause, &TOKEN_REVIEWS, &body)
            .await
            .map_err(|error| Rejected(format!("the token could not be reviewed: {error}")))?;
        let status = &review["status"];
        let error = status["error"].as_str().filter(|error| !error.is_empty());
        let is_known = status["authenticated"].as_bool() == Some(true);
        let result = match (is_known, error) {
            (true, _) => Ok(reviewed_user(&status["user"])),
            (false, None) => Err(Rejected("invalid bearer token".to_owned())),
            // A failed review is not cached.
            (false, Some(error)) => return Err(Rejected(format!("invalid bearer token: {error}"))),
        };
        match (&result, digest) {
            (Ok(user), Some(digest)) => {
                self.once_valid.put(digest.clone(), (), KNOWN_FOR);
                self.users.put(digest, user.clone(), self.cache_ttl);
            }
            (Err(reason), Some(digest)) => self.rejected.put(digest, reason.clone(), self.cache_ttl),
            (_, None) => {}
        }
        result
    }
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authenticator").finish_non_exhaustive()
    }
}

fn known(mut user: User) -> User {
    if !user.groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    user
}

/// The bearer token, if there is one. Upstream: bearertoken.go, AuthenticateRequest: what follows a second space is not part
/// of it, and a token after two spaces is ignored.
fn bearer(headers: &HeaderMap) -> Option<Result<&str, Rejected>> {
    let value = headers.get(header::AUTHORIZATION)?;
    let mut parts = value.as_bytes().trim_ascii().split(|byte| *byte == b' ');
    let (scheme, token) = (parts.next()?, parts.next()?);
    if !scheme.eq_ignore_ascii_case(b"bearer") || token.is_empty() {
        return None;
    }
    Some(std::str::from_utf8(token).map_err(|_| Rejected("the bearer token is not text".to_owned())))
}

fn reviewed_user(user: &Value) -> User {
    let list = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
    };
    User {
        name: user["username"].as_str().unwrap_or_default().to_owned(),
        uid: user["uid"].as_str().unwrap_or_default().to_owned(),
        groups: list(&user["groups"]),
        extra: user["extra"].as_object().into_iter().flatten().map(|(k, v)| (k.clone(), list(v))).collect(),
    }
}

/// Limits the number of label values.
fn compressed(name: &str) -> &str {
    match name {
        "admin" | "client" | "kube_proxy" | "kubelet" | "system:serviceaccount:kube-system:default" => name,
        _ if name.contains('@') => "email_id",
        _ => "other",
    }
}
