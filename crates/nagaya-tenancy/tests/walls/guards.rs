//! The guards one by one: the ownership condition of writes, the reach of handles, how far a list reads.

use std::sync::{Arc, Mutex};

use nagaya_design::{Design, check};
use nagaya_store::{Condition, Item, Key, Store as _, Value as Stored, Write, WriteAction};
use nagaya_tenancy::{List, Nagaya, Principal, Settings, log_hash};
use nagaya_testing::InstrumentedStore;
use serde_json::json;

use crate::{
    common::{design, fields, tenant},
    fault_stores::{logged, meanwhile},
};

async fn open(design: Design) -> (Nagaya, Arc<InstrumentedStore>) {
    let store = logged();
    let nagaya = Nagaya::open(design, store.clone());
    nagaya.ensure_tables().await.expect("the tables are made");
    (nagaya, store)
}

fn sound(source: &str) -> Design {
    let checked = check(source, &[]);
    checked.design.unwrap_or_else(|| panic!("{:#?}", checked.diagnostics))
}

/// Walls of all kinds, and indexes with narrower walls than their entities.
fn market() -> Design {
    sound(
        r##"
        name    = "market"
        version = "1.0"

        [tenant]
        field  = "shop"
        system = "system"

        [table.main]
        name       = "main"
        key        = ["PK", "SK"]
        index.GSI1 = ["GSI1PK", "GSI1SK"]
        index.GSI2 = ["GSI2PK", "GSI2SK"]

        [entity.offer]
        table  = "main"
        key    = { PK = "OFFER#{id}", SK = "OFFER#" }
        wall   = "public"
        names  = "first-come"
        index.GSI1 = { GSI1PK = "SHOP#{shop}#OFFERS", GSI1SK = "OFFER#{id}", wall = "key" }
        index.GSI2 = { GSI2PK = "KIND#{kind}", GSI2SK = "OFFER#{id}", wall = "attribute" }

        [entity.offer.fields]
        shop = { type = "string", max = 20 }
        id   = { type = "string", max = 20 }
        kind = { type = "string", max = 20 }

        [entity.order]
        table  = "main"
        key    = { PK = "ORDER#{id}", SK = "ORDER#" }
        wall   = "attribute"
        names  = "first-come"
        unique = [{ fields = ["number"], within = "tenant" }]

        [entity.order.fields]
        shop   = { type = "string", max = 20 }
        id     = { type = "string", max = 20 }
        number = { type = "string", max = 20 }

        # Everybody's in one partition, and a title once for each shop.
        [entity.advert]
        table  = "main"
        # NG0304: few.
        key    = { PK = "ADVERTS", SK = "ADVERT#{id}" }
        wall   = "public"
        names  = "first-come"
        unique = [{ fields = ["title"], within = "tenant" }]

        [entity.advert.fields]
        shop  = { type = "string", max = 20 }
        id    = { type = "string", max = 20 }
        title = { type = "string", max = 20 }

        [entity.rate]
        table  = "main"
        key    = { PK = "RATES", SK = "RATE#{id}" }
        wall   = "public"
        tenant = false

        [entity.rate.fields]
        id = { type = "string", max = 20 }

        [entity.case]
        table  = "main"
        key    = { PK = "CASES", SK = "CASE#{id}" }
        wall   = "system"
        tenant = false

        [entity.case.fields]
        id = { type = "string", max = 20 }

        [access.offers_of_shop]
        entity = "offer"
        index  = "GSI1"

        [access.offers_of_kind]
        entity = "offer"
        index  = "GSI2"
        limit  = 2

        [access.rates]
        entity = "rate"

        [access.cases]
        entity = "case"
        "##,
    )
}

/// Whether a condition contains another one.
fn contains_condition(condition: Option<&Condition>, wanted: &Condition) -> bool {
    match condition {
        Some(Condition::And(all)) => all.iter().any(|each| contains_condition(Some(each), wanted)),
        condition => condition == Some(wanted),
    }
}

/// The condition of the write to an item.
#[track_caller]
fn condition_of(written: &[Write], sort: &str) -> Option<Condition> {
    let at = |write: &&Write| match &write.action {
        WriteAction::Put { item } => item.get("SK").and_then(Stored::as_str) == Some(sort),
        WriteAction::Update { key, .. } | WriteAction::Delete { key } | WriteAction::ConditionCheck { key } => {
            key.sort.to_string() == sort
        }
    };
    written.iter().find(at).unwrap_or_else(|| panic!("nothing is written at {sort}: {written:#?}")).condition.clone()
}

/// Proves A11. Proves the store's part of A2.
#[tokio::test]
async fn every_write_has_an_ownership_condition_and_a_create_needs_a_free_key() {
    let (nagaya, store) = open(design("aiagent/single")).await;
    let t1 = tenant(&nagaya, "t1");
    let pinned = Condition::equal("PK", "TENANT#t1");
    t1.create("agent", fields(json!({ "agentId": "a", "name": "A" }))).await.expect("an agent");
    assert_eq!(condition_of(&store.take_writes(), "AGENT#a"), Some(Condition::absent("PK")));
    t1.update("agent", &["a"], fields(json!({ "name": "B" })), None).await.expect("a change");
    let condition = condition_of(&store.take_writes(), "AGENT#a");
    assert!(contains_condition(condition.as_ref(), &pinned), "{condition:?}");
    assert!(contains_condition(condition.as_ref(), &Condition::equal("version", 1)), "{condition:?}");
    t1.delete("agent", &["a"], None).await.expect("it goes");
    let condition = condition_of(&store.take_writes(), "AGENT#a");
    assert!(contains_condition(condition.as_ref(), &pinned), "{condition:?}");
}

/// For entities whose key does not contain the tenant.
///
/// Proves the store's part of A2.
#[tokio::test]
async fn writes_behind_attribute_walls_have_the_tenant_as_a_condition() {
    let (nagaya, store) = open(market()).await;
    let s1 = tenant(&nagaya, "s1");
    let order = json!({ "id": "1", "number": "n" });
    s1.create("order", fields(order)).await.expect("an order");
    s1.create("offer", fields(json!({ "id": "1", "kind": "k" }))).await.expect("an offer");
    store.take_writes();
    s1.update("order", &["1"], fields(json!({ "number": "m" })), None).await.expect("a change");
    s1.update("offer", &["1"], fields(json!({ "kind": "l" })), None).await.expect("a change");
    s1.delete("order", &["1"], None).await.expect("it goes");
    let written = store.take_writes();
    for (partition, sort) in [("ORDER#1", "ORDER#"), ("OFFER#1", "OFFER#")] {
        for write in written.iter() {
            let at = matches!(&write.action, WriteAction::Update { key, .. } | WriteAction::Delete { key } if *key == Key::new(partition, sort));
            if at {
                let condition = write.condition.as_ref();
                assert!(contains_condition(condition, &Condition::equal("PK", partition)), "{write:?}");
                assert!(contains_condition(condition, &Condition::equal("shop", "s1")), "{write:?}");
            }
        }
        condition_of(&written, sort);
    }
}

/// Another tenant creates an item under the same key between the read and the write. The answer is that of a missing item, and does
/// not contain the other one.
#[tokio::test]
async fn an_item_that_changes_its_tenant_meanwhile_is_not_found() {
    let (nagaya, store) = open(market()).await;
    let s1 = tenant(&nagaya, "s1");
    let read = s1.create("order", fields(json!({ "id": "1", "number": "n" }))).await.expect("an order");
    let order = store.get("main", &Key::new("ORDER#1", "ORDER#")).await.expect("a read").expect("an order");
    let inner = Arc::clone(&store);
    let late = meanwhile(&store, |_| true, async move {
        inner.write(Write::put("main", order.with("shop", "s2")).into()).await.expect("it is written");
    });
    let refused = s1.update("order", &["1"], fields(json!({ "number": "m" })), &read).await.expect_err("it is of s2");
    assert_eq!((refused.code(), late.hits()), ("not_found", 1), "{refused}");
}

/// Who could choose an id in a key space that tenants share could find out which ones are taken.
#[tokio::test]
async fn a_tenant_chooses_generated_ids_in_its_own_partition_only() {
    let design = sound(
        r##"
        name    = "post"
        version = "1.0"

        [tenant]
        field = "shop"

        [table.main]
        name = "main"
        key  = ["PK", "SK"]

        [entity.parcel]
        table = "main"
        key   = { PK = "PARCEL#{id}", SK = "PARCEL#" }
        wall  = "attribute"

        [entity.parcel.fields]
        shop = { type = "string", max = 20 }
        id   = { type = "ulid", default = "new" }

        [entity.note]
        table = "main"
        key   = { PK = "SHOP#{shop}", SK = "NOTE#{id}" }

        [entity.note.fields]
        shop = { type = "string", max = 20 }
        id   = { type = "ulid", default = "new" }

        [entity.case]
        table  = "main"
        key    = { PK = "CASE#{id}", SK = "CASE#" }
        wall   = "system"
        tenant = false

        [entity.case.fields]
        id = { type = "ulid", default = "new" }
        "##,
    );
    let (nagaya, _) = open(design).await;
    let s1 = tenant(&nagaya, "s1");
    let own = || fields(json!({ "id": "01KG9S5Q60T4N2Y8ZC3M7VXR1E" }));
    let refused = s1.create("parcel", own()).await.expect_err("the store layer makes it");
    assert_eq!(refused.to_string(), "`id` is made by the store layer; leave it out");
    s1.create("parcel", fields(json!({}))).await.expect("a parcel");
    s1.create("note", own()).await.expect("nobody else's are there");
    let operator = nagaya.operator("a new case of theirs", &Principal::new("staff", "o-1"));
    operator.create("case", own()).await.expect("operators see all cases");
}

#[tokio::test]
async fn each_handle_has_access_to_its_side_of_each_wall() {
    let (nagaya, _) = open(market()).await;
    let (s1, s2) = (tenant(&nagaya, "s1"), tenant(&nagaya, "s2"));
    let operator = nagaya.operator("a look around", &Principal::new("staff", "o-1"));
    let code = |result: Result<(), nagaya_tenancy::Error>| result.err().map_or("ok", |error| error.code());
    let new = |id: &str| fields(json!({ "id": id }));

    // A public entity without a tenant: an operator writes it, all read it.
    assert_eq!(code(s1.create("rate", new("1")).await.map(drop)), "walled");
    assert_eq!(code(operator.create("rate", new("1")).await.map(drop)), "ok");
    assert_eq!(code(s1.get("rate", &["1"]).await.map(drop)), "ok");
    assert_eq!(code(operator.get("rate", &["1"]).await.map(drop)), "ok");
    assert_eq!(code(s1.list(&List::by("rates")).await.map(drop)), "ok");
    assert_eq!(code(operator.list(&List::by("rates")).await.map(drop)), "ok");
    assert_eq!(code(operator.update("rate", &["1"], fields(json!({})), None).await.map(drop)), "ok");

    // A system entity: operators only.
    assert_eq!(code(s1.create("case", new("1")).await.map(drop)), "walled");
    assert_eq!(code(operator.create("case", new("1")).await.map(drop)), "ok");
    assert_eq!(code(s1.get("case", &["1"]).await.map(drop)), "walled");
    assert_eq!(code(operator.get("case", &["1"]).await.map(drop)), "ok");
    assert_eq!(code(s1.list(&List::by("cases")).await.map(drop)), "walled");
    assert_eq!(operator.list(&List::by("cases")).await.expect("a page").records.len(), 1);

    // A public entity with a tenant: the owner writes it, all read it.
    let offer = |id: &str| fields(json!({ "id": id, "kind": "k" }));
    assert_eq!(code(operator.create("offer", offer("1")).await.map(drop)), "walled");
    assert_eq!(code(s1.create("offer", offer("1")).await.map(drop)), "ok");
    assert_eq!(code(s2.get("offer", &["1"]).await.map(drop)), "ok");
    assert_eq!(code(operator.get("offer", &["1"]).await.map(drop)), "ok");
    assert_eq!(code(s2.update("offer", &["1"], fields(json!({ "kind": "l" })), None).await.map(drop)), "not_found");
    assert_eq!(code(s2.delete("offer", &["1"], None).await), "not_found");

    // A tenant's entity: the tenant only, not even an operator.
    let order = fields(json!({ "id": "1", "number": "n" }));
    assert_eq!(code(operator.create("order", order.clone()).await.map(drop)), "walled");
    assert_eq!(code(s1.create("order", order).await.map(drop)), "ok");
    assert_eq!(code(operator.get("order", &["1"]).await.map(drop)), "walled");
    assert_eq!(code(operator.list(&List::by("offers_of_shop")).await.map(drop)), "walled");
    assert_eq!(code(s2.get("order", &["1"]).await.map(drop)), "not_found");
    assert_eq!(code(s1.get("order", &["1"]).await.map(drop)), "ok");
    assert_eq!(nagaya.breaches(), 0);
}

#[tokio::test]
async fn a_cursor_of_an_operator_works_for_no_visitor() {
    let (nagaya, _) = open(market()).await;
    let operator = nagaya.operator("a look around", &Principal::new("", "o-1"));
    for id in ["1", "2"] {
        operator.create("rate", fields(json!({ "id": id }))).await.expect("a rate");
    }
    let visitor = nagaya.visitor(Principal::new("", "o-1"));
    let first = List::by("rates").limit(1);
    let (of_operator, of_visitor) = (operator.list(&first).await, visitor.list(&first).await);
    let of_operator = first.clone().cursor(of_operator.expect("a page").next.expect("more"));
    let of_visitor = first.cursor(of_visitor.expect("a page").next.expect("more"));
    assert_eq!(operator.list(&of_operator).await.expect("a page").records.len(), 1);
    assert_eq!(visitor.list(&of_visitor).await.expect("a page").records.len(), 1);
    assert_eq!(visitor.list(&of_operator).await.expect_err("an operator's").code(), "bad_cursor");
    assert_eq!(operator.list(&of_visitor).await.expect_err("a visitor's").code(), "bad_cursor");
}

/// An index can have a narrower wall than its entity: it gives the caller's own items only.
#[tokio::test]
async fn a_public_item_of_another_tenant_is_a_breach_in_a_tenants_index() {
    let (nagaya, store) = open(market()).await;
    let (s1, s2) = (tenant(&nagaya, "s1"), tenant(&nagaya, "s2"));
    s1.create("offer", fields(json!({ "id": "1", "kind": "k" }))).await.expect("an offer");
    s2.create("offer", fields(json!({ "id": "2", "kind": "k" }))).await.expect("an offer");
    let ids = |page: nagaya_tenancy::Page| page.records.iter().flat_map(|record| record.id()).collect::<Vec<_>>();
    assert_eq!(ids(s1.list(&List::by("offers_of_shop")).await.expect("a page")), ["1"]);
    assert_eq!(ids(s1.list(&List::by("offers_of_kind").with("kind", "k")).await.expect("a page")), ["1"]);
    let key = Key::new("OFFER#2", "OFFER#");
    let poisoned =
        store.get("main", &key).await.expect("a read").expect("it is there").with("GSI1PK", "SHOP#s1#OFFERS");
    store.write(Write::put("main", poisoned).into()).await.expect("planted");
    assert_eq!(s1.list(&List::by("offers_of_shop")).await.expect_err("poisoned").code(), "breach");
    assert_eq!(nagaya.breaches(), 1);
}

/// An operator finds the item of a breach by its key in the log.
#[tokio::test]
async fn a_breach_is_logged_with_table_and_key() {
    for (claim, is_hashed) in [("shop", false), ("sub", true)] {
        let source = format!(
            r##"
            name    = "desk"
            version = "1.0"
            [tenant]
            field = "shop"
            claim = "{claim}"
            [table.main]
            name = "main"
            key  = ["PK", "SK"]
            [entity.note]
            table = "main"
            key   = {{ PK = "SHOP#{{shop}}", SK = "NOTE#{{id}}" }}
            [entity.note.fields]
            shop = {{ type = "string", max = 20 }}
            id   = {{ type = "string", max = 20 }}
            [access.notes]
            entity = "note"
            "##
        );
        let store = logged();
        let settings = Settings { log_keys: [9; 32].into(), ..Settings::default() };
        let nagaya = Nagaya::open_with(sound(&source), store.clone(), settings);
        nagaya.ensure_tables().await.expect("the tables are made");
        let planted = [("PK", "SHOP#s1"), ("SK", "NOTE#1"), ("shop", "s2"), ("id", "1")];
        let planted: Item = planted.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        store.write(Write::put("main", planted).into()).await.expect("planted");

        let log = LogBuffer::default();
        let guard = tracing::subscriber::set_default(log.subscriber());
        assert_eq!(tenant(&nagaya, "s1").list(&List::by("notes")).await.expect_err("planted").code(), "breach");
        drop(guard);
        let partition = if is_hashed { log_hash(&[9; 32], "SHOP#s1") } else { "SHOP#s1".to_owned() };
        let text = log.text();
        for expected in ["entity=\"note\"", "table=\"main\"", &format!("partition=\"{partition}\""), "sort=\"NOTE#1\""]
        {
            assert!(text.contains(expected), "no {expected} in {text}");
        }
        assert_eq!(text.contains("s1"), !is_hashed, "{text}");
        assert_eq!(nagaya.tenant_in_logs("s1") == "s1", !is_hashed);
    }
}

/// Log output of this thread.
#[derive(Clone, Default)]
pub(crate) struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl LogBuffer {
    pub(crate) fn subscriber(&self) -> impl tracing::Subscriber + Send + Sync + use<> {
        let buffer = self.clone();
        tracing_subscriber::fmt().with_ansi(false).with_writer(move || buffer.clone()).finish()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("no panic").clone()).expect("text")
    }
}

impl std::io::Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Neither the page nor its cursor shows how many items others have in a shared partition, and a page does not read all of
/// them.
#[tokio::test]
async fn a_page_of_a_shared_partition_shows_no_items_of_others_and_skips_a_bounded_number() {
    let (nagaya, store) = open(market()).await;
    let (s1, s2) = (tenant(&nagaya, "s1"), tenant(&nagaya, "s2"));
    for id in ["a1", "a2", "z1", "z2", "z3"] {
        s1.create("offer", fields(json!({ "id": id, "kind": "k" }))).await.expect("an offer");
    }
    // As long as others have few items, there is a cursor only if an own item follows.
    let own = s1.list(&List::by("offers_of_kind").with("kind", "k").limit(5)).await.expect("a page");
    assert_eq!((own.records.len(), own.next), (5, None));
    for n in 0..5_000 {
        let item = Item::new()
            .with("PK", format!("OFFER#m{n:04}"))
            .with("SK", "OFFER#")
            .with("GSI2PK", "KIND#k")
            .with("GSI2SK", format!("OFFER#m{n:04}"))
            .with("shop", "s2")
            .with("id", format!("m{n:04}"))
            .with("kind", "k");
        store.write(Write::put("main", item).into()).await.expect("planted");
    }
    let list = List::by("offers_of_kind").with("kind", "k");
    let ids = |page: &nagaya_tenancy::Page| page.records.iter().flat_map(|record| record.id()).collect::<Vec<_>>();
    for limit in [1, 100, 1_000] {
        let mut pages = Vec::new();
        let mut current = list.clone().limit(limit);
        loop {
            store.take_queries();
            let page = s1.list(&current).await.expect("a page");
            let read: usize = store.take_queries().iter().map(|query| query.limit.expect("a limit")).sum();
            // One more than it shows: to know whether an own item follows.
            let skipped = read - page.records.len();
            assert!(skipped <= 2_001, "{skipped} items of others for a page of {limit}");
            pages.push(ids(&page));
            match page.next {
                Some(next) => current = list.clone().limit(limit).cursor(next),
                None => break,
            }
        }
        assert_eq!(pages.concat(), ["a1", "a2", "z1", "z2", "z3"], "{limit}");
    }
    assert_eq!(s2.list(&list.clone().limit(1_000)).await.expect("a page").records.len(), 1_000);

    // The store does not return items of other tenants.
    store.take_queries();
    s1.list(&list).await.expect("a page");
    let filter = store.take_queries().remove(0).filter;
    assert!(contains_condition(filter.as_ref(), &Condition::equal("shop", "s1")), "{filter:?}");
}

/// A cursor would tell that others have items behind the caller's last one.
#[tokio::test]
async fn a_page_that_only_items_of_others_follow_has_no_cursor() {
    let (nagaya, _) = open(market()).await;
    let (s1, s2) = (tenant(&nagaya, "s1"), tenant(&nagaya, "s2"));
    let offer = |id: &str| fields(json!({ "id": id, "kind": "k" }));
    for id in ["a1", "a2"] {
        s1.create("offer", offer(id)).await.expect("an offer");
    }
    // More than are read at once.
    for n in 0..110 {
        s2.create("offer", offer(&format!("m{n:03}"))).await.expect("an offer");
    }
    let page = s1.list(&List::by("offers_of_kind").with("kind", "k").limit(2)).await.expect("a page");
    assert_eq!((page.records.len(), page.next), (2, None));
}

/// Markers of tenants whose names are prefixes of each other, where the partition is not the tenant's.
#[tokio::test]
async fn values_are_unique_for_each_tenant_also_where_keys_do_not_contain_it() {
    let (nagaya, store) = open(market()).await;
    let names = ["s1", "s1-x", "x", "order-x", "s1%2Dx"];
    for (at, name) in names.iter().enumerate() {
        let shop = tenant(&nagaya, name);
        for (id, expected) in [(format!("{at}a"), "ok"), (format!("{at}b"), "taken")] {
            let made = shop.create("order", fields(json!({ "id": id, "number": "n" }))).await;
            assert_eq!(made.err().map_or("ok", |error| error.code()), expected, "{name}");
            // The partition is constant: unique values of one tenant reveal nothing about the others'.
            let made = shop.create("advert", fields(json!({ "id": id, "title": "t" }))).await;
            assert_eq!(made.err().map_or("ok", |error| error.code()), expected, "{name}");
        }
    }
    let partitions: std::collections::BTreeSet<_> = store
        .take_writes()
        .iter()
        .filter_map(|write| match &write.action {
            WriteAction::Put { item } => item.get("PK").and_then(Stored::as_str).map(str::to_owned),
            _ => None,
        })
        .filter(|partition| partition.starts_with("%unique"))
        .collect();
    assert_eq!(partitions.len(), 2 * names.len(), "{partitions:?}");
}

/// Where a partition is a tenant's own, the markers of its unique values are in it and change only with them.
#[tokio::test]
async fn unique_markers_are_in_the_partition_of_their_item() {
    let (nagaya, store) = open(design("aiagent/single")).await;
    let t1 = tenant(&nagaya, "t1");
    let marks = |written: Vec<Write>| {
        let key = |write: &Write| match &write.action {
            WriteAction::Put { item } => {
                let text = |name: &str| item.get(name).and_then(Stored::as_str).unwrap_or_default().to_owned();
                (text("PK"), text("SK"))
            }
            WriteAction::Update { key, .. } | WriteAction::Delete { key } | WriteAction::ConditionCheck { key } => {
                (key.partition.to_string(), key.sort.to_string())
            }
        };
        written.iter().map(key).filter(|(_, sort)| sort.starts_with("%unique")).map(|(at, _)| at).collect::<Vec<_>>()
    };
    let new = json!({ "userId": "u", "email": "a@example.com", "name": "A" });
    t1.create("user", fields(new)).await.expect("a user");
    assert_eq!(marks(store.take_writes()), ["TENANT#t1"]);
    t1.update("user", &["u"], fields(json!({ "role": "admin" })), None).await.expect("a change");
    assert!(marks(store.take_writes()).is_empty());
    t1.update("user", &["u"], fields(json!({ "email": "b@example.com" })), None).await.expect("a change");
    assert_eq!(marks(store.take_writes()), ["TENANT#t1", "TENANT#t1"]);
    t1.delete("user", &["u"], None).await.expect("it goes");
    assert!(marks(store.take_writes()).contains(&"TENANT#t1".to_owned()));
}

/// The tenant is never a parameter.
#[tokio::test]
async fn a_tenant_among_the_parameters_is_refused() {
    let (nagaya, _) = open(design("aiagent/single")).await;
    tenant(&nagaya, "t2").create("agent", fields(json!({ "agentId": "a", "name": "A" }))).await.expect("an agent");
    let list = List::by("agents").with("tenantId", "t2");
    let refused = tenant(&nagaya, "t1").list(&list).await.expect_err("not a parameter");
    assert_eq!(refused.to_string(), "`tenantId` comes from the token; leave it out");
}

/// A field that is a key attribute has one value for both.
#[tokio::test]
async fn a_field_that_is_an_index_key_cannot_hold_what_keys_escape() {
    let (nagaya, _) = open(design("management/management")).await;
    let tenant = tenant(&nagaya, "tenant_a");
    tenant.create("tenant", fields(json!({ "name": "abc", "displayName": "A" }))).await.expect("a tenant");
    let user = |name: &str| {
        let hash = format!("$2a$12${}", "a".repeat(53));
        fields(json!({ "username": name, "email": "a@example.com", "displayName": "A", "passwordHash": hash }))
    };
    for name in ["a#b", "a%b"] {
        let refused = tenant.create("user", user(name)).await.expect_err("it cannot be found again");
        assert_eq!(refused.to_string(), "`username` is a key attribute, and cannot hold `#` or `%`");
    }
    let made = tenant.create("user", user("a&b")).await.expect("a user");
    assert_eq!(made.text("username"), Some("a&b"));
}

/// An operator's list across tenants is checked too.
#[tokio::test]
async fn an_operators_list_refuses_an_item_under_a_wrong_key() {
    let (nagaya, store) = open(design("aiagent/single")).await;
    let t1 = tenant(&nagaya, "t1");
    t1.create("agent", fields(json!({ "agentId": "a", "name": "A" }))).await.expect("an agent");
    let operator = nagaya.operator("a look around", &Principal::new("staff", "o-1"));
    assert_eq!(operator.list(&List::by("all_agents")).await.expect("a page").records.len(), 1);
    let item = store.get("aiagent-app", &Key::new("TENANT#t1", "AGENT#a")).await.expect("a read").expect("it is there");
    store.write(Write::put("aiagent-app", item.with("PK", "TENANT#t2")).into()).await.expect("planted");
    assert_eq!(operator.list(&List::by("all_agents")).await.expect_err("planted").code(), "breach");
}

/// The debug output has no cursor key.
#[test]
fn settings_do_not_show_the_key_of_cursors() {
    let settings = Settings { cursor_keys: [171; 32].into(), ..Settings::default() };
    assert!(!format!("{settings:?}").contains("171"), "{settings:?}");
}
