//! The same todos and commands on `cqrs-es` with `postgres-es`, on a PostgreSQL server of the benchmark.

use std::{collections::HashMap, fmt, path::Path, sync::Arc};

use anyhow::{Context as _, ensure};
use bench_common::{
    callers::{CALLERS, busy},
    machine::version,
    postgresql::{self, Postgresql},
};
use cqrs_es::{Aggregate, DomainEvent, event_sink::EventSink};
use nagaya_events::{Context, Decide as _, Evolve as _};
use nagaya_todo::{Command, Refusal, Todo, TodoEvent};
use postgres_es::{PostgresCqrs, postgres_cqrs};
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::{
    appends::Appends,
    times::settle,
    todo_app::{change, create, family, id, ulid},
};

/// As in `db/init.sql` of `postgres-es`.
const SCHEMA: &str = "CREATE TABLE events (
    aggregate_type text                         NOT NULL,
    aggregate_id   text                         NOT NULL,
    sequence       bigint CHECK (sequence >= 0) NOT NULL,
    event_type     text                         NOT NULL,
    event_version  text                         NOT NULL,
    payload        json                         NOT NULL,
    metadata       json                         NOT NULL,
    PRIMARY KEY (aggregate_type, aggregate_id, sequence)
)";

/// `cqrs-es` on a running PostgreSQL server.
pub(crate) struct Cqrs {
    framework: Arc<PostgresCqrs<CqrsTodo>>,
    server: Postgresql,
    pub(crate) versions: String,
}

impl Cqrs {
    pub(crate) async fn start(folder: &Path) -> anyhow::Result<Self> {
        let programs = postgresql::programs()?;
        std::fs::create_dir_all(folder)?;
        let server = Postgresql::start(&programs, folder, CALLERS as u64)?;
        server.ask("postgres", "", SCHEMA)?;
        let options = PgConnectOptions::new_without_pgpass().socket(server.socket());
        let options = options.username("postgres").database("postgres");
        // One connection per caller, opened before the measurement.
        let pool = PgPoolOptions::new().min_connections(CALLERS as u32).max_connections(CALLERS as u32);
        let pool = pool.connect_with(options).await.context("PostgreSQL cannot be reached")?;
        let framework = Arc::new(postgres_cqrs(pool, Vec::new(), nagaya_events::testing::context()));
        let of = |package| format!("{package} {}", version(package));
        let versions = [of("cqrs-es"), of("postgres-es"), of("sqlx"), postgresql::version(&programs)].join(", ");
        Ok(Cqrs { framework, server, versions })
    }

    /// Commands of all callers, on an empty table.
    pub(crate) async fn measure(&self, seconds: f64) -> anyhow::Result<Appends> {
        self.server.ask("postgres", "", "TRUNCATE events")?;
        let call = |command: fn(u64) -> Command| {
            let framework = Arc::clone(&self.framework);
            move |number| {
                let framework = Arc::clone(&framework);
                async move {
                    let done = framework.execute_with_metadata(&id(number), command(number), metadata(number)).await;
                    done.with_context(|| format!("cqrs-es, {number}"))
                }
            }
        };
        let new = busy(seconds, 0..u64::MAX, call(create)).await?;
        // Autovacuum would do this within a minute; then the events of an aggregate are found by the index.
        self.server.ask("postgres", "", "VACUUM ANALYZE events")?;
        self.server.process.settle()?;
        let next = busy(seconds, 0..new.next, call(change)).await?;
        let count: u64 = self.server.ask("postgres", "", "SELECT count(*) FROM events")?.parse()?;
        ensure!(
            count == new.next + next.next,
            "{} events were acknowledged, and {count} are there",
            new.next + next.next
        );
        self.server.process.settle()?;
        settle()?;
        Ok(Appends { new, next })
    }
}

/// The same metadata as nagaya's events.
fn metadata(number: u64) -> HashMap<String, String> {
    let request = ulid(1_770_000_000_000, number);
    let facts = [
        ("correlationId", request.clone()),
        ("causationId", request),
        ("timestamp", "2026-01-31T09:30:00.000Z".to_owned()),
        ("userId", "user-0001".to_owned()),
        ("familyId", family(number)),
    ];
    facts.into_iter().map(|(name, fact)| (name.to_owned(), fact)).collect()
}

/// The same aggregate: it decides and evolves with the same code.
#[derive(Debug, Default, Serialize, Deserialize)]
struct CqrsTodo(Todo);

/// The same event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct CqrsEvent(TodoEvent);

impl DomainEvent for CqrsEvent {
    fn event_type(&self) -> String {
        let name = match self.0 {
            TodoEvent::TodoCreated { .. } => "TodoCreated",
            TodoEvent::TodoTitleChanged { .. } => "TodoTitleChanged",
            TodoEvent::TodoNoteChanged { .. } => "TodoNoteChanged",
            TodoEvent::TodoCompleted {} => "TodoCompleted",
            TodoEvent::TodoReopened {} => "TodoReopened",
            TodoEvent::TodoDeleted {} => "TodoDeleted",
        };
        name.to_owned()
    }

    fn event_version(&self) -> String {
        "1".to_owned()
    }
}

#[derive(Debug)]
struct Refused(Refusal);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl std::error::Error for Refused {}

impl Aggregate for CqrsTodo {
    const TYPE: &'static str = "todo";
    type Command = Command;
    type Event = CqrsEvent;
    type Error = Refused;
    type Services = Context;

    async fn handle(&mut self, command: Command, context: &Context, sink: &EventSink<Self>) -> Result<(), Refused> {
        for event in self.0.decide(&command, context).map_err(Refused)? {
            sink.write(CqrsEvent(event), self).await;
        }
        Ok(())
    }

    fn apply(&mut self, event: CqrsEvent) {
        self.0.evolve(&event.0);
    }
}
