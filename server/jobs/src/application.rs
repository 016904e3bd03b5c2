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
//! `lib.rs`, and a line in `request/applications.rs`. Nothing else has to change for the command line,
//! requests and listings. The doc comments of the struct and of its fields are the help of the command
//! line and the descriptions in the HTTP API.

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
use super::outputs::SpillPlace;
use super::records::RecordFormat;
#[cfg(feature = "publish")]
use super::request::PublishTarget;

/// An application, implemented by the struct of its options.
pub(crate) trait Application {
    /// The name of the application in requests and on the command line: `ebb run NAME`, or `ebb NAME` if
    /// [`HAS_OWN_COMMAND`](Self::HAS_OWN_COMMAND).
    const NAME: &'static str;

    const INPUTS: usize = 1;

    /// True if the application takes any number of further inputs, beyond [`INPUTS`](Self::INPUTS).
    const TAKES_MORE_INPUTS: bool = false;

    /// True if the application has a command of its own (`ebb NAME`), so that `ebb run NAME` rejects it.
    const HAS_OWN_COMMAND: bool = false;

    /// True if the application reads the value of a row as a whole, whatever its options are. If the
    /// input is a CQL table, the user may then choose the columns that make up the value.
    const TAKES_WHOLE_VALUES: bool = false;

    /// Returns the columns of the input that the application reads; `None` if it reads all of
    /// them, or rows as a whole.
    fn columns(&self) -> Option<Vec<&str>> {
        None
    }

    /// Returns the number of reduce tasks; `None` if the application has no option for it.
    /// [`JobRequest::check`](crate::request::JobRequest::check) checks its bounds.
    fn reduces(&self) -> Option<u32> {
        None
    }

    /// Returns the path of the file that the application reads in addition to its inputs, if it reads
    /// one.
    fn file(&self) -> Option<&Path> {
        None
    }

    /// Checks the options except the number of reduce tasks, as far as that is possible before
    /// anything is opened.
    ///
    /// # Errors
    /// When an option makes no sense; the error names the option and its bounds.
    fn check(&self) -> Result<(), RequestError> {
        Ok(())
    }

    /// Makes the job, or the chain of jobs, that has these options.
    ///
    /// # Errors
    /// When an option makes no sense or names a column that the input does not have, or when the destination
    /// refuses the rows that the job would write.
    fn make(&self, materials: &Materials<'_>) -> Result<Work, JobError>;
}

/// The destination of a job's rows, before the application has decided which columns they have.
pub(crate) trait Destination {
    /// Returns the output for rows of the schema `rows`, no two of which have the same key.
    fn output(&self, rows: Arc<RecordFormat>) -> Result<Arc<dyn Output>, JobError>;

    /// Returns the output for rows of the schema `rows` if several rows may have the same key. A plain
    /// table as the destination is an error, because only one of the rows with the same key would
    /// remain. A CQL table refuses such rows in the commit.
    fn output_of_any_keys(&self, rows: Arc<RecordFormat>) -> Result<Arc<dyn Output>, JobError>;
}

/// The parts of a job that do not come from the options of its application: the opened inputs, the
/// destination of the rows, and resources.
pub(crate) struct Materials<'a> {
    /// The inputs, as many as the application takes, with the formats of their rows.
    pub(crate) inputs: Vec<(Arc<dyn Input>, RecordFormat)>,
    /// The path by which this process opens the file of [`Application::file`], if there is one.
    pub(crate) file: Option<PathBuf>,
    pub(crate) destination: &'a dyn Destination,
    /// True if the rows are written as JSON.
    pub(crate) writes_json: bool,
    /// The largest number of map tasks for each input.
    pub(crate) splits: u32,
    /// The place for rows between the jobs of a chain.
    pub(crate) spills: &'a SpillPlace,
    /// The source and the target of a publication. `None` for other jobs, and in a child process that
    /// runs only tasks.
    #[cfg(feature = "publish")]
    pub(crate) publication: Option<PublicationSite<'a>>,
}

/// The tables and the target of a publication.
#[cfg(feature = "publish")]
pub(crate) struct PublicationSite<'a> {
    pub(crate) db: Db,
    /// The names of the tables to publish, and the tables as of one snapshot.
    pub(crate) tables: Vec<(&'a TableName, &'a SnapshotTable)>,
    pub(crate) snapshot: &'a str,
    /// The target of the publication; if it is a folder, its path is as this process sees it.
    pub(crate) target: PublishTarget,
    /// The folder of the target, and the disk space that the files of the publication may take
    /// there; `None` if the target is a bucket.
    pub(crate) place: Option<SpillPlace>,
    pub(crate) task_memory_bytes: usize,
    /// The handle of the job's record in the history. The publication uses it to record that its commit is
    /// about to begin, and to add lines to the job's report.
    pub(crate) commits: CommitRecord,
}

impl Materials<'_> {
    /// Returns the input with this number, counted from 0, and the format of its rows; an error if there is
    /// no such input.
    pub(crate) fn input(&self, number: usize) -> Result<(Arc<dyn Input>, &RecordFormat), JobError> {
        let found = self.inputs.get(number);
        let found = found.map(|(input, format)| (Arc::clone(input), format));
        found.ok_or_else(|| JobError::senseless(format!("there is no input {number}")))
    }
}
