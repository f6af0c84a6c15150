//! How often a publication was saved.
//!
//! Each counted save has a record beside the item with the count. Record and count are written in one set, so the count is the
//! number of records. Counting makes the records match the saves. It may run repeatedly, late, in any order and in several
//! processes at once. After a write the saves are read again: a change in the meantime was processed by a run that did not see
//! that write.

use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, future::BoxFuture, stream};
use nagaya_tenancy::{ChangeSet, Error, Nagaya, Principal, Record, RecordOwner, Retry, SideRecord, Tenant};
use serde_json::json;

use super::Kind;
use crate::product::object_fields;

/// The user in audit records.
const USER: &str = "saved-counts";
/// Saves that one write counts.
const SAVES_PER_WRITE: usize = 40;
/// Saves that are read at the same time.
const CONCURRENT_READS: usize = 8;
/// Records of a page.
const PAGE_SIZE: usize = 400;
/// How often a count that loses races is tried.
const MAX_ATTEMPTS: usize = 100;

/// An item in the catalog, from its publication to its withdrawal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CatalogEntry {
    pub(crate) kind: Kind,
    pub(crate) creator: String,
    pub(crate) created_at: String,
    pub(crate) id: String,
}

impl CatalogEntry {
    /// Its name in logs: without its creator, who is a person.
    pub(crate) fn in_logs(&self) -> String {
        format!("{} {}", self.kind.names().catalog, self.id)
    }

    /// The publication that was saved.
    pub(crate) fn saved(kind: Kind, saved: &Record) -> Option<Self> {
        CatalogEntry::read(kind, saved, "catalogCreatedAt")
    }

    /// The publication of a copy.
    pub(crate) fn copy(kind: Kind, copy: &Record) -> Option<Self> {
        CatalogEntry::read(kind, copy, "createdAt")
    }

    fn read(kind: Kind, record: &Record, created_at: &str) -> Option<Self> {
        let text = |field: &str| record.text(field).map(str::to_owned);
        let (creator, created_at, id) = (text("creatorId")?, text(created_at)?, text(kind.names().id)?);
        Some(CatalogEntry { kind, creator, created_at, id })
    }

    /// The id of the item with the count, on its creator's page.
    pub(super) fn counter_id(&self) -> [&str; 3] {
        [&self.creator, &self.created_at, &self.id]
    }

    /// The prefix of the names of its records; the user follows.
    fn prefix(&self) -> String {
        format!("saved-{}-{}-{}-", self.kind.names().own, self.id, self.created_at)
    }
}

/// A save that is counted wrongly.
struct Miscount {
    user: String,
    /// The record, if there is one that must be deleted; `None`: one must be created.
    note: Option<SideRecord>,
}

/// Makes the count match whether these users have saved the publication.
pub(crate) async fn reconcile(nagaya: &Nagaya, publication: &CatalogEntry, users: &[String]) -> Result<(), Error> {
    for users in users.chunks(SAVES_PER_WRITE) {
        reconcile_some(nagaya, publication, users).await?;
    }
    Ok(())
}

/// Checks all users who are counted, and makes the count their number.
pub(crate) async fn recount(nagaya: &Nagaya, publication: &CatalogEntry) -> Result<(), Error> {
    let creator = handle(nagaya, &publication.creator)?;
    let mut after = None;
    while let Some(users) = counted_users(&creator, publication, &mut after).await? {
        reconcile(nagaya, publication, &users).await?;
    }
    let mut retry = Retry::new(MAX_ATTEMPTS);
    loop {
        retry.attempt().await?;
        let Some(counter) = find_counter(&creator, publication).await? else { return Ok(()) };
        let (mut number, mut after) = (0, None);
        while let Some(users) = counted_users(&creator, publication, &mut after).await? {
            number += users.len() as u64;
        }
        if number == stored_count(&counter) {
            return Ok(());
        }
        tracing::warn!(publication = publication.in_logs(), number, "a saved count is not the number of its saves");
        // A record that was created or deleted since has changed the item's version.
        match set_count(creator.change_set(), publication, &counter, number).commit().await {
            Err(error) if !error.is_lost_race() => return Err(error),
            _ => {}
        }
    }
}

/// The same for as many users as one write takes.
async fn reconcile_some(nagaya: &Nagaya, publication: &CatalogEntry, users: &[String]) -> Result<(), Error> {
    let creator = handle(nagaya, &publication.creator)?;
    let mut retry = Retry::new(MAX_ATTEMPTS);
    loop {
        retry.attempt().await?;
        let counter = find_counter(&creator, publication).await?;
        let checks: Vec<BoxFuture<'_, _>> =
            users.iter().map(|user| check(nagaya, &creator, publication, user).boxed()).collect();
        let miscounts: Vec<Option<Miscount>> =
            stream::iter(checks).buffer_unordered(CONCURRENT_READS).try_collect().await?;
        let mut miscounts: Vec<Miscount> = miscounts.into_iter().flatten().collect();
        if counter.is_none() {
            // Withdrawn: nothing is counted any more, and records are only deleted.
            miscounts.retain(|one| one.note.is_some());
        }
        if miscounts.is_empty() {
            return Ok(());
        }

        let mut set = creator.change_set();
        if let Some(counter) = &counter {
            let fewer = miscounts.iter().filter(|one| one.note.is_some()).count();
            let more = miscounts.len() - fewer;
            let number = stored_count(counter).saturating_add(more as u64).saturating_sub(fewer as u64);
            set = set_count(set, publication, counter, number);
        }
        for Miscount { user, note } in &miscounts {
            let fields = note.is_none().then(|| object_fields(json!({ "user": user })));
            let name = format!("{}{user}", publication.prefix());
            set = set.side_record(publication.kind.names().creator, RecordOwner::Tenant, &name, fields, note.as_ref());
        }
        match set.commit().await {
            Err(error) if !error.is_lost_race() => return Err(error),
            _ => {}
        }
    }
}

/// Whether a user's save is counted wrongly; `None`: it is not.
async fn check(
    nagaya: &Nagaya,
    creator: &Tenant,
    publication: &CatalogEntry,
    user: &str,
) -> Result<Option<Miscount>, Error> {
    let CatalogEntry { kind, id, .. } = publication;
    let saved = none_if_missing(handle(nagaya, user)?.get(kind.names().saved, &[id]).await)?;
    let saved = saved.and_then(|saved| CatalogEntry::saved(*kind, &saved)).as_ref() == Some(publication);
    let name = format!("{}{user}", publication.prefix());
    let note = creator.side_record(kind.names().creator, RecordOwner::Tenant, &name).await?;
    Ok((saved != note.is_some()).then(|| Miscount { user: user.to_owned(), note }))
}

/// A page of the users who are counted; `None`: there are no more.
async fn counted_users(
    creator: &Tenant,
    publication: &CatalogEntry,
    after: &mut Option<String>,
) -> Result<Option<Vec<String>>, Error> {
    let prefix = publication.prefix();
    let page = creator.side_records(publication.kind.names().creator, &prefix, after.as_deref(), PAGE_SIZE).await?;
    let Some(last) = page.last() else { return Ok(None) };
    *after = Some(last.name.clone());
    Ok(Some(page.iter().filter_map(|note| note.name.strip_prefix(&prefix)).map(str::to_owned).collect()))
}

/// The item with the count; `None`: withdrawn.
async fn find_counter(creator: &Tenant, publication: &CatalogEntry) -> Result<Option<Record>, Error> {
    none_if_missing(creator.get(publication.kind.names().creator, &publication.counter_id()).await)
}

fn stored_count(counter: &Record) -> u64 {
    counter.json("savedCount").and_then(|count| count.as_u64()).unwrap_or_default()
}

/// Adds the write of a count to a set. It is no change of the publication, so `updatedAt` stays.
fn set_count(set: ChangeSet, publication: &CatalogEntry, counter: &Record, number: u64) -> ChangeSet {
    let patch = json!({ "savedCount": number, "updatedAt": counter.json("updatedAt") });
    set.update(publication.kind.names().creator, &publication.counter_id(), object_fields(patch), counter)
}

/// A tenant's handle, and not an operator's: an audit record for each read would be more data than the saves.
fn handle(nagaya: &Nagaya, tenant: &str) -> Result<Tenant, Error> {
    nagaya.tenant(&Principal::new(tenant, USER))
}

fn none_if_missing(read: Result<Record, Error>) -> Result<Option<Record>, Error> {
    match read {
        Ok(record) => Ok(Some(record)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
