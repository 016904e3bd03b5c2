//! The messages between parent and child, in postcard's format. Both are of the same
//! build, so the format has no version.

use super::frame::FrameError;
use crate::runtime::error::TaskError;
use crate::runtime::job::counters::Counters;
use crate::runtime::job::input::Split;
use crate::runtime::shuffle::run::{Run, Segment};
use crate::runtime::task::key_sample::SamplePlan;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// More than any counter of one task can be, and so little that the sum over all
/// tasks of a job does not overflow.
const COUNTER_MAX: u64 = 1 << 48;

/// By the parent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToChild {
    Order(Box<Order>),
    /// The answer to [`ToParent::Used`]. A child that may not go on is killed.
    GoOn {
        /// The child is on the floor, and has to lower itself to the idle class.
        lowers: bool,
    },
}

/// Something to do.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    /// The core to be tied to.
    pub core: Option<u32>,
    /// The child runs on the floor. A process inherits its class from the thread that starts it.
    pub is_on_floor: bool,
    /// Path of the job's spill directory.
    directory: Vec<u8>,
    pub task_memory_bytes: u64,
    pub work: Work,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Work {
    /// Cut the ranges of a global sort; [`Ended::Cuts`] is the answer.
    Sample(SamplePlan),
    Map {
        index: u32,
        attempt: u32,
        split: Split,
        /// Where the ranges of a global sort begin.
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
        work: Work,
    ) -> Self {
        Self {
            core,
            is_on_floor,
            directory: directory.as_os_str().as_bytes().to_vec(),
            task_memory_bytes: task_memory_bytes as u64,
            work,
        }
    }

    pub fn directory(&self) -> PathBuf {
        PathBuf::from(OsString::from_vec(self.directory.clone()))
    }
}

/// By the child. Between an order and what ends it come any number of reports of use,
/// and rows, in frames of their own.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToParent {
    /// It waits until it may go on.
    Used(Use),
    Ended(Use, Ended),
}

/// The end of an order.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Ended {
    /// A sample: where the ranges of a global sort begin.
    Cuts(Vec<Vec<u8>>),
    /// A map or a reduce: all rows were sent. Whether they count is the parent's to decide.
    Done(Box<TaskResult>),
    /// An order of any kind that was not carried out.
    Failed(Failure),
}

/// Why a child did not do what it was ordered to.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Failure {
    cause: String,
    kind: FailureKind,
}

/// The consequence of a failed attempt for further ones.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum FailureKind {
    /// Another attempt may do better.
    Failed,
    /// [`TaskError::Invalid`].
    Invalid,
    /// [`TaskError::Fatal`].
    Fatal,
}

impl Failure {
    pub fn of(error: &TaskError) -> Self {
        Self {
            cause: error.to_string(),
            kind: match error {
                TaskError::Invalid(_) => FailureKind::Invalid,
                TaskError::Fatal(_) => FailureKind::Fatal,
                _ => FailureKind::Failed,
            },
        }
    }

    pub fn error(self) -> TaskError {
        match self.kind {
            FailureKind::Failed => TaskError::failed(self.cause),
            FailureKind::Invalid => TaskError::invalid(self.cause),
            FailureKind::Fatal => TaskError::fatal(self.cause),
        }
    }
}

/// What a child has used.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Use {
    /// CPU time of the process since it was started, in nanoseconds.
    pub cpu_ns: u64,
    /// Bytes of input since the last report.
    pub read_bytes: u64,
    /// Of the attempt's input, in its own unit: all of it, and what was handled.
    pub input: u64,
    pub handled: u64,
    /// What the attempt's buffers take.
    pub memory_bytes: u64,
}

/// What a finished task brings back.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TaskResult {
    counters: Counters,
    runs: Vec<RunDescription>,
    /// What the tasks of the process noted so far; empty if the job takes no notes.
    pub notes: Vec<u8>,
}

impl TaskResult {
    /// # Errors
    /// When a run has a name that cannot be told.
    pub fn new(counters: Counters, runs: &[Run], notes: Vec<u8>) -> Result<Self, TaskError> {
        let runs = runs.iter().map(RunDescription::new);
        Ok(Self {
            counters,
            runs: runs.collect::<Result<_, _>>()?,
            notes,
        })
    }

    /// The counters, and the runs with `segments` segments each, in `directory`.
    ///
    /// # Errors
    /// When it cannot be true.
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
        let told = self.segments.into_iter();
        let told = told.map(|segment| segment.into_segment(directory));
        Ok(Run {
            segments: told.collect::<Result<_, _>>()?,
            records: self.records,
            bytes: self.bytes,
        })
    }
}

/// A segment, its file by the name that it has in the job's spill directory.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SegmentDescription {
    file: String,
    offset: u64,
    length: u64,
    records: u64,
    block_bytes_max: u64,
}

impl SegmentDescription {
    /// # Errors
    /// When its file has no name that can be told.
    pub fn new(segment: &Segment) -> Result<Self, TaskError> {
        let name = segment.path.file_name().and_then(|name| name.to_str());
        let file = name.ok_or_else(|| {
            let path = segment.path.display();
            TaskError::failed(format!("spill file {path} has no name that can be told"))
        })?;
        Ok(Self {
            file: file.to_owned(),
            offset: segment.offset,
            length: segment.length,
            records: segment.records,
            block_bytes_max: segment.block_bytes_max as u64,
        })
    }

    /// # Errors
    /// When it names no file in `directory`, or a place that no file has.
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

/// # Errors
/// When it cannot be told in bytes.
pub(super) fn encode(message: &impl Serialize) -> Result<Vec<u8>, TaskError> {
    postcard::to_stdvec(message)
        .map_err(|e| TaskError::failed(format!("telling a process of a task: {e}")))
}

/// # Errors
/// When the bytes are no such message.
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
        ToParent::Ended(Use::default(), Ended::Done(Box::new(result)))
    }

    #[test]
    fn runs_come_back_in_the_directory_of_the_job_and_nowhere_else() {
        let bytes = encode(&report(done())).unwrap();
        let ToParent::Ended(_, Ended::Done(told)) = decode(&bytes).unwrap() else {
            panic!("not what was sent")
        };
        let (counters, runs) = told.into_parts(Path::new("/other"), 2).unwrap();
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
            let order = Order::new((Some(1), true), Path::new("/spills"), 1 << 20, plan);
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
                // Well or not, but to an end.
                let _ = decode::<ToChild>(&bytes);
                if let Ok(ToParent::Ended(_, Ended::Done(told))) = decode(&bytes) {
                    let _ = told.into_parts(Path::new("/spills"), 2);
                }
            }
            let long = [&messages[1][..], &[0]].concat();
            assert!(decode::<ToParent>(&long).is_err());
        });
    }
}
