//! Sample data for a system.
//!
//! `nagaya seed` fills any design with plain items. A system whose items have a history or depend on each other implements
//! [`Seeder`] for them. The same seed number gives the same data, so that a second run adds nothing: chance comes from
//! [`Rng`], and times and ids from [`stamp`].

mod person;
mod rng;
mod seeder;
pub mod stamp;

pub use self::{
    person::{EXAMPLE_DOMAINS, Person},
    rng::Rng,
    seeder::{Error, SeedContext, SeedStep, SeedSteps, SeededItem, Seeder},
};

/// How often a busy store is tried again before seeding fails.
pub const MAX_ATTEMPTS: usize = 50;
/// How long to wait before a busy store is tried again.
pub const RETRY_PAUSE: std::time::Duration = std::time::Duration::from_millis(50);
/// The milliseconds of a day.
pub const DAY_MILLIS: i64 = 24 * 60 * 60 * 1_000;
