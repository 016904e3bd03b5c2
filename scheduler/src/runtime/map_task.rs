//! A map task: read a split, map, and either write rows (a job of maps only) or
//! leave one sorted run for the reduces.

use super::attempt::Attempt;
use super::error::TaskError;
use super::functions::Emit;
use super::merge::{SpillDir, fan_in, merge_segments, write_sorted};
use super::partitioner::Partitioner;
use super::reduce_task::RowEmit;
use super::run::{Run, RunWriter};
use super::sort_buffer::SortBuffer;
use super::state::JobContext;
use std::sync::Arc;

/// Runs map `index`; returns its run, one segment per reduce task.
pub(super) fn run_map(
    job: &JobContext,
    index: u32,
    attempt_number: u32,
    attempt: &Attempt<'_>,
) -> Result<Option<Run>, TaskError> {
    if job.spec.reducer.is_none() {
        let mut emit = RowEmit::open(job, index, attempt_number, attempt)?;
        read_and_map(job, index, attempt, &mut emit)?;
        emit.finish()?;
        return Ok(None);
    }
    // Removed with all it holds when the attempt ends, well or not.
    let directory = job.attempt_dir(&format!("map-{index}-{attempt_number}-"))?;
    let mut emit = SpillEmit {
        job,
        attempt,
        partitioner: job.partitioner.get(job, attempt)?,
        directory: SpillDir::new(directory.path()),
        // Half for the records; the other half covers vectors growing by
        // doubling, and later the blocks of a merge.
        buffer: SortBuffer::new(job.task_memory_bytes / 2),
        spills: Vec::new(),
    };
    read_and_map(job, index, attempt, &mut emit)?;
    let path = job
        .directory
        .join(format!("map-{index}-{attempt_number}.run"));
    emit.finish(path).map(Some)
}

fn read_and_map(
    job: &JobContext,
    index: u32,
    attempt: &Attempt<'_>,
    emit: &mut dyn Emit,
) -> Result<(), TaskError> {
    job.spec
        .input
        .read(&job.splits[index as usize], &mut |key, value| {
            let bytes = key.len() + value.len();
            attempt.count(|counters| {
                counters.map_input_records += 1;
                counters.map_input_bytes += bytes as u64;
            });
            attempt.tick(bytes)?;
            job.spec.mapper.map(key, value, emit)
        })
}

/// Collects the mapper's output; writes sorted runs when the buffer is full.
struct SpillEmit<'a> {
    job: &'a JobContext,
    attempt: &'a Attempt<'a>,
    partitioner: Arc<dyn Partitioner>,
    directory: SpillDir<'a>,
    buffer: SortBuffer,
    spills: Vec<Run>,
}

impl SpillEmit<'_> {
    fn spill(&mut self) -> Result<(), TaskError> {
        let run = self.write_buffer(self.directory.next_path())?;
        self.attempt.count(|counters| counters.spills += 1);
        self.spills.push(run);
        Ok(())
    }

    fn write_buffer(&mut self, path: std::path::PathBuf) -> Result<Run, TaskError> {
        self.buffer.sort(self.attempt);
        let mut writer = RunWriter::create(path)?;
        for partition in 0..self.job.spec.reduces {
            let combiner = self.job.spec.combiner.as_deref();
            write_sorted(
                &mut self.buffer.cursor(partition),
                combiner,
                &mut writer,
                self.attempt,
            )?;
            writer.end_segment()?;
        }
        self.buffer.clear();
        self.counted(writer.finish()?)
    }

    /// Sorts what is left and merges it with the spills into one run at `path`.
    fn finish(mut self, path: std::path::PathBuf) -> Result<Run, TaskError> {
        if self.spills.is_empty() {
            return self.write_buffer(path);
        }
        if !self.buffer.is_empty() {
            self.spill()?;
        }
        self.buffer = SortBuffer::new(0);
        let mut writer = RunWriter::create(path)?;
        for partition in 0..self.job.spec.reduces as usize {
            let segments = self
                .spills
                .iter()
                .map(|run| run.segments[partition].clone())
                .collect();
            let combiner = self.job.spec.combiner.as_deref();
            let fan_in = fan_in(self.job.task_memory_bytes);
            let mut merge =
                merge_segments(segments, fan_in, &self.directory, combiner, self.attempt)?;
            write_sorted(&mut merge, combiner, &mut writer, self.attempt)?;
            writer.end_segment()?;
        }
        self.counted(writer.finish()?)
    }

    fn counted(&self, run: Run) -> Result<Run, TaskError> {
        self.attempt.count(|counters| {
            counters.spilled_records += run.records;
            counters.spilled_bytes += run.bytes;
        });
        Ok(run)
    }
}

impl Emit for SpillEmit<'_> {
    fn emit(&mut self, key: &[u8], value: &[u8]) -> Result<(), TaskError> {
        let bytes = key.len() + value.len();
        self.attempt.tick(bytes)?;
        if !self.buffer.has_room(key, value) {
            self.spill()?;
        }
        let partitions = self.job.spec.reduces;
        let partition = self.partitioner.partition(key, partitions);
        if partition >= partitions {
            return Err(TaskError::failed(format!(
                "the partitioner gave {partition} of {partitions} partitions"
            )));
        }
        self.buffer.push(partition, key, value)?;
        self.attempt.count(|counters| {
            counters.map_output_records += 1;
            counters.map_output_bytes += bytes as u64;
        });
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), TaskError> {
        self.attempt.look()
    }
}
