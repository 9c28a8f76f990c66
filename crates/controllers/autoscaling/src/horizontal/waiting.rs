//! What an autoscaler is waiting for, for `/debug/waiting`. Pure.

use flyball_api::horizontal_pod_autoscaler::HorizontalPodAutoscaler;
use flyball_api::{Object, Timestamp};
use flyball_runtime::Waiting;
use flyball_runtime::decisions::Subject;
use jiff::SignedDuration;

use super::decision::{Recommendation, View, target_key};
use super::normalize::{Limit, Normalized};

/// What the autoscaler is waiting for: the end of limits that apply to the recommendation, and the next sync.
pub(super) fn waiting(
    view: &View<'_>,
    recommendation: &Recommendation,
    normalized: &Normalized,
) -> Vec<Waiting> {
    let Recommendation { replicas: recommended, metric, unchanged } = recommendation;
    let autoscaler = |until: String| Waiting::on::<HorizontalPodAutoscaler>(&view.hpa.key(), until);
    let held = normalized.held.as_ref().map(|held| {
        let when = format!(
            "when the recommendation of {} replicas leaves the stabilization window; {recommended} are recommended now",
            held.replicas
        );
        Waiting::until(held.until, when)
    });
    let replicas = normalized.replicas;
    let limited = normalized.is_limited.then_some(normalized.limit).and_then(|limit| match limit {
        Limit::Nothing => None,
        Limit::Max => Some(autoscaler(format!("to allow more than {replicas} replicas"))),
        Limit::Min => Some(autoscaler(format!("to allow fewer than {replicas} replicas"))),
        Limit::UpRate => Some(next_sync(
            view,
            format!("when more than {replicas} replicas may be allowed by the scale-up rate"),
        )),
        Limit::DownRate => Some(next_sync(
            view,
            format!("when fewer than {replicas} replicas may be allowed by the scale-down rate"),
        )),
    });
    let unchanged = unchanged.map(|why| format!(": {why}")).unwrap_or_default();
    let metrics =
        format!("when the metrics are read again; {metric} calls for {recommended} replicas{unchanged}");
    held.into_iter().chain(limited).chain([next_sync(view, metrics)]).collect()
}

pub(super) fn next_sync(view: &View<'_>, when: impl Into<std::borrow::Cow<'static, str>>) -> Waiting {
    let period = SignedDuration::try_from(view.settings.period).unwrap_or(SignedDuration::MAX);
    Waiting::until(view.now.checked_add(period).unwrap_or(Timestamp::MAX), when)
}

/// The workload has zero replicas, which the autoscaler has not set.
pub(super) fn disabled(hpa: &HorizontalPodAutoscaler) -> Waiting {
    let target = &hpa.spec.scale_target_ref;
    Waiting::Object {
        object: Subject::new(target.kind.clone(), &target_key(hpa)),
        until: "to be scaled up from zero replicas; until then autoscaling is disabled".into(),
    }
}
