//! The OpenAPI document of a system, made from the same table of routes as its router.
//!
//! Its schemas are as narrow as what the server accepts, as far as JSON Schema allows. Descriptions state the rest
//! (references, uniqueness, sizes in bytes), which is answered with 409, 413 or 422.

mod document;
mod example;
mod names;
mod operation;
mod operator_log;
mod parameters;
mod responses;
mod schema;

use std::{collections::BTreeMap, sync::Arc};

use nagaya_design::Design;
use serde_json::{Map, Value as Json, json};

pub use self::document::Document;
use self::names::Names;
use crate::{
    CustomRoute, System,
    route::{Operation, Route, positional},
};

/// The OpenAPI 3.1 document of a system that is served below a path, such as `/todo`, or at the root with nothing.
///
/// `now`, in seconds since 1970, is when the document is made: expiry times have to be later.
pub fn document(system: &System, mount: &str, now: i64) -> Json {
    let (routes, custom) = system.routes();
    of_routes(system, &routes, &custom, mount, now)
}

/// The document of these routes.
pub(crate) fn of_routes(system: &System, routes: &[Arc<Route>], custom: &[CustomRoute], mount: &str, now: i64) -> Json {
    let design = &system.design;
    let routes: Vec<&Route> = routes.iter().map(AsRef::as_ref).collect();
    let schemas = |entity| {
        let item = schema::item(entity);
        let example = example::item(design, entity, &item);
        Schemas { item, example, new: schema::new(design, entity, now), patch: schema::patch(design, entity, now) }
    };
    let names = Names::new(design, &routes, custom);
    let schemas = design.entities.iter().map(schemas).collect();
    let source = Source { design, routes: &routes, custom, names, schemas, now };
    let json = json!({
        "openapi": "3.1.0",
        "info": info(system),
        "servers": [{ "url": if mount.is_empty() { "/" } else { mount } }],
        "security": [{ "token": [] }],
        "tags": source.tags(),
        "paths": source.paths(),
        "components": {
            "securitySchemes": { "token": security(design) },
            "parameters": parameters::shared(),
            "headers": responses::headers(),
            "responses": responses::shared(&source.names.problem),
            "schemas": source.components(),
        },
    });
    let mut document = Document::new(json, design, source.names);
    system.extension.customize_openapi(&mut document);
    document.into_json()
}

/// What every part of the document is made from.
struct Source<'s> {
    design: &'s Design,
    routes: &'s [&'s Route],
    custom: &'s [CustomRoute],
    names: Names,
    /// Of each entity, by its position in the design.
    schemas: Vec<Schemas>,
    /// When the document is made, in seconds since 1970.
    now: i64,
}

/// The schemas of an entity.
struct Schemas {
    item: Json,
    /// An example of what is read.
    example: Json,
    new: Json,
    patch: Json,
}

impl Source<'_> {
    /// The first route with the same path: a document has each path once, whatever its parameters are called.
    fn path_of(&self, at: usize) -> &Route {
        let path = positional(&self.routes[at].path);
        self.routes.iter().find(|route| positional(&route.path) == path).unwrap_or(&self.routes[at])
    }

    fn paths(&self) -> Json {
        let mut paths: BTreeMap<&str, Map<String, Json>> = BTreeMap::new();
        for (at, route) in self.routes.iter().enumerate() {
            let path = self.path_of(at);
            let method = route.method.as_str().to_lowercase();
            paths.entry(&path.path).or_default().insert(method, operation::operation(self, at, path));
        }
        json!(paths)
    }

    fn tags(&self) -> Json {
        let entity = |entity: &nagaya_design::Entity| json!({ "name": entity.name, "description": entity.description });
        let mut tags: Vec<_> = self.design.entities.iter().map(entity).collect();
        let is_needed = self.custom.iter().any(|route| route.requires.is_none())
            || self.routes.iter().any(|route| route.operation == Operation::OperatorLog);
        if is_needed && self.design.entity(&self.design.name).is_none() {
            tags.push(json!({ "name": self.design.name, "description": "Operations on no entity, or on several." }));
        }
        for tag in &mut tags {
            if tag["description"].is_null()
                && let Some(tag) = tag.as_object_mut()
            {
                tag.remove("description");
            }
        }
        tags.into()
    }

    /// The schemas that something in the document refers to.
    fn components(&self) -> Json {
        let mut all = Map::from_iter([(self.names.problem.clone(), responses::problem())]);
        for (names, schemas) in self.names.entities.iter().zip(&self.schemas) {
            all.insert(names.item.clone(), schemas.item.clone());
            all.insert(names.new.clone(), schemas.new.clone());
            all.insert(names.patch.clone(), schemas.patch.clone());
        }
        all.into()
    }
}

fn info(system: &System) -> Json {
    let design = &system.design;
    let mut info = json!({ "title": system.name, "version": design.version.to_string() });
    if let Some(description) = &design.description {
        info["description"] = description.as_str().into();
    }
    info
}

fn security(design: &Design) -> Json {
    let tenant = &design.tenant;
    let mut description =
        format!("A token whose claim `{}` names the tenant, and `{}` the roles.", tenant.claim, tenant.roles);
    if let Some(member_of) = &tenant.member_of {
        description += &format!(" The tenant has to be among those in `{member_of}`.");
    }
    if !design.operator_roles().is_empty() {
        description += &format!(" The roles of operators are in `{}`, in a token without a tenant.", tenant.operator);
    }
    json!({ "type": "http", "scheme": "bearer", "bearerFormat": "JWT", "description": description })
}
