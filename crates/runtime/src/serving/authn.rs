//! Who asks: a front proxy's word, a client certificate, a bearer token, or nobody in particular.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use flyball_api::ResourceType;
use flyball_client::{Client, Error};
use http::{HeaderMap, header};
use rustls::{
    RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, UnixTime},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{AuthenticationOptions, ClusterCa, certs, ttl::TtlCache};
use crate::fresh::Fresh;
use crate::metrics::{
    AUTHENTICATED_REQUESTS, AUTHENTICATION_ATTEMPTS, AUTHENTICATION_DURATION, AUTHN_DURATION, AUTHN_REQUESTS,
    CERTIFICATE_EXPIRATION, Family, Metrics, TOKEN_CACHE_ACTIVE, TOKEN_CACHE_DURATION, TOKEN_CACHE_FETCHES,
    TOKEN_CACHE_REQUESTS,
};

const TOKEN_REVIEWS: ResourceType =
    ResourceType::new("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", false);
pub(super) const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const AUTHENTICATED: &str = "system:authenticated";
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// Somebody known, or nobody in particular.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct User {
    /// Name.
    pub name: String,
    /// UID, often empty.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// Further attributes.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    fn anonymous() -> Self {
        Self { name: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..Self::default() }
    }
}

/// What the connection says about the other side.
#[derive(Debug, Clone, Default)]
pub struct Peer {
    /// The certificate shown, leaf first; its possession is proven, its issuer is not.
    pub certificates: Vec<CertificateDer<'static>>,
}

/// The credentials were wrong; the reason is for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rejected(pub(super) String);

/// An authority's word on client certificates.
pub(super) type Authority = Arc<dyn ClientCertVerifier>;

pub(super) fn authority(roots: RootCertStore) -> Result<Authority, String> {
    let provider = Arc::new(ring::default_provider());
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| format!("the certificate authorities cannot be used: {error}"))
}

/// Which proxies are believed, and where they write whom they speak for.
#[derive(Debug, Clone)]
pub(super) struct Proxies {
    pub(super) authority: Authority,
    pub(super) allowed_names: Vec<String>,
    pub(super) username_headers: Vec<String>,
    pub(super) uid_headers: Vec<String>,
    pub(super) group_headers: Vec<String>,
    pub(super) extra_prefixes: Vec<String>,
}

enum Trust<T> {
    Nobody,
    Files(Fresh<T>),
    Cluster(ClusterCa),
}

/// Finds out who asks.
pub struct Authenticator {
    clients: Trust<Authority>,
    proxies: Trust<Proxies>,
    reviews: Option<Client>,
    /// By digest: tokens are long, secret, and chosen by strangers.
    cache: TtlCache<Vec<u8>, Result<User, Rejected>>,
    cache_ttl: Duration,
    metrics: Metrics,
}

impl Authenticator {
    /// By the options; `reviews` sends TokenReviews, `cluster` holds the cluster's own authorities, for those that
    /// the options do not name. Unusable files are errors that name them.
    pub fn new(
        options: &AuthenticationOptions,
        reviews: Option<Client>,
        cluster: Option<ClusterCa>,
        metrics: Metrics,
    ) -> Result<Self, String> {
        let cluster_trust = |cluster: Option<ClusterCa>| cluster.map(Trust::Cluster);
        let clients = match options.client_ca_file.as_str() {
            "" => cluster_trust(cluster.clone()).unwrap_or(Trust::Nobody),
            file => {
                let name = file.to_owned();
                let parse = move |pem: &[Vec<u8>]| authority(certs::roots(&pem.concat(), &name)?);
                Trust::Files(Fresh::new(vec![PathBuf::from(file)], parse)?)
            }
        };
        let proxies = match options.requestheader_client_ca_file.as_str() {
            "" => cluster.map(Trust::Cluster).unwrap_or(Trust::Nobody),
            file => {
                let (name, options) = (file.to_owned(), options.clone());
                let parse = move |pem: &[Vec<u8>]| {
                    Ok(Proxies {
                        authority: authority(certs::roots(&pem.concat(), &name)?)?,
                        allowed_names: options.requestheader_allowed_names.clone(),
                        username_headers: options.requestheader_username_headers.clone(),
                        uid_headers: options.requestheader_uid_headers.clone(),
                        group_headers: options.requestheader_group_headers.clone(),
                        extra_prefixes: options.requestheader_extra_headers_prefix.clone(),
                    })
                };
                Trust::Files(Fresh::new(vec![PathBuf::from(file)], parse)?)
            }
        };
        Ok(Self {
            clients,
            proxies,
            reviews,
            cache: TtlCache::new(),
            cache_ttl: options.token_cache_ttl,
            metrics,
        })
    }

    /// The user behind a request. Wrong credentials are refused, even where no credentials would have done.
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
            match self.by_token(token, reviews).await {
                Ok(user) => return Ok(known(user)),
                Err(reason) => rejected = Some(reason),
            }
        }
        rejected.map_or_else(|| Ok(User::anonymous()), Err)
    }

    fn by_proxy(&self, headers: &HeaderMap, peer: &Peer) -> Result<Option<User>, Rejected> {
        let proxies = match &self.proxies {
            Trust::Nobody => return Ok(None),
            Trust::Files(files) => Some(Proxies::clone(&files.get())),
            Trust::Cluster(cluster) => cluster.proxies(),
        };
        let Some(proxies) = proxies else { return Ok(None) };
        let Some(proxy) = verified(&proxies.authority, peer)? else { return Ok(None) };
        if !proxies.allowed_names.is_empty() && !proxies.allowed_names.contains(&proxy.name) {
            return Err(Rejected(format!("front proxy {:?} is not among the allowed names", proxy.name)));
        }
        Ok(proxied_user(headers, &proxies))
    }

    fn by_certificate(&self, peer: &Peer) -> Result<Option<User>, Rejected> {
        let authority = match &self.clients {
            Trust::Nobody => return Ok(None),
            Trust::Files(files) => Some(Authority::clone(&files.get())),
            Trust::Cluster(cluster) => cluster.clients(),
        };
        match authority {
            Some(authority) => verified(&authority, peer).inspect(|_| self.observe_lifetime(peer)),
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

    async fn by_token(&self, token: &str, reviews: &Client) -> Result<User, Rejected> {
        let (start, digest) = (Instant::now(), certs::sha256(token.as_bytes()));
        let known = digest.as_ref().and_then(|digest| self.cache.get(digest));
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

    async fn by_review(
        &self,
        token: &str,
        digest: Option<Vec<u8>>,
        reviews: &Client,
    ) -> Result<User, Rejected> {
        let body = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": { "token": token },
        });
        let counted = (&AUTHN_REQUESTS, &AUTHN_DURATION);
        let review = review(reviews, &TOKEN_REVIEWS, &body, &self.metrics, counted)
            .await
            .map_err(|error| Rejected(format!("the token could not be reviewed: {error}")))?;
        let status = &review["status"];
        let result = if status["authenticated"].as_bool() == Some(true) {
            Ok(reviewed_user(&status["user"]))
        } else {
            let reason = status["error"].as_str().unwrap_or("the API server does not know it");
            Err(Rejected(format!("invalid bearer token: {reason}")))
        };
        if let Some(digest) = digest {
            self.cache.put(digest, result.clone(), self.cache_ttl);
        }
        result
    }
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authenticator").finish_non_exhaustive()
    }
}

/// Sends a review, again after failures that may pass. The pauses are upstream's.
pub(super) async fn review(
    client: &Client,
    resource: &ResourceType,
    body: &Value,
    metrics: &Metrics,
    (count, duration): (&'static Family, &'static Family),
) -> Result<Value, Error> {
    let mut pause = Duration::from_millis(500);
    for attempt in 1.. {
        let start = Instant::now();
        let result = client.create_dynamic(resource, None, body).await;
        let code = match &result {
            Ok(_) => "201".to_owned(),
            Err(error) => error.code().map_or_else(|| "<error>".to_owned(), |code| code.to_string()),
        };
        metrics.counter(count, &[&code]).inc();
        metrics.histogram(duration, &[&code]).observe(start.elapsed().as_secs_f64());
        match result {
            Err(error) if attempt < 5 && error.code().is_none_or(|code| code >= 500 || code == 429) => {
                sleep(pause).await;
                pause = pause.mul_f64(1.5);
            }
            result => return result,
        }
    }
    unreachable!("the fifth attempt returns")
}

fn known(mut user: User) -> User {
    if !user.groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    user
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = value.split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

/// The subject of the peer's certificate, if the authority has signed it. No certificate is no error.
fn verified(authority: &Authority, peer: &Peer) -> Result<Option<User>, Rejected> {
    let [leaf, intermediates @ ..] = &peer.certificates[..] else { return Ok(None) };
    authority
        .verify_client_cert(leaf, intermediates, UnixTime::now())
        .map_err(|error| Rejected(format!("the client certificate cannot be verified: {error}")))?;
    let (_, parsed) = x509_parser::parse_x509_certificate(leaf)
        .map_err(|error| Rejected(format!("the client certificate cannot be read: {error}")))?;
    let texts = |values: &mut dyn Iterator<Item = &x509_parser::x509::AttributeTypeAndValue<'_>>| {
        values.filter_map(|value| value.as_str().ok().map(str::to_owned)).collect::<Vec<_>>()
    };
    let subject = parsed.subject();
    let name = texts(&mut subject.iter_common_name()).pop().filter(|name| !name.is_empty());
    let groups = texts(&mut subject.iter_organization());
    let digest = certs::sha256(leaf).unwrap_or_default();
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let extra = BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={digest}")])]);
    Ok(name.map(|name| User { name, groups, extra, ..User::default() }))
}

fn proxied_user(headers: &HeaderMap, proxies: &Proxies) -> Option<User> {
    let values = |names: &[String]| -> Vec<String> {
        let found = names.iter().flat_map(|name| headers.get_all(name.trim()));
        found.filter_map(|value| value.to_str().ok()).filter(|v| !v.is_empty()).map(str::to_owned).collect()
    };
    let name = values(&proxies.username_headers).into_iter().next()?;
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (header, value) in headers {
        let header = header.as_str();
        let key = proxies
            .extra_prefixes
            .iter()
            .find_map(|prefix| header.strip_prefix(&prefix.to_ascii_lowercase()));
        if let (Some(key), Ok(value)) = (key, value.to_str()) {
            extra.entry(key.to_owned()).or_default().push(value.to_owned());
        }
    }
    let uid = values(&proxies.uid_headers).into_iter().next().unwrap_or_default();
    Some(User { name, uid, groups: values(&proxies.group_headers), extra })
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

/// Keeps the number of label values small.
fn compressed(name: &str) -> &str {
    match name {
        "admin" | "client" | "kube_proxy" | "kubelet" | "system:serviceaccount:kube-system:default" => name,
        _ if name.contains('@') => "email_id",
        _ => "other",
    }
}
