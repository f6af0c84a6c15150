//! The oracle: checks the content of a directory after its process has ended in any way.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, atomic::AtomicI64},
};

use nagaya_embedded::EmbeddedStore;
use nagaya_store::{Item, Query, Scan, StartPosition, Store as _, Write};

use crate::{
    client::{open_store, version},
    model::{History, State, UndetectableFault},
    workload::{ItemId, TABLES, specs, specs_with_second_index},
};

/// What is wrong with a directory.
pub(crate) enum Problem {
    /// The engine reports it: an error, or a finding of its verification.
    Reported(String),
    /// The engine does not report it.
    Silent(String),
}

type Checked<T = ()> = Result<T, Problem>;

fn reported(what: &'static str) -> impl FnOnce(nagaya_store::Error) -> Problem {
    move |error| Problem::Reported(format!("{what}: {error}"))
}

/// Opens a directory and compares it with the log of its client.
pub(crate) async fn check(directory: &Path, history: &History, fault: Option<UndetectableFault>) -> Checked {
    let possible = history.possible(fault).map_err(Problem::Silent)?;
    let now = Arc::new(AtomicI64::new(history.now));
    let store = open_store(directory, &now).map_err(reported("opening"))?;
    store.ensure_tables(&specs()).await.map_err(reported("making the tables"))?;
    if history.index_done {
        let query = Query::index(TABLES[0], "GSI2", "G0");
        store.query(query).await.map_err(reported("the index that was acknowledged"))?;
    }
    let found = state(&store, history, &possible).await?;
    store.ensure_tables(&specs_with_second_index()).await.map_err(reported("making the second index"))?;
    check_consistency(&store, &["GSI1", "GSI2"]).await?;
    // It accepts writes, and they are there when it is reopened.
    let extra = Item::new().with("PK", "extra").with("SK", "extra");
    store.write(Write::put(TABLES[0], extra).into()).await.map_err(reported("a write"))?;
    drop(store);
    let store = open_store(directory, &now).map_err(reported("opening again"))?;
    let key = nagaya_store::Key::new("extra", "extra");
    let extra = store.get(TABLES[0], &key).await.map_err(reported("a read"))?;
    if extra.is_none() {
        return Err(Problem::Silent("a write after the fault is lost".to_owned()));
    }
    store.write(Write::delete(TABLES[0], key).into()).await.map_err(reported("a delete"))?;
    if state(&store, history, &BTreeSet::from([found.clone()])).await? != found {
        return Err(Problem::Silent("reopening changed the state".to_owned()));
    }
    check_consistency(&store, &["GSI1", "GSI2"]).await
}

/// The stored state, which must be a possible one.
async fn state(store: &EmbeddedStore, history: &History, possible: &BTreeSet<State>) -> Checked<State> {
    // The engine verifies first: its own findings are not silent.
    let findings = store.verify(&mut |_| {}).map_err(reported("verifying"))?;
    if let Some(finding) = findings.first() {
        return Err(Problem::Reported(format!(
            "{} findings, the first: {}: {}",
            findings.len(),
            finding.table,
            finding.problem
        )));
    }
    let mut stored_items: BTreeMap<ItemId, Item> = BTreeMap::new();
    for id in ItemId::all() {
        let found = store.get(TABLES[id.table], &id.key()).await.map_err(reported("a read"))?;
        stored_items.extend(found.map(|item| (id, item)));
    }
    let versions: BTreeMap<ItemId, Option<u64>> = stored_items.iter().map(|(id, item)| (*id, version(item))).collect();
    let unexpired = |state: &State| -> BTreeMap<ItemId, Option<u64>> {
        let unexpired = state.iter().filter(|(_, stored)| stored.is_unexpired(history.now));
        unexpired.map(|(id, stored)| (*id, Some(stored.version))).collect()
    };
    let Some(state) = possible.iter().find(|state| unexpired(state) == versions) else {
        let shown = |versions: BTreeMap<ItemId, Option<u64>>| -> String {
            let shown = versions.iter().map(|(id, version)| format!(" {id}={}", version.unwrap_or(0)));
            shown.collect()
        };
        let expected: Vec<_> = possible.iter().take(2).map(|state| shown(unexpired(state))).collect();
        let (found, count) = (shown(versions), possible.len());
        return Err(Problem::Silent(format!(
            "stored is{found}, but possible are {count} states:{}",
            expected.join(" or")
        )));
    };
    for (id, item) in &stored_items {
        if state.get(id).map(|stored| stored.item(*id)).as_ref() != Some(item) {
            return Err(Problem::Silent(format!("the item at {id} is not the one that was written")));
        }
    }
    Ok(state.clone())
}

/// Checks that scans, indexes and changes show the same items.
async fn check_consistency(store: &EmbeddedStore, indexes: &[&str]) -> Checked {
    for table in TABLES {
        let scanned = sorted(store.scan(Scan::table(table)).await.map_err(reported("a scan"))?.items);
        for index in indexes {
            let mut indexed = Vec::new();
            for partition in if *index == "GSI1" { &["all"][..] } else { &["G0", "G1"] } {
                let page = store.query(Query::index(table, *index, *partition)).await.map_err(reported("a query"))?;
                indexed.extend(page.items);
            }
            let own: Vec<_> = scanned.iter().filter(|item| version(item).is_some()).cloned().collect();
            if sorted(indexed) != own {
                return Err(Problem::Silent(format!("`{index}` of `{table}` shows other items than the table")));
            }
        }
        let mut replayed = BTreeMap::new();
        let mut from = StartPosition::Oldest;
        loop {
            let page = store.changes(table, from, 1000).await.map_err(reported("the changes"))?;
            if page.records.is_empty() {
                break;
            }
            for record in page.records {
                if replayed.get(&record.key) != record.old.as_ref() {
                    return Err(Problem::Silent(format!(
                        "a change of `{}` does not start where the one before ends",
                        record.key
                    )));
                }
                match record.new {
                    Some(item) => replayed.insert(record.key, item),
                    None => replayed.remove(&record.key),
                };
            }
            from = StartPosition::After(page.next);
        }
        // Expired items are not scanned, but may not have been removed.
        if let Some(missing) = scanned.iter().find(|item| !replayed.values().any(|replayed| replayed == *item)) {
            return Err(Problem::Silent(format!("the changes of `{table}` do not end at {:?}", version(missing))));
        }
    }
    Ok(())
}

fn sorted(mut items: Vec<Item>) -> Vec<Item> {
    items.sort_by_key(|item| format!("{:?} {:?}", item.get("PK"), item.get("SK")));
    items
}
