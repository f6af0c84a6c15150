//! Steps: changes to a table that lose no data.

use std::{collections::BTreeMap, fmt};

use nagaya_store::{IndexSpec, KeySchema};

use super::TableKey;

/// A change to a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Create it, with the settings that `CreateTable` takes.
    Create {
        /// Its key.
        key: KeySchema,
        /// Its indexes.
        indexes: Vec<IndexSpec>,
        /// Whether it has a stream.
        stream: bool,
        /// The KMS key that it is encrypted with.
        encryption: Option<TableKey>,
        /// Its provisioned capacity; `None`: on demand.
        throughput: Option<i64>,
        /// Whether it has deletion protection.
        protected: bool,
    },
    /// Turn on TTL with this attribute.
    EnableTtl(String),
    /// Turn on its stream.
    EnableStream,
    /// Turn on point-in-time recovery.
    EnableRecovery,
    /// Encrypt it with this KMS key.
    EnableEncryption(TableKey),
    /// Set its provisioned capacity; `None`: on demand.
    SetThroughput(Option<i64>),
    /// Turn on deletion protection.
    EnableDeletionProtection,
    /// Add or change these tags.
    SetTags(BTreeMap<String, String>),
    /// Add an index, which is then backfilled.
    AddIndex(IndexSpec),
    /// Remove an index that the design does not have.
    RemoveIndex(String),
}

impl Step {
    /// A stable name of the kind of step.
    pub fn code(&self) -> &'static str {
        match self {
            Step::Create { .. } => "create",
            Step::EnableTtl(_) => "expiry",
            Step::EnableStream => "stream",
            Step::EnableRecovery => "recovery",
            Step::EnableEncryption(_) => "encryption",
            Step::SetThroughput(_) => "throughput",
            Step::EnableDeletionProtection => "protection",
            Step::SetTags(_) => "tags",
            Step::AddIndex(_) => "add-index",
            Step::RemoveIndex(_) => "remove-index",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Create { key, indexes, stream, encryption, throughput, protected } => {
                write!(f, "create it with the key {}", attributes(key))?;
                match indexes.as_slice() {
                    [] => {}
                    [index] => write!(f, ", index {}", index.name)?,
                    indexes => {
                        let names: Vec<_> = indexes.iter().map(|index| index.name.as_str()).collect();
                        write!(f, ", indexes {}", names.join(", "))?;
                    }
                }
                let encryption = match encryption {
                    None => String::new(),
                    Some(TableKey::Managed) => "encryption".to_owned(),
                    Some(TableKey::Customer(id)) => format!("encryption with the key {id}"),
                };
                let settings =
                    [(*stream, "a stream"), (!encryption.is_empty(), &encryption), (*protected, "protection")];
                settings.iter().filter(|(wanted, _)| *wanted).try_for_each(|(_, name)| write!(f, ", {name}"))?;
                throughput.map_or(Ok(()), |units| write!(f, ", {units} units per second"))
            }
            Step::EnableTtl(attribute) => write!(f, "let items expire by {attribute}"),
            Step::EnableStream => f.write_str("turn on its stream"),
            Step::EnableRecovery => f.write_str("turn on point-in-time recovery"),
            Step::EnableEncryption(TableKey::Managed) => f.write_str("encrypt it with a key of the account"),
            Step::EnableEncryption(TableKey::Customer(id)) => write!(f, "encrypt it with the key {id}"),
            Step::SetThroughput(Some(units)) => write!(f, "set its throughput to {units} units per second"),
            Step::SetThroughput(None) => f.write_str("pay per request"),
            Step::EnableDeletionProtection => f.write_str("protect it against deletion"),
            Step::SetTags(tags) => {
                let tags: Vec<_> = tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
                write!(f, "tag it {}", tags.join(", "))
            }
            Step::AddIndex(index) => write!(f, "add index {} ({})", index.name, attributes(&index.key)),
            Step::RemoveIndex(name) => write!(f, "remove index {name}"),
        }
    }
}

/// The attributes of a key, for people.
pub(super) fn attributes(key: &KeySchema) -> String {
    let part = |(name, kind): &(String, nagaya_store::KeyKind)| match kind {
        nagaya_store::KeyKind::String => name.clone(),
        nagaya_store::KeyKind::Number => format!("{name} as a number"),
        nagaya_store::KeyKind::Binary => format!("{name} as bytes"),
    };
    format!("{}, {}", part(&key.partition), part(&key.sort))
}
