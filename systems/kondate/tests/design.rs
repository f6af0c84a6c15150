//! The kondate design compared with its document: one table for user data, public catalog and share links.

use nagaya_design::{DefaultValue, Design, FieldType, Wall};
use serde_json::{Value, json};

#[path = "../../../crates/nagaya-design/tests/common/system.rs"]
mod common;
use common::{check_outline, check_role, derived_keys, design, errors, finds, query, source};

const KONDATE: &str = "kondate/design/kondate.toml";
const AT: &str = "2026-02-09T10:00:00Z";
const OLDER: &str = "01HZX5K7N2M4P6Q8R9S0T1V3W5";
const NEWER: &str = "01KGZZZZZZ0000000000000000";
const HASH: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

/// Fields for the keys of all entities.
fn fields(id: &str) -> Value {
    let mut fields = json!({
        "userId": "u_01", "creatorId": "u_01", "savedCount": 12345, "date": "2026-02-09", "tokenHash": HASH,
        "slot": "CURRENT", "scope": "book", "platform": "ios",
    });
    for name in ["recipeId", "setId", "itemId", "categoryId", "paymentMethodId", "purchaseId", "notificationId"] {
        fields[name] = json!(id);
    }
    for name in ["logId", "shareId", "targetId"] {
        fields[name] = json!(id);
    }
    for name in ["createdAt", "deletedAt", "purchasedAt", "savedAt"] {
        fields[name] = json!(AT);
    }
    fields
}

fn with(mut fields: Value, name: &str, value: &str) -> Value {
    fields[name] = json!(value);
    fields
}

fn key(design: &Design, entity: &str, fields: &Value) -> (String, String) {
    let entity = design.entity(entity).unwrap_or_else(|| panic!("no entity {entity}"));
    let key = entity.key.render(fields.as_object().expect("an object")).expect("a key");
    (key.partition, key.sort)
}

/// Proves K1.
#[test]
fn all_entities_are_in_the_main_table_on_demand_and_encrypted() {
    let design = design(KONDATE);
    let [table] = design.tables.as_slice() else { panic!("one table holds everything") };

    assert_eq!(table.physical_name("anything"), "MainTable");
    assert_eq!((table.key.partition.as_str(), table.key.sort.as_str()), ("PK", "SK"));
    assert_eq!(table.throughput, None, "PAY_PER_REQUEST");
    // A design cannot turn off encryption at rest.
    let open = source(KONDATE).replacen("encryption  = \"default\"", "encryption  = \"none\"", 1);
    assert_eq!(errors(&open), [("NG0005", "encryption  = \"none\"".to_owned())]);
}

/// Proves K1.
#[test]
fn user_data_is_in_the_partition_of_the_user() {
    let design = design(KONDATE);
    let check = |entity: &str, fields: Value, sort: &str| {
        assert_eq!(key(&design, entity, &fields), ("USER#u_01".to_owned(), sort.to_owned()), "{entity}");
        assert_eq!(design.entity(entity).expect("an entity").wall, Wall::Key, "{entity}");
    };
    let all = || fields(OLDER);
    check("profile", all(), "PROFILE#");
    check("recipe", all(), &format!("RECIPE#{OLDER}"));
    check("set", all(), &format!("SET#{OLDER}"));
    check("plan", with(all(), "slot", "CURRENT"), "PLAN#CURRENT");
    check("plan", with(all(), "slot", "NEXT"), "PLAN#NEXT");
    check("shopping_item", all(), &format!("SHOPPING#{OLDER}"));
    check("fridge_item", all(), &format!("FRIDGE#{OLDER}"));
    check("fridge_deleted_item", all(), &format!("FRIDGE_DELETED#{AT}#{OLDER}"));
    check("category", with(all(), "scope", "book"), &format!("CATEGORY#book#{OLDER}"));
    check("category", with(all(), "scope", "catalog"), &format!("CATEGORY#catalog#{OLDER}"));
    check("payment_method", all(), &format!("PAYMENT_METHOD#{OLDER}"));
    check("purchase", all(), &format!("PURCHASE#{AT}#{OLDER}"));
    check("subscription", all(), "SUBSCRIPTION#ACTIVE");
    check("notification", all(), &format!("NOTIFICATION#{AT}#{OLDER}"));
    check("push_token", all(), &format!("PUSH_TOKEN#ios#{HASH}"));
    check("notification_settings", all(), "NOTIFICATION_SETTINGS#");
    check("cooklog", all(), &format!("COOKLOG#2026-02-09#{OLDER}"));
    check("saved_recipe", all(), &format!("SAVED#RECIPE#{OLDER}"));
    check("saved_set", all(), &format!("SAVED#SET#{OLDER}"));
}

/// Proves K1.
#[test]
fn scopes_and_plan_slots_are_those_of_the_document_and_no_others() {
    let design = design(KONDATE);
    let check = |entity: &str, field: &str, choices: &[&str]| {
        let entity = design.entity(entity).expect("an entity");
        let found = entity.field(field).unwrap_or_else(|| panic!("{} has no {field}", entity.name));
        assert_eq!(found.choices(), choices, "{}.{field}", entity.name);
        let unfit = with(fields(OLDER), field, "other");
        let problems = design.check_item(entity, unfit.as_object().expect("an object"));
        assert!(problems.iter().any(|problem| problem.path == field), "{}.{field} = other", entity.name);
    };
    check("category", "scope", &["book", "catalog"]);
    check("plan", "slot", &["CURRENT", "NEXT"]);
}

/// Proves K1.
#[test]
fn a_list_returns_one_entity_of_one_user_despite_similar_prefixes() {
    let design = design(KONDATE);
    let check = |access: &str, parameters: &[(&str, &str)], prefix: &str, entity: &str, neighbours: &[&str]| {
        let ask = |user: &str| {
            let parameters: Vec<_> = parameters.iter().copied().chain([("userId", user)]).collect();
            query(&design, access, &parameters)
        };
        assert_eq!(ask("u_01").to_string(), format!("PK = USER#u_01 AND begins_with(SK, '{prefix}')"), "{access}");
        assert!(finds(&design, &ask("u_01"), entity, &fields(OLDER)), "{access}");
        assert!(!finds(&design, &ask("u_02"), entity, &fields(OLDER)), "{access} by another user");
        for neighbour in neighbours {
            assert!(!finds(&design, &ask("u_01"), neighbour, &fields(OLDER)), "{access} gives a {neighbour}");
        }
    };
    check("recipes", &[], "RECIPE#", "recipe", &["saved_recipe"]);
    check("sets", &[], "SET#", "set", &["saved_set", "recipe"]);
    check("fridge_items", &[], "FRIDGE#", "fridge_item", &["fridge_deleted_item"]);
    check("fridge_deleted_items", &[], "FRIDGE_DELETED#", "fridge_deleted_item", &["fridge_item"]);
    check("notifications", &[], "NOTIFICATION#", "notification", &["notification_settings"]);
    check("categories", &[("scope", "book")], "CATEGORY#book#", "category", &["profile"]);
    check("saved_recipes", &[], "SAVED#RECIPE#", "saved_recipe", &["recipe", "saved_set"]);
    check("saved_sets", &[], "SAVED#SET#", "saved_set", &["set", "saved_recipe"]);
    check("purchases", &[], "PURCHASE#", "purchase", &["payment_method"]);
    check("push_tokens", &[], "PUSH_TOKEN#", "push_token", &["plan"]);
    check("cooklogs", &[("date", "2026-02")], "COOKLOG#2026-02", "cooklog", &["category"]);
}

/// Proves K1.
#[test]
fn the_logs_of_a_month_are_found_by_its_prefix() {
    let design = design(KONDATE);
    let month = query(&design, "cooklogs", &[("userId", "u_01"), ("date", "2026-02")]);
    assert_eq!(month.to_string(), "PK = USER#u_01 AND begins_with(SK, 'COOKLOG#2026-02')");
    for (day, found) in [("2026-01-31", false), ("2026-02-01", true), ("2026-02-28", true), ("2026-03-01", false)] {
        assert_eq!(finds(&design, &month, "cooklog", &with(fields(OLDER), "date", day)), found, "{day}");
    }
}

#[test]
fn user_data_without_the_user_in_its_partition_is_rejected() {
    let text = source(KONDATE);
    let own: Vec<_> = design(KONDATE).entities.into_iter().filter(|entity| entity.wall == Wall::Key).collect();
    assert_eq!(own.len(), 18);
    for entity in own {
        let start = text.find(&format!("[entity.{}]\n", entity.name)).expect("its section");
        let (before, after) = text.split_at(start);
        let open = before.to_owned() + &after.replacen("PK = \"USER#{userId}\"", "PK = \"USER\"", 1);
        let errors = errors(&open);
        assert!(errors.iter().any(|(code, _)| ["NG0101", "NG0102"].contains(code)), "{}: {errors:?}", entity.name);
    }
}

/// Proves K2.
#[test]
fn the_catalog_is_keyed_by_time_and_by_creator() {
    let design = design(KONDATE);
    let check = |entity: &str, partition: &str, sort: &str| {
        let expected = (partition.to_owned(), format!("{sort}#{AT}#{OLDER}"));
        assert_eq!(key(&design, entity, &fields(OLDER)), expected, "{entity}");
    };
    check("catalog_recipe", "CATALOG#RECIPE", "CREATED");
    check("catalog_set", "CATALOG#SET", "CREATED");
    check("creator_recipe", "CREATOR#u_01", "CATALOG_RECIPE");
    check("creator_set", "CREATOR#u_01", "CATALOG_SET");
}

/// Proves K2.
#[test]
fn every_tenant_reads_the_catalog_and_only_its_creator_writes_it() {
    let design = design(KONDATE);
    for name in ["catalog_recipe", "catalog_set", "creator_recipe", "creator_set"] {
        let entity = design.entity(name).expect("an entity of the catalog");
        assert_eq!((entity.wall, entity.tenant.as_deref()), (Wall::Public, Some("creatorId")), "{name}");
    }
    let page = query(&design, "creator_recipes", &[("creatorId", "u_01")]);
    assert_eq!(page.to_string(), "PK = CREATOR#u_01 AND begins_with(SK, 'CATALOG_RECIPE#')");
    assert!(finds(&design, &page, "creator_recipe", &fields(OLDER)));
    assert!(!finds(&design, &page, "creator_set", &fields(OLDER)), "sets are in the same partition as recipes");
    assert!(!finds(&design, &page, "creator_recipe", &with(fields(OLDER), "creatorId", "u_02")));
}

/// Proves the full-text search part of K19.
#[test]
fn postings_are_found_by_a_term_or_its_first_character_and_have_no_route() {
    let design = design(KONDATE);
    let check = |access: &str, parameters: &[(&str, &str)], expected: &str| {
        assert_eq!(query(&design, access, parameters).to_string(), expected, "{access}");
        assert_eq!(design.access_pattern(access).and_then(|access| access.path.clone()), None, "{access}");
    };
    let (user, kind, initial, term) = (("userId", "u_01"), ("kind", "RECIPE"), ("initial", "生"), ("term", "生姜"));
    check("search_terms", &[user, kind, term], "PK = USER#u_01 AND begins_with(SK, 'TERM#RECIPE#生姜#')");
    let beginning = &[user, kind, ("term", "生")];
    check("search_terms_beginning_with", beginning, "PK = USER#u_01 AND begins_with(SK, 'TERM#RECIPE#生')");
    check("catalog_terms", &[kind, initial, term], "PK = TERM#RECIPE#生 AND begins_with(SK, '生姜#')");
    check("catalog_terms_beginning_with", &[kind, initial], "PK = TERM#RECIPE#生");
}

/// Proves K3.
#[test]
fn a_share_link_is_found_by_its_id_and_names_its_target() {
    let design = design(KONDATE);
    assert_eq!(key(&design, "share", &fields(OLDER)), (format!("SHARE#{OLDER}"), "META#".to_owned()));

    let entity = design.entity("share").expect("share links");
    for name in ["targetType", "targetId", "authorName", "sourceUrl"] {
        assert!(entity.field(name).is_some(), "no field {name}");
    }
    assert_eq!(entity.wall, Wall::Public);
    let check = |name: &str, value: Value, refused: &[&str]| {
        let mut item = json!({
            "shareId": OLDER, "ownerUserId": "u_01", "targetType": "RECIPE", "targetId": NEWER, "authorName": "Hana",
            "sourceUrl": "https://kondate.example.com/r/1", "createdAt": AT,
        });
        item[name] = value;
        let problems = design.check_item(entity, item.as_object().expect("an object"));
        assert_eq!(problems.iter().map(|problem| problem.path.as_str()).collect::<Vec<_>>(), refused, "{item}");
    };
    check("targetType", json!("SET"), &[]);
    check("targetType", json!("USER"), &["targetType"]);
    check("targetId", json!(7), &["targetId"]);
    check("authorName", json!(""), &["authorName"]);
    check("sourceUrl", json!("no address"), &["sourceUrl"]);
}

/// Proves K4.
#[test]
fn the_three_indexes_have_separate_attributes() {
    let table = &design(KONDATE).tables[0];
    let indexes =
        table.indexes.iter().map(|index| (index.name.as_str(), index.key.partition.as_str(), index.key.sort.as_str()));
    assert_eq!(
        indexes.collect::<Vec<_>>(),
        [("GSI1", "GSI1PK", "GSI1SK"), ("GSI2", "GSI2PK", "GSI2SK"), ("GSI3", "GSI3PK", "GSI3SK")]
    );
}

/// Proves K4.
#[test]
fn items_have_the_documented_index_keys() {
    let design = design(KONDATE);
    let check = |entity: &str, expected: &[String]| {
        let all = derived_keys(&design, entity, &fields(OLDER));
        let (_, indexes) = all.split_once(" GSI").unwrap_or_else(|| panic!("{entity} has no index key: {all}"));
        assert_eq!(format!("GSI{indexes}"), expected.join(" "), "{entity}");
    };
    for (own, published, page, kind) in
        [("recipe", "catalog_recipe", "creator_recipe", "RECIPE"), ("set", "catalog_set", "creator_set", "SET")]
    {
        check(own, &[format!("GSI1PK=ENTITY#{kind}#{OLDER} GSI1SK=OWNER#u_01")]);
        check(
            published,
            &[
                format!("GSI1PK=ENTITY#{kind}#{OLDER} GSI1SK=PUBLIC#"),
                format!("GSI2PK=CATALOG#{kind} GSI2SK=SORT#NEWEST#{AT}#{OLDER}"),
                format!("GSI3PK=CREATOR#u_01#{kind} GSI3SK=CREATED#{AT}#{OLDER}"),
            ],
        );
        check(page, &[format!("GSI2PK=CATALOG#{kind} GSI2SK=SORT#POPULAR#0000012345#{OLDER}")]);
    }
}

/// Proves K4.
#[test]
fn an_id_finds_the_callers_own_item_or_the_public_one() {
    let design = design(KONDATE);
    for (own, own_access, published, public_access, kind, id) in [
        ("recipe", "recipe_by_id", "catalog_recipe", "catalog_recipe_by_id", "RECIPE", "recipeId"),
        ("set", "set_by_id", "catalog_set", "catalog_set_by_id", "SET", "setId"),
    ] {
        // A request gives only the id; the owner comes from the token.
        for name in [own_access, public_access] {
            let parameters = design.parameters(design.access_pattern(name).expect("an access pattern")).into_iter();
            let create_item: Vec<_> = parameters.filter(|each| !each.from_token).map(|each| each.name).collect();
            assert_eq!(create_item, [id], "{name}");
        }
        let owned = query(&design, own_access, &[(id, OLDER), ("userId", "u_01")]);
        let public = query(&design, public_access, &[(id, OLDER)]);
        let partition = format!("GSI1PK = ENTITY#{kind}#{OLDER}");
        assert_eq!(owned.to_string(), format!("{partition} AND GSI1SK = OWNER#u_01"));
        assert_eq!(public.to_string(), format!("{partition} AND GSI1SK = PUBLIC#"));
        for (entity, found) in [(own, [true, false]), (published, [false, true])] {
            let answers = |item: &Value| [&owned, &public].map(|query| finds(&design, query, entity, item));
            assert_eq!(answers(&fields(OLDER)), found, "{entity}");
            assert_eq!(answers(&fields(NEWER)), [false, false], "{entity} with another id");
        }
        assert!(!finds(&design, &owned, own, &with(fields(OLDER), "userId", "u_02")), "another user's {own}");
    }
}

/// Proves K4.
#[test]
fn the_catalog_is_listed_by_time_or_by_saves_in_separate_lists() {
    let design = design(KONDATE);
    for (newest, popular, published, page, kind) in [
        ("catalog_recipes", "catalog_recipes_popular", "catalog_recipe", "creator_recipe", "RECIPE"),
        ("catalog_sets", "catalog_sets_popular", "catalog_set", "creator_set", "SET"),
    ] {
        let [newest, popular] = [newest, popular].map(|access| query(&design, access, &[]));
        assert_eq!(newest.to_string(), format!("GSI2PK = CATALOG#{kind} AND begins_with(GSI2SK, 'SORT#NEWEST#')"));
        assert_eq!(popular.to_string(), format!("GSI2PK = CATALOG#{kind} AND begins_with(GSI2SK, 'SORT#POPULAR#')"));
        assert!(newest.descending && popular.descending, "the last comes first");
        for (entity, found) in [(published, [true, false]), (page, [false, true])] {
            let answers = [&newest, &popular].map(|query| finds(&design, query, entity, &fields(OLDER)));
            assert_eq!(answers, found, "{entity}");
        }
    }
}

/// Proves K4.
#[test]
fn saves_are_sorted_as_numbers() {
    let design = design(KONDATE);
    let mapping = design.entity("creator_recipe").and_then(|entity| entity.mapping("GSI2")).expect("GSI2");
    let sort = |count: i64| {
        let mut item = fields(OLDER);
        item["savedCount"] = json!(count);
        mapping.key.sort.render(item.as_object().expect("an object")).expect("a sort key")
    };
    assert_eq!(sort(12_345), format!("SORT#POPULAR#0000012345#{OLDER}"));
    let counts = [0, 1, 2, 9, 10, 99, 100, 12_345, 9_999_999_999];
    assert!(counts.map(sort).is_sorted(), "{:#?}", counts.map(sort));
}

/// Proves K4.
#[test]
fn a_creators_catalog_is_listed_by_time() {
    let design = design(KONDATE);
    for (access, entity, kind) in
        [("catalog_recipes_of_creator", "catalog_recipe", "RECIPE"), ("catalog_sets_of_creator", "catalog_set", "SET")]
    {
        let list = query(&design, access, &[("creatorId", "u_01")]);
        let expected = format!("GSI3PK = CREATOR#u_01#{kind} AND begins_with(GSI3SK, 'CREATED#')");
        assert_eq!((list.index.as_deref(), list.to_string()), (Some("GSI3"), expected));
        assert!(list.descending);
        assert!(finds(&design, &list, entity, &fields(OLDER)));
        assert!(!finds(&design, &list, entity, &with(fields(OLDER), "creatorId", "u_02")));
    }
}

/// Proves K20.
#[test]
fn ids_are_ulids() {
    let design = design(KONDATE);
    for (entity, id) in [
        ("recipe", "recipeId"),
        ("set", "setId"),
        ("shopping_item", "itemId"),
        ("fridge_item", "itemId"),
        ("category", "categoryId"),
        ("payment_method", "paymentMethodId"),
        ("purchase", "purchaseId"),
        ("notification", "notificationId"),
        ("cooklog", "logId"),
        ("share", "shareId"),
    ] {
        let entity = design.entity(entity).expect("an entity");
        let field = entity.field(id).unwrap_or_else(|| panic!("{} has no {id}", entity.name));
        assert!(matches!(field.field_type, FieldType::Ulid), "{}.{id} is a {}", entity.name, field.field_type.name());
        assert_eq!(field.default, Some(DefaultValue::New), "{}.{id} is generated by default", entity.name);
        for (value, fits) in [
            (OLDER, true),
            ("r_01", true), // as the document's examples write them
            ("01hzx5k7n2m4p6q8r9s0t1v3w5", false),
            ("01HZX5K7N2M4P6Q8R9S0T1V3W", false),
            ("81HZX5K7N2M4P6Q8R9S0T1V3W5", false),
            ("123e4567-e89b-12d3-a456-426614174000", false),
            ("", false),
        ] {
            let mut problems = Vec::new();
            field.check(&json!(value), id, &mut problems);
            assert_eq!(problems.is_empty(), fits, "{}.{id} = {value:?}", entity.name);
        }
    }
}

/// Proves K20.
#[test]
fn lists_of_the_book_are_newest_first_by_their_ids() {
    let design = design(KONDATE);
    for (access, entity) in [("recipes", "recipe"), ("sets", "set")] {
        assert!(query(&design, access, &[("userId", "u_01")]).descending, "{access}");
        assert!(key(&design, entity, &fields(OLDER)) < key(&design, entity, &fields(NEWER)), "{access}");
    }
}

/// Proves K20.
#[test]
fn lists_by_time_do_not_depend_on_ids() {
    let design = design(KONDATE);
    let check = |access: &str, parameters: &[(&str, &str)], entity: &str, field: &str, times: [&str; 2]| {
        let query = query(&design, access, parameters);
        let sort = |id: &str, at: &str| {
            let all = derived_keys(&design, entity, &with(fields(id), field, at));
            let from = all.find(&format!("{}=", query.sort_attribute)).expect("the sort attribute");
            all[from..].split(' ').next().expect("its value").to_owned()
        };
        assert!(sort(NEWER, times[0]) < sort(OLDER, times[1]), "{access}");
        assert!(query.descending, "{access}: the last comes first");
    };
    let user = [("userId", "u_01")];
    let instants = ["2026-02-09T23:59:59Z", "2026-02-10T00:00:00Z"];
    check("purchases", &user, "purchase", "purchasedAt", instants);
    check("notifications", &user, "notification", "createdAt", instants);
    check("fridge_deleted_items", &user, "fridge_deleted_item", "deletedAt", instants);
    check("catalog_recipes", &[], "catalog_recipe", "createdAt", instants);
    check("catalog_sets", &[], "catalog_set", "createdAt", instants);
    check("catalog_recipes_of_creator", &[("creatorId", "u_01")], "catalog_recipe", "createdAt", instants);
    check("creator_recipes", &[("creatorId", "u_01")], "creator_recipe", "createdAt", instants);
    check("saved_recipes_newest", &user, "saved_recipe", "savedAt", instants);
    check("saved_sets_newest", &user, "saved_set", "savedAt", instants);
}

/// Proves N1.
#[test]
fn queries_are_outlined_as_in_the_document() {
    check_outline(KONDATE, "cooklogs", "PK = USER#<userId> AND begins_with(SK, 'COOKLOG#<date>')");
    assert_eq!(design(KONDATE).tenant.member_of, None);
}

#[test]
fn without_roles_every_caller_may_do_everything() {
    check_role(KONDATE, "any", &["recipe.read", "recipe.delete"], &[]);
}
