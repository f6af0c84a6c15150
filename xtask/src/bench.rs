//! `cargo xtask bench`: keys, engines, the API and event sourcing, each compared with alternatives.

use std::{fs, path::PathBuf, process::Command};

use anyhow::Context as _;
use clap::Subcommand;

use crate::{
    run::{cargo, root, step, tools},
    servers::{Server, Servers},
};

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Measure the hot paths of keys
    Keys,
    /// Compare the embedded engine with bare fjall, redb and SQLite
    Engine(Engine),
    /// Compare the DynamoDB engine with the bare SDK, on DynamoDB Local
    Dynamodb(Dynamodb),
    /// Compare calls through a tenant's handle with calls on the bare store
    Walls(Output),
    /// Compare the search of recipes with a list of them
    Search(Output),
    /// Compare the API with a bare axum handler, PocketBase and PostgreSQL
    Api(Api),
    /// Compare event sourcing with the bare engine and with cqrs-es on PostgreSQL
    Events(Events),
}

/// Arguments of the embedded engine's benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Engine {
    /// Items in the directory, a multiple of 20000; several sizes separated by commas
    #[arg(long, default_value = "200000")]
    items: String,
    /// Seconds of each measurement
    #[arg(long, default_value = "5")]
    seconds: String,
    /// MiB of the write buffers of the engine and of bare fjall; several sizes separated by commas
    #[arg(long, default_value = "24")]
    write_buffer: String,
    #[command(flatten)]
    output: Output,
}

/// Arguments of the DynamoDB engine's benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Dynamodb {
    /// Rounds; each measures every kind of call
    #[arg(long, default_value = "9")]
    rounds: String,
    /// Calls of each kind and side in a round
    #[arg(long, default_value = "300")]
    calls: String,
    #[command(flatten)]
    output: Output,
}

/// Arguments of the API's benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Api {
    /// Seconds of each measurement
    #[arg(long, default_value = "5")]
    seconds: String,
    /// Rounds; each measures every server
    #[arg(long, default_value = "3")]
    rounds: String,
    /// Concurrent connections
    #[arg(long, default_value = "64")]
    connections: String,
    /// The servers to compare with, separated by commas
    #[arg(long, default_value = "axum,pocketbase,postgresql")]
    beside: String,
    #[command(flatten)]
    output: Output,
}

/// Arguments of the benchmark of event sourcing.
#[derive(Debug, clap::Args)]
pub(crate) struct Events {
    /// Seconds of each measurement
    #[arg(long, default_value = "4")]
    seconds: String,
    /// Rounds; each measures everything once
    #[arg(long, default_value = "3")]
    rounds: String,
    /// Events from which the projection is rebuilt, a multiple of 10
    #[arg(long, default_value = "1000000")]
    events: String,
    /// What to compare commands with: `cqrs-es` or `none`
    #[arg(long, default_value = "cqrs-es")]
    beside: String,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Output {
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Also write the report to docs/benchmarks.md
    #[arg(long)]
    write: bool,
}

pub(crate) fn run(task: &Task) -> anyhow::Result<()> {
    match task {
        Task::Keys => step("keys", cargo(["bench", "--package", "nagaya-design"])),
        Task::Engine(args) => engine(args),
        Task::Dynamodb(args) => dynamodb(args),
        Task::Walls(output) => run_benchmark(
            "walls",
            cargo(["bench", "--quiet", "--package", "nagaya-tenancy", "--bench", "walls", "--"]),
            output,
        ),
        Task::Search(output) => run_benchmark(
            "search",
            cargo(["bench", "--quiet", "--package", "nagaya-kondate", "--bench", "search", "--"]),
            output,
        ),
        Task::Api(args) => api(args),
        Task::Events(args) => events(args),
    }
}

fn engine(args: &Engine) -> anyhow::Result<()> {
    let mut command = benchmark("bench-engine");
    command.args(["--items", &args.items, "--seconds", &args.seconds, "--write-buffer", &args.write_buffer]);
    command.arg("--scratch").arg(root().join("target"));
    run_benchmark("engine", command, &args.output)
}

fn dynamodb(args: &Dynamodb) -> anyhow::Result<()> {
    let servers = Servers::start(&[Server::DynamodbLocal])?;
    let mut command = cargo(["bench", "--quiet", "--package", "nagaya-dynamodb", "--features", "servers"]);
    command.args(["--bench", "overhead", "--", "--rounds", &args.rounds, "--calls", &args.calls]);
    command.envs(servers.variables());
    run_benchmark("dynamodb", command, &args.output)
}

fn api(args: &Api) -> anyhow::Result<()> {
    let nagaya = release_binary()?;
    let mut command = benchmark("bench-api");
    command.args(["--seconds", &args.seconds, "--rounds", &args.rounds, "--connections", &args.connections]);
    command.args(["--beside", &args.beside]);
    command.arg("--nagaya").arg(nagaya);
    command.arg("--tools").arg(tools()).arg("--scratch").arg(root().join("target"));
    run_benchmark("api", command, &args.output)
}

fn events(args: &Events) -> anyhow::Result<()> {
    let nagaya = release_binary()?;
    let mut command = benchmark("bench-events");
    command.args(["--seconds", &args.seconds, "--rounds", &args.rounds, "--events", &args.events]);
    command.args(["--beside", &args.beside]);
    command.arg("--nagaya").arg(nagaya).arg("--scratch").arg(root().join("target"));
    run_benchmark("events", command, &args.output)
}

/// Runs a package of the benchmark workspace.
fn benchmark(package: &str) -> Command {
    let mut command = cargo(["run", "--release", "--locked", "--quiet", "--package", package]);
    command.args(["--manifest-path", "benches/Cargo.toml", "--target-dir", "target/bench", "--", "run"]);
    command
}

/// The release binary with every engine.
fn release_binary() -> anyhow::Result<PathBuf> {
    let mut build =
        cargo(["build", "--profile", "dist", "--locked", "--quiet", "--package", "nagaya-cli", "--all-features"]);
    build.args(["--target-dir", "target/bench"]);
    step("build", build)?;
    Ok(root().join("target/bench/dist/nagaya"))
}

/// Runs a benchmark, and writes its report into the page on request.
fn run_benchmark(name: &str, mut command: Command, output: &Output) -> anyhow::Result<()> {
    if output.json {
        command.arg("--json");
    }
    let report = report_of(name);
    if output.write {
        command.arg("--page").arg(&report);
    }
    step(name, command)?;
    if output.write {
        let page = root().join("docs/benchmarks.md");
        let read =
            |path: &PathBuf| fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()));
        let written = with_section(&read(&page)?, name, &read(&report)?);
        fs::write(&page, written).with_context(|| format!("{} cannot be written", page.display()))?;
    }
    Ok(())
}

fn report_of(name: &str) -> PathBuf {
    root().join(format!("target/bench-{name}.md"))
}

/// The page with the section of this name replaced or added.
fn with_section(page: &str, name: &str, section: &str) -> String {
    let (open, close) = (format!("<!-- {name} -->"), format!("<!-- /{name} -->"));
    let section = format!("{open}\n{}\n{close}", section.trim());
    match (page.find(&open), page.find(&close)) {
        (Some(start), Some(end)) => format!("{}{section}{}", &page[..start], &page[end + close.len()..]),
        _ => format!("{}\n\n{section}\n", page.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_replaces_the_former_one() {
        let page = with_section("# Benchmarks\n", "one", "## One\n\n1\n");
        let page = with_section(&page, "two", "## Two\n\n2\n");
        let page = with_section(&page, "one", "## One\n\n3\n");
        assert_eq!(
            page,
            "# Benchmarks\n\n<!-- one -->\n## One\n\n3\n<!-- /one -->\n\n<!-- two -->\n## Two\n\n2\n<!-- /two -->\n"
        );
    }
}
