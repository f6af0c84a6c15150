//! Servers follow the list of a store.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use nagaya_store::Clock;
use tokio::{sync::Mutex, time::Instant};

use super::{RevocationStore, Revocations};
use crate::{identity::IssuerError, observe::TARGET};

/// Keeps the revocations of a server equal to those of a store.
#[derive(Debug)]
pub struct RevocationFollower {
    list: Arc<Revocations>,
    store: RevocationStore,
    clock: Clock,
    /// Seconds that tokens live; `None`: without a limit.
    max_token_age: Option<i64>,
    read: Mutex<Option<Instant>>,
    failed: AtomicBool,
}

impl RevocationFollower {
    /// Reads the list of a store.
    pub async fn start(
        list: Arc<Revocations>,
        store: RevocationStore,
        clock: Clock,
        max_token_age: Option<Duration>,
    ) -> Result<Self, IssuerError> {
        let max_token_age = max_token_age.map(|age| i64::try_from(age.as_secs()).unwrap_or(i64::MAX));
        let (read, failed) = (Mutex::new(None), AtomicBool::new(false));
        let follower = RevocationFollower { list, store, clock, max_token_age, read, failed };
        follower.read().await?;
        Ok(follower)
    }

    /// Reads the list again every few seconds, until all verifiers of it are gone.
    pub async fn follow(self) {
        // Verifiers share the list with this task.
        while Arc::strong_count(&self.list) > 1 {
            tokio::time::sleep(self.store.interval()).await;
            self.refresh().await;
        }
    }

    /// Reads the list again if it was read more than some seconds ago. Where it cannot be read, the one before stays in force.
    pub async fn refresh(&self) {
        let mut read = self.read.lock().await;
        if read.is_some_and(|at| at.elapsed() < self.store.interval() / 2) {
            return;
        }
        let result = self.read().await;
        *read = Some(Instant::now());
        // Once for each outage.
        let has_failed = self.failed.swap(result.is_err(), Ordering::Relaxed);
        match result {
            Err(error) if !has_failed => {
                tracing::error!(target: TARGET, %error, "newly revoked tokens are accepted until the list can be read again");
            }
            Ok(()) if has_failed => tracing::info!(target: TARGET, "the list of revoked tokens can be read again"),
            _ => {}
        }
    }

    async fn read(&self) -> Result<(), IssuerError> {
        let (found, now) = (self.store.list().await?, self.clock.seconds());
        self.list.replace(found.into_iter().filter(|each| each.is_needed(now, self.max_token_age)));
        Ok(())
    }
}
