//! A map task: reads a split, maps it, and either writes rows (in a job of maps only) or leaves
//! sorted runs for the reduces.
//!
//! The map fills a buffer with four fifths of the task's memory and then spills it, sorted and
//! combined, before it goes on. Hadoop's threshold of 80% has another reason: there a second thread
//! spills while the map fills the rest. Here a task is one thread that is paced and tied to a core
//! as one; while it writes, the other tasks use the other cores. The last fifth is the memory for
//! writing: a block, raw and compressed.

use super::reduce::RowEmit;
use crate::runtime::error::TaskError;
use crate::runtime::job::functions::Emit;
use crate::runtime::job::input::Split;
use crate::runtime::job::partitioner::Partitioner;
use crate::runtime::job::task_context::TaskContext;
use crate::runtime::pacing::attempt::Attempt;
use crate::runtime::shuffle::merge::{SpillDir, merge_segments, write_sorted};
use crate::runtime::shuffle::run::{Run, RunWriter, check_record_bytes};
use crate::runtime::shuffle::sort_buffer::{CombineOutcome, SortBuffer};
use std::path::PathBuf;
use std::sync::Arc;

/// The most runs that a map leaves. A map with more merges them into one, because each reduce has
/// to merge the runs of all maps.
const RUNS_MAX: usize = 16;

/// A map task, and the number of an attempt at it.
pub(in crate::runtime) struct MapWork<'a> {
    /// The task's number among the maps.
    pub index: u32,
    /// The attempt's number, from 1.
    pub attempt: u32,
    pub split: &'a Split,
    pub partitioner: Arc<dyn Partitioner>,
}

/// Runs a map. Returns its runs in the order of emission, each with one segment per reduce task;
/// none in a job of maps only, whose rows go to the output.
pub(in crate::runtime) fn run_map(
    job: &TaskContext,
    map: MapWork<'_>,
    attempt: &Attempt<'_>,
) -> Result<Vec<Run>, TaskError> {
    let MapWork {
        index,
        attempt: attempt_number,
        split,
        partitioner,
    } = map;
    if job.spec.reducer.is_none() {
        let mut emit = RowEmit::open(job, index, attempt_number, attempt)?;
        read_and_map(job, split, attempt, &mut emit)?;
        emit.finish()?;
        return Ok(Vec::new());
    }
    let mut emit = SpillEmit {
        job,
        attempt,
        partitioner,
        directory: SpillDir::new(job, format!("map-{index}-{attempt_number}-")),
        buffer: SortBuffer::new(job.task_memory_bytes / 5 * 4),
        spills: Vec::new(),
    };
    read_and_map(job, split, attempt, &mut emit)?;
    let path = |n: usize| {
        let name = format!("map-{index}-{attempt_number}-{n}.run");
        job.directory.join(name)
    };
    attempt.shuffle(|| emit.finish(path))
}

fn read_and_map(
    job: &TaskContext,
    split: &Split,
    attempt: &Attempt<'_>,
    emit: &mut dyn Emit,
) -> Result<(), TaskError> {
    attempt.set_input(split.bytes);
    let mut record = |key: &[u8], value: &[u8]| {
        let bytes = (key.len() + value.len()) as u64;
        attempt.count(|counters| {
            counters.map_input_records += 1;
            counters.map_input_bytes += bytes;
        });
        attempt.read(bytes as usize)?;
        job.spec.mapper.map(key, value, emit)?;
        attempt.add_handled(bytes);
        Ok(())
    };
    let input = &job.spec.input;
    input.read_with_checkpoints(split, &mut record, &|| attempt.tick(0))
}

/// A sink that collects the mapper's output, and writes sorted runs when the buffer is full.
struct SpillEmit<'a> {
    job: &'a TaskContext,
    attempt: &'a Attempt<'a>,
    partitioner: Arc<dyn Partitioner>,
    directory: SpillDir<'a>,
    buffer: SortBuffer,
    spills: Vec<Run>,
}

impl SpillEmit<'_> {
    fn spill(&mut self) -> Result<(), TaskError> {
        let run = self.write_buffer(self.directory.next_path()?)?;
        self.attempt.count(|counters| counters.spills += 1);
        self.spills.push(run);
        self.buffer.restart();
        Ok(())
    }

    fn spill_here(&mut self) -> Result<(), TaskError> {
        let attempt = self.attempt;
        attempt.shuffle(|| self.spill())
    }

    fn write_buffer(&mut self, path: PathBuf) -> Result<Run, TaskError> {
        self.attempt.set_memory_bytes(self.buffer.allocated_bytes());
        self.buffer.sort(self.attempt);
        let mut writer = self.run_writer(path);
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
        Ok(self.count_run(writer.finish()))
    }

    fn run_writer(&self, path: PathBuf) -> RunWriter {
        let job = self.job;
        RunWriter::new(path, job.task_memory_bytes, &job.spill_space)
    }

    /// Writes the rest of the buffer as a sorted run. Returns all runs, at the paths that `path`
    /// returns for their numbers.
    ///
    /// Spills are merged only if a combiner makes them smaller, or if there are too many. Otherwise
    /// a merge would not pay: it writes all records once more, which costs at least as much as it
    /// saves the reduce tasks.
    fn finish(mut self, path: impl Fn(usize) -> PathBuf) -> Result<Vec<Run>, TaskError> {
        if self.spills.is_empty() {
            return Ok(vec![self.write_buffer(path(0))?]);
        }
        if !self.buffer.is_empty() {
            self.spill()?;
        }
        if self.spills.len() > RUNS_MAX || self.job.spec.combiner.is_some() {
            return Ok(vec![self.merge_spills(path(0))?]);
        }
        for (n, run) in self.spills.iter_mut().enumerate() {
            run.move_to(path(n))?;
        }
        Ok(self.spills)
    }

    fn merge_spills(&mut self, path: PathBuf) -> Result<Run, TaskError> {
        // Its memory is needed for the merge.
        self.buffer = SortBuffer::new(0);
        let mut writer = self.run_writer(path);
        for partition in 0..self.job.spec.reduces as usize {
            let segments = self
                .spills
                .iter()
                .map(|run| run.segments[partition].clone())
                .collect();
            let combiner = self.job.spec.combiner.as_deref();
            let memory_bytes = self.job.task_memory_bytes;
            let mut merge = merge_segments(
                segments,
                memory_bytes,
                &self.directory,
                combiner,
                self.attempt,
            )?;
            write_sorted(&mut merge, combiner, &mut writer, self.attempt)?;
            writer.end_segment()?;
        }
        Ok(self.count_run(writer.finish()))
    }

    fn count_run(&self, run: Run) -> Run {
        self.attempt.count(|counters| {
            counters.spilled_records += run.records;
            counters.spilled_bytes += run.bytes;
        });
        run
    }
}

impl Emit for SpillEmit<'_> {
    fn emit(&mut self, key: &[u8], value: &[u8]) -> Result<(), TaskError> {
        let bytes = key.len() + value.len();
        self.attempt.tick(bytes)?;
        check_record_bytes(bytes, self.job.task_memory_bytes)?;
        self.attempt.count(|counters| {
            counters.map_output_records += 1;
            counters.map_output_bytes += bytes as u64;
        });
        let job = self.job;
        let partitions = job.spec.reduces;
        let partition = self.partitioner.partition(key, partitions);
        if partition >= partitions {
            return Err(TaskError::failed(format!(
                "the partitioner gave {partition} of {partitions} partitions"
            )));
        }
        let mut vacancy = None;
        if let Some(combiner) = job.spec.in_place_combiner.as_deref() {
            let mut combined = self.buffer.combine(partition, key, value, combiner);
            let is_full = match combined {
                CombineOutcome::Apart(_) => !self.buffer.has_room(bytes),
                CombineOutcome::Full => true,
                CombineOutcome::Done => return Ok(()),
            };
            if is_full {
                self.spill_here()?;
                combined = self.buffer.combine(partition, key, value, combiner);
            }
            if let CombineOutcome::Apart(at) = combined {
                vacancy = at;
            }
        } else if !self.buffer.has_room(bytes) {
            self.spill_here()?;
        }
        if self.buffer.push(partition, key, value)? {
            self.attempt.set_memory_bytes(self.buffer.allocated_bytes());
        }
        if let Some(vacancy) = vacancy {
            self.buffer.index_last(vacancy);
        }
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), TaskError> {
        self.attempt.look()
    }
}
