//! The routes of a design: one table for the router, the OpenAPI document and the tests.

use axum::http::Method;
use nagaya_design::{AccessPattern, Design, Entity, ResultKind, Verb, Wall};

/// A route: a method and a path, its operation, and who may call it.
#[derive(Debug, Clone)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path with the design's prefix; parameters as `{name}`.
    pub path: String,
    /// What it does.
    pub operation: Operation,
    /// Who may call it.
    pub required_caller: RequiredCaller,
}

/// What a route does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Creates an item of an entity.
    Create(EntityId),
    /// Reads an item by its id.
    Read(EntityId),
    /// Changes an item by a merge patch.
    Update(EntityId),
    /// Deletes an item.
    Delete(EntityId),
    /// Answers an access pattern.
    List(AccessId),
    /// Calls the handler of a custom route.
    Custom(CustomRouteId),
    /// Reads the operator log.
    OperatorLog,
}

/// An entity, by its position in the design.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntityId(pub(crate) usize);

impl EntityId {
    /// The entity in the design that the id is from.
    pub fn entity_in(self, design: &Design) -> &Entity {
        &design.entities[self.0]
    }
}

/// An access pattern, by its position in the design.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessId(pub(crate) usize);

impl AccessId {
    /// The access pattern in the design that the id is from.
    pub fn pattern_in(self, design: &Design) -> &AccessPattern {
        &design.access_patterns[self.0]
    }
}

/// A custom route, by its position in the list of the extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CustomRouteId(pub(crate) usize);

impl CustomRouteId {
    pub(crate) fn find_in<T>(self, custom: &[T]) -> Option<&T> {
        custom.get(self.0)
    }
}

/// Who may call a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredCaller {
    /// Callers whose token names a tenant.
    Tenant,
    /// Operators, who give a reason.
    Operator,
    /// Everybody with a token; visitors too, where the design admits them.
    Public,
    /// Everybody with a token, also one without a tenant. The handler chooses the handle.
    Anyone,
    /// Everybody, also without a token: the handler finds out who it is, such as by a signature.
    Unauthenticated,
}

impl Route {
    /// The names of the parameters in its path, in order.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        self.path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
    }

    /// Whether visitors without a token may call it.
    pub fn admits_visitors(&self, design: &Design) -> bool {
        match self.required_caller {
            RequiredCaller::Public => design.visitors && self.method == Method::GET,
            RequiredCaller::Unauthenticated => true,
            RequiredCaller::Tenant | RequiredCaller::Operator | RequiredCaller::Anyone => false,
        }
    }

    /// The entity and the verb of its operation; `None` for custom routes and the operator log.
    pub fn subject<'d>(&self, design: &'d Design) -> Option<(&'d Entity, Verb)> {
        match self.operation {
            Operation::Create(id) => Some((id.entity_in(design), Verb::Create)),
            Operation::Read(id) => Some((id.entity_in(design), Verb::Read)),
            Operation::Update(id) => Some((id.entity_in(design), Verb::Update)),
            Operation::Delete(id) => Some((id.entity_in(design), Verb::Delete)),
            Operation::List(id) => Some((&design.entities[id.pattern_in(design).entity], Verb::Read)),
            Operation::Custom(_) | Operation::OperatorLog => None,
        }
    }
}

/// The path of the operator log, below the design's prefix.
const OPERATOR_LOG: &str = "/operator-log";

/// The routes of a design, entity by entity and then access pattern by access pattern; last that of the operator log, if the
/// design has operators and no route of its own at that path.
pub fn routes(design: &Design) -> Vec<Route> {
    let mut routes = Vec::new();
    for (at, entity) in design.entities.iter().enumerate() {
        entity_routes(design, at, entity, &mut routes);
    }
    for (at, access) in design.access_patterns.iter().enumerate() {
        let Some(path) = &access.path else { continue };
        let path = format!("{}{path}", design.http_prefix);
        routes.push(Route {
            method: Method::GET,
            path,
            operation: Operation::List(AccessId(at)),
            required_caller: reading(design.wall_of(access)),
        });
    }
    let path = format!("{}{OPERATOR_LOG}", design.http_prefix);
    let is_free = routes.iter().all(|route| route.method != Method::GET || route.path != path);
    if is_free && !design.operator_roles().is_empty() {
        let required_caller = RequiredCaller::Operator;
        routes.push(Route { method: Method::GET, path, operation: Operation::OperatorLog, required_caller });
    }
    routes
}

fn entity_routes(design: &Design, at: usize, entity: &Entity, routes: &mut Vec<Route>) {
    let collection = format!("{}{}", design.http_prefix, entity.path);
    let item = format!("{}{}", design.http_prefix, entity.item_path());
    let reading = reading(entity.wall);
    let writing = match entity.wall {
        Wall::Key | Wall::Attribute => RequiredCaller::Tenant,
        Wall::Public if entity.tenant.is_some() => RequiredCaller::Tenant,
        Wall::Public | Wall::System => RequiredCaller::Operator,
    };
    let id = EntityId(at);
    // Only commands write the records of an aggregate; of those, only projections can be read.
    let owned = design.aggregates.iter().any(|aggregate| aggregate.has_entity(at));
    let built = design.aggregates.iter().any(|aggregate| aggregate.projections.contains(&at));
    if owned && !built {
        return;
    }
    let has = |verb: Verb| entity.routes.contains(&verb);
    // An access pattern at the path of the item replaces reading by key.
    let replaced = |access: &AccessPattern| access.returns == ResultKind::One && design.is_lookup(access);
    if has(Verb::Read) && !design.access_patterns_of(entity).any(replaced) {
        routes.push(Route {
            method: Method::GET,
            path: item.clone(),
            operation: Operation::Read(id),
            required_caller: reading,
        });
    }
    // Only the layer itself writes the audit trail.
    if built || design.holds_audit_entries(entity) {
        return;
    }
    let written = [
        (Verb::Create, Method::POST, collection, Operation::Create(id)),
        (Verb::Update, Method::PATCH, item.clone(), Operation::Update(id)),
        (Verb::Delete, Method::DELETE, item, Operation::Delete(id)),
    ];
    let written = written.into_iter().filter(|(verb, ..)| has(*verb));
    routes.extend(written.map(|(_, method, path, operation)| Route {
        method,
        path,
        operation,
        required_caller: writing,
    }));
}

fn reading(wall: Wall) -> RequiredCaller {
    match wall {
        Wall::Key | Wall::Attribute => RequiredCaller::Tenant,
        Wall::Public => RequiredCaller::Public,
        Wall::System => RequiredCaller::Operator,
    }
}

/// A path with its parameters named by position, so that paths are equal when only parameter names differ.
pub fn positional(path: &str) -> String {
    let mut nth = 0;
    let segment = |segment: &str| {
        if segment.starts_with('{') {
            nth += 1;
            format!("{{p{nth}}}")
        } else {
            segment.to_owned()
        }
    };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}
