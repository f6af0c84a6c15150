//! `nagaya store reindex` and `repair`: rebuilding what is derived from the items.

use nagaya_embedded::{EmbeddedStore, RepairSummary};
use serde_json::{Value as Json, json};

use super::{
    access::{Access, DirectoryArgs, access},
    show,
};
use crate::{Outcome, output::print, progress::with_progress};

/// Rebuild indexes from the items
///
/// Works while a server has the directory open, and writes go on. Until an index is rebuilt, queries of it are answered
/// 503 `index_missing`.
#[derive(Debug, clap::Args)]
pub(super) struct ReindexArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    /// The table, as `store stat` names it; by default all tables
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// The index; by default all indexes of the table
    #[arg(long, value_name = "NAME", requires = "table")]
    index: Option<String>,
}

/// Verify the store, and rebuild indexes and expiry entries of tables with findings
///
/// Items and changes are not modified. Exits with 1 if a finding could not be repaired.
#[derive(Debug, clap::Args)]
pub(super) struct RepairArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
}

pub(super) fn reindex(args: &ReindexArgs) -> anyhow::Result<Outcome> {
    let ReindexArgs { directory, table, index } = args;
    let access = access(directory)?;
    let built = with_progress("tables", |progress| match access {
        Access::Own(store) => reindex_all(&store, table.as_deref(), index.as_deref(), progress),
        Access::Server(connection) => {
            Ok(connection.ask(&json!({ "do": "reindex", "table": table, "index": index }), progress)?)
        }
    })?;
    let names: Vec<_> = built["tables"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    let text = names.iter().map(|name| format!("{name}: rebuilt\n")).collect::<String>();
    print(directory.json, &built, &text, true)
}

/// Rebuilds the indexes of one table or of all; gives the names of the tables.
pub(crate) fn reindex_all(
    store: &EmbeddedStore,
    table: Option<&str>,
    index: Option<&str>,
    progress: &mut dyn FnMut(u64),
) -> anyhow::Result<Json> {
    let tables = match table {
        Some(table) => vec![table.to_owned()],
        None => store.stats()?.tables.into_iter().map(|table| table.name).collect(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    for (done, table) in tables.iter().enumerate() {
        progress(done as u64);
        runtime.block_on(store.reindex(table, index))?;
    }
    Ok(json!({ "tables": tables }))
}

pub(super) fn repair(args: &RepairArgs) -> anyhow::Result<Outcome> {
    let access = access(&args.directory)?;
    let repaired = with_progress("entries", |progress| match access {
        Access::Own(store) => repair_all(&store, progress),
        Access::Server(connection) => Ok(connection.ask(&json!({ "do": "repair" }), progress)?),
    })?;
    let remaining = show::findings_count(&repaired["remaining"]);
    let text = match (show::findings_count(&repaired["found"]), remaining) {
        (0, _) => "no problems found\n".to_owned(),
        (found, 0) => format!("{found} findings repaired\n"),
        (found, remaining) => {
            let listed = show::findings_text(&repaired["remaining"]);
            format!("{} of {found} findings repaired; remaining:\n{listed}", found.saturating_sub(remaining))
        }
    };
    print(args.directory.json, &repaired, &text, remaining == 0)
}

pub(crate) fn repair_all(store: &EmbeddedStore, progress: &mut dyn FnMut(u64)) -> anyhow::Result<Json> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let RepairSummary { found, remaining } = runtime.block_on(store.repair(progress))?;
    Ok(json!({ "found": show::findings_json(&found), "remaining": show::findings_json(&remaining) }))
}
