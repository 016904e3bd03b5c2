//! The stages of operations, by the client and by the server: where the time of a tail goes.
//!
//! ```text
//!   due ── late ──> sent by the client ── (not measured) ──> read by the server
//!     ── queued, executed, sent: the server's metrics ──> response sent ── (not measured) ──> received
//! ```
//!
//! The unmeasured parts are spent in the kernel, which wakes up the reading thread. A tail that no stage
//! shows lies there.

use std::fmt;

use anyhow::{Context, Result, ensure};
use ebb_server::http::JobsClient;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::server::Server;
use crate::ycsb::cql::Tally;

/// The beginning of each line of the server's metrics that has a bucket of a stage. Servers with
/// `--stage-latencies` have such lines.
const METRIC: &str = "ebb_cql_stage_duration_seconds_bucket{";
/// The server's stages, in order.
const STAGES: [&str; 3] = ["queued", "executed", "sent"];

/// The times that operations spent in each stage, under one of the compared conditions. Windows that
/// were disturbed (spoiled) are included. The server's stages include the operations in the lead of a
/// window, the time at its start whose latencies do not count; the client's stage leaves these
/// operations out.
#[derive(Debug, Default)]
pub struct Stages {
    /// The delay of each operation from its due time until the client sent it; `None` before the
    /// first window.
    late_nanos: Option<Histogram<u64>>,
    server: ServerStages,
}

/// A window that has begun, with the server's metrics of its stages at that moment.
#[derive(Debug)]
pub struct BegunWindow {
    client: JobsClient,
    server: ServerStages,
}

impl BegunWindow {
    /// Begins a measured window: reads the present counts of the server, which must run with
    /// `--stage-latencies`.
    ///
    /// # Errors
    /// When the server does not answer, or has no metrics of stages.
    pub fn of(server: &Server) -> Result<Self> {
        let client = server.jobs_client()?;
        let server = ServerStages::parse(&client.metrics()?)?;
        Ok(Self { client, server })
    }
}

/// Counts of requests in each of the server's stages, by duration.
#[derive(Debug, Clone, Default, PartialEq)]
struct ServerStages([Buckets; STAGES.len()]);

/// A cumulative histogram: upper bounds in seconds, ascending, each with the number of requests
/// that took at most this long.
#[derive(Debug, Clone, Default, PartialEq)]
struct Buckets(Vec<(f64, u64)>);

/// Quantiles of the time in a stage, in microseconds. Those of the server are interpolated within a
/// bucket of its metric.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct StageTail {
    pub stage: &'static str,
    pub p50_us: f64,
    pub p99_us: f64,
}

impl fmt::Display for StageTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            stage,
            p50_us,
            p99_us,
        } = self;
        write!(f, "{stage} {p50_us:.1} / {p99_us:.1}")
    }
}

impl Stages {
    /// Adds the operations of a window that has ended: those in `tally`, and those that the server
    /// counted since `begun`.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn add_window(&mut self, begun: &BegunWindow, tally: &Tally) -> Result<()> {
        let now = ServerStages::parse(&begun.client.metrics()?)?;
        self.server.add_difference(&now, &begun.server);
        self.add_late(&tally.late_nanos)
    }

    /// Adds the operations of `more`, which were counted under another condition of the experiment.
    pub fn add(&mut self, more: &Self) -> Result<()> {
        let none = ServerStages::default();
        self.server.add_difference(&more.server, &none);
        match &more.late_nanos {
            Some(late_nanos) => self.add_late(late_nanos),
            None => Ok(()),
        }
    }

    fn add_late(&mut self, more: &Histogram<u64>) -> Result<()> {
        match &mut self.late_nanos {
            Some(late_nanos) => late_nanos.add(more)?,
            none => *none = Some(more.clone()),
        }
        Ok(())
    }

    /// Returns the median and p99 of the time in each stage, in the order in which an operation
    /// passes them.
    pub fn tails(&self) -> Vec<StageTail> {
        let late_us = |quantile| {
            let late = self.late_nanos.as_ref();
            late.map_or(f64::NAN, |late| {
                late.value_at_quantile(quantile) as f64 / 1e3
            })
        };
        let mut tails = vec![StageTail {
            stage: "late",
            p50_us: late_us(0.5),
            p99_us: late_us(0.99),
        }];
        for (stage, buckets) in STAGES.into_iter().zip(&self.server.0) {
            tails.push(StageTail {
                stage,
                p50_us: buckets.quantile_s(0.5) * 1e6,
                p99_us: buckets.quantile_s(0.99) * 1e6,
            });
        }
        tails
    }
}

impl ServerStages {
    /// Reads the stages from metrics in Prometheus' text format.
    fn parse(metrics: &str) -> Result<Self> {
        let mut stages = Self::default();
        for line in metrics.lines() {
            let Some(rest) = line.strip_prefix(METRIC) else {
                continue;
            };
            let (labels, count) = rest.rsplit_once("} ").context("a metric has a value")?;
            let label = |name: &str| {
                let (_, value) = labels.split_once(&format!("{name}=\""))?;
                value.split('"').next()
            };
            let (stage, bound) = (label("stage"), label("le"));
            let stage = STAGES.iter().position(|known| Some(*known) == stage);
            let stage = stage.with_context(|| format!("an unknown stage: {line}"))?;
            let bound_s = bound.context("a bucket has a bound")?.parse()?;
            // Counts are printed as whole numbers.
            stages.0[stage].0.push((bound_s, count.trim().parse()?));
        }
        ensure!(
            stages.0.iter().all(|buckets| !buckets.0.is_empty()),
            "the server has no latencies by stage: does it know --stage-latencies?"
        );
        Ok(stages)
    }

    /// Adds the requests between two readings of the same server's counts: those in `after` that
    /// are not in `before`.
    fn add_difference(&mut self, after: &Self, before: &Self) {
        let parts = after.0.iter().zip(&before.0);
        for (sum, (after, before)) in self.0.iter_mut().zip(parts) {
            sum.add_difference(after, before);
        }
    }
}

impl Buckets {
    /// Adds to each bucket the difference between its counts in `after` and in `before`. The
    /// histograms must have the same bounds; an empty histogram counts as one with the count 0 for
    /// each bound.
    fn add_difference(&mut self, after: &Self, before: &Self) {
        if self.0.is_empty() {
            self.0 = after.0.iter().map(|(bound_s, _)| (*bound_s, 0)).collect();
        }
        for (position, (_, sum)) in self.0.iter_mut().enumerate() {
            let count = |buckets: &Self| buckets.0.get(position).map_or(0, |(_, count)| *count);
            *sum += count(after).saturating_sub(count(before));
        }
    }

    /// Returns a quantile in seconds, as if the requests of a bucket were spread evenly over it;
    /// NaN without requests. A quantile above the largest finite bound is returned as this bound.
    fn quantile_s(&self, quantile: f64) -> f64 {
        let all = self.0.last().map_or(0, |(_, count)| *count);
        if all == 0 {
            return f64::NAN;
        }
        let rank = all as f64 * quantile;
        let (mut low_s, mut below) = (0.0, 0);
        for &(bound_s, count) in &self.0 {
            if bound_s.is_infinite() {
                break;
            }
            if count as f64 >= rank {
                let in_bucket = (count - below).max(1) as f64;
                return low_s + (bound_s - low_s) * (rank - below as f64) / in_bucket;
            }
            (low_s, below) = (bound_s, count);
        }
        low_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns metrics of the server. For each stage, `counts` has the number of requests that took
    /// up to 10 us, up to 20 us, and any time.
    fn metrics(counts: [[u64; 3]; 3]) -> String {
        let mut text = String::from("# TYPE ebb_cql_stage_duration_seconds histogram\n");
        for (stage, counts) in STAGES.iter().zip(counts) {
            for (bound, count) in ["1e-5", "2e-5", "+Inf"].iter().zip(counts) {
                text += &format!("{METRIC}le=\"{bound}\",stage=\"{stage}\"}} {count}\n");
            }
        }
        text + "ebb_cql_connections 3\n"
    }

    #[test]
    fn the_stages_of_a_window_are_the_growth_of_the_metrics() -> Result<()> {
        let before = ServerStages::parse(&metrics([[5, 5, 5]; 3]))?;
        let after = ServerStages::parse(&metrics([[105, 105, 105], [5, 105, 105], [5, 5, 7]]))?;
        let mut stages = Stages::default();
        stages.server.add_difference(&after, &before);
        let tails = stages.tails();
        let names: Vec<_> = tails.iter().map(|tail| tail.stage).collect();
        assert_eq!(names, ["late", "queued", "executed", "sent"]);
        for (tail, [p50_us, p99_us]) in tails[1..].iter().zip([[5.0, 9.9], [15.0, 19.9], [20.0; 2]])
        {
            assert!((tail.p50_us - p50_us).abs() < 1e-6, "{tail}");
            assert!((tail.p99_us - p99_us).abs() < 1e-6, "{tail}");
        }
        let mut twice = Stages::default();
        twice.add(&stages)?;
        twice.add(&stages)?;
        let total = |stages: &Stages| stages.server.0[0].0.last().map(|(_, count)| *count);
        assert_eq!((total(&stages), total(&twice)), (Some(100), Some(200)));
        Ok(())
    }

    #[test]
    fn a_server_without_stages_is_an_error_and_a_stage_without_requests_has_no_quantile() {
        assert!(ServerStages::parse("ebb_cql_connections 3\n").is_err());
        assert!(Buckets(vec![(1e-5, 0)]).quantile_s(0.99).is_nan());
    }
}
