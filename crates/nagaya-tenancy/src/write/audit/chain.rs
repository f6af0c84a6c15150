//! The hash chain of the operator log: it reveals entries that were changed or removed.
//!
//! Each entry has a number, the hash of the entry before it, and a hash of its own over all its attributes. The head of the log has the
//! number and the hash of the last entry. Entry and head are one write set, on the condition that the head is still the one that
//! was read; a writer that loses this race links its entries again.
//!
//! The hashes are keyed. Somebody who can write to the table and has no key can remove entries, but cannot link the rest again.
//!
//! Entries expire. So each says when the ones before it have expired: a gap is a removal if that time has not come.
//!
//! A changed head has a wrong hash, or one that is made with a key that is lost. It gives the next entry a number and a hash to follow,
//! and nothing else. What else it says would be signed with the next head, and believed from then on.

use std::collections::BTreeMap;

use nagaya_store::{Condition, Item, Key, Value, Write};

use super::{
    Expiries,
    expiry::expires_at,
    log::{self, LogEntry},
};
use crate::{Error, ErrorKind, KeySet, SecretKey, state::TenancyState, values::integer_in};

/// The partition and the sort key of the head.
const HEAD: &str = "%audit-head";
/// The attribute with the number of an entry, or of the last entry in the head.
pub(super) const NUMBER: &str = "%number";
/// The attribute of an entry that says when it expires, in seconds since 1970.
pub(super) const EXPIRES: &str = "%expires";
/// The attribute with the hash of an entry or a head.
const HASH: &str = "%hash";
/// The attribute with the id of the key that the hash is made with.
const KEY: &str = "%key";
/// The attribute of the head that says when the entries have expired.
const EXPIRIES: &str = "%expiries";
/// The attribute of an entry that says when the ones before it have expired.
const PREVIOUS_EXPIRIES: &str = "%previousExpiries";
/// The attribute of the head with an entry that may not be stored yet.
const PENDING: &str = "%entry";

/// The attribute of an entry that was linked to a changed head.
const AFTER_CHANGED_HEAD: &str = "%afterWrongHead";

/// The largest number that a changed head can give: no log has so many entries, and it leaves as many again.
const MAX_UNTRUSTED_NUMBER: u64 = 1 << 62;
/// Digits of a hash.
const HASH_DIGITS: usize = 64;

/// The end of the chain.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Head {
    /// The number of the last entry; 0: there is none yet.
    pub(crate) number: u64,
    /// The hash of the last entry.
    pub(crate) last: String,
    /// When the entries up to the last one have expired.
    pub(crate) expiries: Expiries,
    /// The time of the first entry of the chain, in milliseconds since 1970; `None`: nothing trusted says it.
    pub(crate) started: Option<i64>,
    /// The last span of time that has an entry: a clock may have been ahead.
    pub(crate) span: i64,
    /// The last entry, on a store that cannot write it together with the head.
    pub(crate) pending: Option<Item>,
    /// Whether its hash is right.
    pub(crate) hash: HashCheck,
    /// The hash as it is stored, of whatever form: only this head is replaced.
    stored_hash: Option<Value>,
}

/// What the hash of an item says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HashCheck {
    Right,
    Wrong,
    /// It is made with a key of this id, which is not among the known ones.
    UnknownKey(String),
}

/// A chained entry, without its content.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub(crate) number: u64,
    pub(crate) at: i64,
    pub(crate) last: String,
    pub(crate) previous: String,
    /// When the entries before it have expired.
    pub(crate) previous_expiries: Expiries,
    /// Whether it was linked to a changed head.
    pub(crate) after_changed_head: bool,
    pub(crate) hash: HashCheck,
}

impl Head {
    /// The head as it is stored; `None`: the log has no chain yet.
    pub(crate) async fn read(state: &TenancyState) -> Result<Option<Self>, Error> {
        let found = state.store.get(&state.operator_log_table().name, &Key::new(HEAD, HEAD)).await?;
        Ok(found.map(|item| Head::from_item(&state.settings.audit_keys, &item)))
    }

    /// The head, to link entries to it. Fails if it is made with an unknown key: whether it is a changed head cannot be told, and
    /// for those who know that key the next entry would look like one of a forger.
    pub(crate) async fn read_known(state: &TenancyState) -> Result<Option<Self>, Error> {
        let is_unknown =
            |head: &Option<Self>| head.as_ref().is_some_and(|head| matches!(head.hash, HashCheck::UnknownKey(_)));
        let mut head = Head::read(state).await?;
        if is_unknown(&head) {
            // Another process may have written with a key that is newer than the known ones.
            state.settings.audit_keys.reload();
            head = Head::read(state).await?;
        }
        match head {
            Some(Head { hash: HashCheck::UnknownKey(key), .. }) => Err(ErrorKind::UnknownAuditKey { key }.into()),
            head => Ok(head),
        }
    }

    fn from_item(keys: &KeySet, item: &Item) -> Self {
        let pending = match item.get(PENDING) {
            Some(Value::Map(entry)) => Some(entry.iter().map(|(name, value)| (name.clone(), value.clone())).collect()),
            _ => None,
        };
        let number = number_in(item).unwrap_or_default();
        let head = Head {
            number,
            last: hash_in(item, "%last"),
            // It has a hash of its own.
            pending: pending.filter(|entry| check(keys, Context::Entry, entry) != HashCheck::Wrong),
            hash: check(keys, Context::Head, item),
            stored_hash: item.get(HASH).cloned(),
            ..Head::first()
        };
        if head.hash != HashCheck::Right {
            return Head { number: number.min(MAX_UNTRUSTED_NUMBER), ..head };
        }
        Head {
            expiries: Expiries::from_item(item, EXPIRIES),
            started: integer_in(item, "%started"),
            span: integer_in(item, "%span").unwrap_or_default(),
            ..head
        }
    }

    /// The head of a log without entries.
    fn first() -> Self {
        Head {
            number: 0,
            last: String::new(),
            expiries: Expiries::default(),
            started: None,
            span: 0,
            pending: None,
            hash: HashCheck::Right,
            stored_hash: None,
        }
    }

    fn to_item(&self, key: &SecretKey, state: &TenancyState) -> Item {
        let keys = &state.operator_log_table().key;
        let mut item = Item::new()
            .with(&keys.partition, HEAD)
            .with(&keys.sort, HEAD)
            .with(NUMBER, stored_number(self.number))
            .with("%last", self.last.as_str())
            .with("%started", self.started.unwrap_or_default())
            .with("%span", self.span)
            .with(EXPIRIES, self.expiries.to_value());
        if let Some(entry) = &self.pending {
            let entry: BTreeMap<_, _> = entry.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect();
            item.insert(PENDING, Value::Map(entry));
        }
        sign(key, Context::Head, item)
    }

    /// The head is still this one.
    fn is_unchanged(read: Option<&Head>, state: &TenancyState) -> Condition {
        match read {
            None => Condition::absent(state.operator_log_table().key.partition.as_str()),
            Some(Head { stored_hash: Some(hash), .. }) => Condition::equal(HASH, hash.clone()),
            Some(_) => {
                Condition::exists(state.operator_log_table().key.partition.as_str()).and(Condition::absent(HASH))
            }
        }
    }

    /// The write of the entry that may not be stored yet.
    pub(crate) fn pending_write(&self, state: &TenancyState) -> Option<Write> {
        let is_entry = |item: &Item| log::is_partition(&text_in(item, &state.operator_log_table().key.partition));
        self.pending.clone().filter(is_entry).map(|item| entry_write(state, item))
    }
}

/// The writes of entries after this head, and of the head after them, which comes last.
pub(in crate::write) fn link(state: &TenancyState, read: Option<&Head>, entries: &[LogEntry]) -> Vec<Write> {
    let key = state.settings.audit_keys.newest();
    let mut head = read.cloned().unwrap_or_else(Head::first);
    let mut writes = Vec::new();
    for entry in entries {
        let item = entry_item(state, &head, entry, &key);
        head.number += 1;
        head.hash = HashCheck::Right;
        head.last = text_in(&item, HASH);
        head.expiries.add(head.number, integer_in(&item, EXPIRES));
        head.started.get_or_insert(entry.at);
        head.span = head.span.max(log::span(entry.at));
        head.pending = (!state.cross_partition()).then(|| item.clone());
        writes.push(entry_write(state, item));
    }
    let put = Write::put(&state.operator_log_table().name, head.to_item(&key, state));
    writes.push(put.when(Head::is_unchanged(read, state)));
    writes
}

fn entry_item(state: &TenancyState, before: &Head, entry: &LogEntry, key: &SecretKey) -> Item {
    let (table, number) = (state.operator_log_table(), before.number + 1);
    let mut item = entry
        .to_item()
        .with(&table.key.partition, log::partition(log::span(entry.at)))
        .with(&table.key.sort, format!("{}-{number:016x}", log::sort_key(entry.at)))
        .with(NUMBER, stored_number(number))
        .with("%previous", before.last.as_str())
        .with(PREVIOUS_EXPIRIES, before.expiries.to_value());
    // The next head is right again, so the entry says for ever that it follows a changed one.
    if before.hash != HashCheck::Right {
        item.insert(AFTER_CHANGED_HEAD, true);
    }
    if let Some(expires) = expires_at(state, entry.at) {
        item.insert(EXPIRES, expires);
        if let Some(ttl) = &table.ttl {
            item.insert(ttl, expires);
        }
    }
    sign(key, Context::Entry, item)
}

fn entry_write(state: &TenancyState, item: Item) -> Write {
    let table = state.operator_log_table();
    Write::put(&table.name, item).when(Condition::absent(table.key.partition.as_str()))
}

impl Link {
    /// The link of an entry; `None` if it was written before the log had a chain.
    pub(crate) fn from_item(keys: &KeySet, item: &Item) -> Option<Self> {
        Some(Link {
            number: number_in(item)?,
            at: integer_in(item, "%at").unwrap_or_default(),
            last: hash_in(item, HASH),
            previous: hash_in(item, "%previous"),
            previous_expiries: Expiries::from_item(item, PREVIOUS_EXPIRIES),
            after_changed_head: item.get(AFTER_CHANGED_HEAD).is_some(),
            hash: check(keys, Context::Entry, item),
        })
    }
}

/// What a hash is about: the hash of one kind is not valid for the other.
#[derive(Debug, Clone, Copy)]
enum Context {
    Entry,
    Head,
}

fn sign(key: &SecretKey, context: Context, item: Item) -> Item {
    let mut item = item.with(KEY, crate::key_id(key));
    item.insert(HASH, hash(key, context, &item));
    item
}

fn check(keys: &KeySet, context: Context, item: &Item) -> HashCheck {
    let (id, expected) = (text_in(item, KEY), text_in(item, HASH));
    // No key has such an id, so none is lost.
    if !crate::key_set::is_key_id(&id) {
        return HashCheck::Wrong;
    }
    match keys.find(|key| (crate::key_id(key) == id).then_some(*key)) {
        None => HashCheck::UnknownKey(id),
        Some(key) if hash(&key, context, item) == expected => HashCheck::Right,
        Some(_) => HashCheck::Wrong,
    }
}

/// The keyed hash of all attributes, except the hash itself and the entry in a head, which has a hash of its own.
fn hash(key: &SecretKey, context: Context, item: &Item) -> String {
    let context = match context {
        Context::Entry => "nagaya 2026 an entry of the operator log",
        Context::Head => "nagaya 2026 the head of the operator log",
    };
    let mut hasher = blake3::Hasher::new_keyed(&blake3::derive_key(context, key));
    let attributes: BTreeMap<_, _> = item.iter().filter(|(name, _)| ![HASH, PENDING].contains(name)).collect();
    for (name, value) in attributes {
        add_bytes(&mut hasher, b'"', name.as_bytes());
        add_value(&mut hasher, value);
    }
    hasher.finalize().to_hex().to_string()
}

/// Each part has its kind and its length in front, so that different values never give the same bytes.
fn add_bytes(hasher: &mut blake3::Hasher, kind: u8, bytes: &[u8]) {
    hasher.update(&[kind]).update(&(bytes.len() as u64).to_be_bytes()).update(bytes);
}

fn add_value(hasher: &mut blake3::Hasher, value: &Value) {
    match value {
        Value::Null => add_bytes(hasher, b'0', &[]),
        Value::Boolean(flag) => add_bytes(hasher, b'b', &[u8::from(*flag)]),
        Value::Number(number) => add_bytes(hasher, b'n', number.to_string().as_bytes()),
        Value::String(text) => add_bytes(hasher, b's', text.as_bytes()),
        Value::Binary(bytes) => add_bytes(hasher, b'x', bytes),
        Value::List(values) => {
            add_bytes(hasher, b'[', &(values.len() as u64).to_be_bytes());
            values.iter().for_each(|value| add_value(hasher, value));
        }
        Value::Map(values) => {
            add_bytes(hasher, b'{', &(values.len() as u64).to_be_bytes());
            for (name, value) in values {
                add_bytes(hasher, b'"', name.as_bytes());
                add_value(hasher, value);
            }
        }
        // Entries have no sets. One that was put there changes the hash.
        Value::StringSet(_) | Value::NumberSet(_) | Value::BinarySet(_) => add_bytes(hasher, b'#', &[]),
    }
}

/// A hash in an item; empty if it is none.
fn hash_in(item: &Item, name: &str) -> String {
    let hash = text_in(item, name);
    if hash.len() == HASH_DIGITS { hash } else { String::new() }
}

fn text_in(item: &Item, name: &str) -> String {
    item.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The number of an entry or a head; `None` for an entry that was written before the log had a chain.
pub(super) fn number_in(item: &Item) -> Option<u64> {
    integer_in(item, NUMBER)?.try_into().ok()
}

pub(super) fn stored_number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
