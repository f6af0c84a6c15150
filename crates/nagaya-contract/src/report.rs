//! The report of a run.

use std::fmt;

/// The report of a run.
#[derive(Debug, Clone)]
pub struct Report {
    /// The cases, in the order of the suite.
    pub cases: Vec<(String, Outcome)>,
    suite: &'static str,
    /// What comes before the reason of a skipped case.
    lack: &'static str,
    /// The seed of the random choices.
    seed: Option<u64>,
}

/// The result of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It holds.
    Passed,
    /// It does not: the reason.
    Failed(String),
    /// It could not be tried: what is missing.
    Skipped(&'static str),
}

impl Report {
    /// An empty report of a suite. A case is skipped because of a `lack`, such as "the engine lacks".
    pub fn new(suite: &'static str, lack: &'static str, seed: Option<u64>) -> Self {
        Report { cases: Vec::new(), suite, lack, seed }
    }

    /// Adds a case by its area and the name of its function.
    pub fn add(&mut self, area: &str, function: &str, outcome: Outcome) {
        self.cases.push((format!("{area}: {}", function.replace('_', " ")), outcome));
    }

    /// Prints the report.
    ///
    /// # Panics
    ///
    /// When a case failed, or when nothing could be tried; the message lists all that failed.
    pub fn assert(&self) {
        let is_failed = |(_, outcome): &(String, Outcome)| matches!(outcome, Outcome::Failed(_));
        let has_passed = self.cases.iter().any(|(_, outcome)| *outcome == Outcome::Passed);
        assert!(has_passed && !self.cases.iter().any(is_failed), "{self}");
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
                    writeln!(f, "skipped  {name} ({} {missing})", self.lack)?;
                }
            }
        }
        write!(f, "{}: {passed} passed, {failed} failed, {skipped} skipped", self.suite)?;
        self.seed.map_or(Ok(()), |seed| write!(f, " (seed {seed})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "failed   items: a put item is read back\n         it is not there")]
    fn a_failed_case_panics_with_its_name_and_reason() {
        let mut report = Report::new("contract", "the engine lacks", None);
        report.add("items", "a_put_item_is_read_back", Outcome::Failed("it is not there".to_owned()));
        report.assert();
    }

    #[test]
    #[should_panic(expected = "attack: 0 passed, 0 failed, 0 skipped (seed 7)")]
    fn a_run_that_tried_nothing_shows_nothing() {
        Report::new("attack", "the design has", Some(7)).assert();
    }

    #[test]
    fn a_skipped_case_is_listed_with_what_is_missing() {
        let mut report = Report::new("contract", "the engine lacks", None);
        report.add("items", "passes", Outcome::Passed);
        report.add("changes", "order", Outcome::Skipped("changes"));
        report.assert();
        assert_eq!(
            report.to_string(),
            "skipped  changes: order (the engine lacks changes)\ncontract: 1 passed, 0 failed, 1 skipped"
        );
    }
}
