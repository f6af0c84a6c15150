//! The report of a run.

use std::fmt;

/// The report of a run.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The cases, in the order of the contract.
    pub cases: Vec<(String, Outcome)>,
}

/// The result of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The engine keeps the contract.
    Passed,
    /// It does not: the reason.
    Failed(String),
    /// The engine lacks a capability: its name.
    Skipped(&'static str),
}

impl Report {
    /// Prints the report.
    ///
    /// # Panics
    ///
    /// When a case failed; the message lists all that did.
    pub fn assert(&self) {
        let failed = self.cases.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Failed(_))).count();
        assert!(failed == 0, "{self}");
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
                Outcome::Skipped(missing) => {
                    skipped += 1;
                    writeln!(f, "skipped  {name} (the engine lacks {missing})")?;
                }
            }
        }
        write!(f, "contract: {passed} passed, {failed} failed, {skipped} skipped")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "failed   items: a put item is read back\n         it is not there")]
    fn a_failed_case_panics_with_its_name_and_reason() {
        let name = "items: a put item is read back".to_owned();
        Report { cases: vec![(name, Outcome::Failed("it is not there".to_owned()))] }.assert();
    }

    #[test]
    fn a_skipped_case_is_listed_with_the_missing_capability() {
        let report = Report {
            cases: vec![
                ("items: passes".to_owned(), Outcome::Passed),
                ("changes: order".to_owned(), Outcome::Skipped("changes")),
            ],
        };
        report.assert();
        assert_eq!(
            report.to_string(),
            "skipped  changes: order (the engine lacks changes)\ncontract: 1 passed, 0 failed, 1 skipped"
        );
    }
}
