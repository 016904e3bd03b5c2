//! The "ebb-task" threads, which carry out assignments until there are none left, and the
//! "ebb-commit" threads, one for each commit.

use super::error::TaskError;
use super::job_entry::{Assignment, Duty, DutyResult};
use super::pacing::attempt::Attempt;
use super::panics::catch;
use super::process::run_in_process;
use super::state::Shared;
use super::task::map::{MapWork, run_map};
use super::task::reduce::run_reduce;
use crate::model::TaskKind;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Starts a thread that carries out `assignment` first. If the system cannot start a thread, the
/// attempt at a task fails, and any other assignment is carried out on the calling thread.
///
/// A commit gets a thread of its own, of ordinary priority: it may write to the same places as
/// transactions, and must not lose its core while transactions wait for it to end. A thread
/// inherits the class of the thread that starts it, so only a thread of ordinary priority may call
/// this.
pub(super) fn spawn(shared: &Arc<Shared>, assignment: Assignment) {
    let commits = matches!(assignment.duty, Duty::Commit);
    // A failed spawn drops its closure, so the assignment is kept outside of it.
    let number = shared.last_worker.fetch_add(1, Ordering::Relaxed) + 1;
    let slot = Arc::new(Mutex::new(Some(assignment)));
    let take = |slot: &Mutex<Option<Assignment>>| {
        slot.lock().unwrap_or_else(PoisonError::into_inner).take()
    };
    let spawned = {
        let (shared, slot) = (Arc::clone(shared), Arc::clone(&slot));
        let name = if commits { "ebb-commit" } else { "ebb-task" };
        let body = move || match take(&slot) {
            Some(assignment) if commits => {
                carry_out(&shared, assignment);
            }
            Some(assignment) => work(&shared, assignment, number),
            None => {}
        };
        thread::Builder::new().name(name.to_owned()).spawn(body)
    };
    match spawned {
        Ok(worker) => {
            shared.lock().workers.insert(number, worker);
        }
        Err(source) => {
            let assignment = take(&slot).expect("the thread did not start");
            match assignment.duty {
                Duty::Task { .. } => {
                    let error = TaskError::io("starting a task's thread")(source);
                    shared.finish(&assignment.context, &assignment.duty, Err(error));
                }
                Duty::Split | Duty::Commit | Duty::Abort => {
                    carry_out(shared, assignment);
                }
            }
        }
    }
}

/// Carries out assignments on the calling thread, from `assignment` on. Ends when there are none
/// left, when tasks run in a class that this thread cannot enter, or when the runtime has given up
/// this thread because its attempt seemed to hang. `number` is the number of the thread.
fn work(shared: &Arc<Shared>, assignment: Assignment, number: u64) {
    let options = &shared.options;
    let lowered = options.lowers_tasks();
    let mut is_on_floor = assignment.is_on_floor;
    shared.class_of_tasks.enter(is_on_floor);
    let mut next = Some(assignment);
    while let Some(assignment) = next {
        let place = || lowered.then(|| shared.cores.take(assignment.context.id));
        match &assignment.duty {
            Duty::Commit => shared.queue_commit(assignment),
            Duty::Split | Duty::Abort => {
                let _place = place();
                carry_out(shared, assignment);
            }
            Duty::Task { attempt_state, .. } => {
                let attempt_state = Arc::clone(attempt_state);
                attempt_state.set_worker(number);
                attempt_state.keep_place(place());
                let goes_on = carry_out(shared, assignment);
                attempt_state.keep_place(None);
                if !goes_on {
                    return;
                }
                is_on_floor = attempt_state.is_on_floor();
            }
        }
        is_on_floor = shared.class_of_tasks.follow(is_on_floor);
        let now_s = shared.clock.now_s();
        let mut state = shared.lock();
        next = if is_on_floor == state.is_on_floor() {
            state.claim(options, now_s)
        } else {
            // Tasks run in a class that this thread cannot enter: another thread has to start.
            shared.kick(&mut state);
            None
        };
    }
}

/// Carries out an assignment and records its result. Returns false if the runtime gave up this
/// thread meanwhile because its attempt seemed to hang.
fn carry_out(shared: &Shared, mut assignment: Assignment) -> bool {
    // A panic may leave the state of user code inconsistent. The attempt's state is dropped, and
    // the job's state changes only with the result.
    let result = catch(|| execute(shared, &mut assignment));
    let result = result.unwrap_or_else(|message| Err(TaskError::Panicked(message)));
    shared.finish(&assignment.context, &assignment.duty, result)
}

/// Carries out an assignment on the calling thread. If the job has processes for its tasks, a task
/// runs in one of them.
fn execute(shared: &Shared, assignment: &mut Assignment) -> Result<DutyResult, TaskError> {
    let context = &*assignment.context;
    // Only a commit or an abort, which comes after the last task, brings the spill directory: it is
    // removed whether the commit succeeds or not.
    drop(assignment.directory.take());
    // No task follows, so the idle processes of the job have nothing more to do.
    if let (Duty::Commit | Duty::Abort, Some(pool)) = (&assignment.duty, &context.pool) {
        pool.end();
    }
    match &mut assignment.duty {
        Duty::Task {
            task,
            attempt: number,
            attempt_state,
            segments,
        } => {
            // A second attempt at a slow task may run at the same time. Only one of the two may put
            // its output in place.
            let may_finish = || shared.may_finish(*task, *number);
            let attempt = Attempt::start(&*context.pacer, attempt_state, &may_finish)?;
            if let Some(pool) = &context.pool {
                return run_in_process(
                    (context, pool),
                    (*task, *number),
                    segments,
                    attempt_state,
                    &attempt,
                );
            }
            let runs = match task.kind {
                TaskKind::Map => {
                    let job = &context.task;
                    let ranges =
                        context.ranges(attempt_state, |plan| plan.ranges(job, &attempt))?;
                    let map = MapWork {
                        index: task.index,
                        attempt: *number,
                        split: &context.splits()[task.index as usize],
                        partitioner: job.spec.partitioning.with(ranges)?,
                    };
                    run_map(job, map, &attempt)?
                }
                TaskKind::Reduce => {
                    let segments = std::mem::take(segments);
                    run_reduce(&context.task, task.index, *number, segments, &attempt)?;
                    // Runs are the input of reduces: only maps make them.
                    Vec::new()
                }
            };
            Ok(DutyResult {
                counters: attempt.counters(),
                runs,
            })
        }
        Duty::Split => {
            let splits = context.task.spec.input.splits()?;
            // There is one such duty per job, so the splits are not set yet, and `set` cannot fail.
            let _ = context.splits.set(splits);
            Ok(DutyResult::default())
        }
        Duty::Commit => context
            .task
            .spec
            .output
            .commit()
            .map(|()| DutyResult::default()),
        Duty::Abort => {
            context.task.spec.output.abort();
            Ok(DutyResult::default())
        }
    }
}
