//! Metrics for Prometheus. No label is chosen by a caller, and none names a tenant.

use std::{
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError, atomic::Ordering::Relaxed},
    time::Duration,
};

use axum::http::Method;
use nagaya_store::{Measurement, StoreUsage};
use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram, info::Info},
    registry::{Metric, Registry, Unit},
};

use super::{
    collectors::{MeasurementCollector, StoreUsageCollector},
    logs, process,
};

/// The media type of [`Metrics::text`].
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The upper bounds of the buckets, in seconds. 0.2 and 0.35 are among them, so that "95 % of reads below 200 ms" and "of
/// writes below 350 ms" are exact.
const BUCKETS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 1.0, 2.5, 10.0, 30.0];
/// The classes of statuses.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

type Labels<const N: usize> = [(&'static str, String); N];
type Histograms = Family<Labels<3>, Histogram, fn() -> Histogram>;

/// All metrics of a server.
pub(crate) struct Metrics {
    registry: Registry,
    families: Families,
    rejected: [Counter; 4],
    in_flight: Gauge,
    connections: Gauge,
    breaches: Family<Labels<1>, Counter>,
    tokens: Family<Labels<1>, Counter>,
    dropped: Counter,
    memory: Gauge,
    /// What is read at each scrape.
    measurements: MeasurementCollector,
    store: MeasurementCollector,
    usage: StoreUsageCollector,
    unrouted: Arc<RouteMetrics>,
    /// One scrape at a time, so that none shows the values of another.
    scrape: Mutex<()>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

/// Why a request was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rejection {
    Rate,
    Overload,
    Timeout,
    Panic,
}

impl Rejection {
    const ALL: [Rejection; 4] = [Rejection::Rate, Rejection::Overload, Rejection::Timeout, Rejection::Panic];

    fn name(self) -> &'static str {
        match self {
            Rejection::Rate => "rate",
            Rejection::Overload => "overload",
            Rejection::Timeout => "timeout",
            Rejection::Panic => "panic",
        }
    }
}

/// What is read for a scrape.
pub(crate) struct Gauges {
    pub(crate) in_flight: usize,
    pub(crate) connections: usize,
    pub(crate) systems: Vec<SystemCounters>,
    /// Measurements of the server, its systems and the process.
    pub(crate) measured: Vec<Measurement>,
    /// Measurements of the store.
    pub(crate) store: Vec<Measurement>,
    /// Calls to the store.
    pub(crate) usage: StoreUsage,
}

/// The counters of a system.
pub(crate) struct SystemCounters {
    pub(crate) system: String,
    /// Items that a read returned from behind another wall.
    pub(crate) breaches: u64,
    /// Tokens that were verified, and not found in the cache.
    pub(crate) tokens_checked: u64,
}

/// The metrics of a route.
#[derive(Debug)]
pub(crate) struct RouteMetrics {
    pub(crate) system: String,
    /// The template of its path: a real path may contain personal data.
    pub(crate) route: String,
    method: &'static str,
    families: Families,
    // Created with the first request: hundreds of routes with nothing but zeros would be a megabyte at every scrape.
    requests: [OnceLock<Counter>; 5],
    duration: OnceLock<Histogram>,
}

/// The metric families of routes.
#[derive(Debug, Clone)]
struct Families {
    requests: Family<Labels<4>, Counter>,
    durations: Histograms,
}

impl RouteMetrics {
    fn new(families: &Families, system: &str, method: &'static str, route: &str) -> Self {
        RouteMetrics {
            system: system.to_owned(),
            route: route.to_owned(),
            method,
            families: families.clone(),
            requests: Default::default(),
            duration: OnceLock::new(),
        }
    }

    /// Counts a request.
    pub(crate) fn count(&self, status: u16, took: Duration) {
        let class = usize::from(status / 100).clamp(1, CLASSES.len()) - 1;
        if let (Some(requests), Some(class)) = (self.requests.get(class), CLASSES.get(class)) {
            let make = || {
                let [system, method, route] = self.labels();
                self.families.requests.get_or_create_owned(&[system, method, route, ("status", (*class).to_owned())])
            };
            requests.get_or_init(make).inc();
        }
        let make = || self.families.durations.get_or_create_owned(&self.labels());
        self.duration.get_or_init(make).observe(took.as_secs_f64());
    }

    fn labels(&self) -> Labels<3> {
        [("system", self.system.clone()), ("method", self.method.to_owned()), ("route", self.route.clone())]
    }
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("nagaya");
        let requests: Family<_, _> = registered(&mut registry, "requests", "Requests, by status class");
        let durations = Histograms::new_with_constructor(|| Histogram::new(BUCKETS));
        let help = "How long requests took";
        registry.register_with_unit("request_duration", help, Unit::Seconds, durations.clone());
        let rejections = Family::<Labels<1>, Counter>::default();
        let rejected = Rejection::ALL.map(|why| rejections.get_or_create_owned(&[("reason", why.name().to_owned())]));
        registry.register("requests_rejected", "Requests that were rejected", rejections);
        let in_flight = registered(&mut registry, "requests_in_flight", "Requests in flight");
        let connections = registered(&mut registry, "connections", "Open connections");
        let help = "Items that a read returned from behind another wall: anything but 0 is an alarm";
        let breaches = registered(&mut registry, "wall_breaches", help);
        let help = "Tokens that were not in the cache, accepted or refused";
        let tokens = registered(&mut registry, "tokens_checked", help);
        let help = "Log lines that were dropped, because the reader was too slow";
        let dropped = registered(&mut registry, "log_lines_dropped", help);
        let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The running version", build);
        let memory = Gauge::default();
        let process = registry.sub_registry_with_prefix("process");
        process.register_with_unit("resident_memory", "Memory in use", Unit::Bytes, memory.clone());

        let (measurements, store_measurements) = (MeasurementCollector::default(), MeasurementCollector::default());
        let usage = StoreUsageCollector::default();
        registry.register_collector(Box::new(measurements.clone()));
        let store = registry.sub_registry_with_prefix("store");
        store.register_collector(Box::new(store_measurements.clone()));
        store.register_collector(Box::new(usage.clone()));

        let families = Families { requests, durations };
        let unrouted = Arc::new(RouteMetrics::new(&families, "none", "none", "none"));
        let scrape = Mutex::new(());
        Metrics {
            registry,
            families,
            rejected,
            in_flight,
            connections,
            breaches,
            tokens,
            dropped,
            memory,
            measurements,
            store: store_measurements,
            usage,
            unrouted,
            scrape,
        }
    }

    /// The metrics of a route: looked up once, when it is mounted.
    pub(crate) fn route(&self, system: &str, method: &Method, route: &str) -> Arc<RouteMetrics> {
        Arc::new(RouteMetrics::new(&self.families, system, self::method(method), route))
    }

    /// The metrics of requests that matched no route.
    pub(super) fn unrouted(&self) -> &Arc<RouteMetrics> {
        &self.unrouted
    }

    pub(super) fn rejected(&self, why: Rejection) {
        if let Some(counter) = self.rejected.get(why as usize) {
            counter.inc();
        }
    }

    /// All metrics as text.
    pub(crate) fn text(&self, gauges: Gauges) -> String {
        let _one_at_a_time = self.scrape.lock().unwrap_or_else(PoisonError::into_inner);
        self.in_flight.set(signed(gauges.in_flight as u64));
        self.connections.set(signed(gauges.connections as u64));
        for counters in &gauges.systems {
            let labels = [("system", counters.system.clone())];
            self.breaches.get_or_create(&labels).inner().store(counters.breaches, Relaxed);
            self.tokens.get_or_create(&labels).inner().store(counters.tokens_checked, Relaxed);
        }
        self.dropped.inner().store(logs::dropped(), Relaxed);
        self.memory.set(signed(process::resident_bytes().unwrap_or(0)));
        self.measurements.set(gauges.measured);
        self.store.set(gauges.store);
        self.usage.set(gauges.usage);
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// A new metric of a registry.
fn registered<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

/// The name of a method; `other` for one that HTTP does not define.
pub(super) fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use nagaya_store::{ConsumedCapacity, DURATION_BUCKETS, OperationUsage};

    use super::*;

    fn text(metrics: &Metrics) -> String {
        let counters = SystemCounters { system: "todo".into(), breaches: 2, tokens_checked: 7 };
        metrics.text(Gauges {
            in_flight: 3,
            connections: 5,
            systems: vec![counters],
            measured: Vec::new(),
            store: Vec::new(),
            usage: StoreUsage::default(),
        })
    }

    #[track_caller]
    fn has(text: &str, line: &str) {
        assert!(text.lines().any(|each| each == line), "no line {line:?} in\n{text}");
    }

    #[test]
    fn a_request_is_counted_by_its_route_and_class() {
        let metrics = Metrics::new();
        let route = metrics.route("todo", &Method::GET, "/todos/{id}");
        route.count(200, Duration::from_millis(3));
        route.count(204, Duration::from_millis(300));
        route.count(503, Duration::from_secs(60));
        metrics.unrouted().count(404, Duration::ZERO);
        metrics.rejected(Rejection::Overload);

        let text = text(&metrics);
        let labels = r#"system="todo",method="GET",route="/todos/{id}""#;
        has(&text, &format!(r#"nagaya_requests_total{{{labels},status="2xx"}} 2"#));
        has(&text, &format!(r#"nagaya_requests_total{{{labels},status="5xx"}} 1"#));
        has(&text, r#"nagaya_requests_total{system="none",method="none",route="none",status="4xx"} 1"#);
        has(&text, &format!(r#"nagaya_request_duration_seconds_bucket{{le="0.2",{labels}}} 1"#));
        has(&text, &format!(r#"nagaya_request_duration_seconds_bucket{{le="0.35",{labels}}} 2"#));
        has(&text, &format!(r#"nagaya_request_duration_seconds_bucket{{le="+Inf",{labels}}} 3"#));
        has(&text, r#"nagaya_requests_rejected_total{reason="overload"} 1"#);
        has(&text, r#"nagaya_requests_rejected_total{reason="rate"} 0"#);
        has(&text, "nagaya_requests_in_flight 3");
        has(&text, "nagaya_connections 5");
        has(&text, r#"nagaya_wall_breaches_total{system="todo"} 2"#);
        has(&text, r#"nagaya_tokens_checked_total{system="todo"} 7"#);
        has(&text, concat!(r#"nagaya_build_info{version=""#, env!("CARGO_PKG_VERSION"), r#""} 1"#));
        has(&text, "# EOF");
    }

    #[test]
    fn a_route_that_is_mounted_again_continues_its_counts() {
        let metrics = Metrics::new();
        metrics.route("todo", &Method::GET, "/todos").count(200, Duration::ZERO);
        metrics.route("todo", &Method::GET, "/todos").count(200, Duration::ZERO);
        has(&text(&metrics), r#"nagaya_requests_total{system="todo",method="GET",route="/todos",status="2xx"} 2"#);
    }

    #[test]
    fn routes_without_requests_are_left_out() {
        let metrics = Metrics::new();
        let route = metrics.route("todo", &Method::GET, "/todos");
        assert!(!text(&metrics).contains("/todos"));
        route.count(200, Duration::ZERO);
        let text = text(&metrics);
        assert_eq!(text.lines().filter(|line| line.contains(r#"route="/todos""#)).count(), 1 + BUCKETS.len() + 1 + 2);
        assert!(!text.contains("nagaya_store_"), "a server without a metered store has no metrics of it");
    }

    #[test]
    fn measurements_are_shown_in_the_format_of_prometheus() {
        let metrics = Metrics::new();
        let mut buckets = [0; DURATION_BUCKETS.len() + 1];
        (buckets[3], buckets[13]) = (4, 1);
        let gauges = Gauges {
            in_flight: 0,
            connections: 0,
            systems: Vec::new(),
            measured: vec![
                Measurement::gauge("follower_lag_seconds", "How far", 1.5).label("follower", "list"),
                Measurement::counter("follower_given_up", "What", 0.0),
            ],
            store: vec![
                Measurement::gauge("disk_bytes", "Size", 7.0).label("part", "journal"),
                Measurement::counter("compactions", "How often", 3.0),
                Measurement::gauge("disk_bytes", "Size", 0.0).label("part", "items"),
            ],
            usage: StoreUsage {
                operations: vec![OperationUsage { name: "get", buckets, seconds: 9.5 }],
                conflicts: 2,
                errors_by_code: vec![("busy", 6)],
                consumed: ConsumedCapacity { read_units: 0.5, write_units: 0.0 },
            },
        };
        let text = metrics.text(gauges);
        has(&text, "# TYPE nagaya_follower_lag_seconds gauge");
        has(&text, r#"nagaya_follower_lag_seconds{follower="list"} 1.5"#);
        assert!(!text.contains("given_up"), "{text}");
        has(&text, "# HELP nagaya_store_disk_bytes Size.");
        has(&text, r#"nagaya_store_disk_bytes{part="journal"} 7.0"#);
        has(&text, r#"nagaya_store_disk_bytes{part="items"} 0.0"#);
        assert_eq!(text.matches("# TYPE nagaya_store_disk_bytes").count(), 1, "{text}");
        has(&text, "nagaya_store_compactions_total 3.0");
        has(&text, r#"nagaya_store_operation_duration_seconds_bucket{le="0.0005",operation="get"} 0"#);
        has(&text, r#"nagaya_store_operation_duration_seconds_bucket{le="0.001",operation="get"} 4"#);
        has(&text, r#"nagaya_store_operation_duration_seconds_bucket{le="+Inf",operation="get"} 5"#);
        has(&text, r#"nagaya_store_operation_duration_seconds_count{operation="get"} 5"#);
        has(&text, r#"nagaya_store_operation_duration_seconds_sum{operation="get"} 9.5"#);
        has(&text, r#"nagaya_store_errors_total{code="busy"} 6"#);
        has(&text, "nagaya_store_conflicts_total 2.0");
        has(&text, "nagaya_store_consumed_read_units_total 0.5");
        has(&text, "# EOF");
    }
}
