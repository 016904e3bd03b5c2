//! How a number is written down: a name, what it says, and its values by their labels.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Writes metrics without labels, each by a line with its name, its value and its help text:
/// `write_each!(sheet.gauge { "name": value, "Help"; })`. The calling function returns
/// [`fmt::Result`].
macro_rules! write_each {
    ($sheet:ident.$kind:ident { $($name:literal: $value:expr, $help:literal;)* }) => {
        $($sheet.$kind($name, $help, $value)?;)*
    };
}
pub(super) use write_each;

/// Where numbers are written to.
pub(super) struct Sheet<'e>(pub DescriptorEncoder<'e>);

impl Sheet<'_> {
    /// What only grows, since the start; `_total` is added to its name.
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

    /// Counters of one name that differ in labels.
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

    /// What goes up and down.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let mut metric = (self.0).encode_descriptor(name, help, None, MetricType::Gauge)?;
        metric.encode_gauge(&value)
    }

    /// Gauges of one name that differ in labels.
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

    /// How many values are in each bucket, by the upper bounds of all but the last.
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

    /// What does not change while the process runs.
    pub(super) fn info(&mut self, name: &str, help: &str, label: (&str, &str)) -> fmt::Result {
        let mut metric = (self.0).encode_descriptor(name, help, None, MetricType::Gauge)?;
        metric.encode_family(&[label])?.encode_gauge(&1_i64)
    }
}
