//! The port's `ensure`: creates what is missing and changes nothing else.

use nagaya_store::{Error, ErrorKind, TableSpec};

use super::{DesiredTable, Step, TablesPlan, wait};
use crate::engine::Dynamodb;

/// How often a new plan is made while other processes change the tables.
const MAX_REPLANS: usize = 10;

/// Creates missing tables and indexes, unless an existing table is in conflict.
pub(crate) async fn ensure(engine: &Dynamodb, tables: &[TableSpec]) -> Result<(), Error> {
    check(tables)?;
    let mut wanted: Vec<DesiredTable> = Vec::new();
    for spec in tables {
        if wanted.iter().all(|other| other.spec != *spec) {
            wanted.push(DesiredTable { stream: engine.options.changes, ..DesiredTable::new(spec.clone()) });
        }
    }
    let mut skipped = 0;
    for _ in 0..MAX_REPLANS {
        let plan = planned(engine, &wanted).await?;
        if plan.step_count() <= skipped {
            break;
        }
        // Another process may create the same tables at the same time: the next round sees them.
        let left_out = engine.apply_tables(&plan, &mut |_| {}).await?;
        if left_out.iter().any(|(_, step)| matches!(step, Step::AddIndex(_))) {
            return Err(ErrorKind::Unsupported("add an index to an existing table").into());
        }
        skipped = left_out.len();
    }
    for wanted in wanted {
        wait::until_active(engine, &wanted.spec.name, &mut |_| {}).await?;
        let described = engine.describe_table(&wanted.spec.name).await?;
        // The server does not support TTL. The engine keeps the attribute, and does not return expired items.
        if described.spec.ttl.is_none() && wanted.spec.ttl.is_some() {
            engine.cache_table(TableSpec { ttl: wanted.spec.ttl, ..described.spec.clone() });
        }
    }
    Ok(())
}

async fn planned(engine: &Dynamodb, wanted: &[DesiredTable]) -> Result<TablesPlan, Error> {
    let mut plan = engine.plan_tables(wanted, false).await?;
    for (table, wanted) in plan.tables.iter_mut().zip(wanted) {
        table.steps.retain(|step| match step {
            Step::AddIndex(index) if !engine.options.adds_missing_indexes => {
                let (table, index) = (&table.table, &index.name);
                tracing::warn!(
                    table,
                    index,
                    "an index is missing; queries on it fail until `nagaya tables apply` adds it"
                );
                false
            }
            _ => true,
        });
        // The port does not know billing modes.
        table.steps.retain(|step| wanted.throughput.is_some() || !matches!(step, Step::SetThroughput(_)));
    }
    match plan.conflicts().as_slice() {
        [] => Ok(plan),
        conflicts => Err(Error::invalid(format!("the table {}", conflicts.join("; the table ")))),
    }
}

/// Rejects tables that contradict each other.
fn check(tables: &[TableSpec]) -> Result<(), Error> {
    for (at, spec) in tables.iter().enumerate() {
        if tables[..at].iter().any(|earlier| earlier.name == spec.name && earlier != spec) {
            return Err(Error::invalid(format!("the table `{}` is specified twice, differently", spec.name)));
        }
        let names = spec.indexes.iter().map(|index| &index.name);
        if names.enumerate().any(|(at, name)| spec.indexes[..at].iter().any(|other| other.name == *name)) {
            return Err(Error::invalid(format!("the table `{}` has two indexes with one name", spec.name)));
        }
    }
    Ok(())
}
