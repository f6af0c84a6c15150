//! Event sourcing on a design: what has happened is the truth, in order, and everything else is made from it.
//!
//! A domain says two things, without waiting for anything and without a store: what events make of a state ([`Evolve`]), and
//! which events a command comes to ([`Decide`]). [`Events`] carries commands out: it loads a state, lets it decide, and
//! appends the events together with the aggregate's head, on the condition that nobody was faster. A [`Processor`] follows
//! the store's changes and keeps a [`Projection`] in step, in order for each aggregate whatever order they arrive in.
//!
//! What it is not: a message broker, or a way to write items that are not events. Which entities hold events, head,
//! idempotency records, snapshots and projections the design says, in `[aggregate.…]`.

mod chain;
mod compare;
mod domain;
mod error;
mod events;
mod feed;
mod generation;
mod inspect;
mod layout;
mod order;
mod parked;
mod processor;
mod projection;
mod rebuild;
mod recorded;
mod seal;
pub mod testing;
mod verified;

pub use self::{
    domain::{Context, Decide, Evolve, Raw},
    error::{Error, ErrorKind, Failure},
    events::{Events, Executed, Loaded, Options, Request},
    feed::{Feed, Listening},
    generation::{Generations, follow_generations},
    inspect::{Broken, Chains, Inspector},
    parked::{DeadLetter, Settled},
    processor::{Options as ProcessorOptions, Processor, Step},
    projection::{Item, Projection},
    rebuild::{Progress, Tell},
    recorded::Recorded,
    seal::ERASED,
    verified::{Content, Verified, Wrong},
};
