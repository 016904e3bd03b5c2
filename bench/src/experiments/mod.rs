//! Experiments: each answers one question with a few figures.
//!
//! ```text
//!   snapshot_bill       what does a snapshot cost that nobody reads?
//!   snapshot_creation   what does creating one take beside busy writers?
//!   idle_memory         what does an open database keep in memory?
//!   locality            which policy serves how much where tasks run faster near data?
//!   colocation          does the load notice that jobs run beside it?
//!   serving             what does a request through CQL cost, and who notices whom?
//!   thesis_5_2_4        what does reading a snapshot, or beside one, cost?
//!   weighted_completion how far from the best is a plan for jobs known in advance?
//!   part, table         what several of them print and write
//! ```

mod colocation;
mod idle_memory;
mod locality;
mod part;
mod process;
mod serving;
mod snapshot_bill;
mod snapshot_creation;
mod table;
mod thesis_5_2_4;
mod weighted_completion;

use anyhow::Result;
use clap::Subcommand;

/// Which experiment.
#[derive(Debug, Subcommand)]
pub enum Experiment {
    /// Holds one idle snapshot under many overwrites: its disk and memory, and
    /// what is left of them once it is deleted
    SnapshotBill(snapshot_bill::BillArgs),
    /// Creates snapshots beside busy writers, in turns with plain commits, and
    /// compares how long both take
    SnapshotCreation(snapshot_creation::CreationArgs),
    /// Opens a database and does nothing: the memory of indexes and filters
    IdleMemory(idle_memory::IdleMemoryArgs),
    /// One process of idle-memory
    #[command(hide = true)]
    IdleMemoryCase(idle_memory::IdleMemoryCaseArgs),
    /// One process of snapshot-bill
    #[command(hide = true)]
    SnapshotBillCase(snapshot_bill::CaseArgs),
    /// Repeats the papers on data locality in the queueing model: stability limits,
    /// delays, heavy traffic
    Locality(locality::LocalityArgs),
    /// Runs jobs beside the load in windows that take turns with the load alone:
    /// its tail latency, and how much of the idle CPU the jobs use
    Colocation(colocation::ColocationArgs),
    /// Serves CQL from a process of its own: throughput against Redis, CPU against the
    /// store in process, the tail beside jobs, idle connections, the start
    Serving(serving::ServingArgs),
    /// The server of serving's jobs
    #[command(hide = true)]
    ServingHost(serving::HostArgs),
    /// Repeats section 5.2.4 of the thesis: reads of a snapshot and beside one
    /// against reads without, by load, workload and number of snapshots
    #[command(name = "thesis-5.2.4")]
    Thesis524(thesis_5_2_4::ThesisArgs),
    /// Repeats the figures of Ling et al. on weighted completion times, and compares
    /// lp-search with the converged bound
    WeightedCompletion(weighted_completion::WeightedCompletionArgs),
    /// One process of thesis-5.2.4
    #[command(name = "thesis-5.2.4-case", hide = true)]
    Thesis524Case(thesis_5_2_4::CaseArgs),
}

/// Runs it, prints its table, writes its JSON.
///
/// # Errors
/// What the store or the disk says; an experiment that was interrupted.
pub fn run(experiment: &Experiment) -> Result<()> {
    match experiment {
        Experiment::SnapshotBill(args) => snapshot_bill::run(args),
        Experiment::SnapshotCreation(args) => snapshot_creation::run(args),
        Experiment::IdleMemory(args) => idle_memory::run(args),
        Experiment::IdleMemoryCase(args) => idle_memory::run_case(args),
        Experiment::SnapshotBillCase(args) => snapshot_bill::run_case(args),
        Experiment::Locality(args) => locality::run(args),
        Experiment::Colocation(args) => colocation::run(args),
        Experiment::Serving(args) => serving::run(args),
        Experiment::ServingHost(args) => serving::run_host(args),
        Experiment::WeightedCompletion(args) => weighted_completion::run(args),
        Experiment::Thesis524(args) => thesis_5_2_4::run(args),
        Experiment::Thesis524Case(args) => thesis_5_2_4::run_case(args),
    }
}
