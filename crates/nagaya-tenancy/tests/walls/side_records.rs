//! Side records: each owner lists only its own, and replaces what it has read.

use nagaya_tenancy::{ErrorKind, Nagaya, Principal, RecordOwner, SideRecord, Tenant};
use serde_json::json;

use crate::common::{design, fields, open, tenant};

async fn store_record(tenant: &Tenant, entity: &str, owner: RecordOwner, name: &str) {
    let set = tenant.change_set().side_record(entity, owner, name, Some(fields(json!({ "said": name }))), None);
    set.commit().await.expect("a note");
}

async fn names(tenant: &Tenant, entity: &str, prefix: &str, limit: usize) -> Vec<String> {
    let (mut names, mut after): (Vec<String>, Option<String>) = (Vec::new(), None);
    loop {
        let page = tenant.side_records(entity, prefix, after.as_deref(), limit).await.expect("a page");
        let Some(last) = page.last() else { return names };
        after = Some(last.name.clone());
        names.extend(page.into_iter().map(|record| record.name));
    }
}

async fn check(nagaya: &Nagaya, entity: &str) {
    let (t1, t10, empty) = (tenant(nagaya, "t1"), tenant(nagaya, "t10"), tenant(nagaya, "t"));
    for name in ["a-1", "a-2", "a-3", "b-1"] {
        store_record(&t1, entity, RecordOwner::Tenant, name).await;
    }
    store_record(&t10, entity, RecordOwner::Tenant, "a-4").await;
    store_record(&t10, entity, RecordOwner::System, "a-5").await;
    for limit in [1, 2, 100] {
        assert_eq!(names(&t1, entity, "a-", limit).await, ["a-1", "a-2", "a-3"]);
        assert_eq!(names(&t1, entity, "", limit).await, ["a-1", "a-2", "a-3", "b-1"]);
        assert_eq!(names(&t10, entity, "a", limit).await, ["a-4"]);
        assert!(names(&empty, entity, "", limit).await.is_empty());
    }
    let asked = ["a-4", "a-1", "a-9", "a-5", "b-1"].map(str::to_owned);
    for (tenant, expected) in [(&t1, vec!["a-1", "b-1"]), (&t10, vec!["a-4"]), (&empty, vec![])] {
        let found = tenant.side_records_named(entity, &asked).await.expect("an answer");
        assert_eq!(found.len(), asked.len());
        let names = found.iter().map(|record| record.as_ref().map(|record| record.name.as_str()));
        let expected = asked.iter().map(|name| Some(name.as_str()).filter(|name| expected.contains(name)));
        assert!(names.eq(expected), "{found:?}");
    }
    let operator = nagaya.operator("looks around", &Principal::new("", "op"));
    let operator_records = operator.side_records(entity, "a-", None, 10).await.expect("a page");
    assert_eq!(operator_records.iter().map(|record| record.name.as_str()).collect::<Vec<_>>(), ["a-5"]);
}

/// Proves the notes part of N3: beside a tenant's items, and beside public ones.
#[tokio::test]
async fn a_tenants_side_records_are_listed_to_the_tenant_only() {
    check(&open(design("aiagent/single")).await, "agent").await;
    check(&open(design("kondate/kondate")).await, "creator_recipe").await;
}

#[tokio::test]
async fn a_side_record_is_replaced_only_as_it_was_read() {
    let nagaya = open(design("aiagent/single")).await;
    let t1 = tenant(&nagaya, "t1");
    let read = async || t1.side_record("agent", RecordOwner::Tenant, "a").await.expect("an answer").expect("a record");
    let write = async |count: u64, read: Option<&SideRecord>| {
        let fields = fields(json!({ "count": count, "said": "hello" }));
        t1.change_set().side_record("agent", RecordOwner::Tenant, "a", Some(fields), read).commit().await
    };
    write(7, None).await.expect("it is new");
    for revision in 1..=3 {
        let record = read().await;
        assert_eq!((record.revision(), record.number("count")), (revision, Some(6 + revision as u64)));
        assert_eq!((record.text("said"), record.number("said"), record.number("other")), (Some("hello"), None, None));
        write(7 + revision as u64, Some(&record)).await.expect("it is as it was read");
        let late = write(0, Some(&record)).await.expect_err("it has changed");
        assert!(matches!(late.kind(), ErrorKind::SideRecordConflict { name } if name == "a"), "{late}");
    }
}
