//! `--watch`: a changed design file is served at once, unless the change would break stored data.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use nagaya_design::{Design, diff};
use nagaya_server::System;

use super::{KeyFiles, StoreArgs, Tables, listen::Served};
use crate::source;

/// How often the file is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(300);

/// Watches the file until the process ends.
pub(super) async fn watch(path: PathBuf, store: StoreArgs, tables: Tables, mut served: Served) {
    let mut seen = modified_at(&path);
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        let now = modified_at(&path);
        // An editor that replaces the file leaves it missing for a moment.
        if now == seen || now.is_none() {
            continue;
        }
        seen = now;
        match reload(&path, &store, &tables, &mut served).await {
            Ok(true) => eprintln!("{}: reloaded", path.display()),
            Ok(false) => eprintln!("{}: not reloaded; the previous design is still served", path.display()),
            Err(error) => eprintln!("{}: not reloaded: {error:#}", path.display()),
        }
    }
}

fn modified_at(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

/// Serves the design as it is now; `false` after showing why not.
async fn reload(path: &Path, store: &StoreArgs, tables: &Tables, served: &mut Served) -> anyhow::Result<bool> {
    let Some(design) = source::design(path, &[store.kind.engine()])? else { return Ok(false) };
    if let Some(why) = breaking_change(&served.system.design, &design) {
        eprint!("{why}");
        return Ok(false);
    }
    let system = System::named(&served.system.name, design);
    let nagaya = store.open_system(&system, Arc::clone(&served.store), tables, KeyFiles::Create).await?;
    served.mounted.replace(system.clone(), nagaya);
    served.system = system;
    Ok(true)
}

/// The breaking changes of a new design, as text; `None` if there are none. A new major version does not help: there is stored data.
fn breaking_change(old: &Design, new: &Design) -> Option<String> {
    let found = diff(old, new);
    let breaking: Vec<_> =
        found.iter().filter(|each| each.breaking_reason.is_some()).map(|each| format!("  {each}\n")).collect();
    let why = || {
        format!(
            "breaking\n{}the stored data does not fit this design: undo the change, or serve it from a new data directory\n",
            breaking.concat()
        )
    };
    (!breaking.is_empty()).then(why)
}
