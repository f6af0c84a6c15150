//! Operations: one for each route.

use axum::http::Method;
use nagaya_design::{Access, Entity, OnDelete, Returns, Verb};
use serde_json::{Map, Value as Json, json};

use super::{
    Source,
    answers::{self, Failure},
    example, parameters, schema,
};
use crate::{
    problem::sentence,
    route::{Act, Reach, Route},
};

/// The operation of a route; `path` is what the document calls the route's path.
pub(super) fn operation(source: &Source<'_>, at: usize, path: &Route) -> Json {
    let route = source.routes[at];
    // The same place can have other names in another route; a document has one for both.
    let in_path: Vec<_> = route.parameters().zip(path.parameters()).collect();
    let mut operation = match route.act {
        Act::Create(at) => create(source, at, &in_path),
        Act::Read(at) => read(source, at, &in_path),
        Act::Update(at) => update(source, at, &in_path),
        Act::Delete(at) => delete(source, at, &in_path),
        Act::List(at) => list(source, at, &in_path),
        Act::Own(at) => own(source, at, route, &in_path),
    };
    if let Some(reason) = reason(route.reach) {
        push(&mut operation["parameters"], reason);
    }
    let told = operation["description"].as_str().unwrap_or_default();
    operation["description"] = paragraphs([told, &reached(source, route)]).into();
    operation["operationId"] = source.names.operations[at].as_str().into();
    if route.admits_visitors(source.design) {
        // With a token or without.
        operation["security"] = json!([{}, { "token": [] }]);
    }
    operation["x-nagaya-reach"] = format!("{:?}", route.reach).to_lowercase().into();
    operation
}

fn create(source: &Source<'_>, at: usize, in_path: &[(&str, &str)]) -> Json {
    let entity = &source.design.entities[at];
    let names = &source.names.entities[at];
    let fields = &source.schemas[at].new;
    let example = example::new(source.design, entity, fields, source.now);
    let mut made = answers::item("It is made.", &names.item, item_example(source, at));
    made["headers"]["Location"] = json!({ "$ref": "#/components/headers/Location" });
    made["links"] = links(source, at);
    let mut parameters = id(entity, in_path);
    parameters.push(parameters::reference("IdempotencyKey"));
    let mut failures =
        vec![Failure::Conflict, Failure::TooLarge, Failure::NotJson, Failure::Invalid, Failure::OutOfSpace];
    failures.extend((!in_path.is_empty()).then_some(Failure::NotFound));
    json!({
        "tags": [entity.name],
        "summary": format!("Make a new {}", words(entity)),
        "description": promises(source, entity),
        "parameters": parameters,
        "requestBody": body(&["application/json"], &names.new, &example),
        "responses": answers::all(vec![(201, made)], everywhere(&failures)),
    })
}

fn read(source: &Source<'_>, at: usize, in_path: &[(&str, &str)]) -> Json {
    let entity = &source.design.entities[at];
    let item = answers::item("The item.", &source.names.entities[at].item, item_example(source, at));
    let mut parameters = id(entity, in_path);
    parameters.push(parameters::reference("IfNoneMatch"));
    let fine = vec![(200, item), (304, answers::not_modified())];
    json!({
        "tags": [entity.name],
        "summary": format!("Read one {}", words(entity)),
        "description": entity.description,
        "parameters": parameters,
        "responses": answers::all(fine, everywhere(&[Failure::NotFound])),
    })
}

fn update(source: &Source<'_>, at: usize, in_path: &[(&str, &str)]) -> Json {
    let entity = &source.design.entities[at];
    let names = &source.names.entities[at];
    let example = example::patch(source.design, entity, &source.schemas[at].patch, source.now);
    let item = answers::item("The item as it is now.", &names.item, item_example(source, at));
    let mut parameters = id(entity, in_path);
    parameters.push(parameters::reference("IfMatch"));
    let mut failures = vec![
        Failure::NotFound,
        Failure::VersionConflict,
        Failure::TooLarge,
        Failure::NotJson,
        Failure::Invalid,
        Failure::OutOfSpace,
    ];
    if !entity.unique.is_empty() || entity.fields.iter().any(|field| field.reference.is_some()) {
        failures.push(Failure::Conflict);
    }
    let how = "A merge patch (RFC 7386): what is given is changed, `null` takes an optional field away. A list is replaced \
               as a whole.";
    json!({
        "tags": [entity.name],
        "summary": format!("Change one {}", words(entity)),
        "description": paragraphs([how, &promises(source, entity)]),
        "parameters": parameters,
        "requestBody": body(&["application/merge-patch+json", "application/json"], &names.patch, &example),
        "responses": answers::all(vec![(200, item)], everywhere(&failures)),
    })
}

fn delete(source: &Source<'_>, at: usize, in_path: &[(&str, &str)]) -> Json {
    let entity = &source.design.entities[at];
    let mut parameters = id(entity, in_path);
    parameters.push(parameters::reference("IfMatch"));
    let mut failures = vec![Failure::NotFound, Failure::VersionConflict, Failure::OutOfSpace];
    let mut told = Vec::new();
    for referer in source.design.referers(entity) {
        let other = words(referer.entity);
        match referer.on_delete {
            OnDelete::Restrict => {
                failures.push(Failure::Conflict);
                told.push(format!("Not while any {other} refers to it (`{}`).", referer.field.name));
            }
            OnDelete::Cascade => {
                told.push(format!("Each {other} that refers to it (`{}`) goes with it.", referer.field.name));
            }
        }
    }
    if entity.soft_delete.is_some() {
        told.push("It is kept in the store, marked as deleted, and cannot be read any more.".to_owned());
    }
    json!({
        "tags": [entity.name],
        "summary": format!("Delete one {}", words(entity)),
        "description": told.join(" "),
        "parameters": parameters,
        "responses": answers::all(vec![(204, answers::empty("It is gone."))], everywhere(&failures)),
    })
}

fn list(source: &Source<'_>, at: usize, in_path: &[(&str, &str)]) -> Json {
    let access = &source.design.accesses[at];
    let entity = &source.design.entities[access.entity];
    let mut parameters = parameters::of_access(source.design, access, in_path);
    let (item, example) = listed_item(source, access, entity);
    let mut fine = vec![(200, answers::listed(entity, access.returns, &item, example))];
    let mut failures = Vec::new();
    if access.returns == Returns::One {
        parameters.push(parameters::reference("IfNoneMatch"));
        fine.push((304, answers::not_modified()));
    }
    // A path with an empty parameter in it is another one, and leads nowhere.
    if access.returns == Returns::One || !in_path.is_empty() {
        failures.push(Failure::NotFound);
    }
    let named = sentence(&access.name.replace('_', " "));
    json!({
        "tags": [entity.name],
        "summary": access.description.as_deref().unwrap_or(&named).trim_end_matches('.'),
        "description": entity.description,
        "parameters": parameters,
        "responses": answers::all(fine, everywhere(&failures)),
    })
}

/// Marks an operation whose answer does not end by itself.
const STREAM: &str = "x-nagaya-stream";

fn own(source: &Source<'_>, at: usize, route: &Route, in_path: &[(&str, &str)]) -> Json {
    let own = &source.own[at];
    let entity = own.needs.as_ref().and_then(|(entity, _)| source.design.entity(entity));
    let parameter = |(field, name): &(&str, &str)| match entity {
        Some(entity) => parameters::of_id(entity, field, name),
        None => json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string", "minLength": 1 } }),
    };
    let fine = |means: &str| {
        let mut fine = match (own.streamed, &own.answer) {
            (Some(kind), _) => answers::streamed(kind),
            (None, Some(schema)) => answers::data(means, schema.clone()),
            (None, None) => answers::empty(means),
        };
        if own.paged {
            answers::paged(&mut fine);
        }
        fine
    };
    let mut failures = vec![Failure::NotFound, Failure::Conflict, Failure::VersionConflict, Failure::Invalid];
    // A system's own reads may write as well, such as a record of who has read.
    failures.push(Failure::OutOfSpace);
    let mut operation = Map::new();
    if let Some(schema) = &own.body {
        failures.extend([Failure::TooLarge, Failure::NotJson]);
        let merge = (route.method == Method::PATCH).then_some("application/merge-patch+json");
        let content = merge.into_iter().chain(["application/json"]);
        let content: Map<_, _> = content.map(|kind| (kind.to_owned(), json!({ "schema": schema }))).collect();
        // No body is one without fields.
        let needed = schema["required"].as_array().is_some_and(|required| !required.is_empty());
        operation.insert("requestBody".to_owned(), json!({ "required": needed, "content": content }));
    }
    operation.insert("tags".to_owned(), json!([entity.map_or(&source.design.name, |entity| &entity.name)]));
    operation.insert("summary".to_owned(), own.summary.trim_end_matches('.').into());
    let parameters = in_path.iter().map(parameter).chain(own.takes.iter().cloned());
    operation.insert("parameters".to_owned(), parameters.collect());
    let also = own.also.iter().map(|&(status, means)| match status {
        ..400 => (status, fine(means)),
        _ => (status, answers::refused(&source.names.problem, means)),
    });
    let mut fine: Vec<_> = [(own.status, fine("It is done."))].into_iter().chain(also).collect();
    if own.takes.contains(&parameters::reference("IfNoneMatch")) {
        fine.push((304, answers::not_modified()));
    }
    operation.insert("responses".to_owned(), answers::all(fine, everywhere(&failures)));
    if own.streamed.is_some() {
        operation.insert(STREAM.to_owned(), true.into());
    }
    operation.into()
}

/// The parameters of an item's path.
fn id(entity: &Entity, in_path: &[(&str, &str)]) -> Vec<Json> {
    in_path.iter().map(|(field, name)| parameters::of_id(entity, field, name)).collect()
}

fn body(kinds: &[&str], schema: &str, example: &Json) -> Json {
    let content = json!({ "schema": answers::reference(schema), "example": example });
    let content: Map<_, _> = kinds.iter().map(|kind| ((*kind).to_owned(), content.clone())).collect();
    json!({ "required": true, "content": content })
}

fn item_example(source: &Source<'_>, at: usize) -> Json {
    source.schemas[at].example.clone()
}

/// The schema and an example of what an access pattern gives.
fn listed_item(source: &Source<'_>, access: &Access, entity: &Entity) -> (Json, Json) {
    if access.projection.is_empty() {
        let schema = answers::reference(&source.names.entities[access.entity].item);
        return (schema, item_example(source, access.entity));
    }
    let schema = schema::projected(entity, &access.projection);
    let example = example::item(source.design, entity, &schema);
    (schema, example)
}

/// From a new item to what can be done with it.
fn links(source: &Source<'_>, at: usize) -> Json {
    let mut links = Map::new();
    for (to, route) in source.routes.iter().enumerate() {
        let lookup = |access: &usize| {
            let access = &source.design.accesses[*access];
            access.entity == at && source.design.is_lookup(access)
        };
        let conditional = match &route.act {
            Act::Read(of) if *of == at => false,
            Act::List(access) if lookup(access) => false,
            Act::Update(of) | Act::Delete(of) if *of == at => true,
            _ => continue,
        };
        let named = source.path_of(to);
        let mut parameters = Map::new();
        for (field, name) in route.parameters().zip(named.parameters()) {
            let pointer = field.replace('.', "/");
            parameters.insert(format!("path.{name}"), format!("$response.body#/data/{pointer}").into());
        }
        if conditional {
            parameters.insert("header.If-Match".to_owned(), "$response.header.ETag".into());
        }
        let operation = &source.names.operations[to];
        links.insert(operation.clone(), json!({ "operationId": operation, "parameters": parameters }));
    }
    links.into()
}

/// What an entity promises beyond its schema.
fn promises(source: &Source<'_>, entity: &Entity) -> String {
    let mut told: Vec<String> = entity.description.iter().cloned().collect();
    for unique in &entity.unique {
        let fields = unique.fields.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(" and ");
        let among = if unique.within_tenant { "of the tenant's" } else { "at all" };
        let together = if unique.fields.len() > 1 { " together" } else { "" };
        let when = unique.when.as_ref().map_or("", |_| ", under a condition of the design");
        told.push(format!("No two {among} have the same {fields}{together}{when}: 409 `taken`."));
    }
    for field in &entity.fields {
        if let Some(reference) = &field.reference {
            let other = reference.entity.replace('_', " ");
            told.push(format!("`{}` names an existing {other}: 409 `no_reference` otherwise.", field.name));
        }
    }
    if let Some(field) = schema::expiry(source.design, entity) {
        told.push(format!("It is gone at `{}`, which has to lie ahead.", field.name));
    }
    if let Some(seconds) = entity.ttl_after {
        told.push(format!("It is gone {} after its last change.", time(seconds)));
    }
    told.join(" ")
}

/// Whom a route lets in.
fn reached(source: &Source<'_>, route: &Route) -> String {
    let reach = match route.reach {
        Reach::Tenant => "Reaches the items of the token's tenant.",
        Reach::Operator => "For operators, who state a reason.",
        Reach::Public if source.design.visitors => "Everybody reads this, also without a token.",
        Reach::Public => "Everybody with a token reads this.",
        Reach::Anyone => "For everybody with a token.",
    };
    let needs = match route.act {
        Act::Own(at) => source.own[at].needs.as_ref().map(|(entity, verb)| (entity.as_str(), *verb)),
        _ => route.subject(source.design).map(|(entity, verb)| (entity.name.as_str(), verb)),
    };
    match needs {
        Some((entity, verb)) if !source.design.roles.is_empty() => {
            let roles = roles(source, route.reach, entity, verb);
            format!("{reach} Needs `{entity}.{verb}`: {roles}.")
        }
        _ => reach.to_owned(),
    }
}

/// The roles that permit something.
fn roles(source: &Source<'_>, reach: Reach, entity: &str, verb: Verb) -> String {
    let permits = |name: &String| {
        let name = std::slice::from_ref(name);
        source.design.permits(name, entity, verb) && (reach != Reach::Operator || source.design.is_operator(name))
    };
    let roles = source.design.roles.iter().map(|role| &role.name).filter(|name| permits(name));
    let roles: Vec<_> = roles.map(|name| format!("`{name}`")).collect();
    match roles.as_slice() {
        [] => "no role has it".to_owned(),
        [role] => format!("the role {role}"),
        _ => format!("the roles {}", roles.join(", ")),
    }
}

fn reason(reach: Reach) -> Option<Json> {
    match reach {
        Reach::Operator => Some(parameters::reference("Reason")),
        Reach::Anyone => Some(parameters::reference("ReasonWithoutTenant")),
        Reach::Tenant | Reach::Public => None,
    }
}

fn everywhere(failures: &[Failure]) -> impl Iterator<Item = Failure> {
    Failure::EVERYWHERE.into_iter().chain(failures.iter().copied())
}

fn paragraphs(parts: [&str; 2]) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
}

fn push(list: &mut Json, value: Json) {
    match list {
        Json::Array(list) => list.push(value),
        other => *other = json!([value]),
    }
}

fn words(entity: &Entity) -> String {
    entity.name.replace('_', " ")
}

/// Seconds in the largest unit that they fill.
fn time(seconds: u64) -> String {
    let units = [(86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")];
    let (length, unit) = units.into_iter().find(|(length, _)| seconds.is_multiple_of(*length)).unwrap_or((1, "second"));
    let count = seconds / length;
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_their_largest_unit() {
        for (seconds, told) in [(86_400, "1 day"), (7_776_000, "90 days"), (5_400, "90 minutes"), (61, "61 seconds")] {
            assert_eq!(time(seconds), told);
        }
    }
}
