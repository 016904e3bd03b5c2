//! The list of executions.
//!
//! An execution runs a workload to its end, on data that is the same at the start of each. Tables
//! and figures overlap (row A of Table 5.5 is the last row of Table 5.4), so each execution is
//! planned once, and results are looked up by the parameters of their [`Run`].

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::mix::Mix;
use super::published::{TABLE_5_3, TABLE_5_4, TargetRow};
use super::reads::Reads;

/// Frequencies of new SSTables in workload A, relative to the default (Figure 5.10).
pub const SSTABLE_FREQUENCIES: [u32; 4] = [1, 2, 4, 8];

/// The parameters of one process of the experiment, which runs the workload once, or several times
/// one after the other on the same data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub workload: Mix,
    pub reads: Reads,
    pub load: Load,
    /// Frequency of new SSTables, as a multiple of the default: the memtable's size is divided by
    /// this.
    pub sstable_frequency: u32,
    pub memory: Memory,
    pub iterations: u32,
}

/// A part of section 5.2.4 of the thesis: one of its experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Experiment 1: tables 5.3 and 5.4, figures 5.7 to 5.10
    Throughput,
    /// Experiment 2: Table 5.5, Figure 5.11
    Workloads,
    /// Experiment 3: figures 5.12 and 5.13
    Snapshots,
}

/// The rate of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// Full speed: each thread starts an operation when its last one has ended.
    Saturating,
    /// A target rate of the thesis, in operations per second. The run's rate is the same fraction
    /// of the greatest rate on this machine as the target was of that in the thesis.
    Target(u32),
}

/// The fraction of the data that memory holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// The block cache holds a part of the data. Other reads go to the disk, because the page cache
    /// is kept empty.
    Part,
    /// The block cache holds all of the data.
    All,
}

impl Part {
    /// All parts, in the order of the thesis.
    pub const ALL: [Self; 3] = [Self::Throughput, Self::Workloads, Self::Snapshots];
}

impl Run {
    /// Returns an execution at full speed, in memory that holds all of the data.
    pub fn in_memory(workload: Mix, reads: Reads) -> Self {
        Self {
            memory: Memory::All,
            ..Self::saturating(workload, reads)
        }
    }

    /// Returns an execution of workload A with this frequency of new SSTables.
    pub fn at_frequency(sstable_frequency: u32, reads: Reads) -> Self {
        Self {
            sstable_frequency,
            ..Self::saturating(Mix::A, reads)
        }
    }

    /// Returns an execution at full speed, in memory that holds a part of the data.
    pub fn saturating(workload: Mix, reads: Reads) -> Self {
        Self {
            workload,
            reads,
            load: Load::Saturating,
            sstable_frequency: 1,
            memory: Memory::Part,
            iterations: 1,
        }
    }

    /// Returns an execution at one of the thesis's target rates, `target` operations per second.
    fn at_target(workload: Mix, reads: Reads, target: u32) -> Self {
        Self {
            load: Load::Target(target),
            ..Self::saturating(workload, reads)
        }
    }

    /// Returns the execution for a row of `table`. The last row has a target of full speed or more,
    /// so its execution runs at full speed.
    pub fn in_row(workload: Mix, reads: Reads, table: &[TargetRow], row: usize) -> Self {
        if row + 1 == table.len() {
            Self::saturating(workload, reads)
        } else {
            Self::at_target(workload, reads, table[row].target_ops_per_s)
        }
    }

    /// Returns a series of executions of workload A on the same data.
    pub fn series(reads: Reads, iterations: u32) -> Self {
        Self {
            iterations,
            ..Self::saturating(Mix::A, reads)
        }
    }

    /// Returns a label for progress and errors.
    pub fn label(&self) -> String {
        let mut label = format!("{} {}", self.workload.letter(), self.reads.label());
        if let Load::Target(target) = self.load {
            label += &format!(" at {target}");
        }
        if self.sstable_frequency > 1 {
            label += &format!(" {}x SSTables", self.sstable_frequency);
        }
        if self.memory == Memory::All {
            label += " in memory";
        }
        if self.iterations > 1 {
            label += &format!(" {} times", self.iterations);
        }
        label
    }
}

/// The executions of some parts of the section, each once. They run in the order of the fields:
/// full speed comes first, because targets are fractions of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub saturating: Vec<Run>,
    pub targets: Vec<Run>,
    pub series: Vec<Run>,
}

impl Plan {
    /// Plans the executions that `parts` need, with `iterations` in a series.
    pub fn new(parts: &[Part], iterations: u32) -> Self {
        let has = |part| parts.contains(&part);
        let mut saturating = Vec::new();
        if has(Part::Throughput) {
            for workload in [Mix::D, Mix::A] {
                saturating.extend(Reads::COLUMNS.map(|reads| Run::saturating(workload, reads)));
            }
            for frequency in &SSTABLE_FREQUENCIES[1..] {
                saturating.extend(Reads::TWO.map(|reads| Run::at_frequency(*frequency, reads)));
            }
        }
        if has(Part::Workloads) {
            let everywhere = [Run::saturating, Run::in_memory].map(|make| {
                let both = |workload| Reads::TWO.map(|reads| make(workload, reads));
                Mix::ALL.map(both)
            });
            // Some rows of Table 5.5 are also rows of tables 5.3 and 5.4.
            for run in everywhere.into_iter().flatten().flatten() {
                if !saturating.contains(&run) {
                    saturating.push(run);
                }
            }
        }
        let targets = has(Part::Throughput).then(targets).unwrap_or_default();
        let series = has(Part::Snapshots).then(|| {
            let series = |reads| Run::series(reads, iterations);
            Reads::OVER_ITERATIONS.map(series).into()
        });
        Self {
            saturating,
            targets,
            series: series.unwrap_or_default(),
        }
    }
}

fn targets() -> Vec<Run> {
    let mut runs = Vec::new();
    for (workload, table) in [(Mix::D, &TABLE_5_3[..]), (Mix::A, &TABLE_5_4[..])] {
        for row in 0..table.len() - 1 {
            runs.extend(Reads::COLUMNS.map(|reads| Run::in_row(workload, reads, table, row)));
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_execution_is_planned_once() {
        let plan = Plan::new(&Part::ALL, 10);
        let all = [&plan.saturating[..], &plan.targets, &plan.series].concat();
        for (position, run) in all.iter().enumerate() {
            assert!(!all[..position].contains(run), "{}", run.label());
        }
        assert_eq!(plan.saturating.len(), 4 + 4 + 6 + 6 + 10);
        assert_eq!(plan.targets.len(), 4 * 4 + 5 * 4);
        assert_eq!(plan.series.len(), 3);
        // The last rows are planned as executions at full speed.
        let last = Run::in_row(Mix::D, Reads::Snapshot, &TABLE_5_3, TABLE_5_3.len() - 1);
        assert!(plan.saturating.contains(&last));
    }

    #[test]
    fn a_part_needs_its_own_executions_only() {
        let workloads = Plan::new(&[Part::Workloads], 10);
        assert_eq!(workloads.saturating.len(), 5 * 2 * 2);
        assert!(workloads.targets.is_empty() && workloads.series.is_empty());
        let snapshots = Plan::new(&[Part::Snapshots], 4);
        assert!(snapshots.saturating.is_empty() && snapshots.targets.is_empty());
        assert!(snapshots.series.iter().all(|run| run.iterations == 4));
    }

    #[test]
    fn a_label_names_the_parameters_that_differ_from_the_default() {
        let run = Run {
            sstable_frequency: 8,
            memory: Memory::All,
            ..Run::at_target(Mix::A, Reads::BesideSnapshot, 4000)
        };
        assert_eq!(run.label(), "A S/RwS at 4000 8x SSTables in memory");
        assert_eq!(
            Run::series(Reads::NewestSnapshot, 10).label(),
            "A S/N 10 times"
        );
    }
}
