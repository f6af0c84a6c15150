//! Doing a plan: one step after the other, waiting for each.

use std::fmt;

use nagaya_store::{Error, ErrorKind};

use super::{Plan, Step, actual, call, wait};
use crate::engine::Dynamodb;

/// What happens while a plan is done.
#[derive(Debug, Clone)]
pub enum Event<'p> {
    /// A step begins.
    Begins {
        /// The table.
        table: &'p str,
        /// The step.
        step: &'p Step,
    },
    /// The server is at it.
    Waits {
        /// The table.
        table: &'p str,
        /// For what.
        what: String,
    },
    /// A step is done.
    Done {
        /// The table.
        table: &'p str,
        /// The step.
        step: &'p Step,
    },
    /// The server does not have what the step asks for.
    Skipped {
        /// The table.
        table: &'p str,
        /// The step.
        step: &'p Step,
    },
}

/// Why and where a plan stopped. What was done before stays done; planning again shows the rest.
#[derive(Debug)]
pub struct Stopped {
    /// The table.
    pub table: String,
    /// What was being done; `None`: waiting for the table.
    pub step: Option<Step>,
    /// How many steps were done.
    pub done: usize,
    /// How many steps there were.
    pub of: usize,
    /// Why.
    pub cause: Error,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = self.step.as_ref().map_or_else(|| "wait for it".to_owned(), Step::to_string);
        let Stopped { table, done, of, cause, .. } = self;
        write!(f, "stopped at the table `{table}` ({step}) after {done} of {of} steps: {cause}")
    }
}

impl std::error::Error for Stopped {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

impl From<Stopped> for Error {
    /// The cause: callers of the port know what they asked for.
    fn from(stopped: Stopped) -> Self {
        stopped.cause
    }
}

/// How often a step is tried again while the server is at something else.
const MOST_TRIES: usize = 200;

/// How often an index is looked for that should have come or gone.
const MOST_LOOKS: usize = 10;

/// What came of a step.
enum Outcome {
    Done,
    /// The server does not have it.
    Lacking,
}

impl Dynamodb {
    /// Does a plan, and tells what the server does not have.
    ///
    /// Conflicts are left alone. Tables are made first, so that the server works on all of them at once; then each gets its
    /// other steps, indexes one at a time.
    pub async fn apply_tables<'p>(
        &self,
        plan: &'p Plan,
        tell: &mut (dyn FnMut(Event<'p>) + Send),
    ) -> Result<Vec<(&'p str, &'p Step)>, Stopped> {
        let (mut done, of) = (0, plan.steps());
        let mut skipped = Vec::new();
        let stopped = |table: &str, step: Option<&Step>, done, cause| Stopped {
            table: table.to_owned(),
            step: step.cloned(),
            done,
            of,
            cause,
        };
        for creates in [true, false] {
            for planned in &plan.tables {
                let table = planned.table.as_str();
                for step in planned.steps.iter().filter(|step| matches!(step, Step::Create { .. }) == creates) {
                    tell(Event::Begins { table, step });
                    let mut waits = |what| tell(Event::Waits { table, what });
                    match self.apply_step(table, step, &mut waits).await {
                        Ok(Outcome::Done) => tell(Event::Done { table, step }),
                        Ok(Outcome::Lacking) => {
                            skipped.push((table, step));
                            tell(Event::Skipped { table, step });
                        }
                        Err(cause) => return Err(stopped(table, Some(step), done, cause)),
                    }
                    done += 1;
                }
            }
        }
        for planned in plan.tables.iter().filter(|planned| !planned.steps.is_empty()) {
            let table = planned.table.as_str();
            let settled = wait::settled(self, table, &mut |what| tell(Event::Waits { table, what })).await;
            settled.map_err(|cause| stopped(table, None, done, cause))?;
        }
        Ok(skipped)
    }

    /// Does a step, again and again while the server is at something else.
    async fn apply_step(
        &self,
        table: &str,
        step: &Step,
        waits: &mut (dyn FnMut(String) + Send),
    ) -> Result<Outcome, Error> {
        let mut pauses = wait::Pauses::new();
        for _ in 0..MOST_TRIES {
            if !matches!(step, Step::Create { .. }) {
                wait::settled(self, table, waits).await?;
            }
            match call::send(self, table, step).await {
                Ok(()) if matches!(step, Step::AddIndex(_) | Step::RemoveIndex(_)) => {
                    return self.index_changed(table, step, waits).await;
                }
                Ok(()) => return Ok(Outcome::Done),
                Err(refusal) => match refusal.code.as_str() {
                    actual::UNKNOWN => return Ok(Outcome::Lacking),
                    // Somebody else has just made it.
                    "ResourceInUseException" if matches!(step, Step::Create { .. }) => return Ok(Outcome::Done),
                    "ResourceInUseException" | "LimitExceededException" | "ContinuousBackupsUnavailableException" => {
                        waits(refusal.message);
                    }
                    "ValidationException" if self.is_done(table, step).await? => return Ok(Outcome::Done),
                    _ => return Err(refusal.error),
                },
            }
            pauses.next().await;
        }
        Err(ErrorKind::Busy.into())
    }

    /// Waits for an index to come or go. The answers lag a little; a server that never shows it took the call and did nothing.
    async fn index_changed(
        &self,
        table: &str,
        step: &Step,
        waits: &mut (dyn FnMut(String) + Send),
    ) -> Result<Outcome, Error> {
        let mut pauses = wait::Pauses::new();
        for _ in 0..MOST_LOOKS {
            wait::settled(self, table, waits).await?;
            if self.is_done(table, step).await? {
                return Ok(Outcome::Done);
            }
            pauses.next().await;
        }
        Ok(Outcome::Lacking)
    }

    /// Whether a step has been done by somebody else meanwhile.
    async fn is_done(&self, table: &str, step: &Step) -> Result<bool, Error> {
        let Some(described) = actual::describe(self, table).await? else { return Ok(false) };
        let found = actual::of(table, &described);
        Ok(match step {
            Step::Stream => found.stream.is_some(),
            Step::Encryption => found.encrypted,
            Step::AddIndex(index) => {
                found.indexes.iter().any(|there| there.name == index.name && there.key.as_ref() == Some(&index.key))
            }
            Step::RemoveIndex(name) => found.indexes.iter().all(|there| there.name != *name),
            Step::Expiry(attribute) => self.learn(table).await?.spec.ttl.as_ref() == Some(attribute),
            _ => false,
        })
    }
}
