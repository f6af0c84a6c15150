//! Health and metrics of a store.

/// Whether a store can serve requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// Reads and writes work.
    Ready,
    /// Reads and writes work, but an operator has to act soon: the disk is filling up.
    Warning(String),
    /// Reads work. Writes are refused: the disk is nearly full.
    ReadOnly(String),
    /// The store has failed. Send requests elsewhere until it recovers.
    Unavailable(String),
}

/// A metric of an engine, in the terms of OpenMetrics.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// Its name, such as `disk_bytes`, without a prefix and without `_total`.
    pub name: &'static str,
    /// What it means.
    pub help: &'static str,
    /// Gauge or counter.
    pub kind: MeasurementKind,
    /// Labels that distinguish it from others of the same name.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: f64,
}

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasurementKind {
    /// Goes up and down.
    Gauge,
    /// Only goes up, from zero at the start of the process.
    Counter,
}

impl Measurement {
    /// A gauge without labels.
    pub fn gauge(name: &'static str, help: &'static str, value: f64) -> Self {
        Measurement { name, help, kind: MeasurementKind::Gauge, labels: Vec::new(), value }
    }

    /// A counter without labels.
    pub fn counter(name: &'static str, help: &'static str, value: f64) -> Self {
        Measurement { kind: MeasurementKind::Counter, ..Measurement::gauge(name, help, value) }
    }

    /// The same metric with one more label.
    #[must_use]
    pub fn label(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.labels.push((name, value.into()));
        self
    }
}
