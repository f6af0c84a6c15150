//! Postings, their record, and the items that they belong to.

use std::sync::Arc;

use nagaya_store::Store;
use nagaya_tenancy::{IdGenerator, List, Nagaya, Principal, Record, RecordOwner, Settings, Tenant};
use nagaya_testing::{ManualClock, memory_store};
use serde_json::{Value as Json, json};

use super::{
    Collection,
    index::{Postings, posted_terms, reconcile},
    query::{Pace, Position, Question, SearchScope, search},
    terms::{Weighted, initial},
};
use crate::{
    product::object_fields,
    reconciler::{catch_up, has_reconciled_all},
};

const AT: &str = "2029-12-31T00:00:00Z";

async fn open_kondate() -> Nagaya {
    let clock = ManualClock::default();
    open_kondate_on(memory_store(&clock), &clock).await
}

/// The system on a store that has this clock.
pub(super) async fn open_kondate_on(store: Arc<dyn Store>, clock: &ManualClock) -> Nagaya {
    let design = nagaya_design::check(include_str!("../../design/kondate.toml"), &[]).design.expect("a sound design");
    let settings = Settings { clock: clock.clock(), ids: IdGenerator::random(), ..Settings::default() };
    let nagaya = Nagaya::open_with(design, store, settings);
    nagaya.ensure_tables().await.expect("tables");
    nagaya
}

pub(super) fn user(nagaya: &Nagaya, name: &str) -> Tenant {
    nagaya.tenant_owned(Principal::new(name, name)).expect("a user")
}

async fn reconcile_item(nagaya: &Nagaya, entity: &str, tenant: &str, id: &[&str]) {
    let id: Vec<_> = id.iter().map(|&part| part.to_owned()).collect();
    reconcile(nagaya, entity, tenant, &id).await.expect("reconciled");
}

/// The postings of an item; asserts that stored postings, their record and the item agree.
async fn postings(nagaya: &Nagaya, entity: &str, tenant: &str, id: &[&str]) -> Weighted {
    let collection = Collection::of_entity(entity).expect("a collection");
    let owned: Vec<_> = id.iter().map(|&part| part.to_owned()).collect();
    let of = Postings::new(nagaya, collection, tenant, &owned).expect("a tenant");
    let recorded = of.posted_record().await.expect("a record").as_ref().map(posted_terms).unwrap_or_default();
    let wanted = of.wanted_terms().await.expect("an item");
    assert_eq!(recorded, wanted, "the record of {entity} {id:?}");
    let stored = stored(&of.tenant, collection, id, &wanted).await;
    assert_eq!(stored, wanted, "the postings of {entity} {id:?}");
    stored
}

/// The stored postings of an item.
async fn stored(tenant: &Tenant, collection: &Collection, id: &[&str], wanted: &Weighted) -> Weighted {
    let mut stored = Weighted::new();
    let lists = match collection.public {
        // There is no list of all postings: read one list per first character.
        true => {
            let initials: std::collections::BTreeSet<_> = wanted.keys().filter_map(|term| initial(term)).collect();
            let list = |initial: char| List::by("catalog_terms_beginning_with").with("initial", initial);
            initials.into_iter().chain(['古']).map(list).collect()
        }
        false => vec![List::by("search_terms_beginning_with").with("term", "")],
    };
    for list in lists {
        for record in list_all(tenant, &list.with("kind", collection.kind)).await.expect("postings") {
            let at: Vec<_> = ["createdAt", "targetId"].into_iter().filter_map(|field| record.text(field)).collect();
            if at == id {
                let weight = record.json("weight").and_then(|weight| weight.as_i64()).expect("a weight");
                stored.insert(record.text("term").expect("a term").to_owned(), weight);
            }
        }
    }
    stored
}

/// All records of a list.
async fn list_all(tenant: &Tenant, list: &List) -> Result<Vec<Record>, nagaya_tenancy::Error> {
    let mut page = tenant.list(list).await?;
    let mut records = page.records;
    while let Some(next) = page.next {
        page = tenant.list(&list.clone().cursor(next)).await?;
        records.append(&mut page.records);
    }
    Ok(records)
}

fn recipe(title: &str) -> Json {
    json!({
        "recipeId": "r_01", "title": title, "tags": ["肉"], "description": "ごはんに合う",
        "ingredients": [{ "name": "豚肉", "amount": 200, "unit": "g" }],
    })
}

/// Proves the full-text search part of K19.
#[tokio::test]
async fn postings_follow_the_changes_of_a_recipe() {
    let nagaya = open_kondate().await;
    let hana = user(&nagaya, "u_01");
    reconcile_item(&nagaya, "recipe", "u_01", &["r_01"]).await;
    assert_eq!(postings(&nagaya, "recipe", "u_01", &["r_01"]).await, Weighted::new());

    hana.create("recipe", object_fields(recipe("生姜焼き"))).await.expect("a recipe");
    reconcile_item(&nagaya, "recipe", "u_01", &["r_01"]).await;
    let terms = postings(&nagaya, "recipe", "u_01", &["r_01"]).await;
    assert_eq!((terms["生姜"], terms["豚肉"], terms["肉"], terms["はん"]), (4, 2, 2, 1));

    // Weights that rise and fall, terms that appear and disappear, and nothing else.
    let patch = json!({ "title": "豚肉の味噌焼き", "description": "生姜も" });
    hana.update("recipe", &["r_01"], object_fields(patch), None).await.expect("a change");
    reconcile_item(&nagaya, "recipe", "u_01", &["r_01"]).await;
    reconcile_item(&nagaya, "recipe", "u_01", &["r_01"]).await;
    let terms = postings(&nagaya, "recipe", "u_01", &["r_01"]).await;
    assert_eq!((terms["豚肉"], terms["生姜"], terms.get("はん")), (4, 1, None));

    hana.delete("recipe", &["r_01"], None).await.expect("gone");
    reconcile_item(&nagaya, "recipe", "u_01", &["r_01"]).await;
    assert_eq!(postings(&nagaya, "recipe", "u_01", &["r_01"]).await, Weighted::new());
}

/// Proves the full-text search part of K19.
#[tokio::test]
async fn many_postings_are_written_in_several_write_sets() {
    let nagaya = open_kondate().await;
    let hana = user(&nagaya, "u_01");
    let long: String = (0..1_500).filter_map(|at| char::from_u32(0x4e00 + at)).collect();
    let mut made = recipe("古い名前");
    made["description"] = json!(long);
    hana.create("recipe", object_fields(made)).await.expect("a recipe");
    reconcile_item(&nagaya, "recipe", "u_01", &["r_01"]).await;
    assert_eq!(postings(&nagaya, "recipe", "u_01", &["r_01"]).await.len(), super::terms::MAX_ITEM_TERMS);

    hana.delete("recipe", &["r_01"], None).await.expect("gone");
    reconcile_item(&nagaya, "recipe", "u_01", &["r_01"]).await;
    assert_eq!(postings(&nagaya, "recipe", "u_01", &["r_01"]).await, Weighted::new());
}

/// Proves the full-text search part of K19.
#[tokio::test]
async fn postings_of_the_catalog_belong_to_the_creator() {
    let nagaya = open_kondate().await;
    let published = json!({ "recipeId": "r_01", "createdAt": AT, "title": "古い親子丼", "creatorName": "Hana" });
    user(&nagaya, "u_01").create("catalog_recipe", object_fields(published)).await.expect("published");
    // Reconciling the item of another tenant writes no postings.
    reconcile_item(&nagaya, "catalog_recipe", "u_10", &[AT, "r_01"]).await;
    reconcile_item(&nagaya, "catalog_recipe", "u_01", &[AT, "r_01"]).await;
    assert_eq!(postings(&nagaya, "catalog_recipe", "u_01", &[AT, "r_01"]).await["親子"], 4);

    user(&nagaya, "u_01").delete("catalog_recipe", &[AT, "r_01"], None).await.expect("withdrawn");
    reconcile_item(&nagaya, "catalog_recipe", "u_01", &[AT, "r_01"]).await;
    assert_eq!(postings(&nagaya, "catalog_recipe", "u_01", &[AT, "r_01"]).await, Weighted::new());
}

/// Proves the full-text search part of K19.
#[tokio::test]
async fn postings_missing_from_the_record_are_adopted() {
    let nagaya = open_kondate().await;
    let hana = user(&nagaya, "u_01");
    hana.create("recipe", object_fields(recipe("生姜焼き"))).await.expect("a recipe");
    let posting =
        |term: &str| object_fields(json!({ "kind": "RECIPE", "term": term, "targetId": "r_01", "weight": 1 }));
    hana.create("search_term", posting("生姜")).await.expect("a posting");
    reconcile_item(&nagaya, "recipe", "u_01", &["r_01"]).await;
    assert_eq!(postings(&nagaya, "recipe", "u_01", &["r_01"]).await["生姜"], 4);

    // A posting that the record has but the store lacks does no harm.
    hana.delete("search_term", &["RECIPE", "生姜", "r_01"], None).await.expect("gone");
    hana.update("recipe", &["r_01"], object_fields(json!({ "title": "味噌汁" })), None).await.expect("a change");
    reconcile_item(&nagaya, "recipe", "u_01", &["r_01"]).await;
    assert_eq!(postings(&nagaya, "recipe", "u_01", &["r_01"]).await["味噌"], 4);
}

/// Proves the full-text search part of K19.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_reconciliation_converges_while_the_recipe_changes() {
    let nagaya = open_kondate().await;
    let hana = user(&nagaya, "u_01");
    let titles = ["生姜焼き", "豚の角煮", "肉じゃが", "親子丼", "Egg curry", "生姜焼き弁当", "最初"];
    for round in 0..40 {
        // Every change starts a task, and all tasks run concurrently: that of the first change may finish last.
        hana.create("recipe", object_fields(recipe("最初"))).await.expect("a recipe");
        let mut tasks = Vec::new();
        for at in 0..6 {
            let patch = json!({ "title": titles[(round + at) % titles.len()] });
            hana.update("recipe", &["r_01"], object_fields(patch), None).await.expect("a change");
            let nagaya = nagaya.clone();
            tasks.push(tokio::spawn(async move { reconcile_item(&nagaya, "recipe", "u_01", &["r_01"]).await }));
        }
        for task in tasks.drain(..) {
            task.await.expect("reconciled");
        }
        assert!(!postings(&nagaya, "recipe", "u_01", &["r_01"]).await.is_empty());

        let nagaya_then = nagaya.clone();
        tasks.push(tokio::spawn(async move { reconcile_item(&nagaya_then, "recipe", "u_01", &["r_01"]).await }));
        hana.delete("recipe", &["r_01"], None).await.expect("gone");
        reconcile_item(&nagaya, "recipe", "u_01", &["r_01"]).await;
        for task in tasks {
            task.await.expect("reconciled");
        }
        assert!(postings(&nagaya, "recipe", "u_01", &["r_01"]).await.is_empty());
    }
}

/// Proves the full-text search part of K19.
#[tokio::test]
async fn an_index_of_an_older_version_is_built_anew_at_the_first_start() {
    let nagaya = open_kondate().await;
    let hana = user(&nagaya, "u_01");
    let mut made = recipe("玉子焼き");
    made["tags"] = json!(["肉料理"]);
    hana.create("recipe", object_fields(made)).await.expect("a recipe");
    catch_up(&nagaya).await.expect("it is indexed");
    let built = postings(&nagaya, "recipe", "u_01", &["r_01"]).await;

    // As version 1 left it: pairs alone, their record, and its own position.
    let id = ["r_01".to_owned()];
    let of = Postings::new(&nagaya, Collection::of_entity("recipe").expect("recipes"), "u_01", &id).expect("a tenant");
    let operator = nagaya.operator("a test of it", &Principal::new("", "test"));
    let position =
        operator.side_record("saved_recipe", RecordOwner::System, "followers-position-2").await.expect("read");
    let fields = position.as_ref().map(|position| position.fields.clone());
    operator
        .change_set()
        .side_record("saved_recipe", RecordOwner::System, "followers-position", fields, None)
        .side_record("saved_recipe", RecordOwner::System, "followers-position-2", None, position.as_ref())
        .commit()
        .await
        .expect("the position of version 1");
    of.forget_words().await;
    assert!(!has_reconciled_all(&operator).await.expect("read"));
    assert_ne!(stored(&hana, Collection::of_entity("recipe").expect("recipes"), &["r_01"], &built).await, built);

    // Until then it finds what is written as it is asked for.
    let scope = SearchScope::Own(hana);
    let recipes = Collection::of_entity("recipe").expect("recipes");
    let found = async |question: Question| {
        let page = search(&scope, recipes, &question, (9, false), Position::default(), &Pace::default()).await;
        page.expect("a page").records.len()
    };
    let asked = |text: Option<&str>, tag| Question::new(text, tag, None);
    assert_eq!(found(asked(Some("玉子"), None)).await, 0);
    for (text, tag, count) in [
        (Some("玉子"), None, 1),
        (Some("玉子焼き"), None, 1),
        (Some("卵"), None, 0),
        (None, Some("肉料理"), 1),
        (None, Some("肉"), 0),
        (Some("玉"), Some("肉料理"), 1),
    ] {
        let question = asked(text, tag).by_letters(tag);
        assert!(question.has_terms());
        assert_eq!(found(question).await, count, "{text:?} {tag:?}");
    }
    assert!(!Question::new(None, None, Some("c_01")).by_letters(None).has_terms());

    catch_up(&nagaya).await.expect("it is indexed");
    assert!(has_reconciled_all(&operator).await.expect("read"));
    assert_eq!(postings(&nagaya, "recipe", "u_01", &["r_01"]).await, built);
    assert!(built.contains_key("~たまご"));
    for question in [asked(Some("卵"), None), asked(None, Some("肉料理"))] {
        assert_eq!(found(question).await, 1);
    }
}
