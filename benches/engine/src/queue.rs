//! Group commit for the bare libraries, like the engine's: one thread commits all queued writes.

use std::{
    sync::mpsc::{Receiver, Sender, channel},
    thread::JoinHandle,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;
use tokio::sync::oneshot;

use crate::workload::Entries;

/// Write sets in one commit.
pub(crate) const GROUP: usize = 64;

/// A library that commits a group of writes durably.
pub(crate) trait Commit: Send + 'static {
    /// Commits; `sequence` is the number of the first change.
    fn commit(&mut self, group: Vec<Entries>, sequence: u64) -> anyhow::Result<()>;
}

type Waiting = (Entries, oneshot::Sender<anyhow::Result<()>>);

pub(crate) struct Queue {
    requests: Option<Sender<Waiting>>,
    thread: Option<JoinHandle<()>>,
}

impl Queue {
    /// `sequence`: the highest number in use.
    pub(crate) fn start(library: impl Commit, sequence: u64) -> Self {
        let (requests, incoming) = channel();
        let thread = std::thread::spawn(move || serve(library, sequence, &incoming));
        Queue { requests: Some(requests), thread: Some(thread) }
    }

    pub(crate) async fn write(&self, number: u64) -> anyhow::Result<()> {
        let entries = Entries::new(number, now());
        let (answer, answered) = oneshot::channel();
        let requests = self.requests.as_ref().context("the queue is closed")?;
        requests.send((entries, answer)).ok().context("the committing thread has stopped")?;
        answered.await?
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(mut library: impl Commit, mut sequence: u64, requests: &Receiver<Waiting>) {
    while let Ok(first) = requests.recv() {
        let mut entries = Vec::with_capacity(GROUP);
        let mut answers = Vec::with_capacity(GROUP);
        let mut next = Some(first);
        while let Some((entry, answer)) = next.take() {
            entries.push(entry);
            answers.push(answer);
            if entries.len() < GROUP {
                next = requests.try_recv().ok();
            }
        }
        let failure = library.commit(entries, sequence + 1).err().map(|error| error.to_string());
        sequence += answers.len() as u64;
        for answer in answers {
            let outcome = failure.clone().map_or(Ok(()), |failure| Err(anyhow::Error::msg(failure)));
            let _ = answer.send(outcome);
        }
    }
}

/// Milliseconds since 1970, as in a change.
pub(crate) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64
}
