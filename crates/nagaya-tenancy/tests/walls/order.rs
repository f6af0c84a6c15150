//! Lists by time have the order of creation, also within the precision of that time.

use nagaya_embedded::EmbeddedStore;
use nagaya_tenancy::{List, Nagaya, Tenant};
use nagaya_testing::ManualClock;
use serde_json::json;

use crate::{
    common::{design, fields, tenant},
    time::{NOON, options, settings},
};

async fn values(tenant: &Tenant, list: List, field: &str) -> Vec<String> {
    let page = tenant.list(&list.limit(1_000)).await.expect("a page");
    page.records.iter().map(|record| record.text(field).expect("a text").to_owned()).collect()
}

/// Proves K20.
#[tokio::test]
async fn items_of_one_instant_are_listed_in_the_order_in_which_they_were_created() {
    let clock = ManualClock::at(NOON);
    let store = EmbeddedStore::in_memory(options(&clock)).expect("memory");
    let nagaya = Nagaya::open_with(design("aiagent/single"), store, settings(&clock));
    nagaya.ensure_tables().await.expect("the tables are made");
    let t1 = tenant(&nagaya, "t1");
    let names: Vec<String> = (0..300).map(|n| format!("{n:03}")).collect();
    // One by one, and several in a change set.
    for (at, names) in names.chunks(3).enumerate() {
        let (mut set, alone) = (t1.change_set(), at % 2 == 0);
        for name in names {
            set = set.create("task", fields(json!({ "userId": "u-1", "title": name })));
            set = set.create("log", fields(json!({ "message": name, "traceId": "trace-1" })));
            if alone {
                set.commit().await.expect("a task");
                set = t1.change_set();
            }
        }
        if !alone {
            set.commit().await.expect("tasks");
        }
    }

    // By ULID; by second and ULID; by second and UUID.
    let lists = [
        (List::by("tasks"), "title"),
        (List::by("tasks_of_user").with("userId", "u-1"), "title"),
        (List::by("tasks_by_status").with("status", "open"), "title"),
        (List::by("logs"), "message"),
        (List::by("logs_between").with("from", "2027-01-15T08:00:00Z"), "message"),
        (List::by("logs_of_trace").with("traceId", "trace-1"), "message"),
    ];
    for (list, field) in lists {
        assert_eq!(values(&t1, list.clone().descending(false), field).await, names, "{list:?}");
        let mut backwards = values(&t1, list.clone().descending(true), field).await;
        backwards.reverse();
        assert_eq!(backwards, names, "{list:?}");
    }
    let created = values(&t1, List::by("tasks").descending(false), "taskId").await;
    assert_eq!(values(&t1, List::by("audits").descending(false), "resource").await, created);
}
