//! The estimated cost of a job's tasks, and the measured one: the profile that the next job of its
//! kind starts with.

use super::attempt_record::{AttemptOutcome, AttemptRecord};
use crate::model::TaskKind;
use serde::{Deserialize, Serialize};

/// The estimated length of tasks, used until the first one has finished.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobProfile {
    /// CPU time of a map task in seconds; positive.
    pub map_task_cpu_s: f64,
    /// CPU time of a reduce task in seconds; positive.
    pub reduce_task_cpu_s: f64,
}

impl Default for JobProfile {
    /// Returns one second of CPU time for each task.
    fn default() -> Self {
        Self {
            map_task_cpu_s: 1.0,
            reduce_task_cpu_s: 1.0,
        }
    }
}

/// Totals over the finished tasks of one kind. Of the attempts at a task, only the one whose result
/// counts is included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TaskMeasures {
    /// Number of tasks.
    pub tasks: u64,
    /// CPU time of all tasks in seconds, including the shuffle.
    pub cpu_s: f64,
    /// CPU time of the longest task in seconds.
    pub cpu_s_max: f64,
    /// CPU time of sorting, spilling and merging, in seconds: the shuffle.
    pub shuffle_cpu_s: f64,
    /// Sum of the times from start to end of each task in seconds, including pauses.
    pub elapsed_s: f64,
    /// Key and value bytes read.
    pub bytes_in: u64,
    /// Key and value bytes emitted.
    pub bytes_out: u64,
    /// Bytes written to disk by spills and merges, compressed.
    pub spilled_bytes: u64,
    /// Peak memory of the buffers of one task, in bytes.
    pub memory_bytes_max: u64,
}

impl TaskMeasures {
    fn add(&mut self, task: &AttemptRecord) {
        self.tasks += 1;
        self.cpu_s += task.cpu_s;
        self.cpu_s_max = self.cpu_s_max.max(task.cpu_s);
        self.shuffle_cpu_s += task.shuffle_cpu_s;
        self.elapsed_s += task.ended_s - task.started_s;
        self.bytes_in += task.bytes_in;
        self.bytes_out += task.bytes_out;
        self.spilled_bytes += task.spilled_bytes;
        self.memory_bytes_max = self.memory_bytes_max.max(task.memory_bytes_max);
    }
}

/// CPU, I/O and memory of a job by kind of task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MeasuredProfile {
    /// Totals over the maps.
    pub map: TaskMeasures,
    /// Totals over the reduces.
    pub reduce: TaskMeasures,
    /// Bytes of the job's splits as the input gave them, for comparison with the next job. 0 if the
    /// input gave none, and in records of older builds.
    #[serde(default)]
    pub split_bytes: u64,
}

/// The profile applies only if the sizes of the measured and of the next input differ by at most
/// this factor, in either direction. A task has costs that do not grow with its bytes. For a job of
/// four rows these costs are all that was measured; scaled in proportion to the bytes, they would
/// make a large job seem a hundred times as long as it is.
const REACH: f64 = 10.0;

impl MeasuredProfile {
    /// Adds the measures of an attempt if its result counts.
    pub fn add(&mut self, attempt: &AttemptRecord) {
        if attempt.outcome == AttemptOutcome::Done {
            match attempt.kind {
                TaskKind::Map => self.map.add(attempt),
                TaskKind::Reduce => self.reduce.add(attempt),
            }
        }
    }

    /// Returns whether the profile applies to splits of `split_bytes` bytes in total; 0 if this
    /// size is unknown. It applies to every input of unknown size. It applies to an input of known
    /// size if the size of the measured splits is known, too, and the larger of the two sizes is at
    /// most ten times the smaller one.
    #[must_use]
    pub fn reaches(&self, split_bytes: u64) -> bool {
        match self.growth(split_bytes) {
            Some(growth) => (1.0 / REACH..=REACH).contains(&growth),
            None => split_bytes == 0,
        }
    }

    /// Returns `split_bytes` divided by the bytes of the measured splits, or `None` if one of the
    /// two is unknown.
    ///
    /// The bytes that the maps read are no substitute for the measured size: an application that
    /// reads few of many columns reads far less than the splits have.
    #[must_use]
    pub fn growth(&self, split_bytes: u64) -> Option<f64> {
        match (split_bytes, self.split_bytes) {
            (0, _) | (_, 0) => None,
            (next, measured) => Some(next as f64 / measured as f64),
        }
    }

    /// Returns estimates for the next execution, in proportion to its input: `split_bytes` bytes, 0
    /// if unknown, in `maps` maps and `reduces` reduces. For a kind of task that was not measured,
    /// returns the estimate of `otherwise`. Returns `otherwise` if the profile does not
    /// [reach](Self::reaches) this input.
    #[must_use]
    pub fn estimates(
        &self,
        split_bytes: u64,
        maps: u32,
        reduces: u32,
        otherwise: JobProfile,
    ) -> JobProfile {
        if !self.reaches(split_bytes) {
            return otherwise;
        }
        let growth = self.growth(split_bytes);
        let per_task = |measures: &TaskMeasures, tasks: u32, otherwise_s: f64| {
            let cpu_s = match growth {
                Some(growth) => measures.cpu_s * growth / f64::from(tasks.max(1)),
                None => measures.cpu_s / measures.tasks.max(1) as f64,
            };
            match cpu_s {
                cpu_s if measures.tasks > 0 && cpu_s > 0.0 => cpu_s,
                _ => otherwise_s,
            }
        };
        JobProfile {
            map_task_cpu_s: per_task(&self.map, maps, otherwise.map_task_cpu_s),
            reduce_task_cpu_s: per_task(&self.reduce, reduces, otherwise.reduce_task_cpu_s),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(kind: TaskKind, cpu_s: f64, bytes_in: u64) -> AttemptRecord {
        AttemptRecord {
            kind,
            index: 0,
            attempt: 1,
            started_s: 1.0,
            ended_s: 4.0,
            cpu_s,
            shuffle_cpu_s: cpu_s / 4.0,
            bytes_in,
            bytes_out: 1,
            spilled_bytes: 2,
            memory_bytes_max: bytes_in,
            outcome: AttemptOutcome::Done,
        }
    }

    /// Returns a profile whose splits have ten times the bytes that the maps read.
    fn measured() -> MeasuredProfile {
        let mut measured = MeasuredProfile {
            split_bytes: 4000,
            ..MeasuredProfile::default()
        };
        for (cpu_s, bytes) in [(2.0, 100), (4.0, 300)] {
            measured.add(&attempt(TaskKind::Map, cpu_s, bytes));
        }
        measured.add(&attempt(TaskKind::Reduce, 1.0, 50));
        let failed = AttemptRecord {
            outcome: AttemptOutcome::LeftBehind,
            ..attempt(TaskKind::Map, 100.0, 0)
        };
        measured.add(&failed);
        measured
    }

    /// Regression: the profile of a job with 4 rows made a job with 178,000 rows seem a hundred
    /// times as long as it was.
    #[test]
    fn a_profile_gives_no_estimate_for_inputs_of_a_very_different_size() {
        let otherwise = JobProfile::default();
        for (bytes, reaches) in [
            (0, true),
            (4000, true),
            (40_000, true),
            (40_001, false),
            (400, true),
            (399, false),
        ] {
            assert_eq!(measured().reaches(bytes), reaches, "{bytes}");
            let estimates = measured().estimates(bytes, 3, 1, otherwise);
            assert_eq!(estimates != otherwise, reaches, "{bytes}");
        }
    }

    #[test]
    fn a_record_without_split_bytes_reads_back_and_gives_no_estimate() {
        let mut json = serde_json::to_value(measured()).unwrap();
        json.as_object_mut().unwrap().remove("split_bytes");
        let old: MeasuredProfile = serde_json::from_value(json).unwrap();
        assert_eq!((old.map, old.split_bytes), (measured().map, 0));
        assert!(!old.reaches(4000));
    }

    #[test]
    fn only_attempts_that_count_are_measured() {
        let map = measured().map;
        assert_eq!((map.tasks, map.cpu_s, map.cpu_s_max), (2, 6.0, 4.0));
        assert_eq!((map.bytes_in, map.memory_bytes_max), (400, 300));
        assert_eq!((map.shuffle_cpu_s, map.elapsed_s), (1.5, 6.0));
    }

    #[test]
    fn twice_the_input_is_twice_the_work_in_any_number_of_splits() {
        let otherwise = JobProfile::default();
        let estimates = |bytes, maps, reduces| {
            let next = measured().estimates(bytes, maps, reduces, otherwise);
            (next.map_task_cpu_s, next.reduce_task_cpu_s)
        };
        assert_eq!(estimates(4000, 2, 1), (3.0, 1.0));
        assert_eq!(estimates(8000, 6, 4), (2.0, 0.5));
        assert_eq!(estimates(0, 9, 9), (3.0, 1.0), "as long as before");
        let nothing = MeasuredProfile::default();
        assert_eq!(nothing.estimates(800, 6, 4, otherwise), otherwise);
    }

    #[test]
    fn a_profile_reads_back_from_json() {
        let json = serde_json::to_string(&measured()).unwrap();
        assert_eq!(
            serde_json::from_str::<MeasuredProfile>(&json).unwrap(),
            measured()
        );
        let record = attempt(TaskKind::Reduce, 0.5, 7);
        let json = serde_json::to_string(&record).unwrap();
        assert!(json.contains(r#""outcome":{"kind":"done"}"#), "{json}");
        assert_eq!(
            serde_json::from_str::<AttemptRecord>(&json).unwrap(),
            record
        );
    }
}
