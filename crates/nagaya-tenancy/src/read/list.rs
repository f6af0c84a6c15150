//! Lists: an access pattern with its parameters becomes pages of records.

use std::{iter::once_with, sync::Arc};

use nagaya_design::{
    AccessParameter, AccessPattern, Design, Field, FieldError, FieldType, ResultKind, SortBound, SortCondition,
    TimestampPrecision, Verb, Wall,
};
use nagaya_store::{Condition, Item, Key, KeyValue, PagePosition, Query, SortCondition as StoreSort};
use serde_json::Value as Json;

use super::{List, Page, cursor, guard::PageGuard};
use crate::{Error, ErrorKind, Record, compiled::CompiledEntity, scope::Scope, session::Session, values};

/// Items that are read at once, at least, where a filter leaves some out.
const MIN_FILTERED_PAGE_SIZE: usize = 100;
/// Bytes of the items of a page; further ones are on the next page.
pub const MAX_PAGE_BYTES: usize = 2 * 1024 * 1024;
/// The most items that are read for one page of a caller and not shown, because they are others' or do not fit the filter.
const MAX_SKIPPED: usize = 2_000;

impl Session {
    pub(crate) async fn list(&self, list: &List) -> Result<Page, Error> {
        let design = &self.state.design;
        let access =
            design.access_pattern(&list.access).ok_or_else(|| ErrorKind::NoAccessPattern(list.access.clone()))?;
        self.scope.authorize_access(design, access)?;
        self.require_reason()?;
        self.check_parameters(access, list)?;
        let compiled = self.state.compiled(&design.entities[access.entity].name)?;
        self.audit_reading("list", once_with(|| (compiled, access.name.clone()))).await?;
        let settings = &self.state.settings;
        let open = |cursor: &String| cursor::open(settings, &self.cursor_binding(access, list), cursor);
        let after = match (&list.cursor, &list.after) {
            (Some(cursor), _) => Some(open(cursor)?),
            (None, Some(id)) => Some(self.position_of_id(access, compiled, id)?),
            (None, None) => None,
        };
        let counts = access.returns == ResultKind::Count;
        let Some(mut query) = self.query(access, compiled, list)? else {
            return Ok(Page { records: Vec::new(), next: None, count: counts.then_some(0) });
        };
        query.after = after;
        // Other users' items are left out by the store, and by the guard.
        let user_condition = self.user_condition(compiled, Verb::Read);
        let is_limited = user_condition.is_some();
        query.filter = query.filter.into_iter().chain(user_condition).reduce(Condition::and);
        let guard = PageGuard::new(self, access, compiled);
        if counts {
            return self.count(&guard, query).await;
        }
        let wanted = page_size(access, list);
        let projection = (!access.projection.is_empty()).then_some(access.projection.as_slice());
        // Where tenants share a partition, a cursor of the store would tell that others have items there. There the page has a
        // cursor only if one of the caller's own items follows, or if so many items of others lie between that looking for one
        // would take too long. The same holds for users who see their own items only.
        let hides_others = design.wall_of(access) == Wall::Attribute || is_limited;
        // A single item has no next page: it is looked for to the end. The items on the way are the tenant's own, as the checker
        // ensures; the same holds for a count.
        let may_skip = if access.returns == ResultKind::One { usize::MAX } else { MAX_SKIPPED };
        let to_find = records_to_find(access, list, hides_others);
        let mut records = Vec::with_capacity(to_find.min(MIN_FILTERED_PAGE_SIZE));
        let (mut next, mut bytes, mut is_full) = (None, None, false);
        // The items that the store may have read for this page.
        let mut read = 0_usize;
        for round in 0.. {
            let missing = to_find - records.len();
            if round > 0 {
                // A store in this process answers at once: without this, a long list would keep its thread from all other requests.
                tokio::task::yield_now().await;
            }
            let left = may_skip.saturating_sub(read.saturating_sub(records.len()));
            let limit = read_limit(&query, missing).min(left);
            read = read.saturating_add(limit);
            query.limit = Some(limit);
            let page = self.state.store.query(query.clone()).await?;
            next = page.next;
            let mut items = page.items.into_iter();
            for item in items.by_ref() {
                if let Some(item) = guard.admit(item)? {
                    // A page of the store is smaller than the limit: most lists need not be measured.
                    if round > 0 {
                        let of_records = || records.iter().map(|record: &Record| record.item().size()).sum();
                        let bytes: &mut usize = bytes.get_or_insert_with(of_records);
                        *bytes += item.size();
                        is_full = *bytes > MAX_PAGE_BYTES && !records.is_empty();
                    }
                    if is_full {
                        break;
                    }
                    records.push(Record::new(Arc::clone(compiled), item).only(projection));
                    if records.len() == to_find {
                        break;
                    }
                }
            }
            if is_full || items.next().is_some() {
                // The next page starts after the last record of this one.
                next = records.last().and_then(|record| self.position(access, compiled, record.item()));
            }
            match &next {
                Some(position) if records.len() < to_find && !is_full && read - records.len() < may_skip => {
                    query.after = Some(position.clone());
                }
                _ => break,
            }
        }
        let is_cut_short = records.len() < to_find && !is_full && next.is_some();
        if hides_others && !is_cut_short {
            let more = records.len() > wanted || is_full;
            records.truncate(wanted);
            let last = records.last().filter(|_| more);
            next = last.and_then(|record| self.position(access, compiled, record.item()));
        }
        let next = next.filter(|_| access.returns != ResultKind::One);
        let seal = |position| cursor::seal(settings, &self.cursor_binding(access, list), &position);
        Ok(Page { records, next: next.map(seal).transpose()?, count: None })
    }

    async fn count(&self, guard: &PageGuard<'_>, mut query: Query) -> Result<Page, Error> {
        let mut count = 0;
        loop {
            let page = self.state.store.query(query.clone()).await?;
            for item in page.items {
                count += u64::from(guard.admit(item)?.is_some());
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(Page { records: Vec::new(), next: None, count: Some(count) }),
            }
            tokio::task::yield_now().await;
        }
    }

    /// The query of an access pattern; `None` if no item can match.
    pub(super) fn query(
        &self,
        access: &AccessPattern,
        compiled: &CompiledEntity,
        list: &List,
    ) -> Result<Option<Query>, Error> {
        let design = &self.state.design;
        let asked = design.query(access, given_parameters(self.known_parameters(access), &self.scope, list).as_slice());
        let asked = asked.map_err(|unfit| Error::problem(unfit.field, unfit.reason))?;
        Ok(store_query(design, &self.scope, access, compiled, list, asked))
    }

    /// Holds for items of the session's tenant; `None` if it has no tenant or the entity has none.
    pub(super) fn tenant_condition(&self, compiled: &CompiledEntity) -> Option<Condition> {
        tenant_condition(&self.scope, compiled)
    }

    fn check_parameters(&self, access: &AccessPattern, list: &List) -> Result<(), Error> {
        check_parameters(&self.state.design, access, self.known_parameters(access), list)
    }

    fn known_parameters(&self, access: &AccessPattern) -> &[AccessParameter] {
        self.state.parameters.get(&access.name).map_or(&[], Vec::as_slice)
    }

    /// The position of an item in what an access pattern reads.
    fn position(&self, access: &AccessPattern, compiled: &CompiledEntity, item: &Item) -> Option<PagePosition> {
        let key = compiled.stored_key(item)?;
        let index_key = match access.mapping {
            None => None,
            Some(_) => {
                let (attributes, _) = self.state.design.key_of_access(access);
                let text = |attribute: &str| item.get(attribute)?.as_str();
                Some(Key::new(text(&attributes.partition)?, text(&attributes.sort)?))
            }
        };
        Some(PagePosition { key, index_key })
    }

    /// The position of the item with this id, whether it exists or not.
    fn position_of_id(
        &self,
        access: &AccessPattern,
        compiled: &CompiledEntity,
        id: &[String],
    ) -> Result<PagePosition, Error> {
        if access.mapping.is_some() {
            return Err(Error::problem("after", "goes only with access patterns that read the table itself"));
        }
        let id: Vec<&str> = id.iter().map(String::as_str).collect();
        let key = compiled.key_of(self.scope.tenant(), &id);
        let key = key.ok_or_else(|| Error::problem("after", "is an id that no item can have"))?;
        Ok(PagePosition { key, index_key: None })
    }

    /// Seals a position that code above this layer pages by. `bound` says what it is a position in.
    pub(crate) fn seal_position(&self, bound: &[&str], position: &[&str]) -> Result<String, Error> {
        cursor::seal_texts(&self.state.settings, &self.position_binding(bound), position)
    }

    /// Opens what [`Session::seal_position`] sealed for the same caller and the same `bound`.
    pub(crate) fn open_position(&self, bound: &[&str], cursor: &str) -> Result<Vec<String>, Error> {
        cursor::open_texts(&self.state.settings, &self.position_binding(bound), cursor)
    }

    /// No access pattern has an empty name: a position is never taken for the cursor of a list.
    fn position_binding(&self, bound: &[&str]) -> Vec<u8> {
        self.binding([""].into_iter().chain(bound.iter().copied()))
    }

    /// What a cursor of this list is bound to: it opens for the same caller and the same list only.
    fn cursor_binding(&self, access: &AccessPattern, list: &List) -> Vec<u8> {
        let mut parameters: Vec<_> = list.parameters.iter().collect();
        parameters.sort();
        let order = if list.descending.unwrap_or(access.descending) { "down" } else { "up" };
        let parameters = parameters.into_iter().flat_map(|(name, value)| [name.as_str(), value]);
        self.binding([access.name.as_str(), order].into_iter().chain(parameters))
    }

    /// The caller, the design, and these parts.
    fn binding<'p>(&self, parts: impl Iterator<Item = &'p str>) -> Vec<u8> {
        let design = &self.state.design;
        let version = design.version;
        let mut bound = Vec::with_capacity(128);
        // Each part has its length in front, so that different parts never give the same bytes.
        let mut add = |part: &str| {
            bound.extend((part.len() as u64).to_be_bytes());
            bound.extend(part.as_bytes());
        };
        add(match self.scope {
            Scope::Tenant(_) => "tenant",
            Scope::Operator => "operator",
            Scope::Visitor => "visitor",
        });
        [self.scope.tenant().unwrap_or_default(), &design.name].into_iter().for_each(&mut add);
        parts.for_each(&mut add);
        add(&self.principal.user);
        add(self.principal.issuer.as_deref().unwrap_or_default());
        bound.extend([version.major, version.minor].into_iter().flat_map(|number| u64::from(number).to_be_bytes()));
        bound
    }
}

/// The first query that a list sends to the store, with the filters of the wall and of soft deletion, for people to read.
///
/// A tenant lists items behind its wall, an operator those behind the `system` wall. A required parameter that is not given is
/// written as `<name>`. `None`: no key can match, so nothing is sent.
pub fn list_query(design: &Design, base: &str, tenant: &str, list: &List) -> Result<Option<Query>, Error> {
    let access = design.access_pattern(&list.access).ok_or_else(|| ErrorKind::NoAccessPattern(list.access.clone()))?;
    let entity = &design.entities[access.entity];
    let compiled = CompiledEntity::new(design, entity, design.table_of(entity).physical_name(base));
    let scope = match design.wall_of(access) {
        Wall::Key | Wall::Attribute => Scope::Tenant(tenant.into()),
        Wall::System => Scope::Operator,
        Wall::Public => Scope::Visitor,
    };
    let known = design.parameters(access);
    check_parameters(design, access, &known, list)?;
    let given = given_parameters(&known, &scope, list);
    let is_given = |parameter: &AccessParameter| given.iter().any(|(name, _)| *name == parameter.name);
    let asked = if known.iter().all(|parameter| !parameter.required || is_given(parameter)) {
        design.query(access, given.as_slice()).map_err(|unfit| Error::problem(unfit.field, unfit.reason))?
    } else {
        design.query_outline(access, given.as_slice())
    };
    let query = store_query(design, &scope, access, &compiled, list, asked);
    let hides_others = design.wall_of(access) == Wall::Attribute;
    Ok(query.map(|query| {
        let to_find = records_to_find(access, list, hides_others);
        let limit = (access.returns != ResultKind::Count).then(|| read_limit(&query, to_find));
        Query { limit, ..query }
    }))
}

/// Refuses parameters that the access pattern does not have, that come from the token, or that no item can match.
fn check_parameters(
    design: &Design,
    access: &AccessPattern,
    known: &[AccessParameter],
    list: &List,
) -> Result<(), Error> {
    let entity = &design.entities[access.entity];
    let mut problems = Vec::new();
    for (name, value) in &list.parameters {
        let message = match known.iter().find(|parameter| parameter.name == *name) {
            None => "is not a parameter of this access pattern".to_owned(),
            Some(parameter) if parameter.from_token => "comes from the token; leave it out".to_owned(),
            Some(parameter) => match entity.field(&parameter.field).filter(|_| !is_bound(access, name)) {
                Some(field) => {
                    let mut found = Vec::new();
                    field.check(&typed(field, value), name, &mut found);
                    problems.extend(found.into_iter().next());
                    continue;
                }
                None => continue,
            },
        };
        problems.push(FieldError { path: name.clone(), message });
    }
    if problems.is_empty() { Ok(()) } else { Err(ErrorKind::Invalid(problems).into()) }
}

/// The parameters of a list, and the tenant where the token gives it.
fn given_parameters<'l>(known: &'l [AccessParameter], scope: &'l Scope, list: &'l List) -> Vec<(&'l str, &'l str)> {
    let given = list.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let from_token = known.iter().filter(|known| known.from_token);
    given.chain(from_token.filter_map(|known| Some((known.name.as_str(), scope.tenant()?)))).collect()
}

/// A query of the design as the store gets it; `None` when no key can match.
fn store_query(
    design: &Design,
    scope: &Scope,
    access: &AccessPattern,
    compiled: &CompiledEntity,
    list: &List,
    asked: nagaya_design::Query,
) -> Option<Query> {
    let sort = match asked.sort {
        SortCondition::Any => StoreSort::Any,
        SortCondition::Equal(key) => StoreSort::Equal(key.into()),
        SortCondition::BeginsWith(start) => StoreSort::BeginsWith(start.into()),
        SortCondition::Between(from, to) => StoreSort::Between(from.into(), to.into()),
        SortCondition::AtLeast(from) => StoreSort::GreaterOrEqual(from.into()),
        SortCondition::Below(to) => StoreSort::Less(to.into()),
        SortCondition::Nothing => return None,
    };
    // Where tenants share a partition, the store leaves out the items of the others.
    let shared = design.wall_of(access) == Wall::Attribute;
    let conditions = [
        asked.discriminator.map(|(attribute, value)| Condition::equal(attribute.as_str(), value)),
        asked.filter.as_ref().map(values::condition),
        tenant_condition(scope, compiled).filter(|_| shared),
        compiled.soft_deleted.clone().map(|deleted| Condition::Not(Box::new(deleted))),
    ];
    Some(Query {
        table: compiled.table.clone(),
        index: asked.index,
        partition: KeyValue::from(asked.partition),
        sort,
        descending: list.descending.unwrap_or(asked.descending),
        filter: conditions.into_iter().flatten().reduce(Condition::and),
        limit: None,
        after: None,
    })
}

fn tenant_condition(scope: &Scope, compiled: &CompiledEntity) -> Option<Condition> {
    Some(Condition::equal(values::path(compiled.entity.tenant.as_deref()?), scope.tenant()?))
}

/// The largest number of records of a page.
fn page_size(access: &AccessPattern, list: &List) -> usize {
    match access.returns {
        ResultKind::One => 1,
        _ => list.limit.unwrap_or(access.limit as usize).clamp(1, nagaya_design::MAX_PAGE),
    }
}

/// The number of records that a page looks for: one more where the list hides items of others, to know whether the caller has
/// more.
fn records_to_find(access: &AccessPattern, list: &List, hides_others: bool) -> usize {
    page_size(access, list) + usize::from(hides_others && access.returns == ResultKind::Many)
}

/// The items that a list reads from the store at once, at least: even a page of one item reads several where a filter leaves some
/// out, and a count reads as many as the store gives.
pub fn min_items_read(design: &Design, access: &AccessPattern) -> usize {
    if access.returns == ResultKind::Count {
        return usize::MAX;
    }
    let entity = &design.entities[access.entity];
    let outline = design.query_outline(access, [("", ""); 0].as_slice());
    let has_filter = outline.filter.is_some()
        || outline.discriminator.is_some()
        || design.wall_of(access) == Wall::Attribute
        || entity.owner.is_some()
        || entity.soft_delete.is_some();
    if has_filter { MIN_FILTERED_PAGE_SIZE } else { 1 }
}

/// The number of items that the store reads to find this many records.
fn read_limit(query: &Query, missing: usize) -> usize {
    if query.filter.is_none() { missing } else { missing.max(MIN_FILTERED_PAGE_SIZE) }
}

/// Whether a parameter is an end of a range or the beginning of a text, which need not be a value of its field.
fn is_bound(access: &AccessPattern, name: &str) -> bool {
    match &access.bound {
        SortBound::Range(field) => name != field && matches!(name, "from" | "to"),
        SortBound::Prefix(field) => name == field,
        _ => false,
    }
}

/// The text of a parameter as a value of its field's type, where it can be one.
fn typed(field: &Field, text: &str) -> Json {
    let value = match field.field_type {
        FieldType::Integer | FieldType::Timestamp(TimestampPrecision::Epoch) => {
            text.parse::<i64>().ok().map(Json::from)
        }
        FieldType::Number => text.parse::<serde_json::Number>().ok().map(Json::from),
        FieldType::Boolean => text.parse::<bool>().ok().map(Json::from),
        _ => None,
    };
    value.unwrap_or_else(|| text.into())
}
