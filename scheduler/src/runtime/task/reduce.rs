//! A reduce task: merges one partition of all maps' runs, reduces each key, and writes the rows.

use crate::runtime::error::TaskError;
use crate::runtime::job::functions::Emit;
use crate::runtime::job::output::OutputWriter;
use crate::runtime::job::task_context::TaskContext;
use crate::runtime::pacing::attempt::Attempt;
use crate::runtime::shuffle::merge::{SpillDir, merge_segments};
use crate::runtime::shuffle::run::Segment;
use crate::runtime::shuffle::sorted::for_each_group;

/// Runs the reduce with the number `index` over `segments`, the segments of its partition in the
/// runs of all maps, in the order of the maps.
pub(in crate::runtime) fn run_reduce(
    job: &TaskContext,
    index: u32,
    attempt_number: u32,
    segments: Vec<Segment>,
    attempt: &Attempt<'_>,
) -> Result<(), TaskError> {
    let reducer = job
        .spec
        .reducer
        .as_deref()
        .expect("a job with reduces has a reducer");
    let directory = SpillDir::new(job, format!("reduce-{index}-{attempt_number}-"));
    attempt.set_input(segments.iter().map(|segment| segment.records).sum());
    let combiner = job.spec.combiner.as_deref();
    let memory_bytes = job.task_memory_bytes;
    let merge = || merge_segments(segments, memory_bytes, &directory, combiner, attempt);
    let mut merge = attempt.shuffle(merge)?;
    let mut emit = RowEmit::open(job, index, attempt_number, attempt)?;
    let mut groups = 0;
    let (records, bytes) = for_each_group(&mut merge, attempt, 1, |key, values| {
        groups += 1;
        reducer.reduce(key, values, &mut emit)
    })?;
    attempt.count(|counters| {
        counters.reduce_groups += groups;
        counters.reduce_input_records += records;
        counters.reduce_input_bytes += bytes;
    });
    emit.finish()
}

/// A sink that writes to the job's output.
pub(in crate::runtime) struct RowEmit<'a> {
    writer: Box<dyn OutputWriter>,
    attempt: &'a Attempt<'a>,
}

impl<'a> RowEmit<'a> {
    pub fn open(
        job: &TaskContext,
        partition: u32,
        attempt_number: u32,
        attempt: &'a Attempt<'a>,
    ) -> Result<Self, TaskError> {
        Ok(Self {
            writer: job.spec.output.open(partition, attempt_number)?,
            attempt,
        })
    }

    pub fn finish(self) -> Result<(), TaskError> {
        self.attempt.may_finish()?;
        self.writer.finish()
    }
}

impl Emit for RowEmit<'_> {
    fn emit(&mut self, key: &[u8], value: &[u8]) -> Result<(), TaskError> {
        let bytes = key.len() + value.len();
        let attempt = self.attempt;
        attempt.tick(bytes)?;
        let checkpoint = || attempt.look();
        (self.writer).write_with_checkpoints(key, value, &checkpoint)?;
        attempt.count(|counters| {
            counters.output_records += 1;
            counters.output_bytes += bytes as u64;
        });
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), TaskError> {
        self.attempt.look()
    }
}
