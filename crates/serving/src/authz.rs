//! Authorization: open paths, administrators, else a SubjectAccessReview.

use std::time::Duration;

use flyball_api::ResourceType;
use flyball_client::Client;
use flyball_runtime::metrics::{
    AUTHORIZATION_ATTEMPTS, AUTHORIZATION_DURATION, AUTHZ_DURATION, AUTHZ_REQUESTS, Metrics,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    AuthorizationOptions, User, certs,
    reviews::{Cause, ReviewError, Reviewer},
    ttl::TtlCache,
};

const ACCESS_REVIEWS: ResourceType =
    ResourceType::new("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", false);
const MASTERS: &str = "system:masters";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    /// With the reason, which is often empty.
    Denied(String),
}

/// Finds out what users may do.
#[derive(Debug)]
pub struct Authorizer {
    open_paths: Vec<String>,
    reviews: Option<Reviewer>,
    /// By digest of user and path: anyone can send paths, and they may be long.
    allowed: TtlCache<Vec<u8>, Verdict>,
    /// Separate, so that invalid paths do not displace valid ones.
    denied: TtlCache<Vec<u8>, Verdict>,
    allow_ttl: Duration,
    deny_ttl: Duration,
    metrics: Metrics,
}

impl Authorizer {
    /// `reviews` sends SubjectAccessReviews. Without it, only open paths and administrators are allowed.
    pub fn new(options: &AuthorizationOptions, reviews: Option<Client>, metrics: Metrics) -> Self {
        Self {
            open_paths: options.always_allow_paths.clone(),
            reviews: reviews
                .map(|client| Reviewer::new(&client, (&AUTHZ_REQUESTS, &AUTHZ_DURATION), &metrics)),
            allowed: TtlCache::new(),
            denied: TtlCache::new(),
            allow_ttl: options.allow_cache_ttl,
            deny_ttl: options.deny_cache_ttl,
            metrics,
        }
    }

    /// Whether `user` may do `verb` (a lower-case HTTP method) on `path`.
    pub(super) async fn authorize(
        &self,
        user: &User,
        verb: &str,
        path: &str,
    ) -> Result<Verdict, ReviewError> {
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

    async fn decide(&self, user: &User, verb: &str, path: &str) -> Result<Verdict, ReviewError> {
        if user.groups.iter().any(|group| group == MASTERS) || self.is_open(path) {
            return Ok(Verdict::Allowed);
        }
        let Some(reviews) = &self.reviews else { return Ok(Verdict::Denied(String::new())) };
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
        let question = certs::sha256(body.to_string().as_bytes());
        if let Some(verdict) = question.as_ref().and_then(|question| self.remembered(question)) {
            return Ok(verdict);
        }
        let cause = if user.is_anonymous() { Cause::Stranger } else { Cause::Known };
        let review = reviews.review(cause, &ACCESS_REVIEWS, &body).await?;
        let verdict = verdict(&review["status"]);
        let (cache, ttl) = match verdict {
            Verdict::Allowed => (&self.allowed, self.allow_ttl),
            Verdict::Denied(_) => (&self.denied, self.deny_ttl),
        };
        if let Some(question) = question {
            cache.put(question, verdict.clone(), ttl);
        }
        Ok(verdict)
    }

    fn remembered(&self, question: &Vec<u8>) -> Option<Verdict> {
        self.allowed.get(question).or_else(|| self.denied.get(question))
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

/// Only an explicit `allowed: true` allows.
fn verdict(status: &Value) -> Verdict {
    let says = |field: &str| status[field].as_bool() == Some(true);
    match says("allowed") && !says("denied") {
        true => Verdict::Allowed,
        false => Verdict::Denied(status["reason"].as_str().unwrap_or_default().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_explicit_yes_allows() {
        let no = |reason: &str| Verdict::Denied(reason.to_owned());
        #[rustfmt::skip]
        let table = [
            (json!({"allowed": true}),                                      Verdict::Allowed),
            (json!({"allowed": true, "denied": false, "reason": "RBAC"}),   Verdict::Allowed),
            (json!({"allowed": false, "reason": "no rule"}),                no("no rule")),
            (json!({"allowed": true, "denied": true, "reason": "both"}),    no("both")),
            (json!({"allowed": "true"}),                                    no("")),
            (json!(null),                                                   no("")),
        ];
        for (status, want) in table {
            assert_eq!(verdict(&status), want, "{status}");
        }
    }
}
