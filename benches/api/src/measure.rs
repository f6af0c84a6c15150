//! The rounds: every server in turn, one kind of call after another.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

use crate::{
    machine::cpu_seconds,
    servers::{Call, Name, Server, Started},
};

/// The load of a measurement.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Load {
    pub(crate) seconds: u64,
    pub(crate) rounds: u64,
    pub(crate) connections: u64,
}

impl Load {
    /// Seconds of warm-up before each measurement.
    pub(crate) fn warm(&self) -> u64 {
        self.seconds.div_ceil(4)
    }
}

/// The results of one server: each call, round by round.
pub(crate) type Figures = BTreeMap<Call, Vec<Pace>>;

/// The result of one measurement.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Pace {
    pub(crate) per_second: f64,
    /// Microseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// Processor time of the server per call, in microseconds.
    pub(crate) cpu: f64,
    /// Bytes of a response with its head.
    pub(crate) bytes: Option<f64>,
}

/// Measures all servers, and stops them.
pub(crate) fn all(servers: Started, load: &Load) -> anyhow::Result<BTreeMap<Name, Figures>> {
    let mut figures: BTreeMap<Name, Figures> = BTreeMap::new();
    servers.values().try_for_each(|server| server.process().settle())?;
    // Creates come last, so that the reads of all servers work on the same tasks.
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
    // Background work belongs to this measurement, and must not slow down the next one.
    server.process().settle()?;
    let cpu = cpu_seconds(server.process().id())? - cpu;
    if call == Call::Create {
        let (acknowledged, stored) = (warm.requests + counted.requests, server.count()? - before);
        ensure!(stored >= acknowledged, "{acknowledged} tasks were acknowledged, and {stored} are stored");
    }
    Ok(Pace {
        per_second: counted.requests as f64 / counted.seconds,
        p50: counted.p50,
        p99: counted.p99,
        cpu: cpu * 1e6 / counted.requests as f64,
        bytes: counted.bytes,
    })
}
