//! `cargo xtask mutate`: changes the guards, one change at a time, to verify that the tests notice.
//!
//! All mutants are compiled once, each behind a switch (`instrument.rs`, `tree.rs`). The tests run once without an active mutant,
//! which tells the mutants that each reaches. Then each mutant runs with the tests that reach it, until one fails: first those of its own
//! package, in the order in which they promise to notice it.

mod attempts;
mod guarded;
mod instrument;
mod tree;

use std::time::Instant;

use anyhow::bail;

use self::guarded::{EQUIVALENT, GUARDED};
use crate::run::root;

/// What is mutated.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Task {
    /// The modules that separate tenants and users, and those that check tokens and roles
    Walls(Args),
}

/// Arguments of the task.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only mutants whose file, function or change contains one of these
    #[arg(long)]
    only: Vec<String>,
    /// Only the mutants that survived the last run
    #[arg(long)]
    survivors: bool,
    /// Processes that run tests concurrently
    #[arg(long, default_value_t = std::thread::available_parallelism().map_or(2, std::num::NonZero::get))]
    jobs: usize,
}

pub(crate) fn run(task: &Task) -> anyhow::Result<()> {
    let Task::Walls(args) = task;
    let (start, list) = (Instant::now(), root().join("target/mutants/survivors"));
    let tree = tree::build(&GUARDED)?;
    eprintln!("== {} mutants; {} do not compile; {:.0?}", tree.mutants.len(), tree.unviable, start.elapsed());
    let tests = attempts::observe(&tree.executables, args.jobs)?;
    eprintln!("== {} tests; {:.0?}", tests.len(), start.elapsed());
    let is_equivalent = |name: &str| EQUIVALENT.iter().any(|(equivalent, _)| *equivalent == name);
    let survived = match args.survivors {
        true => Some(attempts::read(&list)?),
        false => None,
    };
    let is_chosen = |name: &str| {
        (args.only.is_empty() || args.only.iter().any(|only| name.contains(only)))
            && survived.as_ref().is_none_or(|survived| survived.contains(name))
    };
    let chosen = tree.mutants.iter().filter(|mutant| is_chosen(&mutant.name) && !is_equivalent(&mutant.name));
    let chosen: Vec<_> = chosen.collect();
    let survivors = attempts::survivors(&chosen, &tests, args.jobs, &list)?;
    for mutant in &survivors {
        println!("line {} of {}", mutant.line, mutant.name);
    }
    println!("{} mutants, {} survived, {:.0?}", chosen.len(), survivors.len(), start.elapsed());
    if !survivors.is_empty() {
        bail!("{} mutants survived; see target/mutants/survivors", survivors.len());
    }
    Ok(())
}
