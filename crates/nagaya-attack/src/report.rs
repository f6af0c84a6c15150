//! The report of a run.

use std::fmt;

use super::scenario::Failure;

/// The report of a run.
#[derive(Debug, Clone)]
pub struct Report {
    /// The cases, with the attacker's name in front.
    pub cases: Vec<(String, Outcome)>,
    /// The seed of the random choices.
    pub seed: u64,
}

/// The result of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The walls hold.
    Passed,
    /// They do not: the reason.
    Failed(String),
    /// The design has nothing that the case could attack.
    Skipped(&'static str),
}

impl Report {
    pub(super) fn new(seed: u64) -> Self {
        Report { cases: Vec::new(), seed }
    }

    pub(super) fn add(&mut self, attacker: &str, area: &str, function: &str, outcome: Result<(), Failure>) {
        let name = format!("{attacker:?} {area}: {}", function.replace('_', " "));
        let outcome = match outcome {
            Ok(()) => Outcome::Passed,
            Err(Failure::Nothing(reason)) => Outcome::Skipped(reason),
            Err(failure) => Outcome::Failed(failure.to_string()),
        };
        self.cases.push((name, outcome));
    }

    /// Prints the report.
    ///
    /// # Panics
    ///
    /// When a case failed, or when nothing could be tried; the message lists all that failed.
    pub fn assert(&self) {
        let of = |wanted: fn(&Outcome) -> bool| self.cases.iter().filter(|(_, outcome)| wanted(outcome)).count();
        let (failed, passed) =
            (of(|outcome| matches!(outcome, Outcome::Failed(_))), of(|outcome| *outcome == Outcome::Passed));
        assert!(failed == 0 && passed > 0, "{self}");
        eprintln!("{self}");
    }
}

impl fmt::Display for Report {
    /// Lists failed and skipped cases, and counts all.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut passed, mut failed, mut skipped) = (0, 0, 0);
        for (name, outcome) in &self.cases {
            match outcome {
                Outcome::Passed => passed += 1,
                Outcome::Failed(reason) => {
                    failed += 1;
                    writeln!(f, "failed   {name}\n         {reason}")?;
                }
                Outcome::Skipped(reason) => {
                    skipped += 1;
                    writeln!(f, "skipped  {name} (the design has {reason})")?;
                }
            }
        }
        write!(f, "attack: {passed} passed, {failed} failed, {skipped} skipped (seed {})", self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "failed   \"t1\" ids: ids of other tenants are not found\n         one is")]
    fn a_failed_case_panics_with_its_name_and_reason() {
        let mut report = Report::new(7);
        report.add("t1", "ids", "ids_of_other_tenants_are_not_found", Err(Failure::new("one is")));
        report.assert();
    }

    #[test]
    #[should_panic(expected = "attack: 0 passed, 0 failed, 0 skipped (seed 7)")]
    fn a_run_without_cases_fails() {
        Report::new(7).assert();
    }

    #[test]
    fn skipped_cases_are_reported_with_their_reason() {
        let mut report = Report::new(7);
        report.add("t1", "ids", "hold", Ok(()));
        report.add("t1", "lists", "hold", Err(Failure::Nothing("no access patterns")));
        report.assert();
        let text = "skipped  \"t1\" lists: hold (the design has no access patterns)\n\
                    attack: 1 passed, 0 failed, 1 skipped (seed 7)";
        assert_eq!(report.to_string(), text);
    }
}
