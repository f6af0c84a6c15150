//! The postings of an item.
//!
//! A record beside the item says which terms have postings. It is written in the same set as the postings, so it is always
//! right: a change that is processed twice, late, or by two processes at once does no harm, and neither does a crash.

use std::collections::BTreeMap;

use nagaya_tenancy::{ChangeSet, Error, Nagaya, Principal, Record, RecordOwner, Retry, SideRecord, Tenant};
use serde_json::{Map, Value as Json, json};

use super::{
    Collection,
    terms::{self, Text, Weighted},
};
use crate::{
    catalog::preview::has_price,
    product::{MAX_CHANGES, object_fields, object_from_fields},
};

/// The user that writes postings.
const USER: &str = "search";

/// Makes the postings of an item match the item as it is stored now, or its absence.
pub(crate) async fn reconcile(nagaya: &Nagaya, entity: &str, tenant: &str, id: &[String]) -> Result<(), Error> {
    let Some(collection) = Collection::of_entity(entity) else { return Ok(()) };
    let postings = Postings::new(nagaya, collection, tenant, id)?;
    let (mut retry, mut lost_race) = (Retry::default(), false);
    loop {
        match postings.step(lost_race).await {
            Ok(Step::UpToDate) => return Ok(()),
            Ok(Step::Incomplete) => {}
            Err(error) if error.is_lost_race() => {
                lost_race = true;
                retry.attempt().await?;
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
    UpToDate,
    /// More has to be written.
    Incomplete,
}

impl<'i> Postings<'i> {
    /// The postings of the item with this id. They belong to the tenant and come from the tenant's item only, so the tenant's
    /// handle writes them, and no operator.
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

    /// Writes what is missing, as far as it fits one set. After a lost race also new postings are read before.
    async fn step(&self, lost_race: bool) -> Result<Step, Error> {
        // The record first: then the item is at least as new, and if both match, nothing has to be done.
        let note = self.posted_record().await?;
        let mut posted = note.as_ref().map(posted_terms).unwrap_or_default();
        let changes = changes(&posted, &self.wanted_terms().await?);
        if changes.is_empty() {
            return Ok(Step::UpToDate);
        }
        let stored = self.stored(&changes, lost_race).await?;
        let mut set = self.tenant.change_set();
        for (change, stored) in changes.into_iter().zip(stored) {
            set = self.change(set, &change, stored.as_ref());
            match change.to {
                Some(weight) => drop(posted.insert(change.term, weight)),
                None => drop(posted.remove(&change.term)),
            }
        }
        let fields = (!posted.is_empty()).then(|| record_fields(&posted));
        set.side_record(self.collection.entity, RecordOwner::Tenant, &self.note, fields, note.as_ref())
            .commit()
            .await?;
        Ok(Step::Incomplete)
    }

    pub(super) async fn posted_record(&self) -> Result<Option<SideRecord>, Error> {
        self.tenant.side_record(self.collection.entity, RecordOwner::Tenant, &self.note).await
    }

    /// The terms of the item; none if it is deleted.
    pub(super) async fn wanted_terms(&self) -> Result<Weighted, Error> {
        let record = match self.tenant.get(self.collection.entity, &self.id).await {
            Ok(record) => record,
            Err(error) if error.is_not_found() => return Ok(Weighted::new()),
            Err(error) => return Err(error),
        };
        // Every tenant can read a public item: it must be this creator's.
        let creator = record.text("creatorId");
        let own = !self.collection.public || creator == Some(&*self.tenant.principal().tenant);
        Ok(if own { self.collection.terms(&record) } else { Weighted::new() })
    }

    /// The stored postings, one for each change. New ones are read only after a lost race.
    async fn stored(&self, changes: &[Change], lost_race: bool) -> Result<Vec<Option<Record>>, Error> {
        let ids: Vec<_> =
            changes.iter().map(|change| (lost_race || !change.new).then(|| self.posting(&change.term))).collect();
        let ids: Vec<Option<Vec<&str>>> =
            ids.iter().map(|id| id.as_ref().map(|id| id.iter().map(String::as_str).collect())).collect();
        let wanted: Vec<_> = ids.iter().flatten().map(|id| (self.collection.postings(), id.as_slice())).collect();
        let mut found = self.tenant.get_many(&wanted).await?.into_iter();
        Ok(ids.iter().map(|id| id.as_ref().and_then(|_| found.next().flatten())).collect())
    }

    /// Leaves pairs alone, as the first version of the index did.
    #[cfg(test)]
    pub(super) async fn forget_words(&self) {
        let record = self.posted_record().await.expect("it is read");
        let mut posted = record.as_ref().map(posted_terms).expect("it is indexed");
        let mut set = self.tenant.change_set();
        for term in posted.keys().filter(|term| !term.chars().all(char::is_alphanumeric)) {
            let id = self.posting(term);
            let id: Vec<&str> = id.iter().map(String::as_str).collect();
            set = set.delete(self.collection.postings(), &id, None);
        }
        posted.retain(|term, _| term.chars().all(char::is_alphanumeric));
        let fields = Some(record_fields(&posted));
        set.side_record(self.collection.entity, RecordOwner::Tenant, &self.note, fields, record.as_ref())
            .commit()
            .await
            .expect("the postings of version 1");
    }

    /// The id of the posting of a term.
    fn posting(&self, term: &str) -> Vec<String> {
        self.collection.posting_id(term, &self.id)
    }

    fn change(&self, set: ChangeSet, change: &Change, stored: Option<&Record>) -> ChangeSet {
        let (entity, id) = (self.collection.postings(), self.posting(&change.term));
        let id: Vec<&str> = id.iter().map(String::as_str).collect();
        match (change.to, stored) {
            (Some(weight), None) => set.create(entity, self.fields(&change.term, weight)),
            (Some(weight), Some(stored)) => set.update(entity, &id, object_fields(json!({ "weight": weight })), stored),
            (None, Some(stored)) => set.delete(entity, &id, stored),
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
        object_from_fields(texts.chain([("weight".to_owned(), Json::from(weight))]))
    }
}

/// A change of a posting.
struct Change {
    term: String,
    /// Its new weight; `None`: it is deleted.
    to: Option<i64>,
    /// Whether the record does not have it.
    new: bool,
}

/// The changes from the posted terms to the wanted ones, as far as they fit one set.
fn changes(posted: &Weighted, wanted: &Weighted) -> Vec<Change> {
    let change = |term: &String, to: Option<i64>| Change { term: term.clone(), to, new: !posted.contains_key(term) };
    let removed = posted.keys().filter(|term| !wanted.contains_key(*term)).map(|term| change(term, None));
    let changed = wanted.iter().filter(|(term, weight)| posted.get(*term) != Some(weight));
    removed.chain(changed.map(|(term, weight)| change(term, Some(*weight)))).take(MAX_CHANGES).collect()
}

/// The posted terms in a record: for each weight its terms, with spaces between them.
pub(super) fn posted_terms(note: &SideRecord) -> Weighted {
    let mut posted = Weighted::new();
    for (weight, terms) in &note.fields {
        let Some((weight, terms)) = weight.parse().ok().zip(terms.as_str()) else { continue };
        posted.extend(terms.split(' ').map(|term| (term.to_owned(), weight)));
    }
    posted
}

/// The record of the posted terms.
fn record_fields(posted: &Weighted) -> Map<String, Json> {
    let mut by_weight: BTreeMap<i64, Vec<&str>> = BTreeMap::new();
    for (term, weight) in posted {
        by_weight.entry(*weight).or_default().push(term);
    }
    object_from_fields(by_weight.into_iter().map(|(weight, terms)| (weight.to_string(), terms.join(" ").into())))
}

impl Collection {
    /// The id of the posting that an item has for a term.
    pub(super) fn posting_id(&self, term: &str, item: &[&str]) -> Vec<String> {
        let initial = terms::initial(term).filter(|_| self.public).map(String::from);
        let item = item.iter().map(|&part| part.to_owned());
        [self.kind.to_owned()].into_iter().chain(initial).chain([term.to_owned()]).chain(item).collect()
    }

    /// The terms of an item: those of its texts, its tags and its category.
    pub(super) fn terms(&self, record: &Record) -> Weighted {
        let tags = strings(record, "tags").into_iter().filter_map(|tag| terms::tag_term(&tag));
        let category = record.text("categoryId").filter(|_| !self.public).map(terms::category_term);
        let texts = self.weighted_texts(record);
        terms::index_terms(
            category.into_iter().chain(tags),
            texts.iter().map(|(weight, text)| (*weight, text.as_str())),
        )
    }

    /// The texts that phrases of a question are looked for in.
    pub(super) fn texts(&self, record: &Record) -> impl Iterator<Item = Text> {
        self.weighted_texts(record).into_iter().map(|(_, text)| Text::new(&text))
    }

    /// Its title, its tags, what it is made of, and its description.
    fn weighted_texts(&self, record: &Record) -> Vec<(i64, String)> {
        let (field, part) = self.parts;
        // A search must not tell what a paid item is made of: its preview does not.
        let parts = if self.public && has_price(record) { Vec::new() } else { elements(record, field) };
        let parts = parts.iter().filter_map(|each| Some(each.get(part)?.as_str()?.to_owned()));
        let text = |field: &str| record.text(field).map(str::to_owned);
        let title = text("title").map(|title| (TITLE_WEIGHT, title));
        let tags = strings(record, "tags").into_iter().map(|tag| (TAG_WEIGHT, tag));
        let parts = parts.map(|part| (PART_WEIGHT, part));
        let description = text("description").map(|text| (DESCRIPTION_WEIGHT, text));
        title.into_iter().chain(tags).chain(parts).chain(description).collect()
    }
}

fn elements(record: &Record, field: &str) -> Vec<Json> {
    match record.json(field) {
        Some(Json::Array(elements)) => elements,
        _ => Vec::new(),
    }
}

/// A list of texts.
pub(super) fn strings(record: &Record, field: &str) -> Vec<String> {
    elements(record, field).iter().filter_map(|each| Some(each.as_str()?.to_owned())).collect()
}

pub(super) const TITLE_WEIGHT: i64 = 4;
const TAG_WEIGHT: i64 = 2;
const PART_WEIGHT: i64 = 2;
const DESCRIPTION_WEIGHT: i64 = 1;
