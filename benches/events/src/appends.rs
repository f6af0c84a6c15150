//! Durable appends of one event to different aggregates: through the events layer, and as write sets on the bare engine.

use std::{fs, path::Path, sync::Arc};

use bench_common::callers::{Pace, busy};
use nagaya_store::{Store as _, WriteSet};
use nagaya_todo::Todo;
use serde::{Deserialize, Serialize};

use crate::{
    replay::Templates,
    times::settle,
    todo_app::{TodoApp, change, create, open},
};

/// Throughput of first events of new aggregates, and of second events of existing ones.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Appends {
    pub(crate) new: Pace,
    pub(crate) next: Pace,
}

impl Appends {
    pub(crate) fn summary(&self) -> String {
        format!("new {:6.0}/s, next {:6.0}/s", self.new.per_second, self.next.per_second)
    }
}

/// The bare engine, in an empty directory.
pub(crate) async fn engine(directory: &Path, templates: &Arc<Templates>, seconds: f64) -> anyhow::Result<Appends> {
    let store = Arc::new(open(directory)?);
    store.ensure_tables(&templates.tables).await?;
    let call = |set: fn(&Templates, u64) -> WriteSet| {
        let (engine, sets) = (Arc::clone(&store), Arc::clone(templates));
        move |number| {
            let (engine, sets) = (Arc::clone(&engine), Arc::clone(&sets));
            async move { Ok(engine.write(set(&sets, number)).await.map(drop)?) }
        }
    };
    let new = busy(seconds, 0..u64::MAX, call(Templates::first)).await?;
    settle()?;
    let next = busy(seconds, 0..new.next, call(Templates::second)).await?;
    drop(store);
    fs::remove_dir_all(directory)?;
    settle()?;
    Ok(Appends { new, next })
}

/// Commands through the events layer, in an empty directory.
pub(crate) async fn events(directory: &Path, seconds: f64) -> anyhow::Result<Appends> {
    let app = Arc::new(TodoApp::open(directory).await?);
    let events = app.events::<Todo>()?;
    let call = |command: fn(u64) -> nagaya_todo::Command| {
        let (app, events) = (Arc::clone(&app), events.clone());
        move |number| {
            let (app, events) = (Arc::clone(&app), events.clone());
            async move { app.execute(&events, number, &command(number)).await.map(drop) }
        }
    };
    let new = busy(seconds, 0..u64::MAX, call(create)).await?;
    settle()?;
    let next = busy(seconds, 0..new.next, call(change)).await?;
    drop(app);
    fs::remove_dir_all(directory)?;
    settle()?;
    Ok(Appends { new, next })
}
