//! Entities as Rust types.

use std::sync::Arc;

use nagaya_tenancy::{Entity, ErrorKind, List};
use serde::{Deserialize, Serialize};

use crate::common::{design, open, open_file, tenant};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, Entity)]
#[serde(rename_all = "camelCase", default)]
#[entity(design = "desk.toml", name = "ticket")]
struct Ticket {
    tenant_id: Option<String>,
    ticket_id: Option<String>,
    title: String,
    priority: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    token: Option<String>,
    version: Option<i64>,
}

fn ticket(title: &str) -> Ticket {
    Ticket { title: title.to_owned(), token: Some("t0ps3cret".to_owned()), ..Ticket::default() }
}

#[tokio::test]
async fn a_typed_item_is_created_read_changed_listed_and_deleted() {
    let nagaya = open_file("tests/walls/desk.toml").await;
    let t1 = tenant(&nagaya, "t1");
    let tickets = t1.items_of::<Ticket>().expect("the design has tickets");

    let made = tickets.create(&ticket("It rains in")).await.expect("a ticket");
    assert_eq!((made.priority, made.version), (Some(3), Some(1)));
    assert_eq!(made.tenant_id.as_deref(), Some("t1"));
    assert_eq!(made.token, None, "a secret is never read back");
    let id = made.ticket_id.clone().expect("an id");
    assert_eq!(tickets.get(&[&id]).await.expect("it is there"), made);

    let changed = tickets.update_with(&[&id], |ticket| ticket.note = Some("Bring a bucket".to_owned())).await;
    let changed = changed.expect("a change");
    assert_eq!(changed, Ticket { note: Some("Bring a bucket".to_owned()), version: Some(2), ..made.clone() });
    let without = tickets.update_with(&[&id], |ticket| ticket.note = None).await.expect("a change");
    assert_eq!(without.note, None);

    assert_eq!(tickets.list(&List::by("tickets")).await.expect("a page").items, [without]);
    tickets.delete(&[&id], Some(3)).await.expect("it goes");
    assert!(tickets.list(&List::by("tickets")).await.expect("a page").items.is_empty());
}

#[tokio::test]
async fn a_typed_item_that_names_another_tenant_is_refused() {
    let nagaya = open_file("tests/walls/desk.toml").await;
    let t1 = tenant(&nagaya, "t1");
    let forged = Ticket { tenant_id: Some("t2".to_owned()), ..ticket("Mine?") };
    let refused = t1.items_of::<Ticket>().expect("tickets").create(&forged).await.expect_err("not yours");
    assert!(matches!(refused.kind(), ErrorKind::Invalid(problems) if problems[0].path == "tenantId"), "{refused}");
}

#[tokio::test]
async fn a_type_of_another_design_is_refused() {
    let nagaya = open(design("todo/todo")).await;
    let refused = tenant(&nagaya, "f1").items_of::<Ticket>().expect_err("another design");
    assert_eq!(refused.code(), "no_entity");
}

/// Proves the typed part of A11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_changes_are_all_made() {
    let nagaya = open_file("tests/walls/desk.toml").await;
    let t1 = Arc::new(tenant(&nagaya, "t1"));
    let made = t1.items_of::<Ticket>().expect("tickets").create(&ticket("Count")).await.expect("a ticket");
    let id = made.ticket_id.expect("an id");
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (t1, id) = (Arc::clone(&t1), id.clone());
            tokio::spawn(async move {
                let tickets = t1.items_of::<Ticket>().expect("tickets");
                let more = |ticket: &mut Ticket| ticket.title.push('.');
                // A caller may lose all races, but must not get success for a change that was not made.
                while let Err(error) = tickets.update_with(&[&id], more).await {
                    assert_eq!(error.code(), "contended");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    let ticket = t1.items_of::<Ticket>().expect("tickets").get(&[&id]).await.expect("it is there");
    assert_eq!((ticket.title.as_str(), ticket.version), ("Count........", Some(9)));
}
