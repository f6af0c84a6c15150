//! The todos of families: made, put into better words, written a note to, done, taken up again, thrown away.

use anyhow::bail;
use futures_util::future::LocalBoxFuture;
use nagaya_design::Design;
use nagaya_events::{Context, Events, Failure, Options, Request};
use nagaya_tenancy::{Ids, Tenant};
use nagaya_todo::{AGGREGATE, Command, Note, Refusal, Todo};

use super::{
    item::{DAY, DAYS},
    luck::Luck,
    people::Person,
    story::{Happenings, PATIENCE, PAUSE, Story, Told, Whose},
    words::AT_HOME,
};

/// How many people a family has, at most.
const PEOPLE: usize = 4;

/// How a todo is put into better words.
const DETAILS_EN: [&str; 4] = ["on Saturday", "before noon", "together", "again"];
const DETAILS_JA: [&str; 4] = ["土曜日", "午前中", "みんなで", "急ぎ"];

/// What else there is to say.
const NOTES_EN: [&str; 4] = [
    "The list is on the fridge.",
    "Ask grandmother first.",
    "The receipt is in the drawer.",
    "It can wait until payday.",
];
const NOTES_JA: [&str; 4] =
    ["冷蔵庫のメモを見てね。", "先におばあちゃんに聞く。", "レシートは引き出しの中。", "給料日の後でもいい。"];

pub(crate) struct Todos {
    events: Events<Todo>,
}

impl Todos {
    pub(crate) fn of(design: &Design) -> anyhow::Result<Self> {
        Ok(Todos { events: Events::of(design, AGGREGATE, Options::default())? })
    }
}

impl Story for Todos {
    fn entities(&self) -> &'static [&'static str] {
        &["todo"]
    }

    fn mark(&self, whose: &Whose<'_>) -> (&'static str, Vec<String>) {
        ("head", vec![Life::of(whose, 0).id])
    }

    fn tell<'s>(&'s self, tenant: &'s Tenant, whose: Whose<'s>) -> Happenings<'s> {
        Box::new((0..whose.items).map(move |n| -> LocalBoxFuture<'s, _> {
            Box::pin(async move { Ok(vec![self.live(tenant, &Life::of(&whose, n)).await?]) })
        }))
    }
}

/// What came of a step.
enum Happened {
    Now,
    Before,
    Otherwise,
}

impl Todos {
    /// Lets happen to a todo what people do with it.
    async fn live(&self, tenant: &Tenant, life: &Life) -> anyhow::Result<Told> {
        let mut told = Told { entity: "todo", made: false, deleted: life.is_deleted() };
        for (version, step) in (0..).zip(&life.steps) {
            match self.happens(tenant, &life.id, version, step).await? {
                Happened::Now => told.made |= version == 0,
                Happened::Before => {}
                // Somebody has gone on with it since: what becomes of it is theirs to say.
                Happened::Otherwise => break,
            }
        }
        Ok(told)
    }

    /// Lets a step happen to a todo that has this version; once, however often it is asked for.
    async fn happens(&self, tenant: &Tenant, id: &str, version: u64, step: &Step) -> anyhow::Result<Happened> {
        let key = format!("seed-{id}-{version}");
        let bits = step.bits;
        let request = Request {
            context: Context {
                now: step.moment,
                user: step.user.clone(),
                correlation: key.clone(),
                causation: key.clone(),
                ids: Ids::new(move || bits),
            },
            expected: (version > 0).then_some(version),
            once: Some((&key, key.as_bytes())),
        };
        let mut unsure = false;
        for _ in 0..PATIENCE {
            let error = match self.events.execute(tenant, id, &step.command, &request).await {
                // A write whose answer was lost has happened now as well.
                Ok(executed) if unsure || !executed.events.is_empty() => return Ok(Happened::Now),
                Ok(_) | Err(Failure::Refused(Refusal::There)) => return Ok(Happened::Before),
                Err(Failure::Refused(Refusal::NotThere) | Failure::Conflict { .. }) => return Ok(Happened::Otherwise),
                Err(Failure::Error(error)) => error,
            };
            match error.code() {
                "unanswered" => unsure = true,
                "contended" | "busy" => {}
                _ => return Err(error.into()),
            }
            tokio::time::sleep(PAUSE).await;
        }
        bail!("the store is too busy")
    }
}

/// What becomes of a todo.
struct Life {
    id: String,
    /// Each is one event.
    steps: Vec<Step>,
}

struct Step {
    command: Command,
    moment: i64,
    user: String,
    /// What the id of its event is made of.
    bits: u128,
}

impl Life {
    /// The n-th of a tenant.
    fn of(whose: &Whose<'_>, n: usize) -> Self {
        let mut luck = whose.luck("todo", n);
        let bits = luck.bits();
        let mut moment = whose.until - luck.between(1, DAYS * DAY);
        let id = Ids::new(move || bits).ulid(moment);
        let family = Luck::of(whose.seed, &["people", whose.tenant()], [0, 0]).below(1_000);

        let title = luck.word(&AT_HOME);
        let mut commands = vec![Command::Create { title: title.to_owned(), note: None }];
        let completed = |completed| Command::Change { title: None, completed: Some(completed), note: None };
        if luck.happens(15) {
            let title = Some(in_better_words(title, &mut luck));
            commands.push(Command::Change { title, completed: None, note: None });
        }
        if luck.happens(15) {
            let note = luck.word(if title.is_ascii() { &NOTES_EN } else { &NOTES_JA });
            let note = Some(Some(Note::Text(note.to_owned())));
            commands.push(Command::Change { title: None, completed: None, note });
        }
        if luck.happens(45) {
            commands.push(completed(true));
            if luck.happens(10) {
                commands.push(completed(false));
            }
        }
        if luck.happens(10) {
            commands.push(Command::Delete);
        }

        let mut steps = Vec::with_capacity(commands.len());
        for command in commands {
            let user = Person::numbered(family + luck.below(PEOPLE)).handle().to_owned();
            steps.push(Step { command, moment, user, bits: luck.bits() });
            moment += luck.between(1, (whose.until - moment).max(1));
        }
        Life { id, steps }
    }

    fn is_deleted(&self) -> bool {
        self.steps.last().is_some_and(|step| step.command == Command::Delete)
    }
}

fn in_better_words(title: &str, luck: &mut Luck) -> String {
    match title.is_ascii() {
        true => format!("{title} {}", luck.word(&DETAILS_EN)),
        false => format!("{title}({})", luck.word(&DETAILS_JA)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lives(seed: u64, tenant: &str, until: i64) -> Vec<Life> {
        let whose = Whose { seed, tenants: &[tenant.to_owned()], at: 0, until, items: 200 };
        (0..whose.items).map(|n| Life::of(&whose, n)).collect()
    }

    fn ids(lives: &[Life]) -> Vec<&str> {
        lives.iter().map(|life| life.id.as_str()).collect()
    }

    #[test]
    fn the_same_number_gives_the_same_todos_and_another_one_others() {
        let until = 400 * DAY;
        let first = lives(1, "demo", until);
        assert_eq!(ids(&first), ids(&lives(1, "demo", until)));
        for other in [lives(2, "demo", until), lives(1, "tenant-2", until), lives(1, "demo", until + DAY)] {
            assert!(ids(&other).iter().all(|id| !ids(&first).contains(id)));
        }
    }

    #[test]
    fn what_happens_does_so_in_order_and_is_not_still_to_come() {
        let until = 400 * DAY;
        let lives = lives(1, "demo", until);
        for life in &lives {
            assert!(life.steps.is_sorted_by_key(|step| step.moment), "{}", life.id);
            assert!(life.steps.iter().all(|step| (until - DAYS * DAY..=until).contains(&step.moment)), "{}", life.id);
        }
        let some = |wanted: fn(&Command) -> bool| {
            lives.iter().filter(|life| life.steps.iter().any(|step| wanted(&step.command))).count()
        };
        assert_eq!(some(|command| matches!(command, Command::Create { .. })), lives.len());
        assert!(some(|command| matches!(command, Command::Change { title: Some(_), .. })) > 10);
        assert!(some(|command| matches!(command, Command::Change { note: Some(Some(_)), .. })) > 10);
        assert!(some(|command| matches!(command, Command::Change { completed: Some(true), .. })) > 50);
        assert!(some(|command| matches!(command, Command::Change { completed: Some(false), .. })) > 1);
        assert!((5..100).contains(&some(|command| *command == Command::Delete)));
    }
}
