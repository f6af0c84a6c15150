//! Limits of requests: size, time, concurrency, and the quota of each tenant.

mod bytes_in_flight;
mod client_network;
mod held_body;
mod open_files;
mod quota;
mod reading;

use std::{collections::BTreeMap, num::NonZeroU32, sync::Arc, time::Duration};

use axum::http::HeaderName;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) use self::open_files::open_files_limit;
pub use self::open_files::raise_open_files_limit;
use self::{
    bytes_in_flight::{BytesInFlight, ReservedBytes},
    client_network::network_of_text,
    quota::{KeyedQuota, Rate},
    reading::{ReadCapacity, ReadShare},
};
pub(crate) use self::{
    client_network::client_network,
    held_body::{SMALL_BODY, UncountedAnswer, hold_until_sent, large_size},
    quota::{Permit, RateStatus, Refusal},
};
use crate::{Problem, ProblemCode, identity::Caller};

/// What is left of the caller's rate.
pub(crate) const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// The caller's rate.
pub(crate) const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Limits that all systems of a server share.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of a body.
    pub body_bytes: usize,
    /// Bytes of a head: its first line and all headers.
    pub head_bytes: usize,
    /// Time of a request, the reading of its body included.
    pub time: Duration,
    /// Requests at the same time, from when their body has been read until their answer is there; further ones are answered 503.
    pub concurrent: usize,
    /// Connections at the same time. A further one closes the oldest without a request.
    pub connections: usize,
    /// The same for the connections of one client address. Not with proxies in front, which share an address.
    pub connections_per_address: usize,
    /// Time of the head of a request, from its first byte; for the first request, from the connection.
    pub head_time: Duration,
    /// How long a connection may be without a request.
    ///
    /// It has to be longer than the idle time of a load balancer, which is about 60 seconds: the load balancer has to be the
    /// one that closes.
    pub idle: Duration,
    /// Bytes per second at which a client has to read its answer, or its connection is closed.
    pub min_read_rate: NonZeroU32,
    /// Requests of a tenant per second; twice as many may come at once. 0: no limit.
    pub tenant_rate: u32,
    /// The same for single tenants.
    pub tenant_rates: BTreeMap<String, u32>,
    /// Requests of a tenant at the same time, from their token until their client has read the answer; further ones are answered 429.
    /// Far below `concurrent`, so that slow requests of a few tenants do not block others.
    pub tenant_concurrent: usize,
    /// Bytes of large answers that clients have not read yet, and of large request bodies until their request is answered; further
    /// ones are answered 503, and writes that could have a large answer are refused before they are done. Half as many may be read
    /// from the store at the same time; further reads wait for a second, and are then answered 503.
    pub bytes_in_flight: usize,
    /// The same for one tenant; 429.
    pub tenant_bytes_in_flight: usize,
    /// Streams of events of a system at the same time; further ones are answered 503.
    pub streams: usize,
    /// The same for one tenant; 429.
    pub tenant_streams: usize,
    /// Tokens that are refused per minute for one client address, before all unknown ones are refused with 429.
    pub failed_authentications: NonZeroU32,
}

/// As slow as a bad telephone network.
const MIN_READ_RATE: NonZeroU32 = NonZeroU32::new(4 * 1024).expect("it is positive");

/// Enough for an application whose users all have an old token, and too few to guess one.
const FAILED_AUTHENTICATIONS: NonZeroU32 = NonZeroU32::new(300).expect("it is positive");

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body_bytes: 1024 * 1024,
            head_bytes: 32 * 1024,
            time: Duration::from_secs(30),
            concurrent: 1_024,
            connections: 10_000,
            connections_per_address: 1_000,
            head_time: Duration::from_secs(10),
            idle: Duration::from_secs(75),
            min_read_rate: MIN_READ_RATE,
            tenant_rate: 200,
            tenant_rates: BTreeMap::new(),
            tenant_concurrent: 128,
            bytes_in_flight: 128 * 1024 * 1024,
            tenant_bytes_in_flight: 32 * 1024 * 1024,
            streams: 1_000,
            tenant_streams: 100,
            failed_authentications: FAILED_AUTHENTICATIONS,
        }
    }
}

impl Limits {
    /// The same with no more connections than this many open files allow, after those that the store and the rest of the
    /// process need.
    #[must_use]
    pub fn within_open_files(mut self, limit: u64) -> Self {
        self.connections = self.connections.min(open_files::for_connections(limit));
        self
    }
}

/// What all systems of a server share, and what is used of it.
#[derive(Debug)]
pub(crate) struct ServerCapacity {
    concurrent: usize,
    requests: Arc<Semaphore>,
    bytes: Arc<BytesInFlight>,
    reads: ReadCapacity,
}

impl ServerCapacity {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        let concurrent = limits.concurrent.min(Semaphore::MAX_PERMITS);
        let requests = Arc::new(Semaphore::new(concurrent));
        let (bytes, reads) =
            (BytesInFlight::new(limits.bytes_in_flight), ReadCapacity::half_of(limits.bytes_in_flight));
        Arc::new(ServerCapacity { concurrent, requests, bytes, reads })
    }

    /// A permit for a request that is to be answered now. It does not wait: the body has been read, and would use memory meanwhile.
    pub(crate) fn admit(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let busy = |_| Problem::from_code(ProblemCode::OVERLOADED, "The server is busy.").retry_after(1);
        Arc::clone(&self.requests).try_acquire_owned().map_err(busy)
    }

    /// How many requests are in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.concurrent.saturating_sub(self.requests.available_permits())
    }

    /// Bytes of large answers and request bodies.
    pub(crate) fn bytes_in_flight(&self) -> usize {
        self.bytes.now()
    }

    /// How many reads wait for others to end, without those that wait for reads of their own tenant.
    pub(crate) fn waiting_reads(&self) -> usize {
        self.reads.waiting()
    }

    /// Room for an answer that is nobody's.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<ReservedBytes, Problem> {
        let mut reserved = self.bytes.reserve_none();
        self.grow(&mut reserved, bytes).map(|()| reserved)
    }

    fn grow(&self, reserved: &mut ReservedBytes, bytes: usize) -> Result<(), Problem> {
        let detail = "Too many large answers and request bodies are being transferred.";
        reserved.grow(bytes).ok_or_else(|| Problem::from_code(ProblemCode::OVERLOADED, detail).retry_after(1))
    }
}

/// The limits of a system, and what its callers use of them.
#[derive(Debug)]
pub(crate) struct SystemLimits {
    body_bytes: usize,
    requests: CallerQuota,
    streams: CallerQuota,
    all_streams: Arc<Semaphore>,
    server: Arc<ServerCapacity>,
    /// By client address.
    failed_authentications: KeyedQuota,
}

impl SystemLimits {
    pub(crate) fn new(limits: &Limits, server: &Arc<ServerCapacity>) -> Self {
        let rates = limits.tenant_rates.iter().map(|(tenant, rate)| (tenant.clone(), Rate::per_second(*rate)));
        let overrides: BTreeMap<_, _> = rates.collect();
        let requests = || {
            KeyedQuota::new(Rate::per_second(limits.tenant_rate), limits.tenant_concurrent)
                .with_max_bytes(limits.tenant_bytes_in_flight)
        };
        let streams = || KeyedQuota::new(Rate::default(), limits.tenant_streams);
        SystemLimits {
            body_bytes: limits.body_bytes,
            requests: CallerQuota { tenants: requests().with_overrides(overrides), ..CallerQuota::new(requests) },
            streams: CallerQuota::new(streams),
            all_streams: Arc::new(Semaphore::new(limits.streams.min(Semaphore::MAX_PERMITS))),
            server: Arc::clone(server),
            failed_authentications: KeyedQuota::new(Rate::per_minute(limits.failed_authentications), usize::MAX),
        }
    }

    /// How many tenants, and users without a tenant, were refused a request in the last minute.
    pub(crate) fn over_quota(&self) -> usize {
        self.requests.tenants.over_quota() + self.requests.users.over_quota()
    }

    /// Bytes of a body.
    pub(crate) fn body_bytes(&self) -> usize {
        self.body_bytes
    }

    /// A permit for a request, if the caller's tenant is within its quota. Dropping it ends the request.
    pub(crate) fn admit(&self, caller: &Caller, address: Option<&str>) -> Result<Permit, Refusal> {
        self.requests.acquire(caller, address)
    }

    /// A permit of the server for a request whose body has been read.
    pub(crate) fn admit_to_server(&self) -> Result<OwnedSemaphorePermit, Problem> {
        self.server.admit()
    }

    /// Waits until a request may read so many bytes from the store; few bytes need no share.
    pub(crate) async fn acquire_read(&self, permit: &Permit, bytes: usize) -> Result<ReadShares, Problem> {
        if bytes <= SMALL_BODY {
            return Ok(ReadShares::default());
        }
        // The caller's own first: its further requests do not wait in the line of all.
        let own = permit.reads().acquire(bytes).await.ok_or_else(|| {
            let detail = "The caller reads too much at once. Wait for some of the answers, or ask for smaller pages.";
            Problem::from_code(ProblemCode::RATE_LIMITED, detail).retry_after(1)
        })?;
        let all = self.server.reads.acquire(bytes).await.ok_or_else(|| {
            let detail = "Too much is being read at the moment.";
            Problem::from_code(ProblemCode::OVERLOADED, detail).retry_after(1)
        })?;
        Ok(ReadShares { _own: Some(own), _all: Some(all) })
    }

    /// Room of a request, without any bytes yet.
    pub(crate) fn room(&self, permit: &Permit) -> Room {
        Room {
            own: permit.bytes().reserve_none(),
            all: self.server.bytes.reserve_none(),
            server: Arc::clone(&self.server),
        }
    }

    /// Room for the answer of a write that has been done, within the limits or not.
    pub(crate) fn count_answer(&self, permit: &Permit, bytes: usize) -> Room {
        Room { own: permit.bytes().count(bytes), all: self.server.bytes.count(bytes), server: Arc::clone(&self.server) }
    }

    /// Permits for a stream of events.
    pub(crate) fn admit_stream(&self, caller: &Caller, address: Option<&str>) -> Result<StreamPermit, Problem> {
        let busy = |_| Problem::from_code(ProblemCode::OVERLOADED, "The server has too many streams.").retry_after(5);
        let all = Arc::clone(&self.all_streams).try_acquire_owned().map_err(busy)?;
        let detail = "The caller has too many streams. Close one of them.";
        let own = self.streams.acquire(caller, address);
        let own = own.map_err(|_| Problem::from_code(ProblemCode::RATE_LIMITED, detail).retry_after(5))?;
        Ok(StreamPermit { _own: own, _all: all })
    }

    /// How long an address has to wait because too many of its tokens were refused.
    pub(crate) fn too_many_failures(&self, address: &str) -> Option<Duration> {
        self.failed_authentications.exhausted(&network_of_text(address))
    }

    /// Counts a token that was refused.
    pub(crate) fn count_failure(&self, address: &str) {
        // An address that has reached its limit is counted no further.
        let _ = self.failed_authentications.acquire(&network_of_text(address));
    }
}

/// The room of an answer until it is read, or of a body until its request is answered.
#[derive(Debug)]
#[must_use = "dropping it gives the room back"]
pub(crate) struct Room {
    own: ReservedBytes,
    all: ReservedBytes,
    server: Arc<ServerCapacity>,
}

impl Room {
    /// Room for so many more bytes of the request body.
    pub(crate) fn grow_for_body(&mut self, bytes: usize) -> Result<(), Problem> {
        self.grow(bytes, "The caller sends too many large bodies at once. Wait for the answers to some of them.")
    }

    /// Room for an answer of at most this size.
    pub(crate) fn grow_for_answer(&mut self, bytes: usize) -> Result<(), Problem> {
        self.grow(bytes, "The caller has not read enough of its former answers. Read them, or ask for smaller pages.")
    }

    /// The caller gets this detail if it has too much in flight.
    fn grow(&mut self, bytes: usize, detail: &'static str) -> Result<(), Problem> {
        let refused = || Problem::from_code(ProblemCode::RATE_LIMITED, detail).retry_after(1);
        self.own.grow(bytes).ok_or_else(refused)?;
        self.server.grow(&mut self.all, bytes)
    }
}

/// What a request may read from the store; dropping it says that the answer is written.
#[derive(Debug, Default)]
pub(crate) struct ReadShares {
    _own: Option<ReadShare>,
    _all: Option<ReadShare>,
}

/// The permits of a stream; dropping them ends it.
#[derive(Debug)]
pub(crate) struct StreamPermit {
    _own: Permit,
    _all: OwnedSemaphorePermit,
}

/// A quota of tenants, of users whose token names no tenant, and of visitors by their addresses.
#[derive(Debug)]
struct CallerQuota {
    tenants: KeyedQuota,
    users: KeyedQuota,
    visitors: KeyedQuota,
}

impl CallerQuota {
    fn new(quota: impl Fn() -> KeyedQuota) -> Self {
        CallerQuota { tenants: quota(), users: quota(), visitors: quota() }
    }

    fn acquire(&self, caller: &Caller, address: Option<&str>) -> Result<Permit, Refusal> {
        match &caller.tenant {
            Some(tenant) => self.tenants.acquire(tenant),
            None if caller.is_visitor() => self.visitors.acquire(&network_of_text(address.unwrap_or_default())),
            None => self.users.acquire(&caller.identity()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(tenant: Option<&str>, user: &str) -> Caller {
        Caller { issuer: "local".into(), tenant: tenant.map(Into::into), ..Caller::of_user(user) }
    }

    fn system_limits(limits: &Limits) -> SystemLimits {
        SystemLimits::new(limits, &ServerCapacity::new(limits))
    }

    #[test]
    fn the_limits_in_bytes_are_those_of_the_documentation() {
        let Limits { body_bytes, head_bytes, bytes_in_flight, tenant_bytes_in_flight, .. } = Limits::default();
        assert_eq!((body_bytes, head_bytes), (1_048_576, 32_768));
        assert_eq!((bytes_in_flight, tenant_bytes_in_flight), (134_217_728, 33_554_432));
    }

    #[test]
    fn the_same_user_id_of_another_issuer_is_another_user() {
        let limits = Limits { tenant_concurrent: 1, ..Limits::default() };
        let limits = system_limits(&limits);
        let _local = limits.admit(&caller(None, "ann"), None).expect("a permit");
        let remote = Caller { issuer: "https://login.example.com".into(), ..caller(None, "ann") };
        let _remote = limits.admit(&remote, None).expect("another person's permit");
        assert!(limits.admit(&remote, None).is_err());
    }

    #[test]
    fn a_caller_without_a_tenant_counts_as_a_user_and_never_as_a_tenant_of_that_name() {
        let limits = Limits { tenant_concurrent: 1, ..Limits::default() };
        let limits = system_limits(&limits);
        let _tenant = limits.admit(&caller(Some("ann"), "bob"), None).expect("the tenant's permit");
        let _user = limits.admit(&caller(None, "ann"), None).expect("the user's permit");
        let _other = limits.admit(&caller(None, "bob"), None).expect("another user's permit");
        assert!(limits.admit(&caller(None, "ann"), None).is_err(), "the user has one permit");
    }

    #[test]
    fn visitors_count_by_their_addresses() {
        let limits = Limits { tenant_concurrent: 1, ..Limits::default() };
        let limits = system_limits(&limits);
        let visitor = Caller::visitor();
        let _first = limits.admit(&visitor, Some("192.0.2.1")).expect("a permit");
        let _other = limits.admit(&visitor, Some("192.0.2.2")).expect("another's permit");
        assert!(limits.admit(&visitor, Some("192.0.2.1")).is_err());
    }

    #[test]
    fn users_without_a_tenant_are_counted_as_over_their_quota_too() {
        let limits = Limits { tenant_concurrent: 0, ..Limits::default() };
        let limits = system_limits(&limits);
        assert_eq!(limits.over_quota(), 0);
        for caller in [caller(None, "ann"), caller(Some("acme"), "ann"), caller(None, "ben")] {
            limits.admit(&caller, None).expect_err("there are no permits");
        }
        assert_eq!(limits.over_quota(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_of_few_bytes_waits_for_nobody() {
        let limits = Limits { tenant_bytes_in_flight: 4 * SMALL_BODY, ..Limits::default() };
        let limits = system_limits(&limits);
        let permit = limits.admit(&caller(Some("acme"), "ann"), None).expect("a permit");
        let _all = limits.acquire_read(&permit, 2 * SMALL_BODY).await.expect("a share");
        limits.acquire_read(&permit, SMALL_BODY).await.expect("it needs no share");
        let refused = limits.acquire_read(&permit, SMALL_BODY + 1).await.expect_err("the tenant has read its share");
        assert_eq!(refused.code(), "rate_limited");
    }
}
