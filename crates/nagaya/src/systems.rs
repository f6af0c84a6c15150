//! The systems that are built in.

use anyhow::bail;
use nagaya_design::{Design, read_checked};
use nagaya_server::System;

/// A system that is built in.
struct BuiltIn {
    name: &'static str,
    design: &'static str,
    make: fn(&'static str, Design) -> System,
}

const ALL: [BuiltIn; 5] = [
    BuiltIn {
        name: "aiagent",
        design: include_str!("../../../systems/aiagent/design/single.toml"),
        make: nagaya_aiagent::system,
    },
    BuiltIn {
        name: "aiagent-multi",
        design: include_str!("../../../systems/aiagent/design/multi.toml"),
        make: nagaya_aiagent::system,
    },
    BuiltIn { name: "todo", design: include_str!("../../../systems/todo/design/todo.toml"), make: plain },
    BuiltIn { name: "kondate", design: include_str!("../../../systems/kondate/design/kondate.toml"), make: plain },
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

/// All of them.
pub(crate) fn all() -> anyhow::Result<Vec<System>> {
    // One after the other: side by side they leave memory in several heaps that the server does not need again.
    names().filter_map(|name| find(name).transpose()).collect()
}

/// The system with this name.
pub(crate) fn find(name: &str) -> anyhow::Result<Option<System>> {
    let Some(system) = ALL.iter().find(|system| system.name == name) else { return Ok(None) };
    let Some(design) = read_checked(system.design) else { bail!("the design of {name} is not sound") };
    Ok(Some((system.make)(system.name, design)))
}

fn plain(name: &'static str, design: Design) -> System {
    System::named(name, design)
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
            assert!(super::find(name).is_ok_and(|found| found.is_some_and(|system| system.name == name)), "{name}");
        }
    }
}
