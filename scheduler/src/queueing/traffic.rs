//! Arriving jobs, and the places of their data.

use super::cluster::{Cluster, ModelError, bad};
use super::task::{REPLICAS_MAX, Task};
use crate::model::NodeId;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A cluster and the traffic that arrives at it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Model {
    /// The nodes, their racks and rates.
    pub cluster: Cluster,
    /// Distribution of the number of tasks of a job.
    pub sizes: JobSizes,
    /// Rates of arriving tasks, and the nodes that hold their data.
    pub streams: Vec<Stream>,
}

/// Tasks whose data lies within the same range of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Mean number of tasks of this stream that arrive in a time slot. [`Model::at_load`] keeps
    /// only the ratios between the streams.
    pub tasks_per_slot: f64,
    /// First node that may hold the stream's data.
    pub from: u32,
    /// The end of the range of node numbers that may hold the stream's data, exclusive.
    pub until: u32,
    /// Number of nodes, 1 to 3, that hold a task's data. The nodes are drawn at random from those
    /// with numbers from `from` to before `until`.
    pub replicas: u32,
}

impl Stream {
    /// Returns a stream of this many tasks per slot, each with its data on `replicas` of `nodes`.
    #[must_use]
    pub fn new(tasks_per_slot: f64, nodes: Range<u32>, replicas: u32) -> Self {
        Self {
            tasks_per_slot,
            from: nodes.start,
            until: nodes.end,
            replicas,
        }
    }
}

/// The distribution of a job's number of tasks: a bin is drawn by its share, then a log-uniform
/// number within it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobSizes(pub Vec<SizeBin>);

/// A range of sizes, and the share of jobs in it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeBin {
    /// Part of all jobs whose size is in this range; the shares of all ranges sum to 1.
    pub share: f64,
    /// Smallest number of tasks of a job in this range of sizes, at least 1.
    pub min: u32,
    /// Largest number of tasks of a job in this range of sizes.
    pub max: u32,
}

impl JobSizes {
    /// Returns the distribution in which every job has one task, as in the model of Kavousi's
    /// survey.
    #[must_use]
    pub fn single() -> Self {
        Self(vec![SizeBin {
            share: 1.0,
            min: 1,
            max: 1,
        }])
    }

    /// Returns the sizes of Wang's "real workload", section V: 85% of jobs have up to 10 tasks,
    /// 1% have up to 8,000.
    #[must_use]
    pub fn wang() -> Self {
        let bin = |share, min, max| SizeBin { share, min, max };
        Self(vec![
            bin(0.85, 1, 10),
            bin(0.04, 11, 50),
            bin(0.08, 51, 150),
            bin(0.02, 151, 500),
            bin(0.01, 501, 8000),
        ])
    }

    /// Returns the mean number of tasks of a job.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.0.iter().map(|bin| bin.share * bin.mean()).sum()
    }

    fn draw(&self, rng: &mut ChaCha8Rng) -> u32 {
        let [bin] = self.0[..] else {
            let mut left = rng.random::<f64>();
            let bin = self.0.iter().find(|bin| {
                left -= bin.share;
                left < 0.0
            });
            return bin.unwrap_or(&self.0[self.0.len() - 1]).draw(rng);
        };
        bin.draw(rng)
    }
}

impl SizeBin {
    /// Returns the mean number of tasks of a job in the bin: the mean of e^X rounded down, with X
    /// uniform between ln min and ln (max + 1).
    fn mean(&self) -> f64 {
        let span = (f64::from(self.max + 1) / f64::from(self.min)).ln();
        let of = |n: u32| f64::from(n) * (f64::from(n + 1) / f64::from(n)).ln() / span;
        (self.min..=self.max).map(of).sum()
    }

    fn draw(&self, rng: &mut ChaCha8Rng) -> u32 {
        if self.min == self.max {
            return self.min;
        }
        let (low, high) = (f64::from(self.min), f64::from(self.max + 1));
        let drawn = low * (high / low).powf(rng.random::<f64>());
        (drawn as u32).clamp(self.min, self.max)
    }
}

impl Model {
    /// Returns the model of Wang's section V: 1,000 nodes, data on 800 of them, at its capacity
    /// of 680 tasks a slot. Per slot, a local task ends with probability 0.8 (alpha), a remote
    /// one with 0.2 (gamma).
    #[must_use]
    pub fn wang() -> Self {
        Self {
            cluster: Cluster::flat(1000, 0.8, 0.2),
            sizes: JobSizes::wang(),
            streams: vec![Stream::new(680.0, 0..800, 3)],
        }
    }

    /// Returns the mean number of tasks of all streams that arrive in a time slot.
    #[must_use]
    pub fn load(&self) -> f64 {
        self.streams.iter().map(|s| s.tasks_per_slot).sum()
    }

    /// Returns the model with all streams scaled in proportion, so that together they have a load
    /// of `tasks_per_slot`.
    #[must_use]
    pub fn at_load(&self, tasks_per_slot: f64) -> Self {
        let scale = tasks_per_slot / self.load();
        let mut model = self.clone();
        for stream in &mut model.streams {
            stream.tasks_per_slot *= scale;
        }
        model
    }

    /// Checks that the model can be simulated.
    ///
    /// # Errors
    /// When [`Cluster::check`] fails; when there are no streams; when a stream has no nodes or some
    /// that are not in the cluster, does not have 1 to 3 replicas, has more replicas than nodes, or
    /// has a rate that is not positive and finite; when more tasks arrive than [`LOAD_MAX`]; when
    /// the shares of the sizes do not sum to 1 or one is negative; when a bin has no sizes, the
    /// size 0, or sizes above ten million.
    pub fn check(&self) -> Result<(), ModelError> {
        self.cluster.check()?;
        if self.streams.is_empty() {
            return Err(bad("streams", "there must be at least one"));
        }
        for (at, stream) in self.streams.iter().enumerate() {
            let field = |name: &str| format!("streams[{at}].{name}");
            let nodes = stream.until.saturating_sub(stream.from);
            if nodes == 0 || stream.until > self.cluster.nodes {
                let why = format!(
                    "from {} until {} names no nodes of a cluster of {}",
                    stream.from, stream.until, self.cluster.nodes
                );
                return Err(bad(field("until"), why));
            }
            if !(1..=nodes.min(REPLICAS_MAX as u32)).contains(&stream.replicas) {
                let why = format!(
                    "is {}; use 1 to 3, and no more than the {nodes} nodes of the stream",
                    stream.replicas
                );
                return Err(bad(field("replicas"), why));
            }
            let rate = stream.tasks_per_slot;
            if !(rate.is_finite() && rate > 0.0) {
                let why = format!("must be positive and finite, got {rate}");
                return Err(bad(field("tasks_per_slot"), why));
            }
        }
        let load = self.load();
        if load > LOAD_MAX {
            let why = format!("{load} tasks arrive in a slot; at most {LOAD_MAX}");
            return Err(bad("streams", why));
        }
        let bins = &self.sizes.0;
        let sane = |bin: &SizeBin| bin.share >= 0.0 && bin.min >= 1 && bin.min <= bin.max;
        let total: f64 = bins.iter().map(|bin| bin.share).sum();
        if !bins.iter().all(sane) || (total - 1.0).abs() > 1e-9 {
            let why = format!("shares sum to {total}, not 1, or a bin has no sizes: {bins:?}");
            return Err(bad("sizes", why));
        }
        if bins.iter().any(|bin| bin.max > SIZE_MAX) {
            return Err(bad("sizes", format!("a job has at most {SIZE_MAX} tasks")));
        }
        Ok(())
    }
}

/// Largest number of tasks of a job.
const SIZE_MAX: u32 = 10_000_000;

/// Largest mean number of tasks that arrive in a slot. The engine routes all tasks of a slot
/// before it checks the backlog, so this bounds its memory.
pub const LOAD_MAX: f64 = 1_000_000.0;

/// Draws the jobs of one slot after the other. Jobs arrive as one Poisson process; each belongs
/// to one of the model's streams, drawn in proportion to their loads.
#[derive(Debug)]
pub(super) struct Arrivals<'a> {
    model: &'a Model,
    rng: ChaCha8Rng,
    jobs_per_slot: f64,
    /// Time of the next job's arrival, in slots.
    next: f64,
}

impl<'a> Arrivals<'a> {
    pub fn new(model: &'a Model, rng: ChaCha8Rng) -> Self {
        let mut arrivals = Self {
            jobs_per_slot: model.load() / model.sizes.mean(),
            model,
            rng,
            next: 0.0,
        };
        arrivals.next = arrivals.gap();
        arrivals
    }

    fn gap(&mut self) -> f64 {
        -(1.0 - self.rng.random::<f64>()).ln() / self.jobs_per_slot
    }

    /// Returns the next job of `slot`: its number of tasks and its stream. `None` if no further
    /// job arrives in `slot`.
    pub fn next_job(&mut self, slot: u64) -> Option<(u32, Stream)> {
        if self.next >= (slot + 1) as f64 {
            return None;
        }
        self.next += self.gap();
        let tasks = self.model.sizes.draw(&mut self.rng);
        let streams = &self.model.streams;
        if let [stream] = streams[..] {
            return Some((tasks, stream));
        }
        let mut left = self.rng.random::<f64>() * self.model.load();
        let stream = streams.iter().find(|stream| {
            left -= stream.tasks_per_slot;
            left < 0.0
        });
        Some((tasks, *stream.unwrap_or(&streams[streams.len() - 1])))
    }

    /// Draws a task of a job of this stream: its data lies on different nodes, drawn at random.
    pub fn task(&mut self, job: u32, index: u32, stream: Stream) -> Task {
        let nodes = stream.until - stream.from;
        let mut replicas = [NodeId(0); REPLICAS_MAX];
        let drawn = stream.replicas as usize;
        for at in 0..drawn {
            replicas[at] = loop {
                let node = NodeId(stream.from + below(&mut self.rng, nodes));
                if !replicas[..at].contains(&node) {
                    break node;
                }
            };
        }
        for at in drawn..REPLICAS_MAX {
            replicas[at] = replicas[0];
        }
        Task {
            job,
            index,
            replicas: sorted(replicas),
        }
    }
}

/// Sorts the replicas by a sorting network. It takes a third of the time of the general sort, and
/// every arriving task needs one.
fn sorted([a, b, c]: [NodeId; REPLICAS_MAX]) -> [NodeId; REPLICAS_MAX] {
    let (a, b) = (a.min(b), a.max(b));
    let (b, c) = (b.min(c), b.max(c));
    [a.min(b), a.max(b), c]
}

/// Draws a number below `n`, which must be positive.
pub(super) fn below(rng: &mut ChaCha8Rng, n: u32) -> u32 {
    ((u64::from(rng.random::<u32>()) * u64::from(n)) >> 32) as u32
}
