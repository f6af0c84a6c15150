//! The oracle: what a directory has to hold after its process has come to whatever end.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, atomic::AtomicI64},
};

use nagaya_embedded::Embedded;
use nagaya_store::{From as Start, Item, Query, Scan, Store as _, Write};

use crate::{
    client::{options, stamp},
    model::{History, Lie, State},
    workload::{Place, TABLES, grown, specs},
};

/// What is wrong with a directory.
pub(crate) enum Wrong {
    /// The engine itself says so: an error, or a finding of its check.
    Told(String),
    /// It does not.
    Silent(String),
}

type Checked<T = ()> = Result<T, Wrong>;

fn told(what: &'static str) -> impl FnOnce(nagaya_store::Error) -> Wrong {
    move |error| Wrong::Told(format!("{what}: {error}"))
}

/// Opens a directory and holds it against what its client was told.
pub(crate) async fn check(directory: &Path, history: &History, lie: Option<Lie>) -> Checked {
    let possible = history.possible(lie).map_err(Wrong::Silent)?;
    let now = Arc::new(AtomicI64::new(history.now));
    let store = Embedded::open(directory, options(Arc::clone(&now))).map_err(told("opening"))?;
    store.ensure(&specs()).await.map_err(told("making the tables"))?;
    if history.index_done {
        let query = Query::index(TABLES[0], "GSI2", "G0");
        store.query(query).await.map_err(told("the index that was acknowledged"))?;
    }
    let found = state(&store, history, &possible).await?;
    store.ensure(&grown()).await.map_err(told("making the second index"))?;
    agree(&store, &["GSI1", "GSI2"]).await?;
    // It takes writes, and they are there when it is opened once more.
    let extra = Item::new().with("PK", "extra").with("SK", "extra");
    store.write(Write::put(TABLES[0], extra).into()).await.map_err(told("a write"))?;
    drop(store);
    let store = Embedded::open(directory, options(now)).map_err(told("opening again"))?;
    let key = nagaya_store::Key::new("extra", "extra");
    let extra = store.get(TABLES[0], &key).await.map_err(told("a read"))?;
    if extra.is_none() {
        return Err(Wrong::Silent("a write after the fault is gone again".to_owned()));
    }
    store.write(Write::delete(TABLES[0], key).into()).await.map_err(told("a delete"))?;
    if state(&store, history, &BTreeSet::from([found.clone()])).await? != found {
        return Err(Wrong::Silent("opening it again changed it".to_owned()));
    }
    agree(&store, &["GSI1", "GSI2"]).await
}

/// The state that is there, which has to be a possible one.
async fn state(store: &Embedded, history: &History, possible: &BTreeSet<State>) -> Checked<State> {
    // The engine is asked first: what it finds itself is not silent.
    let findings = store.verify(&mut |_| {}).map_err(told("verifying"))?;
    if let Some(finding) = findings.first() {
        return Err(Wrong::Told(format!(
            "{} findings, the first: {}: {}",
            findings.len(),
            finding.table,
            finding.what
        )));
    }
    let mut there: BTreeMap<Place, Item> = BTreeMap::new();
    for place in Place::all() {
        let found = store.get(TABLES[place.table], &place.key()).await.map_err(told("a read"))?;
        there.extend(found.map(|item| (place, item)));
    }
    let stamps: BTreeMap<Place, Option<u64>> = there.iter().map(|(place, item)| (*place, stamp(item))).collect();
    let alive = |state: &State| -> BTreeMap<Place, Option<u64>> {
        let alive = state.iter().filter(|(_, stored)| stored.is_alive(history.now));
        alive.map(|(place, stored)| (*place, Some(stored.stamp))).collect()
    };
    let Some(state) = possible.iter().find(|state| alive(state) == stamps) else {
        let shown = |stamps: BTreeMap<Place, Option<u64>>| -> String {
            let shown = stamps.iter().map(|(place, stamp)| format!(" {place}={}", stamp.unwrap_or(0)));
            shown.collect()
        };
        let expected: Vec<_> = possible.iter().take(2).map(|state| shown(alive(state))).collect();
        let (found, count) = (shown(stamps), possible.len());
        return Err(Wrong::Silent(format!(
            "there is{found}, but possible are {count} states:{}",
            expected.join(" or")
        )));
    };
    for (place, item) in &there {
        if state.get(place).map(|stored| stored.item(*place)).as_ref() != Some(item) {
            return Err(Wrong::Silent(format!("the item at {place} is another than was written")));
        }
    }
    Ok(state.clone())
}

/// Scans, indexes and changes show the same items.
async fn agree(store: &Embedded, indexes: &[&str]) -> Checked {
    for table in TABLES {
        let scanned = sorted(store.scan(Scan::table(table)).await.map_err(told("a scan"))?.items);
        for index in indexes {
            let mut indexed = Vec::new();
            for partition in if *index == "GSI1" { &["all"][..] } else { &["G0", "G1"] } {
                let page = store.query(Query::index(table, *index, *partition)).await.map_err(told("a query"))?;
                indexed.extend(page.items);
            }
            let own: Vec<_> = scanned.iter().filter(|item| stamp(item).is_some()).cloned().collect();
            if sorted(indexed) != own {
                return Err(Wrong::Silent(format!("`{index}` of `{table}` shows other items than the table")));
            }
        }
        let mut replayed = BTreeMap::new();
        let mut from = Start::Oldest;
        loop {
            let page = store.changes(table, from, 1000).await.map_err(told("the changes"))?;
            if page.records.is_empty() {
                break;
            }
            for record in page.records {
                if replayed.get(&record.key) != record.old.as_ref() {
                    return Err(Wrong::Silent(format!(
                        "a change of `{}` does not follow from the one before",
                        record.key
                    )));
                }
                match record.new {
                    Some(item) => replayed.insert(record.key, item),
                    None => replayed.remove(&record.key),
                };
            }
            from = Start::After(page.next);
        }
        // What has expired is not scanned, and may not have been swept.
        if let Some(missing) = scanned.iter().find(|item| !replayed.values().any(|replayed| replayed == *item)) {
            return Err(Wrong::Silent(format!("the changes of `{table}` do not lead to {:?}", stamp(missing))));
        }
    }
    Ok(())
}

fn sorted(mut items: Vec<Item>) -> Vec<Item> {
    items.sort_by_key(|item| format!("{:?} {:?}", item.get("PK"), item.get("SK")));
    items
}
