//! The report of a check of a projection against its events.

use serde_json::{Map, Value as Json};

use crate::chain;

/// The report of a check of a projection against its events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerificationReport {
    /// The generation that was checked.
    pub generation: u32,
    /// Events that were read.
    pub events: u64,
    /// Aggregates that were checked.
    pub aggregates: u64,
    /// The items that the events give.
    pub expected: ItemsDigest,
    /// The items that are stored.
    pub found: ItemsDigest,
    /// Some of the items that differ, in order.
    pub mismatches: Vec<Mismatch>,
    /// How many differ.
    pub mismatch_count: u64,
    /// Aggregates that are parked, and therefore not up to date.
    pub parked: u64,
    /// Aggregates whose events are not all applied yet. Those that do not differ otherwise are in `mismatches` as well.
    pub behind: u64,
}

/// The number of items, and a hash over all of them that does not depend on their order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ItemsDigest {
    /// How many.
    pub items: u64,
    hash: [u64; 4],
}

/// An item that differs from its events.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mismatch {
    /// The tenant that owns it.
    pub tenant: String,
    /// The aggregate.
    pub aggregate: String,
    /// What differs.
    pub why: &'static str,
}

/// How many items a report names.
const MAX_NAMED_MISMATCHES: usize = 20;

impl ItemsDigest {
    /// Of one item, or of none.
    pub(crate) fn of_item(tenant: &str, id: &str, item: Option<&Map<String, Json>>) -> Self {
        let mut content = ItemsDigest::default();
        content.add(tenant, id, item);
        content
    }

    pub(crate) fn add(&mut self, tenant: &str, id: &str, item: Option<&Map<String, Json>>) {
        let Some(item) = item else { return };
        self.items += 1;
        let fields = chain::canonical(item);
        let mut text = String::with_capacity(tenant.len() + id.len() + fields.len() + 16);
        for part in [tenant, id, &fields] {
            // Each part is prefixed with its length, so that moving bytes from one part to the next changes the hash.
            text.extend([&part.len().to_string(), ":", part]);
        }
        let hash = blake3::hash(text.as_bytes());
        // A sum does not depend on the order, and unlike XOR counts an item that comes twice.
        for (sum, part) in self.hash.iter_mut().zip(hash.as_bytes().chunks_exact(8)) {
            let part = part.try_into().map(u64::from_be_bytes).unwrap_or_default();
            *sum = sum.wrapping_add(part);
        }
    }

    pub(crate) fn merge(&mut self, other: &ItemsDigest) {
        self.items += other.items;
        for (sum, part) in self.hash.iter_mut().zip(other.hash) {
            *sum = sum.wrapping_add(part);
        }
    }

    /// The hash as text.
    pub fn hash(&self) -> String {
        self.hash.iter().map(|part| format!("{part:016x}")).collect()
    }
}

impl VerificationReport {
    /// Whether the projection matches its events.
    pub fn is_consistent(&self) -> bool {
        self.expected == self.found && self.mismatch_count == 0 && self.parked == 0
    }

    pub(crate) fn merge(&mut self, other: VerificationReport) {
        self.events += other.events;
        self.aggregates += other.aggregates;
        self.expected.merge(&other.expected);
        self.found.merge(&other.found);
        self.mismatch_count += other.mismatch_count;
        self.parked += other.parked;
        self.behind += other.behind;
        let free = MAX_NAMED_MISMATCHES.saturating_sub(self.mismatches.len());
        self.mismatches.extend(other.mismatches.into_iter().take(free));
    }

    pub(crate) fn add_mismatch(&mut self, tenant: &str, aggregate: &str, why: &'static str) {
        self.mismatch_count += 1;
        if self.mismatches.len() < MAX_NAMED_MISMATCHES {
            self.mismatches.push(Mismatch { tenant: tenant.to_owned(), aggregate: aggregate.to_owned(), why });
        }
    }
}
