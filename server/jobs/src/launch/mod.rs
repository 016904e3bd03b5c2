//! Turns a request into a job that can be submitted: opens its inputs and its output, and
//! lets its application make the job for the runtime.
//!
//! ```text
//!   JobRequest ─> input, output ─> its application ─> Work: one job, or a chain
//!                     │                                │ isolate: in processes
//!                     └────── JobDescription ──────────┴──> serve, in such a process
//! ```
//!
//! An invariant: a process of `--isolate process` makes the job with the same code from the
//! same request; only its inputs come from the description.

mod cql;
mod description;
mod input;
mod isolate;
mod output;
#[cfg(feature = "publish")]
mod publication;
mod serve;
mod site;
mod snapshot;

use std::collections::BTreeSet;
use std::path::Path;

use ebb_scheduler::runtime::{SubmitError, TaskError};
use ebb_storage::{PinnedTable, SnapshotTable};
use ebb_tables::names::TableName;

pub use self::description::{InputDescription, JobDescription};
pub use self::input::OpenInput;
use self::output::OpenOutput;
pub use self::output::{found_output, last_output_table};
pub use self::serve::serve_tasks_if_worker;
pub use self::site::Site;
use self::snapshot::JobSnapshot;
pub use self::snapshot::{delete_left_snapshots, delete_own_snapshots};
use super::application::Materials;
use super::chain::Work;
use super::error::JobError;
use super::history::{CommitRecord, JobTables, OwnSnapshot};
use super::request::{Isolation, JobRequest, OutputPlace};

/// Checks that the files of `request` exist and that its output can be made. The output must lie outside of
/// `data`, the directory of the database. Rows that a client prints on its terminal are an exception: they
/// must lie in the database's folder of temporary files. Callers that are about to run the job call this
/// before they open or make a database, a file or a snapshot for it. [`OpenJob::open`] does not check the
/// output, because it also opens jobs that are only to be estimated, and these write no output.
///
/// # Errors
/// When a file does not exist, or the output cannot be made at its path. When a path is not UTF-8: the JSON of the
/// request, which a server receives and the history stores, cannot contain it.
pub fn check_files(request: &JobRequest, data: Option<&Path>) -> Result<(), JobError> {
    let paths = request.paths();
    let named = paths.inputs.iter().flatten().chain(&paths.file);
    let mut named = named.chain(&paths.output).chain([&request.directory]);
    if let Some(path) = named.find(|path| path.to_str().is_none()) {
        let shown = path.display();
        return Err(JobError::senseless(format_args!(
            "the path {shown} is not UTF-8: rename it, or name it by a link"
        )));
    }
    paths
        .check_read(ebb_text::check_exists)
        .map_err(TaskError::failed)?;
    output::check(request, &paths, data)
}

/// A table that a job has opened. A permission on its name may be one on another table, because a
/// later table may have the name by now.
#[derive(Debug, Clone, Copy)]
pub enum OpenedTable<'t> {
    /// A table that the job reads, in the opened snapshot. The snapshot may have a dropped table.
    Input(&'t SnapshotTable),
    /// The table that the job writes: its number, or `None` if the commit is to create the table.
    Output(Option<u32>),
}

/// A check that a client may use a table that its job has opened; returns the error for a client
/// that may not. The first argument is the name of the table.
pub type TableCheck<'c> = dyn Fn(&TableName, OpenedTable<'_>) -> Result<(), JobError> + 'c;

/// The [`TableCheck`] for a client that may read and write all tables.
///
/// # Errors
/// Never.
pub fn permit_all(_: &TableName, _: OpenedTable<'_>) -> Result<(), JobError> {
    Ok(())
}

/// A job whose inputs and output are open, so that it can be submitted. Dropping the job closes its
/// inputs and output, and deletes the snapshots that were made for it, except those of an earlier start.
/// After [`keep`](Self::keep) all of them stay, and after
/// [`delete_snapshots_at_end`](Self::delete_snapshots_at_end) none.
pub struct OpenJob {
    /// The work; `None` once the node has taken it to submit it.
    pub work: Option<Work>,
    pub inputs: Vec<OpenInput>,
    /// The handle with which the output updates the job's record before each commit.
    pub commits: CommitRecord,
    /// The number of cores that the job may use.
    pub cores: u32,
    /// Pins of the tables that child processes read. They keep the files of the tables in place.
    _pins: Vec<PinnedTable>,
}

impl OpenJob {
    /// Opens the inputs and the output of `request` on the node `site`. A table is read at the
    /// snapshot that the request names, else at the snapshot in `own`, which an earlier start of
    /// the same job made, else at a new one. `check` is called for each table before the table is
    /// read, and for the output table.
    ///
    /// # Errors
    /// When the request makes no sense, or when a table, snapshot or file is missing or
    /// cannot be used; the error of `check`.
    pub fn open(
        request: &JobRequest,
        own: &[OwnSnapshot],
        site: &Site,
        check: &TableCheck<'_>,
    ) -> Result<Self, JobError> {
        request.check()?;
        let cores = request
            .cores
            .map_or(site.cores, |most| most.min(site.cores));
        let splits = request.splits.unwrap_or(4 * cores);
        let paths = request.paths();
        // Files of all inputs are checked before a snapshot is made for the first one.
        let readable = paths.check_read(ebb_text::check_readable);
        readable.map_err(TaskError::failed)?;
        let inputs = input::open(request, &paths, own, site, splits, check)?;
        let commits = CommitRecord::default();
        let output = OpenOutput::Rows {
            request,
            paths: &paths,
            site,
            commits: commits.clone(),
        };
        let mut work = request.application.make(&Materials {
            inputs: inputs.iter().map(OpenInput::readable).collect(),
            file: paths.file.clone(),
            destination: &output,
            writes_json: request.output.is_json(),
            splits,
            spills: &site.spills,
            #[cfg(feature = "publish")]
            publication: publication::of(request, &paths, &inputs, site, &commits)?,
        })?;
        if let OutputPlace::Table(name) = &request.output.to {
            check(name, OpenedTable::Output(commits.table()))?;
        }
        let mut pins = Vec::new();
        if request.isolation == Isolation::Process {
            let description = isolate::describe(request, &inputs, splits, &mut pins)?;
            work = isolate::isolated(work, description, site.task_memory_bytes)?;
        }
        Ok(Self {
            work: Some(work),
            inputs,
            commits,
            cores,
            _pins: pins,
        })
    }

    /// Returns the snapshots that were made for the job.
    pub fn own_snapshots(&self) -> Vec<OwnSnapshot> {
        let inputs = (0..).zip(&self.inputs);
        let own = inputs.filter_map(|(input, opened)| opened.snapshot.as_ref()?.own(input));
        own.collect()
    }

    /// Returns the numbers of the tables that the job reads and writes. An output table that was
    /// missing has a number once the commit has created it.
    pub fn tables(&self) -> JobTables {
        let read = self.inputs.iter().filter_map(OpenInput::table);
        JobTables {
            inputs: read.map(SnapshotTable::number).collect(),
            output: self.commits.table(),
        }
    }

    /// Returns the bytes of all rows of the tables that the job reads: a publication writes whole tables, also of
    /// a job that reads a range of keys. A table that several inputs read at one snapshot counts once.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub fn tables_bytes(&self) -> Result<u64, JobError> {
        let mut counted = BTreeSet::new();
        let mut bytes = 0;
        for input in &self.inputs {
            let Some(table) = input.table() else { continue };
            if counted.insert((table.number(), table.seq())) {
                bytes += input.table_bytes().map_err(SubmitError::Input)?;
            }
        }
        Ok(bytes)
    }

    /// Makes the snapshots that were made for the job outlive it, for its next start.
    pub fn keep(&mut self) {
        self.snapshots().for_each(JobSnapshot::keep);
    }

    /// Makes all snapshots that were made for the job end with it, also those of an earlier start.
    /// The caller calls this once the job has started.
    pub fn delete_snapshots_at_end(&mut self) {
        self.snapshots().for_each(JobSnapshot::delete_at_end);
    }

    fn snapshots(&mut self) -> impl Iterator<Item = &mut JobSnapshot> {
        let inputs = self.inputs.iter_mut();
        inputs.filter_map(|opened| opened.snapshot.as_mut())
    }

    /// Returns a description of the inputs for people.
    pub fn input_label(&self) -> String {
        let labels = self.inputs.iter().map(|opened| &opened.label[..]);
        labels.collect::<Vec<_>>().join(" and ")
    }
}
