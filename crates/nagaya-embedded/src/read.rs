//! Reading: on snapshots, beside the committing thread.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    ops::{Bound, ControlFlow},
    sync::Arc,
};

use nagaya_store::{
    ChangeRecord, Changes, Error, ErrorKind, From, Item, Key, KeyValue, Page, Position, Query, Scan, limits,
};

use crate::{
    backing::View,
    engine::Shared,
    layout::{self, Space, TableId},
    record::{self, Change, Table, Trimmed},
};

/// Bytes of items after which a page ends.
const PAGE_BYTES: usize = 1024 * 1024;

pub(crate) fn tables(view: &View<'_>) -> Result<HashMap<String, Arc<Table>>, Error> {
    let mut found = HashMap::new();
    let prefix = record::table_key("");
    let end = layout::after_prefix(&prefix);
    view.range(Space::Meta, Bound::Included(prefix), end, false, |_, value| {
        let table: Table = record::decode(value)?;
        found.insert(table.spec.name.clone(), Arc::new(table));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

pub(crate) fn get(shared: &Shared, table: &str, key: &Key) -> Result<Option<Item>, Error> {
    let table = shared.table(table)?;
    limits::check_key(&table.spec.key, key)?;
    let found = shared
        .backing
        .view()?
        .get(Space::Items, &layout::item(table.id, key))?
        .map(|value| record::decode_item(&value))
        .transpose()?;
    Ok(alive(&table, found, shared.options.clock.seconds()))
}

pub(crate) fn batch_get(shared: &Shared, keys: &[(String, Key)]) -> Result<Vec<Option<Item>>, Error> {
    if keys.len() > limits::MAX_BATCH_GET {
        let (count, most) = (keys.len(), limits::MAX_BATCH_GET);
        return Err(Error::limit(format!("a batch reads at most {most} items, not {count}")));
    }
    let now = shared.options.clock.seconds();
    // One snapshot for all, so that a write set is seen wholly or not at all.
    let view = shared.backing.view()?;
    let read = |(table, key): &(String, Key)| {
        let table = shared.table(table)?;
        limits::check_key(&table.spec.key, key)?;
        let found = view
            .get(Space::Items, &layout::item(table.id, key))?
            .map(|value| record::decode_item(&value))
            .transpose()?;
        Ok(alive(&table, found, now))
    };
    keys.iter().map(read).collect()
}

/// The item, unless it has expired.
pub(crate) fn alive(table: &Table, item: Option<Item>, now: i64) -> Option<Item> {
    item.filter(|item| !table.spec.is_expired(item, now))
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
        None => (Space::Items, None),
        Some(at) => (Space::Index, Some(index_number(at)?)),
    };
    let partition = layout::partition(table.id, number, &query.partition);
    let (from, to) = layout::bounds(&partition, &query.sort);
    let after = query.after.as_ref().map(|position| place(&table, number, position)).transpose()?;
    let (from, to) = match (after, query.descending) {
        (None, _) => (Bound::Included(from), to),
        (Some(after), false) if after >= from => (Bound::Excluded(after), to),
        // A position before the range is one that the range itself passes over.
        (Some(_), false) => (Bound::Included(from), to),
        (Some(after), true) => (Bound::Included(from), Some(to.map_or(after.clone(), |to| to.min(after)))),
    };
    let now = shared.options.clock.seconds();
    let mut pager = Pager::new(query.limit);
    view.range(space, from, to, query.descending, |_, value| {
        let item = record::decode_item_like(pager.page.items.last(), value)?;
        if table.spec.is_expired(&item, now) {
            return Ok(ControlFlow::Continue(()));
        }
        let position = || position(&table, index, &item);
        let full = pager.count(value, position)?;
        if query.filter.as_ref().is_none_or(|filter| filter.holds(&item)) {
            pager.page.items.push(item);
        }
        Ok(if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(pager.page)
}

/// A table, and a view in which it is like that: an index may have been built, or begun to be built anew, in between.
fn table_in_view<'s>(shared: &'s Shared, name: &str) -> Result<(Arc<Table>, View<'s>), Error> {
    loop {
        let table = shared.table(name)?;
        let view = shared.backing.view()?;
        if Arc::ptr_eq(&table, &shared.table(name)?) {
            return Ok((table, view));
        }
    }
}

/// Counts what is read, and ends the page when it is full.
struct Pager {
    page: Page,
    limit: Option<usize>,
    bytes: usize,
}

impl Pager {
    fn new(limit: Option<usize>) -> Self {
        let items = Vec::with_capacity(limit.unwrap_or(0).min(100));
        Pager { page: Page { items, ..Page::default() }, limit, bytes: 0 }
    }

    /// Counts an item by the bytes that it is stored in.
    fn count(&mut self, stored: &[u8], position: impl FnOnce() -> Result<Position, Error>) -> Result<bool, Error> {
        self.page.read += 1;
        self.bytes += stored.len();
        let full = self.limit.is_some_and(|limit| self.page.read >= limit) || self.bytes >= PAGE_BYTES;
        if full {
            self.page.next = Some(position()?);
        }
        Ok(full)
    }
}

/// The number of an index in keys.
pub(crate) fn index_number(at: usize) -> Result<u8, Error> {
    u8::try_from(at).map_err(|_| Error::limit("a table has at most 255 indexes"))
}

/// The byte key of a position.
fn place(table: &Table, index: Option<u8>, position: &Position) -> Result<Vec<u8>, Error> {
    match (index, &position.index_key) {
        (None, None) => Ok(layout::item(table.id, &position.key)),
        (Some(index), Some(index_key)) => Ok(layout::index_entry(table.id, index, index_key, &position.key)),
        _ => Err(Error::invalid("the position is of another index than the query")),
    }
}

fn position(table: &Table, index: Option<usize>, item: &Item) -> Result<Position, Error> {
    let damaged = || Error::engine("a stored item lacks its key");
    let key = table.spec.key.key_of(item).ok_or_else(damaged)?;
    let index_key = index.map(|at| table.spec.indexes[at].key_of(item).ok_or_else(damaged)).transpose()?;
    Ok(Position { key, index_key })
}

pub(crate) fn scan(shared: &Shared, scan: &Scan) -> Result<Page, Error> {
    let table = shared.table(&scan.table)?;
    limits::check_scan(scan)?;
    let (segment, segments) = scan.segment;
    let prefix = layout::table(table.id);
    let end = layout::after_prefix(&prefix);
    let from = match &scan.after {
        None => Bound::Included(prefix),
        Some(after) => Bound::Excluded(place(&table, None, after)?),
    };
    let now = shared.options.clock.seconds();
    let mut pager = Pager::new(scan.limit);
    // What the keys of the last partition start with, and whether it is of this segment: else its items are passed over
    // unread.
    let mut last: Option<(Vec<u8>, bool)> = None;
    shared.backing.view()?.range(Space::Items, from, end, false, |bytes, value| {
        let known = last.as_ref().filter(|(prefix, _)| bytes.starts_with(prefix)).map(|(_, own)| *own);
        if known == Some(false) {
            return Ok(ControlFlow::Continue(()));
        }
        let item = record::decode_item_like(pager.page.items.last(), value)?;
        let place = || position(&table, None, &item);
        // Whole partitions belong to a segment, so that segments can be written to other stores side by side.
        if segments > 1 && known.is_none() {
            let partition = place()?.key.partition;
            let own = segment_of(&partition, segments) == segment;
            last = Some((layout::partition(table.id, None, &partition), own));
            if !own {
                return Ok(ControlFlow::Continue(()));
            }
        }
        if table.spec.is_expired(&item, now) {
            return Ok(ControlFlow::Continue(()));
        }
        let full = pager.count(value, place)?;
        pager.page.items.push(item);
        Ok(if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(pager.page)
}

fn segment_of(partition: &KeyValue, segments: u32) -> u32 {
    let mut hasher = DefaultHasher::new();
    partition.hash(&mut hasher);
    // The remainder is below the number of segments, which has 32 bits.
    (hasher.finish() % u64::from(segments)) as u32
}

pub(crate) fn changes(shared: &Shared, table: &str, from: &From, limit: usize) -> Result<Changes, Error> {
    let table = shared.table(table)?;
    let view = shared.backing.view()?;
    let trimmed = trimmed(&view, table.id)?.sequence;
    let mut last = match from {
        From::Oldest => trimmed,
        From::Now => newest(&view, &table)?.max(trimmed),
        From::After(position) => {
            // A position of another store tells nothing about this one, nor does one that is ahead of it.
            let read = shared.sequence_of(position).ok_or(ErrorKind::Gap)?;
            if read < trimmed || read > newest(&view, &table)?.max(trimmed) {
                return Err(ErrorKind::Gap.into());
            }
            read
        }
    };
    let mut records = Vec::new();
    if limit > 0 && !matches!(from, From::Now) {
        let start = Bound::Excluded(layout::change(table.id, last));
        let end = layout::after_prefix(&layout::table(table.id));
        view.range(Space::Changes, start, end, false, |key, value| {
            let sequence = layout::sequence(key).ok_or_else(|| Error::engine("a stored change has a damaged key"))?;
            let Change { key, old, new, cause, .. } = record::decode_change(value)?;
            records.push(ChangeRecord { key, old, new, cause, sequence: sequence.into() });
            last = sequence;
            Ok(if records.len() >= limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
    }
    Ok(Changes { records, next: shared.position(last) })
}

/// The last change of a table that has been swept away.
pub(crate) fn trimmed(view: &View<'_>, table: TableId) -> Result<Trimmed, Error> {
    let found = view.get(Space::Meta, &record::trimmed_key(table))?.map(|value| record::decode(&value)).transpose()?;
    Ok(found.unwrap_or_default())
}

/// The newest sequence of a table.
pub(crate) fn newest(view: &View<'_>, table: &Table) -> Result<u64, Error> {
    let mut newest = 0;
    let prefix = layout::table(table.id);
    let end = layout::after_prefix(&prefix);
    view.range(Space::Changes, Bound::Included(prefix), end, true, |key, _| {
        newest = layout::sequence(key).unwrap_or(0);
        Ok(ControlFlow::Break(()))
    })?;
    Ok(newest)
}
