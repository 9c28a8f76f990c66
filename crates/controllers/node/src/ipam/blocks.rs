//! One cluster CIDR divided into equal blocks: which are in use, and which is allocated next. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;

/// Some blocks in a row, by number.
pub type Span = RangeInclusive<u64>;

/// The blocks of one cluster CIDR. A block may have several holders (nodes to which a user gave the same podCIDR, a Service
/// CIDR), and is free when the last one is gone.
#[derive(Debug, Clone)]
pub struct Blocks {
    cluster: IpNet,
    length: u8,
    total: u64,
    /// How many holders a block has, by its number.
    single: BTreeMap<u64, u32>,
    /// Holdings of more than one block: few, and perhaps very long.
    wide: Vec<Span>,
    used: u64,
    next: u64,
    allocations: u64,
    releases: u64,
    /// How many blocks in use each search has skipped.
    searches: Vec<u64>,
}

impl Blocks {
    /// All blocks with a prefix of `length` bits in `cluster`; `None` if there is no such division.
    pub fn new(cluster: IpNet, length: u8) -> Option<Self> {
        let cluster = cluster.trunc();
        let bits = length.checked_sub(cluster.prefix_len())?;
        // 2^128 addresses cannot be counted in 128 bits, and no cluster needs more than 2^32 blocks.
        if bits > 32 || length > cluster.max_prefix_len() || length == 0 {
            return None;
        }
        Some(Self {
            cluster,
            length,
            total: 1 << bits,
            single: BTreeMap::new(),
            wide: vec![],
            used: 0,
            next: 0,
            allocations: 0,
            releases: 0,
            searches: vec![],
        })
    }

    /// The CIDR that is divided.
    pub fn cluster(&self) -> IpNet {
        self.cluster
    }

    /// How many blocks there are.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How many of them are in use.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// How often a block came into use, and how often it became free.
    pub fn turnover(&self) -> (u64, u64) {
        (self.allocations, self.releases)
    }

    pub fn take_searches(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.searches)
    }

    /// The CIDR of a block.
    pub fn network(&self, block: u64) -> IpNet {
        let first = number(self.cluster.network()) | u128::from(block) << self.host_bits();
        let address = match self.cluster {
            IpNet::V4(_) => IpAddr::V4(u32::try_from(first).unwrap_or(u32::MAX).into()),
            IpNet::V6(_) => IpAddr::V6(first.into()),
        };
        // `new` has checked that the length fits the family.
        IpNet::new(address, self.length).unwrap_or(self.cluster)
    }

    /// The blocks that overlap `range`; `None` if there are none.
    pub fn overlapping(&self, range: &IpNet) -> Option<Span> {
        let is_same_family =
            matches!((range, &self.cluster), (IpNet::V4(_), IpNet::V4(_)) | (IpNet::V6(_), IpNet::V6(_)));
        if !is_same_family {
            return None;
        }
        if range.contains(&self.cluster) {
            return Some(0..=self.total - 1);
        }
        let block = |address| {
            u64::try_from((number(address) - number(self.cluster.network())) >> self.host_bits()).ok()
        };
        self.cluster.contains(range).then_some(())?;
        Some(block(range.network())?..=block(range.broadcast())?)
    }

    /// Counts one more node that has these blocks.
    pub fn occupy(&mut self, span: &Span) {
        let new = self.free_in(span);
        match is_wide(span) {
            true => self.wide.push(span.clone()),
            false => *self.single.entry(*span.start()).or_default() += 1,
        }
        self.used += new;
        self.allocations += new;
    }

    /// Counts one node less that has these blocks.
    pub fn vacate(&mut self, span: &Span) {
        if is_wide(span) {
            let Some(at) = self.wide.iter().position(|held| held == span) else { return };
            self.wide.swap_remove(at);
        } else {
            let Some(holders) = self.single.get_mut(span.start()) else { return };
            *holders -= 1;
            if *holders == 0 {
                self.single.remove(span.start());
            }
        }
        let freed = self.free_in(span);
        self.used -= freed;
        self.releases += freed;
    }

    /// Whether the block has more than one holder.
    pub fn is_shared(&self, block: u64) -> bool {
        self.single.get(&block).is_some_and(|holders| *holders > 1)
            || self.wide.iter().any(|held| held.contains(&block))
    }

    /// Allocates the next free block after the last one. So a released block is used again late: its addresses may still be
    /// in other caches.
    pub fn take(&mut self) -> Option<u64> {
        let block = self.first_free(self.next).or_else(|| self.first_free(0))?;
        self.searches.push((block + self.total - self.next) % self.total);
        self.occupy(&(block..=block));
        self.next = (block + 1) % self.total;
        Some(block)
    }

    fn first_free(&self, from: u64) -> Option<u64> {
        let mut block = from;
        while block < self.total {
            let covered = self.wide.iter().filter(|held| held.contains(&block)).map(|held| *held.end()).max();
            block = match covered {
                Some(end) => end.checked_add(1)?,
                None if self.single.contains_key(&block) => block + 1,
                None => return Some(block),
            };
        }
        None
    }

    /// How many blocks of a span are free.
    fn free_in(&self, span: &Span) -> u64 {
        let is_covered = |block: &u64| self.wide.iter().any(|held| held.contains(block));
        if !is_wide(span) {
            let block = span.start();
            return u64::from(!self.single.contains_key(block) && !is_covered(block));
        }
        let alone = self.single.range(span.clone()).filter(|(block, _)| !is_covered(block)).count();
        let mut free = length(span).saturating_sub(alone as u64);
        let clipped = |held: &Span| {
            let (start, end) = (*held.start().max(span.start()), *held.end().min(span.end()));
            (start <= end).then_some((start, end))
        };
        let mut held: Vec<(u64, u64)> = self.wide.iter().filter_map(clipped).collect();
        held.sort_unstable();
        let mut counted_to = None;
        for (start, end) in held {
            let start = counted_to.map_or(start, |to: u64| start.max(to.saturating_add(1)));
            free = free.saturating_sub((end + 1).saturating_sub(start));
            counted_to = Some(counted_to.map_or(end, |to: u64| to.max(end)));
        }
        free
    }

    fn host_bits(&self) -> u8 {
        self.cluster.max_prefix_len() - self.length
    }
}

fn is_wide(span: &Span) -> bool {
    span.start() != span.end()
}

fn length(span: &Span) -> u64 {
    span.end() - span.start() + 1
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}
