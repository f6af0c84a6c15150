//! Where changes and stored items of all tenants are read from.

use std::sync::Arc;

use nagaya_store::{ChangePosition, KeyValue, PagePosition, Query, Scan, SortCondition, StartPosition};

use crate::{Error, Record, TenancyFuture, compiled::CompiledEntity, state::TenancyState, values};

/// Reads the changes and the stored items of an entity, or of several in one table, of all tenants.
#[derive(Debug, Clone)]
pub struct ChangeSource {
    pub(crate) state: Arc<TenancyState>,
    pub(crate) table: String,
    pub(crate) entities: Vec<Arc<CompiledEntity>>,
}

/// A change of an item.
#[derive(Debug, Clone)]
pub struct ItemChange {
    /// The tenant that owns it; empty where the entity has no tenants.
    pub tenant: String,
    /// The item before; `None`: it was created.
    pub old: Option<Record>,
    /// The item after; `None`: it was deleted.
    pub new: Option<Record>,
}

/// A page of changes.
#[derive(Debug, Clone)]
pub struct ItemChangePage {
    /// The changes of the entities' items, in order for each item.
    pub changes: Vec<ItemChange>,
    /// The position of the next page.
    pub next: ChangePosition,
    /// How many changes were read, those of other entities included.
    pub read: usize,
}

/// A page of stored items.
#[derive(Debug, Clone)]
pub struct ScanPage {
    /// The entities' items with their tenants. All items of a partition come together, in order.
    pub records: Vec<(String, Record)>,
    /// The position of the next page; `None`: this is the last one.
    pub next: Option<PagePosition>,
}

impl ChangeSource {
    /// A page of changes, each at least once, in order for each item.
    pub fn changes(&self, from: StartPosition, limit: usize) -> TenancyFuture<'_, ItemChangePage> {
        Box::pin(async move {
            let read = self.state.store.changes(&self.table, from, limit).await?;
            let count = read.records.len();
            let changes = read.records.into_iter().filter_map(|change| self.change(change.old, change.new));
            Ok(ItemChangePage { changes: changes.collect(), next: read.next, read: count })
        })
    }

    /// A page of all stored items, segment `segment.0` of `segment.1`.
    pub fn scan(
        &self,
        segment: (u32, u32),
        after: Option<PagePosition>,
        limit: Option<usize>,
    ) -> TenancyFuture<'_, ScanPage> {
        Box::pin(async move {
            let scan = Scan { table: self.table.clone(), segment, limit, after };
            let page = self.state.store.scan(scan).await?;
            let records = page.items.into_iter().filter_map(|item| self.record(item)).collect();
            Ok(ScanPage { records, next: page.next })
        })
    }

    /// A page of the stored items in one partition of the table, in order. The fields are those of the first entity's partition
    /// key.
    pub fn partition<'a>(
        &'a self,
        fields: &'a [(&'a str, &'a str)],
        after: Option<PagePosition>,
        limit: Option<usize>,
    ) -> TenancyFuture<'a, ScanPage> {
        Box::pin(async move {
            let Some(first) = self.entities.first() else { return Ok(ScanPage { records: Vec::new(), next: None }) };
            let key = first.entity.key.partition.render(fields);
            let query = Query {
                table: self.table.clone(),
                index: None,
                partition: KeyValue::from(key.map_err(|unfit| Error::problem(unfit.field, unfit.reason))?),
                sort: SortCondition::Any,
                descending: false,
                filter: None,
                limit,
                after,
            };
            let page = self.state.store.query(query).await?;
            let records = page.items.into_iter().filter_map(|item| self.record(item)).collect();
            Ok(ScanPage { records, next: page.next })
        })
    }

    /// A change that came in another way than by [`ChangeSource::changes`], such as a record of a stream: the item before and
    /// after it. `None` for items of other entities in the table.
    pub fn change(&self, old: Option<nagaya_store::Item>, new: Option<nagaya_store::Item>) -> Option<ItemChange> {
        let old = old.and_then(|item| self.record(item));
        let new = new.and_then(|item| self.record(item));
        let (tenant, _) = new.as_ref().or(old.as_ref())?;
        let tenant = tenant.clone();
        Some(ItemChange { tenant, old: old.map(|(_, old)| old), new: new.map(|(_, new)| new) })
    }

    /// The table.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// An item with its tenant.
    fn record(&self, item: nagaya_store::Item) -> Option<(String, Record)> {
        let compiled = self.entities.iter().find(|compiled| compiled.is_in_place(&item))?;
        let tenant = match compiled.entity.tenant.as_deref() {
            Some(field) => values::lookup(&item, field)?.as_str()?.to_owned(),
            None => String::new(),
        };
        Some((tenant, Record::new(Arc::clone(compiled), item)))
    }
}
