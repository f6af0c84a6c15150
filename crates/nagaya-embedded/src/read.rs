//! Reads, on snapshots and in parallel to the committing thread.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    ops::{Bound, ControlFlow},
    sync::Arc,
};

use nagaya_store::{
    ChangePage, ChangeRecord, Error, ErrorKind, Item, Key, KeyValue, Page, PagePosition, Query, Scan, StartPosition,
    limits,
};

use crate::{
    engine::Shared,
    layout::{self, Keyspace, TableId},
    record::{self, Change, Table, TrimPoint},
    storage::{View, break_if},
};

/// The size of items at which a page ends.
const MAX_PAGE_BYTES: usize = 1024 * 1024;

/// The tables, by name.
pub(crate) fn tables(view: &View<'_>) -> Result<HashMap<String, Arc<Table>>, Error> {
    let mut found = HashMap::new();
    view.scan_prefix(Keyspace::Meta, record::table_key(""), |_, value| {
        let table: Table = record::decode(value)?;
        found.insert(table.spec.name.clone(), Arc::new(table));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

pub(crate) fn get(shared: &Shared, table: &str, key: &Key) -> Result<Option<Item>, Error> {
    get_from(&shared.storage.view()?, shared, table, key, shared.options.clock.seconds())
}

/// The item with this key, unless it has expired.
fn get_from(view: &View<'_>, shared: &Shared, table: &str, key: &Key, now: i64) -> Result<Option<Item>, Error> {
    let table = shared.table(table)?;
    limits::check_key(&table.spec.key, key)?;
    let found = view.get(Keyspace::Items, &layout::item_key(table.id, key))?;
    let item = found.map(|value| record::decode_item(&value)).transpose()?;
    Ok(item.filter(|item| !table.spec.is_expired(item, now)))
}

pub(crate) fn batch_get(shared: &Shared, keys: &[(String, Key)]) -> Result<Vec<Option<Item>>, Error> {
    if keys.len() > limits::MAX_BATCH_GET {
        let (count, most) = (keys.len(), limits::MAX_BATCH_GET);
        return Err(Error::limit_exceeded(format!("a batch reads at most {most} items, not {count}")));
    }
    // One snapshot and one time for all keys, so that all actions of a write set are seen or none.
    let (view, now) = (shared.storage.view()?, shared.options.clock.seconds());
    keys.iter().map(|(table, key)| get_from(&view, shared, table, key, now)).collect()
}

pub(crate) fn query(shared: &Shared, query: &Query) -> Result<Page, Error> {
    let (table, view) = table_in_view(shared, &query.table)?;
    let index = match &query.index {
        None => None,
        Some(name) => {
            let at = table.spec.indexes.iter().position(|index| index.name == *name);
            let missing = || ErrorKind::NoIndex { table: query.table.clone(), index: name.clone() };
            let at = at.ok_or_else(missing)?;
            if !table.is_built(index_number(at)?) {
                return Err(missing().into());
            }
            Some(at)
        }
    };
    let schema = index.map_or(&table.spec.key, |at| &table.spec.indexes[at].key);
    limits::check_query(schema, query)?;
    let (space, number) = match index {
        None => (Keyspace::Items, None),
        Some(at) => (Keyspace::Index, Some(index_number(at)?)),
    };
    let partition = layout::partition_prefix(table.id, number, &query.partition);
    let (from, to) = layout::sort_bounds(&partition, &query.sort);
    let after = query.after.as_ref().map(|position| position_key(&table, number, position)).transpose()?;
    let (from, to) = match (after, query.descending) {
        (None, _) => (Bound::Included(from), to),
        (Some(after), false) if after >= from => (Bound::Excluded(after), to),
        // The position is before the range, so the range starts after it anyway.
        (Some(_), false) => (Bound::Included(from), to),
        (Some(after), true) => (Bound::Included(from), Some(to.map_or(after.clone(), |to| to.min(after)))),
    };
    let now = shared.options.clock.seconds();
    let mut pager = PageBuilder::new(query.limit);
    view.range(space, from, to, query.descending, |_, value| {
        let item = record::decode_item_like(pager.page.items.last(), value)?;
        if table.spec.is_expired(&item, now) {
            return Ok(ControlFlow::Continue(()));
        }
        let position = || position(&table, index, &item);
        let full = pager.count(value, position)?;
        if query.filter.as_ref().is_none_or(|filter| filter.is_satisfied_by(&item)) {
            pager.page.items.push(item);
        }
        break_if(full)
    })?;
    Ok(pager.page)
}

/// A table and a matching view: the state of an index may change between reading the two.
fn table_in_view<'s>(shared: &'s Shared, name: &str) -> Result<(Arc<Table>, View<'s>), Error> {
    loop {
        let table = shared.table(name)?;
        let view = shared.storage.view()?;
        if Arc::ptr_eq(&table, &shared.table(name)?) {
            return Ok((table, view));
        }
    }
}

/// A page that is being read, until it is full.
struct PageBuilder {
    page: Page,
    limit: Option<usize>,
    bytes: usize,
}

impl PageBuilder {
    fn new(limit: Option<usize>) -> Self {
        let items = Vec::with_capacity(limit.unwrap_or(0).min(100));
        PageBuilder { page: Page { items, ..Page::default() }, limit, bytes: 0 }
    }

    /// Counts an item by its stored size; returns whether the page is full.
    fn count(&mut self, stored: &[u8], position: impl FnOnce() -> Result<PagePosition, Error>) -> Result<bool, Error> {
        self.page.scanned_count += 1;
        self.bytes += stored.len();
        let full = self.limit.is_some_and(|limit| self.page.scanned_count >= limit) || self.bytes >= MAX_PAGE_BYTES;
        if full {
            self.page.next = Some(position()?);
        }
        Ok(full)
    }
}

/// The number of an index, as it is part of keys.
pub(crate) fn index_number(at: usize) -> Result<u8, Error> {
    u8::try_from(at).map_err(|_| Error::limit_exceeded("a table has at most 255 indexes"))
}

/// The byte key of a position.
fn position_key(table: &Table, index: Option<u8>, position: &PagePosition) -> Result<Vec<u8>, Error> {
    match (index, &position.index_key) {
        (None, None) => Ok(layout::item_key(table.id, &position.key)),
        (Some(index), Some(index_key)) => Ok(layout::index_entry_key(table.id, index, index_key, &position.key)),
        _ => Err(Error::invalid("the position belongs to another index than the query")),
    }
}

fn position(table: &Table, index: Option<usize>, item: &Item) -> Result<PagePosition, Error> {
    let damaged = || Error::engine("a stored item lacks its key");
    let key = table.spec.key.key_of(item).ok_or_else(damaged)?;
    let index_key = index.map(|at| table.spec.indexes[at].key_of(item).ok_or_else(damaged)).transpose()?;
    Ok(PagePosition { key, index_key })
}

pub(crate) fn scan(shared: &Shared, scan: &Scan) -> Result<Page, Error> {
    let table = shared.table(&scan.table)?;
    limits::check_scan(scan)?;
    let (segment, segments) = scan.segment;
    let prefix = layout::table_prefix(table.id);
    let end = layout::prefix_end(&prefix);
    let from = match &scan.after {
        None => Bound::Included(prefix),
        Some(after) => Bound::Excluded(position_key(&table, None, after)?),
    };
    let now = shared.options.clock.seconds();
    let mut pager = PageBuilder::new(scan.limit);
    // The prefix of the last partition, and whether it belongs to this segment: the items of others are skipped
    // undecoded.
    let mut last: Option<(Vec<u8>, bool)> = None;
    shared.storage.view()?.range(Keyspace::Items, from, end, false, |bytes, value| {
        let known = last.as_ref().filter(|(prefix, _)| bytes.starts_with(prefix)).map(|(_, is_own)| *is_own);
        if known == Some(false) {
            return Ok(ControlFlow::Continue(()));
        }
        let item = record::decode_item_like(pager.page.items.last(), value)?;
        let position = || position(&table, None, &item);
        // A partition belongs to one segment, so that segments can be written to other stores in parallel.
        if segments > 1 && known.is_none() {
            let partition = position()?.key.partition;
            let is_own = segment_of(&partition, segments) == segment;
            last = Some((layout::partition_prefix(table.id, None, &partition), is_own));
            if !is_own {
                return Ok(ControlFlow::Continue(()));
            }
        }
        if table.spec.is_expired(&item, now) {
            return Ok(ControlFlow::Continue(()));
        }
        let full = pager.count(value, position)?;
        pager.page.items.push(item);
        break_if(full)
    })?;
    Ok(pager.page)
}

fn segment_of(partition: &KeyValue, segments: u32) -> u32 {
    let mut hasher = DefaultHasher::new();
    partition.hash(&mut hasher);
    // The remainder is less than the number of segments, so it fits.
    (hasher.finish() % u64::from(segments)) as u32
}

pub(crate) fn changes(shared: &Shared, table: &str, from: &StartPosition, limit: usize) -> Result<ChangePage, Error> {
    let table = shared.table(table)?;
    let view = shared.storage.view()?;
    let trimmed = trim_point(&view, table.id)?.sequence;
    let mut last = match from {
        StartPosition::Oldest => trimmed,
        StartPosition::Latest => newest_sequence(&view, &table)?.max(trimmed),
        StartPosition::After(position) => {
            // A position of another store, or one in the future, has no meaning here.
            let read = shared.sequence_of(position).ok_or(ErrorKind::Gap)?;
            if read < trimmed || read > newest_sequence(&view, &table)?.max(trimmed) {
                return Err(ErrorKind::Gap.into());
            }
            read
        }
    };
    let mut records = Vec::new();
    if limit > 0 && !matches!(from, StartPosition::Latest) {
        let start = Bound::Excluded(layout::change_key(table.id, last));
        let end = layout::prefix_end(&layout::table_prefix(table.id));
        view.range(Keyspace::Changes, start, end, false, |key, value| {
            let sequence =
                layout::change_sequence(key).ok_or_else(|| Error::engine("a stored change has a damaged key"))?;
            let Change { key, old, new, cause, .. } = record::decode_change(value)?;
            records.push(ChangeRecord { key, old, new, cause, sequence: sequence.into() });
            last = sequence;
            break_if(records.len() >= limit)
        })?;
    }
    Ok(ChangePage { records, next: shared.position(last) })
}

/// The newest change of a table that has been removed.
pub(crate) fn trim_point(view: &View<'_>, table: TableId) -> Result<TrimPoint, Error> {
    Ok(view.get_decoded(Keyspace::Meta, &record::trim_point_key(table))?.unwrap_or_default())
}

/// The sequence number of the newest retained change of a table; 0 if there is none.
pub(crate) fn newest_sequence(view: &View<'_>, table: &Table) -> Result<u64, Error> {
    let newest = view.last_with_prefix(Keyspace::Changes, layout::table_prefix(table.id))?;
    Ok(newest.and_then(|(key, _)| layout::change_sequence(&key)).unwrap_or(0))
}
