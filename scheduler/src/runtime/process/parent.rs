//! An attempt whose work a process does, as its thread in the parent sees it.

use super::frame::for_each_row;
use super::message::{Ended, Order, SegmentDescription, TaskResult, ToChild, ToParent, Use, Work};
use super::pool::{Pool, Process, Said};
use crate::model::{TaskId, TaskKind};
use crate::runtime::error::TaskError;
use crate::runtime::job::output::OutputWriter;
use crate::runtime::job::partitioner::RangePartitioner;
use crate::runtime::job_entry::{Done, JobContext};
use crate::runtime::pacing::attempt::Attempt;
use crate::runtime::pacing::attempt_state::AttemptState;
use crate::runtime::shuffle::run::Segment;

/// More than a process can read between two reports, which are 4 ms apart, or a record.
/// All jobs together are paced by what is read, so one must not claim anything.
const READ_BYTES_MAX: u64 = 1 << 30;

/// Runs an attempt, with its number, at a task in a process of `pool`. `segments` are a
/// reduce's input. The process is kept for the next task if all went well, and killed
/// otherwise.
///
/// # Errors
/// As a task on a thread, and when the process ends.
pub(in crate::runtime) fn run_in_process(
    (job, pool): (&JobContext, &Pool),
    (task, number): (TaskId, u32),
    segments: &[Segment],
    attempt_state: &AttemptState,
    attempt: &Attempt<'_>,
) -> Result<Done, TaskError> {
    attempt_state.set_in_process();
    let mut goes_on = || goes_on(job, attempt_state);
    let mut talk = Talk {
        process: pool.take(attempt_state.is_on_floor(), &mut goes_on)?,
        job,
        attempt_state,
        attempt,
        writer: None,
        handled: 0,
    };
    let index = task.index;
    let work = match task.kind {
        TaskKind::Map => Work::Map {
            index,
            attempt: number,
            split: job.splits()[index as usize].clone(),
            cuts: job
                .ranges(attempt_state, |plan| talk.sample(Work::Sample(plan)))?
                .map(|ranges| ranges.cuts().to_vec()),
        },
        TaskKind::Reduce => Work::Reduce {
            index,
            attempt: number,
            segments: (segments.iter().map(SegmentDescription::new)).collect::<Result<_, _>>()?,
        },
    };
    let spec = &job.task.spec;
    if task.kind == TaskKind::Reduce || spec.reducer.is_none() {
        talk.writer = Some(spec.output.open(index, number)?);
    }
    let done = talk.task(work)?;
    let segments = match task.kind {
        TaskKind::Map => spec.reduces,
        TaskKind::Reduce => 0,
    };
    if let Some(notes) = &spec.notes {
        notes.add(&done.notes)?;
    }
    let told = done.into_parts(&job.task.directory, segments);
    let (counters, runs) = told.map_err(TaskError::failed)?;
    let Talk {
        process, writer, ..
    } = talk;
    pool.give_back(process);
    if let Some(writer) = writer {
        // From here on nothing of the job's own code is waited for.
        attempt.may_finish()?;
        writer.finish()?;
    }
    Ok(Done { counters, runs })
}

/// Whether anybody still wants the result.
fn goes_on(job: &JobContext, attempt_state: &AttemptState) -> bool {
    !attempt_state.is_stopped() && !job.pacer.is_cancelled()
}

/// One attempt's talk with its process.
struct Talk<'a> {
    process: Process,
    job: &'a JobContext,
    attempt_state: &'a AttemptState,
    attempt: &'a Attempt<'a>,
    /// Where its rows go, if it is to have any.
    writer: Option<Box<dyn OutputWriter>>,
    /// What it has handled of its input.
    handled: u64,
}

impl Talk<'_> {
    fn sample(&mut self, work: Work) -> Result<RangePartitioner, TaskError> {
        match self.order(work)? {
            Ended::Cuts(cuts) => Ok(RangePartitioner::new(cuts)),
            _ => Err(astray()),
        }
    }

    fn task(&mut self, work: Work) -> Result<TaskResult, TaskError> {
        match self.order(work)? {
            Ended::Done(done) => Ok(*done),
            _ => Err(astray()),
        }
    }

    /// Gives an order and does what the process asks for until it has carried it out.
    fn order(&mut self, work: Work) -> Result<Ended, TaskError> {
        let task = &self.job.task;
        let memory_bytes = task.task_memory_bytes;
        let order = Order::new(
            (self.attempt_state.core(), self.process.is_on_floor),
            &task.directory,
            memory_bytes,
            work,
        );
        self.tell(&ToChild::Order(Box::new(order)))?;
        self.handled = 0;
        loop {
            let (job, attempt_state, attempt) = (self.job, self.attempt_state, self.attempt);
            let Process { line, meter, .. } = &mut self.process;
            // One that says nothing uses CPU all the same.
            let mut goes_on = || {
                attempt.pay(meter.take_counted_s(), 0);
                goes_on(job, attempt_state)
            };
            let message = match line.listen(&mut goes_on)? {
                Said::Message(message) => message,
                Said::Rows(rows) => {
                    let writer = self.writer.as_mut().ok_or_else(astray)?;
                    for_each_row(rows, |key, value| writer.write(key, value))?;
                    attempt.look()?;
                    continue;
                }
            };
            attempt_state.step();
            match message {
                ToParent::Used(used) => {
                    self.note(used)?;
                    attempt.settle()?;
                    // The thread has followed the class of tasks, and its process follows it.
                    let lowers = self.process.is_on_floor && !attempt_state.is_on_floor();
                    self.process.is_on_floor &= !lowers;
                    self.tell(&ToChild::GoOn { lowers })?;
                }
                ToParent::Ended(used, ended) => {
                    self.note(used)?;
                    return match ended {
                        Ended::Failed(failure) => Err(failure.error()),
                        ended => Ok(ended),
                    };
                }
            }
        }
    }

    fn tell(&mut self, message: &ToChild) -> Result<(), TaskError> {
        let (job, attempt_state) = (self.job, self.attempt_state);
        let mut goes_on = || goes_on(job, attempt_state);
        self.process.line.tell(message, &mut goes_on)
    }

    fn note(&mut self, used: Use) -> Result<(), TaskError> {
        if used.read_bytes > READ_BYTES_MAX {
            return Err(astray());
        }
        let unpaid_s = self.process.meter.take_unpaid_s(used.cpu_ns);
        self.attempt.pay(unpaid_s, used.read_bytes);
        let task_memory_bytes = self.job.task.task_memory_bytes as u64;
        (self.attempt_state).set_memory_bytes(used.memory_bytes.min(task_memory_bytes));
        self.attempt.set_input(used.input);
        let handled = used.handled.saturating_sub(self.handled);
        self.handled += handled;
        self.attempt.handled(handled);
        Ok(())
    }
}

fn astray() -> TaskError {
    TaskError::failed("the process of the task said what it was not asked for")
}
