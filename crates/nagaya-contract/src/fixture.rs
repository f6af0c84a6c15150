//! The store of a case, and the checks that cases make.

use std::{
    collections::BTreeSet,
    fmt,
    future::{Future, poll_fn},
    panic::Location,
    task::Poll,
    time::Duration,
};

use nagaya_store::{
    Capabilities, ChangeRecord, Error, Item, Key, KeySchema, KeyValue, ManualClock, Page, Query, Scan,
    StartPosition as Start, Store, StoreFuture, TableSpec, Update, Write, WriteOutcome, WriteSet,
};

/// The name of the table that every case has.
pub(super) const TABLE: &str = "things";
/// The name of its index.
pub(super) const INDEX: &str = "GSI1";

/// The table that every case has.
pub(super) fn spec() -> TableSpec {
    TableSpec::new(TABLE, KeySchema::strings("PK", "SK"))
        .with_index(INDEX, KeySchema::strings("GSI1PK", "GSI1SK"))
        .with_ttl("expiresAt")
}

/// An open store, whatever its engine.
pub(super) trait OpenStore: Sync {
    fn store(&self) -> &dyn Store;
    fn sweep(&self) -> Option<StoreFuture<'_, ()>>;
}

/// The result of a check.
type Checked = Result<(), Failure>;

/// The store of a case, with shorthands for [`TABLE`].
pub(super) struct Fixture<'s> {
    subject: &'s dyn OpenStore,
    pub(super) clock: ManualClock,
}

impl<'s> Fixture<'s> {
    pub(super) fn new(subject: &'s dyn OpenStore, clock: ManualClock) -> Self {
        Fixture { subject, clock }
    }

    pub(super) fn store(&self) -> &'s dyn Store {
        self.subject.store()
    }

    pub(super) fn capabilities(&self) -> Capabilities {
        self.store().capabilities()
    }

    /// The whole seconds since 1970.
    pub(super) fn now(&self) -> i64 {
        self.clock.clock().seconds()
    }

    pub(super) async fn sweep(&self) -> Result<(), Error> {
        match self.subject.sweep() {
            Some(sweep) => sweep.await,
            None => Err(Error::invalid("a case that sweeps must list the requirement `Sweep`")),
        }
    }

    pub(super) fn write(&self, set: impl Into<WriteSet>) -> StoreFuture<'s, WriteOutcome> {
        self.store().write(set.into())
    }

    pub(super) fn put(&self, item: Item) -> StoreFuture<'s, WriteOutcome> {
        self.write(Write::put(TABLE, item))
    }

    pub(super) fn update(&self, key: &Key, update: Update) -> StoreFuture<'s, WriteOutcome> {
        self.write(Write::update(TABLE, key.clone(), update))
    }

    pub(super) fn delete(&self, key: &Key) -> StoreFuture<'s, WriteOutcome> {
        self.write(Write::delete(TABLE, key.clone()))
    }

    pub(super) async fn get(&self, key: &Key) -> Result<Option<Item>, Error> {
        self.store().get(TABLE, key).await
    }

    pub(super) fn query(&self, query: Query) -> StoreFuture<'s, Page> {
        self.store().query(query)
    }

    /// The items of all pages.
    pub(super) async fn all(&self, mut query: Query) -> Result<Vec<Item>, Error> {
        let mut items = Vec::new();
        for _ in 0..MAX_PAGES {
            let page = self.query(query.clone()).await?;
            items.extend(page.items);
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(items),
            }
        }
        Err(pages_do_not_end())
    }

    /// Checks the items of all pages.
    #[track_caller]
    pub(super) fn expect_items(&self, query: Query, expected: Vec<Item>) -> impl Future<Output = Checked> + Send {
        self.expect_view(query, |items| items, expected)
    }

    /// Checks the sort keys of all pages.
    #[track_caller]
    pub(super) fn expect_sort_keys(&self, query: Query, expected: Vec<String>) -> impl Future<Output = Checked> + Send {
        self.expect_view(query, |items| sort_keys(&items), expected)
    }

    /// Checks the number of items of all pages.
    #[track_caller]
    pub(super) fn expect_count(&self, query: Query, expected: usize) -> impl Future<Output = Checked> + Send {
        self.expect_view(query, |items| items.len(), expected)
    }

    /// Checks what a query gives. An index that lags behind its table gets time to catch up.
    #[track_caller]
    fn expect_view<T: PartialEq + fmt::Debug + Send>(
        &self,
        query: Query,
        view: fn(Vec<Item>) -> T,
        expected: T,
    ) -> impl Future<Output = Checked> + Send {
        let at = Location::caller();
        let index_may_lag = query.index.is_some() && !self.capabilities().consistent_indexes;
        async move {
            let mut found = view(self.all(query.clone()).await?);
            for pause in 0..MAX_PAUSES {
                if found == expected || !index_may_lag {
                    break;
                }
                // The port has no timers. Only this case runs on this thread, so blocking it delays nothing else.
                std::thread::sleep(Duration::from_millis(pause));
                found = view(self.all(query.clone()).await?);
            }
            expect_equal(found, expected).map_err(|failure| Failure { at, ..failure })
        }
    }

    /// The sort keys of all pages.
    pub(super) async fn sort_keys(&self, query: Query) -> Result<Vec<String>, Error> {
        Ok(sort_keys(&self.all(query).await?))
    }

    /// The items of all pages.
    pub(super) async fn scan_all(&self, mut scan: Scan) -> Result<Vec<Item>, Error> {
        let mut items = Vec::new();
        for _ in 0..MAX_PAGES {
            let page = self.store().scan(scan.clone()).await?;
            items.extend(page.items);
            match page.next {
                Some(next) => scan.after = Some(next),
                None => return Ok(items),
            }
        }
        Err(pages_do_not_end())
    }

    /// All changes from a position, without repetitions.
    pub(super) async fn changes(&self, mut from: Start) -> Result<Vec<ChangeRecord>, Error> {
        let mut seen = BTreeSet::new();
        let mut records = Vec::new();
        for _ in 0..MAX_PAGES {
            let page = self.store().changes(TABLE, from, 100).await?;
            if page.records.is_empty() {
                return Ok(records);
            }
            let new = page.records.into_iter().filter(|record| seen.insert((record.key.clone(), record.sequence)));
            records.extend(new.collect::<Vec<_>>());
            from = Start::After(page.next);
        }
        Err(pages_do_not_end())
    }
}

/// How often a lagging index is queried, with a longer pause each time: 5 seconds in all.
const MAX_PAUSES: u64 = 100;

/// More pages than any case has.
const MAX_PAGES: usize = 2_000;

fn pages_do_not_end() -> Error {
    Error::invalid("the pages do not end")
}

/// Why a case failed, and where.
#[derive(Debug)]
pub(super) struct Failure {
    reason: String,
    at: &'static Location<'static>,
}

impl Failure {
    #[track_caller]
    pub(super) fn new(reason: String) -> Self {
        Failure { reason, at: Location::caller() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The items of some cases are hundreds of kilobytes.
        let short: String = self.reason.chars().take(1_500).collect();
        let more = if short.len() < self.reason.len() { "…" } else { "" };
        write!(f, "{short}{more}\n         at {}:{}", self.at.file(), self.at.line())
    }
}

/// Checks that two values are equal.
#[track_caller]
pub(super) fn expect_equal<T: PartialEq + fmt::Debug>(found: T, expected: T) -> Result<(), Failure> {
    if found == expected {
        return Ok(());
    }
    Err(Failure::new(format!("found {found:?}, expected {expected:?}")))
}

#[track_caller]
pub(super) fn expect(claim: bool, otherwise: impl fmt::Display) -> Result<(), Failure> {
    if claim { Ok(()) } else { Err(Failure::new(otherwise.to_string())) }
}

/// Checks that a call failed with this code.
#[track_caller]
pub(super) fn expect_error<T: fmt::Debug>(answer: Result<T, Error>, code: &str) -> Result<Error, Failure> {
    match answer {
        Err(error) if error.code() == code => Ok(error),
        Err(error) => Err(Failure::new(format!("expected error `{code}`, found `{}`: {error}", error.code()))),
        Ok(answer) => Err(Failure::new(format!("expected error `{code}`, but it succeeded: {answer:?}"))),
    }
}

/// An item of [`TABLE`] with nothing but its key.
pub(super) fn item(partition: &str, sort: &str) -> Item {
    Item::new().with("PK", partition).with("SK", sort)
}

/// An item of [`TABLE`] that is in its index.
pub(super) fn indexed(partition: &str, sort: &str, index_partition: &str, index_sort: &str) -> Item {
    item(partition, sort).with("GSI1PK", index_partition).with("GSI1SK", index_sort)
}

/// All items of a partition of the index.
pub(super) fn index(partition: impl Into<KeyValue>) -> Query {
    Query::index(TABLE, INDEX, partition)
}

/// All items of a partition of the table.
pub(super) fn partition_query(partition: impl Into<KeyValue>) -> Query {
    Query::table(TABLE, partition)
}

/// The sort keys of items.
pub(super) fn sort_keys(items: &[Item]) -> Vec<String> {
    items.iter().map(|item| item.get("SK").and_then(|sort| sort.as_str()).unwrap_or("?").to_owned()).collect()
}

/// Lets the other futures of a join run: futures that are ready at once never yield by themselves.
pub(super) fn yield_now() -> impl Future<Output = ()> + Send {
    let mut waited = false;
    poll_fn(move |context| {
        if waited {
            return Poll::Ready(());
        }
        waited = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
}
