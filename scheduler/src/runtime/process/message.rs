//! The messages between parent and child, in postcard's format. Both processes run the same build,
//! so the format has no version.

use super::frame::FrameError;
use crate::runtime::error::TaskError;
use crate::runtime::job::counters::Counters;
use crate::runtime::job::input::Split;
use crate::runtime::shuffle::run::{Run, Segment};
use crate::runtime::task::key_sample::SamplePlan;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// A bound above every counter of one task, low enough that the sum over all tasks of a job does
/// not overflow.
const COUNTER_MAX: u64 = 1 << 48;

/// A message of the parent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToChild {
    Order(Box<Order>),
    /// The answer to [`ToParent::Used`]. A child that may not go on is killed.
    GoOn {
        /// True if the child is on the floor (the ordinary class with a high nice value) and has
        /// to move itself to the idle class.
        lowers: bool,
    },
}

/// A piece of work for a child.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    /// The core that the child must tie itself to; `None` to leave it as it is.
    pub core: Option<u32>,
    /// True if the child runs on the floor (in the ordinary class, with a high nice value), not in
    /// the idle class. A process inherits its class from the thread that starts it.
    pub is_on_floor: bool,
    /// Path of the job's spill directory.
    directory: Vec<u8>,
    pub task_memory_bytes: u64,
    /// The reserve of disk space that the task's spills leave free, in bytes.
    pub spill_reserve_bytes: u64,
    pub work: Work,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Work {
    /// An order to take the sample for a global sort: to map some records of the input, and to
    /// divide the emitted keys into a range for each reduce. [`TaskEnd::Cuts`] is the answer.
    Sample(SamplePlan),
    Map {
        index: u32,
        attempt: u32,
        split: Split,
        /// The first keys of the ranges of a global sort, except of the first range; `None` for a
        /// job that has its own partitioner.
        cuts: Option<Vec<Vec<u8>>>,
    },
    Reduce {
        index: u32,
        attempt: u32,
        segments: Vec<SegmentDescription>,
    },
}

impl Order {
    pub fn new(
        (core, is_on_floor): (Option<u32>, bool),
        directory: &Path,
        task_memory_bytes: usize,
        spill_reserve_bytes: u64,
        work: Work,
    ) -> Self {
        Self {
            core,
            is_on_floor,
            directory: directory.as_os_str().as_bytes().to_vec(),
            task_memory_bytes: task_memory_bytes as u64,
            spill_reserve_bytes,
            work,
        }
    }

    pub fn directory(&self) -> PathBuf {
        PathBuf::from(OsString::from_vec(self.directory.clone()))
    }
}

/// A message of the child. After an order, the child sends any number of [`Used`](Self::Used), and
/// rows (in frames of their own, not as this message), and at the end one
/// [`TaskEnd`](Self::TaskEnd).
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToParent {
    /// A report of the CPU time and other resources used; the child waits for [`ToChild::GoOn`].
    Used(Use),
    TaskEnd(Use, TaskEnd),
}

/// The outcome of an order.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum TaskEnd {
    /// The result of [`Work::Sample`]: the first keys of the ranges of a global sort, except of the
    /// first range.
    Cuts(Vec<Vec<u8>>),
    /// The result of a map or a reduce, after all its rows. The parent decides whether they count.
    Done(Box<TaskResult>),
    /// The failure of a sample, a map or a reduce.
    Failed(Failure),
}

/// The failure of a child to carry out an order.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Failure {
    cause: String,
    kind: FailureKind,
}

/// The consequence of a failed attempt for further ones.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum FailureKind {
    /// Another attempt may succeed.
    Failed,
    /// No other attempt would succeed, because a record is invalid: [`TaskError::Invalid`].
    Invalid,
    /// No other attempt would succeed, for a reason other than an invalid record. In the parent it
    /// is a [`TaskError::Fatal`].
    Fatal,
    /// A disk is full, or a quota is exceeded. In the parent it is a [`TaskError::Fatal`] with an I/O error.
    DiskFull,
}

impl Failure {
    pub fn of(error: &TaskError) -> Self {
        Self {
            cause: error.to_string(),
            kind: match error {
                TaskError::Invalid(_) => FailureKind::Invalid,
                error if error.is_disk_full() => FailureKind::DiskFull,
                error if error.is_final() => FailureKind::Fatal,
                _ => FailureKind::Failed,
            },
        }
    }

    pub fn error(self) -> TaskError {
        match self.kind {
            FailureKind::Failed => TaskError::failed(self.cause),
            FailureKind::Invalid => TaskError::invalid(self.cause),
            FailureKind::Fatal => TaskError::fatal(self.cause),
            FailureKind::DiskFull => {
                TaskError::fatal(io::Error::new(io::ErrorKind::StorageFull, self.cause))
            }
        }
    }
}

/// The resources that a child has used.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Use {
    /// CPU time of the process since its start, in nanoseconds.
    pub cpu_ns: u64,
    /// Bytes of input since the last report.
    pub read_bytes: u64,
    /// The size of the attempt's whole input, in bytes for a map and in records for a reduce.
    pub input: u64,
    /// The handled part of the input, in the unit of `input`.
    pub handled: u64,
    /// Memory of the attempt's buffers, in bytes.
    pub memory_bytes: u64,
}

/// The result of a finished task.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TaskResult {
    counters: Counters,
    runs: Vec<RunDescription>,
    /// All notes of tasks in this process so far; empty if the job takes no notes.
    pub notes: Vec<u8>,
}

impl TaskResult {
    /// Describes the result of a task for the parent.
    ///
    /// # Errors
    /// If the name of a run's file is not valid UTF-8.
    pub fn new(counters: Counters, runs: &[Run], notes: Vec<u8>) -> Result<Self, TaskError> {
        let runs = runs.iter().map(RunDescription::new);
        Ok(Self {
            counters,
            runs: runs.collect::<Result<_, _>>()?,
            notes,
        })
    }

    /// Returns the task's counters, and its runs (files of sorted records in `directory`), each
    /// with `segments` segments: one per reduce.
    ///
    /// # Errors
    /// If the values are impossible for a task.
    pub fn into_parts(
        self,
        directory: &Path,
        segments: u32,
    ) -> Result<(Counters, Vec<Run>), FrameError> {
        if !self.counters.are_below(COUNTER_MAX) {
            return Err(FrameError::Damaged("counters beyond any task".to_owned()));
        }
        let runs = self.runs.into_iter();
        let runs = runs.map(|run| run.into_run(directory, segments));
        Ok((self.counters, runs.collect::<Result<_, _>>()?))
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct RunDescription {
    segments: Vec<SegmentDescription>,
    records: u64,
    bytes: u64,
}

impl RunDescription {
    fn new(run: &Run) -> Result<Self, TaskError> {
        let segments = run.segments.iter().map(SegmentDescription::new);
        Ok(Self {
            segments: segments.collect::<Result<_, _>>()?,
            records: run.records,
            bytes: run.bytes,
        })
    }

    fn into_run(self, directory: &Path, segments: u32) -> Result<Run, FrameError> {
        if self.segments.len() != segments as usize {
            let found = self.segments.len();
            return Err(FrameError::Damaged(format!(
                "a run of {found} segments instead of {segments}"
            )));
        }
        let segments = (self.segments.into_iter()).map(|segment| segment.into_segment(directory));
        Ok(Run {
            segments: segments.collect::<Result<_, _>>()?,
            records: self.records,
            bytes: self.bytes,
        })
    }
}

/// A segment of a run. `file` is the name of the segment's file in the job's spill directory.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SegmentDescription {
    file: String,
    offset: u64,
    length: u64,
    records: u64,
    block_bytes_max: u64,
}

impl SegmentDescription {
    /// Describes a segment for the other process.
    ///
    /// # Errors
    /// If the name of the segment's file is not valid UTF-8.
    pub fn new(segment: &Segment) -> Result<Self, TaskError> {
        let name = segment.path.file_name().and_then(|name| name.to_str());
        let file = name.ok_or_else(|| {
            let path = segment.path.display();
            TaskError::failed(format!("the name of spill file {path} is not valid UTF-8"))
        })?;
        Ok(Self {
            file: file.to_owned(),
            offset: segment.offset,
            length: segment.length,
            records: segment.records,
            block_bytes_max: segment.block_bytes_max as u64,
        })
    }

    /// Returns the segment, with its file in `directory`.
    ///
    /// # Errors
    /// If the description names no file in `directory`, or an impossible place in a file.
    pub fn into_segment(self, directory: &Path) -> Result<Segment, FrameError> {
        let mut parts = Path::new(&self.file).components();
        let is_name = matches!(
            (parts.next(), parts.next()),
            (Some(Component::Normal(_)), None)
        );
        if !is_name || self.offset.checked_add(self.length).is_none() {
            let file = &self.file;
            return Err(FrameError::Damaged(format!("a segment in file {file:?}")));
        }
        Ok(Segment {
            path: Arc::new(directory.join(&self.file)),
            offset: self.offset,
            length: self.length,
            records: self.records,
            block_bytes_max: self.block_bytes_max as usize,
        })
    }
}

/// Serialises a message.
///
/// # Errors
/// If the message cannot be serialised.
pub(super) fn encode(message: &impl Serialize) -> Result<Vec<u8>, TaskError> {
    postcard::to_stdvec(message)
        .map_err(|e| TaskError::failed(format!("encoding a message between processes: {e}")))
}

/// Deserialises a message.
///
/// # Errors
/// If the bytes are no message of this type.
pub(super) fn decode<M: DeserializeOwned>(bytes: &[u8]) -> Result<M, FrameError> {
    let (message, rest) =
        postcard::take_from_bytes(bytes).map_err(|e| FrameError::Damaged(e.to_string()))?;
    match rest.len() {
        0 => Ok(message),
        surplus => Err(FrameError::Damaged(format!("{surplus} bytes too many"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_test_support::seed::for_seeds;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn done() -> TaskResult {
        let path = Arc::new(PathBuf::from("/spills/job/map-0-1-0.run"));
        let segment = |offset| Segment {
            path: Arc::clone(&path),
            offset,
            length: 10,
            records: 3,
            block_bytes_max: 99,
        };
        let run = Run {
            segments: vec![segment(0), segment(10)],
            records: 6,
            bytes: 20,
        };
        let counters = Counters {
            map_input_records: 6,
            ..Counters::default()
        };
        TaskResult::new(counters, &[run], Vec::new()).unwrap()
    }

    fn report(result: TaskResult) -> ToParent {
        ToParent::TaskEnd(Use::default(), TaskEnd::Done(Box::new(result)))
    }

    #[test]
    fn runs_read_back_in_the_directory_of_the_job_and_in_no_other() {
        let bytes = encode(&report(done())).unwrap();
        let ToParent::TaskEnd(_, TaskEnd::Done(result)) = decode(&bytes).unwrap() else {
            panic!("another message than the one sent")
        };
        let (counters, runs) = result.into_parts(Path::new("/other"), 2).unwrap();
        assert_eq!((counters.map_input_records, runs.len()), (6, 1));
        let segment = &runs[0].segments[1];
        assert_eq!(*segment.path, PathBuf::from("/other/map-0-1-0.run"));
        assert_eq!((segment.offset, segment.records), (10, 3));

        for file in ["", "..", "/etc/passwd", "a/b", "../x", "."] {
            let mut bad = done();
            bad.runs[0].segments[0].file = file.to_owned();
            assert!(bad.into_parts(Path::new("/other"), 2).is_err(), "{file:?}");
        }
        assert!(done().into_parts(Path::new("/other"), 3).is_err());
        let mut bad = done();
        bad.runs[0].segments[0].offset = u64::MAX;
        assert!(bad.into_parts(Path::new("/other"), 2).is_err());
        let mut bad = done();
        bad.counters.output_bytes = u64::MAX;
        assert!(bad.into_parts(Path::new("/other"), 2).is_err());
    }

    #[test]
    fn a_failure_keeps_its_kind_and_its_text() {
        for error in [
            TaskError::failed("a"),
            TaskError::invalid("b"),
            TaskError::fatal("c"),
        ] {
            let bytes = encode(&Failure::of(&error)).unwrap();
            let came = decode::<Failure>(&bytes).unwrap().error();
            assert_eq!(format!("{came:?}"), format!("{error:?}"));
        }
        // Regression: the kind of the I/O error was lost, so the job did not end as one of a full disk.
        let full = TaskError::io("d")(io::ErrorKind::QuotaExceeded.into());
        let came = Failure::of(&full).error();
        assert!(came.is_final() && came.is_disk_full());
        assert_eq!(came.to_string(), full.to_string());
    }

    #[test]
    fn no_bytes_make_a_message_panic() {
        for_seeds("no_bytes_make_a_message_panic", 1, |seed| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let plan = Work::Map {
                index: 1,
                attempt: 2,
                split: Split::default(),
                cuts: Some(vec![b"m".to_vec()]),
            };
            let order = Order::new(
                (Some(1), true),
                Path::new("/spills"),
                1 << 20,
                1 << 27,
                plan,
            );
            let messages = [
                encode(&ToChild::Order(Box::new(order))).unwrap(),
                encode(&report(done())).unwrap(),
            ];
            for _ in 0..5000 {
                let mut bytes = messages[rng.random_range(0..2)].clone();
                for _ in 0..rng.random_range(1..4) {
                    let at = rng.random_range(0..bytes.len());
                    bytes[at] = rng.random();
                }
                bytes.truncate(rng.random_range(0..=bytes.len()));
                // Success or an error, but no panic and no endless loop.
                let _ = decode::<ToChild>(&bytes);
                if let Ok(ToParent::TaskEnd(_, TaskEnd::Done(result))) = decode(&bytes) {
                    let _ = result.into_parts(Path::new("/spills"), 2);
                }
            }
            let long = [&messages[1][..], &[0]].concat();
            assert!(decode::<ToParent>(&long).is_err());
        });
    }
}
