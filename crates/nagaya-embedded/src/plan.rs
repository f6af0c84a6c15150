//! What a write set comes to, made ready on the caller's thread as far as that needs no look at the store.

use std::{collections::HashSet, sync::Arc};

use fjall::Slice;
use nagaya_store::{Action, Condition, Error, Item, Key, Update, Write, WriteSet, limits};

use crate::{
    backing::Op,
    engine::Shared,
    layout::{self, Space},
    read::index_number,
    record::{self, Table},
};

/// Bytes that an update is taken to bring, so that a group of many does not grow without end.
const ASSUMED_BYTES: usize = 16 * 1024;

/// An action, checked and encoded.
pub(crate) struct Prepared {
    pub(crate) table: Arc<Table>,
    pub(crate) key: Key,
    /// The byte key.
    pub(crate) place: Slice,
    pub(crate) condition: Option<Condition>,
    pub(crate) deed: Deed,
}

pub(crate) enum Deed {
    Put(Image),
    Update(Update),
    Delete,
    Check,
}

/// An item, and everything that is stored of it but the record of its change.
pub(crate) struct Image {
    pub(crate) item: Item,
    pub(crate) bytes: Slice,
    /// Its keys in the indexes of its table; `None`: it does not lie there.
    entries: Vec<Option<Slice>>,
    /// Its key among the expiries.
    expiry: Option<Slice>,
}

/// Checks and encodes the actions of a write set.
pub(crate) fn prepare(shared: &Shared, set: WriteSet) -> Result<Vec<Prepared>, Error> {
    limits::check_write_set(&set)?;
    let prepared: Vec<Prepared> =
        set.into_actions().into_iter().map(|write| Prepared::of(shared, write)).collect::<Result<_, _>>()?;
    if prepared.len() > 1 {
        let mut places = HashSet::with_capacity(prepared.len());
        if let Some(twice) = prepared.iter().find(|action| !places.insert(&*action.place)) {
            // Without the key, which may hold anything: this can end up in a log.
            let table = &twice.table.spec.name;
            return Err(Error::invalid(format!("the write set has two actions for one item of `{table}`")));
        }
    }
    Ok(prepared)
}

impl Prepared {
    fn of(shared: &Shared, write: Write) -> Result<Self, Error> {
        let table = shared.table(&write.table)?;
        let key = limits::check_write(&table.spec, &write)?;
        let place = Slice::from(layout::item(table.id, &key));
        let deed = match write.action {
            Action::Put { item } => Deed::Put(Image::of(&table, &key, &place, item)?),
            Action::Update { update, .. } => Deed::Update(update),
            Action::Delete { .. } => Deed::Delete,
            Action::Check { .. } => Deed::Check,
        };
        Ok(Prepared { table, key, place, condition: write.condition, deed })
    }

    /// Bytes that it brings.
    pub(crate) fn bytes(&self) -> usize {
        match &self.deed {
            Deed::Put(image) => image.bytes.len(),
            // How large the item will be is not known yet.
            Deed::Update(_) => ASSUMED_BYTES,
            Deed::Delete | Deed::Check => 0,
        }
    }

    /// The action on the table as it is now, should it have got an index since.
    pub(crate) fn renewed(mut self, shared: &Shared) -> Result<Self, Error> {
        let table = shared.table(&self.table.spec.name)?;
        if !Arc::ptr_eq(&table, &self.table) {
            if let Deed::Put(image) = self.deed {
                limits::check_item(&table.spec, &image.item)?;
                self.deed = Deed::Put(Image::of(&table, &self.key, &self.place, image.item)?);
            }
            self.table = table;
        }
        Ok(self)
    }

    /// The item after the action; `None`: there is none, or nothing changes.
    pub(crate) fn after(&mut self, found: Option<&Item>) -> Result<Option<Image>, Error> {
        match std::mem::replace(&mut self.deed, Deed::Delete) {
            Deed::Put(image) => Ok(Some(image)),
            Deed::Delete | Deed::Check => Ok(None),
            Deed::Update(update) => {
                let schema = &self.table.spec.key;
                let item = match found {
                    Some(item) => update.apply(item)?,
                    None => {
                        let made = Item::new().with(&schema.partition.0, self.key.partition.clone());
                        update.apply(&made.with(&schema.sort.0, self.key.sort.clone()))?
                    }
                };
                limits::check_item(&self.table.spec, &item)?;
                Image::of(&self.table, &self.key, &self.place, item).map(Some)
            }
        }
    }
}

impl Image {
    /// What is to be stored of an item.
    pub(crate) fn of(table: &Table, key: &Key, place: &[u8], item: Item) -> Result<Self, Error> {
        let bytes = record::encode(&item)?.into();
        Image::with(table, key, place, item, bytes)
    }

    /// What is stored of an item.
    pub(crate) fn stored(table: &Table, key: &Key, place: &[u8], bytes: Slice) -> Result<Self, Error> {
        Image::with(table, key, place, record::decode_item(&bytes)?, bytes)
    }

    /// Whether this is the key of its expiry.
    pub(crate) fn expires_at(&self, expiry: &[u8]) -> bool {
        self.expiry.as_deref() == Some(expiry)
    }

    fn with(table: &Table, key: &Key, place: &[u8], item: Item, bytes: Slice) -> Result<Self, Error> {
        let mut entries = Vec::with_capacity(table.spec.indexes.len());
        for (at, index) in table.spec.indexes.iter().enumerate() {
            let number = index_number(at)?;
            let index_key = index.key_of(&item).filter(|_| table.is_maintained(number));
            let entry = index_key.map(|index_key| layout::index_entry(table.id, number, &index_key, key));
            entries.push(entry.map(Slice::from));
        }
        let expiry = table.spec.expiry_of(&item).map(|second| layout::expiry(second, place).into());
        Ok(Image { item, bytes, entries, expiry })
    }
}

/// Puts one image in the place of another: the item itself, its index entries and its expiry.
pub(crate) fn replace(place: &Slice, old: Option<&Image>, new: Option<&Image>, ops: &mut Vec<Op>) {
    match new {
        Some(new) => ops.push(Op::Put(Space::Items, place.clone(), new.bytes.clone())),
        None => ops.push(Op::Remove(Space::Items, place.clone())),
    }
    for (at, gone) in old.into_iter().flat_map(|old| old.entries.iter().enumerate()) {
        let stays = new.is_some_and(|new| new.entries.get(at) == Some(gone));
        ops.extend(gone.iter().filter(|_| !stays).map(|entry| Op::Remove(Space::Index, entry.clone())));
    }
    if let Some(new) = new {
        let there = new.entries.iter().flatten();
        ops.extend(there.map(|entry| Op::Put(Space::Index, entry.clone(), new.bytes.clone())));
    }
    let expiry = |image: Option<&Image>| image.and_then(|image| image.expiry.clone());
    let (before, after) = (expiry(old), expiry(new));
    if before != after {
        ops.extend(before.map(|expiry| Op::Remove(Space::Expiry, expiry)));
        ops.extend(after.map(|expiry| Op::Put(Space::Expiry, expiry, Slice::empty())));
    }
}
