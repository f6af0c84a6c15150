//! The rounds: every server in turn, one call after the other.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

use crate::{
    machine::cpu_seconds,
    servers::{Call, Name, Server, Started},
};

/// How much is asked.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Load {
    pub(crate) seconds: u64,
    pub(crate) rounds: u64,
    pub(crate) connections: u64,
}

impl Load {
    /// Seconds before each measurement that do not count.
    pub(crate) fn warm(&self) -> u64 {
        self.seconds.div_ceil(4)
    }
}

/// What was measured of one server: each call, round by round.
pub(crate) type Figures = BTreeMap<Call, Vec<Pace>>;

/// How fast one measurement went.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Pace {
    pub(crate) per_second: f64,
    /// Microseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// Microseconds of processor time that the server took for each.
    pub(crate) cpu: f64,
    /// Of an answer with its head.
    pub(crate) bytes: Option<f64>,
}

/// Measures all servers, and ends them.
pub(crate) fn all(servers: Started, load: &Load) -> anyhow::Result<BTreeMap<Name, Figures>> {
    let mut figures: BTreeMap<Name, Figures> = BTreeMap::new();
    servers.values().try_for_each(|server| server.process().settle())?;
    // Creating comes last, so that everybody is asked about the same tasks before.
    for calls in [&[Call::Read, Call::List][..], &[Call::Create]] {
        for round in 1..=load.rounds {
            for (name, server) in &servers {
                for call in calls.iter().filter(|call| server.has(**call)) {
                    let pace = measure(&**server, *call, load).with_context(|| format!("{name}, {call:?}"))?;
                    eprintln!("  round {round}: {name:10} {call:6?} {:7.0}/s", pace.per_second);
                    figures.entry(*name).or_default().entry(*call).or_default().push(pace);
                }
            }
        }
    }
    Ok(figures)
}

fn measure(server: &dyn Server, call: Call, load: &Load) -> anyhow::Result<Pace> {
    let before = if call == Call::Create { server.count()? } else { 0 };
    let warm = server.run(call, load.warm())?;
    let cpu = cpu_seconds(server.process().id())?;
    let counted = server.run(call, load.seconds)?;
    // What is left to do in the background belongs to what was asked, and is not to slow the next one.
    server.process().settle()?;
    let cpu = cpu_seconds(server.process().id())? - cpu;
    if call == Call::Create {
        let (said, made) = (warm.requests + counted.requests, server.count()? - before);
        ensure!(made >= said, "{said} tasks were acknowledged, and {made} are there");
    }
    Ok(Pace {
        per_second: counted.requests as f64 / counted.seconds,
        p50: counted.p50,
        p99: counted.p99,
        cpu: cpu * 1e6 / counted.requests as f64,
        bytes: counted.bytes,
    })
}
