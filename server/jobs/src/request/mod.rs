//! A job request: plain data that a command line, a server or a test creates in the same
//! way. It is also the form in which a job is stored until it has ended.
//!
//! ```text
//!   command line ┐                         ┌─> launch: a job that runs
//!   HTTP, CQL    ├─> JobRequest ─> Node ───┤
//!   a restart    ┘                         └─> history: the same, as JSON
//! ```
//!
//! An invariant: a request of another version, or with an unknown field, is rejected with an error that names the
//! version or the field. No field is ignored.
//!
//! | file | content |
//! | --- | --- |
//! | `applications` | the list of the applications; each has its options in its own file |
//! | `input`, `output` | sources and destinations of rows |
//! | `check` | checks of a request before anything is opened |
//! | `publication` | checks of requests of publications |
//! | `target` | the folder or the bucket of a publication |
//! | `paths` | the paths of a request's files |

mod applications;
mod check;
mod input;
mod output;
mod paths;
mod publication;
mod target;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use ebb_tables::names::TableName;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::applications::*;
pub use self::check::GOAL_S_MAX;
pub use self::input::{
    CsvInput, GeneratedInput, InputRequest, JsonLinesInput, KeySelection, TableInput, TextInput,
    ValueKind,
};
pub use self::output::{FOREIGN_EXTENSIONS, OutputPlace, OutputRequest};
pub(crate) use self::paths::Paths;
#[cfg(feature = "publish")]
pub(crate) use self::publication::RECORDS;
pub use self::target::PublishTarget;
pub use super::error::RequestError;
pub use super::sort::OrderRequest;

/// The version of [`JobRequest`] that this build writes, and the only one that it reads.
/// An upgrade of an older one would go into [`JobRequest::from_json`].
pub const REQUEST_VERSION: u32 = 1;

/// A job: its computation, its inputs, its output and its goal. Each text in a request has at most 16 KiB.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct JobRequest {
    /// The version of the request, [`REQUEST_VERSION`].
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = u32))]
    pub version: RequestVersion,
    /// The application and its options.
    pub application: ApplicationRequest,
    /// The inputs: [`ApplicationRequest::inputs`] of them, or more if the application takes more.
    #[serde(default)]
    pub inputs: Vec<InputRequest>,
    /// The destination of the rows.
    pub output: OutputRequest,
    /// The directory from which relative paths in the request start; absolute.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub directory: PathBuf,
    /// Completion time goal in seconds after the submission, positive; `None` without a goal.
    #[serde(default)]
    pub goal_s: Option<f64>,
    /// The largest number of map tasks for each input, 1 to 10,000; `None` for four per core.
    #[serde(default)]
    pub splits: Option<u32>,
    /// The largest number of cores that the job may use, 1 to 1024; `None` for all cores of its node.
    #[serde(default)]
    pub cores: Option<u32>,
    /// Whether tasks run on threads or in processes.
    #[serde(default)]
    pub isolation: Isolation,
}

/// The place where tasks run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "args", derive(clap::ValueEnum))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// On threads of the node's process.
    #[cfg_attr(feature = "args", value(help = "Tasks are threads of one process"))]
    #[default]
    Thread,
    /// Tasks run in child processes. Each process runs one task at a time.
    Process,
}

/// The version of a request: the only one that this build accepts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "u32", try_from = "u32")]
pub struct RequestVersion;

impl From<RequestVersion> for u32 {
    fn from(_: RequestVersion) -> Self {
        REQUEST_VERSION
    }
}

impl TryFrom<u32> for RequestVersion {
    type Error = RequestError;

    fn try_from(found: u32) -> Result<Self, RequestError> {
        match found {
            REQUEST_VERSION => Ok(Self),
            found => Err(RequestError::Version {
                found,
                known: REQUEST_VERSION,
            }),
        }
    }
}

impl JobRequest {
    /// Returns whether the job reads files of the machine that it runs on: its inputs, or the file that the
    /// application reads in addition to them.
    #[must_use]
    pub fn reads_files(&self) -> bool {
        let is_of_files = |input: &InputRequest| match input {
            InputRequest::Text(_) | InputRequest::Csv(_) | InputRequest::JsonLines(_) => true,
            InputRequest::Table(_) | InputRequest::Generated(_) => false,
        };
        self.application.file().is_some() || self.inputs.iter().any(is_of_files)
    }

    /// Returns whether the job reads or writes files of the machine that it runs on, or
    /// writes into a bucket with the credentials of the process that runs it.
    #[must_use]
    pub fn names_files(&self) -> bool {
        let writes = match &self.output.to {
            OutputPlace::File(_)
            | OutputPlace::Folder(_)
            | OutputPlace::Iceberg(_)
            | OutputPlace::Spool(_) => true,
            OutputPlace::Table(_) | OutputPlace::Terminal => false,
        };
        writes || self.reads_files()
    }

    /// Returns the tables that the job reads.
    pub fn tables_read(&self) -> impl Iterator<Item = &TableName> {
        self.inputs.iter().filter_map(|input| match input {
            InputRequest::Table(input) => Some(&input.table),
            _ => None,
        })
    }

    /// Creates a job without a goal, on threads, with paths relative to `directory`.
    pub fn new(
        application: ApplicationRequest,
        inputs: Vec<InputRequest>,
        output: OutputRequest,
        directory: impl Into<PathBuf>,
    ) -> Self {
        Self {
            version: RequestVersion,
            application,
            inputs,
            output,
            directory: directory.into(),
            goal_s: None,
            splits: None,
            cores: None,
            isolation: Isolation::default(),
        }
    }

    /// Parses a request.
    ///
    /// # Errors
    /// When the request has another version or an unknown field, or is malformed.
    pub fn from_json(value: Value) -> Result<Self, RequestError> {
        // The version is checked first, because another version may have unknown fields.
        if let Some(found) = value.get("version").and_then(Value::as_u64) {
            RequestVersion::try_from(u32::try_from(found).unwrap_or(u32::MAX))?;
        }
        serde_json::from_value(value).map_err(RequestError::Malformed)
    }

    /// Returns the form in which the request is stored and sent.
    pub fn to_json(&self) -> Value {
        json!(self)
    }

    /// Returns the parts of the request that determine its work: the application with its options, and the inputs. The
    /// snapshot, the numbers of tasks, the goal and the output are no part of it. Two jobs with the same work take
    /// about as long.
    pub fn work(&self) -> Value {
        let mut application = json!(self.application);
        for options in application.as_object_mut().into_iter().flatten() {
            if let Some(options) = options.1.as_object_mut() {
                options.remove("reduces");
            }
        }
        let mut inputs = self.inputs.clone();
        for input in &mut inputs {
            if let InputRequest::Table(table) = input {
                table.snapshot = None;
            }
        }
        json!({ "application": application, "inputs": inputs })
    }

    /// Returns the key, as JSON, under which the history stores the profile (the measured task
    /// times) of the job `name`, one of the runtime's jobs that carry out this request. Jobs with
    /// the same key do the same work.
    ///
    /// The key is [`work`](Self::work), and also `name` if this is not the name of the application.
    /// Some applications do the same work by jobs with different names. One of these jobs may take
    /// far longer than another, so their profiles must be separate. `tables`, the numbers of the
    /// tables that the job reads, are in the key too: a table that was created under the name of a
    /// dropped one has profiles of its own.
    pub fn work_of(&self, name: &str, tables: &[u32]) -> Value {
        let mut work = self.work();
        if !tables.is_empty() {
            work["tables"] = json!(tables);
        }
        if name != self.application.name() {
            work["job"] = json!(name);
        }
        work
    }
}
