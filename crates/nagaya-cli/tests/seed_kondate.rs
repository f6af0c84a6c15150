//! `nagaya seed kondate`: consistent data of a user who cooks.

mod common;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use common::{nagaya, root};
use nagaya::{
    List, Nagaya, Principal, Record, RecordOwner, Settings, Tenant, design,
    embedded::{EmbeddedStore, Options},
    store::{Item, Scan, Store as _},
};
use serde_json::{Map, Value, json};

/// A Thursday.
const UNTIL: &str = "2026-11-12";
const MONDAY: &str = "2026-11-09";

fn seed(data: &Path, args: &[&str]) -> Value {
    let data = data.to_str().expect("the path is text");
    let run = nagaya(&[&["seed", "kondate", "--json", "--until", UNTIL, "--data", data], args].concat());
    assert_eq!(run.status, 0, "{args:?}: {run}");
    serde_json::from_str(&run.stdout).expect("--json prints JSON")
}

fn counts(result: &Value) -> BTreeMap<String, u64> {
    let entities = result["entities"].as_array().expect("a list").iter();
    let count = |each: &Value, name: &str| each[name].as_u64().expect("a number");
    let name = |each: &Value| each["entity"].as_str().expect("a name").to_owned();
    entities.map(|each| (name(each), count(each, "created") + count(each, "existing"))).collect()
}

/// Opens a seeded directory.
async fn open(data: &Path) -> Nagaya {
    let text = fs::read_to_string(root().join("systems/kondate/design/kondate.toml")).expect("a design");
    let design = design::check(&text, &[]).design.expect("sound");
    let settings = Settings { prefix: "kondate/".to_owned(), ..Settings::default() };
    let nagaya = Nagaya::open_with(design, store(data), settings);
    nagaya.ensure_tables().await.expect("the tables are there");
    nagaya
}

fn store(data: &Path) -> EmbeddedStore {
    EmbeddedStore::open(data, Options::default()).expect("the directory opens")
}

fn user(nagaya: &Nagaya, name: &str) -> Tenant {
    nagaya.tenant(&Principal::new(name, name)).expect("a tenant")
}

async fn all(tenant: &Tenant, list: List) -> Vec<Map<String, Value>> {
    let page = tenant.list(&list.limit(1_000)).await.expect("a page");
    assert!(page.next.is_none(), "that is all");
    page.records.iter().map(Record::to_json).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn texts<'a>(items: &'a [Map<String, Value>], field: &str) -> BTreeSet<&'a str> {
    items.iter().filter_map(|item| item.get(field)?.as_str()).collect()
}

#[tokio::test]
async fn the_seed_data_of_a_user_is_consistent() {
    let dir = tempfile::tempdir().expect("a directory");
    seed(dir.path(), &["--tenants", "2"]);
    let nagaya = open(dir.path()).await;
    for name in ["demo", "tenant-2"] {
        let tenant = user(&nagaya, name);
        let by = |access: &str| all(&tenant, List::by(access));

        let recipes = by("recipes").await;
        assert_eq!((recipes.len(), texts(&recipes, "title").len()), (200, 200));
        let categories = all(&tenant, List::by("categories").with("scope", "book")).await;
        let filed = texts(&recipes, "categoryId");
        assert!(filed.len() > 6 && filed.is_subset(&texts(&categories, "categoryId")), "{filed:?}");
        for recipe in &recipes {
            assert!((3..=6).contains(&list(&recipe["steps"]).len()), "{recipe:?}");
            assert!(list(&recipe["ingredients"]).len() >= 3 && !list(&recipe["tags"]).is_empty(), "{recipe:?}");
            assert!((2..=4).contains(&recipe["servings"].as_u64().expect("a number")), "{recipe:?}");
            assert!(recipe["createdAt"].as_str() < Some(UNTIL), "{recipe:?}");
        }

        // Every reference to a recipe has its title, and the recipe is older than the reference.
        let known = |named: &Value, when: &str| {
            let found = recipes.iter().find(|recipe| recipe["recipeId"] == named["recipeId"]);
            let found = found.unwrap_or_else(|| panic!("{named} is nowhere"));
            assert!(named.get("title").is_none_or(|title| *title == found["title"]), "{named}: {found:?}");
            assert!(found["createdAt"].as_str() < Some(when), "{named} at {when}: {found:?}");
        };
        let sets = by("sets").await;
        assert!(sets.len() >= 20 && texts(&sets, "title").len() == sets.len());
        for set in &sets {
            assert!(list(&set["items"]).len() >= 3, "{set:?}");
            list(&set["items"]).iter().for_each(|item| known(item, set["createdAt"].as_str().expect("text")));
        }
        let plans = by("plans").await;
        assert_eq!(texts(&plans, "slot"), BTreeSet::from(["CURRENT", "NEXT"]));
        for plan in &plans {
            let set = sets.iter().find(|set| set["setId"] == plan["setId"]).expect("the set is there");
            assert_eq!(set["title"], plan["setTitle"]);
            let items = list(&plan["items"]);
            let days: BTreeSet<_> = items.iter().filter_map(|item| item["date"].as_str()).collect();
            let monday = if plan["slot"] == "CURRENT" { MONDAY } else { "2026-11-16" };
            assert_eq!((days.len(), days.first().copied()), (7, Some(monday)), "{days:?}");
            for item in items {
                known(item, UNTIL);
                assert_eq!(item["cooked"], json!(item["date"].as_str() < Some(UNTIL)), "{item}");
            }
        }

        let logs = by("cooklogs_between").await;
        let days = texts(&logs, "date");
        assert!(days.contains("2026-10-26") && days.contains("2026-11-08"), "{days:?}");
        assert!(days.range("2026-10-26"..MONDAY).count() == 14, "two weeks without a gap: {days:?}");
        assert!(days.iter().map(|day| &day[..7]).collect::<BTreeSet<_>>().len() > 5, "{days:?}");
        assert!(days.last() < Some(&UNTIL), "{days:?}");
        let set_ids = texts(&sets, "setId");
        for log in &logs {
            known(&json!(log), log["createdAt"].as_str().expect("text"));
            assert!(log.get("setId").and_then(Value::as_str).is_none_or(|set| set_ids.contains(set)), "{log:?}");
            assert_eq!(log["createdAt"].as_str().map(|at| &at[..10]), log["date"].as_str(), "{log:?}");
        }
        assert!(logs.iter().any(|log| log.contains_key("memo")) && logs.iter().any(|log| log["rating"] == 5));

        let fridge = by("fridge_items").await;
        assert!((25..=35).contains(&fridge.len()) && texts(&fridge, "name").len() == fridge.len());
        let best = texts(&fridge, "bestBefore");
        assert!(best.first() < Some(&"2026-11-20") && best.last() > Some(&UNTIL), "{best:?}");
        assert_eq!(by("fridge_deleted_items").await.len(), 5);
        let shopping = by("shopping_items").await;
        for item in &shopping {
            assert_eq!(item["completed"] == true, item.contains_key("completedAt"), "{item:?}");
            if item.contains_key("recipeId") {
                known(&json!({ "recipeId": item["recipeId"] }), UNTIL);
            }
        }
        let open = shopping.iter().filter(|item| item["completed"] == false);
        assert!(open.clone().count() > 10 && open.clone().count() < shopping.len());
        let open: BTreeSet<_> = open.filter_map(|item| item["name"].as_str()).collect();
        assert!(open.is_disjoint(&texts(&fridge, "name")), "what is in the fridge is not bought: {open:?}");

        let (all, unread) = (by("notifications").await.len(), by("notifications_unread").await.len());
        assert!(unread > 0 && unread < all, "{unread} of {all}");
        assert_eq!((by("push_tokens").await.len(), by("shares").await.len()), (2, 3));
        let methods = by("payment_methods").await;
        assert!(methods.len() == 1 && methods[0]["isDefault"] == true && !methods[0].contains_key("providerToken"));
        let subscription = tenant.get("subscription", &[]).await.expect("a subscription");
        assert_eq!(subscription.text("paymentMethodId"), methods[0]["paymentMethodId"].as_str());
        assert!(subscription.text("currentPeriodEnd") > Some(UNTIL));
        let purchases = by("purchases").await;
        assert!(texts(&purchases, "targetType").is_superset(&BTreeSet::from(["RECIPE", "SUBSCRIPTION"])));
        // The product finds what was bought by its target.
        for purchase in purchases.iter().filter(|purchase| purchase.contains_key("targetId")) {
            let said = |field: &str| purchase[field].as_str().expect("a text").to_owned();
            let name = format!("bought-{}-{}", said("targetType"), said("targetId"));
            let bought = tenant.side_record("purchase", RecordOwner::Tenant, &name).await.expect("an answer");
            assert_eq!(bought.expect(&name).text("purchaseId"), Some(&*said("purchaseId")));
        }
        let profile = tenant.get("profile", &[]).await.expect("a profile");
        assert!(profile.text("displayName").is_some_and(|name| !name.is_ascii()));
    }
}

#[tokio::test]
async fn seeded_users_share_a_catalog_with_correct_counts() {
    let dir = tempfile::tempdir().expect("a directory");
    let result = seed(dir.path(), &["--tenants", "3", "--items", "60"]);
    let stored = items(dir.path()).await;
    let nagaya = open(dir.path()).await;
    let mut saves: BTreeMap<String, u64> = BTreeMap::new();
    let mut published = Vec::new();
    for name in ["demo", "tenant-2", "tenant-3"] {
        let tenant = user(&nagaya, name);
        for (own, saved, id) in [("recipes", "saved_recipes", "recipeId"), ("sets", "saved_sets", "setId")] {
            for item in all(&tenant, List::by(own)).await.into_iter().filter(|item| item.contains_key("publishedAt")) {
                published.push((name, id, item));
            }
            for item in all(&tenant, List::by(saved)).await {
                assert_ne!(item["creatorId"], name, "no user saves an own recipe");
                *saves.entry(item[id].as_str().expect("an id").to_owned()).or_default() += 1;
            }
        }
    }
    let visitor = user(&nagaya, "somebody-else");
    assert_eq!(published.len(), 3 * 6);
    for (name, id, own) in &published {
        let kind = id.trim_end_matches("Id");
        let key = [own["publishedAt"].as_str().expect("an instant"), own[*id].as_str().expect("an id")];
        let complete = visitor.get(&format!("catalog_{kind}"), &key).await.expect("it is in the catalog").to_json();
        let key = [*name, key[0], key[1]];
        let short = visitor.get(&format!("creator_{kind}"), &key).await.expect("it is on the page").to_json();
        for copy in [&complete, &short] {
            assert_eq!((&copy["creatorId"], &copy["title"]), (&json!(name), &own["title"]));
        }
        assert_eq!((complete.get("steps"), complete.get("items")), (own.get("steps"), own.get("items")));
        assert_eq!(short["savedCount"], saves.remove(key[2]).unwrap_or_default(), "{own:?}");
        assert_eq!(complete["price"], short["price"]);
    }
    assert!(saves.is_empty(), "saved, but not published: {saves:?}");

    // The counts agree with the stored items, which have the documented keys.
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for item in stored {
        *found.entry(shape(&item)).or_default() += 1;
    }
    let counts = counts(&result);
    for (entity, shape) in SHAPES {
        assert_eq!(found.remove(shape), counts.get(entity).copied(), "{entity}");
    }
    assert!(found.remove("USER#* TERM#*").is_some() && found.remove("TERM#* *").is_some(), "it can be searched");
    assert!(found.keys().all(|shape| shape.contains('%')), "nothing else but notes: {found:?}");
}

#[tokio::test]
async fn a_second_run_adds_nothing_and_fewer_items_make_smaller_data() {
    let dir = tempfile::tempdir().expect("a directory");
    let small = seed(dir.path(), &["--tenants", "2", "--items", "4"]);
    let counts_of = counts(&small);
    assert!(counts_of.values().all(|count| (1..=8).contains(count)), "{counts_of:?}");
    assert_eq!((counts_of["recipe"], counts_of["cooklog"]), (8, 8));

    let whole = seed(dir.path(), &["--tenants", "2", "--items", "40"]);
    assert_eq!((counts(&whole)["recipe"], &whole["existing"]), (80, &small["created"]));
    let before = items(dir.path()).await;
    let again = seed(dir.path(), &["--tenants", "2", "--items", "40"]);
    assert_eq!((&again["created"], counts(&again)), (&json!(0), counts(&whole)));
    assert!(items(dir.path()).await == before);
}

/// The key pattern of each entity.
const SHAPES: [(&str, &str); 22] = [
    ("profile", "USER#* PROFILE#"),
    ("recipe", "USER#* RECIPE#*"),
    ("set", "USER#* SET#*"),
    ("plan", "USER#* PLAN#*"),
    ("shopping_item", "USER#* SHOPPING#*"),
    ("fridge_item", "USER#* FRIDGE#*"),
    ("fridge_deleted_item", "USER#* FRIDGE_DELETED#*"),
    ("category", "USER#* CATEGORY#*"),
    ("payment_method", "USER#* PAYMENT_METHOD#*"),
    ("purchase", "USER#* PURCHASE#*"),
    ("subscription", "USER#* SUBSCRIPTION#*"),
    ("notification", "USER#* NOTIFICATION#*"),
    ("push_token", "USER#* PUSH_TOKEN#*"),
    ("notification_settings", "USER#* NOTIFICATION_SETTINGS#"),
    ("cooklog", "USER#* COOKLOG#*"),
    ("saved_recipe", "USER#* SAVED#RECIPE#*"),
    ("saved_set", "USER#* SAVED#SET#*"),
    ("catalog_recipe", "CATALOG#RECIPE CREATED#*"),
    ("catalog_set", "CATALOG#SET CREATED#*"),
    ("creator_recipe", "CREATOR#* CATALOG_RECIPE#*"),
    ("creator_set", "CREATOR#* CATALOG_SET#*"),
    ("share", "SHARE#* META#"),
];

/// A key with its variable parts replaced.
fn shape(item: &Item) -> String {
    let part = |name: &str| {
        let key = item.get(name).and_then(|value| value.as_str()).expect("a key");
        let mut words: Vec<&str> = key.split('#').collect();
        let is_word = |word: &&str| !word.is_empty() && word.bytes().all(|byte| matches!(byte, b'A'..=b'Z' | b'_'));
        let kept = match words.as_slice() {
            ["SAVED" | "CATALOG", ..] => 2,
            [first, ..] if is_word(first) || first.starts_with('%') => 1,
            _ => 0,
        };
        let more = words.split_off(kept).concat();
        let kept = words.join("#");
        match (key.len() > kept.len(), more.is_empty(), kept.is_empty()) {
            (false, ..) => kept,
            (true, true, _) => format!("{kept}#"),
            (true, false, true) => "*".to_owned(),
            (true, false, false) => format!("{kept}#*"),
        }
    };
    format!("{} {}", part("PK"), part("SK"))
}

/// All items without the internal ones of the tenancy layer.
async fn items(data: &Path) -> Vec<Item> {
    let store = store(data);
    let mut items = Vec::new();
    let mut scan = Scan::table("kondate/MainTable");
    loop {
        let page = store.scan(scan.clone()).await.expect("a page");
        let kept = |item: &Item| item.get("PK").and_then(|key| key.as_str()).is_some_and(|key| key.starts_with('%'));
        items.extend(page.items.into_iter().filter(|item| !kept(item)));
        match page.next {
            Some(next) => scan.after = Some(next),
            None => return items,
        }
    }
}
