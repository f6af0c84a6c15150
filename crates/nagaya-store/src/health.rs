//! What probes and metrics ask of a store.

/// Whether a store can serve requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It reads and writes.
    Ready,
    /// It serves, but somebody has to act: the disk is filling up.
    Warning(String),
    /// It reads. Writes are refused: the disk is nearly full.
    ReadOnly(String),
    /// It has failed. Requests should go elsewhere until this has passed.
    Unavailable(String),
}

/// A value that an engine measures about itself, in the terms of OpenMetrics.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// Its name, such as `disk_bytes`, without a prefix and without `_total`.
    pub name: &'static str,
    /// What it means.
    pub help: &'static str,
    /// How it moves.
    pub kind: MeasurementKind,
    /// What sets it apart from others of the same name.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: f64,
}

/// How a measured value moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasurementKind {
    /// Up and down.
    Gauge,
    /// Up only, from zero at the start of the process.
    Counter,
}

impl Measurement {
    /// A value that goes up and down.
    pub fn gauge(name: &'static str, help: &'static str, value: f64) -> Self {
        Measurement { name, help, kind: MeasurementKind::Gauge, labels: Vec::new(), value }
    }

    /// A value that only goes up.
    pub fn counter(name: &'static str, help: &'static str, value: f64) -> Self {
        Measurement { kind: MeasurementKind::Counter, ..Measurement::gauge(name, help, value) }
    }

    /// The same value with a label.
    #[must_use]
    pub fn label(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.labels.push((name, value.into()));
        self
    }
}
