//! The postings of an item: kept in step with it, whoever is told of a change, how often and how late.
//!
//! A note beside the item says which terms are posted, and is written in the same set as the postings: it is always right. So
//! a change that is told twice, late, or to two processes at once does no harm, and neither does an end in the middle.

use nagaya_tenancy::{Error, Keeper, Nagaya, Note, Principal, Record, Retry, Set, Tenant};
use serde_json::{Map, Value as Json, json};

use super::{
    Collection,
    terms::{self, Weighted},
};
use crate::product::{AT_ONCE, fields, lost};

/// Who keeps postings in step.
const USER: &str = "search";

/// Brings the postings of an item in step with the item as it is now, or is not any more.
pub(crate) async fn reconcile(nagaya: &Nagaya, entity: &str, tenant: &str, id: &[String]) -> Result<(), Error> {
    let Some(collection) = Collection::of(entity) else { return Ok(()) };
    let postings = Postings::new(nagaya, collection, tenant, id)?;
    let mut retry = Retry::default();
    let mut lost_race = false;
    loop {
        match postings.step(lost_race).await {
            Ok(Step::InStep) => return Ok(()),
            Ok(Step::Further) => {}
            Err(error) if lost(&error) => {
                retry.attempt().await?;
                lost_race = true;
            }
            Err(error) => return Err(error),
        }
    }
}

/// The postings of one item.
pub(super) struct Postings<'i> {
    pub(super) tenant: Tenant,
    collection: &'static Collection,
    id: Vec<&'i str>,
    note: String,
}

enum Step {
    InStep,
    Further,
}

impl<'i> Postings<'i> {
    /// Those of the item with this id. Postings are the tenant's own, made of nothing but the tenant's own item: there is
    /// nothing in that to write down as done by an operator.
    pub(super) fn new(
        nagaya: &Nagaya,
        collection: &'static Collection,
        tenant: &str,
        id: &'i [String],
    ) -> Result<Self, Error> {
        let note = format!("search-{}-{}", collection.entity, id.join("-"));
        let id = id.iter().map(String::as_str).collect();
        Ok(Postings { tenant: nagaya.tenant(&Principal::new(tenant, USER))?, collection, id, note })
    }

    /// Writes what is missing, as far as it fits one set. After a lost race nothing is taken for granted.
    async fn step(&self, careful: bool) -> Result<Step, Error> {
        // The note first: then the item is at least as new, and if both are the same, nothing is to be done.
        let note = self.noted().await?;
        let mut posted = note.as_ref().map(posted).unwrap_or_default();
        let changes = changes(&posted, &self.wanted().await?);
        if changes.is_empty() {
            return Ok(Step::InStep);
        }
        let there = self.there(&changes, careful).await?;
        let mut set = self.tenant.set();
        for (change, there) in changes.into_iter().zip(there) {
            set = self.change(set, &change, there.as_ref());
            match change.to {
                Some(weight) => drop(posted.insert(change.term, weight)),
                None => drop(posted.remove(&change.term)),
            }
        }
        let told = (!posted.is_empty()).then(|| told(&posted));
        set.note(self.collection.entity, Keeper::Tenant, &self.note, told, note.as_ref()).commit().await?;
        Ok(Step::Further)
    }

    pub(super) async fn noted(&self) -> Result<Option<Note>, Error> {
        self.tenant.note(self.collection.entity, Keeper::Tenant, &self.note).await
    }

    /// The terms that the item gives; none if it is gone.
    pub(super) async fn wanted(&self) -> Result<Weighted, Error> {
        let record = match self.tenant.get(self.collection.entity, &self.id).await {
            Ok(record) => record,
            Err(error) if error.is_not_found() => return Ok(Weighted::new()),
            Err(error) => return Err(error),
        };
        // What is public all can read: it has to be this creator's.
        let creator = record.text("creatorId");
        let own = !self.collection.public || creator == Some(&*self.tenant.principal().tenant);
        Ok(if own { self.collection.terms(&record) } else { Weighted::new() })
    }

    /// The postings that are to be changed as they are stored, one for each change. Those that are new are looked for only
    /// when nothing is taken for granted.
    async fn there(&self, changes: &[Change], careful: bool) -> Result<Vec<Option<Record>>, Error> {
        let ids: Vec<_> =
            changes.iter().map(|change| (careful || !change.new).then(|| self.posting(&change.term))).collect();
        let ids: Vec<Option<Vec<&str>>> =
            ids.iter().map(|id| id.as_ref().map(|id| id.iter().map(String::as_str).collect())).collect();
        let wanted: Vec<_> = ids.iter().flatten().map(|id| (self.collection.postings(), id.as_slice())).collect();
        let mut found = self.tenant.get_many(&wanted).await?.into_iter();
        Ok(ids.iter().map(|id| id.as_ref().and_then(|_| found.next().flatten())).collect())
    }

    /// The id of the posting of a term.
    fn posting(&self, term: &str) -> Vec<String> {
        let initial = term.chars().next().filter(|_| self.collection.public).map(String::from);
        let own = self.id.iter().map(|&part| part.to_owned());
        [self.collection.kind.to_owned()].into_iter().chain(initial).chain([term.to_owned()]).chain(own).collect()
    }

    fn change(&self, set: Set, change: &Change, there: Option<&Record>) -> Set {
        let (entity, id) = (self.collection.postings(), self.posting(&change.term));
        let id: Vec<&str> = id.iter().map(String::as_str).collect();
        match (change.to, there) {
            (Some(weight), None) => set.create(entity, self.fields(&change.term, weight)),
            (Some(weight), Some(there)) => set.update(entity, &id, fields(json!({ "weight": weight })), there),
            (None, Some(there)) => set.delete(entity, &id, there),
            (None, None) => set,
        }
    }

    fn fields(&self, term: &str, weight: i64) -> Map<String, Json> {
        let names: &[&str] = if self.collection.public {
            &["kind", "initial", "term", "createdAt", "targetId"]
        } else {
            &["kind", "term", "targetId"]
        };
        let texts = names.iter().zip(self.posting(term)).map(|(name, value)| ((*name).to_owned(), Json::from(value)));
        texts.chain([("weight".to_owned(), Json::from(weight))]).collect()
    }
}

/// What is to become of a posting.
struct Change {
    term: String,
    /// Its weight from now on; `None`: it goes.
    to: Option<i64>,
    /// Whether the note does not know it.
    new: bool,
}

/// What leads from what is posted to what is wanted, as far as it fits one set.
fn changes(posted: &Weighted, wanted: &Weighted) -> Vec<Change> {
    let change = |term: &String, to: Option<i64>| Change { term: term.clone(), to, new: !posted.contains_key(term) };
    let gone = posted.keys().filter(|term| !wanted.contains_key(*term)).map(|term| change(term, None));
    let come = wanted.iter().filter(|(term, weight)| posted.get(*term) != Some(weight));
    gone.chain(come.map(|(term, weight)| change(term, Some(*weight)))).take(AT_ONCE).collect()
}

/// What a note says is posted: for each weight its terms, with spaces between them.
pub(super) fn posted(note: &Note) -> Weighted {
    let mut posted = Weighted::new();
    for (weight, terms) in &note.fields {
        let Some((weight, terms)) = weight.parse().ok().zip(terms.as_str()) else { continue };
        posted.extend(terms.split(' ').map(|term| (term.to_owned(), weight)));
    }
    posted
}

/// A note of what is posted.
fn told(posted: &Weighted) -> Map<String, Json> {
    let mut told: Map<String, Json> = Map::new();
    let weights: std::collections::BTreeSet<i64> = posted.values().copied().collect();
    for weight in weights {
        let terms = posted.iter().filter(|(_, each)| **each == weight).map(|(term, _)| term.as_str());
        told.insert(weight.to_string(), terms.collect::<Vec<_>>().join(" ").into());
    }
    told
}

impl Collection {
    /// The terms of an item: those of its title, its tags, what it is made of, and its description.
    fn terms(&self, record: &Record) -> Weighted {
        let list = |field: &str| match record.json(field) {
            Some(Json::Array(elements)) => elements,
            _ => Vec::new(),
        };
        let (tags, (parts, part)) = (list("tags"), self.parts);
        let parts = list(parts);
        let title = record.text("title").map(|title| (TITLE, title));
        let tags = tags.iter().filter_map(|tag| Some((TAG, tag.as_str()?)));
        let parts = parts.iter().filter_map(|each| Some((PART, each.get(part)?.as_str()?)));
        let description = record.text("description").map(|text| (DESCRIPTION, text));
        terms::of(title.into_iter().chain(tags).chain(parts).chain(description))
    }
}

const TITLE: i64 = 4;
const TAG: i64 = 2;
const PART: i64 = 2;
const DESCRIPTION: i64 = 1;
