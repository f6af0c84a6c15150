//! Lists: an access pattern with its parameters becomes pages of records.

use std::sync::Arc;

use nagaya_design::{Access, Design, Parameter, Problem, Returns, Sort, Wall};
use nagaya_store::{Condition, Item, KeyValue, Position, Query, Sort as StoreSort};

use crate::{
    Error, ErrorKind, Record,
    blueprint::Blueprint,
    cursor,
    guard::{Scope, Sight},
    room::Room,
};

/// The question that an access pattern answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    access: String,
    parameters: Vec<(String, String)>,
    limit: Option<usize>,
    descending: Option<bool>,
    cursor: Option<String>,
}

/// A page of records.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The records, in order.
    pub records: Vec<Record>,
    /// Where to go on; `None`: that was all.
    pub next: Option<String>,
    /// How many there are, for access patterns that count.
    pub count: Option<u64>,
}

/// Records of the largest page.
const MAX_PAGE: usize = 1_000;
/// What is read at least at once where a condition leaves items out.
const FILTERED_PAGE: usize = 100;
/// Store pages that one page of a caller costs at most.
const MAX_ROUNDS: usize = 20;

impl List {
    /// By an access pattern of the design.
    pub fn by(access: impl Into<String>) -> Self {
        List { access: access.into(), parameters: Vec::new(), limit: None, descending: None, cursor: None }
    }

    /// With a parameter.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.parameters.push((name.into(), value.into()));
        self
    }

    /// At most so many records; the access pattern's page size otherwise.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// From the end, or from the start; as the access pattern says otherwise.
    #[must_use]
    pub fn descending(mut self, descending: bool) -> Self {
        self.descending = Some(descending);
        self
    }

    /// From where a page ended.
    #[must_use]
    pub fn cursor(mut self, cursor: impl Into<String>) -> Self {
        self.cursor = Some(cursor.into());
        self
    }

    /// The access pattern.
    pub fn access(&self) -> &str {
        &self.access
    }

    /// Everything that it says, as the parameters of a request: those of the access pattern, `limit`, `order`, `cursor`.
    pub fn to_parameters(&self) -> Vec<(String, String)> {
        let order = |descending: bool| if descending { "desc" } else { "asc" }.to_owned();
        let own = [
            ("limit", self.limit.map(|limit| limit.to_string())),
            ("order", self.descending.map(order)),
            ("cursor", self.cursor.clone()),
        ];
        let own = own.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        self.parameters.iter().cloned().chain(own).collect()
    }
}

impl Room {
    pub(crate) async fn list(&self, list: &List) -> Result<Page, Error> {
        let design = &self.house.design;
        let access = design.access(&list.access).ok_or_else(|| ErrorKind::NoAccess(list.access.clone()))?;
        self.scope.follows(design, access)?;
        let blueprint = self.house.blueprint(&design.entities[access.entity].name)?;
        if self.reason.is_some() {
            self.is_reasoned()?;
            self.note_reading("list", [(blueprint, access.name.clone())]).await?;
        }
        let settings = &self.house.settings;
        let open = |cursor: &String| cursor::open(settings, &self.bound(access, list), cursor);
        let after = list.cursor.as_ref().map(open).transpose()?;
        let Some(mut query) = self.query(access, blueprint, list)? else {
            return Ok(Page {
                records: Vec::new(),
                next: None,
                count: (access.returns == Returns::Count).then_some(0),
            });
        };
        query.after = after;
        if access.returns == Returns::Count {
            return self.count(access, blueprint, query).await;
        }
        let wanted = page_size(access, list);
        let projection = (!access.projection.is_empty()).then_some(access.projection.as_slice());
        // Where tenants share a partition, how far the store was read tells of the others' items. There the page goes on
        // only if one of the caller's own follows, however far away it is.
        let shared = design.wall_of(access) == Wall::Attribute;
        let rounds = if shared { usize::MAX } else { MAX_ROUNDS };
        let reach = reach(design, access, list);
        let mut records = Vec::with_capacity(reach.min(FILTERED_PAGE));
        let mut next = None;
        let sight = self.scope.sight(design, access, blueprint);
        for _ in 0..rounds {
            let missing = reach - records.len();
            query.limit = Some(read_limit(&query, missing));
            let page = self.house.store.query(query.clone()).await?;
            next = page.next;
            let mut items = page.items.into_iter();
            for item in items.by_ref() {
                if let Some(item) = self.listed(&sight, blueprint, item)? {
                    records.push(Record::new(Arc::clone(blueprint), item).only(projection));
                    if records.len() == reach {
                        break;
                    }
                }
            }
            if items.next().is_some() {
                // The page goes on after the last one that is passed on.
                next = records.last().and_then(|record| self.position(access, blueprint, record.item()));
            }
            match &next {
                Some(position) if records.len() < reach => query.after = Some(position.clone()),
                _ => break,
            }
        }
        if shared {
            let more = records.len() > wanted;
            records.truncate(wanted);
            let last = records.last().filter(|_| more);
            next = last.and_then(|record| self.position(access, blueprint, record.item()));
        }
        let next = next.filter(|_| access.returns != Returns::One);
        let next = next.map(|position| cursor::seal(settings, &self.bound(access, list), &position)).transpose()?;
        Ok(Page { records, next, count: None })
    }

    async fn count(&self, access: &Access, blueprint: &Blueprint, mut query: Query) -> Result<Page, Error> {
        let sight = self.scope.sight(&self.house.design, access, blueprint);
        let mut count = 0;
        loop {
            let page = self.house.store.query(query.clone()).await?;
            for item in page.items {
                count += u64::from(self.listed(&sight, blueprint, item)?.is_some());
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(Page { records: Vec::new(), next: None, count: Some(count) }),
            }
        }
    }

    /// An item of a page, unless it is one of the layer's own or on its way out.
    fn listed(&self, sight: &Sight<'_>, blueprint: &Blueprint, item: Item) -> Result<Option<Item>, Error> {
        if sight.admits(&item) {
            return Ok(Some(item).filter(|item| !blueprint.is_deleted(item)));
        }
        if blueprint.is_layers_own(&item) { Ok(None) } else { Err(self.house.breach(blueprint)) }
    }

    /// The query of an access pattern; `None` when nothing can be in it.
    pub(crate) fn query(&self, access: &Access, blueprint: &Blueprint, list: &List) -> Result<Option<Query>, Error> {
        let design = &self.house.design;
        let known = self.house.parameters.get(&access.name).map_or(&[][..], Vec::as_slice);
        let given = given_parameters(known, self.scope.tenant(), list)?;
        let asked = design.query(access, given.as_slice());
        let asked = asked.map_err(|unfit| Error::problem(unfit.field, unfit.reason))?;
        Ok(store_query(design, &self.scope, access, blueprint, list, asked))
    }

    /// Where an item lies in what an access pattern reads.
    fn position(&self, access: &Access, blueprint: &Blueprint, item: &Item) -> Option<Position> {
        let key = blueprint.stored_key(item)?;
        let index_key = match access.mapping {
            None => None,
            Some(_) => {
                let (attributes, _) = self.house.design.source_of(access);
                let text = |attribute: &str| item.get(attribute)?.as_str();
                Some(nagaya_store::Key::new(text(&attributes.partition)?, text(&attributes.sort)?))
            }
        };
        Some(Position { key, index_key })
    }

    /// What a cursor of this list is good for.
    fn bound(&self, access: &Access, list: &List) -> Vec<u8> {
        let design = &self.house.design;
        let mut parameters: Vec<_> = list.parameters.iter().collect();
        parameters.sort();
        let version = design.version;
        let order = if list.descending.unwrap_or(access.descending) { "down" } else { "up" };
        let mut bound = Vec::with_capacity(128);
        // Each part has its length in front, so that none can be taken for the end of another.
        let mut add = |part: &str| {
            bound.extend((part.len() as u64).to_be_bytes());
            bound.extend(part.as_bytes());
        };
        add(match self.scope {
            Scope::Tenant(_) => "tenant",
            Scope::Operator => "operator",
            Scope::Visitor => "visitor",
        });
        [self.scope.tenant().unwrap_or_default(), &design.name, &access.name, order].into_iter().for_each(&mut add);
        parameters.into_iter().flat_map(|(name, value)| [name, value]).for_each(|part| add(part));
        bound.extend([version.major, version.minor].into_iter().flat_map(|number| u64::from(number).to_be_bytes()));
        bound
    }
}

/// The first query that a list sends to the store, with the filters of the wall and of soft deletion, for people to read.
///
/// A tenant lists what is behind its wall, an operator what is the system's. A required parameter that is not given stands
/// as `<name>`. `None`: no key can match, so nothing is sent.
pub fn list_query(design: &Design, base: &str, tenant: &str, list: &List) -> Result<Option<Query>, Error> {
    let access = design.access(&list.access).ok_or_else(|| ErrorKind::NoAccess(list.access.clone()))?;
    let entity = &design.entities[access.entity];
    let blueprint = Blueprint::new(design, entity, design.table_of(entity).physical_name(base));
    let scope = match design.wall_of(access) {
        Wall::Key | Wall::Attribute => Scope::Tenant(tenant.into()),
        Wall::System => Scope::Operator,
        Wall::Public => Scope::Visitor,
    };
    let known = design.parameters(access);
    let given = given_parameters(&known, scope.tenant(), list)?;
    let is_given = |parameter: &Parameter| given.iter().any(|(name, _)| *name == parameter.name);
    let asked = if known.iter().all(|parameter| !parameter.required || is_given(parameter)) {
        design.query(access, given.as_slice()).map_err(|unfit| Error::problem(unfit.field, unfit.reason))?
    } else {
        design.query_outline(access, given.as_slice())
    };
    let query = store_query(design, &scope, access, &blueprint, list, asked);
    Ok(query.map(|query| {
        let limit = (access.returns != Returns::Count).then(|| read_limit(&query, reach(design, access, list)));
        Query { limit, ..query }
    }))
}

/// The parameters of a request, and the tenant where the token gives it.
fn given_parameters<'l>(
    known: &'l [Parameter],
    tenant: Option<&'l str>,
    list: &'l List,
) -> Result<Vec<(&'l str, &'l str)>, Error> {
    let mut problems = Vec::new();
    let mut given: Vec<(&str, &str)> = Vec::new();
    for (name, value) in &list.parameters {
        let message = match known.iter().find(|parameter| parameter.name == *name) {
            None => "is not a parameter of this access pattern",
            Some(parameter) if parameter.from_token => "comes from the token; leave it out",
            Some(_) => {
                given.push((name, value));
                continue;
            }
        };
        problems.push(Problem { path: name.clone(), message: message.to_owned() });
    }
    if !problems.is_empty() {
        return Err(ErrorKind::Invalid(problems).into());
    }
    if let Some(tenant) = tenant {
        given.extend(known.iter().filter(|known| known.from_token).map(|known| (known.name.as_str(), tenant)));
    }
    Ok(given)
}

/// A query of the design as the store gets it; `None` when no key can match.
fn store_query(
    design: &Design,
    scope: &Scope,
    access: &Access,
    blueprint: &Blueprint,
    list: &List,
    asked: nagaya_design::Query,
) -> Option<Query> {
    let sort = match asked.sort {
        Sort::Any => StoreSort::Any,
        Sort::Equal(key) => StoreSort::Equal(key.into()),
        Sort::BeginsWith(start) => StoreSort::BeginsWith(start.into()),
        Sort::Between(from, to) => StoreSort::Between(from.into(), to.into()),
        Sort::AtLeast(from) => StoreSort::GreaterOrEqual(from.into()),
        Sort::Below(to) => StoreSort::Less(to.into()),
        Sort::Nothing => return None,
    };
    let conditions = [
        asked.discriminator.map(|(attribute, value)| Condition::equal(attribute.as_str(), value)),
        asked.filter.as_ref().map(crate::values::condition),
        scope.filter(design, access, blueprint),
        blueprint.deleted.clone().map(|deleted| Condition::Not(Box::new(deleted))),
    ];
    Some(Query {
        table: blueprint.table.clone(),
        index: asked.index,
        partition: KeyValue::from(asked.partition),
        sort,
        descending: list.descending.unwrap_or(asked.descending),
        filter: conditions.into_iter().flatten().reduce(Condition::and),
        limit: None,
        after: None,
    })
}

/// How many records a page has at most.
fn page_size(access: &Access, list: &List) -> usize {
    match access.returns {
        Returns::One => 1,
        _ => list.limit.unwrap_or(access.limit as usize).clamp(1, MAX_PAGE),
    }
}

/// How many records a page looks for: one more where tenants share a partition, to know whether the tenant has more.
fn reach(design: &Design, access: &Access, list: &List) -> usize {
    let shared = design.wall_of(access) == Wall::Attribute;
    page_size(access, list) + usize::from(shared && access.returns == Returns::Many)
}

/// How many items the store reads to find so many records.
fn read_limit(query: &Query, missing: usize) -> usize {
    if query.filter.is_none() { missing } else { missing.max(FILTERED_PAGE) }
}
