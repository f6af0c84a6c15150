//! The systems that are built in.

use std::thread;

use anyhow::bail;
use nagaya_design::{Design, check};
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

/// All of them. They are checked side by side: most of the time that a server takes to start goes there.
pub(crate) fn all() -> anyhow::Result<Vec<System>> {
    let found: Vec<_> = thread::scope(|scope| {
        let checking: Vec<_> = names().map(|name| scope.spawn(move || find(name))).collect();
        checking.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    found.into_iter().filter_map(|found| found.unwrap_or_else(|_| Ok(None)).transpose()).collect()
}

/// The system with this name.
pub(crate) fn find(name: &str) -> anyhow::Result<Option<System>> {
    let Some(system) = ALL.iter().find(|system| system.name == name) else { return Ok(None) };
    let Some(design) = check(system.design, &[]).design else { bail!("the design of {name} is not sound") };
    Ok(Some((system.make)(system.name, design)))
}

fn plain(name: &'static str, design: Design) -> System {
    System::named(name, design)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_built_in_system_is_sound() {
        for name in super::names() {
            assert!(super::find(name).is_ok_and(|found| found.is_some_and(|system| system.name == name)), "{name}");
        }
    }
}
