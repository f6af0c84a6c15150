//! Deleting items that others refer to: refused or cascading, whatever happens meanwhile.

use std::sync::Arc;

use nagaya_store::{Item, Key, KeyValue, Store, Write};
use nagaya_tenancy::{ErrorKind, List, Nagaya, Tenant};
use nagaya_testing::parse_design;
use serde_json::json;

use crate::{
    common::{fields, tenant},
    fault_stores::{all, interleaving, lagging, logged, memory},
    studio::{TABLE, count, inconsistencies, invoice, open, project, task, team, text},
};

/// Proves the reference part of C13.
#[tokio::test]
async fn an_item_cannot_be_deleted_while_others_refer_to_it() {
    let store = memory();
    let nagaya = open(&store).await;
    let (t1, t2) = (tenant(&nagaya, "t1"), tenant(&nagaya, "t2"));
    for t in [&t1, &t2] {
        team(t, "a").await;
        project(t, "a", "p").await;
    }
    invoice(&t2, "p", "i").await;
    invoice(&t1, "p", "i").await;
    let refused = t1.delete("project", &["p"], None).await.expect_err("an invoice refers to it");
    assert!(matches!(refused.kind(), ErrorKind::Referenced { by } if by == "invoice"), "{refused}");
    assert!(t1.get("project", &["p"]).await.is_ok());
    // A void invoice is kept, but no longer counts.
    t1.delete("invoice", &["i"], None).await.expect("it is void");
    t1.delete("project", &["p"], None).await.expect("nothing refers to it");
    assert_eq!(t1.get("project", &["p"]).await.expect_err("it is gone").code(), "not_found");
    assert_eq!(t1.delete("project", &["p"], None).await.expect_err("it is gone").code(), "not_found");
    assert!(t2.get("project", &["p"]).await.is_ok(), "another tenant's stays");
    assert_eq!(inconsistencies(&store).await, [""; 0]);
}

/// An item that forbids the deletion may be several references away: then nothing is deleted.
#[tokio::test]
async fn an_indirect_reference_forbids_a_deletion_too() {
    let store = memory();
    let nagaya = open(&store).await;
    let t1 = tenant(&nagaya, "t1");
    team(&t1, "a").await;
    for id in ["p", "q"] {
        project(&t1, "a", id).await;
        task(&t1, id, &format!("task-{id}")).await;
    }
    invoice(&t1, "q", "i").await;
    let refused = t1.delete("team", &["a"], None).await.expect_err("an invoice of a project refers to it");
    assert!(matches!(refused.kind(), ErrorKind::Referenced { by } if by == "invoice"), "{refused}");
    assert_eq!((count(&store, "PROJECT#").await, count(&store, "TASK#").await), (2, 2));
    assert_eq!(inconsistencies(&store).await, [""; 0]);
}

#[tokio::test]
async fn a_cascade_can_be_larger_than_one_write_set() {
    for lags in [false, true] {
        let store = if lags { lagging() } else { memory() };
        let nagaya = open(&store).await;
        let (t1, t2) = (tenant(&nagaya, "t1"), tenant(&nagaya, "t2"));
        for t in [&t1, &t2] {
            team(t, "a").await;
            team(t, "b").await;
            project(t, "a", "p").await;
            project(t, "b", "q").await;
            for at in 0..250 {
                task(t, "p", &format!("task-{at}")).await;
            }
            task(t, "q", "task-of-q").await;
        }
        t1.delete("team", &["a"], Some(1)).await.expect("it goes with everything");
        assert_eq!(count(&store, "TASK#").await, 252, "those of the other team and the other tenant stay");
        assert!(
            t1.list(&List::by("tasks_of_project").with("projectId", "p")).await.expect("a page").records.is_empty()
        );
        assert_eq!(
            t1.list(&List::by("tasks_of_project").with("projectId", "q")).await.expect("a page").records.len(),
            1
        );
        assert_eq!(inconsistencies(&store).await, [""; 0]);
        // All names are free again.
        team(&t1, "a").await;
        project(&t1, "a", "p").await;
        task(&t1, "p", "task-7").await;
    }
}

/// A lagging index does not show new items yet: the deletion waits for it.
#[tokio::test]
async fn items_that_an_index_does_not_show_yet_count_too() {
    let store = lagging();
    let nagaya = open(&store).await;
    let t1 = tenant(&nagaya, "t1");
    team(&t1, "a").await;
    project(&t1, "a", "p").await;
    task(&t1, "p", "x").await;
    t1.delete("team", &["a"], None).await.expect("it goes");
    assert_eq!((count(&store, "PROJECT#").await, count(&store, "TASK#").await), (0, 0));
    assert_eq!(inconsistencies(&store).await, [""; 0]);
}

/// A lagging index shows an item as it was: it is asked for in its table before anything depends on it.
#[tokio::test]
async fn what_an_index_still_shows_and_is_no_longer_so_does_not_count() {
    let logged = logged();
    logged.declare_lagging_indexes();
    let store: Arc<dyn Store> = logged.clone();
    let nagaya = open(&store).await;
    let t1 = tenant(&nagaya, "t1");
    team(&t1, "a").await;
    team(&t1, "b").await;
    project(&t1, "a", "p").await;
    project(&t1, "a", "q").await;
    let is_project = |item: &Item| item.get("projectId").is_some();
    let before: Vec<_> = all(&store, TABLE).await.into_iter().filter(is_project).collect();
    assert_eq!(before.len(), 2);
    t1.update("project", &["p"], fields(json!({ "teamId": "b" })), None).await.expect("it moves");
    t1.delete("project", &["q"], None).await.expect("it goes");
    logged.rewrite_pages(move |query, mut page| {
        if query.partition == KeyValue::from("TENANT#t1#TEAM#a") {
            page.items.clone_from(&before);
        }
        page
    });
    t1.delete("team", &["a"], None).await.expect("it goes alone");
    let kept = t1.get("project", &["p"]).await.expect("it belongs to another team");
    assert_eq!(kept.text("teamId"), Some("b"));
}

#[tokio::test]
async fn a_cascade_follows_chains_and_ends_in_circles() {
    let store = memory();
    let nagaya = open(&store).await;
    let t1 = tenant(&nagaya, "t1");
    t1.create("folder", fields(json!({ "folderId": "f0" }))).await.expect("a folder");
    for at in 1..40 {
        let folder = json!({ "folderId": format!("f{at}"), "parentId": format!("f{}", at - 1) });
        t1.create("folder", fields(folder)).await.expect("a folder");
    }
    t1.delete("folder", &["f3"], None).await.expect("it goes");
    assert_eq!(count(&store, "FOLDER#").await, 3);
    assert_eq!(inconsistencies(&store).await, [""; 0]);
    t1.update("folder", &["f0"], fields(json!({ "parentId": "f2" })), None).await.expect("a circle");
    t1.delete("folder", &["f1"], None).await.expect("it goes");
    assert_eq!(count(&store, "FOLDER#").await, 0);
}

#[tokio::test]
async fn deleting_a_referenceable_item_in_a_set_is_refused_with_a_reason() {
    let store = memory();
    let nagaya = open(&store).await;
    let t1 = tenant(&nagaya, "t1");
    team(&t1, "a").await;
    let set = t1.change_set().delete("team", &["a"], None).create("team", fields(json!({ "name": "b" })));
    let refused = set.commit().await.expect_err("not in a set");
    assert_eq!(refused.code(), "invalid");
    assert!(refused.to_string().contains("delete it by itself"), "{refused}");
    assert!(t1.get("team", &["a"]).await.is_ok());
    let late = t1.delete("team", &["a"], Some(7)).await.expect_err("another version");
    assert!(matches!(late.kind(), ErrorKind::VersionConflict { .. }), "{late}");
}

/// Many writers create, move and delete projects and tasks of a team while the team is deleted, again and again: no item is
/// left that refers to a deleted one.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_new_refers_to_an_item_under_deletion() {
    let store = interleaving();
    let nagaya = open(&store).await;
    let t1 = tenant(&nagaya, "t1");
    team(&t1, "attic").await;
    for round in 0..40 {
        let id = format!("team-{round}");
        team(&t1, &id).await;
        let mut tasks = Vec::new();
        for worker in 0..8 {
            tasks.push(tokio::spawn(work(t1.clone(), id.clone(), worker)));
        }
        for wait in [3 * round, 200] {
            let (t, nagaya, id) = (t1.clone(), nagaya.clone(), id.clone());
            tasks.push(tokio::spawn(async move {
                for _ in 0..wait {
                    tokio::task::yield_now().await;
                }
                // A deletion that loses every race reports it, and is repeated.
                let answer = loop {
                    match t.delete("team", &[&id], None).await.map_err(|error| error.code()) {
                        Err("contended") => {}
                        answer => break answer,
                    }
                };
                assert!(matches!(answer, Ok(()) | Err("not_found")), "{answer:?}");
                while let Err(error) = nagaya.recover_deletions().await {
                    assert_eq!(error.code(), "contended");
                }
            }));
        }
        for task in tasks {
            task.await.expect("no panic");
        }
        assert_eq!(nagaya.recover_deletions().await.expect("there is nothing to do"), 0);
        assert_eq!(inconsistencies(&store).await, [""; 0], "round {round}");
        assert_eq!(t1.get("team", &[&id]).await.expect_err("it is gone").code(), "not_found");
    }
}

/// Creates projects of a team until the team is gone.
async fn work(t: Tenant, team: String, worker: usize) {
    for at in 0..300 {
        let id = format!("{team}-{worker}-{at}");
        let project = json!({ "projectId": id, "teamId": team, "name": id });
        if t.create("project", fields(project)).await.is_err() {
            return;
        }
        drop(t.create("task", fields(json!({ "taskId": id, "projectId": id, "name": id }))).await);
        match worker % 4 {
            0 => drop(t.delete("project", &[&id], None).await),
            1 => drop(t.update("project", &[&id], fields(json!({ "teamId": "attic" })), None).await),
            _ => {}
        }
    }
}

#[tokio::test]
async fn another_tenant_sees_and_loses_nothing() {
    let store = memory();
    let nagaya = open(&store).await;
    let (t1, t10) = (tenant(&nagaya, "t1"), tenant(&nagaya, "t10"));
    for t in [&t1, &t10] {
        team(t, "a").await;
        project(t, "a", "p").await;
        task(t, "p", "x").await;
    }
    invoice(&t10, "p", "i").await;
    let before: Vec<_> =
        all(&store, TABLE).await.into_iter().filter(|item| text(item, "tenantId") == Some("t10")).collect();
    t1.delete("team", &["a"], None).await.expect("the other's invoice does not count");
    let after: Vec<_> =
        all(&store, TABLE).await.into_iter().filter(|item| text(item, "tenantId") == Some("t10")).collect();
    assert_eq!(before, after);
    assert_eq!(t10.delete("team", &["b"], None).await.expect_err("another tenant's").code(), "not_found");
    assert_eq!(nagaya.breaches(), 0);
}

/// An index may still show an item where it was before it moved.
#[tokio::test]
async fn an_item_that_refers_to_another_one_meanwhile_is_kept() {
    let logged = logged();
    logged.declare_lagging_indexes();
    let store: Arc<dyn Store> = logged.clone();
    let nagaya = open(&store).await;
    let t1 = tenant(&nagaya, "t1");
    team(&t1, "a").await;
    team(&t1, "b").await;
    project(&t1, "a", "p").await;
    let key = Key::new("TENANT#t1", "PROJECT#p");
    let before = store.get(TABLE, &key).await.expect("a read").expect("a project");
    t1.update("project", &["p"], fields(json!({ "teamId": "b" })), None).await.expect("it moves");
    logged.rewrite_pages(move |query, mut page| {
        if query.partition == KeyValue::from("TENANT#t1#TEAM#a") {
            page.items.push(before.clone());
        }
        page
    });
    t1.delete("team", &["a"], None).await.expect("nothing refers to it");
    assert_eq!(t1.get("project", &["p"]).await.expect("it is kept").text("teamId"), Some("b"));
    assert_eq!(inconsistencies(&store).await, [""; 0]);
}

#[tokio::test]
async fn an_item_under_the_key_of_another_tenant_is_not_deleted_with_what_it_refers_to() {
    let store = memory();
    let nagaya = open(&store).await;
    let t1 = tenant(&nagaya, "t1");
    team(&t1, "a").await;
    let planted = [
        ("PK", "TENANT#t2"),
        ("SK", "PROJECT#p"),
        ("GSI1PK", "TENANT#t1#TEAM#a"),
        ("GSI1SK", "PROJECT#p"),
        ("tenantId", "t1"),
        ("projectId", "p"),
        ("teamId", "a"),
        ("name", "p"),
    ];
    let planted: Item = planted.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    store.write(Write::put(TABLE, planted).into()).await.expect("planted");
    assert_eq!(t1.delete("team", &["a"], None).await.expect_err("planted").code(), "breach");
    assert!(nagaya.breaches() > 0);
    assert_eq!(count(&store, "PROJECT#").await, 1);
}

/// The items that refer to another one may be found by an index that operators list across tenants.
#[tokio::test]
async fn an_index_of_all_tenants_shows_a_deletion_the_items_of_its_own() {
    let own = r##"{ GSI1PK = "TENANT#{tenantId}#PROJECT#{projectId}", GSI1SK = "TASK#{taskId}" }"##;
    let of_all = r##"{ GSI1PK = "PROJECT#{projectId}", GSI1SK = "TENANT#{tenantId}#TASK#{taskId}", wall = "system" }"##;
    let source = include_str!("studio.toml").replace(own, of_all);
    assert!(source.contains(of_all));
    let store = memory();
    let nagaya = Nagaya::open(parse_design(&source), Arc::clone(&store));
    nagaya.ensure_tables().await.expect("the tables are made");
    let (t1, t2) = (tenant(&nagaya, "t1"), tenant(&nagaya, "t2"));
    for t in [&t1, &t2] {
        team(t, "a").await;
        project(t, "a", "p").await;
        task(t, "p", "x").await;
    }
    t1.delete("project", &["p"], None).await.expect("it goes with its task");
    assert_eq!(t1.get("task", &["x"]).await.expect_err("it is gone").code(), "not_found");
    assert!(t2.get("task", &["x"]).await.is_ok(), "another tenant's stays");
    assert_eq!((nagaya.breaches(), inconsistencies(&store).await), (0, vec![]));
}
