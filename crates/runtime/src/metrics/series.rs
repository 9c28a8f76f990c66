//! The values: atomics behind cheap handles.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

#[derive(Debug, Clone)]
pub(super) enum Series {
    Counter(Counter),
    Gauge(Gauge),
    Histogram(Histogram),
}

impl Series {
    pub(super) fn new(kind: Kind, buckets: &'static [f64]) -> Self {
        match kind {
            Kind::Counter => Series::Counter(Counter::default()),
            Kind::Gauge => Series::Gauge(Gauge::default()),
            Kind::Histogram => Series::Histogram(Histogram::new(buckets)),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    pub fn inc(&self) {
        self.add(1);
    }

    pub fn add(&self, n: u64) {
        add_float(&self.0, n as f64);
    }

    /// For counts that are kept elsewhere and read by a scrape. The counter never decreases.
    pub fn at_least(&self, n: f64) {
        // Floats that are not negative are ordered as their bits are.
        self.0.fetch_max(n.max(0.0).to_bits(), Ordering::Relaxed);
    }

    pub fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

#[derive(Debug, Clone, Default)]
pub struct Gauge(Arc<AtomicU64>);

impl Gauge {
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    pub fn add(&self, delta: f64) {
        add_float(&self.0, delta);
    }

    pub fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

/// How often values fell under each bound, how many there were, and their sum.
#[derive(Debug, Clone)]
pub struct Histogram(Arc<Buckets>);

#[derive(Debug)]
struct Buckets {
    bounds: &'static [f64],
    /// One per bound, and one for what exceeds them all; not cumulative.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self(Arc::new(Buckets { bounds, counts, sum: AtomicU64::new(0) }))
    }

    pub fn observe(&self, value: f64) {
        let at = self.0.bounds.partition_point(|bound| *bound < value);
        self.0.counts[at].fetch_add(1, Ordering::Relaxed);
        add_float(&self.0.sum, value);
    }

    /// For counts that are kept elsewhere and read by a scrape: one per bound, and one for larger values.
    pub(super) fn set(&self, counts: &[u64], sum: f64) {
        for (own, count) in self.0.counts.iter().zip(counts) {
            own.store(*count, Ordering::Relaxed);
        }
        self.0.sum.store(sum.to_bits(), Ordering::Relaxed);
    }

    pub(super) fn sum(&self) -> f64 {
        f64::from_bits(self.0.sum.load(Ordering::Relaxed))
    }

    /// Bounds with the number of values not above them; the last is infinite and counts all.
    pub(super) fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let bounds = self.0.bounds.iter().copied().chain([f64::INFINITY]);
        bounds.zip(self.0.counts.iter()).scan(0, |total, (bound, count)| {
            *total += count.load(Ordering::Relaxed);
            Some((bound, *total))
        })
    }
}

fn add_float(bits: &AtomicU64, delta: f64) {
    let _ = bits.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| {
        Some((f64::from_bits(old) + delta).to_bits())
    });
}
