//! Metrics that are read at each scrape: of the store, of systems, of the process.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use nagaya_store::{DURATION_BUCKETS, Measurement, MeasurementKind, OperationUsage, StoreUsage};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _, MetricEncoder, NoLabelSet},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Unit,
};

/// Measurements for this scrape.
#[derive(Debug, Clone, Default)]
pub(super) struct MeasurementCollector(Arc<Mutex<Vec<Measurement>>>);

impl MeasurementCollector {
    /// Replaces the measurements.
    pub(super) fn set(&self, measured: Vec<Measurement>) {
        *lock(&self.0) = measured;
    }
}

impl Collector for MeasurementCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let all = lock(&self.0);
        // Counters at 0 are left out; a gauge at 0 may be the information.
        let is_shown = |each: &&Measurement| each.kind == MeasurementKind::Gauge || each.value > 0.0;
        let mut names: Vec<_> = all.iter().filter(is_shown).map(|each| each.name).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let mut same = all.iter().filter(is_shown).filter(|each| each.name == name).peekable();
            let Some(first) = same.peek() else { continue };
            let kind = match first.kind {
                MeasurementKind::Gauge => MetricType::Gauge,
                MeasurementKind::Counter => MetricType::Counter,
            };
            let mut family = encoder.encode_descriptor(name, &format!("{}.", first.help), None, kind)?;
            // A measurement without labels is the only one of its name.
            if first.labels.is_empty() {
                value(first, family)?;
                continue;
            }
            for each in same {
                value(each, family.encode_family(&each.labels)?)?;
            }
        }
        Ok(())
    }
}

fn value(measured: &Measurement, encoder: MetricEncoder<'_>) -> fmt::Result {
    match measured.kind {
        MeasurementKind::Gauge => ConstGauge::new(measured.value).encode(encoder),
        MeasurementKind::Counter => ConstCounter::new(measured.value).encode(encoder),
    }
}

/// The calls to the store for this scrape.
#[derive(Debug, Clone, Default)]
pub(super) struct StoreUsageCollector(Arc<Mutex<StoreUsage>>);

impl StoreUsageCollector {
    /// Replaces the usage.
    pub(super) fn set(&self, usage: StoreUsage) {
        *lock(&self.0) = usage;
    }
}

impl Collector for StoreUsageCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let usage = lock(&self.0);
        if usage.operations.is_empty() {
            return Ok(());
        }
        let help = "How long calls to the store took.";
        let mut family =
            encoder.encode_descriptor("operation_duration", help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for operation in &usage.operations {
            histogram(operation, family.encode_family(&[("operation", operation.name)])?)?;
        }
        let mut family = encoder.encode_descriptor("errors", "Calls that failed.", None, MetricType::Counter)?;
        for (code, count) in &usage.errors_by_code {
            ConstCounter::new(*count).encode(family.encode_family(&[("code", *code)])?)?;
        }
        let mut counter = |name, help, value: f64| {
            let family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(value).encode(family)
        };
        let conflicts = usage.conflicts as f64;
        counter("conflicts", "Writes whose conditions did not hold.", conflicts)?;
        if usage.consumed.read_units > 0.0 || usage.consumed.write_units > 0.0 {
            counter("consumed_read_units", "What reading consumed.", usage.consumed.read_units)?;
            counter("consumed_write_units", "What writing consumed.", usage.consumed.write_units)?;
        }
        Ok(())
    }
}

fn histogram(operation: &OperationUsage, mut encoder: MetricEncoder<'_>) -> fmt::Result {
    let ends = DURATION_BUCKETS.into_iter().chain([f64::INFINITY]);
    let buckets: Vec<_> = ends.zip(operation.buckets).collect();
    encoder.encode_histogram::<NoLabelSet>(operation.seconds, operation.calls(), &buckets, None)
}

fn lock<T>(kept: &Mutex<T>) -> MutexGuard<'_, T> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}
