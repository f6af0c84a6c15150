//! Figures for Prometheus. No label is anything that a caller chooses, and none names a tenant.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering::Relaxed},
    time::Duration,
};

use axum::http::Method;
use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram, info::Info},
    registry::{Registry, Unit},
};

use super::logs;

/// The type of what [`Metrics::text`] gives.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The upper ends of the buckets, in seconds. 0.2 and 0.35 are among them, so that "95 % of reads below 200 ms" and "of
/// writes below 350 ms" are counted and not guessed.
const BUCKETS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 1.0, 2.5, 10.0, 30.0];
/// The classes of statuses.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

type Labels<const N: usize> = [(&'static str, String); N];
type Histograms = Family<Labels<3>, Histogram, fn() -> Histogram>;

/// All figures of a server.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Labels<4>, Counter>,
    durations: Histograms,
    rejected: [Counter; 4],
    in_flight: Gauge,
    connections: Gauge,
    breaches: Family<Labels<1>, Counter>,
    tokens: Family<Labels<1>, Counter>,
    dropped: Counter,
    memory: Gauge,
    nowhere: Arc<Spot>,
    /// Scrapes go one after the other, so that none shows the figures of another.
    scrape: Mutex<()>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

/// Why a request was not let through to its end.
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

/// What is looked up when somebody asks.
pub(crate) struct Gauges {
    pub(crate) in_flight: usize,
    pub(crate) connections: usize,
    pub(crate) systems: Vec<Household>,
}

/// What is counted of a system elsewhere.
pub(crate) struct Household {
    pub(crate) system: String,
    /// Items that came back from behind another wall.
    pub(crate) breaches: u64,
    /// Tokens that were checked in full, and not just recognised.
    pub(crate) tokens_checked: u64,
}

/// A route, with the counters that its requests go to.
#[derive(Debug)]
pub(crate) struct Spot {
    pub(crate) system: String,
    /// The template of its path: what is in its place in a request may be personal.
    pub(crate) route: String,
    requests: [Counter; 5],
    duration: Histogram,
}

impl Spot {
    /// Counts a request.
    pub(crate) fn count(&self, status: u16, took: Duration) {
        let class = usize::from(status / 100).clamp(1, CLASSES.len()) - 1;
        if let Some(requests) = self.requests.get(class) {
            requests.inc();
        }
        self.duration.observe(took.as_secs_f64());
    }
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("nagaya");
        let requests = Family::default();
        registry.register("requests", "Requests, by what they were answered with", requests.clone());
        let durations = Histograms::new_with_constructor(|| Histogram::new(BUCKETS));
        let help = "How long requests took";
        registry.register_with_unit("request_duration", help, Unit::Seconds, durations.clone());
        let rejections = Family::<Labels<1>, Counter>::default();
        let rejected = Rejection::ALL.map(|why| rejections.get_or_create_owned(&[("reason", why.name().to_owned())]));
        registry.register("requests_rejected", "Requests that were not let through to their end", rejections);
        let in_flight = Gauge::default();
        registry.register("requests_in_flight", "Requests under way", in_flight.clone());
        let connections = Gauge::default();
        registry.register("connections", "Open connections", connections.clone());
        let breaches = Family::default();
        let help = "Items that came back from behind another wall: anything but 0 is an alarm";
        registry.register("wall_breaches", help, breaches.clone());
        let tokens = Family::default();
        let help = "Tokens that were checked in full; all others were recognised";
        registry.register("tokens_checked", help, tokens.clone());
        let dropped = Counter::default();
        registry.register("log_lines_dropped", "Log lines that nobody read in time", dropped.clone());
        let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "What is running", build);
        let memory = Gauge::default();
        let process = registry.sub_registry_with_prefix("process");
        process.register_with_unit("resident_memory", "Memory in use", Unit::Bytes, memory.clone());

        let nowhere = Arc::new(spot(&requests, &durations, "none", "none", "none"));
        let scrape = Mutex::new(());
        Metrics {
            registry,
            requests,
            durations,
            rejected,
            in_flight,
            connections,
            breaches,
            tokens,
            dropped,
            memory,
            nowhere,
            scrape,
        }
    }

    /// The counters of a route: looked up once, when it is mounted.
    pub(crate) fn spot(&self, system: &str, method: &Method, route: &str) -> Arc<Spot> {
        Arc::new(spot(&self.requests, &self.durations, system, self::method(method), route))
    }

    /// The counters of everything that is no route.
    pub(super) fn nowhere(&self) -> &Arc<Spot> {
        &self.nowhere
    }

    pub(super) fn rejected(&self, why: Rejection) {
        if let Some(counter) = self.rejected.get(why as usize) {
            counter.inc();
        }
    }

    /// All figures as text.
    pub(crate) fn text(&self, gauges: &Gauges) -> String {
        let _one_at_a_time = self.scrape.lock().unwrap_or_else(PoisonError::into_inner);
        self.in_flight.set(signed(gauges.in_flight as u64));
        self.connections.set(signed(gauges.connections as u64));
        for household in &gauges.systems {
            let labels = [("system", household.system.clone())];
            self.breaches.get_or_create(&labels).inner().store(household.breaches, Relaxed);
            self.tokens.get_or_create(&labels).inner().store(household.tokens_checked, Relaxed);
        }
        self.dropped.inner().store(logs::dropped(), Relaxed);
        self.memory.set(signed(resident_bytes().unwrap_or(0)));
        let mut text = String::new();
        // Writing into a text cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

fn spot(
    requests: &Family<Labels<4>, Counter>,
    durations: &Histograms,
    system: &str,
    method: &str,
    route: &str,
) -> Spot {
    let labels = [("system", system.to_owned()), ("method", method.to_owned()), ("route", route.to_owned())];
    let counter = |class: &str| {
        let [system, method, route] = labels.clone();
        requests.get_or_create_owned(&[system, method, route, ("status", class.to_owned())])
    };
    Spot {
        system: system.to_owned(),
        route: route.to_owned(),
        requests: CLASSES.map(counter),
        duration: durations.get_or_create_owned(&labels),
    }
}

/// The name of a method. One of the caller's own making is no name.
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

/// The memory that this process has in use, where the system says so. `status` and not `statm`: it does not count in pages,
/// whose size would have to be known.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(metrics: &Metrics) -> String {
        let household = Household { system: "todo".into(), breaches: 2, tokens_checked: 7 };
        metrics.text(&Gauges { in_flight: 3, connections: 5, systems: vec![household] })
    }

    #[track_caller]
    fn has(text: &str, line: &str) {
        assert!(text.lines().any(|each| each == line), "no line {line:?} in\n{text}");
    }

    #[test]
    fn a_request_is_counted_by_its_route_and_class() {
        let metrics = Metrics::new();
        let spot = metrics.spot("todo", &Method::GET, "/todos/{id}");
        spot.count(200, Duration::from_millis(3));
        spot.count(204, Duration::from_millis(300));
        spot.count(503, Duration::from_secs(60));
        metrics.nowhere().count(404, Duration::ZERO);
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
    fn the_same_route_mounted_again_goes_on_counting() {
        let metrics = Metrics::new();
        metrics.spot("todo", &Method::GET, "/todos").count(200, Duration::ZERO);
        metrics.spot("todo", &Method::GET, "/todos").count(200, Duration::ZERO);
        has(&text(&metrics), r#"nagaya_requests_total{system="todo",method="GET",route="/todos",status="2xx"} 2"#);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_memory_of_the_process_is_among_them() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 1024 * 1024));
    }
}
