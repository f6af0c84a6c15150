//! Applying a plan: one step after the other, waiting for each.

use nagaya_store::{Error, ErrorKind};

use super::{Step, TablesPlan, existing, send, wait};
use crate::engine::Dynamodb;

/// The progress of applying a plan.
#[derive(Debug, Clone)]
pub enum ApplyEvent<'p> {
    /// A step starts.
    Started {
        /// The table.
        table: &'p str,
        /// The step.
        step: &'p Step,
    },
    /// The server is working on a step.
    Waiting {
        /// The table.
        table: &'p str,
        /// What the server is doing.
        what: String,
    },
    /// A step has finished.
    Finished {
        /// The table.
        table: &'p str,
        /// The step.
        step: &'p Step,
    },
    /// The server does not support the step.
    Skipped {
        /// The table.
        table: &'p str,
        /// The step.
        step: &'p Step,
    },
}

/// Applying a plan failed. Earlier steps stay applied; a new plan shows the remaining ones.
#[derive(Debug, thiserror::Error)]
#[error("stopped at the table `{table}` ({}) after {applied_steps} of {total_steps} steps: {cause}", step_text(.step.as_ref()))]
pub struct ApplyError {
    /// The table.
    pub table: String,
    /// The step that failed; `None`: waiting for the table.
    pub step: Option<Step>,
    /// How many steps were applied.
    pub applied_steps: usize,
    /// How many steps the plan has.
    pub total_steps: usize,
    /// The cause.
    #[source]
    pub cause: Error,
}

fn step_text(step: Option<&Step>) -> String {
    step.map_or_else(|| "wait for it".to_owned(), Step::to_string)
}

impl From<ApplyError> for Error {
    /// Only the cause: callers of the port did not make the plan.
    fn from(stopped: ApplyError) -> Self {
        stopped.cause
    }
}

/// How often a step is sent while the server is busy with another one.
const MAX_TRIES: usize = 200;

/// How often the table is described until an added or removed index shows.
const MAX_INDEX_CHECKS: usize = 10;

/// The result of a step.
enum Outcome {
    Applied,
    /// The server does not support it.
    Unsupported,
}

impl Dynamodb {
    /// Applies a plan, and returns the steps that the server does not support.
    ///
    /// Conflicts are skipped. All tables are created first, so that the server works on them at the same time; then each
    /// gets its other steps, indexes one at a time.
    pub async fn apply_tables<'p>(
        &self,
        plan: &'p TablesPlan,
        report: &mut (dyn FnMut(ApplyEvent<'p>) + Send),
    ) -> Result<Vec<(&'p str, &'p Step)>, ApplyError> {
        let (mut done, of) = (0, plan.step_count());
        let mut skipped = Vec::new();
        let stopped = |table: &str, step: Option<&Step>, done, cause| ApplyError {
            table: table.to_owned(),
            step: step.cloned(),
            applied_steps: done,
            total_steps: of,
            cause,
        };
        for creates in [true, false] {
            for planned in &plan.tables {
                let table = planned.table.as_str();
                for step in planned.steps.iter().filter(|step| matches!(step, Step::Create { .. }) == creates) {
                    report(ApplyEvent::Started { table, step });
                    let mut report_wait = |what| report(ApplyEvent::Waiting { table, what });
                    match self.apply_step(table, step, &mut report_wait).await {
                        Ok(Outcome::Applied) => report(ApplyEvent::Finished { table, step }),
                        Ok(Outcome::Unsupported) => {
                            skipped.push((table, step));
                            report(ApplyEvent::Skipped { table, step });
                        }
                        Err(cause) => return Err(stopped(table, Some(step), done, cause)),
                    }
                    done += 1;
                }
            }
        }
        for planned in plan.tables.iter().filter(|planned| !planned.steps.is_empty()) {
            let table = planned.table.as_str();
            let settled =
                wait::until_active(self, table, &mut |what| report(ApplyEvent::Waiting { table, what })).await;
            settled.map_err(|cause| stopped(table, None, done, cause))?;
        }
        Ok(skipped)
    }

    /// Sends a step, again while the server is busy with another one.
    async fn apply_step(
        &self,
        table: &str,
        step: &Step,
        report_wait: &mut (dyn FnMut(String) + Send),
    ) -> Result<Outcome, Error> {
        let mut interval = wait::PollInterval::new();
        for _ in 0..MAX_TRIES {
            if !matches!(step, Step::Create { .. }) {
                wait::until_active(self, table, report_wait).await?;
            }
            match send::send(self, table, step).await {
                Ok(()) if matches!(step, Step::AddIndex(_) | Step::RemoveIndex(_)) => {
                    return self.wait_for_index(table, step, report_wait).await;
                }
                Ok(()) => return Ok(Outcome::Applied),
                Err(error) => match error.code.as_str() {
                    existing::UNKNOWN_OPERATION => return Ok(Outcome::Unsupported),
                    // Another process has just created it.
                    "ResourceInUseException" if matches!(step, Step::Create { .. }) => return Ok(Outcome::Applied),
                    "ResourceInUseException" | "LimitExceededException" | "ContinuousBackupsUnavailableException" => {
                        report_wait(error.message);
                    }
                    "ValidationException" if self.is_applied(table, step).await? => return Ok(Outcome::Applied),
                    _ => return Err(error.error),
                },
            }
            interval.wait().await;
        }
        Err(ErrorKind::Busy.into())
    }

    /// Waits for an index to be added or removed. Descriptions lag a little. A server that never shows the change accepted the
    /// call and ignored it.
    async fn wait_for_index(
        &self,
        table: &str,
        step: &Step,
        report_wait: &mut (dyn FnMut(String) + Send),
    ) -> Result<Outcome, Error> {
        let mut interval = wait::PollInterval::new();
        for _ in 0..MAX_INDEX_CHECKS {
            wait::until_active(self, table, report_wait).await?;
            if self.is_applied(table, step).await? {
                return Ok(Outcome::Applied);
            }
            interval.wait().await;
        }
        Ok(Outcome::Unsupported)
    }

    /// Whether the table shows the result of a step, which another process may have applied.
    async fn is_applied(&self, table: &str, step: &Step) -> Result<bool, Error> {
        let Some(described) = existing::describe(self, table).await? else { return Ok(false) };
        let found = existing::from_description(table, &described);
        Ok(match step {
            Step::EnableStream => found.stream.is_some(),
            Step::EnableEncryption(key) => key.is_key_of(found.kms_key.as_deref()) != Some(false),
            Step::AddIndex(index) => {
                found.indexes.iter().any(|there| there.name == index.name && there.key.as_ref() == Some(&index.key))
            }
            Step::RemoveIndex(name) => found.indexes.iter().all(|there| there.name != *name),
            Step::EnableTtl(attribute) => self.describe_table(table).await?.spec.ttl.as_ref() == Some(attribute),
            _ => false,
        })
    }
}
