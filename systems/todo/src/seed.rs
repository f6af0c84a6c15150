//! Sample data: the todos of families, with the history that people give them.

use std::sync::LazyLock;

use nagaya_design::Design;
use nagaya_events::{CommandRequest, Context, Error, Events, EventsOptions, Failure};
use nagaya_seed::{
    DAY_MILLIS, MAX_ATTEMPTS, Person, RETRY_PAUSE, Rng, SeedContext, SeedStep, SeedSteps, SeededItem, Seeder,
};
use nagaya_tenancy::{IdGenerator, Tenant};

use crate::{AGGREGATE, Command, Note, Refusal, Todo};

/// How many people a family has, at most.
const MAX_PEOPLE: usize = 4;
/// How many days of history there are.
const HISTORY_DAYS: i64 = 90;

/// What the todos say.
#[derive(serde::Deserialize)]
#[serde(bound(deserialize = "'de: 'static"))]
struct Texts {
    titles: Vec<&'static str>,
    details_en: Vec<&'static str>,
    details_ja: Vec<&'static str>,
    notes_en: Vec<&'static str>,
    notes_ja: Vec<&'static str>,
}

static TEXTS: LazyLock<Texts> = LazyLock::new(|| serde_json::from_str(include_str!("seed.json")).expect("texts"));

/// Writes todos by their commands.
pub(crate) struct TodoSeeder {
    events: Events<Todo>,
}

impl TodoSeeder {
    pub(crate) fn new(design: &Design) -> Result<Self, Error> {
        Ok(TodoSeeder { events: Events::new(design, AGGREGATE, EventsOptions::default())? })
    }
}

impl Seeder for TodoSeeder {
    fn entities(&self) -> &'static [&'static str] {
        &["todo"]
    }

    fn marker(&self, context: &SeedContext<'_>) -> (&'static str, Vec<String>) {
        ("head", vec![History::build(context, 0).id])
    }

    fn steps<'s>(&'s self, tenant: &'s Tenant, context: SeedContext<'s>) -> SeedSteps<'s> {
        Box::new((0..context.items).map(move |n| -> SeedStep<'s> {
            Box::pin(async move { Ok(vec![self.replay(tenant, &History::build(&context, n)).await?]) })
        }))
    }
}

/// The result of a command.
enum Outcome {
    /// It was executed now.
    New,
    /// An earlier run has executed it.
    Present,
    /// The todo has changed since: a user went on with it.
    Diverged,
}

impl TodoSeeder {
    /// Executes the commands of a todo, in order.
    async fn replay(&self, tenant: &Tenant, history: &History) -> Result<SeededItem, nagaya_seed::Error> {
        let mut result = SeededItem { entity: "todo", was_created: false, deleted: history.is_deleted() };
        for (version, step) in (0..).zip(&history.steps) {
            match self.execute(tenant, &history.id, version, step).await? {
                Outcome::New => result.was_created |= version == 0,
                Outcome::Present => {}
                Outcome::Diverged => break,
            }
        }
        Ok(result)
    }

    /// Executes a command on a todo of this version, once in all runs.
    async fn execute(
        &self,
        tenant: &Tenant,
        id: &str,
        version: u64,
        step: &HistoryStep,
    ) -> Result<Outcome, nagaya_seed::Error> {
        let key = format!("seed-{id}-{version}");
        let bits = step.bits;
        let request = CommandRequest {
            context: Context {
                now: step.time,
                user: step.user.clone(),
                correlation: key.clone(),
                causation: key.clone(),
                ids: IdGenerator::new(move || bits),
            },
            expected: (version > 0).then_some(version),
            idempotency: Some((&key, key.as_bytes())),
        };
        let mut unsure = false;
        for _ in 0..MAX_ATTEMPTS {
            let error = match self.events.execute(tenant, id, &step.command, &request).await {
                Ok(executed) if unsure || !executed.events.is_empty() => return Ok(Outcome::New),
                Ok(_) | Err(Failure::Refused(Refusal::AlreadyExists)) => return Ok(Outcome::Present),
                Err(Failure::Refused(Refusal::NotFound) | Failure::Conflict { .. }) => return Ok(Outcome::Diverged),
                Err(Failure::Error(error)) => error,
            };
            match error.code() {
                "unanswered" => unsure = true,
                "contended" | "busy" => {}
                _ => return Err(error.into()),
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        Err("the store is too busy".into())
    }
}

/// The history of a todo.
struct History {
    id: String,
    /// Each is one event.
    steps: Vec<HistoryStep>,
}

struct HistoryStep {
    command: Command,
    time: i64,
    user: String,
    /// The bits of its event's id.
    bits: u128,
}

impl History {
    /// The n-th of a tenant.
    fn build(context: &SeedContext<'_>, n: usize) -> Self {
        let mut rng = context.rng_for_item("todo", n);
        let bits = rng.bits();
        let mut time = context.until - rng.between(1, HISTORY_DAYS * DAY_MILLIS);
        let id = IdGenerator::new(move || bits).ulid(time);
        let family = Rng::new(context.seed, &["people", context.tenant()], [0, 0]).below(1_000);

        let title = rng.pick_word(&TEXTS.titles);
        let mut commands = vec![Command::Create { title: title.to_owned(), note: None }];
        let completed = |completed| Command::Change { title: None, completed: Some(completed), note: None };
        if rng.chance(15) {
            let title = Some(edited_title(title, &mut rng));
            commands.push(Command::Change { title, completed: None, note: None });
        }
        if rng.chance(15) {
            let note = rng.pick_word(if title.is_ascii() { &TEXTS.notes_en } else { &TEXTS.notes_ja });
            let note = Some(Some(Note::Text(note.to_owned())));
            commands.push(Command::Change { title: None, completed: None, note });
        }
        if rng.chance(45) {
            commands.push(completed(true));
            if rng.chance(10) {
                commands.push(completed(false));
            }
        }
        if rng.chance(10) {
            commands.push(Command::Delete);
        }

        let mut steps = Vec::with_capacity(commands.len());
        for command in commands {
            let user = Person::numbered(family + rng.below(MAX_PEOPLE)).handle().to_owned();
            steps.push(HistoryStep { command, time, user, bits: rng.bits() });
            time += rng.between(1, (context.until - time).max(1));
        }
        History { id, steps }
    }

    fn is_deleted(&self) -> bool {
        self.steps.last().is_some_and(|step| step.command == Command::Delete)
    }
}

fn edited_title(title: &str, rng: &mut Rng) -> String {
    match title.is_ascii() {
        true => format!("{title} {}", rng.pick_word(&TEXTS.details_en)),
        false => format!("{title}({})", rng.pick_word(&TEXTS.details_ja)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histories(seed: u64, tenant: &str, until: i64) -> Vec<History> {
        let context = SeedContext { seed, tenants: &[tenant.to_owned()], index: 0, until, items: 200 };
        (0..context.items).map(|n| History::build(&context, n)).collect()
    }

    fn ids(histories: &[History]) -> Vec<&str> {
        histories.iter().map(|history| history.id.as_str()).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_todos_and_another_seed_gives_others() {
        let until = 400 * DAY_MILLIS;
        let first = histories(1, "demo", until);
        assert_eq!(ids(&first), ids(&histories(1, "demo", until)));
        for other in
            [histories(2, "demo", until), histories(1, "tenant-2", until), histories(1, "demo", until + DAY_MILLIS)]
        {
            assert!(ids(&other).iter().all(|id| !ids(&first).contains(id)));
        }
    }

    #[test]
    fn histories_are_in_order_and_end_before_the_last_day() {
        let until = 400 * DAY_MILLIS;
        let histories = histories(1, "demo", until);
        for history in &histories {
            assert!(history.steps.is_sorted_by_key(|step| step.time), "{}", history.id);
            assert!(
                history.steps.iter().all(|step| (until - HISTORY_DAYS * DAY_MILLIS..=until).contains(&step.time)),
                "{}",
                history.id
            );
        }
        let some = |wanted: fn(&Command) -> bool| {
            histories.iter().filter(|history| history.steps.iter().any(|step| wanted(&step.command))).count()
        };
        assert_eq!(some(|command| matches!(command, Command::Create { .. })), histories.len());
        assert!(some(|command| matches!(command, Command::Change { title: Some(_), .. })) > 10);
        assert!(some(|command| matches!(command, Command::Change { note: Some(Some(_)), .. })) > 10);
        assert!(some(|command| matches!(command, Command::Change { completed: Some(true), .. })) > 50);
        assert!(some(|command| matches!(command, Command::Change { completed: Some(false), .. })) > 1);
        assert!((5..100).contains(&some(|command| *command == Command::Delete)));
    }
}
