//! How much a request may read, and how large the answer of a write may be.

use nagaya_design::{Design, Entity, MAX_PAGE, ResultKind};
use nagaya_tenancy::{MAX_PAGE_BYTES, min_items_read};

use crate::{
    CustomRoute,
    limits::SMALL_BODY,
    roles,
    route::{Operation, Route},
};

/// What an item may have beyond the body that creates it: ids, times, and other defaults.
const DEFAULT_FIELD_BYTES: usize = 8 * 1024;

/// How large items of a design can be, and how many a list reads.
pub(crate) struct ItemSizes {
    /// Bytes of the largest item of each entity.
    largest: Vec<usize>,
    /// The items that each access pattern reads at once, at least.
    min_read: Vec<usize>,
}

impl ItemSizes {
    pub(crate) fn of_design(design: &Design) -> Self {
        let largest = design.entities.iter().map(Entity::max_bytes).collect();
        let min_read = design.access_patterns.iter().map(|access| min_items_read(design, access)).collect();
        ItemSizes { largest, min_read }
    }

    /// The most bytes that a route holds in memory of what it reads at once: an item, or a page of items. 0 for writes.
    ///
    /// A custom route counts if it answers with pages. Others may wait for something else than the store while they hold what this
    /// allows, and would keep out those that read.
    pub(crate) fn read_by(
        &self,
        design: &Design,
        route: &Route,
        custom: &[CustomRoute],
        query: &[(String, String)],
    ) -> usize {
        if !route.method.is_safe() {
            return 0;
        }
        let limit = || query.iter().find(|(name, _)| name == "limit").and_then(|(_, value)| value.parse().ok());
        match route.operation {
            Operation::Read(id) => self.largest[id.0],
            Operation::List(id) => {
                let access = id.pattern_in(design);
                let items = match access.returns {
                    ResultKind::Many => limit().unwrap_or(access.limit as usize).min(MAX_PAGE),
                    ResultKind::One | ResultKind::Count => 1,
                };
                page_bytes(items.max(self.min_read[id.0]), self.largest[access.entity])
            }
            Operation::Custom(id) if id.find_in(custom).is_some_and(|route| route.is_paged) => {
                let item = self.of_custom(design, route, custom).unwrap_or(MAX_PAGE_BYTES);
                page_bytes(limit().unwrap_or(MAX_PAGE).min(MAX_PAGE), item)
            }
            Operation::OperatorLog => MAX_PAGE_BYTES,
            Operation::Custom(_) | Operation::Create(_) | Operation::Update(_) | Operation::Delete(_) => 0,
        }
    }

    /// The largest answer of a write, in bytes: the largest item of its entity; for a create, at most the body and the defaults.
    /// 0 for reads.
    pub(crate) fn answered_by(&self, design: &Design, route: &Route, custom: &[CustomRoute], body: usize) -> usize {
        if route.method.is_safe() {
            return 0;
        }
        let created = body.saturating_add(DEFAULT_FIELD_BYTES);
        match route.operation {
            Operation::Create(id) => created.min(self.largest[id.0]),
            Operation::Update(id) => self.largest[id.0],
            // A handler that does not say what it writes may answer anything.
            Operation::Custom(_) => self.of_custom(design, route, custom).unwrap_or(created.max(SMALL_BODY + 1)),
            Operation::Read(_) | Operation::Delete(_) | Operation::List(_) | Operation::OperatorLog => 0,
        }
    }

    /// The largest item of the entity for which a custom route needs a permission.
    fn of_custom(&self, design: &Design, route: &Route, custom: &[CustomRoute]) -> Option<usize> {
        let (entity, _) = roles::required_permission(design, route, custom)?;
        design.entities.iter().position(|known| known.name == entity).map(|at| self.largest[at])
    }
}

fn page_bytes(items: usize, item: usize) -> usize {
    items.saturating_mul(item).min(MAX_PAGE_BYTES)
}
