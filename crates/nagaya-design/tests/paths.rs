//! HTTP paths of entities and access patterns.

#[path = "common/designs.rs"]
mod designs;
use designs::{design, errors};

/// Checks the path of an access pattern, and whether it lists the collection or finds an item.
fn check(path: &str, access: &str, expected: &str) {
    let design = design(path);
    let found = design.access_pattern(access).unwrap_or_else(|| panic!("no access pattern {access}"));
    let kind = match (design.lists_collection(found), design.is_lookup(found)) {
        (true, false) => ", the collection",
        (false, true) => ", the item",
        (false, false) => "",
        (true, true) => panic!("{access} cannot be both"),
    };
    assert_eq!(format!("{}{kind}", found.path.as_deref().unwrap_or("nowhere")), expected, "{access}");
}

#[test]
fn the_default_path_of_an_access_pattern_is_its_name() {
    check("aiagent/design/single.toml", "tasks_of_user", "/tasks-of-user");
    check("kondate/design/kondate.toml", "notifications_unread_count", "/notifications-unread-count");
    check("todo/design/todo.toml", "family_events", "/family-events");
}

#[test]
fn an_access_pattern_with_the_path_of_its_entity_lists_the_collection() {
    check("aiagent/design/single.toml", "tasks", "/tasks, the collection");
    check("aiagent/design/single.toml", "tenant_applications", "/tenant-applications, the collection");
    check("kondate/design/kondate.toml", "catalog_recipes", "/catalog/recipes, the collection");
    check("todo/design/todo.toml", "todos_active", "/todos, the collection");
    check("todo/design/todo.toml", "todos", "/todos/all");
}

#[test]
fn a_pattern_that_returns_one_at_the_path_of_an_item_replaces_reading_by_key() {
    check("kondate/design/kondate.toml", "recipe_by_id", "/recipes/{recipeId}, the item");
    // The key of the catalog has more fields than the id, so this is a separate path.
    check("kondate/design/kondate.toml", "catalog_recipe_by_id", "/catalog/recipes/{recipeId}");
    check("aiagent/design/single.toml", "preferences_of_user", "/preferences-of-user");
}

#[test]
fn the_only_item_of_a_tenant_is_at_the_path_of_its_entity() {
    let check_item = |path: &str, entity: &str, expected: &str| {
        assert_eq!(design(path).entity(entity).expect("an entity").item_path(), expected);
    };
    check_item("aiagent/design/single.toml", "tenant", "/tenants");
    check_item("aiagent/design/single.toml", "user", "/users/{userId}");
    check_item("aiagent/design/single.toml", "audit", "/audits/{timestamp}/{uuid}");
    check_item("kondate/design/kondate.toml", "notification_settings", "/notification-settings");
    // So the list of all tenants needs another path.
    check("aiagent/design/single.toml", "tenants", "/all-tenants");
}

#[test]
fn two_routes_with_the_same_path_are_rejected() {
    // A folder has an id; there is one quota per owner.
    let check = |accesses: &str, expected: &[&str]| {
        let found = errors(&format!(
            r#"
name    = "drive"
version = "1.0"
tenant  = {{ field = "ownerId" }}

[table.app]
key = ["PK", "SK"]

[entity.folder]
table = "app"
key   = {{ PK = "OWNER#{{ownerId}}", SK = "FOLDER#{{folderId}}" }}
fields.ownerId  = {{ type = "string", max = 64 }}
fields.folderId = {{ type = "ulid", default = "new" }}

[entity.quota]
table = "app"
key   = {{ PK = "OWNER#{{ownerId}}", SK = "QUOTA#" }}
fields.ownerId  = {{ type = "string", max = 64 }}

[access]
{accesses}
"#
        ));
        let expected: Vec<_> = expected.iter().map(|line| ("NG1001", (*line).to_owned())).collect();
        assert_eq!(found, expected, "{accesses}");
    };
    check("folders = { entity = 'folder' }", &[]);
    check("folders = { entity = 'quota' }", &["folders = { entity = 'quota' }"]);
    // One of them lists the collection.
    check("a = { entity = 'folder', path = '/folders' }\nb = { entity = 'folder' }", &[]);
    let lists = "a = { entity = 'folder', path = '/folders' }\nfolders = { entity = 'folder' }";
    check(lists, &["folders = { entity = 'folder' }"]);
    // An item is found at its path, not listed there.
    check("one = { entity = 'folder', by = ['folderId'], returns = 'one', path = '/folders/{folderId}' }", &[]);
    let many = "many = { entity = 'folder', by = ['folderId'], path = '/folders/{folderId}' }";
    check(many, &[many]);
    // Access patterns without a path cannot conflict.
    check("many = { entity = 'folder', by = ['folderId'], path = false }", &[]);
    check("folders = { entity = 'quota', path = false }", &[]);
    let count = "count = { entity = 'folder', prefix = 'folderId', returns = 'count', path = '/folders/{folderId}' }";
    check(count, &[count]);
    // The only item is found at the path of its entity, and by one pattern.
    check("quotas = { entity = 'quota', returns = 'one' }", &[]);
    check("quotas = { entity = 'quota' }", &["quotas = { entity = 'quota' }"]);
    check("quotas = { entity = 'quota', returns = 'count' }", &["quotas = { entity = 'quota', returns = 'count' }"]);
    let again = "again = { entity = 'quota', returns = 'one', path = '/quotas' }";
    check(&format!("quotas = {{ entity = 'quota', returns = 'one' }}\n{again}"), &[again]);
}
