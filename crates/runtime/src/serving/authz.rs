//! Whether a user may see a page: open paths, administrators, and else whatever the API server says.

use std::time::Duration;

use flyball_api::ResourceType;
use flyball_client::{Client, Error};
use serde_json::json;
use tokio::time::Instant;

use super::{
    AuthorizationOptions,
    authn::{User, review},
    ttl::TtlCache,
};
use crate::metrics::{
    AUTHORIZATION_ATTEMPTS, AUTHORIZATION_DURATION, AUTHZ_DURATION, AUTHZ_REQUESTS, Metrics,
};

const ACCESS_REVIEWS: ResourceType =
    ResourceType::new("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", false);
const MASTERS: &str = "system:masters";
/// Longer questions are not remembered: they can only be made up.
const LONGEST_CACHED: usize = 10_000;

/// What the user may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    /// With the reason given, often none.
    Denied(String),
}

/// Finds out what users may do.
#[derive(Debug)]
pub struct Authorizer {
    open_paths: Vec<String>,
    reviews: Option<Client>,
    cache: TtlCache<Question, Verdict>,
    allow_ttl: Duration,
    deny_ttl: Duration,
    metrics: Metrics,
}

type Question = (User, String, String);

impl Authorizer {
    /// By the options; `reviews` sends SubjectAccessReviews. Without it, only open paths and administrators pass.
    pub fn new(options: &AuthorizationOptions, reviews: Option<Client>, metrics: Metrics) -> Self {
        Self {
            open_paths: options.always_allow_paths.clone(),
            reviews,
            cache: TtlCache::new(),
            allow_ttl: options.allow_cache_ttl,
            deny_ttl: options.deny_cache_ttl,
            metrics,
        }
    }

    /// Whether `user` may do `verb` (a lower-case HTTP method) on `path`.
    pub(super) async fn authorize(&self, user: &User, verb: &str, path: &str) -> Result<Verdict, Error> {
        let start = Instant::now();
        let result = self.decide(user, verb, path).await;
        let outcome = match &result {
            Ok(Verdict::Allowed) => "allowed",
            Ok(Verdict::Denied(_)) => "no-opinion",
            Err(_) => "error",
        };
        self.metrics.counter(&AUTHORIZATION_ATTEMPTS, &[outcome]).inc();
        self.metrics.histogram(&AUTHORIZATION_DURATION, &[outcome]).observe(start.elapsed().as_secs_f64());
        result
    }

    async fn decide(&self, user: &User, verb: &str, path: &str) -> Result<Verdict, Error> {
        if user.groups.iter().any(|group| group == MASTERS) || self.is_open(path) {
            return Ok(Verdict::Allowed);
        }
        let Some(reviews) = &self.reviews else { return Ok(Verdict::Denied(String::new())) };
        let question = (user.clone(), verb.to_owned(), path.to_owned());
        if let Some(verdict) = self.cache.get(&question) {
            return Ok(verdict);
        }
        let body = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user.name,
                "uid": user.uid,
                "groups": user.groups,
                "extra": user.extra,
                "nonResourceAttributes": { "path": path, "verb": verb },
            },
        });
        let counted = (&AUTHZ_REQUESTS, &AUTHZ_DURATION);
        let review = review(reviews, &ACCESS_REVIEWS, &body, &self.metrics, counted).await?;
        let status = &review["status"];
        let (verdict, ttl) = match status["allowed"].as_bool() {
            Some(true) => (Verdict::Allowed, self.allow_ttl),
            _ => (Verdict::Denied(status["reason"].as_str().unwrap_or_default().to_owned()), self.deny_ttl),
        };
        if path.len() + user.name.len() < LONGEST_CACHED {
            self.cache.put(question, verdict.clone(), ttl);
        }
        Ok(verdict)
    }

    fn is_open(&self, path: &str) -> bool {
        let path = path.strip_prefix('/').unwrap_or(path);
        self.open_paths.iter().any(|open| {
            let open = open.strip_prefix('/').unwrap_or(open);
            match open.strip_suffix('*') {
                Some(prefix) => path.starts_with(prefix),
                None => path == open,
            }
        })
    }
}
