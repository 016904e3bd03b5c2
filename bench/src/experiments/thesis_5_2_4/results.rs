//! The results: means, spreads and ratios over the rounds.

use serde::Serialize;

use super::case::Execution;
use super::mix::Mix;
use super::plan::Run;
use super::reads::Reads;
use crate::experiments::statistics::median_if_any;

#[derive(Debug, Clone, Serialize)]
pub struct RunResult {
    #[serde(flatten)]
    pub run: Run,
    /// The round, from 0.
    pub round: u32,
    pub executions: Vec<Execution>,
}

#[derive(Debug, Default)]
pub struct Results {
    done: Vec<RunResult>,
}

/// The mean and the spread of one value over the rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub mean: f64,
    /// The standard deviation over the rounds; 0 with one round.
    pub deviation: f64,
}

/// The costs of one way to read, divided by those of another, such as reads without snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    /// The mean latency of reads, divided by that of the base (the other way to read, in the same
    /// round): the median over the rounds.
    pub mean: f64,
    /// The median latency of reads, divided by that of the base. It is unreliable if about half of
    /// the reads are served from memory: then the median may be a read from memory or one from the
    /// disk.
    pub p50: f64,
    /// The number of blocks that a point read fetched from the disk, divided by that of the base;
    /// `None` if the reads of the base fetched none.
    pub blocks: Option<f64>,
    /// The CPU time for an operation, with the background work of the execution, divided by that of
    /// the base.
    pub cpu: f64,
}

impl Results {
    pub fn add(&mut self, done: RunResult) {
        self.done.push(done);
    }

    /// Returns all results, in the order in which they ran.
    pub fn done(&self) -> &[RunResult] {
        &self.done
    }

    /// Returns from each round the execution of `run` that has the number `iteration`, counted from 0.
    pub fn executions(&self, run: Run, iteration: usize) -> impl Iterator<Item = &Execution> {
        let of_run = self.done.iter().filter(move |done| done.run == run);
        of_run.filter_map(move |done| done.executions.get(iteration))
    }

    /// Returns the spread of a value over the rounds; `None` without results of `run`.
    pub fn spread(
        &self,
        run: Run,
        iteration: usize,
        of: impl Fn(&Execution) -> f64,
    ) -> Option<Spread> {
        let values: Vec<_> = self.executions(run, iteration).map(of).collect();
        Spread::of(&values)
    }

    /// Returns the mean latency of reads in an iteration of `run`, in microseconds, with its spread
    /// over the rounds; `None` if there is no result.
    pub fn read_us(&self, run: Run, iteration: usize) -> Option<Spread> {
        self.spread(run, iteration, |execution| execution.reads.mean_us)
    }

    /// Returns the latencies and other costs of `run`, divided by those of `base` in the same
    /// iteration: for each cost the median over the rounds of the ratio. `None` if `run` or `base`
    /// has no result.
    pub fn ratio(&self, run: Run, base: Run, iteration: usize) -> Option<Ratio> {
        self.ratio_of((run, iteration), (base, iteration))
    }

    /// Like [`ratio`](Self::ratio), but `run` and `base` have iterations of their own: each is a pair
    /// of a run and the index of an iteration.
    pub fn ratio_of(&self, run: (Run, usize), base: (Run, usize)) -> Option<Ratio> {
        let median_ratio = |of: fn(&Execution) -> f64| {
            let runs = self.executions(run.0, run.1);
            let bases = self.executions(base.0, base.1);
            median_if_any(runs.zip(bases).map(|(run, base)| of(run) / of(base)))
        };
        Some(Ratio {
            mean: median_ratio(|execution| execution.reads.mean_us)?,
            p50: median_ratio(|execution| execution.reads.p50_us)?,
            blocks: median_ratio(|execution| execution.blocks_read_per_read)
                .filter(|ratio| ratio.is_finite()),
            cpu: median_ratio(|execution| 1.0 / execution.ops_per_cpu_s)?,
        })
    }

    /// Returns the fractions of the point reads that searched 0, 1, 2, ... SSTables, over all
    /// rounds. The list ends with the last number that occurred.
    pub fn shares_by_sstables(&self, run: Run, iteration: usize) -> Vec<f64> {
        let mut counts: Vec<u64> = Vec::new();
        for execution in self.executions(run, iteration) {
            let of_it = &execution.reads_by_sstables;
            counts.resize(counts.len().max(of_it.len()), 0);
            for (sum, count) in counts.iter_mut().zip(of_it) {
                *sum += count;
            }
        }
        let all: u64 = counts.iter().sum();
        let some = counts.iter().rposition(|count| *count > 0);
        counts.truncate(some.map_or(0, |last| last + 1));
        counts
            .iter()
            .map(|count| *count as f64 / all as f64)
            .collect()
    }

    /// Returns the operations per second of a workload at full speed without snapshots
    /// ([`Reads::Original`]): the median over the rounds; `None` without such a run.
    pub fn full_speed_ops_per_s(&self, workload: Mix) -> Option<f64> {
        let run = Run::saturating(workload, Reads::Original);
        let executions = self.executions(run, 0);
        median_if_any(executions.map(|execution| execution.throughput_ops_per_s))
    }

    /// Returns the number of executions whose throughput was less than 99% of the requested rate.
    pub fn behind(&self) -> usize {
        let executions = self.done.iter().flat_map(|done| &done.executions);
        let is_behind = |execution: &&Execution| {
            let target = execution.target_ops_per_s;
            target.is_some_and(|target| execution.throughput_ops_per_s < 0.99 * target)
        };
        executions.filter(is_behind).count()
    }
}

impl Spread {
    /// Computes the spread; `None` without values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        let mean = (count > 0.0).then(|| values.iter().sum::<f64>() / count)?;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Self {
            mean,
            deviation: (squares / (count - 1.0).max(1.0)).sqrt(),
        })
    }
}

#[cfg(test)]
pub mod tests {
    use crate::ycsb::Latencies;

    use super::*;

    /// Returns an execution whose reads have a mean of `mean_us` and a median of half of that.
    pub fn execution(mean_us: f64, reads_by_sstables: &[u64]) -> Execution {
        Execution {
            operations: 100,
            throughput_ops_per_s: 1e6 / mean_us,
            ops_per_cpu_s: 1e6 / mean_us,
            target_ops_per_s: Some(5e4),
            reads: Latencies {
                count: 50,
                mean_us,
                p50_us: mean_us / 2.0,
                ..Latencies::default()
            },
            writes: Latencies::default(),
            reads_by_sstables: reads_by_sstables.to_vec(),
            blocks_read_per_read: 0.5,
            sstables: 7,
            runs: 3,
            runs_of_snapshot: None,
        }
    }

    /// Returns results with one execution in each round.
    pub fn results(rows: &[(Run, &[f64])]) -> Results {
        let mut results = Results::default();
        for (run, rounds) in rows {
            for (round, mean_us) in (0..).zip(*rounds) {
                results.add(RunResult {
                    run: *run,
                    round,
                    executions: vec![execution(*mean_us, &[1, 3, 0, 0])],
                });
            }
        }
        results
    }

    #[test]
    fn spreads_are_those_of_the_rounds() {
        assert_eq!(Spread::of(&[]), None);
        let one = Spread::of(&[3.0]).unwrap();
        assert_eq!((one.mean, one.deviation), (3.0, 0.0));
        let three = Spread::of(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!((three.mean, three.deviation), (2.0, 1.0));
    }

    #[test]
    fn a_ratio_is_the_median_of_the_ratios_of_rounds() {
        let original = Run::saturating(Mix::D, Reads::Original);
        let snapshot = Run::saturating(Mix::D, Reads::Snapshot);
        let results = results(&[
            (original, &[10.0, 100.0, 20.0]),
            (snapshot, &[11.0, 130.0, 24.0]),
        ]);
        let ratio = results.ratio(snapshot, original, 0).unwrap();
        assert!((ratio.mean - 1.2).abs() < 1e-9 && (ratio.p50 - 1.2).abs() < 1e-9);
        assert!(ratio.blocks == Some(1.0) && (ratio.cpu - 1.2).abs() < 1e-9);
        // 100k, 10k and 50k operations per second, then 91k, 8k and 42k; the target is 50k.
        assert_eq!(results.behind(), 3);
        let absent = Run::saturating(Mix::A, Reads::Snapshot);
        assert_eq!(results.ratio(absent, original, 0), None);
        assert_eq!(results.ratio(snapshot, original, 1), None);
        assert_eq!(results.full_speed_ops_per_s(Mix::D), Some(5e4));
        assert_eq!(results.full_speed_ops_per_s(Mix::A), None);
    }

    #[test]
    fn shares_of_reads_add_up_and_end_with_the_last_number_that_occurred() {
        let run = Run::saturating(Mix::A, Reads::Original);
        let results = results(&[(run, &[1.0, 2.0])]);
        assert_eq!(results.shares_by_sstables(run, 0), [0.25, 0.75]);
        assert!(results.shares_by_sstables(run, 1).is_empty());
    }
}
