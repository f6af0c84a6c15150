//! Clients that write and read registers at the same time.

use std::{
    panic::resume_unwind,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

use futures_util::future::join_all;

use super::{Call, Event, Outcome, Recorder, Ticks, Version, check};
use crate::fixture::{Failure, Fixture, INDEX, expect, yield_now};
use nagaya_store::{Condition, ErrorKind, Item, Key, Query, Value, Write, WriteSet};

/// Items that are always written together: the table and the key of each.
pub(super) type Members = Vec<(String, Key)>;

/// How the items of a register are read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reading {
    /// One after another, each by a call of its own.
    Gets,
    /// All by one call.
    Batch,
    /// By a page of the partition that all lie in.
    Page,
    /// By a page of the index partition that all lie in.
    IndexPage,
}

/// Who does what, and how often.
pub(super) struct Plan {
    pub(super) registers: Vec<Members>,
    pub(super) writers: usize,
    /// Attempts of each writer.
    pub(super) writes: usize,
    pub(super) readers: Vec<Reading>,
}

impl Plan {
    /// Each client is a thread of its own, as the clients of a server are.
    pub(super) fn run_on_threads(&self, fixture: &Fixture<'_>) -> Result<(), Failure> {
        let run = Run::new(self, fixture);
        let histories: Vec<Result<Vec<Event>, Failure>> = thread::scope(|scope| {
            let run = &run;
            let clients: Vec<_> =
                (0..self.clients()).map(|client| scope.spawn(move || block_on(run.client(client)))).collect();
            clients.into_iter().map(|client| client.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
        });
        run.verdict(histories)
    }

    /// All clients take turns on one task, which every engine can do.
    pub(super) async fn run_on_one_task(&self, fixture: &Fixture<'_>) -> Result<(), Failure> {
        let run = Run::new(self, fixture);
        let histories = join_all((0..self.clients()).map(|client| run.client(client))).await;
        run.verdict(histories)
    }

    fn clients(&self) -> usize {
        self.writers + self.readers.len()
    }
}

/// A plan that is carried out.
struct Run<'p, 's> {
    plan: &'p Plan,
    fixture: &'p Fixture<'s>,
    ticks: Ticks,
    /// Writers that are not done.
    writing: AtomicUsize,
}

impl<'p, 's> Run<'p, 's> {
    fn new(plan: &'p Plan, fixture: &'p Fixture<'s>) -> Self {
        Run { plan, fixture, ticks: Ticks::default(), writing: AtomicUsize::new(plan.writers) }
    }

    async fn client(&self, client: usize) -> Result<Vec<Event>, Failure> {
        let mut recorder = Recorder::new(&self.ticks, client);
        match client.checked_sub(self.plan.writers) {
            None => {
                let written = self.run_writer(client, &mut recorder).await;
                self.writing.fetch_sub(1, Ordering::SeqCst);
                written?;
            }
            Some(reader) => {
                while self.writing.load(Ordering::SeqCst) > 0 {
                    for register in 0..self.plan.registers.len() {
                        self.read(register, self.plan.readers[reader], &mut recorder).await?;
                    }
                    yield_now().await;
                }
            }
        }
        Ok(recorder.into_events())
    }

    /// Reads a version and replaces it, again and again.
    async fn run_writer(&self, client: usize, recorder: &mut Recorder<'_>) -> Result<(), Failure> {
        for attempt in 0..self.plan.writes {
            let register = (client + attempt) % self.plan.registers.len();
            let members = &self.plan.registers[register];
            let from = self.get(register, &members[0], recorder).await?;
            let write = async {
                let outcome = match self.fixture.write(replace_version(register, members, from)).await {
                    Ok(_) => Outcome::Done,
                    Err(error) if error.failed_conditions().is_some() => Outcome::Refused,
                    Err(error) if matches!(error.kind(), ErrorKind::Busy) => Outcome::Unknown,
                    Err(error) => return Err(Failure::from(error)),
                };
                Ok((Call::Write { from, outcome }, ()))
            };
            recorder.call(register, write).await?;
            yield_now().await;
        }
        Ok(())
    }

    async fn read(&self, register: usize, how: Reading, recorder: &mut Recorder<'_>) -> Result<(), Failure> {
        let members = &self.plan.registers[register];
        let (table, key) = &members[0];
        let page = |query: Query| async {
            let items = self.fixture.query(query).await?.items;
            // Absent is what a page does not have.
            let absent = members.len().saturating_sub(items.len());
            let seen = items.iter().map(|item| version(Some(item))).chain(std::iter::repeat_n(0, absent));
            Ok::<_, Failure>((Call::Read(seen.collect()), ()))
        };
        match how {
            Reading::Gets => {
                for member in members {
                    self.get(register, member, recorder).await?;
                }
                Ok(())
            }
            Reading::Batch => {
                let batch = async {
                    let found = self.fixture.store().batch_get(members).await?;
                    Ok::<_, Failure>((Call::Read(found.iter().map(|item| version(item.as_ref())).collect()), ()))
                };
                recorder.call(register, batch).await
            }
            Reading::Page => recorder.call(register, page(Query::table(table, key.partition.clone()))).await,
            Reading::IndexPage => {
                recorder.call(register, page(Query::index(table, INDEX, index_partition(register)))).await
            }
        }
    }

    async fn get(
        &self,
        register: usize,
        (table, key): &(String, Key),
        recorder: &mut Recorder<'_>,
    ) -> Result<Version, Failure> {
        let get = async {
            let seen = version(self.fixture.store().get(table, key).await?.as_ref());
            Ok::<_, Failure>((Call::Read(vec![seen]), seen))
        };
        recorder.call(register, get).await
    }

    fn verdict(&self, histories: Vec<Result<Vec<Event>, Failure>>) -> Result<(), Failure> {
        let mut events = Vec::new();
        for history in histories {
            events.extend(history?);
        }
        let done = |event: &&Event| matches!(event.call, Call::Write { outcome: Outcome::Done, .. });
        let reads = events.iter().filter(|event| matches!(event.call, Call::Read(_))).count();
        expect(reads > 0, "nobody read meanwhile")?;
        expect(events.iter().filter(done).count() >= self.plan.writes, "hardly anything was written")?;
        check(&events)
            .map_err(|violation| Failure::new(format!("{violation} (in a history of {} calls)", events.len())))
    }
}

/// The index partition that the items of a register lie in.
fn index_partition(register: usize) -> String {
    format!("R{register}")
}

fn version(item: Option<&Item>) -> Version {
    let number = item.and_then(|item| item.get("version")).and_then(Value::as_number);
    number.and_then(|number| i64::try_from(number).ok()).and_then(|number| number.try_into().ok()).unwrap_or(0)
}

/// All items of a register go from one version to the next.
fn replace_version(register: usize, members: &Members, from: Version) -> WriteSet {
    let number = |version: Version| Value::from(i64::try_from(version).unwrap_or(i64::MAX));
    let put = |(at, (table, key)): (usize, &(String, Key))| {
        let item = Item::new().with("PK", key.partition.clone()).with("SK", key.sort.clone());
        let item = item.with("version", number(from + 1)).with("GSI1PK", index_partition(register));
        let item = item.with("GSI1SK", format!("{at}"));
        let expected = if from == 0 { Condition::absent("PK") } else { Condition::equal("version", number(from)) };
        Write::put(table, item).when(expected)
    };
    members.iter().enumerate().map(put).collect()
}

/// Waits for an answer without a runtime.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
