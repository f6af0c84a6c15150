//! Optimistic concurrency: read, decide, write on the condition that nothing has changed, and again after a lost race.

use std::time::Duration;

use crate::{Error, ErrorKind};

/// How often a change that loses races is tried by default.
pub(crate) const ATTEMPTS: usize = 20;

/// The attempts at a change that may lose races against other writers.
///
/// ```
/// # use nagaya_tenancy::{Error, Record, Retry, Tenant};
/// # use serde_json::{Map, Value};
/// # async fn close(tenant: Tenant, id: &str, closed: Map<String, Value>) -> Result<Record, Error> {
/// let mut retry = Retry::default();
/// loop {
///     retry.attempt().await?;
///     let ticket = tenant.get("ticket", &[id]).await?;
///     match tenant.update("ticket", &[id], closed.clone(), &ticket).await {
///         Err(error) if error.is_conflict() => {}
///         written => return written,
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Retry {
    begun: usize,
    attempts: usize,
}

impl Default for Retry {
    /// Twenty attempts.
    fn default() -> Self {
        Retry::new(ATTEMPTS)
    }
}

impl Retry {
    /// At most so many attempts, but at least one.
    pub fn new(attempts: usize) -> Self {
        Retry { begun: 0, attempts: attempts.max(1) }
    }

    /// Begins an attempt: the first ones at once, later ones after a random wait, so that many writers of one item do not keep
    /// each other from succeeding. When all attempts are used up, the error is [`ErrorKind::Contention`].
    pub async fn attempt(&mut self) -> Result<(), Error> {
        if self.begun == self.attempts {
            return Err(ErrorKind::Contention.into());
        }
        if let Some(doublings) = self.begun.checked_sub(2) {
            let mut random = [0];
            // Without random bits there is no wait.
            let _ = getrandom::fill(&mut random);
            let longest = Duration::from_millis(1 << doublings.min(6));
            tokio::time::sleep(longest * u32::from(random[0]) / 255).await;
        }
        self.begun += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn too_many_lost_races_are_an_error() {
        let mut retry = Retry::new(4);
        for _ in 0..4 {
            retry.attempt().await.expect("four attempts are allowed");
        }
        let error = retry.attempt().await.expect_err("the fifth is not");
        assert!(matches!(error.kind(), ErrorKind::Contention), "{error}");
    }
}
