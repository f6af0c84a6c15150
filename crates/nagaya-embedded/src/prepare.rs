//! Write sets, checked and encoded on the caller's thread, as far as that does not need stored items.

use std::{collections::HashSet, sync::Arc};

use fjall::Slice;
use nagaya_store::{Condition, Error, Item, Key, Update, Write, WriteAction, WriteSet, limits};

use crate::{
    engine::Shared,
    layout::{self, Keyspace},
    read::index_number,
    record::{self, Table},
    storage::Op,
};

/// The assumed size of an updated item, so that a group of many updates does not grow without limit.
const ASSUMED_UPDATE_BYTES: usize = 16 * 1024;

/// An action of a write set, checked and encoded.
pub(crate) struct PreparedWrite {
    pub(crate) table: Arc<Table>,
    pub(crate) key: Key,
    /// The key of the item in [`Keyspace::Items`].
    pub(crate) item_key: Slice,
    pub(crate) condition: Option<Condition>,
    pub(crate) action: PreparedAction,
}

/// What a [`PreparedWrite`] does with its item.
pub(crate) enum PreparedAction {
    Put(Image),
    Update(Update),
    Delete,
    Check,
}

/// An item with everything that is stored of it, except the record of its change.
pub(crate) struct Image {
    pub(crate) item: Item,
    pub(crate) bytes: Slice,
    /// Its keys in the indexes of its table; `None` for an index that does not contain it.
    index_keys: Vec<Option<Slice>>,
    /// Its key in [`Keyspace::Expiry`].
    expiry_key: Option<Slice>,
}

/// Checks and encodes the actions of a write set.
pub(crate) fn prepare_writes(shared: &Shared, set: WriteSet) -> Result<Vec<PreparedWrite>, Error> {
    limits::check_write_set(&set)?;
    let prepared: Vec<PreparedWrite> =
        set.into_actions().into_iter().map(|write| PreparedWrite::new(shared, write)).collect::<Result<_, _>>()?;
    if prepared.len() > 1 {
        let mut keys = HashSet::with_capacity(prepared.len());
        if let Some(duplicate) = prepared.iter().find(|write| !keys.insert(&*write.item_key)) {
            // Without the key, which may contain personal data: the message may be logged.
            let table = &duplicate.table.spec.name;
            return Err(Error::invalid(format!("the write set has two actions for one item of `{table}`")));
        }
    }
    Ok(prepared)
}

impl PreparedWrite {
    fn new(shared: &Shared, write: Write) -> Result<Self, Error> {
        let table = shared.table(&write.table)?;
        let key = limits::check_write(&table.spec, &write)?;
        let item_key = Slice::from(layout::item_key(table.id, &key));
        let action = match write.action {
            WriteAction::Put { item } => PreparedAction::Put(Image::encode(&table, &key, &item_key, item)?),
            WriteAction::Update { update, .. } => PreparedAction::Update(update),
            WriteAction::Delete { .. } => PreparedAction::Delete,
            WriteAction::ConditionCheck { .. } => PreparedAction::Check,
        };
        Ok(PreparedWrite { table, key, item_key, condition: write.condition, action })
    }

    /// The size of the item that it writes.
    pub(crate) fn bytes(&self) -> usize {
        match &self.action {
            PreparedAction::Put(image) => image.bytes.len(),
            PreparedAction::Update(_) => ASSUMED_UPDATE_BYTES,
            PreparedAction::Delete | PreparedAction::Check => 0,
        }
    }

    /// The write for the current version of the table, which may have a new index.
    pub(crate) fn with_current_table(mut self, shared: &Shared) -> Result<Self, Error> {
        let table = shared.table(&self.table.spec.name)?;
        if !Arc::ptr_eq(&table, &self.table) {
            if let PreparedAction::Put(image) = self.action {
                limits::check_item(&table.spec, &image.item)?;
                self.action = PreparedAction::Put(Image::encode(&table, &self.key, &self.item_key, image.item)?);
            }
            self.table = table;
        }
        Ok(self)
    }

    /// The item after the write; `None` after a delete. Takes the action out.
    pub(crate) fn new_image(&mut self, found: Option<&Item>) -> Result<Option<Image>, Error> {
        match std::mem::replace(&mut self.action, PreparedAction::Delete) {
            PreparedAction::Put(image) => Ok(Some(image)),
            PreparedAction::Delete | PreparedAction::Check => Ok(None),
            PreparedAction::Update(update) => {
                let schema = &self.table.spec.key;
                let item = match found {
                    Some(item) => update.apply(item)?,
                    None => {
                        let new = Item::new().with(&schema.partition.0, self.key.partition.clone());
                        update.apply(&new.with(&schema.sort.0, self.key.sort.clone()))?
                    }
                };
                limits::check_item(&self.table.spec, &item)?;
                Image::encode(&self.table, &self.key, &self.item_key, item).map(Some)
            }
        }
    }
}

impl Image {
    /// The image of an item that is to be stored.
    pub(crate) fn encode(table: &Table, key: &Key, item_key: &[u8], item: Item) -> Result<Self, Error> {
        let bytes = record::encode(&item)?.into();
        Image::new(table, key, item_key, item, bytes)
    }

    /// The image of a stored item.
    pub(crate) fn decode(table: &Table, key: &Key, item_key: &[u8], bytes: Slice) -> Result<Self, Error> {
        Image::new(table, key, item_key, record::decode_item(&bytes)?, bytes)
    }

    /// Whether this is the key of its expiry.
    pub(crate) fn has_expiry_key(&self, expiry_key: &[u8]) -> bool {
        self.expiry_key.as_deref() == Some(expiry_key)
    }

    fn new(table: &Table, key: &Key, item_key: &[u8], item: Item, bytes: Slice) -> Result<Self, Error> {
        let mut index_keys = Vec::with_capacity(table.spec.indexes.len());
        for (at, index) in table.spec.indexes.iter().enumerate() {
            let number = index_number(at)?;
            let index_key = index.key_of(&item).filter(|_| table.is_maintained(number));
            let entry = index_key.map(|index_key| layout::index_entry_key(table.id, number, &index_key, key));
            index_keys.push(entry.map(Slice::from));
        }
        let expiry_key = table.spec.expiry_of(&item).map(|second| layout::expiry_key(second, item_key).into());
        Ok(Image { item, bytes, index_keys, expiry_key })
    }

    /// Adds the operations that replace one image by another: the item itself, its index entries and its expiry.
    pub(crate) fn replace(item_key: &Slice, old: Option<&Self>, new: Option<&Self>, ops: &mut Vec<Op>) {
        match new {
            Some(new) => ops.push(Op::Put(Keyspace::Items, item_key.clone(), new.bytes.clone())),
            None => ops.push(Op::Remove(Keyspace::Items, item_key.clone())),
        }
        for (at, former) in old.into_iter().flat_map(|old| old.index_keys.iter().enumerate()) {
            let is_kept = new.is_some_and(|new| new.index_keys.get(at) == Some(former));
            ops.extend(former.iter().filter(|_| !is_kept).map(|entry| Op::Remove(Keyspace::Index, entry.clone())));
        }
        if let Some(new) = new {
            let entries = new.index_keys.iter().flatten();
            ops.extend(entries.map(|entry| Op::Put(Keyspace::Index, entry.clone(), new.bytes.clone())));
        }
        let expiry_key = |image: Option<&Image>| image.and_then(|image| image.expiry_key.clone());
        let (before, after) = (expiry_key(old), expiry_key(new));
        if before != after {
            ops.extend(before.map(|key| Op::Remove(Keyspace::Expiry, key)));
            ops.extend(after.map(|key| Op::Put(Keyspace::Expiry, key, Slice::empty())));
        }
    }
}
