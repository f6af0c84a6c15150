//! The routes that a design gives: one table, from which the router, the OpenAPI document and the tests are made.

use axum::http::Method;
use nagaya_design::{Access, Design, Entity, Returns, Verb, Wall};

/// A route: what is done where, and who reaches it.
#[derive(Debug, Clone)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path with the design's prefix; parameters as `{name}`.
    pub path: String,
    /// What it does.
    pub act: Act,
    /// Whose handle it needs.
    pub reach: Reach,
}

/// What a route does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Makes an item of the entity at this position of the design.
    Create(usize),
    /// Reads one by its id.
    Read(usize),
    /// Changes one by a merge patch.
    Update(usize),
    /// Removes one.
    Delete(usize),
    /// Answers an access pattern, by its position in the design.
    List(usize),
    /// Something of the system's own, by its position among those.
    Own(usize),
}

/// Whose handle a route needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// A tenant's.
    Tenant,
    /// An operator's, who states a reason.
    Operator,
    /// Any: everybody with a token reads what is public, and without one where the design lets visitors in.
    Public,
    /// Anybody with a token, also one that names no tenant; the handler decides what with.
    Anyone,
}

impl Route {
    /// The names of the parameters in its path, in order.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        self.path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
    }

    /// Whether somebody without a token comes by it.
    pub fn admits_visitors(&self, design: &Design) -> bool {
        design.visitors && self.reach == Reach::Public && self.method == Method::GET
    }

    /// The entity that it is about, and what it does with it; `None` for what is the system's own.
    pub fn subject<'d>(&self, design: &'d Design) -> Option<(&'d Entity, Verb)> {
        let entity = |at: usize, verb| design.entities.get(at).map(|entity| (entity, verb));
        match self.act {
            Act::Create(at) => entity(at, Verb::Create),
            Act::Read(at) => entity(at, Verb::Read),
            Act::Update(at) => entity(at, Verb::Update),
            Act::Delete(at) => entity(at, Verb::Delete),
            Act::List(access) => entity(design.accesses.get(access)?.entity, Verb::Read),
            Act::Own(_) => None,
        }
    }
}

/// The routes of a design, entity by entity and then access pattern by access pattern.
pub fn routes(design: &Design) -> Vec<Route> {
    let mut routes = Vec::new();
    for (at, entity) in design.entities.iter().enumerate() {
        entity_routes(design, at, entity, &mut routes);
    }
    for (at, access) in design.accesses.iter().enumerate() {
        let Some(path) = &access.path else { continue };
        let path = format!("{}{path}", design.http_prefix);
        routes.push(Route { method: Method::GET, path, act: Act::List(at), reach: reading(design.wall_of(access)) });
    }
    routes
}

fn entity_routes(design: &Design, at: usize, entity: &Entity, routes: &mut Vec<Route>) {
    let collection = format!("{}{}", design.http_prefix, entity.path);
    let item = format!("{}{}", design.http_prefix, entity.item_path());
    let reading = reading(entity.wall);
    let writing = match entity.wall {
        Wall::Key | Wall::Attribute => Reach::Tenant,
        Wall::Public if entity.tenant.is_some() => Reach::Tenant,
        Wall::Public | Wall::System => Reach::Operator,
    };
    // What an aggregate keeps is written by commands, and by nothing else; only what is built from it is for reading.
    let owned = design.aggregates.iter().any(|aggregate| aggregate.keeps(at));
    let built = design.aggregates.iter().any(|aggregate| aggregate.projections.contains(&at));
    if owned && !built {
        return;
    }
    let has = |verb: Verb| entity.routes.contains(&verb);
    // An access pattern that finds the item at its own path is asked instead of the key.
    let replaced = |access: &Access| access.returns == Returns::One && design.is_lookup(access);
    if has(Verb::Read) && !design.accesses_of(entity).any(replaced) {
        routes.push(Route { method: Method::GET, path: item.clone(), act: Act::Read(at), reach: reading });
    }
    // What has been done is written down by the layer itself, and by nobody else.
    if built || design.audit_entity().is_some_and(|audit| audit.name == entity.name) {
        return;
    }
    let written = [
        (Verb::Create, Method::POST, collection, Act::Create(at)),
        (Verb::Update, Method::PATCH, item.clone(), Act::Update(at)),
        (Verb::Delete, Method::DELETE, item, Act::Delete(at)),
    ];
    let written = written.into_iter().filter(|(verb, ..)| has(*verb));
    routes.extend(written.map(|(_, method, path, act)| Route { method, path, act, reach: writing }));
}

fn reading(wall: Wall) -> Reach {
    match wall {
        Wall::Key | Wall::Attribute => Reach::Tenant,
        Wall::Public => Reach::Public,
        Wall::System => Reach::Operator,
    }
}
