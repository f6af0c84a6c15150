//! `cargo xtask servers`: the real servers that engines are tested on, installed and started on free ports.
//!
//! A server ends with the task that started it, however the task ends. It runs in a separate process group together with
//! a watchdog that reads from a pipe; the task holds the other end and never writes. When the task ends, is interrupted or
//! is killed, the pipe closes, and the watchdog kills its own process group.

mod install;

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};

use crate::run::{root, step};

/// Arguments of the task.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A command to run with the variables set, instead of running until Ctrl-C
    #[arg(last = true)]
    command: Vec<String>,
}

/// Runs the servers until Ctrl-C, or until a command ends.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut servers = Servers::start(&Server::ALL)?;
    if let Some((program, rest)) = args.command.split_first() {
        let mut command = Command::new(program);
        command.args(rest).envs(servers.variables());
        return step(program, command);
    }
    for (name, value) in servers.variables() {
        println!("export {name}={value}");
    }
    eprintln!("== servers run until Ctrl-C");
    loop {
        servers.check()?;
        thread::sleep(Duration::from_secs(1));
    }
}

/// A server that can be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    /// AWS's own server, on Java.
    DynamodbLocal,
    /// An alternative in Rust, on SQLite.
    Dynoxide,
    /// An alternative on Node.
    Dynalite,
}

impl Server {
    pub(crate) const ALL: [Server; 3] = [Server::DynamodbLocal, Server::Dynoxide, Server::Dynalite];

    /// The environment variable with its address.
    fn variable(self) -> &'static str {
        match self {
            Server::DynamodbLocal => "NAGAYA_TEST_DYNAMODB_LOCAL",
            Server::Dynoxide => "NAGAYA_TEST_DYNOXIDE",
            Server::Dynalite => "NAGAYA_TEST_DYNALITE",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Server::DynamodbLocal => "dynamodb-local",
            Server::Dynoxide => "dynoxide",
            Server::Dynalite => "dynalite",
        }
    }

    /// The command that runs it on a port; installs it if it is missing.
    fn command(self, port: u16) -> anyhow::Result<Command> {
        let port = port.to_string();
        let mut command;
        match self {
            Server::DynamodbLocal => {
                let folder = install::dynamodb_local()?;
                command = Command::new("java");
                command.args(["-Xmx1g", "-Djava.library.path=DynamoDBLocal_lib", "-jar", "DynamoDBLocal.jar"]);
                command.args(["-inMemory", "-disableTelemetry", "-port", &port]).current_dir(folder);
            }
            Server::Dynoxide => {
                command = Command::new(install::dynoxide()?);
                command.args(["serve", "--host", "127.0.0.1", "--port", &port]);
            }
            Server::Dynalite => {
                command = Command::new("node");
                command.arg(install::dynalite()?).args(["--host", "127.0.0.1", "--port", &port]);
                // Tables of tests are created without a simulated delay.
                command.args(["--createTableMs", "0", "--deleteTableMs", "0", "--updateTableMs", "0"]);
            }
        }
        Ok(command)
    }
}

/// Running servers. They stop when this goes out of scope.
pub(crate) struct Servers {
    running: Vec<Running>,
}

struct Running {
    server: Server,
    port: u16,
    child: Child,
    log: PathBuf,
}

impl Servers {
    /// Installs missing servers, starts them and waits until all are ready.
    pub(crate) fn start(which: &[Server]) -> anyhow::Result<Self> {
        let mut servers = Servers { running: Vec::new() };
        for server in which {
            servers.running.push(Running::start(*server)?);
        }
        for running in &mut servers.running {
            running.wait_until_ready()?;
            eprintln!("== {} answers on {}", running.server.name(), running.address());
        }
        Ok(servers)
    }

    /// The environment variables with the addresses of the servers.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let variable = |running: &Running| (running.server.variable(), format!("http://{}", running.address()));
        self.running.iter().map(variable).collect()
    }

    /// Fails if a server has stopped.
    fn check(&mut self) -> anyhow::Result<()> {
        self.running.iter_mut().try_for_each(Running::check)
    }
}

impl Running {
    fn start(server: Server) -> anyhow::Result<Self> {
        let port = free_port()?;
        let log = log_of(server)?;
        let command = server.command(port)?;
        let output = File::create(&log).with_context(|| format!("{} cannot be written", log.display()))?;
        let child = watched(&command)
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("{} does not start", server.name()))?;
        Ok(Running { server, port, child, log })
    }

    fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let start = Instant::now();
        while !answers(self.address()) {
            self.check()?;
            if start.elapsed() > Duration::from_secs(60) {
                bail!("{} does not answer after a minute; see {}", self.server.name(), self.log.display());
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    fn check(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            let output = fs::read_to_string(&self.log).unwrap_or_default();
            bail!("{} stopped ({status}). Its output:\n{output}", self.server.name());
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A server that cannot be killed is ignored, and so is one that has already ended.
        let _ = self.child.kill();
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The command with its watchdog: the shell starts the watchdog, then becomes the server.
pub(crate) fn watched(command: &Command) -> Command {
    const SCRIPT: &str = "exec 3<&0; (cat <&3 >/dev/null; kill -KILL 0) & exec \"$@\" </dev/null 3<&-";
    let mut shell = Command::new("sh");
    shell.args(["-c", SCRIPT, "sh"]).arg(command.get_program()).args(command.get_args()).stdin(Stdio::piped());
    if let Some(folder) = command.get_current_dir() {
        shell.current_dir(folder);
    }
    // A separate process group does not get the Ctrl-C of the terminal, and can be killed as a whole.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut shell, 0);
    shell
}

/// A free port on the loopback address.
fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port of the loopback is free")?;
    Ok(listener.local_addr()?.port())
}

/// Whether an HTTP server answers there.
fn answers(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(stream, "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
        let mut start = [0; 7];
        stream.read_exact(&mut start)?;
        Ok(&start == b"HTTP/1.")
    };
    ask().unwrap_or(false)
}

/// The log file of a server; each run has its own.
fn log_of(server: Server) -> anyhow::Result<PathBuf> {
    let folder = root().join("target/servers");
    fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    Ok(folder.join(format!("{}-{}.log", server.name(), std::process::id())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The process ids of a process group, from `/proc`.
    fn members(group: u32) -> Vec<String> {
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").expect("there is /proc").flatten() {
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let fields: Vec<_> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
            // State, parent, group; zombies do not count.
            if fields.get(2) == Some(&group.to_string().as_str()) && fields.first() != Some(&"Z") {
                found.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        found
    }

    fn has_ended(group: u32) -> bool {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(10) {
            if members(group).is_empty() {
                return true;
            }
            thread::sleep(Duration::from_millis(20));
        }
        false
    }

    fn sleeper() -> Child {
        let mut sleep = Command::new("sleep");
        sleep.arg("600");
        watched(&sleep).spawn().expect("sh is there")
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_server_and_its_watchdog_end_when_the_pipe_closes() {
        let mut child = sleeper();
        let group = child.id();
        while members(group).len() < 3 {
            thread::sleep(Duration::from_millis(5));
        }
        // As when the task ends in any way.
        drop(child.stdin.take());
        assert!(has_ended(group), "{:?} still run", members(group));
        child.wait().expect("it is ours");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_server_stops_when_it_goes_out_of_scope() {
        let child = sleeper();
        let group = child.id();
        drop(Running { server: Server::Dynoxide, port: 0, child, log: "/dev/null".into() });
        assert!(has_ended(group), "{:?} still run", members(group));
    }

    #[test]
    fn a_server_that_ends_on_its_own_is_noticed() {
        let child = watched(&Command::new("false")).spawn().expect("sh is there");
        let mut running = Running { server: Server::Dynalite, port: 0, child, log: "/dev/null".into() };
        let error = running.wait_until_ready().expect_err("it ends");
        assert!(error.to_string().starts_with("dynalite stopped (exit status: 1)"), "{error}");
    }
}
