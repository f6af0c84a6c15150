//! The jobs that changes lead to, each one once.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher},
};

use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use nagaya_tenancy::{Error, ItemChange, Nagaya, Record};

use crate::{
    catalog::{Kind, counts, counts::CatalogEntry},
    search,
};

/// The entities whose changes lead to jobs.
pub(super) const SUBSCRIBED_ENTITIES: [&str; 6] =
    ["saved_recipe", "saved_set", "recipe", "set", "catalog_recipe", "catalog_set"];

/// The entities that are read when all items are reconciled: also those of counts and postings whose source may be deleted.
pub(super) const SCANNED_ENTITIES: [&str; 10] = [
    "saved_recipe",
    "saved_set",
    "recipe",
    "set",
    "catalog_recipe",
    "catalog_set",
    "creator_recipe",
    "creator_set",
    "search_term",
    "catalog_term",
];

/// Jobs that run at the same time.
const CONCURRENT_JOBS: usize = 8;

/// What has to be reconciled.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    /// Users who may have saved or unsaved a publication. A publication has one count, so its users go together.
    saved: BTreeMap<CatalogEntry, BTreeSet<String>>,
    /// Publications whose whole count is checked.
    recounted: BTreeSet<CatalogEntry>,
    /// Items whose postings may have changed, by entity, tenant and id.
    searched: BTreeSet<(String, String, Vec<String>)>,
}

/// One job.
#[derive(Debug, Clone)]
pub(super) enum Job {
    Count(CatalogEntry, Vec<String>),
    Recount(CatalogEntry),
    Search { entity: String, tenant: String, id: Vec<String> },
}

impl Job {
    /// Its name in logs: without users, who are persons.
    pub(super) fn in_logs(&self) -> String {
        match self {
            Job::Count(publication, _) | Job::Recount(publication) => format!("saves of {}", publication.in_logs()),
            Job::Search { entity, id, .. } => format!("postings of {entity} {}", id.join("/")),
        }
    }
}

impl Jobs {
    /// The jobs of changes: of the items before as well as of the items after.
    pub(super) fn of_changes(changes: &[ItemChange]) -> Self {
        let mut jobs = Jobs::default();
        for change in changes {
            for record in change.old.iter().chain(&change.new) {
                jobs.add(&change.tenant, record);
            }
        }
        jobs
    }

    /// The jobs of items whose changes are unknown. An item with postings is reached from each of them, and kept only when it
    /// was not seen before.
    pub(super) fn of_items(items: &[(String, Record)], seen: &mut HashSet<u64>) -> Self {
        let mut jobs = Jobs::default();
        for (tenant, record) in items {
            jobs.add(tenant, record);
            // A deleted save has left its count record, and a deleted item its postings.
            let kind = Kind::ALL.into_iter().find(|kind| kind.names().creator == record.entity());
            jobs.recounted.extend(kind.and_then(|kind| CatalogEntry::copy(kind, record)));
            jobs.searched.extend(indexed_item_of(record).map(|(entity, id)| (entity, tenant.clone(), id)));
        }
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        jobs.searched.retain(|searched| seen.insert(hasher.hash_one(searched)));
        jobs
    }

    fn add(&mut self, tenant: &str, record: &Record) {
        let entity = record.entity();
        if let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.names().saved == entity) {
            let publication = CatalogEntry::saved(kind, record);
            publication.into_iter().for_each(|publication| {
                self.saved.entry(publication).or_default().insert(tenant.to_owned());
            });
        } else if search::is_indexed(entity) {
            self.searched.insert((entity.to_owned(), tenant.to_owned(), record.id()));
        }
    }

    /// Whether a job is about something that these are about too.
    pub(super) fn contains(&self, job: &Job) -> bool {
        match job {
            Job::Count(publication, _) => self.saved.contains_key(publication),
            Job::Recount(publication) => self.recounted.contains(publication),
            Job::Search { entity, tenant, id } => self.searched.contains(&(entity.clone(), tenant.clone(), id.clone())),
        }
    }

    pub(super) fn list(self) -> Vec<Job> {
        let counted = self.saved.into_iter().map(|(publication, users)| Job::Count(publication, Vec::from_iter(users)));
        let recounted = self.recounted.into_iter().map(Job::Recount);
        let searched = self.searched.into_iter().map(|(entity, tenant, id)| Job::Search { entity, tenant, id });
        counted.chain(recounted).chain(searched).collect()
    }
}

/// A job that failed, and why.
pub(super) type FailedJob = (Job, Error);

/// Runs jobs; those that failed.
pub(super) async fn run(nagaya: &Nagaya, jobs: impl Iterator<Item = Job>) -> Vec<FailedJob> {
    let run = |job: Job| async move { job.run(nagaya).await.err().map(|error| (job, error)) }.boxed();
    let jobs: Vec<BoxFuture<'_, _>> = jobs.map(run).collect();
    stream::iter(jobs).buffer_unordered(CONCURRENT_JOBS).filter_map(std::future::ready).collect().await
}

/// The item of a posting.
fn indexed_item_of(posting: &Record) -> Option<(String, Vec<String>)> {
    let text = |field: &str| posting.text(field).map(str::to_owned);
    let names = Kind::from_link_name(posting.text("kind")?)?.names();
    match posting.entity() {
        "search_term" => Some((names.own.to_owned(), vec![text("targetId")?])),
        "catalog_term" => Some((names.catalog.to_owned(), vec![text("createdAt")?, text("targetId")?])),
        _ => None,
    }
}

impl Job {
    async fn run(&self, nagaya: &Nagaya) -> Result<(), Error> {
        match self {
            Job::Count(publication, users) => counts::reconcile(nagaya, publication, users).await,
            Job::Recount(publication) => counts::recount(nagaya, publication).await,
            Job::Search { entity, tenant, id } => search::reconcile(nagaya, entity, tenant, id).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_logged_without_persons() {
        let entry = CatalogEntry {
            kind: Kind::Recipe,
            creator: "mio@example.com".to_owned(),
            created_at: "2026-02-09T08:19:00Z".to_owned(),
            id: "01JCQ3T0VJ2Q8W3E5R7T9Y1Z2A".to_owned(),
        };
        let (entity, tenant) = ("recipe".to_owned(), "mio@example.com".to_owned());
        let id = vec!["01JCQ3T0VJ2Q8W3E5R7T9Y1Z2A".to_owned()];
        for job in [
            Job::Count(entry.clone(), vec!["aoi@example.com".to_owned()]),
            Job::Recount(entry),
            Job::Search { entity, tenant, id },
        ] {
            let logged = job.in_logs();
            assert!(logged.contains("01JCQ3T0VJ2Q8W3E5R7T9Y1Z2A") && !logged.contains("example.com"), "{logged}");
        }
    }
}
