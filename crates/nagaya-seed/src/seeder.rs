//! The trait that a system implements for its own sample data.

use futures_util::future::LocalBoxFuture;
use nagaya_tenancy::Tenant;

use crate::Rng;

/// Why sample data could not be written.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Writes sample data of some entities, tenant by tenant.
pub trait Seeder: Send + Sync {
    /// The entities that it writes. Nothing else fills them.
    fn entities(&self) -> &'static [&'static str];

    /// The entities that the system itself derives from those. Nothing else fills them.
    fn derived_entities(&self) -> &'static [&'static str] {
        &[]
    }

    /// How many items of each entity a tenant gets by default, if not as many as of all other entities.
    fn default_items(&self) -> Option<usize> {
        None
    }

    /// The first item that is written for a tenant: its entity and its id. An earlier run is recognized by it.
    fn marker(&self, context: &SeedContext<'_>) -> (&'static str, Vec<String>);

    /// The writes for a tenant. A step whose items exist changes nothing.
    fn steps<'s>(&'s self, tenant: &'s Tenant, context: SeedContext<'s>) -> SeedSteps<'s>;
}

/// One write, which happens when it is awaited.
pub type SeedStep<'s> = LocalBoxFuture<'s, Result<Vec<SeededItem>, Error>>;

/// The writes for a tenant, in order.
pub type SeedSteps<'s> = Box<dyn ExactSizeIterator<Item = SeedStep<'s>> + 's>;

/// What the sample data of a tenant depends on.
#[derive(Debug, Clone, Copy)]
pub struct SeedContext<'c> {
    /// The number that all chance comes from.
    pub seed: u64,
    /// The names of all tenants.
    pub tenants: &'c [String],
    /// The index of this tenant.
    pub index: usize,
    /// The day that the data leads up to, in milliseconds since 1970.
    pub until: i64,
    /// The wanted number of items of each entity; fewer, if there are not enough different ones.
    pub items: usize,
}

impl<'c> SeedContext<'c> {
    /// The name of this tenant.
    pub fn tenant(&self) -> &'c str {
        self.tenants.get(self.index).map_or("", String::as_str)
    }

    /// The chance of the n-th item of a kind.
    pub fn rng_for_item(&self, kind: &str, n: usize) -> Rng {
        Rng::new(self.seed, &[self.tenant(), kind], [n, 0])
    }
}

/// What became of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeededItem {
    /// Its entity.
    pub entity: &'static str,
    /// Whether this run created it.
    pub was_created: bool,
    /// Whether it was deleted in the end.
    pub deleted: bool,
}
