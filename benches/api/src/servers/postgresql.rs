//! PostgreSQL with row-level security, spoken to in its own protocol by its own load generator.

use std::{
    fs,
    os::unix::{fs::chown, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use tempfile::TempDir;

use super::{Call, Counted, Server};
use crate::{
    process::Process,
    task::{self, ITEMS, USERS},
    tools::is_root,
    wrk::THREADS,
};

/// The role that everything is asked as, and that the policy holds for.
const ROLE: &str = "app";

#[derive(Debug)]
pub(super) struct Postgresql {
    process: Process,
    programs: PathBuf,
    folder: PathBuf,
    connections: u64,
    /// With the socket. Not in the folder, whose path may be too long for one.
    socket: TempDir,
}

/// Whom the server runs as: nobody important, which it insists on.
struct Owner {
    uid: u32,
    gid: u32,
}

impl Owner {
    /// `None`: as who we are.
    fn find() -> anyhow::Result<Option<Self>> {
        if !is_root() {
            return Ok(None);
        }
        let users = fs::read_to_string("/etc/passwd")?;
        let find = |name: &str| {
            let fields: Vec<_> = users.lines().map(|line| line.split(':').collect::<Vec<_>>()).collect();
            let fields = fields.into_iter().find(|fields| fields.first() == Some(&name))?;
            Some(Owner { uid: fields.get(2)?.parse().ok()?, gid: fields.get(3)?.parse().ok()? })
        };
        Ok(Some(
            find("postgres").or_else(|| find("nobody")).context("there is neither a user `postgres` nor `nobody`")?,
        ))
    }
}

pub(super) fn start(programs: &Path, folder: &Path, connections: u64) -> anyhow::Result<Postgresql> {
    let owner = Owner::find()?;
    let socket = tempfile::Builder::new().prefix("bench-api-").tempdir()?;
    let data = folder.join("data");
    fs::create_dir_all(&data)?;
    if let Some(Owner { uid, gid }) = &owner {
        chown(&data, Some(*uid), Some(*gid))?;
        chown(socket.path(), Some(*uid), Some(*gid))?;
    }
    let command = |program: &str| {
        let mut command = Command::new(programs.join(program));
        if let Some(Owner { uid, gid }) = &owner {
            command.uid(*uid).gid(*gid);
        }
        command.arg("-D").arg(&data).current_dir(&data);
        command
    };
    let mut make = command("initdb");
    // Texts are compared byte by byte, which is what costs it least.
    make.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"]);
    run(make.stdin(Stdio::null()))?;

    let mut serve = command("postgres");
    serve.arg("-k").arg(socket.path()).args(["-c", "listen_addresses="]);
    // As they are by default, and would be even if somebody's defaults were not.
    serve.args(["-c", "fsync=on", "-c", "synchronous_commit=on"]);
    if connections > 90 {
        serve.args(["-c", &format!("max_connections={}", connections + 10)]);
    }
    // "Immediate shutdown": its processes go, its memory is given back, and nothing is written.
    let process = Process::start_with("PostgreSQL", serve, &folder.join("log"), "QUIT")?;
    let (programs, folder) = (programs.to_owned(), folder.to_owned());
    let mut server = Postgresql { process, programs, folder, connections, socket };
    let ready = {
        let (programs, socket) = (server.programs.clone(), server.socket.path().to_owned());
        move || psql(&programs, &socket, "postgres", "", "SELECT 1").is_ok()
    };
    server.process.wait_until(Duration::from_millis(50), ready)?;
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
        // It would do so by itself within minutes.
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

    /// Checks that the tenant sees what it should, and another one nothing.
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
        psql(&self.programs, self.socket.path(), role, tenant, sql)
    }

    fn script(&self, call: Call) -> PathBuf {
        self.folder.join(format!("{call:?}.sql"))
    }
}

impl Server for Postgresql {
    fn process(&self) -> &Process {
        &self.process
    }

    fn has(&self, _: Call) -> bool {
        true
    }

    fn run(&self, call: Call, seconds: u64) -> anyhow::Result<Counted> {
        let times = tempfile::tempdir_in(&self.folder)?;
        let mut command = Command::new(self.programs.join("pgbench"));
        command.args(["--no-vacuum", "--protocol=prepared", "--username", ROLE, "--host"]).arg(self.socket.path());
        command.args(["--client", &self.connections.to_string(), "--jobs", &THREADS.to_string()]);
        command.args(["--time", &seconds.to_string(), "--define", &format!("items={ITEMS}")]);
        command.args(["--define", &format!("users={USERS}"), "--log", "--file"]).arg(self.script(call)).arg("postgres");
        // Once for each connection, which is more than an application with a pool of connections can do.
        command.env("PGOPTIONS", format!("-c app.tenant={}", task::TENANT));
        let said = run(command.current_dir(times.path()).stdin(Stdio::null()))?;
        let per_second =
            said.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse::<f64>().ok());
        let per_second = per_second.with_context(|| format!("pgbench says {said}"))?;
        let failed = said.lines().find_map(|line| line.strip_prefix("number of failed transactions: "));
        ensure!(failed.is_none_or(|failed| failed.starts_with("0 ")), "pgbench says {said}");
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

/// The microseconds of each transaction, sorted, from the logs that `pgbench` leaves: client, number, microseconds and more.
fn read_times(folder: &Path) -> anyhow::Result<Vec<u64>> {
    let mut times = Vec::new();
    for entry in fs::read_dir(folder)? {
        for line in fs::read_to_string(entry?.path())?.lines() {
            let time = line.split(' ').nth(2).and_then(|time| time.parse().ok());
            times.push(time.with_context(|| format!("a log of pgbench says {line}"))?);
        }
    }
    times.sort_unstable();
    Ok(times)
}

fn psql(programs: &Path, socket: &Path, role: &str, tenant: &str, sql: &str) -> anyhow::Result<String> {
    let mut command = Command::new(programs.join("psql"));
    command.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"]);
    command.args(["--dbname=postgres", "--username", role, "--command", sql, "--host"]).arg(socket);
    command.env("PGOPTIONS", format!("-c app.tenant={tenant}"));
    Ok(run(command.stdin(Stdio::null()))?.trim().to_owned())
}

/// What a command says.
fn run(command: &mut Command) -> anyhow::Result<String> {
    // Of the variables of psql and pgbench, only those that are set here count.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
        if name != "PGOPTIONS" {
            command.env_remove(name);
        }
    }
    let output = command.output().with_context(|| format!("{:?} does not start", command.get_program()))?;
    if !output.status.success() {
        // Every client says the same.
        let said = String::from_utf8_lossy(&output.stderr);
        let said: Vec<_> = said.lines().take(5).collect();
        bail!("{:?}: {}", command.get_program(), said.join("\n"));
    }
    Ok(String::from_utf8(output.stdout)?)
}
