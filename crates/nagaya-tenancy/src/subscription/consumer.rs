//! Change consumers: everything that is derived from changes is kept up to date in one way.

use std::{error::Error as StdError, fmt, future::Future, pin::Pin};

use nagaya_store::Measurement;

use super::{ItemChange, Subscription};

/// A boxed future of a change consumer.
pub type ConsumerFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Why a change consumer failed.
pub type ConsumerError = Box<dyn StdError + Send + Sync>;

/// Keeps something up to date with the changes of items: a projection, counts, a search index, the files of deleted items.
///
/// It gets changes at least once, and in order for each item. Where they come from is not its concern: a process that runs
/// reads them from the store with the [`Subscription`], and a function gets them as records of a stream. So it must not
/// matter that a change comes twice, late, or to several processes.
pub trait ChangeConsumer: fmt::Debug + Send + Sync {
    /// Which changes it wants, and how far it has read them.
    fn subscription(&self) -> &Subscription;

    /// Processes changes. One that fails does not keep it from the others.
    fn process(&self, changes: Vec<ItemChange>) -> ConsumerFuture<'_, Processed>;

    /// Processes all stored items, when changes were lost or have never been read. An error: it has to be done again.
    fn process_all(&self) -> ConsumerFuture<'_, Result<Processed, ConsumerError>>;

    /// Reads changes and processes them, until told to stop.
    fn run<'a>(&'a self, stop: ConsumerFuture<'a, ()>) -> ConsumerFuture<'a, ()> {
        Box::pin(self.subscription().run(stop, || async { process_page(self).await.map(|page| page.read) }))
    }

    /// Tries again what has failed and is due. For processes in which nothing runs between the changes that they get.
    fn retry_due(&self) -> ConsumerFuture<'_, Result<(), ConsumerError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// How far it is behind, as metrics.
    fn measurements(&self, now: i64) -> ConsumerFuture<'_, Vec<Measurement>> {
        let subscription = self.subscription();
        Box::pin(std::future::ready(subscription.status().measurements(subscription.name(), now)))
    }
}

/// The outcome of processing changes or stored items.
#[derive(Debug, Default)]
pub struct Processed {
    /// How many of them concern the consumer.
    pub relevant: usize,
    /// How many things could not be brought up to date, and wait until somebody looks at them.
    pub parked: usize,
    /// The changes that have to be processed again, because they failed for a reason that may pass.
    pub failed: Vec<FailedChange>,
}

/// A change that has to be processed again.
#[derive(Debug)]
pub struct FailedChange {
    /// Its position among the changes.
    pub position: usize,
    /// Why.
    pub error: ConsumerError,
}

/// A page that a consumer has processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessedPage {
    /// How many changes were read, those of other entities included. After a gap: how many items.
    pub read: usize,
    /// How many of them concern the consumer.
    pub relevant: usize,
    /// How many things could not be brought up to date.
    pub parked: usize,
    /// Whether there may be further changes.
    pub is_full: bool,
}

/// Reads the next page of changes, lets a consumer process it, and acknowledges it if nothing has to be processed again.
pub async fn process_page<C: ChangeConsumer + ?Sized>(consumer: &C) -> Result<ProcessedPage, ConsumerError> {
    let subscription = consumer.subscription();
    let mut page = subscription.next_page().await?;
    let Processed { relevant, parked, failed } = match page.gap {
        // The changes are lost, but not what they led to.
        true => consumer.process_all().await?,
        false => consumer.process(std::mem::take(&mut page.changes)).await,
    };
    if let Some(FailedChange { error, .. }) = failed.into_iter().next() {
        return Err(error);
    }
    let (read, is_full) = if page.gap { (relevant.max(1), true) } else { (page.read, subscription.is_full(&page)) };
    subscription.acknowledge(page, relevant > 0).await?;
    Ok(ProcessedPage { read, relevant, parked, is_full })
}

/// Lets a consumer process all stored items, whatever it has processed before. Changes are read from here then.
pub async fn process_everything<C: ChangeConsumer + ?Sized>(consumer: &C) -> Result<Processed, ConsumerError> {
    let page = consumer.subscription().restart().await?;
    let processed = consumer.process_all().await?;
    consumer.subscription().acknowledge(page, true).await?;
    Ok(processed)
}

/// Lets a consumer process all changes that there are; how many things could not be brought up to date. An error if a page
/// has failed more than `retries` times in a row.
pub async fn process_pending<C: ChangeConsumer + ?Sized>(consumer: &C, retries: u32) -> Result<usize, ConsumerError> {
    let parked = std::sync::atomic::AtomicUsize::new(0);
    let step = || async {
        let page = process_page(consumer).await?;
        parked.fetch_add(page.parked, std::sync::atomic::Ordering::Relaxed);
        // The position is stored in the same table, which is a change too.
        Ok::<_, ConsumerError>(if page.relevant == 0 && !page.is_full { 0 } else { page.read })
    };
    consumer.subscription().catch_up(retries, step).await?;
    Ok(parked.into_inner())
}
