//! What `/healthz?verbose` says about the caches: which have objects that cannot be decoded, and which do not follow the server.
//! Neither fails a check, since a restart would not help.

use std::time::Duration;

use flyball_cache::Informers;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The result is cached this long: the page is public, and reading all caches takes locks that controllers need.
const RECHECK_AFTER: Duration = Duration::from_secs(1);
/// How long lists or watches must have failed. A restart of the API server is shorter.
const FAILING_FOR: Duration = Duration::from_secs(30);
/// So many resources are named.
const NAMED: usize = 10;

pub(crate) struct CacheRemark {
    informers: Informers,
    latest: Mutex<Option<(Instant, Option<String>)>>,
}

struct Cache {
    resource: String,
    undecodable: usize,
    failing_for: Duration,
}

impl CacheRemark {
    pub(crate) fn new(informers: Informers) -> Self {
        Self { informers, latest: Mutex::default() }
    }

    /// `None` if there is nothing to say.
    pub(crate) fn get(&self) -> Option<String> {
        let mut latest = self.latest.lock();
        if let Some((_, remark)) = latest.as_ref().filter(|(at, _)| at.elapsed() < RECHECK_AFTER) {
            return remark.clone();
        }
        let caches = self.informers.all().into_iter().map(|cache| Cache {
            resource: cache.resource().to_string(),
            undecodable: cache.counts().undecodable,
            failing_for: cache.health().failing.map_or(Duration::ZERO, |failing| failing.since),
        });
        let remark = remark(&caches.collect::<Vec<_>>());
        *latest = Some((Instant::now(), remark.clone()));
        remark
    }
}

fn remark(caches: &[Cache]) -> Option<String> {
    let undecodable = caches.iter().filter(|cache| cache.undecodable > 0);
    let undecodable = undecodable.map(|cache| format!("{} of {}", cache.undecodable, cache.resource));
    let failing = caches.iter().filter(|cache| cache.failing_for > FAILING_FOR);
    let failing = failing.map(|cache| format!("{} ({} s)", cache.resource, cache.failing_for.as_secs()));
    let remarks: Vec<String> = [
        ("objects that cannot be decoded", undecodable.collect::<Vec<_>>()),
        ("lists or watches fail", failing.collect()),
    ]
    .into_iter()
    .filter(|(_, named)| !named.is_empty())
    .map(|(what, named)| format!("{what}: {}", shortened(&named)))
    .collect();
    (!remarks.is_empty()).then(|| remarks.join("; "))
}

fn shortened(named: &[String]) -> String {
    let (first, more) = named.split_at(named.len().min(NAMED));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    format!("{}{more}", first.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_with_undecodable_objects_and_failing_ones_are_named_and_no_others() {
        let cache = |(resource, undecodable, failing_for): &(&str, usize, u64)| Cache {
            resource: (*resource).to_owned(),
            undecodable: *undecodable,
            failing_for: Duration::from_secs(*failing_for),
        };
        let many: Vec<(&str, usize, u64)> = (0..12).map(|_| ("pods", 1, 0)).collect();
        let one_of_pods = ["1 of pods"; 10].join(", ");
        type Row<'a> = (&'a [(&'a str, usize, u64)], Option<String>);
        #[rustfmt::skip]
        let table: [Row<'_>; 5] = [
            (&[("pods", 0, 0)],                            None),
            (&[("pods", 0, 20)],                           None),
            (&[("pods", 1, 0), ("widgets.test", 2, 0)],    Some("objects that cannot be decoded: 1 of pods, 2 of widgets.test".into())),
            (&[("pods", 3, 95), ("nodes", 0, 0)],          Some("objects that cannot be decoded: 3 of pods; lists or watches fail: pods (95 s)".into())),
            (&many,                                        Some(format!("objects that cannot be decoded: {one_of_pods} and 2 more"))),
        ];
        for (caches, want) in table {
            assert_eq!(remark(&caches.iter().map(cache).collect::<Vec<_>>()), want);
        }
    }
}
