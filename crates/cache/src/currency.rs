//! Whether a cache is up to date. It cannot know by itself: on a quiet resource a watch that lags and one that has
//! nothing to say look alike.

use std::time::Duration;

use flyball_api::ResourceVersion;
use tokio::time::{Instant, sleep, timeout};
use tracing::debug;

use crate::course::Course;
use crate::source::Source;

/// Between questions that got no answer.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// How long a cache may take to reach the version that the server has named before it is listed anew.
const PATIENCE: Duration = Duration::from_secs(5);

/// Completes when the cache has shown the state that the server had at a moment after `since`. However many wait, the
/// server is asked once.
///
/// It names its version by a list of one object. A quiet resource's watch tells that version only with the next
/// bookmark, so the reflector is asked to make haste.
pub(crate) async fn confirm(
    course: &Course,
    source: &dyn Source,
    since: Instant,
    reached: impl Fn() -> ResourceVersion,
) {
    let mut confirmed = course.confirmed.lock().await;
    let mut hasty = false;
    while confirmed.is_none_or(|moment| moment < since) {
        let asked = Instant::now();
        let version = match source.page(1, None).await {
            Ok(page) => page.version,
            Err(failure) => {
                debug!(resource = %course.resource, error = failure.chain(), "cannot ask for the present version");
                sleep(ASK_AGAIN).await;
                continue;
            }
        };
        if reached() < version {
            let call = if hasty { &course.doubts } else { &course.haste };
            call.notify_one();
            hasty = true;
        }
        if timeout(PATIENCE, course.milestones.wait(version, &reached)).await.is_ok() {
            *confirmed = Some(asked);
        }
    }
}
