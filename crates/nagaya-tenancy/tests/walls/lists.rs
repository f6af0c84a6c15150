//! Pages: size, cursors and cost.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Waker},
};

use nagaya_design::{Design, check};
use nagaya_store::{Item, KeyValue, Query, SortCondition, Store as _, Write, WriteSet};
use nagaya_tenancy::{ErrorKind, List, Nagaya, Page, Tenant, list_query, min_items_read};
use nagaya_testing::InstrumentedStore;
use serde_json::json;

use crate::{
    common::{design, fields, open as open_design, tenant},
    fault_stores::logged,
};

/// Names and numbers as whole sort keys, beside the internal items of the tenancy layer.
const DESIGN: &str = r##"
name    = "atlas"
version = "1.0"

[tenant]
field = "home"

[table.places]
name = "places"
key  = ["PK", "SK"]

[table.steps]
name = "steps"
key  = ["PK", "SK"]

[entity.place]
table  = "places"
key    = { PK = "HOME#{home}", SK = "{id}" }
unique = [{ fields = ["name"] }]

[entity.place.fields]
home = { type = "string", max = 20 }
id   = { type = "string", max = 20 }
name = { type = "string", max = 20 }

[entity.step]
table = "steps"
key   = { PK = "HOME#{home}#{path}", SK = "STEP#{at:03}" }

[entity.step.fields]
home = { type = "string", max = 20 }
path = { type = "string", max = 20 }
at   = { type = "integer", min = 0, max = 999 }

[access.places]
entity = "place"

[access.first_place]
entity  = "place"
returns = "one"

[access.place_with_name]
entity  = "place"
filter  = "name = {name}"
returns = "one"

[access.steps_between]
entity = "step"
range  = "at"

[access.steps_between_count]
entity  = "step"
range   = "at"
returns = "count"
"##;

async fn open() -> (Nagaya, Tenant, Arc<InstrumentedStore>) {
    let checked = check(DESIGN, &[]);
    let design = checked.design.unwrap_or_else(|| panic!("{:#?}", checked.diagnostics));
    let store = logged();
    let nagaya = Nagaya::open(design, store.clone());
    nagaya.ensure_tables().await.expect("the tables are made");
    let h1 = tenant(&nagaya, "h1");
    (nagaya, h1, store)
}

fn ids(page: &Page) -> Vec<String> {
    page.records.iter().map(|record| record.id().join("/")).collect()
}

/// All pages of a list.
async fn pages(tenant: &Tenant, list: &List) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut current = list.clone();
    loop {
        let page = tenant.list(&current).await.expect("a page");
        found.push(ids(&page));
        match page.next {
            Some(next) => current = list.clone().cursor(next),
            None => return found,
        }
    }
}

#[tokio::test]
async fn a_page_reads_no_more_than_it_shows() {
    let (_, h1, store) = open().await;
    h1.create("place", fields(json!({ "id": "a", "name": "x" }))).await.expect("a place");
    for id in ["b", "c", "d"] {
        h1.create("place", fields(json!({ "id": id, "name": id }))).await.expect("a place");
    }
    // With their markers, which are sorted before the items.
    for id in ["a", "b"] {
        h1.delete("place", &[id], None).await.expect("it goes");
    }
    h1.create("place", fields(json!({ "id": "e", "name": "e" }))).await.expect("a place");
    store.take_queries();
    let limits = |queries: Vec<Query>| queries.into_iter().map(|query| query.limit).collect::<Vec<_>>();
    let page = h1.list(&List::by("places").limit(4)).await.expect("a page");
    assert_eq!((ids(&page), page.next), (vec!["c".to_owned(), "d".to_owned(), "e".to_owned()], None));
    // Three markers and one item; then the rest.
    assert_eq!(limits(store.take_queries())[..2], [Some(4), Some(3)]);
    let page = h1.list(&List::by("places").limit(2).descending(true)).await.expect("a page");
    assert_eq!(ids(&page), ["e", "d"]);
    assert_eq!(limits(store.take_queries()), [Some(2)]);
    assert_eq!(h1.list(&List::by("places").limit(0)).await.expect("a page").records.len(), 1);
}

#[tokio::test]
async fn a_single_item_pattern_gives_one_item_and_no_cursor() {
    let (_, h1, _) = open().await;
    for id in ["a", "b", "c"] {
        h1.create("place", fields(json!({ "id": id, "name": id }))).await.expect("a place");
    }
    let page = h1.list(&List::by("first_place").limit(3)).await.expect("a page");
    assert_eq!((ids(&page), page.next, page.count), (vec!["a".to_owned()], None, None));
}

/// Unlike a page, which ends after so many items that do not fit.
#[tokio::test]
async fn a_single_item_is_found_behind_any_number_of_others() {
    let (_, h1, store) = open().await;
    let place = |id: String| {
        let item = Item::new().with("PK", "HOME#h1").with("SK", id.as_str()).with("home", "h1");
        Write::put("places", item.with("id", id.as_str()).with("name", id.as_str()))
    };
    for hundred in 0..21 {
        let set: WriteSet = (0..100).map(|n| place(format!("a{hundred:02}{n:02}"))).collect();
        store.write(set).await.expect("places");
    }
    store.write(place("b".to_owned()).into()).await.expect("a place");
    let page = h1.list(&List::by("place_with_name").with("name", "b")).await.expect("a page");
    assert_eq!((ids(&page), page.next), (vec!["b".to_owned()], None));
}

/// No item can have such an id, so what is stored under it was not created as an item.
#[tokio::test]
async fn an_id_that_no_item_can_have_finds_nothing() {
    let (_, h1, store) = open().await;
    let too_long = "x".repeat(21);
    for id in [".", "..", &too_long, "x"] {
        let item = Item::new().with("PK", "HOME#h1").with("SK", id).with("home", "h1").with("id", id).with("name", "n");
        store.write(Write::put("places", item).into()).await.expect("it is stored");
    }
    for id in [".", "..", &too_long, ""] {
        assert_eq!(h1.get("place", &[id]).await.expect_err("no id").code(), "not_found", "{id}");
    }
    assert!(h1.get("place", &["x"]).await.is_ok());
}

#[tokio::test]
async fn a_parameter_has_to_be_a_value_of_its_field_unless_it_is_a_bound() {
    let (_, h1, _) = open().await;
    let wrong = List::by("steps_between").with("path", "x".repeat(21)).with("room", "r");
    let refused = h1.list(&wrong).await.expect_err("neither is a parameter of the steps");
    let ErrorKind::Invalid(problems) = refused.kind() else { panic!("{refused}") };
    let paths: Vec<_> = problems.iter().map(|each| each.path.as_str()).collect();
    assert_eq!(paths, ["path", "room"], "all errors are reported");
    // A step has at most 999.
    let bounds = List::by("steps_between").with("path", "p").with("from", "0").with("to", "2000");
    assert!(h1.list(&bounds).await.is_ok());
    let (_, h1) = scanner(1).await;
    let [id] = ids(&h1.list(&List::by("scans")).await.expect("a page")).try_into().expect("a scan");
    let found = h1.list(&List::by("scans_beginning_with").with("id", &id[..4])).await.expect("a beginning is no id");
    assert_eq!(ids(&found), [id]);
}

/// What `nagaya explain` prints.
#[test]
fn a_list_is_shown_as_the_query_that_the_store_gets() {
    let atlas = check(DESIGN, &[]).design.expect("a design");
    let query = |list: List| list_query(&atlas, "", "h1", &list);
    let places = query(List::by("places").limit(7)).expect("a list").expect("a query");
    assert_eq!((places.partition, places.limit), (KeyValue::from("HOME#h1"), Some(7)));

    // What is required and not given has its name in its place.
    let steps = List::by("steps_between").with("from", "3");
    for steps in [steps.clone(), steps.clone().with("to", "5")] {
        let open = query(steps).expect("a list").expect("a query");
        assert_eq!(open.partition, KeyValue::from("HOME#h1#<path>"));
    }
    let given = query(steps.clone().with("path", "p").with("to", "5")).expect("a list").expect("a query");
    assert_eq!(given.partition, KeyValue::from("HOME#h1#p"));
    assert_eq!(given.sort, SortCondition::Between("STEP#003".into(), "STEP#004".into()));
    assert_eq!((given.filter, given.limit), (None, Some(100)));
    // No key can match.
    let range = |access: &str| List::by(access).with("path", "p").with("from", "1000").with("to", "2000");
    assert_eq!(query(range("steps_between")).expect("a list"), None);
    let count = List::by("steps_between_count").with("path", "p");
    assert_eq!(query(count).expect("a list").expect("a query").limit, None);
    for refused in [List::by("places").with("id", "a"), List::by("places").with("home", "h2")] {
        assert_eq!(query(refused).expect_err("no parameter").code(), "invalid");
    }

    // One more than a page has, to know whether the tenant has more.
    let scanner = check(SCANS, &[]).design.expect("a design");
    let limit = |access| {
        let query = list_query(&scanner, "", "h1", &List::by(access).limit(100)).expect("a list").expect("a query");
        query.limit
    };
    assert_eq!((limit("scans"), limit("shared_scans")), (Some(100), Some(101)));
}

#[tokio::test]
async fn an_impossible_range_is_empty_and_accepts_no_foreign_cursor() {
    let (_, h1, store) = open().await;
    for at in 0..4 {
        h1.create("step", fields(json!({ "path": "p", "at": at }))).await.expect("a step");
    }
    let range =
        |access: &str, from: &str, to: &str| List::by(access).with("path", "p").with("from", from).with("to", to);
    let some = h1.list(&range("steps_between", "1", "3")).await.expect("a page");
    assert_eq!((ids(&some), some.count), (vec!["p/1".to_owned(), "p/2".to_owned()], None));
    let count = h1.list(&range("steps_between_count", "1", "3")).await.expect("a count");
    assert_eq!((count.records.len(), count.count, count.next), (0, Some(2), None));

    store.take_queries();
    let none = h1.list(&range("steps_between", "1000", "2000")).await.expect("a page");
    assert_eq!((none.records.len(), none.count, none.next), (0, None, None));
    let none = h1.list(&range("steps_between_count", "1000", "2000")).await.expect("a count");
    assert_eq!(none.count, Some(0));
    assert!(store.take_queries().is_empty(), "there is nothing to ask for");
    let cursor =
        h1.list(&List::by("steps_between").with("path", "p").limit(1)).await.expect("a page").next.expect("more");
    let refused = h1.list(&range("steps_between", "1000", "2000").cursor(cursor)).await.expect_err("another question");
    assert_eq!(refused.code(), "bad_cursor");
}

/// What a cursor is bound to are its parameters, not the text that they give together, and not their order.
#[tokio::test]
async fn a_cursor_is_bound_to_each_parameter_and_not_to_their_order() {
    let (_, h1, _) = open().await;
    for (path, at) in [("p", 0), ("p", 1), ("pto3", 0), ("pto3", 1)] {
        h1.create("step", fields(json!({ "path": path, "at": at }))).await.expect("a step");
    }
    let list = List::by("steps_between").limit(1);
    let cursor = h1.list(&list.clone().with("path", "p").with("to", "3")).await.expect("a page").next.expect("more");
    let next = h1.list(&list.clone().with("to", "3").with("path", "p").cursor(&cursor)).await.expect("the next page");
    assert_eq!(ids(&next), ["p/1"]);
    for other in
        [list.clone().with("path", "pto3"), list.clone().with("path", "p"), list.with("path", "p").with("to", "4")]
    {
        let refused = h1.list(&other.cursor(&cursor)).await.expect_err("another question");
        assert_eq!(refused.code(), "bad_cursor");
    }
}

/// No item twice and none left out, also with a filter.
///
/// Proves the paging part of T7.
#[tokio::test]
async fn pages_of_a_filtered_list_continue_after_the_last_item_shown() {
    let store = logged();
    let nagaya = Nagaya::open(design("aiagent/single"), store.clone());
    nagaya.ensure_tables().await.expect("the tables are made");
    let t1 = tenant(&nagaya, "t1");
    for n in 0..25 {
        let new = json!({ "timestamp": format!("2026-01-01T00:00:{n:02}Z"), "message": n.to_string() });
        t1.create("log", fields(new)).await.expect("a log");
    }
    let list = List::by("logs").limit(4).descending(false);
    let all: Vec<String> = pages(&t1, &list).await.concat();
    assert_eq!(all.len(), 25);
    assert!(all.is_sorted());
    assert_eq!(pages(&t1, &list).await.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 4, 4, 4, 4, 1]);
    let limits: Vec<_> = store
        .take_queries()
        .into_iter()
        .filter(|query| query.table.ends_with("log"))
        .map(|query| query.limit)
        .collect();
    assert!(limits.iter().all(|limit| *limit == Some(100)), "{limits:?}");
}

/// Items of many bytes, in partitions of their own and in an index that tenants share.
const SCANS: &str = r##"
name    = "scanner"
version = "1.0"

[tenant]
field = "home"

[table.scans]
name       = "scans"
key        = ["PK", "SK"]
index.GSI1 = ["GSI1PK", "GSI1SK"]

[entity.scan]
table = "scans"
key   = { PK = "HOME#{home}", SK = "SCAN#{id}" }
index.GSI1 = { GSI1PK = "SCANS", GSI1SK = "{id}", wall = "attribute" }

[entity.scan.fields]
home    = { type = "string", max = 20 }
id      = { type = "ulid", default = "new" }
content = { type = "string", max = 90_000 }

[access.scans]
entity = "scan"

[access.shared_scans]
entity = "scan"
index  = "GSI1"

[access.scans_beginning_with]
entity = "scan"
prefix = "id"

[access.count_of_scans]
entity  = "scan"
returns = "count"
"##;

/// The scanner with these scans.
async fn scanner(scans: usize) -> (Nagaya, Tenant) {
    let checked = check(SCANS, &[]);
    let nagaya = open_design(checked.design.unwrap_or_else(|| panic!("{:#?}", checked.diagnostics))).await;
    let h1 = tenant(&nagaya, "h1");
    for _ in 0..scans {
        h1.create("scan", fields(json!({ "content": "x".repeat(90_000) }))).await.expect("a scan");
    }
    (nagaya, h1)
}

/// A store in this process answers at once, so nothing else would give other tasks their turn.
#[tokio::test]
async fn long_lists_and_counts_give_other_tasks_their_turn() {
    let (_, h1) = scanner(20).await;
    let is_done_at_once =
        |list: List| std::pin::pin!(h1.list(&list)).poll(&mut Context::from_waker(Waker::noop())).is_ready();
    assert!(is_done_at_once(List::by("scans").limit(5)), "one read of the store");
    assert!(!is_done_at_once(List::by("scans").limit(20)), "more than a read of the store gives");
    assert!(!is_done_at_once(List::by("count_of_scans")));
}

#[test]
fn the_items_that_a_list_reads_at_least_depend_on_its_filters() {
    let min =
        |design: &Design, access| min_items_read(design, design.access_pattern(access).expect("an access pattern"));
    let scanner = check(SCANS, &[]).design.expect("a design");
    assert_eq!(["scans", "shared_scans", "count_of_scans"].map(|access| min(&scanner, access)), [1, 100, usize::MAX]);
    let checks = [
        // No filter; an owner; a filter of the access pattern; a discriminator; soft deletion.
        ("aiagent/single", "users", 1),
        ("aiagent/single", "tasks", 100),
        ("kondate/kondate", "fridge_items", 1),
        ("management/management", "users_active", 100),
        ("management/management", "role_assignments", 100),
        ("management/management", "files", 100),
    ];
    for (file, access, expected) in checks {
        assert_eq!(min(&design(file), access), expected, "{file}: {access}");
    }
}

#[tokio::test]
async fn a_page_has_two_megabytes_at_most_and_the_next_one_goes_on() {
    const ITEM: usize = 90_000;
    const BUDGET: usize = 2 * 1024 * 1024;
    let (nagaya, h1) = scanner(0).await;
    let h2 = tenant(&nagaya, "h2");
    let mut expected = Vec::new();
    for at in 0..80 {
        // Scans of the other tenant lie between.
        let owner = if at % 4 == 0 { &h2 } else { &h1 };
        let scan = owner.create("scan", fields(json!({ "content": "x".repeat(ITEM) }))).await.expect("a scan");
        expected.extend((at % 4 != 0).then(|| scan.id().join("/")));
    }
    expected.sort();
    for access in ["scans", "shared_scans"] {
        let (mut found, mut pages, mut cursor) = (Vec::new(), 0, None);
        loop {
            let list = List::by(access).limit(100).descending(false);
            let list = cursor.take().map_or(list.clone(), |cursor: String| list.cursor(cursor));
            let page = h1.list(&list).await.expect("a page");
            let bytes = serde_json::to_vec(&page.records).expect("JSON").len();
            assert!(bytes <= BUDGET + 2 * ITEM, "{access}: {bytes} bytes");
            assert!(page.next.is_none() || bytes > BUDGET - 2 * ITEM, "{access}: a page is not full: {bytes} bytes");
            found.extend(ids(&page));
            pages += 1;
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!((found, pages), (expected.clone(), 3), "{access}: each item once");
    }
}

#[test]
fn a_list_gives_its_query_parameters() {
    let list = List::by("steps_between").with("path", "p").with("from", "3").limit(7).descending(true).cursor("c");
    assert_eq!(list.access(), "steps_between");
    let expected = [("path", "p"), ("from", "3"), ("limit", "7"), ("order", "desc"), ("cursor", "c")];
    assert_eq!(list.to_parameters(), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(List::by("places").descending(false).to_parameters(), [("order".to_owned(), "asc".to_owned())]);
    assert!(List::by("places").to_parameters().is_empty());
}

/// Offers of a kind, of all shops in one partition, with the shop in front of the sort key.
const SHARED: &str = r##"
name    = "market"
version = "1.0"

[tenant]
field = "shop"

[table.main]
name       = "main"
key        = ["PK", "SK"]
index.GSI1 = ["GSI1PK", "GSI1SK"]

[entity.offer]
table      = "main"
key        = { PK = "SHOP#{shop}", SK = "OFFER#{id}" }
# NG0105: operators look at a kind as a whole.
index.GSI1 = { GSI1PK = "KIND#{kind}", GSI1SK = "SHOP#{shop}#{id}", wall = "attribute" }

[entity.offer.fields]
shop = { type = "string", max = 20 }
id   = { type = "string", max = 20 }
kind = { type = "string", max = 20 }

[access.offers_of_kind_count]
entity  = "offer"
index   = "GSI1"
returns = "count"

[access.newest_offer_of_kind]
entity  = "offer"
index   = "GSI1"
order   = "desc"
returns = "one"
"##;

#[tokio::test]
async fn a_count_and_a_search_in_a_shared_partition_read_no_items_of_others() {
    let store = logged();
    let nagaya = Nagaya::open(check(SHARED, &[]).design.expect("a design"), store.clone());
    nagaya.ensure_tables().await.expect("the tables are made");
    let [s1, s2, s3] = ["s1", "s2", "s3"].map(|name| tenant(&nagaya, name));
    for other in [&s1, &s3] {
        for at in (0..2_500).step_by(100) {
            let offer = |n: i32| fields(json!({ "id": format!("x{n}"), "kind": "k" }));
            let set = (at..at + 100).fold(other.change_set(), |set, n| set.create("offer", offer(n)));
            set.commit().await.expect("offers");
        }
    }
    for id in ["a", "b", "c"] {
        s2.create("offer", fields(json!({ "id": id, "kind": "k" }))).await.expect("an offer");
    }
    let read = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&read);
    store.rewrite_pages(move |_, page| {
        counted.fetch_add(page.scanned_count, Ordering::SeqCst);
        page
    });
    let count = s2.list(&List::by("offers_of_kind_count").with("kind", "k")).await.expect("a count");
    assert_eq!((count.count, read.swap(0, Ordering::SeqCst)), (Some(3), 3));
    let newest = List::by("newest_offer_of_kind").with("kind", "k");
    let error = s2.list(&newest.clone().after(vec!["b".to_owned()])).await.expect_err("it reads an index");
    assert!(matches!(error.kind(), ErrorKind::Invalid(problems) if problems[0].path == "after"), "{error}");
    let newest = s2.list(&newest).await.expect("an offer");
    assert_eq!((ids(&newest), read.load(Ordering::SeqCst) <= 3), (vec!["c".to_owned()], true));
    // In a partition of all tenants without the tenant in the sort key, there is neither.
    let mixed = SHARED.replace("SHOP#{shop}#{id}", "{id}");
    let checked = check(&mixed, &[]);
    let refused = checked.diagnostics.iter().filter(|found| found.code.id == "NG0409").count();
    assert!(checked.design.is_none() && refused == 2, "{:#?}", checked.diagnostics);
}

#[tokio::test]
async fn a_list_starts_after_the_place_of_an_id_whether_it_exists_or_not() {
    let (_, h1, _) = open().await;
    for id in ["a", "c", "e"] {
        h1.create("place", fields(json!({ "id": id, "name": id }))).await.expect("a place");
    }
    let after = |id: &str| List::by("places").after(vec![id.to_owned()]);
    for (id, up, down) in
        [("b", ["c", "e"].as_slice(), ["a"].as_slice()), ("c", &["e"], &["a"]), ("z", &[], &["e", "c", "a"])]
    {
        assert_eq!(ids(&h1.list(&after(id)).await.expect("a page")), up, "{id}");
        assert_eq!(ids(&h1.list(&after(id).descending(true)).await.expect("a page")), down, "{id}");
    }
    // A cursor goes on from there.
    let first = h1.list(&after("b").limit(1)).await.expect("a page");
    let rest = h1.list(&after("b").limit(1).cursor(first.next.expect("a cursor"))).await.expect("a page");
    assert_eq!(ids(&rest), ["e"]);
    for wrong in ["", "an id that is longer than any"] {
        let error = h1.list(&after(wrong)).await.expect_err("no item can have it");
        assert!(matches!(error.kind(), ErrorKind::Invalid(problems) if problems[0].path == "after"), "{error}");
    }
}

#[tokio::test]
async fn a_sealed_position_opens_for_the_same_caller_and_list_only() {
    let (nagaya, h1, _) = open().await;
    h1.create("place", fields(json!({ "id": "a", "name": "a" }))).await.expect("a place");
    h1.create("place", fields(json!({ "id": "b", "name": "b" }))).await.expect("a place");
    let cursor = h1.seal_position(&["search", "soup"], &["4", "a"]).expect("it is sealed");
    assert_eq!(h1.open_position(&["search", "soup"], &cursor).expect("it is opened"), ["4", "a"]);
    let h2 = tenant(&nagaya, "h2");
    let list = h1.list(&List::by("places").limit(1)).await.expect("a page").next.expect("a cursor");
    for refused in [
        h1.open_position(&["search", "stew"], &cursor),
        h1.open_position(&["search"], &cursor),
        h2.open_position(&["search", "soup"], &cursor),
        h1.open_position(&["places", "up"], &list),
        h1.open_position(&["search", "soup"], "x"),
    ] {
        assert_eq!(refused.expect_err("it is refused").code(), "bad_cursor");
    }
    let error = h1.list(&List::by("places").cursor(cursor)).await.expect_err("it is of no list");
    assert_eq!(error.code(), "bad_cursor");
}
