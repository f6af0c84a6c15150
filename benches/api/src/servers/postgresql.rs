//! PostgreSQL with row-level security, measured in its own protocol with `pgbench`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, ensure};
use bench_common::{
    postgresql::{Postgresql as Running, run},
    process::Process,
};

use super::{Call, Counted, Server};
use crate::{
    task::{self, ITEMS, USERS},
    wrk::THREADS,
};

/// The role of all queries, to which the policy applies.
const ROLE: &str = "app";

#[derive(Debug)]
pub(super) struct Postgresql {
    server: Running,
    programs: PathBuf,
    folder: PathBuf,
    connections: u64,
}

pub(super) fn start(programs: &Path, folder: &Path, connections: u64) -> anyhow::Result<Postgresql> {
    let server = Running::start(programs, folder, connections)?;
    let (programs, folder) = (programs.to_owned(), folder.to_owned());
    let server = Postgresql { server, programs, folder, connections };
    server.load()?;
    server.check()?;
    Ok(server)
}

impl Postgresql {
    fn load(&self) -> anyhow::Result<()> {
        let fill = include_str!("../../postgresql/load.sql");
        let fill = fill.replace(":items", &ITEMS.to_string()).replace(":users", &USERS.to_string());
        self.ask("postgres", "", include_str!("../../postgresql/schema.sql"))?;
        self.ask(ROLE, task::TENANT, &fill)?;
        // Autovacuum would do this within minutes.
        self.ask("postgres", "", "VACUUM ANALYZE task")?;
        for (call, script) in [
            (Call::Read, include_str!("../../postgresql/read.sql")),
            (Call::List, include_str!("../../postgresql/list.sql")),
            (Call::Create, include_str!("../../postgresql/create.sql")),
        ] {
            fs::write(self.script(call), script)?;
        }
        Ok(())
    }

    /// Checks that the tenant sees its tasks, and another one none.
    fn check(&self) -> anyhow::Result<()> {
        let read = format!("SELECT title FROM task WHERE task_id = '{}'", task::id(7));
        let user = task::user(7);
        let list =
            format!("SELECT count(*) FROM (SELECT FROM task WHERE user_id = '{user}' LIMIT {}) AS page", task::PAGE);
        ensure!(self.ask(ROLE, task::TENANT, &read)? == task::title(7), "a read finds nothing");
        ensure!(self.ask(ROLE, task::TENANT, &list)? == task::PAGE.to_string(), "a list has too few tasks");
        ensure!(self.ask(ROLE, task::OTHER, &read)?.is_empty(), "another tenant reads a task");
        ensure!(self.ask(ROLE, task::OTHER, "SELECT count(*) FROM task")? == "0", "another tenant sees tasks");
        let across = format!("INSERT INTO task (tenant_id, user_id, title) VALUES ('{}', 'u', 't')", task::TENANT);
        ensure!(self.ask(ROLE, task::OTHER, &across).is_err(), "another tenant creates a task");
        Ok(())
    }

    fn ask(&self, role: &str, tenant: &str, sql: &str) -> anyhow::Result<String> {
        self.server.ask(role, &format!("-c app.tenant={tenant}"), sql)
    }

    fn script(&self, call: Call) -> PathBuf {
        self.folder.join(format!("{call:?}.sql"))
    }
}

impl Server for Postgresql {
    fn process(&self) -> &Process {
        &self.server.process
    }

    fn has(&self, _: Call) -> bool {
        true
    }

    fn run(&self, call: Call, seconds: u64) -> anyhow::Result<Counted> {
        let times = tempfile::tempdir_in(&self.folder)?;
        let mut command = Command::new(self.programs.join("pgbench"));
        command.args(["--no-vacuum", "--protocol=prepared", "--username", ROLE, "--host"]).arg(self.server.socket());
        command.args(["--client", &self.connections.to_string(), "--jobs", &THREADS.to_string()]);
        command.args(["--time", &seconds.to_string(), "--define", &format!("items={ITEMS}")]);
        command.args(["--define", &format!("users={USERS}"), "--log", "--file"]).arg(self.script(call)).arg("postgres");
        // Once per connection, which favours PostgreSQL: an application with a connection pool cannot do this.
        command.env("PGOPTIONS", format!("-c app.tenant={}", task::TENANT));
        let output = run(command.current_dir(times.path()).stdin(Stdio::null()))?;
        let per_second =
            output.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse::<f64>().ok());
        let per_second = per_second.with_context(|| format!("pgbench reports {output}"))?;
        let failed = output.lines().find_map(|line| line.strip_prefix("number of failed transactions: "));
        ensure!(failed.is_none_or(|failed| failed.starts_with("0 ")), "pgbench reports {output}");
        let times = read_times(times.path())?;
        let at = |part: f64| times.get((times.len() as f64 * part) as usize).copied().unwrap_or_default() as f64;
        let requests = times.len() as u64;
        ensure!(requests > 0, "{call:?}: nothing was answered");
        Ok(Counted { requests, seconds: requests as f64 / per_second, p50: at(0.5), p99: at(0.99), bytes: None })
    }

    fn count(&self) -> anyhow::Result<u64> {
        Ok(self.ask(ROLE, task::TENANT, "SELECT count(*) FROM task")?.parse()?)
    }
}

/// The microseconds of each transaction, sorted, from the logs of `pgbench`: client, number, microseconds and more.
fn read_times(folder: &Path) -> anyhow::Result<Vec<u64>> {
    let mut times = Vec::new();
    for entry in fs::read_dir(folder)? {
        for line in fs::read_to_string(entry?.path())?.lines() {
            let time = line.split(' ').nth(2).and_then(|time| time.parse().ok());
            times.push(time.with_context(|| format!("a log of pgbench reports {line}"))?);
        }
    }
    times.sort_unstable();
    Ok(times)
}
