//! Where the list of revoked tokens is kept: in a file of the data directory, or in the tables of the system.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use nagaya_tenancy::{Error, Nagaya, Operator, Principal, RecordOwner, Retry, SideRecord};
use serde_json::{Value as Json, json};

use super::{Revocation, RevokedSubject};
use crate::identity::{
    IssuerError,
    local::{Files, LOST_REVOCATIONS, damaged},
};

/// The file in the directory of the local issuer.
const FILE: &str = "revocations.json";
/// What the names of the side records start with.
const PREFIX: &str = "revoked-";
/// Side records of a page.
const PAGE: usize = 500;
/// Why the tables are read and written.
const REASON: &str = "keeps the list of revoked tokens";

/// The list of revoked tokens of a system.
#[derive(Debug, Clone)]
pub struct RevocationStore(Place);

#[derive(Debug, Clone)]
enum Place {
    /// A file beside the keys, which all processes on the directory share.
    Directory { files: Arc<Files>, system: String },
    /// Side records, which all processes on the tables share.
    Tables { operator: Operator, entity: String },
}

impl RevocationStore {
    /// The list of a system in a data directory.
    pub fn in_directory(data: &Path, system: &str) -> Result<Self, IssuerError> {
        Ok(RevocationStore(Place::Directory { files: Arc::new(Files::at(data)?), system: system.to_owned() }))
    }

    /// The list in the tables of a system.
    pub fn in_tables(nagaya: &Nagaya) -> Self {
        let design = nagaya.design();
        let entity = design.audit_entity().or(design.entities.first());
        let (entity, table) = match entity {
            Some(entity) => (entity.name.clone(), design.table_of(entity).id.clone()),
            None => Default::default(),
        };
        // A rebuilt projection is another table: the list stays in the first one.
        let operator = nagaya.with_generation(&table, 1).operator(REASON, &Principal::new("", "nagaya"));
        RevocationStore(Place::Tables { operator, entity })
    }

    /// How often servers read it.
    pub(super) fn interval(&self) -> Duration {
        match self.0 {
            Place::Directory { .. } => Duration::from_secs(1),
            // A read of a table costs money.
            Place::Tables { .. } => Duration::from_secs(4),
        }
    }

    /// All revocations.
    pub async fn list(&self) -> Result<Vec<Revocation>, IssuerError> {
        let mut found = match self.0.clone() {
            Place::Directory { files, system } => {
                blocking(move || Ok(lists(&files)?.remove(&system).unwrap_or_default())).await?
            }
            Place::Tables { operator, entity } => {
                let records = records(&operator, &entity).await.map_err(|error| unreadable(&error))?;
                records.iter().filter_map(revocation_in).collect()
            }
        };
        found.sort();
        Ok(found)
    }

    /// Adds a revocation, and removes those for which `is_needed` is `false`. Of two for the same subject, the later time stays.
    pub async fn add(
        &self,
        revocation: Revocation,
        is_needed: impl Fn(&Revocation) -> bool + Send + 'static,
    ) -> Result<(), IssuerError> {
        match self.0.clone() {
            Place::Directory { files, system } => {
                blocking(move || {
                    let _lock = files.lock()?;
                    let mut lists = lists(&files)?;
                    let mut list = lists.remove(&system).unwrap_or_default();
                    let revocation = later(revocation, &list);
                    list.retain(|each| is_needed(each) && each.subject != revocation.subject);
                    list.push(revocation);
                    lists.insert(system, list);
                    files.replace(FILE, &json!({ "systems": lists }))
                })
                .await
            }
            Place::Tables { operator, entity } => {
                add_record(&operator, &entity, revocation, &is_needed).await.map_err(|error| unwritten(&error))
            }
        }
    }
}

/// The lists of all systems in a directory.
fn lists(files: &Files) -> Result<BTreeMap<String, Vec<Revocation>>, IssuerError> {
    let Some((path, mut json)) = files.json(FILE)? else { return Ok(BTreeMap::new()) };
    serde_json::from_value(json["systems"].take()).map_err(|error| damaged(&path, &error.to_string(), LOST_REVOCATIONS))
}

/// The revocation with the latest time that the list has for its subject.
fn later(mut revocation: Revocation, list: &[Revocation]) -> Revocation {
    for known in list.iter().filter(|known| known.subject == revocation.subject) {
        revocation.issued_before = revocation.issued_before.max(known.issued_before);
    }
    revocation
}

/// The side records of the list.
async fn records(operator: &Operator, entity: &str) -> Result<Vec<SideRecord>, Error> {
    let mut all: Vec<SideRecord> = Vec::new();
    loop {
        let after = all.last().map(|record| record.name.clone());
        let page = operator.side_records(entity, PREFIX, after.as_deref(), PAGE).await?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}

async fn add_record(
    operator: &Operator,
    entity: &str,
    revocation: Revocation,
    is_needed: &(impl Fn(&Revocation) -> bool + Send),
) -> Result<(), Error> {
    let name = name(&revocation.subject);
    let mut retry = Retry::default();
    loop {
        retry.attempt().await?;
        let known = operator.side_record(entity, RecordOwner::System, &name).await?;
        let before: Vec<_> = known.iter().filter_map(revocation_in).collect();
        let Json::Object(fields) = json!(later(revocation.clone(), &before)) else { break };
        let set = operator.change_set().side_record(entity, RecordOwner::System, &name, Some(fields), known.as_ref());
        match set.commit().await {
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error),
            Ok(_) => break,
        }
    }
    let unneeded = records(operator, entity).await?;
    for record in unneeded.iter().filter(|record| revocation_in(record).is_some_and(|each| !is_needed(&each))) {
        let set = operator.change_set().side_record(entity, RecordOwner::System, &record.name, None, Some(record));
        match set.commit().await {
            // Another process has changed or removed it.
            Err(error) if !error.is_lost_race() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The revocation in a side record; `None` for one of a later version.
fn revocation_in(record: &SideRecord) -> Option<Revocation> {
    serde_json::from_value(Json::Object(record.fields.clone())).ok()
}

/// The name of a side record: a hash, because ids may have any characters and any length.
fn name(subject: &RevokedSubject) -> String {
    format!("{PREFIX}{}", blake3::hash(json!(subject).to_string().as_bytes()).to_hex())
}

/// Runs what waits for files.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, IssuerError> + Send + 'static,
) -> Result<T, IssuerError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(IssuerError::new(format!("the list of revoked tokens: {error}"))))
}

fn unreadable(error: &Error) -> IssuerError {
    IssuerError::new(format!("the list of revoked tokens cannot be read: {error}"))
}

fn unwritten(error: &Error) -> IssuerError {
    IssuerError::new(format!("the list of revoked tokens cannot be written: {error}"))
}
