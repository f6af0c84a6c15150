//! Plans and tables, for people and for programs.

use std::fmt::Write as _;

use nagaya_dynamodb::{DesiredTable, IndexState, TablePlan, TableState, TablesPlan};
use serde_json::{Value, json};

use crate::output::counted;

// Writing to a string does not fail, so what it answers is dropped in this file.

pub(super) fn plan_text(plan: &TablesPlan, wanted: &[DesiredTable], stage: Option<usize>, address: &str) -> String {
    let mut out = String::new();
    let of = match stage {
        Some(stage) => format!(", stage {stage} of {}", stages(wanted)),
        None => String::new(),
    };
    let _ = writeln!(out, "{} on {address}{of}", counted(plan.tables.len() as u64, "table"));
    for table in &plan.tables {
        let _ = writeln!(out, "{}", table.table);
        lines(&mut out, table);
    }
    let next: Vec<_> = next(wanted).into_iter().map(|(table, index)| format!("{index} to {table}")).collect();
    if let (Some(stage), false) = (stage, next.is_empty()) {
        let _ = writeln!(out, "stage {} would add {}", stage + 1, next.join(", "));
    }
    let unsupported: Vec<_> = plan.unsupported().into_iter().collect();
    if !unsupported.is_empty() {
        let _ = writeln!(out, "left out, because this server does not have it: {}", unsupported.join(", "));
    }
    let conflicts = plan.conflicts().len();
    let _ = match (plan.step_count(), conflicts) {
        (0, 0) => writeln!(out, "nothing to do"),
        (steps, 0) => writeln!(out, "{}", counted(steps as u64, "step")),
        (steps, conflicts) => {
            writeln!(out, "{}, {}", counted(steps as u64, "step"), counted(conflicts as u64, "conflict"))
        }
    };
    out
}

fn lines(out: &mut String, table: &TablePlan) {
    for conflict in &table.conflicts {
        let _ = writeln!(out, "  conflict: {conflict}");
    }
    for step in &table.steps {
        let _ = writeln!(out, "  {step}");
    }
    for index in &table.not_in_design {
        let _ = writeln!(out, "  not in the design: {index} (--prune removes it)");
    }
    for note in &table.notes {
        let _ = writeln!(out, "  note: {note}");
    }
    if table.steps.is_empty() && table.conflicts.is_empty() {
        let _ = writeln!(out, "  nothing to do");
    }
}

pub(super) fn plan_json(plan: &TablesPlan, wanted: &[DesiredTable], stage: Option<usize>) -> Value {
    let tables = plan.tables.iter().map(|table| {
        let steps = table.steps.iter().map(|step| json!({ "kind": step.code(), "description": step.to_string() }));
        json!({
            "table": table.table,
            "steps": steps.collect::<Vec<_>>(),
            "conflicts": table.conflicts,
            "notInDesign": table.not_in_design,
            "unsupported": table.unsupported,
            "notes": table.notes,
        })
    });
    let next = next(wanted).into_iter().map(|(table, index)| json!({ "table": table, "index": index }));
    json!({
        "ok": plan.conflicts().is_empty(),
        "stepCount": plan.step_count(),
        "stage": stage,
        "stageCount": stages(wanted),
        "nextIndexes": next.collect::<Vec<_>>(),
        "tables": tables.collect::<Vec<_>>(),
    })
}

pub(super) fn applied_text(plan: &TablesPlan, skipped: &[(String, &str)]) -> String {
    let mut out = String::new();
    for (table, step) in skipped {
        let _ = writeln!(out, "{table}: this server has no {step}: left out");
    }
    if plan.step_count() == 0 {
        return out;
    }
    let changed = plan.tables.iter().filter(|table| !table.steps.is_empty()).count();
    let done = counted((plan.step_count() - skipped.len()) as u64, "step");
    let _ = writeln!(out, "{done} done on {}", counted(changed as u64, "table"));
    out
}

pub(super) fn applied_json(plan: &TablesPlan, skipped: &[(String, &str)]) -> Value {
    let skipped: Vec<_> = skipped.iter().map(|(table, step)| json!({ "table": table, "kind": step })).collect();
    json!({ "ok": true, "appliedSteps": plan.step_count() - skipped.len(), "skipped": skipped })
}

pub(super) fn status_text(looks: &[TableState]) -> String {
    let mut out = String::new();
    for look in looks {
        let _ = writeln!(out, "{}", look.table);
        let Some(state) = &look.status else {
            let _ = writeln!(out, "  not there");
            continue;
        };
        let _ = writeln!(out, "  {state}, about {}, {} bytes", counted(look.items.unsigned_abs(), "item"), look.bytes);
        for index in &look.indexes {
            let _ = writeln!(out, "  index {} {}", index.name, index_state(index, look.items));
        }
    }
    out
}

fn index_state(index: &IndexState, items: i64) -> String {
    let Some(state) = &index.status else { return "not there".to_owned() };
    let filled = match index.items {
        Some(filled) if index.backfilling => format!(", about {filled} of {items} items filled in"),
        _ => String::new(),
    };
    let unknown = if index.in_design { "" } else { ", not in the design" };
    format!("{state}{filled}{unknown}")
}

pub(super) fn status_json(looks: &[TableState]) -> Value {
    let tables = looks.iter().map(|look| {
        let indexes = look.indexes.iter().map(|index| {
            json!({
                "name": index.name,
                "state": index.status,
                "backfilling": index.backfilling,
                "items": index.items,
                "inDesign": index.in_design,
            })
        });
        json!({
            "table": look.table,
            "state": look.status,
            "items": look.items,
            "bytes": look.bytes,
            "indexes": indexes.collect::<Vec<_>>(),
        })
    });
    json!({ "tables": tables.collect::<Vec<_>>() })
}

/// The index that the next stage adds to each table.
fn next(wanted: &[DesiredTable]) -> Vec<(&str, &str)> {
    wanted.iter().filter_map(|table| Some((table.spec.name.as_str(), table.next_index()?.name.as_str()))).collect()
}

/// The last stage, which has all indexes.
fn stages(wanted: &[DesiredTable]) -> usize {
    wanted.iter().map(|table| table.spec.indexes.len()).max().unwrap_or(0)
}
