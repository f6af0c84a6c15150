//! `nagaya seed`: sample data, written through the same layer as everything else.

mod fill;
mod item;
mod links;
mod plan;
mod report;
mod seeders;
pub(super) mod tenants;
mod text;
mod value;
mod words;

use jiff::civil::Date;

use super::{Outcome, output::print, serve::StoreArgs, source};

/// How many items of each entity a tenant gets by default.
const DEFAULT_ITEMS_PER_ENTITY: usize = 50;

/// Fill a system with sample data
///
/// The items are written like those of any caller: checked, keyed, indexed, each on its tenant's side of the wall. Items
/// with a history get one, by commands. The same seed gives the same items, so that a second run writes none twice.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  nagaya seed todo                              3 tenants with up to 50 items of each \
                        entity\n  nagaya seed kondate                           3 users with 200 recipes each\n  nagaya seed desk.toml --tenants 10 --items 1000\n\nThe first tenant is the one that the token \
                        of `nagaya serve` is for. A directory has one process at a time: stop the server before."
)]
pub(super) struct Args {
    /// A built-in system, or a design file
    #[arg(value_name = "SYSTEM|DESIGN.toml")]
    system: String,
    /// How many tenants
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    tenants: u32,
    /// How many items of each entity a tenant gets, if there are so many different ones
    ///
    /// The default is 50, unless the system has another one.
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    items: Option<u32>,
    /// The seed: another number gives other data
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// The last day of the data; by default that of an earlier run, or today
    #[arg(long, value_name = "DATE", value_parser = day)]
    until: Option<Date>,
    #[command(flatten)]
    store: StoreArgs,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Reads a day.
fn day(text: &str) -> Result<Date, &'static str> {
    text.parse().map_err(|_| "write a day, such as 2026-01-31")
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let Some(system) = source::system(&args.system, args.store.kind.engine(), &args.store.resources())? else {
        return Ok(Outcome::FoundProblem);
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(fill::fill(args, &system))?;
    let outcome = print(args.json, &report.json(), &report.table(), report.is_complete())?;
    eprint!("{}", report.notes());
    Ok(outcome)
}
