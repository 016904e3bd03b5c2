//! The writer of single metrics: a name, a help text, and the values by their labels.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Writes metrics without labels. `write_each!(sheet.gauge { "name": value, "Help"; })` writes one; the
/// braces may have any number of them. The calling function returns [`fmt::Result`].
macro_rules! write_each {
    ($sheet:ident.$kind:ident { $($name:literal: $value:expr, $help:literal;)* }) => {
        $($sheet.$kind($name, $help, $value)?;)*
    };
}
pub(super) use write_each;

/// Writes metrics to the encoder of a registry.
pub(super) struct Sheet<'e>(pub DescriptorEncoder<'e>);

impl Sheet<'_> {
    /// Writes a counter, which only grows from the start of the process on. The encoder adds `_total` to
    /// its name.
    pub(super) fn counter(
        &mut self,
        name: &str,
        help: &str,
        value: impl EncodeCounterValue,
    ) -> fmt::Result {
        let counter = MetricType::Counter;
        let mut metric = (self.0).encode_descriptor(name, help, None, counter)?;
        metric.encode_counter::<NoLabelSet, _, f64>(&value, None)
    }

    /// Writes the counters of one name that differ in labels.
    pub(super) fn counters<'l, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = ([(&'static str, &'l str); N], u64)>,
    ) -> fmt::Result {
        let counter = MetricType::Counter;
        let mut metric = (self.0).encode_descriptor(name, help, None, counter)?;
        for (labels, value) in values {
            let mut one = metric.encode_family(&labels)?;
            one.encode_counter::<NoLabelSet, _, f64>(&value, None)?;
        }
        Ok(())
    }

    /// Writes a gauge, whose value goes up and down.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let mut metric = (self.0).encode_descriptor(name, help, None, MetricType::Gauge)?;
        metric.encode_gauge(&value)
    }

    /// Writes the gauges of one name that differ in labels.
    pub(super) fn gauges<'l, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = ([(&'static str, &'l str); N], f64)>,
    ) -> fmt::Result {
        let mut metric = (self.0).encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in values {
            metric.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    /// Writes a histogram: `buckets` are pairs of a bucket's upper bound and the number of values in this
    /// bucket alone (not cumulative). `sum` is the sum of all values.
    pub(super) fn histogram(
        &mut self,
        name: &str,
        help: &str,
        sum: f64,
        buckets: &[(f64, u64)],
    ) -> fmt::Result {
        let histogram = MetricType::Histogram;
        let mut metric = (self.0).encode_descriptor(name, help, None, histogram)?;
        let count = buckets.iter().map(|(_, count)| count).sum();
        metric.encode_histogram::<NoLabelSet>(sum, count, buckets, None)
    }

    /// Writes a fact that stays the same while the process runs, such as the version, as a label of a gauge
    /// whose value is always 1.
    pub(super) fn info(&mut self, name: &str, help: &str, label: (&str, &str)) -> fmt::Result {
        let mut metric = (self.0).encode_descriptor(name, help, None, MetricType::Gauge)?;
        metric.encode_family(&[label])?.encode_gauge(&1_i64)
    }
}
