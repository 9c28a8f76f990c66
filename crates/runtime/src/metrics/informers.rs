//! Metrics of the caches, read at each scrape.

use flyball_api::ResourceType;
use flyball_cache::Informers;

use super::{
    INFORMER_JSON, INFORMER_LATENCY, INFORMER_OBJECTS, INFORMER_PANICS, INFORMER_QUEUED, INFORMER_RELISTS,
    INFORMER_UNDECODABLE, INFORMER_VERSION, Metrics,
};

/// As upstream: more digits are not exact in a float.
const VERSION_DIGITS: u64 = 1_000_000_000_000_000;

impl Metrics {
    pub fn watch_informers(&self, component: &'static str, informers: &Informers) {
        let informers = informers.clone();
        self.on_scrape(move |metrics| {
            for informer in informers.all() {
                let (resource, counts) = (informer.resource(), informer.counts());
                let guess = plural(resource);
                let labels = [&*resource.group, component, &guess, &resource.version];
                metrics.gauge(&INFORMER_QUEUED, &labels).set(0.0);
                #[expect(clippy::cast_precision_loss, reason = "15 digits")]
                let version = (informer.version_reached().0 % VERSION_DIGITS) as f64;
                metrics.gauge(&INFORMER_VERSION, &labels).set(version);
                let seconds = counts.delivery_time.as_secs_f64();
                metrics.histogram(&INFORMER_LATENCY, &labels).set(&counts.delivered, seconds);
                let resource = resource.to_string();
                metrics.counter(&INFORMER_PANICS, &[&resource]).at_least(counts.handler_panics as f64);
                metrics.counter(&INFORMER_JSON, &[&resource]).at_least(counts.json_fallbacks as f64);
                metrics.counter(&INFORMER_RELISTS, &[&resource]).at_least(counts.relists as f64);
                metrics.gauge(&INFORMER_OBJECTS, &[&resource]).set(counts.objects as f64);
                metrics.gauge(&INFORMER_UNDECODABLE, &[&resource]).set(counts.undecodable as f64);
            }
        });
    }
}

/// The plural that upstream's informers guess, wrong ones included: `endpointss`, `networkpolicys`.
fn plural(resource: &ResourceType) -> String {
    format!("{}s", resource.kind.to_lowercase())
}
