//! The description of a job for the processes that run its tasks: the request, and its
//! inputs as they were opened.

use std::sync::Arc;

use ebb_scheduler::runtime::{Input, RuntimeOptions, TaskProcesses};
use ebb_storage::{DetachedOptions, DetachedTable, PinnedTable};
use ebb_tables::{detached_schema, merge_operators};
use serde::{Deserialize, Serialize};

use super::input::{OpenInput, OpenPlace};
use crate::error::JobError;
use crate::processes::task_processes;
use crate::records::{RecordFormat, ValueFormat};
use crate::request::{ApplicationRequest, JobRequest, OutputPlace};
use crate::{CqlInput, CqlText, FilesInput, Generator, LenientCsvInput, SnapshotInput};

/// The description of a job. A process that runs tasks of the job makes the job again from it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JobDescription {
    pub(super) request: JobRequest,
    /// The description of the current job of a chain, as
    /// [`Chain::describe`](crate::Chain::describe) returns it; `None` if the work is no chain.
    pub(super) step: Option<Vec<u8>>,
    /// The largest number of map tasks for each input.
    pub(super) splits: u32,
    /// The inputs, in the order of the request.
    pub(super) inputs: Vec<InputDescription>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct InputDescription {
    format: RecordFormat,
    place: PlaceDescription,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PlaceDescription {
    /// A pinned table, as [`PinnedTable::description`] returns it.
    Table(String),
    /// A pinned table whose values are CSV records, possibly with malformed quotes.
    LenientCsv(String),
    /// A pinned CQL table.
    Cql {
        /// The table, as [`PinnedTable::description`] returns it.
        table: String,
        /// The columns to read; `None` for all.
        columns: Option<Vec<String>>,
    },
    Files(FilesInput),
    Generator(Generator),
}

impl JobDescription {
    /// Creates the description of a job that does not come from a [`launch`](crate::launch):
    /// `application` over all rows of a pinned table, whose values are plain text. The description
    /// is valid as long as the table is pinned.
    pub fn over_table(application: ApplicationRequest, table: &PinnedTable) -> Self {
        // The process uses neither the output nor the input of the request.
        let output = OutputPlace::Terminal.into();
        Self {
            request: JobRequest::new(application, Vec::new(), output, "/"),
            step: None,
            splits: 1,
            inputs: vec![InputDescription {
                format: RecordFormat::table(ValueFormat::text())
                    .expect("plain text is what values may be"),
                place: PlaceDescription::Table(table.description().to_string()),
            }],
        }
    }

    /// Returns child processes for the job's tasks. The records of a task have the memory that a
    /// node gives them by default.
    pub fn processes(&self) -> TaskProcesses {
        self.processes_with_memory(RuntimeOptions::new(1).task_memory_bytes)
    }

    /// Returns child processes for the job's tasks, with `task_memory_bytes` of memory for the
    /// records of a task.
    pub(super) fn processes_with_memory(&self, task_memory_bytes: usize) -> TaskProcesses {
        let encoded = serde_json::to_vec(self).expect("a description has text keys only");
        task_processes(encoded, task_memory_bytes)
    }
}

impl InputDescription {
    /// Describes an open input. If it reads a table, also returns a pin, which keeps the files of
    /// the table in place.
    pub(super) fn of(opened: &OpenInput) -> Result<(Self, Option<PinnedTable>), JobError> {
        let (place, pin) = match &opened.place {
            OpenPlace::Table(table) => {
                let pin = table.pin()?;
                let description = pin.description().to_string();
                (PlaceDescription::Table(description), Some(pin))
            }
            OpenPlace::LenientCsv(table) => {
                let pin = table.pin()?;
                let description = pin.description().to_string();
                (PlaceDescription::LenientCsv(description), Some(pin))
            }
            OpenPlace::Cql(table, columns) => {
                let pin = table.pin()?;
                let description = PlaceDescription::Cql {
                    table: pin.description().to_string(),
                    columns: columns.clone(),
                };
                (description, Some(pin))
            }
            OpenPlace::Files(files) => (PlaceDescription::Files(files.clone()), None),
            OpenPlace::Generator(generator) => (PlaceDescription::Generator(*generator), None),
        };
        let format = opened.format.clone();
        Ok((Self { format, place }, pin))
    }

    /// Opens the input. Also returns the format of its rows.
    pub(super) fn open(self) -> Result<(Arc<dyn Input>, RecordFormat), JobError> {
        let input: Arc<dyn Input> = match self.place {
            PlaceDescription::Table(description) => {
                Arc::new(SnapshotInput::detached(detached(&description)?))
            }
            PlaceDescription::LenientCsv(description) => {
                let rows = SnapshotInput::detached(detached(&description)?);
                Arc::new(LenientCsvInput::new(rows))
            }
            PlaceDescription::Cql { table, columns } => {
                let table = detached(&table)?;
                let schema = detached_schema(&table, "of the job")?;
                let text = CqlText::new(Arc::new(schema), table.read_time_ms(), columns.as_deref());
                Arc::new(CqlInput::new(SnapshotInput::detached(table), text))
            }
            PlaceDescription::Files(files) => Arc::new(files),
            PlaceDescription::Generator(generator) => Arc::new(generator),
        };
        Ok((input, self.format))
    }
}

fn detached(description: &str) -> ebb_storage::Result<DetachedTable> {
    let options = DetachedOptions {
        merge_operators: merge_operators(),
        ..DetachedOptions::default()
    };
    DetachedTable::open(description, options)
}
