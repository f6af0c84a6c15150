//! What changes come to: each thing that has to be looked at, once.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher},
};

use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use nagaya_tenancy::{Changed, Error, Nagaya, Record};

use crate::{
    catalog::{Kind, counts, counts::Publication},
    search,
};

/// The entities whose changes matter.
pub(super) const FOLLOWED: [&str; 6] = ["saved_recipe", "saved_set", "recipe", "set", "catalog_recipe", "catalog_set"];

/// Those that matter when everything is looked at: also what was made of something that may be gone since.
pub(super) const LOOKED_AT: [&str; 10] = [
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

/// Jobs that are done at the same time.
const AT_ONCE: usize = 8;

/// What has to be looked at.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Who may or may not have saved what: of one publication together, because it has one count.
    saved: BTreeMap<Publication, BTreeSet<String>>,
    /// What may be counted wrong without any change that tells.
    counting: BTreeSet<Publication>,
    /// What may be found by other words, by entity, tenant and id.
    searched: BTreeSet<(String, String, Vec<String>)>,
}

/// One thing to do.
#[derive(Debug, Clone)]
pub(super) enum Job {
    Count(Publication, Vec<String>),
    Settle(Publication),
    Search { entity: String, tenant: String, id: Vec<String> },
}

impl Work {
    /// What changes come to: what was saved before as well as what is saved now.
    pub(super) fn of_changes(changes: &[Changed]) -> Self {
        let mut work = Work::default();
        for change in changes {
            for record in change.old.iter().chain(&change.new) {
                work.add(&change.tenant, record);
            }
        }
        work
    }

    /// What items come to that may have changed since nobody knows when. Of what can be searched, only what has not been
    /// seen yet: each of its terms leads to it.
    pub(super) fn of_items(items: &[(String, Record)], seen: &mut HashSet<u64>) -> Self {
        let mut work = Work::default();
        for (tenant, record) in items {
            work.add(tenant, record);
            // A save that is gone has left its note, and what could be searched its terms.
            let kind = Kind::ALL.into_iter().find(|kind| kind.names().creator == record.entity());
            work.counting.extend(kind.and_then(|kind| Publication::copy(kind, record)));
            work.searched.extend(searched_by(record).map(|(entity, id)| (entity, tenant.clone(), id)));
        }
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        work.searched.retain(|searched| seen.insert(hasher.hash_one(searched)));
        work
    }

    fn add(&mut self, tenant: &str, record: &Record) {
        let entity = record.entity();
        for kind in Kind::ALL {
            let names = kind.names();
            if entity == names.saved {
                let publication = Publication::saved(kind, record);
                publication.into_iter().for_each(|publication| {
                    self.saved.entry(publication).or_default().insert(tenant.to_owned());
                });
            } else if entity == names.own || entity == names.catalog {
                self.searched.insert((entity.to_owned(), tenant.to_owned(), record.id()));
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.saved.is_empty() && self.counting.is_empty() && self.searched.is_empty()
    }

    pub(super) fn jobs(self) -> impl Iterator<Item = Job> {
        let counted = self.saved.into_iter().map(|(publication, users)| Job::Count(publication, Vec::from_iter(users)));
        let settled = self.counting.into_iter().map(Job::Settle);
        let searched = self.searched.into_iter().map(|(entity, tenant, id)| Job::Search { entity, tenant, id });
        counted.chain(settled).chain(searched)
    }
}

/// Does all of them; those that could not be done, and why.
pub(super) async fn run(nagaya: &Nagaya, jobs: impl Iterator<Item = Job>) -> Vec<(Job, Error)> {
    let run = |job: Job| async move { job.run(nagaya).await.err().map(|error| (job, error)) }.boxed();
    let jobs: Vec<BoxFuture<'_, _>> = jobs.map(run).collect();
    stream::iter(jobs).buffer_unordered(AT_ONCE).filter_map(std::future::ready).collect().await
}

/// What a term is of.
fn searched_by(term: &Record) -> Option<(String, Vec<String>)> {
    let text = |field: &str| term.text(field).map(str::to_owned);
    let names = Kind::called(term.text("kind")?)?.names();
    match term.entity() {
        "search_term" => Some((names.own.to_owned(), vec![text("targetId")?])),
        "catalog_term" => Some((names.catalog.to_owned(), vec![text("createdAt")?, text("targetId")?])),
        _ => None,
    }
}

impl Job {
    async fn run(&self, nagaya: &Nagaya) -> Result<(), Error> {
        match self {
            Job::Count(publication, users) => counts::reconcile(nagaya, publication, users).await,
            Job::Settle(publication) => counts::settle(nagaya, publication).await,
            Job::Search { entity, tenant, id } => search::reconcile(nagaya, entity, tenant, id).await,
        }
    }
}
