//! The operator log: items of the layer's own, in the order of time.
//!
//! `chain` links each entry to the one before when it is written.

use nagaya_store::{Item, PagePosition, Value};
use serde_json::{Map, Value as Json};

use super::{AuditedAction, chain, changes};
use crate::{session::Session, values};

/// Milliseconds whose entries share a partition.
const PARTITION_MILLIS: i64 = 30 * 24 * 60 * 60 * 1_000;
/// The first span of time that has a partition of its own, in December 2025: the log is younger. Entries of a clock that is
/// behind are in this partition too, so that every reader can begin with it.
pub(crate) const FIRST_SPAN: i64 = 681;
/// The latest instant, in the year 5138: entries of a clock that is further ahead sort like it.
const LAST_INSTANT: i64 = 99_999_999_999_999;
/// Bytes of the old and new values of an entry.
const CHANGES: usize = 16_384;
/// Characters of the other texts of an entry.
const TEXT: usize = 2_000;
/// What the partitions of the log start with. Escapes have capitals, so no key of an entity starts like it.
const PARTITION: &str = "%audit-";

/// Something that an operator did.
#[derive(Debug, Clone, PartialEq)]
pub struct LogEntry {
    /// Its number in the hash chain; `None`: it was written before the log had a chain.
    pub number: Option<u64>,
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// What was done: `user.read`.
    pub action: String,
    /// Who did it.
    pub actor: String,
    /// The issuer of the actor's token; `None`: it was done without a token, such as by a command.
    pub issuer: Option<String>,
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
    /// Where the request came from.
    pub address: Option<String>,
}

/// The entry about an action; `None` if it was not done by an operator.
pub(in crate::write) fn operator_entry(session: &Session, action: &AuditedAction<'_>) -> Option<LogEntry> {
    session.reason.as_ref()?;
    let changes = match action.changes(CHANGES) {
        Json::Object(changes) => changes,
        _ => Map::new(),
    };
    let tenant = action.tenant.map(str::to_owned);
    Some(entry(session, action.name(), action.target.clone(), tenant, changes))
}

/// The entry about something that is done with the log itself, such as reading it.
pub(in crate::write) fn entry_about_log(session: &Session, verb: &str) -> LogEntry {
    entry(session, format!("audit.{verb}"), "audit".to_owned(), None, Map::new())
}

fn entry(
    session: &Session,
    action: String,
    target: String,
    tenant: Option<String>,
    changes: Map<String, Json>,
) -> LogEntry {
    let Session { state, principal, reason, .. } = session;
    LogEntry {
        number: None,
        at: state.settings.clock.millis(),
        action,
        actor: principal.user.to_string(),
        issuer: principal.issuer.as_deref().map(str::to_owned),
        reason: reason.clone().unwrap_or_default(),
        tenant,
        target,
        changes,
        request: principal.request.as_deref().map(str::to_owned),
        address: principal.address.as_deref().map(str::to_owned),
    }
}

/// The span of time that an instant is in.
pub(crate) fn span(at: i64) -> i64 {
    (at.min(LAST_INSTANT) / PARTITION_MILLIS).max(FIRST_SPAN)
}

/// The partition of a span of time.
pub(crate) fn partition(span: i64) -> String {
    format!("{PARTITION}{span:06}")
}

/// The span of the partition that a page ended in.
pub(crate) fn span_of(position: &PagePosition) -> Option<i64> {
    match &position.key.partition {
        nagaya_store::KeyValue::String(text) => span_in(text),
        _ => None,
    }
}

/// Whether a partition is one of the log's entries.
pub(super) fn is_partition(text: &str) -> bool {
    span_in(text).is_some()
}

fn span_in(partition: &str) -> Option<i64> {
    partition.strip_prefix(PARTITION)?.parse().ok()
}

/// An instant as a text that sorts by time.
pub(crate) fn sort_key(at: i64) -> String {
    format!("{:014}", at.clamp(0, LAST_INSTANT))
}

impl LogEntry {
    /// About the bytes of its item.
    pub(in crate::write) fn size(&self) -> usize {
        /// Bytes of keys and hashes.
        const KEYS: usize = 400;
        self.to_item().size() + KEYS
    }

    pub(super) fn to_item(&self) -> Item {
        let text = |value: &str| Value::from(changes::truncate_text(value, TEXT));
        let mut item = Item::new()
            .with("%at", self.at)
            .with("%action", text(&self.action))
            .with("%actor", text(&self.actor))
            .with("%reason", text(&self.reason))
            .with("%target", text(&self.target))
            .with("%changes", values::to_store(Json::Object(self.changes.clone())));
        let optional = [
            ("%tenant", &self.tenant),
            ("%issuer", &self.issuer),
            ("%request", &self.request),
            ("%address", &self.address),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                item.insert(name, text(value));
            }
        }
        item
    }

    pub(crate) fn from_item(item: &Item) -> Option<Self> {
        let text = |name: &str| item.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(LogEntry {
            number: chain::number_in(item),
            at: values::integer_in(item, "%at")?,
            action: text("%action")?,
            actor: text("%actor")?,
            issuer: text("%issuer"),
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
}
