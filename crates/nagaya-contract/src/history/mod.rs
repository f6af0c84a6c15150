//! Histories: what concurrent clients did to a store, and whether a store without concurrency could have given the same
//! answers (linearizability).
//!
//! A history records calls on registers. A register is one item, or several that are always written together; its version is 0
//! while it is absent, and each write replaces one version by the next under a condition. So versions are the total
//! order of a register's writes, and [`check`] needs no search: it compares that order with the real time of the
//! calls.
//!
//! It is not a check of values: what an item holds beside its version is for the other cases.

mod cases;
mod check;
mod clients;

use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use self::cases::CASES;
pub(crate) use self::check::check;

/// A version of a register; 0: it is absent.
pub(crate) type Version = u64;

/// A call of a client, from before it was made until after it was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// Who called.
    pub(crate) client: usize,
    /// The tick before the call.
    pub(crate) invoked: u64,
    /// The tick after the answer.
    pub(crate) returned: u64,
    /// The register.
    pub(crate) register: usize,
    /// What was called, and the answer.
    pub(crate) call: Call,
}

/// A call, and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Call {
    /// All items of the register go from one version to the next, if they have that version.
    Write {
        /// The version that the condition asks for.
        from: Version,
        /// The result of the write.
        outcome: Outcome,
    },
    /// Items of the register were read at once; the version of each.
    Read(Vec<Version>),
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was acknowledged.
    Done,
    /// Its condition did not hold.
    Refused,
    /// It failed otherwise: it may have happened or not.
    Unknown,
}

/// The clock of a history: every tick is another one, and later ticks are greater.
#[derive(Debug, Default)]
pub(crate) struct Ticks(AtomicU64);

impl Ticks {
    /// The next tick.
    pub(crate) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// What one client did.
#[derive(Debug)]
pub(crate) struct Recorder<'t> {
    ticks: &'t Ticks,
    client: usize,
    events: Vec<Event>,
}

impl<'t> Recorder<'t> {
    /// A recorder without events.
    pub(crate) fn new(ticks: &'t Ticks, client: usize) -> Self {
        Recorder { ticks, client, events: Vec::new() }
    }

    /// Makes a call and notes it with its answer.
    pub(crate) async fn call<T, E>(
        &mut self,
        register: usize,
        call: impl Future<Output = Result<(Call, T), E>>,
    ) -> Result<T, E> {
        let invoked = self.ticks.next();
        let (call, answer) = call.await?;
        let returned = self.ticks.next();
        self.events.push(Event { client: self.client, invoked, returned, register, call });
        Ok(answer)
    }

    /// Everything that was noted, in the order in which it happened.
    pub(crate) fn into_events(self) -> Vec<Event> {
        self.events
    }
}
