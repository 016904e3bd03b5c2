//! Experiments: each answers one question with a few figures.
//!
//! ```text
//!   snapshot_bill   what does a snapshot cost that nobody reads?
//!   idle_memory     what does an open database keep in memory?
//! ```

mod idle_memory;
mod snapshot_bill;

use anyhow::Result;
use clap::Subcommand;

/// Which experiment.
#[derive(Debug, Subcommand)]
pub enum Experiment {
    /// Holds one idle snapshot under many overwrites: its disk and memory, and
    /// what is left of them once it is deleted
    SnapshotBill(snapshot_bill::BillArgs),
    /// Opens a database and does nothing: the memory of indexes and filters
    IdleMemory(idle_memory::IdleMemoryArgs),
    /// One process of idle-memory
    #[command(hide = true)]
    IdleMemoryCase(idle_memory::IdleMemoryCaseArgs),
    /// One process of snapshot-bill
    #[command(hide = true)]
    SnapshotBillCase(snapshot_bill::CaseArgs),
}

/// Runs it, prints its table, writes its JSON.
///
/// # Errors
/// What the store or the disk says; an experiment that was interrupted.
pub fn run(experiment: &Experiment) -> Result<()> {
    match experiment {
        Experiment::SnapshotBill(args) => snapshot_bill::run(args),
        Experiment::IdleMemory(args) => idle_memory::run(args),
        Experiment::IdleMemoryCase(args) => idle_memory::run_case(args),
        Experiment::SnapshotBillCase(args) => snapshot_bill::run_case(args),
    }
}
