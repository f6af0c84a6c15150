//! How often something was saved.
//!
//! For each save that is counted there is a note beside the counting item, and note and count are written in one set: the
//! count is the number of notes. So counting is making the notes agree with the saves, and it does not matter how often,
//! how late, in which order or by how many at once a save is looked at. Whoever has written looks again: what changed
//! meanwhile was looked at by somebody who did not see that write.

use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, future::BoxFuture, stream};
use nagaya_tenancy::{Error, Keeper, Nagaya, Note, Principal, Record, Retry, Set, Tenant};
use serde_json::json;

use super::Kind;
use crate::product::{fields, lost};

/// Who counts, in what is written down.
const USER: &str = "saved-counts";
/// Saves that are counted by one write.
const TOGETHER: usize = 40;
/// Saves that are looked at at the same time.
const AT_ONCE: usize = 8;
/// Notes that are read at once.
const PAGE: usize = 400;
/// How often a count is tried that others were faster with.
const RACES: usize = 100;

/// Something in the catalog, from its publishing to its withdrawal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Publication {
    pub(crate) kind: Kind,
    pub(crate) creator: String,
    pub(crate) created_at: String,
    pub(crate) id: String,
}

impl Publication {
    /// The one that was saved.
    pub(crate) fn saved(kind: Kind, saved: &Record) -> Option<Self> {
        Publication::read(kind, saved, "catalogCreatedAt")
    }

    /// The one that a copy is of.
    pub(crate) fn copy(kind: Kind, copy: &Record) -> Option<Self> {
        Publication::read(kind, copy, "createdAt")
    }

    fn read(kind: Kind, record: &Record, created_at: &str) -> Option<Self> {
        let text = |field: &str| record.text(field).map(str::to_owned);
        let (creator, created_at, id) = (text("creatorId")?, text(created_at)?, text(kind.names().id)?);
        Some(Publication { kind, creator, created_at, id })
    }

    /// The id of the item that counts, on its creator's page.
    fn page(&self) -> [&str; 3] {
        [&self.creator, &self.created_at, &self.id]
    }

    /// What the notes of its saves are called, up to the user. Neither id nor moment can be taken for a part of the other.
    fn prefix(&self) -> String {
        format!("saved-{}-{}-{}-", self.kind.names().own, self.id, self.created_at)
    }
}

/// A save that is not counted as it should be.
struct Wrong {
    user: String,
    /// The note, if there is one that should go; `None`: there should be one.
    note: Option<Note>,
}

/// Makes the count agree with whether these users have saved it.
pub(crate) async fn reconcile(nagaya: &Nagaya, publication: &Publication, users: &[String]) -> Result<(), Error> {
    for users in users.chunks(TOGETHER) {
        together(nagaya, publication, users).await?;
    }
    Ok(())
}

/// Makes the count agree with all who are counted, whether or not a change tells of them, and with their number.
pub(crate) async fn settle(nagaya: &Nagaya, publication: &Publication) -> Result<(), Error> {
    let creator = handle(nagaya, &publication.creator)?;
    let mut after = None;
    while let Some(users) = counted_users(&creator, publication, &mut after).await? {
        reconcile(nagaya, publication, &users).await?;
    }
    let mut retry = Retry::new(RACES);
    loop {
        retry.attempt().await?;
        let Some(counting) = counting(&creator, publication).await? else { return Ok(()) };
        let (mut number, mut after) = (0, None);
        while let Some(users) = counted_users(&creator, publication, &mut after).await? {
            number += users.len() as u64;
        }
        if number == count(&counting) {
            return Ok(());
        }
        tracing::warn!(?publication, number, "a saved count is not the number of its saves");
        // Every note that came or went since has moved the item's version.
        match counted(creator.set(), publication, &counting, number).commit().await {
            Err(error) if !lost(&error) => return Err(error),
            _ => {}
        }
    }
}

/// Makes the count agree with as many saves as one write takes.
async fn together(nagaya: &Nagaya, publication: &Publication, users: &[String]) -> Result<(), Error> {
    let creator = handle(nagaya, &publication.creator)?;
    let mut retry = Retry::new(RACES);
    loop {
        retry.attempt().await?;
        let counting = counting(&creator, publication).await?;
        let looked: Vec<BoxFuture<'_, _>> =
            users.iter().map(|user| look(nagaya, &creator, publication, user).boxed()).collect();
        let wrong: Vec<Option<Wrong>> = stream::iter(looked).buffer_unordered(AT_ONCE).try_collect().await?;
        let mut wrong: Vec<Wrong> = wrong.into_iter().flatten().collect();
        if counting.is_none() {
            // Withdrawn: nothing is counted any more, and a note that is not needed goes by itself.
            wrong.retain(|wrong| wrong.note.is_some());
        }
        if wrong.is_empty() {
            return Ok(());
        }

        let mut set = creator.set();
        if let Some(counting) = &counting {
            let fewer = wrong.iter().filter(|wrong| wrong.note.is_some()).count();
            let more = wrong.len() - fewer;
            let number = count(counting).saturating_add(more as u64).saturating_sub(fewer as u64);
            set = counted(set, publication, counting, number);
        }
        for Wrong { user, note } in &wrong {
            let said = note.is_none().then(|| fields(json!({ "user": user })));
            let name = format!("{}{user}", publication.prefix());
            set = set.note(publication.kind.names().creator, Keeper::Tenant, &name, said, note.as_ref());
        }
        match set.commit().await {
            Err(error) if !lost(&error) => return Err(error),
            _ => {}
        }
    }
}

/// Whether a save is counted as it should be; `None`: it is.
async fn look(
    nagaya: &Nagaya,
    creator: &Tenant,
    publication: &Publication,
    user: &str,
) -> Result<Option<Wrong>, Error> {
    let Publication { kind, id, .. } = publication;
    let saved = found(handle(nagaya, user)?.get(kind.names().saved, &[id]).await)?;
    let saved = saved.and_then(|saved| Publication::saved(*kind, &saved)).as_ref() == Some(publication);
    let name = format!("{}{user}", publication.prefix());
    let note = creator.note(kind.names().creator, Keeper::Tenant, &name).await?;
    Ok((saved != note.is_some()).then(|| Wrong { user: user.to_owned(), note }))
}

/// Some of the users who are counted, after those of before; `None`: those were all.
async fn counted_users(
    creator: &Tenant,
    publication: &Publication,
    after: &mut Option<String>,
) -> Result<Option<Vec<String>>, Error> {
    let prefix = publication.prefix();
    let page = creator.notes(publication.kind.names().creator, &prefix, after.as_deref(), PAGE).await?;
    let Some(last) = page.last() else { return Ok(None) };
    *after = Some(last.name.clone());
    Ok(Some(page.iter().filter_map(|note| note.name.strip_prefix(&prefix)).map(str::to_owned).collect()))
}

/// The item that counts; `None`: withdrawn.
async fn counting(creator: &Tenant, publication: &Publication) -> Result<Option<Record>, Error> {
    found(creator.get(publication.kind.names().creator, &publication.page()).await)
}

fn count(counting: &Record) -> u64 {
    counting.json("savedCount").and_then(|count| count.as_u64()).unwrap_or_default()
}

/// Adds a count to a set. To be saved is no change of what was published.
fn counted(set: Set, publication: &Publication, counting: &Record, number: u64) -> Set {
    let patch = json!({ "savedCount": number, "updatedAt": counting.json("updatedAt") });
    set.update(publication.kind.names().creator, &publication.page(), fields(patch), counting)
}

/// Somebody's handle. What is read to be counted is nothing to write down, or there would be more of it than of saves.
fn handle(nagaya: &Nagaya, tenant: &str) -> Result<Tenant, Error> {
    nagaya.tenant(&Principal::new(tenant, USER))
}

fn found(read: Result<Record, Error>) -> Result<Option<Record>, Error> {
    match read {
        Ok(record) => Ok(Some(record)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
