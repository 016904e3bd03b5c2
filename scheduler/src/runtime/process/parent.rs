//! An attempt whose work a process does, from the side of its thread in the parent.

use super::frame::for_each_row;
use super::message::{
    Order, SegmentDescription, TaskEnd, TaskResult, ToChild, ToParent, Use, Work,
};
use super::pool::{FromChild, Pool, Process};
use crate::model::{TaskId, TaskKind};
use crate::runtime::error::TaskError;
use crate::runtime::job::output::OutputWriter;
use crate::runtime::job::partitioner::RangePartitioner;
use crate::runtime::job_entry::{DutyResult, JobContext};
use crate::runtime::pacing::attempt::Attempt;
use crate::runtime::pacing::attempt_state::AttemptState;
use crate::runtime::shuffle::run::Segment;
use std::sync::Arc;

/// A bound above the bytes that a process can read between two reports, which are 4 ms or one
/// record apart. The reads of all jobs are paced together, so no process may claim an arbitrary
/// amount.
const READ_BYTES_MAX: u64 = 1 << 30;

/// Runs an attempt at `task`, with the attempt number `number`, in a process of `pool`. `segments`
/// are the input of a reduce. The process is kept for the next task if it carries out this one, and
/// killed otherwise.
///
/// # Errors
/// The errors of a task on a thread, and an error if the process ends or sends an invalid message.
pub(in crate::runtime) fn run_in_process(
    (job, pool): (&JobContext, &Pool),
    (task, number): (TaskId, u32),
    segments: &[Segment],
    attempt_state: &Arc<AttemptState>,
    attempt: &Attempt<'_>,
) -> Result<DutyResult, TaskError> {
    // Before the first wait for a process: from now on, if the attempt hangs, the runtime stops it and
    // kills the process, and need not give up this thread.
    attempt_state.set_in_process();
    let mut keep_waiting = || is_needed(job, attempt_state);
    let mut exchange = Exchange {
        process: pool.take(attempt_state.is_on_floor(), &mut keep_waiting)?,
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
            // The first attempt of a global sort samples the keys in its process; the others wait.
            cuts: job
                .ranges(attempt_state, |plan| exchange.sample(Work::Sample(plan)))?
                .map(|ranges| ranges.cuts().to_vec()),
        },
        TaskKind::Reduce => Work::Reduce {
            index,
            attempt: number,
            segments: (segments.iter().map(SegmentDescription::new)).collect::<Result<_, _>>()?,
        },
    };
    // A map of a job with reduces leaves its rows in runs.
    let spec = &job.task.spec;
    if task.kind == TaskKind::Reduce || spec.reducer.is_none() {
        exchange.writer = Some(spec.output.open(index, number)?);
    }
    let done = exchange.task(work)?;
    let segments = match task.kind {
        TaskKind::Map => spec.reduces,
        TaskKind::Reduce => 0,
    };
    // Before the attempt may finish: the commit reads the notes of all tasks whose rows count.
    if let Some(notes) = &spec.notes {
        notes.add(&done.notes)?;
    }
    let parts = done.into_parts(&job.task.directory, segments);
    let (counters, runs) = parts.map_err(TaskError::failed)?;
    let Exchange {
        process, writer, ..
    } = exchange;
    // The process has done its part, and may serve another attempt while the output is sealed.
    pool.give_back(process);
    if let Some(writer) = writer {
        // From here on the attempt does not wait for the job's own code.
        attempt.may_finish()?;
        writer.finish()?;
    }
    Ok(DutyResult { counters, runs })
}

/// Returns whether the result of the attempt is still needed: neither the attempt was stopped nor
/// the job cancelled.
fn is_needed(job: &JobContext, attempt_state: &AttemptState) -> bool {
    !attempt_state.is_stopped() && !job.pacer.is_cancelled()
}

/// The exchange of messages between one attempt and its process.
struct Exchange<'a> {
    process: Process,
    job: &'a JobContext,
    attempt_state: &'a AttemptState,
    attempt: &'a Attempt<'a>,
    /// The writer of the attempt's rows, if the task has any.
    writer: Option<Box<dyn OutputWriter>>,
    /// The size of the part of the attempt's input that the process has handled, by its last
    /// report: bytes of a map, records of a reduce; 0 before the first report.
    handled: u64,
}

impl Exchange<'_> {
    fn sample(&mut self, work: Work) -> Result<RangePartitioner, TaskError> {
        match self.order(work)? {
            TaskEnd::Cuts(cuts) => Ok(RangePartitioner::new(cuts)),
            _ => Err(unexpected_message()),
        }
    }

    fn task(&mut self, work: Work) -> Result<TaskResult, TaskError> {
        match self.order(work)? {
            TaskEnd::Done(done) => Ok(*done),
            _ => Err(unexpected_message()),
        }
    }

    /// Sends an order, and handles the messages of the process until it has carried out the order.
    fn order(&mut self, work: Work) -> Result<TaskEnd, TaskError> {
        let task = &self.job.task;
        let memory_bytes = task.task_memory_bytes;
        let order = Order::new(
            (self.attempt_state.core(), self.process.is_on_floor),
            &task.directory,
            memory_bytes,
            task.spill_space.reserve_bytes(),
            work,
        );
        self.send_message(&ToChild::Order(Box::new(order)))?;
        self.handled = 0;
        loop {
            let (job, attempt_state, attempt) = (self.job, self.attempt_state, self.attempt);
            let Process { line, meter, .. } = &mut self.process;
            // A process that sends no message still uses CPU.
            let mut keep_waiting = || {
                attempt.pay(meter.take_counted_s(), 0);
                is_needed(job, attempt_state)
            };
            let message = match line.receive_message(&mut keep_waiting)? {
                FromChild::Message(message) => message,
                FromChild::Rows(rows) => {
                    let writer = self.writer.as_mut().ok_or_else(unexpected_message)?;
                    let checkpoint = || attempt.look();
                    for_each_row(rows, |key, value| {
                        writer.write_with_checkpoints(key, value, &checkpoint)
                    })?;
                    attempt.look()?;
                    continue;
                }
            };
            attempt_state.step();
            match message {
                ToParent::Used(used) => {
                    self.record_use(used)?;
                    attempt.settle()?;
                    // The thread has moved to the present class of tasks, and its process follows.
                    let lowers = self.process.is_on_floor && !attempt_state.is_on_floor();
                    self.process.is_on_floor &= !lowers;
                    self.send_message(&ToChild::GoOn { lowers })?;
                }
                ToParent::TaskEnd(used, ended) => {
                    self.record_use(used)?;
                    return match ended {
                        TaskEnd::Failed(failure) => Err(failure.error()),
                        ended => Ok(ended),
                    };
                }
            }
        }
    }

    fn send_message(&mut self, message: &ToChild) -> Result<(), TaskError> {
        let (job, attempt_state) = (self.job, self.attempt_state);
        let mut keep_waiting = || is_needed(job, attempt_state);
        self.process.line.send_message(message, &mut keep_waiting)
    }

    fn record_use(&mut self, used: Use) -> Result<(), TaskError> {
        if used.read_bytes > READ_BYTES_MAX {
            return Err(unexpected_message());
        }
        let unpaid_s = self.process.meter.take_unpaid_s(used.cpu_ns);
        self.attempt.pay(unpaid_s, used.read_bytes);
        let task_memory_bytes = self.job.task.task_memory_bytes as u64;
        (self.attempt_state).set_memory_bytes(used.memory_bytes.min(task_memory_bytes));
        self.attempt.set_input(used.input);
        let handled = used.handled.saturating_sub(self.handled);
        self.handled += handled;
        self.attempt.add_handled(handled);
        Ok(())
    }
}

fn unexpected_message() -> TaskError {
    TaskError::failed("the process of the task sent an unexpected message")
}
