//! The port's `ensure`: what is missing is made, and nothing else is touched.

use nagaya_store::{Error, ErrorKind, TableSpec};

use super::{Plan, Step, Wanted, wait};
use crate::engine::Dynamodb;

/// How often the tables are looked at again while others change them too.
const MOST_ROUNDS: usize = 10;

/// Creates tables and indexes that are missing, if none of them contradicts what is there.
pub(crate) async fn ensure(engine: &Dynamodb, tables: &[TableSpec]) -> Result<(), Error> {
    check(tables)?;
    let mut wanted: Vec<Wanted> = Vec::new();
    for spec in tables {
        if wanted.iter().all(|other| other.spec != *spec) {
            wanted.push(Wanted { stream: engine.options.changes, ..Wanted::new(spec.clone()) });
        }
    }
    let mut skipped = 0;
    for _ in 0..MOST_ROUNDS {
        let plan = planned(engine, &wanted).await?;
        if plan.steps() <= skipped {
            break;
        }
        // Others may make the same tables at the same time: what they have done is seen in the next round.
        let left_out = engine.apply_tables(&plan, &mut |_| {}).await?;
        if left_out.iter().any(|(_, step)| matches!(step, Step::AddIndex(_))) {
            return Err(ErrorKind::Unsupported("add an index to a table that is there").into());
        }
        skipped = left_out.len();
    }
    for wanted in wanted {
        wait::settled(engine, &wanted.spec.name, &mut |_| {}).await?;
        let learned = engine.learn(&wanted.spec.name).await?;
        // A server without expiry takes no attribute. It is kept in mind, and expired items are not returned.
        if learned.spec.ttl.is_none() && wanted.spec.ttl.is_some() {
            engine.remember(TableSpec { ttl: wanted.spec.ttl, ..learned.spec.clone() });
        }
    }
    Ok(())
}

async fn planned(engine: &Dynamodb, wanted: &[Wanted]) -> Result<Plan, Error> {
    let mut plan = engine.plan_tables(wanted, false).await?;
    for (table, wanted) in plan.tables.iter_mut().zip(wanted) {
        table.steps.retain(|step| match step {
            Step::AddIndex(index) if !engine.options.adds_indexes => {
                let (table, index) = (&table.table, &index.name);
                tracing::warn!(table, index, "an index is missing; what needs it is refused until it is rolled out");
                false
            }
            _ => true,
        });
        // How a table is paid for is not the port's business.
        table.steps.retain(|step| wanted.throughput.is_some() || !matches!(step, Step::Throughput(_)));
    }
    match plan.conflicts().as_slice() {
        [] => Ok(plan),
        conflicts => Err(Error::invalid(format!("the table {}", conflicts.join("; the table ")))),
    }
}

/// Whether the tables contradict each other.
fn check(tables: &[TableSpec]) -> Result<(), Error> {
    for (at, spec) in tables.iter().enumerate() {
        if tables[..at].iter().any(|earlier| earlier.name == spec.name && earlier != spec) {
            return Err(Error::invalid(format!("the table `{}` is asked for in two forms", spec.name)));
        }
        let names = spec.indexes.iter().map(|index| &index.name);
        if names.enumerate().any(|(at, name)| spec.indexes[..at].iter().any(|other| other.name == *name)) {
            return Err(Error::invalid(format!("the table `{}` has two indexes with one name", spec.name)));
        }
    }
    Ok(())
}
