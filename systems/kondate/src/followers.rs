//! What follows the changes of the store: saved counts and the search.
//!
//! Both are reconciled, not computed: a change says what to look at, and what is there then decides. So a change may come
//! twice or late, several may follow the same store, and where changes have been lost everything is looked at.

mod position;
mod work;

use std::{collections::HashSet, time::Duration};

use nagaya_server::Stop;
use nagaya_store::{ChangePosition, ErrorKind as StoreKind, From};
use nagaya_tenancy::{Error, ErrorKind, Follower, FollowerStatus, Nagaya, Operator, Principal};

use self::work::Work;

/// Changes that are read at once.
const BATCH: usize = 200;
/// How long to wait when there is nothing to do; twice as long when there still is nothing, for asking costs something.
const PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// How long to wait after a failure; twice as long after each further one.
const BACKOFF: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(5);
/// How often something is tried before it is left as it is, for the sake of everything else.
const TRIES: u32 = 10;

/// Who follows, in what is written down.
const USER: &str = "followers";

/// Follows until it is told to stop.
pub(crate) async fn run(nagaya: Nagaya, mut stop: Stop, status: FollowerStatus) {
    let clock = nagaya.clock();
    let mut followers = Followers::new(nagaya);
    followers.status = status;
    let mut idle = PAUSE;
    loop {
        let began = clock.millis();
        // A step is finished once it has begun: what it has read is worked on before the process ends.
        let pause = match followers.step().await {
            Ok(0) => {
                followers.status.caught_up(began);
                let pause = idle;
                idle = (idle * 2).min(LONGEST_PAUSE);
                pause
            }
            Ok(_) => {
                idle = PAUSE;
                Duration::ZERO
            }
            Err(error) => {
                if followers.failures.is_power_of_two() {
                    tracing::warn!(%error, failures = followers.failures, "what follows the changes failed");
                }
                BACKOFF.saturating_mul(1 << followers.failures.min(10)).min(LONGEST)
            }
        };
        tokio::select! {
            biased;
            () = stop.told() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Brings everything in step with what has been written so far.
pub async fn catch_up(nagaya: &Nagaya) -> Result<(), Error> {
    let mut followers = Followers::new(nagaya.clone());
    loop {
        match followers.step().await {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if followers.failures > TRIES => return Err(error),
            Err(_) => tokio::time::sleep(BACKOFF).await,
        }
    }
}

/// Follows the table.
pub(crate) struct Followers {
    nagaya: Nagaya,
    operator: Operator,
    /// That it begins to follow is written down, so it begins once.
    follower: Option<Follower>,
    /// A position that was kept, and how far has been read on from there without anything worth keeping a new one for.
    read_on: Option<(ChangePosition, ChangePosition)>,
    /// Steps that have failed since one did not.
    failures: u32,
    status: FollowerStatus,
}

impl Followers {
    pub(crate) fn new(nagaya: Nagaya) -> Self {
        let operator = nagaya.operator("keeps saved counts and the search in step", &Principal::new("", USER));
        Followers { nagaya, operator, follower: None, read_on: None, failures: 0, status: FollowerStatus::default() }
    }

    /// Reads changes once, and works on them; how many were read.
    pub(crate) async fn step(&mut self) -> Result<usize, Error> {
        let stepped = self.try_step().await;
        self.failures = if stepped.is_ok() { 0 } else { self.failures.saturating_add(1) };
        stepped
    }

    async fn try_step(&mut self) -> Result<usize, Error> {
        let follower = match &self.follower {
            Some(follower) => follower.clone(),
            None => self.follower.insert(self.operator.follow_all(&work::FOLLOWED).await?).clone(),
        };
        let kept = self.position().await?;
        let Some(stored) = kept.after() else { return self.begin(&kept).await };
        let read_on = self.read_on.as_ref().filter(|(from, _)| *from == stored).map(|(_, to)| to.clone());
        let followed = match follower.changes(From::After(read_on.unwrap_or_else(|| stored.clone())), BATCH).await {
            Ok(followed) => followed,
            Err(error) if is_lost(&error) => return self.begin(&kept).await,
            Err(error) => return Err(error),
        };
        let work = Work::of_changes(&followed.changes);
        let any = !work.is_empty();
        self.work(work).await?;
        if any || followed.read >= BATCH {
            self.keep(&kept, &followed.next).await?;
        } else if followed.read > 0 {
            // Reading alone is nothing to write down: the own notes may be what was read.
            self.read_on = Some((stored, followed.next));
        }
        Ok(followed.read)
    }

    /// Begins to follow: what happens from now on by changes, and what is there already by looking at all of it.
    async fn begin(&self, kept: &position::Kept) -> Result<usize, Error> {
        let follower = self.operator.follow_all(&work::LOOKED_AT).await?;
        let now = follower.changes(From::Now, 1).await?.next;
        let (mut looked, mut after, mut seen) = (0, None, HashSet::new());
        loop {
            let page = follower.scan((0, 1), after, Some(BATCH)).await?;
            looked += page.records.len();
            self.work(Work::of_items(&page.records, &mut seen)).await?;
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        self.keep(kept, &now).await?;
        tracing::info!(looked, "everything has been looked at; changes are followed from here");
        Ok(looked.max(1))
    }

    /// Works on all of it. One that cannot be done is no reason to stop for all the others: it is tried for a while, and
    /// then left as it is, until it changes again or everything is looked at.
    async fn work(&self, work: Work) -> Result<(), Error> {
        let failed = work::run(&self.nagaya, work.jobs()).await;
        let (mut left, mut again): (Vec<_>, Vec<_>) = failed.into_iter().partition(|(_, error)| lasts(error));
        if self.failures >= TRIES && self.nagaya.answers().await.is_ok() {
            // It is not the store that fails: what fails once more fails by itself.
            left.extend(work::run(&self.nagaya, again.drain(..).map(|(job, _)| job)).await);
        }
        self.status.gave_up(left.len());
        for (job, error) in left {
            tracing::error!(?job, %error, "this cannot be brought in step, and is left as it is");
        }
        again.pop().map_or(Ok(()), |(_, error)| Err(error))
    }
}

/// Whether the changes after a position are not kept any more.
fn is_lost(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Store(error) if matches!(error.kind(), StoreKind::Gap))
}

/// Whether something fails however often it is tried.
fn lasts(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Store(error) => matches!(error.kind(), StoreKind::Limit(_) | StoreKind::Invalid(_)),
        ErrorKind::Invalid(_) | ErrorKind::Breach | ErrorKind::BadTenant => true,
        _ => false,
    }
}
