//! The steps of a walk, one after the other.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value as Json, json};

/// The steps so far.
pub(super) struct Walk {
    /// Whether each step is told as it is gone.
    told: bool,
    steps: Vec<Step>,
}

struct Step {
    name: &'static str,
    took: Duration,
    /// Why it failed, or why it was not gone.
    note: Option<String>,
    ok: bool,
}

impl Walk {
    pub(super) fn new(told: bool) -> Self {
        Walk { told, steps: Vec::new() }
    }

    /// Goes a step.
    pub(super) fn step<T>(&mut self, name: &'static str, go: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        let began = Instant::now();
        let gone = go();
        let note = gone.as_ref().err().map(|error| format!("{error:#}"));
        self.add(Step { name, took: began.elapsed(), ok: note.is_none(), note });
        gone.with_context(|| format!("it ended at: {name}"))
    }

    /// Leaves a step out, and says why.
    pub(super) fn leave_out(&mut self, name: &'static str, why: &str) {
        self.add(Step { name, took: Duration::ZERO, note: Some(why.to_owned()), ok: true });
    }

    /// How many steps there were, and how many of them were left out.
    pub(super) fn summary(&self) -> String {
        let all = self.steps.len();
        match self.steps.iter().filter(|step| step.ok && step.note.is_some()).count() {
            0 => format!("{all} steps, all fine"),
            left_out => format!("{all} steps, {left_out} left out, all others fine"),
        }
    }

    pub(super) fn json(&self) -> Vec<Json> {
        let step = |step: &Step| json!({ "name": step.name, "ok": step.ok, "millis": step.took.as_secs_f64() * 1e3, "note": step.note });
        self.steps.iter().map(step).collect()
    }

    fn add(&mut self, step: Step) {
        if self.told {
            let mark = match (step.ok, &step.note) {
                (false, _) => "failed",
                (true, Some(_)) => "left out",
                (true, None) => "ok",
            };
            let note = step.note.as_ref().map(|note| format!("  {note}")).unwrap_or_default();
            println!("{mark:>8}  {:>7.1} ms  {}{note}", step.took.as_secs_f64() * 1e3, step.name);
        }
        self.steps.push(step);
    }
}
