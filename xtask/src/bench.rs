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
    Engine(Options),
    /// Compare the DynamoDB engine with the bare SDK, on DynamoDB Local
    Dynamodb(Options),
    /// Compare calls through a tenant's handle with calls on the bare store
    Walls(Options),
    /// Compare the search of recipes with a list of them
    Search(Options),
    /// Compare the API with a bare axum handler, PocketBase and PostgreSQL
    Api(Options),
    /// Measure memory and latency of the API while clients misbehave
    Overload(Options),
    /// Compare event sourcing with the bare engine and with cqrs-es on PostgreSQL
    Events(Options),
}

#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// Options of the benchmark, which `--help` lists; `--write` also writes the report to docs/benchmarks.md
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<String>,
}

pub(crate) fn run(task: &Task) -> anyhow::Result<()> {
    match task {
        Task::Keys => step("keys", cargo(["bench", "--package", "nagaya-design"])),
        Task::Engine(options) => {
            let mut command = benchmark("bench-engine", "run");
            command.arg("--scratch").arg(root().join("target"));
            run_benchmark("engine", command, options)
        }
        Task::Dynamodb(options) => {
            let servers = Servers::start(&[Server::DynamodbLocal])?;
            let mut command = cargo(["bench", "--quiet", "--package", "nagaya-dynamodb", "--features", "servers"]);
            command.args(["--bench", "overhead", "--"]).envs(servers.variables());
            run_benchmark("dynamodb", command, options)
        }
        Task::Walls(options) => run_benchmark(
            "walls",
            cargo(["bench", "--quiet", "--package", "nagaya-tenancy", "--bench", "walls", "--"]),
            options,
        ),
        Task::Search(options) => run_benchmark(
            "search",
            cargo(["bench", "--quiet", "--package", "nagaya-kondate", "--bench", "search", "--"]),
            options,
        ),
        Task::Api(options) => {
            let nagaya = release_binary()?;
            let mut command = benchmark("bench-api", "run");
            command.arg("--nagaya").arg(nagaya).arg("--tools").arg(tools());
            command.arg("--scratch").arg(root().join("target"));
            run_benchmark("api", command, options)
        }
        Task::Overload(options) => {
            let nagaya = release_binary()?;
            let mut command = benchmark("bench-api", "overload");
            command.arg("--nagaya").arg(nagaya).arg("--scratch").arg(root().join("target"));
            run_benchmark("overload", command, options)
        }
        Task::Events(options) => {
            let nagaya = release_binary()?;
            let mut command = benchmark("bench-events", "run");
            command.arg("--nagaya").arg(nagaya).arg("--scratch").arg(root().join("target"));
            run_benchmark("events", command, options)
        }
    }
}

/// Runs a task of a package of the benchmark workspace.
fn benchmark(package: &str, task: &str) -> Command {
    let mut command = cargo(["run", "--release", "--locked", "--quiet", "--package", package]);
    command.args(["--manifest-path", "benches/Cargo.toml", "--target-dir", "target/bench", "--", task]);
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
fn run_benchmark(name: &str, mut command: Command, Options { options }: &Options) -> anyhow::Result<()> {
    command.args(options.iter().filter(|option| *option != "--write"));
    let (writes, report) = (options.iter().any(|option| option == "--write"), report_of(name));
    if writes {
        command.arg("--page").arg(&report);
    }
    step(name, command)?;
    if writes {
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
