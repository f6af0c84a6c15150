//! A design with teams, projects, tasks, invoices and nested folders; and a consistency check of the store.

use std::{collections::HashSet, sync::Arc};

use nagaya_design::{Design, check};
use nagaya_store::{Item, Store, Value};
use nagaya_tenancy::{Nagaya, Settings, Tenant};
use serde_json::json;

use crate::{
    common::fields,
    fault_stores::{LAG, all},
};

pub(crate) const TABLE: &str = "studio-app";

pub(crate) fn studio() -> Design {
    let checked = check(include_str!("studio.toml"), &[]);
    checked.design.unwrap_or_else(|| panic!("{:#?}", checked.diagnostics))
}

pub(crate) async fn open(store: &Arc<dyn Store>) -> Nagaya {
    let settings = Settings { index_lag: 2 * LAG, ..Settings::default() };
    let nagaya = Nagaya::open_with(studio(), Arc::clone(store), settings);
    nagaya.ensure_tables().await.expect("the tables are made");
    nagaya
}

pub(crate) async fn team(t: &Tenant, id: &str) {
    t.create("team", fields(json!({ "teamId": id, "name": id }))).await.expect("a team");
}

pub(crate) async fn project(t: &Tenant, team: &str, id: &str) {
    t.create("project", fields(json!({ "projectId": id, "teamId": team, "name": id }))).await.expect("a project");
}

pub(crate) async fn task(t: &Tenant, project: &str, id: &str) {
    t.create("task", fields(json!({ "taskId": id, "projectId": project, "name": id }))).await.expect("a task");
}

pub(crate) async fn invoice(t: &Tenant, project: &str, id: &str) {
    t.create("invoice", fields(json!({ "invoiceId": id, "projectId": project }))).await.expect("an invoice");
}

pub(crate) fn text<'i>(item: &'i Item, name: &str) -> Option<&'i str> {
    item.get(name).and_then(Value::as_str)
}

/// Inconsistencies in the store: a dangling reference, a marker without an item, a leftover deletion mark or record.
pub(crate) async fn inconsistencies(store: &Arc<dyn Store>) -> Vec<String> {
    let items = all(store, TABLE).await;
    let keys: HashSet<_> = items.iter().filter_map(|item| Some((text(item, "PK")?, text(item, "SK")?))).collect();
    let mut inconsistencies = Vec::new();
    for item in &items {
        let (Some(partition), Some(sort)) = (text(item, "PK"), text(item, "SK")) else { continue };
        let mut refers = |field: &str, to: &str| {
            if let Some(id) = text(item, field)
                && text(item, "voidedAt").is_none()
                && !keys.contains(&(partition, format!("{to}#{id}").as_str()))
            {
                inconsistencies.push(format!("{partition} {sort} refers to no {to} {id}"));
            }
        };
        if !sort.starts_with("TEAM#") {
            refers("teamId", "TEAM");
        }
        if !sort.starts_with("PROJECT#") {
            refers("projectId", "PROJECT");
        }
        refers("parentId", "FOLDER");
        if let Some(Value::List(owner)) = item.get("%owner") {
            let [Value::String(partition), Value::String(sort)] = owner.as_slice() else { panic!("{owner:?}") };
            if !keys.contains(&(partition.as_str(), sort.as_str())) {
                inconsistencies.push(format!("{sort} is gone, but not its marker"));
            }
        }
        if item.get("%deleting").is_some() || partition == "%deleting" {
            inconsistencies.push(format!("{partition} {sort} is about to go"));
        }
    }
    inconsistencies
}

pub(crate) async fn count(store: &Arc<dyn Store>, start: &str) -> usize {
    all(store, TABLE).await.iter().filter(|item| text(item, "SK").is_some_and(|sort| sort.starts_with(start))).count()
}
