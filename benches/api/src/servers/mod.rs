//! The servers, each started on a separate directory, loaded and checked.

pub(crate) mod axum;
mod nagaya;
mod pocketbase;
mod postgresql;
mod site;

use std::{collections::BTreeMap, fmt, path::Path};

use anyhow::Context as _;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::{measure::Load, process::Process, tools::Tools};

/// A server, in the order of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Name {
    #[value(skip)]
    Nagaya,
    /// An earlier build of it.
    #[value(skip)]
    Earlier,
    Axum,
    Pocketbase,
    Postgresql,
}

impl Name {
    pub(crate) const ALL: [Name; 5] = [Name::Nagaya, Name::Earlier, Name::Axum, Name::Pocketbase, Name::Postgresql];
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Name::Nagaya => "nagaya",
            Name::Earlier => "earlier build",
            Name::Axum => "bare axum",
            Name::Pocketbase => "PocketBase",
            Name::Postgresql => "PostgreSQL",
        })
    }
}

/// A measured kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Call {
    /// A task by its key.
    Read,
    /// The newest 20 tasks of a user.
    List,
    /// Creates a task, which is on disk before the response.
    Create,
}

/// The counts of a load generator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted {
    pub(crate) requests: u64,
    pub(crate) seconds: f64,
    /// Microseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// Bytes of a response with its head, where they are known.
    pub(crate) bytes: Option<f64>,
}

pub(crate) trait Server {
    fn process(&self) -> &Process;

    /// Whether the server supports this call.
    fn has(&self, call: Call) -> bool;

    /// Sends such calls for some seconds. Any unsuccessful response is an error.
    fn run(&self, call: Call, seconds: u64) -> anyhow::Result<Counted>;

    /// The number of tasks of the tenant.
    fn count(&self) -> anyhow::Result<u64>;
}

/// The running servers.
pub(crate) type Started = BTreeMap<Name, Box<dyn Server>>;

/// Starts nagaya and the servers to compare with; each is loaded, and its responses to all calls are checked.
pub(crate) fn start(
    binary: &Path,
    earlier: Option<&Path>,
    tools: &Tools,
    scratch: &Path,
    beside: &[Name],
    load: &Load,
) -> anyhow::Result<Started> {
    eprintln!("start and load {}", Name::Nagaya);
    let (nagaya, answer) = nagaya::start(binary, &scratch.join("nagaya"), load.connections)?;
    let mut started = Started::new();
    for name in beside {
        eprintln!("start and load {name}");
        let folder = scratch.join(format!("{name:?}").to_lowercase());
        let server: Box<dyn Server> = match name {
            Name::Nagaya | Name::Earlier => continue,
            Name::Axum => Box::new(axum::start(&answer, &folder, nagaya.token(), load.connections)?),
            Name::Pocketbase => {
                let program = tools.pocketbase.as_ref().context("PocketBase is not ready")?;
                Box::new(pocketbase::start(program, &folder, load.connections)?)
            }
            Name::Postgresql => {
                let programs = tools.postgresql.as_ref().context("PostgreSQL is not ready")?;
                Box::new(postgresql::start(programs, &folder, load.connections)?)
            }
        };
        started.insert(*name, server);
    }
    if let Some(binary) = earlier {
        eprintln!("start and load {}", Name::Earlier);
        let (server, _) = nagaya::start(binary, &scratch.join("earlier"), load.connections)?;
        started.insert(Name::Earlier, Box::new(server));
    }
    started.insert(Name::Nagaya, Box::new(nagaya));
    Ok(started)
}
