//! The designs that are served.

use std::path::Path;

use nagaya_design::{Design, Diagnostic, Engine, Severity, check};
use nagaya_server::System;

use super::{Check, Finding};
use crate::{
    serve, source,
    systems::{self, Resources},
};

/// Checks the designs; the systems that can be served.
pub(super) fn examine(args: &serve::Args, findings: &mut Vec<Finding>) -> Vec<System> {
    let resources = Resources { is_production: args.network.is_production(), ..args.store.resources() };
    let resources = match args.plans.add_to(resources) {
        Ok(resources) => resources,
        Err(error) => {
            findings.push(Check::Designs.problem(format!("{error:#}"), "`nagaya serve` refuses this setting"));
            return Vec::new();
        }
    };
    let all = || systems::names().map(str::to_owned).collect();
    let names = if args.systems.is_empty() { Ok(all()) } else { source::names(&args.systems) };
    let names = match names {
        Ok(names) => names,
        Err(error) => {
            findings.push(Check::Designs.problem(format!("{error:#}"), "name the systems as for `nagaya serve`"));
            return Vec::new();
        }
    };
    let mut served = Vec::new();
    let engine = args.store.kind.engine();
    for name in names {
        match examine_one(&name, args, &resources) {
            Ok((system, warnings)) => {
                served.push(system);
                findings.push(match warnings.as_slice() {
                    [] => Check::Designs.ok(format!("{name} has no warnings without an explanation")),
                    warnings => {
                        let found = format!("{name} has warnings without an explanation: {}", warnings.join(", "));
                        Check::Designs.warning(found, format!("look at `nagaya check {name} --engine {engine}`"))
                    }
                });
            }
            Err(why) => findings.push(
                Check::Designs.problem(why, format!("correct what `nagaya check {name} --engine {engine}` shows")),
            ),
        }
    }
    served
}

/// The system, and the codes of its warnings that nobody has explained.
fn examine_one(name: &str, args: &serve::Args, resources: &Resources) -> Result<(System, Vec<&'static str>), String> {
    let text = match systems::design_text(name) {
        Some(text) => text.to_owned(),
        None => source::read(Path::new(name)).map_err(|error| format!("{error:#}"))?.text,
    };
    let engine = args.store.kind.engine();
    let checked = check(&text, &[engine]);
    let is_open = |each: &&Diagnostic| {
        let is_left = checked.design.as_ref().is_some_and(|design| is_only_encryption(each, design, engine));
        each.severity() == Severity::Warning && each.explained.is_none() && !is_left
    };
    let mut warnings: Vec<_> = checked.diagnostics.iter().filter(is_open).map(|each| each.code.id).collect();
    warnings.sort_unstable();
    warnings.dedup();
    let built_in = systems::find(name, resources).map_err(|error| format!("{error:#}"))?;
    let system = built_in.or_else(|| checked.design.map(System::plain));
    system.map(|system| (system, warnings)).ok_or_else(|| format!("{name} has errors"))
}

/// Whether a warning is only about the encryption of a table: the check of the encryption knows whether the store has a key.
fn is_only_encryption(warning: &Diagnostic, design: &Design, engine: Engine) -> bool {
    let mut tables = design.tables.iter().filter(|table| table.span() == warning.span());
    warning.code.id == "NG0906" && tables.any(|table| table.ignored_settings(engine) == ["encryption"])
}
