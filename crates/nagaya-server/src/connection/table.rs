//! The open connections, and which of them make room when there are too many.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use crate::{limits::client_network, observe::TARGET};

/// How often a limit that is reached is logged.
const WARNING_INTERVAL: Duration = Duration::from_secs(1);

/// What a connection is doing.
#[derive(Debug)]
pub(super) struct ConnectionState {
    activity: AtomicU8,
    /// How many requests have begun.
    requests: AtomicU32,
    opened: Instant,
    /// When the last request ended, in milliseconds after it was opened.
    last_request: AtomicU64,
}

impl Default for ConnectionState {
    fn default() -> Self {
        let (activity, requests, last_request) = (AtomicU8::new(NEW), AtomicU32::new(0), AtomicU64::new(0));
        ConnectionState { activity, requests, opened: Instant::now(), last_request }
    }
}

/// It has not sent a whole request yet.
const NEW: u8 = 0;
/// It has had an answer, and has not sent another whole request.
const IDLE: u8 = 1;
/// A request is being answered.
const BUSY: u8 = 2;

impl ConnectionState {
    /// Marks the connection as busy until the result is dropped.
    pub(super) fn begin_request(self: &Arc<Self>) -> BusyGuard {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.activity.store(BUSY, Ordering::Relaxed);
        BusyGuard(Arc::clone(self))
    }

    /// How many requests have begun.
    pub(super) fn requests(&self) -> u32 {
        self.requests.load(Ordering::Relaxed)
    }

    /// When the last request ended.
    pub(super) fn last_request(&self) -> Instant {
        self.opened + Duration::from_millis(self.last_request.load(Ordering::Relaxed))
    }

    pub(super) fn is_busy(&self) -> bool {
        self.activity.load(Ordering::Relaxed) == BUSY
    }
}

/// A connection is busy until this is dropped.
#[derive(Debug)]
pub(super) struct BusyGuard(Arc<ConnectionState>);

impl Drop for BusyGuard {
    fn drop(&mut self) {
        let millis = u64::try_from(self.0.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.last_request.store(millis, Ordering::Relaxed);
        self.0.activity.store(IDLE, Ordering::Relaxed);
    }
}

/// The open connections.
#[derive(Debug)]
pub(crate) struct ConnectionTable {
    limit: usize,
    limit_per_address: usize,
    open: Mutex<OpenConnections>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    /// Oldest first.
    entries: BTreeMap<u64, Entry>,
    per_address: HashMap<IpAddr, usize>,
    next: u64,
    /// When a limit was last logged.
    warned: Option<Instant>,
}

#[derive(Debug)]
struct Entry {
    address: IpAddr,
    state: Arc<ConnectionState>,
    evict: Arc<Notify>,
}

/// An open connection; dropping it makes room.
#[derive(Debug)]
pub(super) struct Connection {
    table: Arc<ConnectionTable>,
    id: u64,
    state: Arc<ConnectionState>,
    evict: Arc<Notify>,
}

impl Connection {
    pub(super) fn state(&self) -> &Arc<ConnectionState> {
        &self.state
    }

    /// Waits until it has to make room for another one.
    pub(super) async fn evicted(&self) {
        self.evict.notified().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.table.lock().remove(self.id);
    }
}

impl ConnectionTable {
    pub(crate) fn new(limit: usize, limit_per_address: usize) -> Arc<Self> {
        Arc::new(ConnectionTable { limit, limit_per_address, open: Mutex::default() })
    }

    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Adds a connection from this address. At a limit, the connection that has waited longest for its first request is
    /// closed, else the oldest idle one; `None` if all are busy.
    pub(super) fn open(self: &Arc<Self>, address: IpAddr) -> Option<Connection> {
        let address = client_network(address);
        let mut open = self.lock();
        if open.per_address.get(&address).is_some_and(|count| *count >= self.limit_per_address) {
            if open.may_warn() {
                let limit = self.limit_per_address;
                tracing::warn!(target: TARGET, %address, limit, "an address has reached its limit of connections");
            }
            open.evict_oldest(Some(address))?;
        }
        if open.entries.len() >= self.limit {
            if open.may_warn() {
                tracing::warn!(target: TARGET, limit = self.limit, "the connection limit is reached");
            }
            open.evict_oldest(None)?;
        }
        let id = open.next;
        open.next += 1;
        let (state, evict) = (Arc::<ConnectionState>::default(), Arc::<Notify>::default());
        open.entries.insert(id, Entry { address, state: Arc::clone(&state), evict: Arc::clone(&evict) });
        *open.per_address.entry(address).or_default() += 1;
        Some(Connection { table: Arc::clone(self), id, state, evict })
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenConnections {
    /// Whether a limit may be logged: whoever opens many connections must not fill the log.
    fn may_warn(&mut self) -> bool {
        let may = self.warned.is_none_or(|warned| warned.elapsed() >= WARNING_INTERVAL);
        if may {
            self.warned = Some(Instant::now());
        }
        may
    }

    /// Closes one connection, of this address if one is given.
    fn evict_oldest(&mut self, address: Option<IpAddr>) -> Option<()> {
        let oldest = |wanted: u8| {
            let is_wanted = |entry: &Entry| {
                address.is_none_or(|address| entry.address == address)
                    && entry.state.activity.load(Ordering::Relaxed) == wanted
            };
            self.entries.iter().find(|(_, entry)| is_wanted(entry)).map(|(id, _)| *id)
        };
        let id = oldest(NEW).or_else(|| oldest(IDLE))?;
        // It leaves the table now: its task may take a moment to end.
        self.remove(id).map(|entry| entry.evict.notify_one())
    }

    fn remove(&mut self, id: u64) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        if let Some(count) = self.per_address.get_mut(&entry.address) {
            *count -= 1;
            if *count == 0 {
                self.per_address.remove(&entry.address);
            }
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use nagaya_testing::LogLines;

    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    async fn is_evicted(connection: &Connection) -> bool {
        tokio::select! { biased; () = connection.evicted() => true, () = std::future::ready(()) => false }
    }

    #[tokio::test]
    async fn at_the_limit_the_oldest_connection_without_a_request_makes_room() {
        let table = ConnectionTable::new(3, 3);
        let (busy, idle, new) = (table.open(address(1)), table.open(address(2)), table.open(address(3)));
        let (busy, idle, new) = (busy.expect("room"), idle.expect("room"), new.expect("room"));
        drop(idle.state().begin_request());
        let _request = busy.state().begin_request();
        let another = table.open(address(4)).expect("a new one makes room");
        assert!(is_evicted(&new).await && !is_evicted(&idle).await && !is_evicted(&busy).await);
        let _request = another.state().begin_request();
        let last = table.open(address(4)).expect("an idle one makes room");
        assert!(is_evicted(&idle).await && !is_evicted(&busy).await);
        let _request = last.state().begin_request();
        assert!(table.open(address(4)).is_none(), "all are busy");
        drop((new, idle));
        assert_eq!(table.len(), 3);
        drop((busy, another));
        assert_eq!(table.len(), 1);
        drop(last);
        assert!(table.lock().per_address.is_empty(), "nothing is kept of addresses without connections");
    }

    #[tokio::test]
    async fn an_address_at_its_limit_closes_its_own_connections_alone() {
        let table = ConnectionTable::new(100, 2);
        let other = table.open(address(1)).expect("room");
        let first = table.open(address(2)).expect("room");
        let second = table.open(address(2)).expect("room");
        let _third = table.open(address(2)).expect("its first makes room");
        assert!(is_evicted(&first).await && !is_evicted(&second).await && !is_evicted(&other).await);
        let _mapped = table.open(address(1)).expect("room");
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_that_is_reached_is_logged_once_a_second() {
        let (log, _guard) = LogLines::capture("info");
        let table = ConnectionTable::new(3, 2);
        let mut open = Vec::new();
        let mut check = async |millis: u64, last: u8, expected: [usize; 2]| {
            tokio::time::advance(Duration::from_millis(millis)).await;
            open.push(table.open(address(last)).expect("an older one makes room"));
            let logged = ["an address has reached its limit", "the connection limit is reached"];
            assert_eq!(logged.map(|message| log.count(message)), expected);
        };
        check(0, 1, [0, 0]).await;
        check(0, 1, [0, 0]).await;
        check(0, 1, [1, 0]).await;
        check(600, 1, [1, 0]).await;
        check(399, 1, [1, 0]).await;
        check(1, 1, [2, 0]).await;
        check(0, 2, [2, 0]).await;
        check(999, 3, [2, 0]).await;
        check(1, 3, [2, 1]).await;
        check(999, 3, [2, 1]).await;
        check(1, 3, [3, 1]).await;
    }
}
