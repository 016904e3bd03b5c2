//! The demo's jobs: as large as the plan says, whatever text there is.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use ebb_jobs::launch::JobDescription;
use ebb_jobs::records::RecordFormat;
use ebb_jobs::request::{
    ApplicationRequest, GrepRequest, InputRequest, JobRequest, OutputPlace, TableInput,
    WordcountRequest,
};
use ebb_jobs::{FilesOutput, FilesTarget, RowFormat, RowWriter, SnapshotInput, grep, wordcount};
use ebb_scheduler::runtime::{Input, JobProfile, JobSpec, RecordSink, Split, TaskError};
use ebb_storage::{PinnedTable, SnapshotTable};

use super::setup::{KEYSPACE, Setup, TEXT};

/// What the jobs search for: rare enough that finding it is not writing it.
const PATTERN: &str = "fn main";
/// Reduce tasks of a word count.
const REDUCES: u32 = 4;

/// What a job computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Application {
    WordCount,
    Grep,
}

impl Application {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::WordCount => "word count",
            Self::Grep => "grep",
        }
    }

    /// What processes are told that run its tasks.
    pub(super) fn description(self, text: &PinnedTable) -> JobDescription {
        JobDescription::over_table(self.application(), text)
    }

    fn application(self) -> ApplicationRequest {
        match self {
            Self::WordCount => ApplicationRequest::Wordcount(WordcountRequest { reduces: REDUCES }),
            Self::Grep => ApplicationRequest::Grep(GrepRequest {
                pattern: PATTERN.to_string(),
                regex: false,
            }),
        }
    }

    /// The job as a user would ask for it: over the text at `snapshot`, once.
    pub(super) fn request(self, snapshot: &str, output: &Path) -> Result<JobRequest> {
        let table = format!("{KEYSPACE}.{TEXT}").parse();
        let table = table.map_err(|error: String| anyhow!(error))?;
        let input = InputRequest::Table(TableInput {
            snapshot: Some(snapshot.to_string()),
            ..TableInput::new(table)
        });
        let output = std::path::absolute(output)?;
        let folder = output.parent().map(Path::to_path_buf).unwrap_or_default();
        let output = OutputPlace::File(output);
        let application = self.application();
        Ok(JobRequest::new(
            application,
            vec![input],
            output.into(),
            folder,
        ))
    }
}

/// A snapshot of the text, cut into pieces, read again from the first piece on
/// until there are as many tasks as asked for: a corpus of the size that the
/// plan asks for, of the text that there is.
#[derive(Debug, Clone)]
pub(super) struct Repeated {
    input: SnapshotInput,
    pieces: Vec<Split>,
    tasks: u32,
}

impl Repeated {
    pub(super) fn new(table: SnapshotTable, pieces: usize, tasks: u32) -> Result<Self> {
        let input = SnapshotInput::new(table, pieces);
        let pieces = input
            .splits()
            .map_err(|e| anyhow!("cannot cut the text into pieces: {e}"))?;
        Ok(Self {
            input,
            pieces,
            tasks,
        })
    }

    pub(super) fn pieces(&self) -> usize {
        self.pieces.len()
    }

    fn piece(&self, index: u32) -> &Split {
        &self.pieces[index as usize % self.pieces.len()]
    }

    /// How often each word is in all that the tasks read, counted without the
    /// runner: row by row, with another way of finding words.
    pub(super) fn count_words(&self) -> Result<HashMap<Vec<u8>, u64>> {
        let mut counts = HashMap::new();
        for (i, piece) in (0..).zip(&self.pieces) {
            let times = (0..self.tasks)
                .filter(|task| task % self.pieces.len() as u32 == i)
                .count() as u64;
            let mut count = |_: &[u8], line: &[u8]| {
                let mut word = Vec::new();
                for &byte in line.iter().chain(b" ") {
                    if byte.is_ascii_alphanumeric() || byte >= 0x80 {
                        word.push(byte.to_ascii_lowercase());
                    } else if !word.is_empty() {
                        *counts.entry(std::mem::take(&mut word)).or_default() += times;
                    }
                }
                Ok(())
            };
            self.input
                .read(piece, &mut count)
                .map_err(|e| anyhow!("cannot count words: {e}"))?;
        }
        counts.retain(|_, count| *count > 0);
        Ok(counts)
    }
}

impl Input for Repeated {
    fn splits(&self) -> Result<Vec<Split>, TaskError> {
        Ok((0..self.tasks)
            .map(|index| Split {
                index,
                ..self.piece(index).clone()
            })
            .collect())
    }

    fn read(&self, split: &Split, record: RecordSink<'_>) -> Result<(), TaskError> {
        self.input.read(self.piece(split.index), record)
    }
}

/// The file that a job's rows go to; `run` is the policy of its day.
pub(super) fn output_file(setup: &Setup, run: &str, job: &str) -> PathBuf {
    setup.output.join(run).join(format!("{job}.txt"))
}

/// A job of the demo, without a goal.
pub(super) fn spec(
    setup: &Setup,
    (run, job): (&str, &str),
    application: Application,
    input: &Repeated,
    task_cpu_s: f64,
) -> Result<JobSpec> {
    let input: Arc<dyn Input> = Arc::new(input.clone());
    let path = output_file(setup, run, job);
    let folder = path.parent().expect("it lies in the folder of its run");
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let rows = Arc::new(match application {
        Application::WordCount => wordcount::rows(),
        Application::Grep => RecordFormat::text(),
    });
    let writer = RowWriter::new(RowFormat::Text, Arc::clone(&rows));
    let output = Arc::new(FilesOutput::new(
        FilesTarget::File(path.clone()),
        writer,
        folder,
    ));
    let spec = match application {
        Application::WordCount => wordcount::spec(job, input, output, REDUCES),
        Application::Grep => grep::spec(job, input, output, grep::Pattern::text(PATTERN)?, rows),
    };
    let profile = JobProfile {
        map_task_cpu_s: task_cpu_s,
        reduce_task_cpu_s: task_cpu_s,
    };
    Ok(JobSpec { profile, ..spec })
}
