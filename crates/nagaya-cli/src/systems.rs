//! The systems that are built in.

use std::sync::Arc;

use anyhow::bail;
use nagaya_design::{Design, read_checked};
use nagaya_events::Projection;
use nagaya_kondate::LocalPayments;
use nagaya_server::System;
use nagaya_tenancy::Nagaya;
use nagaya_todo::Notes;

use crate::seed::{Household, Neighbours, Story, Todos};

/// A system that is built in.
struct BuiltIn {
    name: &'static str,
    design: &'static str,
    make: fn(&'static str, Design, &Notes) -> anyhow::Result<System>,
}

const ALL: [BuiltIn; 5] = [
    BuiltIn { name: "aiagent", design: include_str!("../../../systems/aiagent/design/single.toml"), make: aiagent },
    BuiltIn {
        name: "aiagent-multi",
        design: include_str!("../../../systems/aiagent/design/multi.toml"),
        make: aiagent,
    },
    BuiltIn { name: "todo", design: include_str!("../../../systems/todo/design/todo.toml"), make: todo },
    BuiltIn { name: "kondate", design: include_str!("../../../systems/kondate/design/kondate.toml"), make: kondate },
    BuiltIn {
        name: "management",
        design: include_str!("../../../systems/management/design/management.toml"),
        make: plain,
    },
];

/// Their names.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|system| system.name)
}

/// All of them, with long notes where they are to be.
pub(crate) fn all(notes: &Notes) -> anyhow::Result<Vec<System>> {
    // One after the other: side by side they leave memory in several heaps that the server does not need again.
    names().filter_map(|name| find(name, notes).transpose()).collect()
}

/// The system with this name.
pub(crate) fn find(name: &str, notes: &Notes) -> anyhow::Result<Option<System>> {
    let Some(system) = ALL.iter().find(|system| system.name == name) else { return Ok(None) };
    let Some(design) = read_checked(system.design) else { bail!("the design of {name} is not sound") };
    (system.make)(system.name, design, notes).map(Some)
}

/// What a system builds from the events of its aggregates.
pub(crate) fn projections(name: &str) -> Vec<Arc<dyn Projection>> {
    if name == "todo" { nagaya_todo::projections() } else { Vec::new() }
}

/// Brings everything that a system keeps in step with its changes, besides projections, up to what has been written.
pub(crate) async fn catch_up(name: &str, nagaya: &Nagaya) -> anyhow::Result<()> {
    if name == "kondate" {
        nagaya_kondate::catch_up(nagaya).await?;
    }
    Ok(())
}

/// What `nagaya seed` tells of a system, one after the other.
pub(crate) fn stories(name: &str, design: &Design) -> anyhow::Result<Vec<Box<dyn Story>>> {
    Ok(match name {
        "todo" => vec![Box::new(Todos::of(design)?)],
        "kondate" => vec![Box::new(Household), Box::new(Neighbours)],
        _ => Vec::new(),
    })
}

fn plain(name: &'static str, design: Design, _: &Notes) -> anyhow::Result<System> {
    Ok(System::named(name, design))
}

fn aiagent(name: &'static str, design: Design, _: &Notes) -> anyhow::Result<System> {
    Ok(nagaya_aiagent::system(name, design))
}

fn kondate(name: &'static str, design: Design, _: &Notes) -> anyhow::Result<System> {
    Ok(nagaya_kondate::system(name, design, Arc::new(LocalPayments::default())))
}

fn todo(name: &'static str, design: Design, notes: &Notes) -> anyhow::Result<System> {
    Ok(nagaya_todo::system(name, design, notes.clone())?)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_built_in_system_is_sound() {
        for system in &super::ALL {
            let checked = nagaya_design::check(system.design, &[]);
            assert!(checked.design.is_some(), "{}: {:?}", system.name, checked.diagnostics);
        }
        for name in super::names() {
            assert!(
                super::find(name, &super::Notes::in_memory())
                    .is_ok_and(|found| found.is_some_and(|system| system.name == name)),
                "{name}"
            );
        }
    }
}
