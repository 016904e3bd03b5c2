//! The demo's jobs: their sizes follow the plan, whatever the size of the text.

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

/// The pattern of the greps: so rare that the output is much smaller than the text.
const PATTERN: &str = "fn main";
/// The number of reduce tasks of a word count.
const REDUCES: u32 = 4;

/// The application of a job.
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

    /// Returns the description from which a child process makes the same job.
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

    /// Returns the request with which a user would submit this job: a single pass over the table
    /// of text, at the snapshot `snapshot`.
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

/// A snapshot of the text, cut into pieces, as the input of `tasks` tasks. Task n reads piece n;
/// once all pieces are read, the next task reads the first piece again, and so on. So a text of any
/// size gives an input of the planned size.
#[derive(Debug, Clone)]
pub(super) struct RepeatedText {
    input: SnapshotInput,
    pieces: Vec<Split>,
    tasks: u32,
    /// The expected CPU time of a task, in seconds.
    task_cpu_s: f64,
}

impl RepeatedText {
    /// Returns the text, cut into about `pieces` pieces, as the input of `tasks` tasks. One pass over the text is
    /// expected to cost `pass_cpu_s` seconds of CPU time.
    ///
    /// # Errors
    /// If the snapshot cannot be read.
    pub(super) fn new(
        table: SnapshotTable,
        pieces: usize,
        tasks: u32,
        pass_cpu_s: f64,
    ) -> Result<Self> {
        let input = SnapshotInput::new(table, pieces);
        let pieces = input
            .splits()
            .map_err(|e| anyhow!("cannot cut the text into pieces: {e}"))?;
        Ok(Self {
            input,
            // A small text cannot be cut into as many pieces as requested, so those that there are count.
            task_cpu_s: pass_cpu_s / pieces.len().max(1) as f64,
            pieces,
            tasks,
        })
    }

    /// Returns the text, repeated as often as needed, as an input that costs `cpu_s` seconds of CPU
    /// time, in tasks of about `task_cpu_s`. One pass over the text costs `pass_cpu_s`.
    pub(super) fn sized(
        text: &SnapshotTable,
        pass_cpu_s: f64,
        cpu_s: f64,
        task_cpu_s: f64,
    ) -> Result<Self> {
        let pieces = (pass_cpu_s / task_cpu_s).ceil().max(1.0) as usize;
        let cut = Self::new(text.clone(), pieces, 1, pass_cpu_s)?;
        let tasks = (cpu_s / cut.task_cpu_s).round().max(1.0) as u32;
        Ok(Self { tasks, ..cut })
    }

    /// Returns the CPU time of one pass over the text, if a job with this input used `cpu_s`.
    pub(super) fn pass_cpu_s(&self, cpu_s: f64) -> f64 {
        cpu_s / f64::from(self.tasks) * self.pieces() as f64
    }

    /// Returns the expected costs of the tasks, which a prediction takes until a task has ended. A reduce task is
    /// expected to cost as much as a map task.
    fn profile(&self) -> JobProfile {
        JobProfile {
            map_task_cpu_s: self.task_cpu_s,
            reduce_task_cpu_s: self.task_cpu_s,
        }
    }

    pub(super) fn pieces(&self) -> usize {
        self.pieces.len()
    }

    fn piece(&self, index: u32) -> &Split {
        &self.pieces[index as usize % self.pieces.len()]
    }

    /// Counts how often each word is in the input of all tasks, independently of the runtime: row
    /// by row, with another method of finding words.
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

impl Input for RepeatedText {
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

/// Returns the file for the output of a job; `run` is the name of the simulated day on which the
/// job runs.
pub(super) fn output_file(setup: &Setup, run: &str, job: &str) -> PathBuf {
    setup.output.join(run).join(format!("{job}.txt"))
}

/// Returns the specification of a job of the demo. The specification has no goal.
pub(super) fn spec(
    setup: &Setup,
    (run, job): (&str, &str),
    application: Application,
    input: &RepeatedText,
) -> Result<JobSpec> {
    let profile = input.profile();
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
    Ok(JobSpec { profile, ..spec })
}

#[cfg(test)]
mod tests {
    use ebb_storage::{Db, Options, TableOptions};

    use super::*;

    /// The tasks of a text below one block once had the planned cost in their profile, 60 times what they used:
    /// a job of 10 s was predicted to take 900 s.
    #[test]
    fn the_profile_of_a_small_text_has_the_cost_of_its_pieces() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), Options::default()).unwrap();
        let keyspace = db.keyspace("k").unwrap();
        let table = keyspace.table("t", TableOptions::default()).unwrap();
        table.put(b"key", b"a short text").unwrap();
        keyspace.create_snapshot("s").unwrap();
        let text = keyspace.snapshot("s").unwrap().table("t").unwrap();

        let (pass_cpu_s, job_cpu_s, planned_task_cpu_s) = (0.002, 14.0, 0.14);
        let input = RepeatedText::sized(&text, pass_cpu_s, job_cpu_s, planned_task_cpu_s).unwrap();
        assert_eq!(input.tasks, 7000);
        let predicted_cpu_s = input.profile().map_task_cpu_s * f64::from(input.tasks);
        assert!(
            (predicted_cpu_s - job_cpu_s).abs() < 1e-6,
            "{predicted_cpu_s}"
        );
    }
}
