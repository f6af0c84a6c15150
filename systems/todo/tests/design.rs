//! The todo design compared with its document: an event store, and a projection with a sparse index.

use nagaya_design::{AccessParameter, Design, FieldType, SortBound, Wall};
use serde_json::{Value, json};

#[path = "../../../crates/nagaya-design/tests/common/system.rs"]
mod common;
use common::{check_outline, check_role, derived_keys, design, errors, finds, query, source};

const TODO: &str = "todo/design/todo.toml";
const ID: &str = "01HARX4ZC9V6K2M8T5Q3W7Y1NB";
const FIRST: &str = "01HARX5BD7F8G9H0J1K2M3N4PQ";
const SECOND: &str = "01HARX6000000000000000000Z";

/// The document's event with another id.
fn event(id: &str) -> Value {
    json!({
        "aggregateType": "Todo",
        "aggregateId": ID,
        "aggregateVersion": 3,
        "eventId": id,
        "eventType": "TodoCompleted",
        "data": { "completed": true },
        "metadata": {
            "correlationId": "c-1",
            "causationId": "k-1",
            "actor": { "userId": "u-1", "familyId": "f-123" },
            "timestamp": "2025-08-30T12:34:56.000Z"
        }
    })
}

fn todo(completed: bool, updated_at: &str) -> Value {
    json!({
        "familyId": "f-123",
        "todoId": ID,
        "title": "Buy milk",
        "completed": completed,
        "lastEventId": FIRST,
        "version": 3,
        "updatedAt": updated_at
    })
}

fn errors_of(design: &Design, entity: &str, item: &Value) -> Vec<String> {
    let entity = design.entity(entity).expect("an entity of the design");
    let found = design.check_item(entity, item.as_object().expect("an object"));
    found.into_iter().map(|problem| problem.path).collect()
}

/// Proves T2.
#[test]
fn events_are_in_the_events_table_in_the_partition_of_their_todo() {
    let design = design(TODO);
    let table = design.table_of(design.entity("event").expect("events"));

    assert_eq!(table.physical_name("anything"), "EventsTable");
    assert_eq!((table.key.partition.as_str(), table.key.sort.as_str()), ("PK", "SK"));
    let indexes: Vec<_> = table.indexes.iter().map(|index| index.name.as_str()).collect();
    assert_eq!(indexes, ["GSI1"]);
    assert!(table.stream, "its changes feed the event processor");
    assert_eq!(
        derived_keys(&design, "event", &event(FIRST)),
        "PK=TODO#01HARX4ZC9V6K2M8T5Q3W7Y1NB SK=EVENT#01HARX5BD7F8G9H0J1K2M3N4PQ \
         GSI1PK=FAMILY#f-123 GSI1SK=01HARX5BD7F8G9H0J1K2M3N4PQ"
    );
}

/// Proves T2.
#[test]
fn an_event_has_exactly_the_documented_fields() {
    let design = design(TODO);
    let entity = design.entity("event").expect("events");
    assert!(errors_of(&design, "event", &event(FIRST)).is_empty());

    let names: Vec<_> = entity.fields.iter().map(|field| field.name.as_str()).collect();
    // Besides the documented fields an event may have a version of its schema; the first version needs none.
    let mut documented = vec!["aggregateType", "aggregateId", "aggregateVersion", "eventId", "eventType"];
    documented.extend(["eventVersion", "data", "metadata"]);
    assert_eq!(names, documented);
    assert!(entity.field("eventVersion").expect("the version of its schema").optional);
    for (path, kind) in [
        ("aggregateType", "string"),
        ("aggregateId", "ulid"),
        ("aggregateVersion", "integer"),
        ("eventId", "ulid"),
        ("eventType", "string"),
        ("data", "map"),
        ("metadata.correlationId", "string"),
        ("metadata.causationId", "string"),
        ("metadata.actor.userId", "string"),
        ("metadata.actor.familyId", "string"),
        ("metadata.timestamp", "timestamp"),
    ] {
        let field = entity.field(path).unwrap_or_else(|| panic!("no field {path}"));
        assert_eq!((field.field_type.name(), field.optional), (kind, false), "{path}");
    }

    // One error at a time, and its path.
    for (path, pointer, value) in [
        ("aggregateType", "/aggregateType", json!("Family")),
        ("aggregateVersion", "/aggregateVersion", json!("3")),
        ("aggregateVersion", "/aggregateVersion", json!(0)),
        ("eventId", "/eventId", json!("e-1")),
        ("eventType", "/eventType", json!("TodoArchived")),
        ("eventVersion", "/eventVersion", json!(1)),
        ("data", "/data", json!("completed")),
        ("metadata.timestamp", "/metadata/timestamp", json!("2025-08-30T12:34:56Z")),
        ("metadata.actor.familyId", "/metadata/actor/familyId", json!(null)),
    ] {
        let mut item = event(FIRST);
        item["eventVersion"] = json!(2);
        assert!(errors_of(&design, "event", &item).is_empty());
        *item.pointer_mut(pointer).expect("a field of an event") = value;
        assert!(errors_of(&design, "event", &item).contains(&path.to_owned()), "{path}: {item}");
    }
}

/// Proves T2.
#[test]
fn the_history_of_a_todo_is_exactly_its_events_in_order() {
    let design = design(TODO);
    let history = query(&design, "history", &[("aggregateId", ID)]);

    assert_eq!(history.to_string(), format!("PK = TODO#{ID} AND begins_with(SK, 'EVENT#')"));
    assert!(!history.descending);
    assert!(finds(&design, &history, "event", &event(FIRST)));
    assert!(derived_keys(&design, "event", &event(FIRST)) < derived_keys(&design, "event", &event(SECOND)));
    // The head with the version is in the same partition, but is not an event.
    let head = json!({ "aggregateId": ID, "familyId": "f-123", "aggregateVersion": 3, "lastEventId": FIRST });
    assert!(derived_keys(&design, "head", &head).starts_with(&format!("PK=TODO#{ID} ")));
    assert!(!finds(&design, &history, "head", &head));
}

/// Proves T2.
#[test]
fn a_family_replays_only_its_own_events() {
    let design = design(TODO);
    let ours = query(&design, "family_events", &[("metadata.actor.familyId", "f-123")]);
    let theirs = query(&design, "family_events", &[("metadata.actor.familyId", "f-124")]);

    assert_eq!((ours.index.as_deref(), ours.to_string().as_str()), (Some("GSI1"), "GSI1PK = FAMILY#f-123"));
    assert!(!ours.descending);
    assert!(finds(&design, &ours, "event", &event(FIRST)));
    assert!(!finds(&design, &theirs, "event", &event(FIRST)));
    // The partition does not contain the family, so the attribute of each item is checked.
    let entity = design.entity("event").expect("events");
    assert_eq!((entity.wall, entity.tenant.as_deref()), (Wall::Attribute, Some("metadata.actor.familyId")));
    assert_eq!((design.tenant.field.as_str(), design.tenant.claim.as_str()), ("familyId", "familyId"));
}

#[test]
fn an_event_partition_without_a_declared_wall_is_rejected() {
    let open = source(TODO).replacen("wall        = \"attribute\"\ntenant      = \"metadata.actor.familyId\"\n", "", 1);

    let errors = errors(&open);
    assert!(
        errors.iter().any(|(code, _)| ["NG0101", "NG0102", "NG0104"].contains(code)),
        "events without a family behind no wall: {errors:?}"
    );
}

/// Proves T3.
#[test]
fn the_projection_has_the_documented_key_and_fields() {
    let design = design(TODO);
    let entity = design.entity("todo").expect("todos");
    let table = design.table_of(entity);

    assert_eq!(table.physical_name("anything"), "TodosProjection");
    assert_eq!((table.key.partition.as_str(), table.key.sort.as_str()), ("PK", "SK"));
    let key = entity.key.render(&[("familyId", "f-123"), ("todoId", ID)]).expect("a key");
    assert_eq!((key.partition.as_str(), key.sort.as_str()), ("FAMILY#f-123", "TODO#01HARX4ZC9V6K2M8T5Q3W7Y1NB"));
    for (name, kind) in [
        ("title", "string"),
        ("completed", "boolean"),
        ("version", "integer"),
        ("lastEventId", "ulid"),
        ("updatedAt", "timestamp"),
    ] {
        let field = entity.field(name).unwrap_or_else(|| panic!("no field {name}"));
        assert_eq!((field.field_type.name(), field.optional), (kind, false), "{name}");
    }
    assert!(matches!(entity.field("updatedAt").expect("updatedAt").field_type, FieldType::Timestamp(_)));
}

/// Proves T3.
#[test]
fn completing_a_todo_removes_it_from_the_active_index_and_reopening_adds_it() {
    let design = design(TODO);
    let key = format!("PK=FAMILY#f-123 SK=TODO#{ID}");
    let check = |completed, at: &str, index: &str| {
        assert_eq!(derived_keys(&design, "todo", &todo(completed, at)), format!("{key}{index}"));
    };

    // A change does not move it: the document allows `updatedAt` or a ULID.
    let active = format!(" GSI1PK=FAMILY#f-123#ACTIVE GSI1SK={ID}");
    check(false, "2025-08-30T12:34:56.000Z", &active);
    check(true, "2025-08-30T13:00:00.000Z", "");
    check(false, "2025-08-30T14:00:00.000Z", &active);
}

/// Proves T3.
#[test]
fn a_completed_todo_in_the_active_index_is_rejected() {
    let design = design(TODO);
    let mut item = todo(true, "2025-08-30T12:34:56.000Z");
    assert!(errors_of(&design, "todo", &item).is_empty());

    item["GSI1PK"] = json!("FAMILY#f-123#ACTIVE");
    item["GSI1SK"] = json!(ID);
    assert_eq!(errors_of(&design, "todo", &item), ["GSI1PK", "GSI1SK"]);

    item["completed"] = json!(false);
    assert!(errors_of(&design, "todo", &item).is_empty());
}

/// Proves T3.
#[test]
fn the_active_list_of_a_family_is_its_open_todos_by_their_id() {
    let design = design(TODO);
    let at = "2025-08-30T12:34:56.000Z";
    let active = query(&design, "todos_active", &[("familyId", "f-123")]);
    let completed = query(&design, "todos_completed", &[("familyId", "f-123")]);
    let theirs = query(&design, "todos_active", &[("familyId", "f-124")]);

    assert_eq!(active.to_string(), "GSI1PK = FAMILY#f-123#ACTIVE");
    assert_eq!((active.index.as_deref(), active.sort_attribute.as_str()), (Some("GSI1"), "GSI1SK"));
    assert_eq!(completed.to_string(), "PK = FAMILY#f-123 AND begins_with(SK, 'TODO#')");
    // Columns: in the active list, in the completed list, in another family's.
    for (done, expected) in [(false, [true, false, false]), (true, [false, true, false])] {
        let found = [&active, &completed, &theirs].map(|query| finds(&design, query, "todo", &todo(done, at)));
        assert_eq!(found, expected, "completed = {done}");
    }
    let access = design.access_pattern("todos_active").expect("the active list");
    assert_eq!(access.bound, SortBound::Open);
}

#[test]
fn the_family_of_a_list_comes_from_the_token() {
    let design = design(TODO);
    // A request can only give the start and the end of the range.
    let between: &[&str] = &["from", "to"];
    for (name, expected) in [("todos_active", &[] as &[_]), ("todos_completed", &[]), ("family_events", between)] {
        let access = design.access_pattern(name).unwrap_or_else(|| panic!("no access pattern {name}"));
        let (token, given): (Vec<_>, Vec<_>) = design.parameters(access).into_iter().partition(|each| each.from_token);
        let names = |all: &[AccessParameter]| all.iter().map(|each| each.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&given), expected, "{name}: parameters of the request");
        assert!(given.iter().all(|each| !each.required && each.field == "eventId"), "{name}: {given:?}");
        assert_eq!(token.len(), 1, "{name}: {token:?}");
        assert!(token[0].field.ends_with("familyId"), "{name}: parameter from the token");
    }
}

/// Proves N1.
#[test]
fn queries_are_outlined_as_in_the_document() {
    check_outline(TODO, "todos_active", "GSI1PK = FAMILY#<familyId>#ACTIVE");
}

#[test]
fn a_token_names_the_family_and_the_families_of_its_user() {
    let tenant = design(TODO).tenant;
    assert_eq!((tenant.claim.as_str(), tenant.roles.as_str()), ("familyId", "roles"));
    assert_eq!(tenant.member_of.as_deref(), Some("memberOf"));
}

#[test]
fn without_roles_every_caller_may_do_everything() {
    check_role(TODO, "any", &["todo.read", "todo.create"], &[]);
}
