//! The log of what operators do: items of the layer's own, in the order of time.

use nagaya_store::{Condition, Item, Key, Position, Query, Sort, Value, Write};
use serde_json::{Map, Value as Json};

use super::{Act, changes, text};
use crate::{Error, Operator, cursor, room::Room, values};

/// Milliseconds whose entries share a partition.
const SPAN: i64 = 30 * 24 * 60 * 60 * 1_000;
/// Entries of a page.
const PAGE: usize = 100;
/// Bytes of the old and new values of an entry.
const CHANGES: usize = 16_384;

/// Something that an operator did.
#[derive(Debug, Clone, PartialEq)]
pub struct LogEntry {
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// What was done: `user.read`.
    pub action: String,
    /// Who did it.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// The tenant that it concerns.
    pub tenant: Option<String>,
    /// The id of the item, or the name of the access pattern.
    pub target: String,
    /// The changed fields, each with its `old` and `new` value; personal data masked, secrets left out.
    pub changes: Map<String, Json>,
    /// The request that it was part of.
    pub request: Option<String>,
    /// Where it came from.
    pub address: Option<String>,
}

/// A page of what operators did.
#[derive(Debug, Clone, PartialEq)]
pub struct LogPage {
    /// The entries, the oldest first.
    pub entries: Vec<LogEntry>,
    /// Where to go on; `None`: that was all.
    pub next: Option<String>,
}

impl Operator {
    /// What operators did from one instant on and before another, in milliseconds since 1970, the oldest first.
    ///
    /// Looking at it is something that an operator does, and among the entries.
    pub async fn audit(&self, from: i64, to: i64, cursor: Option<&str>) -> Result<LogPage, Error> {
        self.0.log(from, to, cursor).await
    }
}

impl Room {
    /// The write of an entry.
    pub(super) fn log_entry(&self, reason: &str, act: &Act) -> Write {
        let entry = LogEntry {
            at: self.house.settings.clock.millis(),
            action: act.action(),
            actor: self.principal.user.to_string(),
            reason: reason.to_owned(),
            tenant: act.tenant.clone(),
            target: act.target.clone(),
            changes: match changes::of(&act.blueprint.entity, act.old.as_ref(), act.new.as_ref(), CHANGES) {
                Json::Object(changes) => changes,
                _ => Map::new(),
            },
            request: self.principal.request.as_deref().map(str::to_owned),
            address: self.principal.address.as_deref().map(str::to_owned),
        };
        self.put(&entry)
    }

    fn put(&self, entry: &LogEntry) -> Write {
        let (table, key) = self.house.log_table();
        // Entries of one millisecond stay in the order in which this process made them.
        let (nth, random) = (self.house.next_logged(), self.house.settings.ids.bits());
        let place = Key::new(partition(entry.at), format!("{}-{nth:016x}-{random:032x}", order(entry.at)));
        let mut item = Item::new()
            .with(&key.partition, Value::from(place.partition))
            .with(&key.sort, Value::from(place.sort))
            .with("%at", entry.at)
            .with("%action", text(&entry.action))
            .with("%actor", text(&entry.actor))
            .with("%reason", text(&entry.reason))
            .with("%target", text(&entry.target))
            .with("%changes", values::to_store(Json::Object(entry.changes.clone())));
        let optional = [("%tenant", &entry.tenant), ("%request", &entry.request), ("%address", &entry.address)];
        for (name, value) in optional {
            if let Some(value) = value {
                item.insert(name, text(value));
            }
        }
        Write::put(table, item).when(Condition::absent(key.partition.as_str()))
    }

    async fn log(&self, from: i64, to: i64, cursor: Option<&str>) -> Result<LogPage, Error> {
        let (table, _) = self.house.log_table();
        let bound = format!("%audit {} {from} {to}", self.house.design.name).into_bytes();
        let mut after = cursor.map(|cursor| cursor::open(&self.house.settings, &bound, cursor)).transpose()?;
        self.note_log().await?;
        let started = after.as_ref().and_then(span_of).unwrap_or_else(|| from.max(0) / SPAN);
        let mut entries = Vec::new();
        for span in started..=to.min(self.house.settings.clock.millis().saturating_add(SPAN)).max(0) / SPAN {
            loop {
                let missing = PAGE - entries.len();
                let query = Query::table(table, format!("{PARTITION}{span:06}"))
                    .sort(Sort::Between(order(from).into(), order(to).into()))
                    .limit(missing);
                let page = self.house.store.query(Query { after: after.take(), ..query }).await?;
                entries.extend(page.items.iter().filter_map(read));
                match page.next {
                    Some(next) if entries.len() >= PAGE => {
                        let next = cursor::seal(&self.house.settings, &bound, &next)?;
                        return Ok(LogPage { entries, next: Some(next) });
                    }
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
        }
        Ok(LogPage { entries, next: None })
    }

    /// Writes down that the log is looked at.
    async fn note_log(&self) -> Result<(), Error> {
        self.is_reasoned()?;
        let reason = self.reason.clone().unwrap_or_default();
        let entry = LogEntry {
            at: self.house.settings.clock.millis(),
            action: "audit.list".to_owned(),
            actor: self.principal.user.to_string(),
            reason,
            tenant: None,
            target: "audit".to_owned(),
            changes: Map::new(),
            request: self.principal.request.as_deref().map(str::to_owned),
            address: self.principal.address.as_deref().map(str::to_owned),
        };
        self.house.store.write(self.put(&entry).into()).await?;
        Ok(())
    }
}

/// What the partitions of the log start with. Escapes have capitals, so no key of an entity is like it.
const PARTITION: &str = "%audit-";

fn partition(at: i64) -> String {
    format!("{PARTITION}{:06}", at.max(0) / SPAN)
}

/// The number of the partition that a page ended in.
fn span_of(position: &Position) -> Option<i64> {
    match &position.key.partition {
        nagaya_store::KeyValue::String(text) => text.strip_prefix(PARTITION)?.parse().ok(),
        _ => None,
    }
}

/// An instant as a text that sorts by time.
fn order(at: i64) -> String {
    format!("{:014}", at.clamp(0, 99_999_999_999_999))
}

fn read(item: &Item) -> Option<LogEntry> {
    let text = |name: &str| item.get(name).and_then(Value::as_str).map(str::to_owned);
    Some(LogEntry {
        at: item.get("%at")?.as_number()?.try_into().ok()?,
        action: text("%action")?,
        actor: text("%actor")?,
        reason: text("%reason")?,
        tenant: text("%tenant"),
        target: text("%target")?,
        changes: match values::to_json(item.get("%changes")?) {
            Json::Object(changes) => changes,
            _ => Map::new(),
        },
        request: text("%request"),
        address: text("%address"),
    })
}
