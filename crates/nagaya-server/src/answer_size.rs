//! How much a request may read, and how large the answer of a write may be.

use nagaya_design::{Design, Entity, MAX_PAGE};
use nagaya_tenancy::MAX_PAGE_BYTES;

use crate::{
    CustomRoute,
    limits::SMALL_BODY,
    roles,
    route::{Operation, Route},
};

/// What an item may have beyond the body that creates it: ids, times, and other defaults.
const DEFAULT_FIELD_BYTES: usize = 8 * 1024;

/// Bytes of the largest item of each entity of a design.
pub(crate) struct AnswerSizes(Vec<usize>);

impl AnswerSizes {
    pub(crate) fn of_design(design: &Design) -> Self {
        AnswerSizes(design.entities.iter().map(Entity::max_bytes).collect())
    }

    /// The most bytes that a read holds in memory: its largest item, or a page of such items. 0 for writes.
    pub(crate) fn of_read(&self, design: &Design, route: &Route, query: &[(String, String)]) -> usize {
        if !route.method.is_safe() {
            return 0;
        }
        match route.operation {
            Operation::Read(id) => self.0[id.0],
            Operation::List(id) => {
                let access = id.pattern_in(design);
                let limit = query.iter().find(|(name, _)| name == "limit").and_then(|(_, value)| value.parse().ok());
                let items = limit.unwrap_or(access.limit as usize).min(MAX_PAGE);
                items.saturating_mul(self.0[access.entity]).min(MAX_PAGE_BYTES)
            }
            _ => MAX_PAGE_BYTES,
        }
    }

    /// The largest answer of a write, in bytes: the largest item of its entity; for a create, at most the body and the defaults.
    /// 0 for reads.
    pub(crate) fn of_write(&self, design: &Design, route: &Route, custom: &[CustomRoute], body: usize) -> usize {
        if route.method.is_safe() {
            return 0;
        }
        let created = body.saturating_add(DEFAULT_FIELD_BYTES);
        match route.operation {
            Operation::Create(id) => created.min(self.0[id.0]),
            Operation::Update(id) => self.0[id.0],
            Operation::Custom(_) => {
                let entity = roles::required_permission(design, route, custom).map(|(entity, _)| entity);
                let written = entity.and_then(|name| design.entities.iter().position(|entity| entity.name == name));
                // A handler that does not say what it writes may answer anything.
                written.map_or(created.max(SMALL_BODY + 1), |at| self.0[at])
            }
            Operation::Read(_) | Operation::Delete(_) | Operation::List(_) | Operation::OperatorLog => 0,
        }
    }
}
