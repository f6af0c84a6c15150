//! PostgreSQL from Debian: found or installed, and a server for the benchmark.

use std::{
    fs,
    os::unix::{fs::chown, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, bail};
use tempfile::TempDir;

use crate::{
    machine::output,
    process::Process,
    tools::{apt, is_root},
};

/// The folder with the programs of PostgreSQL: the newest version of Debian, or else that of `pg_ctl`.
pub fn programs() -> anyhow::Result<PathBuf> {
    if let Some(folder) = find_postgresql() {
        return Ok(folder);
    }
    apt("PostgreSQL with pgbench", &["postgresql", "postgresql-contrib"])?;
    find_postgresql().context("PostgreSQL is installed, and yet its programs are not found")
}

fn find_postgresql() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<_> = versions.map(|entry| entry.path()).collect();
    versions.sort_by_key(|path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()));
    let debian = versions.into_iter().rev().map(|version| version.join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = |folder: &PathBuf| {
        ["initdb", "postgres", "psql", "pgbench"].iter().all(|program| folder.join(program).is_file())
    };
    debian.chain(std::env::split_paths(&path)).find(all)
}

/// Its version, for the report.
pub fn version(programs: &Path) -> String {
    output(programs.join("postgres"), &["--version"]).replace("postgres (PostgreSQL)", "PostgreSQL")
}

/// An empty server. It ends when this goes out of scope.
#[derive(Debug)]
pub struct Postgresql {
    pub process: Process,
    programs: PathBuf,
    /// The folder of the socket; not the data folder, whose path may be too long for one.
    socket: TempDir,
}

/// The user of the server, who must not be root.
struct Owner {
    uid: u32,
    gid: u32,
}

impl Owner {
    /// `None`: the current user.
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

impl Postgresql {
    /// Starts a server with its data in a folder, with the default durability.
    pub fn start(programs: &Path, folder: &Path, connections: u64) -> anyhow::Result<Self> {
        let owner = Owner::find()?;
        let socket = tempfile::Builder::new().prefix("bench-").tempdir()?;
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
        // The C locale compares texts byte by byte, which is fastest.
        make.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"]);
        run(make.stdin(Stdio::null()))?;

        let mut serve = command("postgres");
        serve.arg("-k").arg(socket.path()).args(["-c", "listen_addresses="]);
        // The defaults, set explicitly in case that the machine has others.
        serve.args(["-c", "fsync=on", "-c", "synchronous_commit=on"]);
        if connections > 90 {
            serve.args(["-c", &format!("max_connections={}", connections + 10)]);
        }
        // "Immediate shutdown": its processes end, its shared memory is freed, and nothing is written.
        let process = Process::start_with("PostgreSQL", serve, &folder.join("log"), "QUIT")?;
        let mut server = Postgresql { process, programs: programs.to_owned(), socket };
        let ready = {
            let (programs, socket) = (server.programs.clone(), server.socket.path().to_owned());
            move || psql(&programs, &socket, "postgres", "", "SELECT 1").is_ok()
        };
        server.process.wait_until(Duration::from_millis(50), ready)?;
        Ok(server)
    }

    /// The folder with its socket.
    pub fn socket(&self) -> &Path {
        self.socket.path()
    }

    /// The result of a statement; `options` as in `PGOPTIONS`.
    pub fn ask(&self, role: &str, options: &str, sql: &str) -> anyhow::Result<String> {
        psql(&self.programs, self.socket.path(), role, options, sql)
    }
}

fn psql(programs: &Path, socket: &Path, role: &str, options: &str, sql: &str) -> anyhow::Result<String> {
    let mut command = Command::new(programs.join("psql"));
    command.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"]);
    command.args(["--dbname=postgres", "--username", role, "--command", sql, "--host"]).arg(socket);
    command.env("PGOPTIONS", options);
    Ok(run(command.stdin(Stdio::null()))?.trim().to_owned())
}

/// The output of a command.
pub fn run(command: &mut Command) -> anyhow::Result<String> {
    // Variables of psql and pgbench from the environment are removed.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
        if name != "PGOPTIONS" {
            command.env_remove(name);
        }
    }
    let output = command.output().with_context(|| format!("{:?} does not start", command.get_program()))?;
    if !output.status.success() {
        // All clients report the same error, so the first lines suffice.
        let stderr = String::from_utf8_lossy(&output.stderr);
        let stderr: Vec<_> = stderr.lines().take(5).collect();
        bail!("{:?}: {}", command.get_program(), stderr.join("\n"));
    }
    Ok(String::from_utf8(output.stdout)?)
}
