//! The health that stores report about themselves, without a call to them.

use std::time::Duration;

use nagaya_store::Health as StoreHealth;
use tokio::time::Instant;

use super::Health;
use crate::observe::{LogThrottle, TARGET};

/// How often the health of stores is read. It costs nothing.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often an unhealthy store is logged again.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// An unhealthy store, and the systems on it.
#[derive(Debug, PartialEq, Eq)]
struct UnhealthyStore {
    health: StoreHealth,
    systems: String,
}

impl Health {
    /// Logs unhealthy stores, for ever.
    pub(crate) async fn log_stores(&self) {
        let throttle = LogThrottle::new(LOG_INTERVAL);
        let mut before: Vec<UnhealthyStore> = Vec::new();
        loop {
            let now = self.unhealthy_stores();
            for store in &now {
                store.log(&throttle);
            }
            for UnhealthyStore { systems, .. } in &before {
                if !now.iter().any(|store| store.systems == *systems) {
                    tracing::info!(target: TARGET, systems, "the store is ready again");
                }
            }
            before = now;
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Waits until a store has been unavailable for this long without a break, and returns the reason.
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
            tokio::time::sleep(INTERVAL.min(after)).await;
        }
    }

    /// The first system whose store reports that it is unavailable, and the reason.
    pub(super) fn unavailable(&self) -> Option<(String, String)> {
        self.stores().into_iter().find_map(|(system, health)| match health {
            StoreHealth::Unavailable(reason) => Some((system, reason)),
            StoreHealth::Ready | StoreHealth::Warning(_) | StoreHealth::ReadOnly(_) => None,
        })
    }

    /// The stores that are not ready. Systems that share a store are in one entry.
    fn unhealthy_stores(&self) -> Vec<UnhealthyStore> {
        let mut unhealthy: Vec<UnhealthyStore> = Vec::new();
        for (system, health) in self.stores() {
            if health == StoreHealth::Ready {
                continue;
            }
            match unhealthy.iter_mut().find(|store| store.health == health) {
                Some(store) => {
                    store.systems.push_str(", ");
                    store.systems.push_str(&system);
                }
                None => unhealthy.push(UnhealthyStore { health, systems: system }),
            }
        }
        unhealthy
    }
}

impl UnhealthyStore {
    fn log(&self, throttle: &LogThrottle) {
        let systems = self.systems.as_str();
        // The reason may contain a number that changes, so the throttle goes by the kind of health.
        match &self.health {
            StoreHealth::Unavailable(reason) if throttle.should_log(&format!("unavailable {systems}")).is_some() => {
                tracing::error!(target: TARGET, systems, reason, "the store is not available");
            }
            StoreHealth::Warning(reason) | StoreHealth::ReadOnly(reason)
                if throttle.should_log(&format!("warning {systems}")).is_some() =>
            {
                tracing::warn!(target: TARGET, systems, reason, "the store needs attention");
            }
            _ => {}
        }
    }
}
