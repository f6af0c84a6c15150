//! The systems that are built in.

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context as _, bail};
use nagaya_design::{Design, load_checked};
use nagaya_kondate::{LocalPayments, NoPayments, PaymentProvider, SubscriptionPlans};
use nagaya_server::System;
use nagaya_store::files::FileCipher;
use nagaya_todo::LongNoteStorage;

/// A system that is built in.
struct BuiltIn {
    name: &'static str,
    design: &'static str,
    register: fn(&'static str, Design, Resources) -> anyhow::Result<System>,
}

/// What systems need besides a store.
#[derive(Debug, Clone, Default)]
pub(crate) struct Resources {
    /// The directory for large objects beside the store; `None` keeps them in memory.
    pub(crate) objects: Option<ObjectDirectory>,
    /// Parts that are for development are off, such as the payment provider that takes no money.
    pub(crate) is_production: bool,
    /// What users can subscribe to; `None`: nothing in production, and plans for development elsewhere.
    pub(crate) subscription_plans: Option<SettingsFile>,
}

/// A file with settings that a system understands.
#[derive(Debug, Clone)]
pub(crate) struct SettingsFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// The directory for large objects beside the store.
#[derive(Debug, Clone)]
pub(crate) struct ObjectDirectory {
    pub(crate) directory: PathBuf,
    /// Encrypts them, if the store is encrypted.
    pub(crate) cipher: Arc<dyn FileCipher>,
}

const BUILT_IN_SYSTEMS: [BuiltIn; 5] = [
    BuiltIn { name: "aiagent", design: nagaya_aiagent::SINGLE_DESIGN, register: aiagent },
    BuiltIn { name: "aiagent-multi", design: nagaya_aiagent::MULTI_DESIGN, register: aiagent },
    BuiltIn { name: "todo", design: nagaya_todo::DESIGN, register: todo },
    BuiltIn { name: "kondate", design: nagaya_kondate::DESIGN, register: kondate },
    BuiltIn {
        name: "management",
        design: include_str!("../../../systems/management/design/management.toml"),
        register: plain,
    },
];

/// Their names.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN_SYSTEMS.iter().map(|system| system.name)
}

/// Their names, for people.
pub(crate) fn known_names() -> String {
    names().collect::<Vec<_>>().join(", ")
}

/// All of them.
pub(crate) fn all(resources: &Resources) -> anyhow::Result<Vec<System>> {
    // One after the other: side by side they would leave memory in several heaps that the server does not need again.
    names().filter_map(|name| find(name, resources).transpose()).collect()
}

/// The system with this name.
pub(crate) fn find(name: &str, resources: &Resources) -> anyhow::Result<Option<System>> {
    let Some(system) = BUILT_IN_SYSTEMS.iter().find(|system| system.name == name) else { return Ok(None) };
    let Some(design) = load_checked(system.design) else { bail!("the design of {name} is not sound") };
    (system.register)(system.name, design, resources.clone()).map(Some)
}

/// The text of the design of the system with this name.
pub(crate) fn design_text(name: &str) -> Option<&'static str> {
    BUILT_IN_SYSTEMS.iter().find(|system| system.name == name).map(|system| system.design)
}

fn plain(name: &'static str, design: Design, _: Resources) -> anyhow::Result<System> {
    Ok(System::named(name, design))
}

fn aiagent(name: &'static str, design: Design, _: Resources) -> anyhow::Result<System> {
    Ok(nagaya_aiagent::system(name, design))
}

fn kondate(name: &'static str, design: Design, resources: Resources) -> anyhow::Result<System> {
    let payments: Arc<dyn PaymentProvider> = match resources.is_production {
        true => Arc::new(NoPayments),
        false => Arc::new(LocalPayments::default()),
    };
    let plans = match &resources.subscription_plans {
        Some(SettingsFile { path, text }) => {
            SubscriptionPlans::from_json(text).with_context(|| format!("correct the subscription plans in {path}"))?
        }
        None if resources.is_production => SubscriptionPlans::default(),
        None => SubscriptionPlans::for_development(),
    };
    Ok(nagaya_kondate::system(name, design, payments, plans))
}

fn todo(name: &'static str, design: Design, resources: Resources) -> anyhow::Result<System> {
    let in_directory =
        |objects: ObjectDirectory| LongNoteStorage::in_directory(objects.directory).encrypted_by(objects.cipher);
    let notes = resources.objects.map_or_else(LongNoteStorage::in_memory, in_directory);
    Ok(nagaya_todo::system(name, design, notes)?)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_built_in_system_is_sound() {
        for system in &super::BUILT_IN_SYSTEMS {
            let checked = nagaya_design::check(system.design, &[]);
            assert!(checked.design.is_some(), "{}: {:?}", system.name, checked.diagnostics);
        }
        for name in super::names() {
            let found = super::find(name, &super::Resources::default()).expect("it is sound");
            assert!(found.is_some_and(|system| system.name == name), "{name}");
        }
    }
}
