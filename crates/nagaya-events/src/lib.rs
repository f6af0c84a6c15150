//! Event sourcing on a design: the events of an aggregate are stored in order, and projections are built from them.
//!
//! A domain is two pure functions: how an event changes a state ([`Evolve`]), and which events a command leads to
//! ([`Decide`]). [`Events`] executes commands: it loads a state, calls `decide`, and appends the events together with the
//! aggregate's head, on the condition that no other writer was faster. A [`Processor`] subscribes to the store's changes and
//! keeps a [`Projection`] up to date, in order for each aggregate, in whatever order the changes arrive.
//!
//! It is not a message broker, and it does not write items that are not events. The design says in `[aggregate.…]` which
//! entities hold events, heads, idempotency records, snapshots and projections.

mod chain;
mod dead_letters;
mod domain;
mod error;
mod event_id;
mod events;
mod feed;
mod generation;
mod inspect;
mod layout;
mod processor;
mod projection;
mod rebuild;
mod recorded;
mod seal;
mod skipped;
pub mod testing;

pub use self::{
    dead_letters::{DeadLetter, UnparkOutcome},
    domain::{Context, Decide, Evolve, RawEvent},
    error::{Error, ErrorKind, Failure},
    events::{CommandRequest, Events, EventsOptions, Executed, LoadedAggregate},
    feed::{Feed, FeedListener},
    generation::{Generations, refresh_generations},
    inspect::{BrokenChain, ChainReport, Inspector},
    processor::{Options as ProcessorOptions, Processor, RetryReport, StepReport, oldest_waiting_event},
    projection::{Item, Projection},
    rebuild::{ItemsDigest, Mismatch, Progress, ProgressCallback, VerificationReport},
    recorded::RecordedEvent,
    seal::ERASED,
    skipped::SkippedEvent,
};
