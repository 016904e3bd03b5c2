//! Outputs into files and folders in a temporary folder.

use ebb_scheduler::runtime::{Emit, JobSpec, Outcome, Runtime};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{Db, Maintenance, Options};
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::history::History;
use crate::records::{Column, RecordFormat, RowFormat};
use crate::request::{ApplicationRequest, JobRequest, OutputPlace, WordcountRequest};
use crate::testing::{input, open_files_in, options};

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { dir }
    }

    fn output(&self, target: fn(PathBuf) -> FilesTarget, format: RowFormat) -> FilesOutput {
        self.output_with(target, format, SpillSpace::default())
    }

    fn output_with(
        &self,
        target: fn(PathBuf) -> FilesTarget,
        format: RowFormat,
        space: SpillSpace,
    ) -> FilesOutput {
        let (key, value) = (vec![Column::text("k")], vec![Column::number("n")]);
        let rows = Arc::new(RecordFormat::rows(key, value));
        let target = target(self.dir.path().join("out"));
        let place = SpillPlace::new("unused", space);
        FilesOutput::new(target, RowWriter::new(format, rows), place)
    }

    /// Returns the number of files and folders beside the target, the target included.
    fn names(&self) -> usize {
        fs::read_dir(self.dir.path()).unwrap().count()
    }

    /// Returns all files in the test's directory, with their content.
    fn files(&self) -> Vec<(String, String)> {
        let entries = walkdir::WalkDir::new(self.dir.path()).sort_by_file_name();
        let files = entries.into_iter().map(Result::unwrap);
        files
            .filter(|entry| entry.file_type().is_file())
            .map(|entry| {
                let name = entry.path().strip_prefix(self.dir.path()).unwrap();
                let content = fs::read_to_string(entry.path()).unwrap();
                (name.display().to_string(), content)
            })
            .collect()
    }
}

fn write(output: &FilesOutput, partition: u32, attempt: u32, rows: &[(&str, &str)]) {
    let mut writer = output.open(partition, attempt).unwrap();
    for (key, value) in rows {
        writer.write(key.as_bytes(), value.as_bytes()).unwrap();
    }
    writer.finish().unwrap();
}

/// Regression: the file of each finished partition stayed open until the commit, so a job with
/// thousands of tasks took all descriptors of its process.
#[test]
fn files_of_finished_partitions_are_closed() {
    for target in [FilesTarget::File, FilesTarget::Folder] {
        let place = Place::new();
        let output = place.output(target, RowFormat::Text);
        for partition in 0..10 {
            write(&output, partition, 1, &[("a", "1")]);
        }
        // The lock of the scratch folder.
        assert_eq!(open_files_in(place.dir.path()), 1);
        output.commit().unwrap();
        assert_eq!(open_files_in(place.dir.path()), 0);
        let rows: String = place.files().into_iter().map(|(_, rows)| rows).collect();
        assert_eq!(rows, "a\t1\n".repeat(10));
    }
}

fn file(name: &str, content: &str) -> (String, String) {
    (name.to_string(), content.to_string())
}

#[test]
fn a_file_has_the_partitions_in_their_order_under_one_header() {
    let place = Place::new();
    let output = place.output(FilesTarget::File, RowFormat::Csv);
    write(&output, 1, 1, &[("b", "2")]);
    write(&output, 0, 1, &[("a", "1"), ("c", "3")]);
    drop(output.open(2, 1).unwrap());
    assert!(!place.dir.path().join("out").exists());
    output.commit().unwrap();
    assert_eq!(place.files(), [file("out", "k,n\na,1\nc,3\nb,2\n")]);
    assert_eq!(place.names(), 1);
}

#[test]
fn a_folder_has_a_file_per_partition_and_a_mark_that_it_is_complete() {
    let place = Place::new();
    let output = place.output(FilesTarget::Folder, RowFormat::Csv);
    write(&output, 1, 1, &[("b", "2")]);
    write(&output, 0, 2, &[("a", "1")]);
    assert!(!place.dir.path().join("out").exists());
    output.commit().unwrap();
    assert_eq!(
        place.files(),
        [
            file("out/_SUCCESS", ""),
            file("out/part-00000.csv", "k,n\na,1\n"),
            file("out/part-00001.csv", "k,n\nb,2\n"),
        ]
    );
    assert_eq!(place.names(), 1);
}

#[test]
fn of_two_attempts_at_once_the_last_that_finishes_counts() {
    let place = Place::new();
    let output = place.output(FilesTarget::File, RowFormat::Text);
    let mut slow = output.open(0, 1).unwrap();
    slow.write(b"slow", b"1").unwrap();
    write(&output, 0, 2, &[("fast", "1")]);
    slow.write(b"slow", b"2").unwrap();
    drop(slow);
    output.commit().unwrap();
    assert_eq!(place.files(), [file("out", "fast\t1\n")]);
}

#[test]
fn what_exists_is_refused_early_and_late_and_kept() {
    for target in [FilesTarget::File, FilesTarget::Folder] {
        let place = Place::new();
        let output = place.output(target, RowFormat::Text);
        output.check().unwrap();
        write(&output, 0, 1, &[("a", "1")]);
        fs::write(place.dir.path().join("out"), "mine").unwrap();
        assert!(output.check().unwrap_err().to_string().contains("exists"));
        assert!(output.target.check().is_err());
        assert!(output.commit().is_err());
        output.abort();
        assert_eq!(place.files(), [file("out", "mine")]);
    }
    let place = Place::new();
    let output = place.output(FilesTarget::Folder, RowFormat::Text);
    write(&output, 0, 1, &[("a", "1")]);
    fs::create_dir(place.dir.path().join("out")).unwrap();
    assert!(output.commit().is_err());
    assert!(place.files().is_empty());
}

/// Regression: a job was interrupted after it had recorded that it was about to put its output
/// in place. Its restart regarded any file with the name of the output as that output, even the
/// file of another job.
#[test]
fn a_commit_records_which_file_it_puts_in_place_before_it_does() {
    let db = Db::open("/db", in_memory()).unwrap();
    let history = History::open(&db).unwrap();
    for target in [FilesTarget::File, FilesTarget::Folder] {
        for is_taken in [false, true] {
            let place = Place::new();
            let application = ApplicationRequest::Wordcount(WordcountRequest { reduces: 1 });
            let to = OutputPlace::File("out".into());
            let request = JobRequest::new(application, Vec::new(), to.into(), "/d");
            let job = history.begin(&request, Vec::new(), None).unwrap();
            let commits = CommitRecord::default();
            commits.set(&history, &job);
            let output = place.output(target, RowFormat::Text).recorded_by(commits);
            write(&output, 0, 1, &[("a", "1")]);
            if is_taken {
                let other = place.output(target, RowFormat::Text);
                write(&other, 0, 1, &[("a", "1")]);
                other.commit().unwrap();
            }
            assert_eq!(output.commit().is_err(), is_taken);
            let record = history.job(&job.id).unwrap().unwrap();
            assert!(record.commits && record.written_file.is_some());
            let is_own = output.target.written().unwrap() == record.written_file;
            assert_ne!(is_own, is_taken, "{record:?}");
        }
    }
}

fn in_memory() -> Options {
    Options {
        disk: Arc::new(MemDisk::new()),
        maintenance: Maintenance::Manual,
        ..Options::default()
    }
}

#[test]
fn an_abort_or_a_drop_leaves_nothing_even_under_a_writer() {
    let place = Place::new();
    for abort in [true, false] {
        let output = place.output(FilesTarget::File, RowFormat::Text);
        write(&output, 0, 1, &[("a", "1")]);
        let mut writer = output.open(1, 1).unwrap();
        if abort {
            output.abort();
        }
        drop(output);
        writer.write(b"b", b"2").unwrap();
        drop(writer);
        assert_eq!(place.names(), 0);
    }
}

/// Regression: a job wrote its file until the disk was full, in four attempts, and the writes of
/// the database failed.
#[test]
fn a_job_whose_output_would_reduce_the_reserve_fails_at_once_and_leaves_nothing() {
    let runtime = Runtime::start(options(1)).unwrap();
    let run = |output: FilesOutput| {
        let copy = |key: &[u8], value: &[u8], emit: &mut dyn Emit| emit.emit(key, value);
        let spec = JobSpec::new("copy", input(&["1"], 1), Arc::new(copy), Arc::new(output));
        runtime.submit(spec).unwrap().wait()
    };
    for target in [FilesTarget::File, FilesTarget::Folder] {
        let place = Place::new();
        // The space suffices for the header, and not for the row.
        let free_bytes = AtomicU64::new(1004);
        let space = SpillSpace::new(move |_| Ok(free_bytes.swap(1000, Ordering::SeqCst)));
        let report = run(place.output_with(target, RowFormat::Csv, space.leaving(1000)));
        let Outcome::Failed { cause } = &report.outcome else {
            panic!("{report:?}")
        };
        let expected = format!(
            "attempt 1: the disk is full: 1000 bytes are free at {}, of which jobs leave 1000 ",
            place.dir.path().join("out").display()
        );
        assert!(cause.contains(&expected), "{cause}");
        assert_eq!(report.counters.attempts_failed, 1);
        assert_eq!(place.names(), 0);
        // Nothing of the refused file takes space from the next one.
        let report = run(place.output(target, RowFormat::Csv));
        assert_eq!(report.outcome, Outcome::Succeeded);
    }
}

#[test]
fn a_commit_whose_copy_would_reduce_the_reserve_fails_and_leaves_nothing() {
    let place = Place::new();
    let free_bytes = Arc::new(AtomicU64::new(u64::MAX));
    let found = Arc::clone(&free_bytes);
    let space = SpillSpace::new(move |_| Ok(found.load(Ordering::SeqCst))).leaving(1000);
    let output = place.output_with(FilesTarget::File, RowFormat::Text, space);
    write(&output, 0, 1, &[("a", "1")]);
    write(&output, 1, 1, &[("b", "2")]);
    // A byte less than the second partition needs.
    free_bytes.store(1003, Ordering::SeqCst);
    let error = output.commit().unwrap_err();
    assert!(error.is_final(), "{error:?}");
    let error = error.to_string();
    assert!(error.contains("1003 bytes are free"), "{error}");
    output.abort();
    assert_eq!(place.names(), 0);
}

#[test]
fn a_job_without_partitions_has_a_result_without_rows() {
    let place = Place::new();
    let output = place.output(FilesTarget::File, RowFormat::Csv);
    output.commit().unwrap();
    assert_eq!(place.files(), [file("out", "k,n\n")]);
}
