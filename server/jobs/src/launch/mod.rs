//! From a request to a job that can be submitted: its inputs and its output are opened,
//! and its application makes of them what the runtime runs.
//!
//! ```text
//!   JobRequest ─> input, output ─> its application ─> Work: one job, or a chain
//!                     │                                │ isolate: in processes
//!                     └────── JobDescription ──────────┴──> serve, in such a process
//! ```
//!
//! What always holds: a process of `--isolate process` makes the job by the same code
//! from the same request; only its inputs come from the description.

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

use ebb_scheduler::runtime::TaskError;
use ebb_storage::PinnedTable;

pub use self::description::{InputDescription, JobDescription};
pub use self::input::OpenInput;
use self::output::OpenOutput;
pub use self::output::output_is_there;
pub use self::serve::serve_tasks_if_asked;
pub use self::site::Site;
pub use self::snapshot::{delete_left_snapshots, delete_own_snapshots};
use super::application::Materials;
use super::chain::Work;
use super::error::JobError;
use super::history::{CommitRecord, OwnSnapshot};
use super::request::{Isolation, JobRequest};

/// Checks that the files which `request` reads are there, and that its output can be made: before
/// a database, a file or a snapshot is opened or made for it. Who is about to run the job calls
/// this; [`OpenJob::open`] does not look at the output, which a what-if leaves alone.
///
/// # Errors
/// When a file is not there, or the output cannot be made where it is to be.
pub fn check_files(request: &JobRequest) -> Result<(), JobError> {
    let paths = request.paths();
    paths
        .check_read(ebb_text::check_exists)
        .map_err(TaskError::failed)?;
    output::check(request, &paths)
}

/// A job whose inputs and output are open, so that it can be submitted. They stay open until this is
/// dropped. The snapshots that were made for the job are deleted then, unless they are
/// [kept](Self::keep).
pub struct OpenJob {
    /// The work, until the node takes it to submit it.
    pub work: Option<Work>,
    /// The inputs.
    pub inputs: Vec<OpenInput>,
    /// Where it is noted that the output is about to be put in place.
    pub commits: CommitRecord,
    /// Cores that the job may use.
    pub cores: u32,
    /// What processes of its own read.
    _pins: Vec<PinnedTable>,
}

impl OpenJob {
    /// Opens the inputs and the output of `request` at `site`. A table is read at the
    /// snapshot that is named, at the one in `own` that an earlier start of the same job made
    /// for itself, or at a new one.
    ///
    /// # Errors
    /// When the request makes no sense, or what it names is not there or refuses.
    pub fn open(request: &JobRequest, own: &[OwnSnapshot], site: &Site) -> Result<Self, JobError> {
        request.check()?;
        let cores = request
            .cores
            .map_or(site.cores, |most| most.min(site.cores));
        let splits = request.splits.unwrap_or(4 * cores);
        let paths = request.paths();
        // Of all inputs, before a snapshot is made of the first one.
        let readable = paths.check_read(ebb_text::check_readable);
        readable.map_err(TaskError::failed)?;
        let inputs = input::open(request, &paths, own, site, splits)?;
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
            spill_dir: &site.spill_dir,
            #[cfg(feature = "publish")]
            publication: publication::of(request, &paths, &inputs, site, &commits)?,
        })?;
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

    /// The snapshots that were made for the job.
    pub fn own_snapshots(&self) -> Vec<OwnSnapshot> {
        let inputs = (0..).zip(&self.inputs);
        let own = inputs.filter_map(|(input, opened)| opened.snapshot.as_ref()?.own(input));
        own.collect()
    }

    /// Leaves these snapshots where they are, for the job's next start.
    pub fn keep(&mut self) {
        for opened in &mut self.inputs {
            if let Some(snapshot) = &mut opened.snapshot {
                snapshot.keep();
            }
        }
    }

    /// What is read, in words.
    pub fn input_label(&self) -> String {
        let labels = self.inputs.iter().map(|opened| &opened.label[..]);
        labels.collect::<Vec<_>>().join(" and ")
    }
}
