//! How the stores say they are doing, as far as they know without being asked for anything.

use std::time::Duration;

use nagaya_store::Health as StoreHealth;
use tokio::time::Instant;

use super::Health;
use crate::observe::{Repeats, TARGET};

/// How often stores are looked at. It costs them nothing.
const EVERY: Duration = Duration::from_secs(1);
/// How often trouble that lasts is logged again.
const AGAIN: Duration = Duration::from_secs(60);

/// A store in trouble, and the systems on it.
#[derive(Debug, PartialEq, Eq)]
struct Trouble {
    health: StoreHealth,
    systems: String,
}

impl Health {
    /// Logs what stores say about themselves, for ever.
    pub(crate) async fn log_stores(&self) {
        let repeats = Repeats::new(AGAIN);
        let mut before: Vec<Trouble> = Vec::new();
        loop {
            let now = self.troubles();
            for trouble in &now {
                trouble.log(&repeats);
            }
            for Trouble { systems, .. } in &before {
                if !now.iter().any(|trouble| trouble.systems == *systems) {
                    tracing::info!(target: TARGET, systems, "the store is ready again");
                }
            }
            before = now;
            tokio::time::sleep(EVERY).await;
        }
    }

    /// Waits until a store has been unavailable for so long without a break; what it says about it.
    pub(crate) async fn store_failed(&self, after: Duration) -> String {
        let mut since = None;
        loop {
            match self.unavailable() {
                Some((_, reason)) => {
                    let since = *since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= after {
                        return reason;
                    }
                }
                None => since = None,
            }
            tokio::time::sleep(EVERY.min(after)).await;
        }
    }

    /// The first system whose store says that it is unavailable, and why.
    pub(super) fn unavailable(&self) -> Option<(String, String)> {
        self.stores().into_iter().find_map(|(system, health)| match health {
            StoreHealth::Unavailable(reason) => Some((system, reason)),
            StoreHealth::Ready | StoreHealth::Warning(_) | StoreHealth::ReadOnly(_) => None,
        })
    }

    /// What is not ready. Systems that share a store have the same trouble: it is told once.
    fn troubles(&self) -> Vec<Trouble> {
        let mut troubles: Vec<Trouble> = Vec::new();
        for (system, health) in self.stores() {
            if health == StoreHealth::Ready {
                continue;
            }
            match troubles.iter_mut().find(|trouble| trouble.health == health) {
                Some(trouble) => {
                    trouble.systems.push_str(", ");
                    trouble.systems.push_str(&system);
                }
                None => troubles.push(Trouble { health, systems: system }),
            }
        }
        troubles
    }
}

impl Trouble {
    fn log(&self, repeats: &Repeats) {
        let systems = self.systems.as_str();
        // What a store says may have a figure in it that changes: the same kind of trouble is the same.
        match &self.health {
            StoreHealth::Unavailable(reason) if repeats.pass(&format!("unavailable {systems}")).is_some() => {
                tracing::error!(target: TARGET, systems, reason, "the store is not available");
            }
            StoreHealth::Warning(reason) | StoreHealth::ReadOnly(reason)
                if repeats.pass(&format!("warning {systems}")).is_some() =>
            {
                tracing::warn!(target: TARGET, systems, reason, "the store needs attention");
            }
            _ => {}
        }
    }
}
