//! `nagaya seed`: data that looks real, made through the same layer as everything else.

mod fill;
mod item;
mod kitchen;
mod links;
mod luck;
mod people;
mod plan;
mod report;
mod stamp;
mod story;
pub(super) mod tenants;
mod text;
mod todos;
mod value;
mod words;

use std::io::Write as _;

use jiff::civil::Date;

pub(crate) use self::{
    kitchen::{Household, Neighbours},
    story::Story,
    todos::Todos,
};
use super::{Outcome, serve::Place, source};
use crate::systems;

/// How many items of each entity a tenant gets, unless somebody or the system says how many.
const ITEMS: usize = 50;

/// Fill a system with data that looks real
///
/// The items are made through the store layer like those of any caller: checked, keyed, indexed, and on the right side of
/// the wall. What has a history gets one, by commands. The same number gives the same items, so that what is there already
/// is not made again.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  nagaya seed todo                              3 tenants with up to 50 items of each \
                        entity\n  nagaya seed kondate                           3 households with 200 recipes each\n  nagaya seed desk.toml --tenants 10 --items 1000\n\nThe first tenant is the one that the token \
                        of `nagaya serve` is for. A directory has one process at a time: stop the server before."
)]
pub(super) struct Args {
    /// A built-in system, or the file of a design
    #[arg(value_name = "SYSTEM|DESIGN.toml")]
    system: String,
    /// How many tenants
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    tenants: u32,
    /// How many items of each entity a tenant gets, if there are so many different ones
    ///
    /// If no number is given it is 50; a household of kondate gets 200 recipes, and all that belongs to them.
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    items: Option<u32>,
    /// Another number gives other data
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// The day that the data leads up to; that of an earlier run or today if none is given
    #[arg(long, value_name = "DATE")]
    until: Option<Date>,
    #[command(flatten)]
    place: Place,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let Some(system) = source::system(&args.system, args.place.store.engine(), &args.place.notes())? else {
        return Ok(Outcome::FoundProblem);
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // The name as it was given: the file of a design may be called like a system that is built in.
    let stories = systems::stories(&args.system, &system.design)?;
    let report = runtime.block_on(fill::fill(args, &system, &stories))?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{:#}", report.json())?;
    } else {
        write!(out, "{}", report.table())?;
    }
    eprint!("{}", report.notes());
    Ok(if report.is_complete() { Outcome::Fine } else { Outcome::FoundProblem })
}
