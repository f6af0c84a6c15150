//! Lists of the events of one aggregate.

use nagaya_server::System;
use nagaya_tenancy::{Nagaya, Principal};
use nagaya_testing::{Call, InstrumentedStore, ManualClock, Response, TestServer, memory_store, parse_design};
use serde_json::{Value as Json, json};

/// Orders of several tenants, each in a partition that does not name the tenant.
const ORDERS: &str = r##"
name    = "orders"
version = "1.0"

[tenant]
field = "tenantId"

[table.events]
key        = ["PK", "SK"]
index.GSI1 = ["GSI1PK", "GSI1SK"]
stream     = true

[aggregate.order]
id     = "orderId"
events = "event"
head   = "head"

[aggregate.order.event]
OrderPlaced = {}

[entity.event]
table  = "events"
key    = { PK = "ORDER#{orderId}", SK = "EVENT#{eventId}" }
# NG0105: the tenant is checked on each.
wall   = "attribute"
index.GSI1 = { GSI1PK = "TENANT#{tenantId}#ORDER#{orderId}", GSI1SK = "{eventId}" }

[entity.event.fields]
tenantId         = { type = "string", min = 1, max = 64 }
orderId          = { type = "string", min = 1, max = 64 }
eventId          = { type = "ulid", default = "new" }
eventType        = { type = "string", one_of = ["OrderPlaced"] }
aggregateVersion = { type = "integer", min = 1, max = 999999 }
data             = { type = "map", max = 100 }

[entity.head]
table = "events"
key   = { PK = "ORDER#{orderId}", SK = "HEAD#" }
# NG0105: it lies beside its events.
wall  = "attribute"

[entity.head.fields]
tenantId         = { type = "string", min = 1, max = 64 }
orderId          = { type = "string", min = 1, max = 64 }
aggregateVersion = { type = "integer", min = 1, max = 999999 }
lastEventId      = { type = "ulid" }

[access.history]
entity = "event"
path   = "/orders/{orderId}/history"

[access.history_between]
entity = "event"
range  = "eventId"

[access.indexed_history]
entity = "event"
index  = "GSI1"
"##;

/// The lists by an order in a partition that others can name.
fn paths(order: &str) -> [String; 3] {
    [
        format!("/orders/{order}/history"),
        format!("/orders/{order}/history?limit=1&order=desc"),
        format!("/history-between?orderId={order}&from=00000000000000000000000000"),
    ]
}

/// Proves the part of N3 that is about aggregates: what a list takes does not tell how many events an aggregate of another tenant has.
#[test]
fn an_aggregate_that_does_not_exist_for_the_caller_has_no_list_of_events_and_none_is_read() {
    let clock = ManualClock::default();
    let store = InstrumentedStore::new(memory_store(&clock));
    let design = parse_design(ORDERS);
    let server = TestServer::builder(System::plain(design.clone())).store(store.clone(), &clock).start();
    let ours = Nagaya::open(design, store.clone()).tenant(&Principal::new("t1", "u1")).expect("a tenant");
    let fields = |fields: Json| fields.as_object().expect("an object").clone();
    server.block_on(async {
        for version in 1..=3 {
            let event = json!({ "orderId": "o1", "eventType": "OrderPlaced", "aggregateVersion": version, "data": {} });
            ours.create("event", fields(event)).await.expect("it is new");
        }
        let head = json!({ "orderId": "o1", "aggregateVersion": 3, "lastEventId": "01HARX5BD7F8G9H0J1K2M3N4PQ" });
        ours.create("head", fields(head)).await.expect("it is new");
    });

    let is_query = |call: &Call| matches!(call, Call::Query(_));
    let (t1, t2) = (server.client_of_user("t1", "u1"), server.client_of_user("t2", "u2"));
    for (path, found) in paths("o1").iter().zip([3, 1, 3]) {
        assert_eq!(t1.get(path).list().len(), found, "{path}");
    }
    store.take(|_| true);
    let shown = |answer: &Response| (answer.status, answer.body["title"].clone(), answer.body["detail"].clone());
    for (theirs, none) in paths("o1").iter().zip(paths("o2")) {
        let (theirs, none) = (t2.get(theirs), t2.get(&none));
        theirs.expect_problem(404, "not_found");
        assert_eq!(shown(&theirs), shown(&none));
    }
    assert!(store.take(is_query).is_empty());

    // What is wrong with the parameters is said as everywhere.
    t1.get("/history-between").expect_problem(400, "bad_parameter");
    t1.get("/orders/o1/history?limit=0").expect_problem(400, "bad_parameter");
    // Nobody else is in the partition of an index that names the tenant.
    assert_eq!(t1.get("/indexed-history?orderId=o1").list().len(), 3);
    assert_eq!(t2.get("/indexed-history?orderId=o1").list().len(), 0);
}

#[test]
fn the_document_says_that_an_aggregate_may_not_exist() {
    let document = nagaya_server::document(&System::plain(parse_design(ORDERS)), "", 0);
    for (path, is_documented) in
        [("/orders/{orderId}/history", true), ("/history-between", true), ("/indexed-history", false)]
    {
        let responses = &document["paths"][path]["get"]["responses"];
        assert_eq!(responses.get("404").is_some(), is_documented, "{path}: {responses}");
    }
}
