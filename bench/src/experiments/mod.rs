//! Experiments, each of which answers one question with a few figures.
//!
//! ```text
//!   snapshot_bill       what does an unused snapshot cost?
//!   idle_memory         what does an open database keep in memory?
//!   locality            which policy serves how much where tasks run faster near data?
//!   colocation          does the load notice that jobs run beside it?
//!   serving             what does a request through CQL cost, and what disturbs it?
//!   thesis_5_2_4        what does reading a snapshot, or beside one, cost?
//!   weighted_completion how far from the optimum is a plan for jobs known in advance?
//!   predictions         how far off are the predicted ends of jobs?
//!   what_if             does another job delay the jobs that a prediction names?
//!   part, table, statistics   shared: files of results, tables, means and medians
//! ```

mod colocation;
mod idle_memory;
mod locality;
mod part;
mod predictions;
mod process;
mod serving;
mod snapshot_bill;
mod statistics;
mod table;
mod thesis_5_2_4;
mod weighted_completion;
mod what_if;

use anyhow::Result;
use clap::Subcommand;

/// An experiment, with its options.
#[derive(Debug, Subcommand)]
pub enum Experiment {
    /// Measures disk and memory while entries are overwritten beside one idle snapshot, and after
    /// the snapshot is deleted
    SnapshotBill(snapshot_bill::BillArgs),
    /// Opens a database and does nothing: the memory of indexes and filters
    IdleMemory(idle_memory::IdleMemoryArgs),
    /// A process of the experiment idle-memory (hidden)
    #[command(hide = true)]
    IdleMemoryCase(idle_memory::IdleMemoryCaseArgs),
    /// A process of the experiment snapshot-bill (hidden)
    #[command(hide = true)]
    SnapshotBillCase(snapshot_bill::CaseArgs),
    /// Repeats the papers on data locality in the queueing model: stability limits,
    /// delays, heavy traffic
    Locality(locality::LocalityArgs),
    /// Runs jobs beside the load, in windows that alternate with windows of the load alone: the
    /// tail latency, and the fraction of the idle CPU that jobs use
    Colocation(colocation::ColocationArgs),
    /// Serves CQL from a process of its own: throughput compared with Redis, CPU compared with the
    /// store in process, tail latency beside jobs, idle connections, start of the server
    Serving(serving::ServingArgs),
    /// A process of the experiment serving: the server with jobs (hidden)
    #[command(hide = true)]
    ServingHost(serving::HostArgs),
    /// A process of the experiment serving, with threads of the idle class (hidden)
    #[command(hide = true)]
    ServingIdlers(serving::IdlersArgs),
    /// Repeats section 5.2.4 of the thesis: reads of a snapshot, and reads beside one, compared
    /// with reads without snapshots, by load, workload and number of snapshots
    #[command(name = "thesis-5.2.4")]
    Thesis524(thesis_5_2_4::ThesisArgs),
    /// Repeats the figures of Ling et al. on weighted completion times, and compares the heuristic
    /// lp-search with the lower bound of a linear programme
    WeightedCompletion(weighted_completion::WeightedCompletionArgs),
    /// Runs days of the demo, and compares the ends of jobs with the predictions made when half of
    /// their time had passed
    Predictions(predictions::PredictionsArgs),
    /// Predicts the effect of another job, runs the job, and compares; also measures the time of a
    /// prediction with many jobs
    WhatIf(what_if::WhatIfArgs),
    /// A process of the experiment thesis-5.2.4 (hidden)
    #[command(name = "thesis-5.2.4-case", hide = true)]
    Thesis524Case(thesis_5_2_4::CaseArgs),
}

/// Runs an experiment: prints its tables, and writes the files that its options name.
pub fn run(experiment: &Experiment) -> Result<()> {
    match experiment {
        Experiment::SnapshotBill(args) => snapshot_bill::run(args),
        Experiment::IdleMemory(args) => idle_memory::run(args),
        Experiment::IdleMemoryCase(args) => idle_memory::run_case(args),
        Experiment::SnapshotBillCase(args) => snapshot_bill::run_case(args),
        Experiment::Locality(args) => locality::run(args),
        Experiment::Colocation(args) => colocation::run(args),
        Experiment::Serving(args) => serving::run(args),
        Experiment::ServingHost(args) => serving::run_host(args),
        Experiment::ServingIdlers(args) => serving::run_idlers(args),
        Experiment::WeightedCompletion(args) => weighted_completion::run(args),
        Experiment::Predictions(args) => predictions::run(args),
        Experiment::WhatIf(args) => what_if::run(args),
        Experiment::Thesis524(args) => thesis_5_2_4::run(args),
        Experiment::Thesis524Case(args) => thesis_5_2_4::run_case(args),
    }
}
