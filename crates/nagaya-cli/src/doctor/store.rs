//! The store and its tables.

use nagaya_server::System;

use super::{Check, Finding};
use crate::serve::{self, StoreKind};

pub(super) async fn examine(args: &serve::Args, systems: &[System], findings: &mut Vec<Finding>) {
    match args.store.kind {
        StoreKind::Memory => {
            let remedy = "use --store embedded or --store dynamodb";
            findings.push(Check::Tables.problem("memory: nothing is kept", remedy));
        }
        StoreKind::Embedded => {
            findings
                .push(Check::Tables.ok("the embedded store creates its tables, and `nagaya store verify` checks them"));
        }
        StoreKind::Dynamodb => dynamodb(args, systems, findings).await,
        StoreKind::Cosmos => {
            findings.push(Check::Tables.problem("there is no engine for Cosmos DB yet", "use another store"));
        }
    }
}

#[cfg(feature = "dynamodb")]
async fn dynamodb(args: &serve::Args, systems: &[System], findings: &mut Vec<Finding>) {
    for system in systems {
        let name = &system.name;
        let remedy = format!("look at `nagaya tables plan {name} --store dynamodb`, and apply it");
        let plan = crate::tables::dynamodb_plan(system.design.clone(), args.store.base.clone()).await;
        findings.push(match plan {
            Err(error) => Check::Tables.problem(format!("the tables of {name} cannot be read: {error:#}"), remedy),
            Ok(plan) if !plan.conflicts().is_empty() => Check::Tables
                .problem(format!("the tables of {name} are others: {}", plan.conflicts().join("; ")), remedy),
            Ok(plan) => match plan.step_count() {
                0 => Check::Tables.ok(format!("the tables of {name} are as the design says")),
                steps => Check::Tables.problem(
                    format!(
                        "the tables of {name} differ from the design in {}",
                        crate::output::counted(steps as u64, "point")
                    ),
                    remedy,
                ),
            },
        });
    }
}

#[cfg(not(feature = "dynamodb"))]
async fn dynamodb(_: &serve::Args, _: &[System], findings: &mut Vec<Finding>) {
    findings.push(Check::Tables.problem("this build has no DynamoDB engine", "use a release build"));
}
