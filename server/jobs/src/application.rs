//! The interface of an application: the struct of its options, which makes the job.
//!
//! ```text
//!   command line ─> options <─> JSON of a request
//!                      │ check, before anything is opened
//!                      v
//!   Materials ──────> make ──> Work: a job, or a chain of jobs
//!   open inputs, a Destination
//! ```
//!
//! A new application is a file with a struct that implements [`Application`], its `mod` line in
//! `lib.rs`, and a line in `request/applications.rs`. The command line, requests and listings need
//! nothing else. The doc comments of the struct and of its fields are the help of the command line
//! and the descriptions in the HTTP API.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ebb_scheduler::runtime::{Input, Output};
#[cfg(feature = "publish")]
use ebb_storage::{Db, SnapshotTable};
#[cfg(feature = "publish")]
use ebb_tables::names::TableName;

use super::chain::Work;
use super::error::{JobError, RequestError};
#[cfg(feature = "publish")]
use super::history::CommitRecord;
use super::records::RecordFormat;
#[cfg(feature = "publish")]
use super::request::PublishTarget;

/// An application, implemented by the struct of its options.
pub(crate) trait Application {
    /// The name of the application, as in `ebb run NAME` and in requests.
    const NAME: &'static str;

    const INPUTS: usize = 1;

    /// True if the application takes any number of further inputs.
    const TAKES_MORE_INPUTS: bool = false;

    /// True if a command of its own runs the application, and `ebb run` does not.
    const HAS_OWN_COMMAND: bool = false;

    /// True if the application reads the value of a row as a whole, whatever its options are. Of a
    /// table that CQL made, the user may then choose the columns that a value consists of.
    const TAKES_WHOLE_VALUES: bool = false;

    /// Returns the columns of the input that the application reads; `None` if it reads all of
    /// them, or rows as a whole.
    fn columns(&self) -> Option<Vec<&str>> {
        None
    }

    /// Returns the number of reduce tasks, if the user chooses it.
    /// [`JobRequest::check`](crate::request::JobRequest::check) checks its bounds.
    fn reduces(&self) -> Option<u32> {
        None
    }

    /// Returns the file that the application reads beside its inputs.
    fn file(&self) -> Option<&Path> {
        None
    }

    /// Checks the options except the number of reduce tasks, as far as that is possible before
    /// anything is opened.
    ///
    /// # Errors
    /// When an option makes no sense; the error names it, and its bounds.
    fn check(&self) -> Result<(), RequestError> {
        Ok(())
    }

    /// Makes the job.
    ///
    /// # Errors
    /// When an option names a column that the input does not have, or makes no sense, or when the
    /// destination refuses such rows.
    fn make(&self, materials: &Materials<'_>) -> Result<Work, JobError>;
}

/// The destination of a job's rows, before the application has decided which columns they have.
pub(crate) trait Destination {
    /// Returns the output for rows of this schema, each of which has a key of its own.
    fn output(&self, rows: Arc<RecordFormat>) -> Result<Arc<dyn Output>, JobError>;

    /// Returns the output for rows of which several may have one key. A plain table is refused,
    /// because only one of these rows would be left there. A table of CQL refuses such rows when
    /// they come.
    fn output_of_any_keys(&self, rows: Arc<RecordFormat>) -> Result<Arc<dyn Output>, JobError>;
}

/// The parts of a job that do not come from the options of its application.
pub(crate) struct Materials<'a> {
    /// The inputs, as many as the application takes, with the formats of their rows.
    pub(crate) inputs: Vec<(Arc<dyn Input>, RecordFormat)>,
    /// The path by which this process opens [`Application::file`].
    pub(crate) file: Option<PathBuf>,
    /// The destination of the rows.
    pub(crate) destination: &'a dyn Destination,
    /// True if the rows are written as JSON.
    pub(crate) writes_json: bool,
    /// The largest number of map tasks.
    pub(crate) splits: u32,
    /// The folder for rows between the jobs of a chain.
    pub(crate) spill_dir: &'a Path,
    /// The source and the target of a publication; `None` for other jobs, and in a process of its own.
    #[cfg(feature = "publish")]
    pub(crate) publication: Option<PublicationSite<'a>>,
}

/// The tables and the target of a publication.
#[cfg(feature = "publish")]
pub(crate) struct PublicationSite<'a> {
    pub(crate) db: Db,
    /// The tables of one snapshot.
    pub(crate) tables: Vec<(&'a TableName, &'a SnapshotTable)>,
    pub(crate) snapshot: &'a str,
    /// The target; a folder by the path at which this process writes it.
    pub(crate) target: PublishTarget,
    pub(crate) task_memory_bytes: usize,
    /// The record that the publication writes to the history before it commits.
    pub(crate) commits: CommitRecord,
}

impl Materials<'_> {
    /// Returns the input of this number, counted from 0.
    pub(crate) fn input(&self, number: usize) -> Result<(Arc<dyn Input>, &RecordFormat), JobError> {
        let found = self.inputs.get(number);
        let found = found.map(|(input, format)| (Arc::clone(input), format));
        found.ok_or_else(|| JobError::senseless(format!("there is no input {number}")))
    }
}
