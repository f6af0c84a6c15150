//! `cargo xtask schemathesis`: tests the API of every system against its OpenAPI document with Schemathesis.
//!
//! Schemathesis reads the document, generates valid and invalid requests, and checks every response. It runs all of its
//! checks against the server as users start it, on a new store on disk.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use serde_json::Value as Json;

use crate::{
    run::{cargo, root, step, tools},
    servers::watched,
};

/// Arguments of the task.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The system; all systems by default
    system: Option<String>,
    /// Cases of each operation, besides those at the limits of its schema
    #[arg(long, default_value_t = EXAMPLES)]
    max_examples: u32,
    /// The seed of the random generator
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The default number of cases of each operation: all systems together take some minutes.
const EXAMPLES: u32 = 10;

/// The number in `cargo xtask test`, where most cases are those at the limits of the schemas.
const QUICK_EXAMPLES: u32 = 4;

/// The systems, slowest first, each with a tenant id that its design accepts.
const SYSTEMS: [(&str, &str); 5] = [
    ("management", "tenant_demo"),
    ("kondate", "demo"),
    ("aiagent", "demo"),
    ("aiagent-multi", "demo"),
    ("todo", "demo"),
];

/// Tests the systems with the program that the tests have built, as `cargo xtask test` does.
///
/// Without `aiagent-multi`: its API is that of `aiagent`, and other tests compare the answers of the two.
pub(crate) fn quick() -> anyhow::Result<()> {
    let systems: Vec<_> = SYSTEMS.into_iter().filter(|(name, _)| *name != "aiagent-multi").collect();
    test(&systems, QUICK_EXAMPLES, 1)
}

/// Builds the program and tests its systems.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let chosen = |(name, _): &(&str, &str)| args.system.as_ref().is_none_or(|system| system == name);
    let systems: Vec<_> = SYSTEMS.into_iter().filter(chosen).collect();
    if systems.is_empty() {
        bail!("there is no such system; there are {}", SYSTEMS.map(|(name, _)| name).join(", "));
    }
    step("build", cargo(["build", "--quiet", "--package", "nagaya-cli"]))?;
    test(&systems, args.max_examples, args.seed)
}

/// Starts a server and runs schemathesis against its systems, two at a time.
fn test(systems: &[(&str, &str)], max_examples: u32, seed: u64) -> anyhow::Result<()> {
    let program = install()?;
    let folder = root().join("target/schemathesis");
    let server = Server::start(&folder)?;
    let left = Mutex::new(systems.iter());
    let next = || left.lock().ok()?.next();
    let work = || -> anyhow::Result<()> {
        while let Some((system, tenant)) = next() {
            server.test(&program, system, tenant, max_examples, seed)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let both = [scope.spawn(work), scope.spawn(work)];
        both.into_iter().try_for_each(|one| one.join().unwrap_or_else(|_| bail!("a run of schemathesis panicked")))
    })
}

/// A server that is killed when this is dropped.
struct Server {
    url: String,
    child: Child,
    folder: PathBuf,
    data: PathBuf,
}

impl Server {
    /// Serves all systems on a new directory.
    fn start(folder: &Path) -> anyhow::Result<Self> {
        let data = folder.join(format!("data-{}", std::process::id()));
        fs::create_dir_all(&data).with_context(|| format!("{} cannot be made", data.display()))?;
        let (banner, log) = (data.join("served.json"), folder.join("server.log"));
        let create = |path: &Path| File::create(path).with_context(|| format!("{} cannot be written", path.display()));
        let mut serve = Command::new(nagaya());
        serve.args(["serve", "--json", "--listen", "127.0.0.1:0", "--tenant-rate", "0", "--log", "warn"]);
        serve.arg("--data").arg(data.join("store"));
        let child = watched(&serve).stdout(create(&banner)?).stderr(create(&log)?).spawn();
        let child = child.context("the server does not start")?;
        let mut server = Server { url: String::new(), child, folder: folder.to_path_buf(), data };
        let start = Instant::now();
        while server.url.is_empty() {
            let first = fs::read_to_string(&banner).unwrap_or_default();
            let first: Json = first.lines().next().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
            server.url = first["url"].as_str().unwrap_or_default().to_owned();
            if server.child.try_wait()?.is_some() || start.elapsed() > Duration::from_secs(60) {
                bail!("the server does not start. Its output:\n{}", fs::read_to_string(&log).unwrap_or_default());
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    /// Runs schemathesis against a system.
    fn test(&self, program: &Path, system: &str, tenant: &str, max_examples: u32, seed: u64) -> anyhow::Result<()> {
        let start = Instant::now();
        let here = root().join("xtask/src/schemathesis");
        let (url, log) = (format!("{}/{system}", self.url), self.folder.join(format!("{system}.log")));
        let output = File::create(&log).with_context(|| format!("{} cannot be written", log.display()))?;
        let mut command = Command::new(program);
        command.arg("--config-file").arg(here.join("schemathesis.toml"));
        command.args(["run", &format!("{url}/openapi.json"), "--checks", "all", "--no-color", "--continue-on-failure"]);
        command.args(["--max-examples", &max_examples.to_string(), "--seed", &seed.to_string()]);
        command.args(["--generation-database", "none"]);
        // A token either is a tenant's or an operator's.
        command.env("NAGAYA_TEST_URL", &url).env("NAGAYA_TEST_TOKEN", self.token(system, Some(tenant), "admin")?);
        command.env("NAGAYA_TEST_OPERATOR_TOKEN", self.token(system, None, "operator")?);
        command.env("NAGAYA_TEST_HOOKS", here.join("hooks.py")).env("PYTHONDONTWRITEBYTECODE", "1");
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let status = command.status().context("schemathesis does not start")?;
        let output = fs::read_to_string(&log).unwrap_or_default();
        if !status.success() {
            // The failures come after a long list of passed cases.
            let failures = output.find("= FAILURES =").or_else(|| output.find("= ERRORS =")).unwrap_or(0);
            bail!("{system}: schemathesis found something ({status}); see {}\n{}", log.display(), &output[failures..]);
        }
        let cases = output.lines().find(|line| line.contains(" generated, ")).unwrap_or_default().trim();
        eprintln!("== schemathesis {system}: fine after {:.0?}: {cases}", start.elapsed());
        Ok(())
    }

    /// A token with a role: of a tenant, or of an operator without one.
    fn token(&self, system: &str, tenant: Option<&str>, role: &str) -> anyhow::Result<String> {
        let mut token = Command::new(nagaya());
        token.args(["token", "--system", system, "--role", role]);
        if let Some(tenant) = tenant {
            token.args(["--tenant", tenant]);
        }
        token.arg("--data").arg(self.data.join("store"));
        let output = token.output().context("`nagaya token` does not start")?;
        if !output.status.success() {
            bail!("there is no token for {system}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A server that cannot be killed or files that cannot be removed are ignored.
        let _ = self.child.kill();
        drop(self.child.stdin.take());
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.data);
    }
}

fn nagaya() -> PathBuf {
    root().join("target/debug").join(format!("nagaya{}", std::env::consts::EXE_SUFFIX))
}

/// The program, installed into a separate Python environment.
fn install() -> anyhow::Result<PathBuf> {
    let wanted = root().join("xtask/src/schemathesis/requirements.txt");
    let wanted_text = fs::read_to_string(&wanted).with_context(|| format!("{} cannot be read", wanted.display()))?;
    let folder = tools().join("schemathesis");
    let program = folder.join("bin/schemathesis");
    // Written last: a folder with this file is complete, and has these versions.
    let mark = folder.join("installed.txt");
    if fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted_text) && program.is_file() {
        return Ok(program);
    }
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear"]).arg(&folder);
    step("make a Python environment", make)
        .context("install Python 3.10 or newer with `venv` (Debian: `python3-venv`)")?;
    let mut install = Command::new(folder.join("bin/python"));
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]).arg(&wanted);
    step("install schemathesis", install)?;
    fs::write(&mark, wanted_text).with_context(|| format!("{} cannot be written", mark.display()))?;
    Ok(program)
}
