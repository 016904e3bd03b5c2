//! The tasks of one kind, and the attempts at them.

use super::speculation::{Pace, speculative_max, starved, straggler};
use crate::model::TaskState;
use crate::runtime::pacing::attempt_state::AttemptState;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// The least estimate of a task, in seconds of CPU: a task whose CPU time rounds to zero is still
/// work.
const TASK_CPU_S_MIN: f64 = 1e-6;

#[derive(Clone, Debug, Default)]
pub(in crate::runtime) struct Slot {
    pub state: TaskState,
    /// The number of attempts at the task that were started.
    attempts: u32,
    /// The number of attempts at the task that failed.
    pub failures: u32,
    /// The number of the one attempt that may finish the output; `None` if no running attempt has
    /// this permission.
    pub finishing: Option<u32>,
}

/// A running attempt.
#[derive(Debug)]
pub(in crate::runtime) struct RunningAttempt {
    pub state: Arc<AttemptState>,
    pub started_s: f64,
    /// The time since the start of the attempt during which its job had no share, in seconds; up to
    /// the last call of `watch`.
    paused_s: f64,
    /// The time in which the attempt could run but made no progress, in seconds; since its last
    /// progress, up to the last call of `watch`.
    still_s: f64,
    steps_seen: u64,
    /// True if the attempt was stopped so that other attempts get its memory.
    pub is_preempted: bool,
}

/// A running attempt that was not stopped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::runtime) struct ActiveAttempt {
    pub index: u32,
    pub attempt: u32,
    pub started_s: f64,
    /// True if the attempt has the permission to finish its output; then it cannot be preempted.
    pub is_finishing: bool,
}

impl RunningAttempt {
    /// Returns the time from the start of the attempt to `now_s`, in seconds, without the time in
    /// which its job had no share of the CPU.
    fn running_s(&self, now_s: f64) -> f64 {
        (now_s - self.started_s - self.paused_s).max(0.0)
    }
}

#[derive(Debug)]
pub(in crate::runtime) struct TaskSet {
    pub slots: Vec<Slot>,
    pub pending: VecDeque<u32>,
    /// The running attempts, by task number and attempt number.
    running: BTreeMap<(u32, u32), RunningAttempt>,
    pub done: u32,
    done_cpu_s: f64,
    done_running_s: f64,
    estimate_cpu_s: f64,
    /// The number of the task that should get the next second attempt; `None` if no task should.
    pub straggler: Option<u32>,
}

impl TaskSet {
    pub fn new(n: u32, estimate_cpu_s: f64) -> Self {
        Self {
            slots: vec![Slot::default(); n as usize],
            pending: (0..n).collect(),
            running: BTreeMap::new(),
            done: 0,
            done_cpu_s: 0.0,
            done_running_s: 0.0,
            estimate_cpu_s,
            straggler: None,
        }
    }

    pub fn total(&self) -> u32 {
        self.slots.len() as u32
    }

    pub fn is_done(&self) -> bool {
        self.done == self.total()
    }

    pub fn has_started(&self) -> bool {
        self.slots.iter().any(|slot| slot.attempts > 0)
    }

    /// Returns the number of running attempts.
    pub fn running(&self) -> u32 {
        self.running.len() as u32
    }

    /// Returns the number of running attempts on the floor: in the ordinary class, with a high nice
    /// value.
    pub fn running_on_floor(&self) -> u32 {
        let on_floor = self.attempt_states().filter(|state| state.is_on_floor());
        on_floor.count() as u32
    }

    pub fn attempt_states(&self) -> impl Iterator<Item = &Arc<AttemptState>> {
        self.running.values().map(|running| &running.state)
    }

    /// Returns the CPU time used by each running task, in seconds. For a task with two running
    /// attempts, it is that of the attempt which has used more.
    pub fn running_cpu_s(&self) -> Vec<f64> {
        let mut by_task: BTreeMap<u32, f64> = BTreeMap::new();
        for ((index, _), running) in &self.running {
            let used_s = by_task.entry(*index).or_default();
            *used_s = used_s.max(running.state.used_s());
        }
        by_task.into_values().collect()
    }

    /// Returns the mean CPU time of finished tasks, in seconds. Before the first task has finished,
    /// returns the estimate, or the most that a running task has used so far, if that is more.
    pub fn mean_cpu_s(&self) -> f64 {
        let mean = if self.done > 0 {
            self.done_cpu_s / f64::from(self.done)
        } else {
            (self.running_cpu_s().into_iter()).fold(self.estimate_cpu_s, f64::max)
        };
        mean.max(TASK_CPU_S_MIN)
    }

    /// Starts an attempt at the next pending task. Returns the task's number, the attempt's number
    /// and its state; `None` if no task is pending.
    pub fn start(&mut self, now_s: f64) -> Option<(u32, u32, Arc<AttemptState>)> {
        let index = self.pending.pop_front()?;
        debug_assert_eq!(self.slots[index as usize].state, TaskState::Pending);
        Some(self.start_attempt(index, now_s))
    }

    /// Starts an attempt for a thread of the caller that enters a lease: at a task that another
    /// thread has left, or else at a new task. Returns the task's number, the attempt's number and
    /// its state.
    pub fn enter(&mut self, now_s: f64) -> (u32, u32, Arc<AttemptState>) {
        let index = self.pending.pop_front().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.total() - 1
        });
        self.start_attempt(index, now_s)
    }

    /// Ends the attempt of a thread that leaves the lease to which these tasks belong. A lease's
    /// task only stands for a thread: it is pending again until the next thread enters.
    pub fn leave(&mut self, index: u32, attempt: u32) {
        if let Some(gone) = self.stop(index, attempt) {
            self.done_cpu_s += gone.state.used_s();
            self.put_back(index);
        }
    }

    /// Returns the CPU time of all attempts started by `enter`, in seconds.
    pub fn used_cpu_s(&self) -> f64 {
        self.done_cpu_s + self.running_cpu_s().iter().sum::<f64>()
    }

    /// Starts a second attempt at the straggler, the slow task that was chosen for one. Returns the
    /// task's number, the attempt's number and its state; `None` if there is no straggler, or if it
    /// does not have exactly one running attempt.
    pub fn start_speculative(&mut self, now_s: f64) -> Option<(u32, u32, Arc<AttemptState>)> {
        let index = self.straggler.take()?;
        (self.attempts_at(index) == 1).then(|| self.start_attempt(index, now_s))
    }

    fn start_attempt(&mut self, index: u32, now_s: f64) -> (u32, u32, Arc<AttemptState>) {
        let slot = &mut self.slots[index as usize];
        slot.state = TaskState::Running;
        // A lease may have more attempts than fit in the number; 0 stands for none.
        slot.attempts = slot.attempts.wrapping_add(1).max(1);
        let attempt_state = Arc::new(AttemptState::default());
        let running = RunningAttempt {
            state: Arc::clone(&attempt_state),
            started_s: now_s,
            paused_s: 0.0,
            still_s: 0.0,
            steps_seen: 0,
            is_preempted: false,
        };
        self.running.insert((index, slot.attempts), running);
        (index, slot.attempts, attempt_state)
    }

    /// Returns whether the attempt runs and has not been removed by `stop`.
    pub fn is_running(&self, index: u32, attempt: u32) -> bool {
        self.running.contains_key(&(index, attempt))
    }

    /// Returns the number of running attempts at the task.
    pub fn attempts_at(&self, index: u32) -> usize {
        self.running.range((index, 0)..=(index, u32::MAX)).count()
    }

    /// Removes an attempt that has ended, or is given up, from the running ones and returns it;
    /// `None` if it was removed before.
    pub fn stop(&mut self, index: u32, attempt: u32) -> Option<RunningAttempt> {
        let running = self.running.remove(&(index, attempt))?;
        let slot = &mut self.slots[index as usize];
        slot.finishing = slot.finishing.filter(|finishing| *finishing != attempt);
        Some(running)
    }

    /// Counts the task with the number `index` as done by `winner`, and stops the other attempts at
    /// it. Returns whether there were other attempts.
    pub fn win(&mut self, index: u32, winner: &RunningAttempt, now_s: f64) -> bool {
        self.slots[index as usize].state = TaskState::Done;
        self.done += 1;
        self.done_cpu_s += winner.state.used_s();
        self.done_running_s += winner.running_s(now_s);
        let others = self.running.range((index, 0)..=(index, u32::MAX));
        others.clone().for_each(|(_, other)| other.state.stop());
        others.count() > 0
    }

    /// Makes a task pending again if it was running and has no attempt left. Returns whether it
    /// did: false if the task has succeeded or failed, is pending already, or has another running
    /// attempt.
    pub fn put_back(&mut self, index: u32) -> bool {
        let is_free = self.attempts_at(index) == 0;
        let slot = &mut self.slots[index as usize];
        let is_back = is_free && slot.state == TaskState::Running;
        if is_back {
            slot.state = TaskState::Pending;
            self.pending.push_back(index);
        }
        is_back
    }

    /// Stops an attempt if it runs: it ends at its next checkpoint.
    pub fn stop_attempt(&self, index: u32, attempt: u32) {
        if let Some(running) = self.running.get(&(index, attempt)) {
            running.state.stop();
        }
    }

    /// Stops an attempt so that other attempts get its memory. Returns false if it does not run,
    /// was stopped before, or finishes its output.
    pub fn preempt(&mut self, index: u32, attempt: u32) -> bool {
        let is_finishing = |slot: &Slot| slot.finishing == Some(attempt);
        if self.slots.get(index as usize).is_none_or(is_finishing) {
            return false;
        }
        let running = self.running.get_mut(&(index, attempt));
        let Some(running) = running.filter(|running| !running.state.is_stopped()) else {
            return false;
        };
        running.is_preempted = true;
        running.state.stop();
        true
    }

    /// Returns the running attempts that were not stopped.
    pub fn active_attempts(&self) -> impl Iterator<Item = ActiveAttempt> {
        let all = self.running.iter();
        let active = all.filter(|(_, running)| !running.state.is_stopped());
        active.map(|(&(index, attempt), running)| ActiveAttempt {
            index,
            attempt,
            started_s: running.started_s,
            is_finishing: self.slots[index as usize].finishing == Some(attempt),
        })
    }

    pub fn attempt_state(&self, index: u32, attempt: u32) -> Option<Arc<AttemptState>> {
        let running = self.running.get(&(index, attempt))?;
        Some(Arc::clone(&running.state))
    }

    /// Finds hanging attempts, and chooses the straggler: the slow task that gets a second attempt.
    /// `elapsed_s` is the number of seconds since the last call; `could_run` is true if the job had
    /// a share of CPU in that time.
    ///
    /// Returns the task and the number of each attempt that made no progress during `stall_s`
    /// seconds in which it could run. Pauses of the job do not count, and they do not restart the
    /// count either: a capacity source may pause all jobs every few seconds. The count starts anew
    /// when the attempt makes progress, or waits for CPU or for the keys that another attempt
    /// samples. An attempt that was stopped can always run: it should end and not wait.
    ///
    /// An attempt that finishes its output is never returned: it is past the job's code, and if it
    /// were given up and finished all the same, its rows could appear twice.
    pub fn watch(
        &mut self,
        (now_s, elapsed_s): (f64, f64),
        could_run: bool,
        stall_s: f64,
    ) -> Vec<(u32, u32)> {
        let mut stalled = Vec::new();
        for (&(index, attempt), running) in &mut self.running {
            let since_s = elapsed_s.min(now_s - running.started_s).max(0.0);
            if !could_run {
                running.paused_s += since_s;
            }
            let steps = running.state.steps();
            let stepped = std::mem::replace(&mut running.steps_seen, steps) != steps;
            let could_run = could_run || running.state.is_stopped();
            if stepped || running.state.is_waiting() {
                running.still_s = 0.0;
            } else if could_run {
                running.still_s += since_s;
            }
            let is_finishing = self.slots[index as usize].finishing == Some(attempt);
            if running.still_s >= stall_s && !is_finishing {
                stalled.push((index, attempt));
            }
        }
        self.straggler = self.find_straggler(now_s);
        stalled
    }

    /// Chooses the straggler, the task that gets a second attempt, while tasks run on the floor (in
    /// the ordinary class with a high nice value): a task whose attempts are all stuck in the idle
    /// class. If there is none, no task gets a second attempt. Threads are not stuck if they
    /// `can_move` to the floor by themselves; processes are. If a task has two stuck attempts, this
    /// stops one of them, and the task may become the straggler once that attempt has ended. Also
    /// stops an attempt that is stuck while it samples the keys of a global sort: all maps wait for
    /// the sample, on the floor too, so another attempt has to take it.
    pub fn seek_starved(&mut self, can_move: bool) {
        let indices: BTreeSet<u32> = self.running.keys().map(|(index, _)| *index).collect();
        let mut tasks = Vec::new();
        for index in indices {
            // An attempt that samples is stopped below in any case. Of others the one with less progress
            // is stopped; CPU time decides where progress is unknown.
            let done = |attempt: &AttemptState| {
                (!attempt.is_sampling(), attempt.progress(), attempt.used_s())
            };
            match self.starved_attempts(index, can_move).as_slice() {
                [only] => tasks.push((index, only.progress())),
                [first, second] if done(first) < done(second) => first.stop(),
                [_, second] => second.stop(),
                _ => {}
            }
        }
        self.straggler = starved(tasks);
        let states = self.running.values().map(|running| &running.state);
        for sampler in states.filter(|state| state.is_sampling() && is_stuck(state, can_move)) {
            sampler.stop();
        }
    }

    /// Returns the attempts at the task with the number `index` if all of them are stuck in the
    /// idle class: they are in that class, and do not move to the floor (the ordinary class with a
    /// high nice value). Threads of this process move there by themselves if `can_move` is true;
    /// child processes never do. Returns an empty list if one attempt is not stuck, was stopped, or
    /// finishes its output: the task then needs no other attempt.
    fn starved_attempts(&self, index: u32, can_move: bool) -> Vec<&AttemptState> {
        let slot = &self.slots[index as usize];
        let attempts = self.running.range((index, 0)..=(index, u32::MAX));
        let states: Vec<&AttemptState> = attempts.map(|(_, running)| &*running.state).collect();
        let is_fine = |state: &&AttemptState| state.is_stopped() || !is_stuck(state, can_move);
        if slot.finishing.is_some() || states.iter().any(is_fine) {
            return Vec::new();
        }
        states
    }

    /// Stops the attempt at the straggler (the slow task that was chosen for a second attempt) if
    /// the attempt is in the idle class, to free its memory. Returns false if no memory can be
    /// freed this way.
    pub fn preempt_straggler(&mut self) -> bool {
        let attempt = self.straggler.and_then(|index| {
            let mut attempts = self.running.range((index, 0)..=(index, u32::MAX));
            let in_idle_class = attempts.find(|(_, running)| !running.state.is_on_floor());
            in_idle_class.map(|(key, _)| *key)
        });
        attempt.is_some_and(|(index, attempt)| self.preempt(index, attempt))
    }

    fn find_straggler(&self, now_s: f64) -> Option<u32> {
        // A pending task is worth more than a second attempt at a running one.
        if self.done == 0 || !self.pending.is_empty() {
            return None;
        }
        let tasks = self.total() - self.done;
        let speculative = self.running().saturating_sub(tasks);
        if speculative >= speculative_max(self.total()) {
            return None;
        }
        let single = |index: u32| {
            let slot = &self.slots[index as usize];
            slot.state == TaskState::Running
                && slot.finishing.is_none()
                && self.attempts_at(index) == 1
        };
        // On the floor every attempt is slower than those before it.
        let is_exempt = |state: &AttemptState| state.is_stopped() || state.is_on_floor();
        let paces = (self.running.iter())
            .filter(|((index, _), running)| single(*index) && !is_exempt(&running.state))
            .map(|((index, _), running)| Pace {
                index: *index,
                running_s: running.running_s(now_s),
                progress: running.state.progress(),
            });
        straggler(paces, self.done_running_s / f64::from(self.done))
    }
}

/// Returns whether an attempt is in the idle class and does not move to the floor (the ordinary
/// class with a high nice value) by itself. Threads of this process do if `can_move` is true; child
/// processes never do.
fn is_stuck(state: &AttemptState, can_move: bool) -> bool {
    !state.is_on_floor() && (!can_move || state.is_in_process())
}
