//! How much of something expensive happens at the same time.

use std::{
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

use nagaya_server::{Call, Problem, ProblemCode};
use tokio::sync::{Semaphore, SemaphorePermit};

/// How many requests have their turn at the same time in this process.
const MAX_TURNS: usize = 4;
/// The same of one caller: one alone does not keep all others waiting.
const MAX_TURNS_OF_CALLER: usize = 2;
/// Groups of callers. Two callers are rarely in the same one, and nobody knows which they are.
const GROUPS: usize = 256;
/// How long a request waits for its turn at most.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// A limit of requests that are expensive, and that everyone may send often. What they read of the store comes at once when the store
/// is in this process: so they give others their turn between two reads, and there must be few of them, or all others wait for each.
#[derive(Debug)]
pub(crate) struct Turns {
    all: Semaphore,
    callers: Vec<Semaphore>,
    hasher: RandomState,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'t> {
    _caller: SemaphorePermit<'t>,
    _all: SemaphorePermit<'t>,
}

impl Default for Turns {
    fn default() -> Self {
        Turns {
            all: Semaphore::new(MAX_TURNS),
            callers: (0..GROUPS).map(|_| Semaphore::new(MAX_TURNS_OF_CALLER)).collect(),
            hasher: RandomState::new(),
        }
    }
}

impl Turns {
    /// Waits for a turn; 503 if that takes too long.
    pub(crate) async fn wait(&self, call: &Call) -> Result<Turn<'_>, Problem> {
        // Callers without a token have an address only.
        let tenant = call.caller.tenant.as_deref();
        let turn = self.wait_as(tenant.or(call.origin.address.as_deref()).unwrap_or_default()).await;
        turn.ok_or_else(|| {
            let detail = "The server handles too many requests of this kind.";
            Problem::from_code(ProblemCode::OVERLOADED, detail).retry_after(1)
        })
    }

    async fn wait_as(&self, caller: &str) -> Option<Turn<'_>> {
        let own = self.callers.get(self.group_of(caller))?;
        let turn = async { Some(Turn { _caller: own.acquire().await.ok()?, _all: self.all.acquire().await.ok()? }) };
        tokio::time::timeout(MAX_WAIT, turn).await.ok().flatten()
    }

    fn group_of(&self, caller: &str) -> usize {
        // The remainder is less than the number of groups, so it fits.
        (self.hasher.hash_one(caller) % GROUPS as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    /// Callers of different groups.
    fn callers(turns: &Turns, count: usize) -> Vec<String> {
        let mut seen = std::collections::HashSet::new();
        let all = (0..).map(|n| format!("u_{n}"));
        all.filter(|caller| seen.insert(turns.group_of(caller))).take(count).collect()
    }

    #[tokio::test]
    async fn few_have_their_turn_at_the_same_time() {
        let turns = Turns::default();
        let callers = callers(&turns, MAX_TURNS + 1);
        let mut held: Vec<_> =
            callers[..MAX_TURNS].iter().map(|caller| turns.wait_as(caller).now_or_never().flatten()).collect();
        assert!(held.iter().all(Option::is_some));
        let mut next = Box::pin(turns.wait_as(&callers[MAX_TURNS]));
        assert!((&mut next).now_or_never().is_none());
        held.pop();
        assert!(next.now_or_never().flatten().is_some());
    }

    #[tokio::test]
    async fn one_caller_leaves_turns_to_others() {
        let turns = Turns::default();
        let callers = callers(&turns, 2);
        let _held = [turns.wait_as(&callers[0]).await, turns.wait_as(&callers[0]).await];
        assert!(turns.wait_as(&callers[0]).now_or_never().is_none());
        assert!(turns.wait_as(&callers[1]).now_or_never().flatten().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_ever() {
        let turns = Turns::default();
        let _held = [turns.wait_as("u_1").await, turns.wait_as("u_1").await];
        let started = tokio::time::Instant::now();
        assert!(turns.wait_as("u_1").await.is_none());
        assert_eq!(started.elapsed(), MAX_WAIT);
    }
}
