//! Following: what happens to the items of an entity, whoever's they are.
//!
//! Projections, search and the like follow what is written. They see all tenants, so only an operator begins to follow, and
//! that is written down once; what is read then is not, or every reading would be something to follow.

use std::sync::Arc;

use nagaya_store::{ChangePosition, From, Position, Scan};

use crate::{Error, Record, compiled::CompiledEntity, state::TenancyState, values};

/// Sees what happens to the items of an entity, or of several that lie in one table.
#[derive(Debug, Clone)]
pub struct Follower {
    pub(crate) house: Arc<TenancyState>,
    pub(crate) table: String,
    pub(crate) blueprints: Vec<Arc<CompiledEntity>>,
}

/// What happened to an item.
#[derive(Debug, Clone)]
pub struct Changed {
    /// Whose it is; empty where the entity has no tenants.
    pub tenant: String,
    /// The item before; `None`: it was made.
    pub old: Option<Record>,
    /// The item after; `None`: it is gone.
    pub new: Option<Record>,
}

/// Changes that were read at once.
#[derive(Debug, Clone)]
pub struct Followed {
    /// The changes of the entities' items, in order for each item.
    pub changes: Vec<Changed>,
    /// Where to go on.
    pub next: ChangePosition,
    /// How many changes were read, those of other entities included.
    pub read: usize,
}

/// Items that were read at once.
#[derive(Debug, Clone)]
pub struct Scanned {
    /// The entities' items with their tenants. All items of a partition follow each other, in order.
    pub records: Vec<(String, Record)>,
    /// Where to go on; `None`: that was all.
    pub next: Option<Position>,
}

impl Follower {
    /// What has happened, at least once, in order for each item.
    pub async fn changes(&self, from: From, limit: usize) -> Result<Followed, Error> {
        let read = self.house.store.changes(&self.table, from, limit).await?;
        let count = read.records.len();
        let changes = read.records.into_iter().filter_map(|change| {
            let old = change.old.and_then(|item| self.record(item));
            let new = change.new.and_then(|item| self.record(item));
            let (tenant, _) = new.as_ref().or(old.as_ref())?;
            let tenant = tenant.clone();
            Some(Changed { tenant, old: old.map(|(_, old)| old), new: new.map(|(_, new)| new) })
        });
        Ok(Followed { changes: changes.collect(), next: read.next, read: count })
    }

    /// A page of all items, part `segment.0` of `segment.1`.
    pub async fn scan(
        &self,
        segment: (u32, u32),
        after: Option<Position>,
        limit: Option<usize>,
    ) -> Result<Scanned, Error> {
        let scan = Scan { table: self.table.clone(), segment, limit, after };
        let page = self.house.store.scan(scan).await?;
        let records = page.items.into_iter().filter_map(|item| self.record(item)).collect();
        Ok(Scanned { records, next: page.next })
    }

    /// An item of the entities that came on another way than by [`Follower::changes`], and whose it is; `None` for whatever
    /// else lies in its table.
    pub fn record(&self, item: nagaya_store::Item) -> Option<(String, Record)> {
        let blueprint = self.blueprints.iter().find(|blueprint| blueprint.is_in_place(&item))?;
        let tenant = match blueprint.entity.tenant.as_deref() {
            Some(field) => values::lookup(&item, field)?.as_str()?.to_owned(),
            None => String::new(),
        };
        Some((tenant, Record::new(Arc::clone(blueprint), item)))
    }
}
