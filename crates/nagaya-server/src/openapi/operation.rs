//! Operations: one for each route.

use axum::http::Method;
use nagaya_design::{AccessPattern, Entity, OnDelete, ResultKind, Verb};
use serde_json::{Map, Value as Json, json};

use super::{Source, example, operator_log, parameters, responses, schema};
use crate::{
    problem::sentence,
    roles,
    route::{AccessId, CustomRouteId, EntityId, Operation, RequiredCaller, Route},
};

/// The operation of a route; `path` is what the document calls the route's path.
pub(super) fn operation(source: &Source<'_>, at: usize, path: &Route) -> Json {
    let route = source.routes[at];
    // Two routes can name the parameters of one path differently; the document uses the names of the first.
    let in_path: Vec<_> = route.parameters().zip(path.parameters()).collect();
    let mut operation = match route.operation {
        Operation::Create(id) => create(source, id, &in_path),
        Operation::Read(id) => read(source, id, &in_path),
        Operation::Update(id) => update(source, id, &in_path),
        Operation::Delete(id) => delete(source, id, &in_path),
        Operation::List(id) => list(source, id, &in_path),
        Operation::Custom(id) => custom(source, id, route, &in_path),
        Operation::OperatorLog => operator_log::operation(source),
    };
    if let Some(reason) = reason(route.required_caller) {
        push(&mut operation["parameters"], reason);
    }
    let description = operation["description"].as_str().unwrap_or_default();
    operation["description"] = paragraphs([description, &callers(source, route)]).into();
    operation["operationId"] = source.names.operations[at].as_str().into();
    if route.admits_visitors(source.design) {
        // A token is optional.
        operation["security"] = json!([{}, { "token": [] }]);
    }
    operation["x-nagaya-reach"] = format!("{:?}", route.required_caller).to_lowercase().into();
    operation
}

fn create(source: &Source<'_>, id: EntityId, in_path: &[(&str, &str)]) -> Json {
    let entity = id.entity_in(source.design);
    let names = &source.names.entities[id.0];
    let fields = &source.schemas[id.0].new;
    let example = example::new(source.design, entity, fields, source.now);
    let mut made = responses::item("The new item.", &names.item, item_example(source, id));
    made["headers"]["Location"] = json!({ "$ref": "#/components/headers/Location" });
    made["links"] = links(source, id);
    let mut parameters = id_parameters(entity, in_path);
    parameters.push(parameters::reference("IdempotencyKey"));
    let mut problems = vec![409, 413, 415, 422, 507];
    problems.extend((!in_path.is_empty()).then_some(404));
    json!({
        "tags": [entity.name],
        "summary": format!("Create one {}", spaced_name(entity)),
        "description": constraints(source, entity),
        "parameters": parameters,
        "requestBody": body(&["application/json"], &names.new, &example),
        "responses": responses::all(vec![(201, made)], &problems),
    })
}

fn read(source: &Source<'_>, id: EntityId, in_path: &[(&str, &str)]) -> Json {
    let entity = id.entity_in(source.design);
    let item = responses::item("The item.", &source.names.entities[id.0].item, item_example(source, id));
    let mut parameters = id_parameters(entity, in_path);
    parameters.push(parameters::reference("IfNoneMatch"));
    let fine = vec![(200, item), (304, responses::not_modified())];
    json!({
        "tags": [entity.name],
        "summary": format!("Read one {}", spaced_name(entity)),
        "description": entity.description,
        "parameters": parameters,
        "responses": responses::all(fine, &[404]),
    })
}

fn update(source: &Source<'_>, id: EntityId, in_path: &[(&str, &str)]) -> Json {
    let entity = id.entity_in(source.design);
    let names = &source.names.entities[id.0];
    let example = example::patch(source.design, entity, &source.schemas[id.0].patch, source.now);
    let item = responses::item("The item as it is now.", &names.item, item_example(source, id));
    let mut parameters = id_parameters(entity, in_path);
    parameters.push(parameters::reference("IfMatch"));
    let mut problems = vec![404, 412, 413, 415, 422, 507];
    if !entity.unique.is_empty() || entity.fields.iter().any(|field| field.reference.is_some()) {
        problems.push(409);
    }
    let how = "A merge patch (RFC 7386): given fields are changed, `null` removes an optional field. A list is replaced as a \
               whole.";
    json!({
        "tags": [entity.name],
        "summary": format!("Change one {}", spaced_name(entity)),
        "description": paragraphs([how, &constraints(source, entity)]),
        "parameters": parameters,
        "requestBody": body(&[MERGE_PATCH, "application/json"], &names.patch, &example),
        "responses": responses::all(vec![(200, item)], &problems),
    })
}

fn delete(source: &Source<'_>, id: EntityId, in_path: &[(&str, &str)]) -> Json {
    let entity = id.entity_in(source.design);
    let mut parameters = id_parameters(entity, in_path);
    parameters.push(parameters::reference("IfMatch"));
    let mut problems = vec![404, 412, 507];
    let mut sentences = Vec::new();
    for referer in source.design.referring_fields(entity) {
        let other = spaced_name(referer.entity);
        match referer.on_delete {
            OnDelete::Restrict => {
                problems.push(409);
                sentences.push(format!("Not while any {other} refers to it (`{}`).", referer.field.name));
            }
            OnDelete::Cascade => {
                sentences
                    .push(format!("Each {other} that refers to it (`{}`) is deleted with it.", referer.field.name));
            }
        }
    }
    if entity.soft_delete.is_some() {
        sentences.push("It stays in the store, marked as deleted, and cannot be read any more.".to_owned());
    }
    json!({
        "tags": [entity.name],
        "summary": format!("Delete one {}", spaced_name(entity)),
        "description": sentences.join(" "),
        "parameters": parameters,
        "responses": responses::all(vec![(204, responses::empty("The item is deleted."))], &problems),
    })
}

fn list(source: &Source<'_>, id: AccessId, in_path: &[(&str, &str)]) -> Json {
    let access = id.pattern_in(source.design);
    let entity = &source.design.entities[access.entity];
    let mut parameters = parameters::of_access(source.design, access, in_path);
    let (item, example) = listed_item(source, access, entity);
    let mut fine = vec![(200, responses::listed(entity, access.returns, &item, example))];
    let mut problems = Vec::new();
    if access.returns == ResultKind::One {
        parameters.push(parameters::reference("IfNoneMatch"));
        fine.push((304, responses::not_modified()));
    }
    // A path with an empty parameter is another path: 404. An aggregate that does not exist has no list of events.
    let is_of_aggregate = source.design.head_of_listed_events(access).is_some();
    if access.returns == ResultKind::One || !in_path.is_empty() || is_of_aggregate {
        problems.push(404);
    }
    let named = sentence(&access.name.replace('_', " "));
    json!({
        "tags": [entity.name],
        "summary": access.description.as_deref().unwrap_or(&named).trim_end_matches('.'),
        "description": entity.description,
        "parameters": parameters,
        "responses": responses::all(fine, &problems),
    })
}

/// The media type of a merge patch.
const MERGE_PATCH: &str = "application/merge-patch+json";
/// Marks an operation whose response lasts until the client disconnects.
const STREAM: &str = "x-nagaya-stream";

fn custom(source: &Source<'_>, id: CustomRouteId, route: &Route, in_path: &[(&str, &str)]) -> Json {
    let Some(custom) = id.find_in(source.custom) else { return json!({}) };
    let entity = custom.requires.as_ref().and_then(|(entity, _)| source.design.entity(entity));
    let parameter = |(field, name): &(&str, &str)| match entity {
        Some(entity) => parameters::of_id(entity, field, name),
        None => json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string", "minLength": 1 } }),
    };
    let fine = |means: &str| {
        let mut fine = match (custom.stream_media_type, &custom.answer_schema) {
            (Some(kind), _) => responses::streamed(kind),
            (None, Some(schema)) => responses::data(means, schema.clone()),
            (None, None) => responses::empty(means),
        };
        if custom.is_paged {
            responses::paged(&mut fine);
        }
        fine
    };
    // A custom route that reads may write too, such as an audit record: 507.
    let mut problems = vec![404, 409, 412, 422, 507];
    let mut operation = json!({
        "tags": [entity.map_or(&source.design.name, |entity| &entity.name)],
        "summary": custom.summary.trim_end_matches('.'),
        "parameters": in_path.iter().map(parameter).chain(custom.parameters.iter().cloned()).collect::<Vec<_>>(),
    });
    if let Some(schema) = &custom.body_schema {
        problems.extend([413, 415]);
        let mut content = json!({ "application/json": { "schema": schema } });
        if route.method == Method::PATCH {
            content[MERGE_PATCH] = json!({ "schema": schema });
        }
        // A body without fields can be left out.
        let needed = schema["required"].as_array().is_some_and(|required| !required.is_empty());
        operation["requestBody"] = json!({ "required": needed, "content": content });
    }
    let also = custom.other_statuses.iter().map(|&(status, means)| match status {
        ..400 => (status, fine(means)),
        _ => (status, responses::problem_response(&source.names.problem, means)),
    });
    let mut fine: Vec<_> = [(custom.status, fine("Done."))].into_iter().chain(also).collect();
    if custom.parameters.contains(&parameters::reference("IfNoneMatch")) {
        fine.push((304, responses::not_modified()));
    }
    operation["responses"] = responses::all(fine, &problems);
    if custom.stream_media_type.is_some() {
        operation[STREAM] = true.into();
    }
    operation
}

/// The parameters of an item's path.
fn id_parameters(entity: &Entity, in_path: &[(&str, &str)]) -> Vec<Json> {
    in_path.iter().map(|(field, name)| parameters::of_id(entity, field, name)).collect()
}

fn body(kinds: &[&str], schema: &str, example: &Json) -> Json {
    let mut body = json!({ "required": true });
    for kind in kinds {
        body["content"][kind] = json!({ "schema": responses::reference(schema), "example": example });
    }
    body
}

fn item_example(source: &Source<'_>, id: EntityId) -> Json {
    source.schemas[id.0].example.clone()
}

/// The schema and an example of what an access pattern gives.
fn listed_item(source: &Source<'_>, access: &AccessPattern, entity: &Entity) -> (Json, Json) {
    if access.projection.is_empty() {
        let schema = responses::reference(&source.names.entities[access.entity].item);
        return (schema, item_example(source, EntityId(access.entity)));
    }
    let schema = schema::projected(entity, &access.projection);
    let example = example::item(source.design, entity, &schema);
    (schema, example)
}

/// Links from a new item to the operations on it.
fn links(source: &Source<'_>, id: EntityId) -> Json {
    let mut links = Map::new();
    for (to, route) in source.routes.iter().enumerate() {
        let is_lookup = |access: AccessId| {
            let access = access.pattern_in(source.design);
            access.entity == id.0 && source.design.is_lookup(access)
        };
        let conditional = match route.operation {
            Operation::Read(of) if of == id => false,
            Operation::List(access) if is_lookup(access) => false,
            Operation::Update(of) | Operation::Delete(of) if of == id => true,
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

/// What holds for an entity beyond its schema.
fn constraints(source: &Source<'_>, entity: &Entity) -> String {
    let mut sentences: Vec<String> = entity.description.iter().cloned().collect();
    for unique in &entity.unique {
        let fields = unique.fields.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(" and ");
        let among = if unique.within_tenant { "of the tenant's" } else { "at all" };
        let together = if unique.fields.len() > 1 { " together" } else { "" };
        let when = unique.when.as_ref().map_or("", |_| ", under a condition of the design");
        sentences.push(format!("No two {among} have the same {fields}{together}{when}: 409 `taken`."));
    }
    for field in &entity.fields {
        if let Some(reference) = &field.reference {
            let other = reference.entity.replace('_', " ");
            sentences.push(format!("`{}` names an existing {other}: 409 `no_reference` otherwise.", field.name));
        }
    }
    if let Some(field) = schema::expiry(source.design, entity) {
        sentences.push(format!("It expires at `{}`, which has to be in the future.", field.name));
    }
    if let Some(seconds) = entity.ttl_after {
        sentences.push(format!("It expires {} after its last change.", time(seconds)));
    }
    sentences.join(" ")
}

/// Who may call a route.
fn callers(source: &Source<'_>, route: &Route) -> String {
    let reach = match route.required_caller {
        RequiredCaller::Tenant => "For the items of the token's tenant.",
        RequiredCaller::Operator => "For operators, who give a reason.",
        RequiredCaller::Public if source.design.visitors => "Everybody can read this, also without a token.",
        RequiredCaller::Public => "Everybody with a token can read this.",
        RequiredCaller::Anyone => "For everybody with a token.",
        RequiredCaller::Unauthenticated => "Without a token: the request itself says who sends it.",
    };
    match roles::required_permission(source.design, route, source.custom) {
        Some((entity, verb)) if !source.design.roles.is_empty() => {
            let roles = permitting_roles(source, route.required_caller, entity, verb);
            format!("{reach} Needs `{entity}.{verb}`: {roles}.")
        }
        _ => reach.to_owned(),
    }
}

/// The roles that permit something.
fn permitting_roles(source: &Source<'_>, reach: RequiredCaller, entity: &str, verb: Verb) -> String {
    let permits = |name: &String| {
        let name = std::slice::from_ref(name);
        // In a token with a tenant, the roles of operators count for nothing.
        let counts = match reach {
            RequiredCaller::Operator => source.design.is_operator(name),
            RequiredCaller::Tenant => !source.design.is_operator(name),
            RequiredCaller::Public | RequiredCaller::Anyone | RequiredCaller::Unauthenticated => true,
        };
        counts && source.design.permits(name, entity, verb)
    };
    let roles = source.design.roles.iter().map(|role| &role.name).filter(|name| permits(name));
    let roles: Vec<_> = roles.map(|name| format!("`{name}`")).collect();
    match roles.as_slice() {
        [] => "no role has it".to_owned(),
        [role] => format!("the role {role}"),
        _ => format!("the roles {}", roles.join(", ")),
    }
}

fn reason(reach: RequiredCaller) -> Option<Json> {
    match reach {
        RequiredCaller::Operator => Some(parameters::reference("Reason")),
        RequiredCaller::Anyone => Some(parameters::reference("ReasonWithoutTenant")),
        RequiredCaller::Tenant | RequiredCaller::Public | RequiredCaller::Unauthenticated => None,
    }
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

fn spaced_name(entity: &Entity) -> String {
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
    fn times_are_written_in_their_largest_unit() {
        for (seconds, text) in [(86_400, "1 day"), (7_776_000, "90 days"), (5_400, "90 minutes"), (61, "61 seconds")] {
            assert_eq!(time(seconds), text);
        }
    }
}
