//! What the runtime's threads share, behind its one lock.
//!
//! The lock is held for bookkeeping only: policies, user code and I/O run
//! outside it. The pacer's own lock is a leaf below it.

use super::clock::Clock;
use super::cycles::Cycles;
use super::ended_jobs::EndedJobs;
use super::error::TaskError;
use super::job::journal::{Event, News};
use super::job::report::{CycleSample, JobSample, JobState, JobStatus};
use super::job_entry::{Assignment, Done, Duty, JobContext, JobEntry};
use super::options::{Management, RuntimeOptions};
use super::pacing::attempt_state::AttemptState;
use super::pacing::cores::Cores;
use super::pacing::pacer::Pacer;
use super::pacing::reads::ReadBudget;
use super::pacing::task_class::TaskClass;
use super::panics::catch;
use super::schedule::grant_use::GrantUse;
use super::schedule::memory::MemoryBudget;
use super::schedule::preemption::{Space, preempt};
use super::schedule::shares::TASK_HUNDREDTHS_MAX;
use super::schedule::speculation::SPECULATE_AFTER_S;
use super::schedule::tracker::{Tracker, Work};
use crate::availability::Availability;
use crate::model::{JobId, TaskId, TaskKind};
use ebb_threads::SchedulingClass;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Threads left behind with which no more jobs are accepted. Each has a stack
/// and whatever memory its task took.
pub(super) const LEFT_BEHIND_MAX: u32 = 64;

/// The part of a core, in hundredths, that has to be left for a second attempt at a slow
/// task. With less it would take from the task that it is to help.
const SPECULATIVE_HUNDREDTHS_MIN: u32 = 50;

#[derive(Default)]
pub(super) struct State {
    pub jobs: BTreeMap<JobId, JobEntry>,
    pub ended: EndedJobs,
    /// The CPU time that jobs which have ended were granted and used of it.
    pub grant_use: GrantUse,
    pub last_id: u64,
    pub shutting_down: bool,
    /// The control thread should plan now, not at the end of its cycle.
    pub kicked: bool,
    /// Commits that a task thread came upon, for the control thread to start: a
    /// thread inherits its class and its core from the one that starts it.
    pub commits: Vec<Assignment>,
    pub capacity_hundredths: u32,
    /// Tasks run on the floor since then, in seconds of the runtime's time; `None`: they run in the
    /// idle class.
    pub floor_since_s: Option<f64>,
    /// f(t) that the present cycle was planned by; none before the first, and unmanaged.
    pub forecast: Option<Arc<Availability>>,
    pub cycles: Cycles,
    /// By number, from 1.
    pub workers: BTreeMap<u64, JoinHandle<()>>,
    /// Threads that were given up, and that still run.
    pub left_behind: u32,
    /// What all attempts hold.
    pub memory: MemoryBudget,
    /// What journals have not been told.
    pub news: Vec<News>,
    last_claimed: Option<JobId>,
}

impl State {
    /// Whether tasks run on the floor.
    pub fn is_on_floor(&self) -> bool {
        self.floor_since_s.is_some()
    }

    /// The next thing to do for anyone, round-robin: no job waits for memory while
    /// another is served twice. Managed, each runs as many tasks as it may; otherwise
    /// all together as many as there are cores. With nothing else to do, a
    /// second attempt at a slow task.
    pub fn claim(&mut self, options: &RuntimeOptions, now_s: f64) -> Option<Assignment> {
        let mut order: Vec<JobId> = self.jobs.keys().copied().collect();
        let behind = order.partition_point(|id| Some(*id) <= self.last_claimed);
        order.rotate_left(behind);
        let has_memory = self.memory.has_room();
        let with_tasks = self.jobs.values().filter(|job| !job.tracker.is_lease());
        let running: u32 = with_tasks.map(|job| job.tracker.running()).sum();
        let is_on_floor = self.is_on_floor();
        let has_place = |job: &JobEntry| {
            has_memory
                && match options.management {
                    // Attempts that are left in the idle class take no CPU from the others.
                    Management::Managed if is_on_floor => {
                        job.tracker.running_on_floor() < job.concurrency
                    }
                    Management::Managed => job.tracker.running() < job.concurrency,
                    Management::Unmanaged => {
                        running < options.cores && job.tracker.running() < job.cores(options.cores)
                    }
                }
        };
        let has_place_for_speculation = |job: &JobEntry| {
            let used_hundredths = job.tracker.running() * TASK_HUNDREDTHS_MAX;
            let left_hundredths = job.share_hundredths.saturating_sub(used_hundredths);
            options.speculation
                && has_place(job)
                && (options.management == Management::Unmanaged
                    || is_on_floor
                    || left_hundredths >= SPECULATIVE_HUNDREDTHS_MIN)
        };
        for speculates in [false, true] {
            for &id in &order {
                let job = self.jobs.get_mut(&id).expect("listed above");
                let work = if speculates {
                    let may_start = has_place_for_speculation(job);
                    may_start
                        .then(|| job.tracker.claim_speculative(now_s))
                        .flatten()
                } else {
                    let may_start = has_place(job);
                    job.tracker.claim(may_start, now_s)
                };
                if let Some(work) = work {
                    self.last_claimed = Some(id);
                    if matches!(work, Work::Task { .. }) {
                        self.memory.reserve();
                    }
                    return Some(job.assign(work, is_on_floor));
                }
            }
        }
        None
    }

    /// All jobs and leases that are there and the jobs that ended and are remembered, by
    /// id.
    pub fn list(&self) -> Vec<JobStatus> {
        let mut jobs: Vec<_> = self.ended.iter().cloned().collect();
        jobs.extend(self.jobs.values().map(|job| job.status(None)));
        jobs.sort_by_key(|job| job.id);
        jobs
    }

    /// An id that no other has.
    pub fn next_id(&mut self) -> JobId {
        self.last_id += 1;
        JobId(self.last_id)
    }

    /// Makes a job that was just submitted wait for those that it comes after.
    ///
    /// # Errors
    /// The first that is not known.
    pub fn follow(&self, tracker: &mut Tracker, after: &[JobId]) -> Result<(), JobId> {
        // All of them first: the last to be met would let the job start.
        after.iter().for_each(|id| tracker.follow(*id));
        for id in after.iter().filter(|id| !self.jobs.contains_key(id)) {
            let why_not = self.ended.get(*id).ok_or(*id)?.why_not();
            tracker.other_ended(*id, why_not.as_deref());
        }
        Ok(())
    }

    /// What the buffers of attempts take, as far as can be seen.
    pub fn held_bytes(&self) -> u64 {
        let jobs = self.jobs.values();
        let attempts = jobs.flat_map(|job| job.tracker.attempt_states());
        attempts.map(|attempt| attempt.memory_bytes()).sum()
    }

    /// Tells attempts to stop where memory is short, in a cycle of `cycle_s` seconds
    /// that starts at `now_s` and in which all has been claimed that could be. Returns
    /// the jobs that they are of, some perhaps twice.
    pub fn preempt(&mut self, now_s: f64, cycle_s: f64) -> Vec<Arc<JobContext>> {
        if self.memory.has_room() {
            return Vec::new();
        }
        let space = Space {
            attempts_max: self.memory.attempts_max(),
            left_behind: self.left_behind,
            is_exceeded: self.memory.is_exceeded(now_s, cycle_s),
        };
        let jobs = self.jobs.values();
        let holders: Vec<_> = jobs.map(|job| job.holder(now_s, cycle_s)).collect();
        let mut preempted = Vec::new();
        for (task, attempt) in preempt(space, &holders) {
            let job = self.jobs.get_mut(&task.job).expect("listed above");
            if job.tracker.preempt(task, attempt) {
                preempted.extend(job.context.clone());
            }
        }
        if self.is_on_floor() {
            // Attempts in the idle class hold memory that those on the floor would need. Those that
            // were stopped will give theirs back.
            for job in self.jobs.values_mut() {
                let running = job.tracker.running_on_floor() + job.tracker.stopped();
                if running < job.concurrency && job.tracker.preempt_straggler() {
                    preempted.extend(job.context.clone());
                }
            }
        }
        preempted
    }

    /// Whether threads that were left behind hold all the memory there is.
    pub fn memory_is_lost(&self) -> bool {
        self.left_behind >= self.memory.attempts_limit()
    }

    /// Fails the jobs that wait for memory which nobody may ever give back.
    fn fail_without_memory(&mut self) {
        if !self.memory_is_lost() {
            return;
        }
        let threads = self.left_behind;
        for job in self.jobs.values_mut() {
            let has_tasks = job.tracker.live().is_some() && !job.tracker.is_lease();
            if has_tasks && job.tracker.running() == 0 {
                job.tracker.fail(format!(
                    "threads of tasks that made no progress hold all memory, {threads} of them; \
                     restart the process"
                ));
            }
        }
    }

    /// Gives up the thread of an attempt: it may hang for ever.
    fn leave_behind(&mut self, attempt_state: &AttemptState) {
        // Dropping the handle lets the thread go its own way. One that has not
        // begun to run the attempt will see that it is stopped; so will one that
        // has only left it to a process.
        let has_thread = !attempt_state.is_in_process();
        if has_thread && self.workers.remove(&attempt_state.worker()).is_some() {
            self.left_behind += 1;
            attempt_state.leave_behind();
        } else {
            attempt_state.stop();
        }
    }

    /// Takes an ended job out and leaves its final word.
    fn end(&mut self, id: JobId, now_s: f64) {
        let mut job = self.jobs.remove(&id).expect("a job ends once");
        for attempt_state in job.tracker.attempt_states() {
            self.leave_behind(attempt_state);
        }
        let status = self.part_with(&mut job, now_s);
        let ended = job.take_ended(&status, now_s);
        self.grant_use.add(&job.grant_use);
        self.ended.push(status);
        // Only this place sets it, and a job is taken out once.
        let _ = job.ended.set(ended);
    }

    /// Takes a lease out, of which nothing is left to be known. False when there is none
    /// of that id any more.
    pub fn release(&mut self, id: JobId, now_s: f64) -> bool {
        if !(self.jobs.get(&id)).is_some_and(|job| job.tracker.is_lease()) {
            return false;
        }
        let mut lease = self.jobs.remove(&id).expect("it was just seen");
        // Threads that are still in find out at their next checkpoint.
        lease.pacer.cancel();
        lease.tracker.release();
        self.part_with(&mut lease, now_s);
        true
    }

    /// The last of a job that was taken out, for this cycle and for its followers.
    fn part_with(&mut self, job: &mut JobEntry, now_s: f64) -> JobStatus {
        let id = job.tracker.job.id;
        self.cycles.job_ended(id, job.sample());
        let status = job.status(Some(now_s));
        let why_not = status.why_not();
        for follower in self.jobs.values_mut() {
            follower.tracker.other_ended(id, why_not.as_deref());
        }
        status
    }

    /// Ends the cycle, and begins the next.
    pub fn sample(&mut self, now_s: f64) {
        let next = CycleSample {
            t_s: now_s,
            length_s: 0.0,
            capacity_hundredths: self.capacity_hundredths,
            memory_bytes: 0,
            jobs: (self.jobs.iter())
                .map(|(id, job)| JobSample {
                    job: *id,
                    share_hundredths: job.share_hundredths,
                    used_cpu_s: 0.0,
                })
                .collect(),
        };
        let memory_bytes = self.memory.take_peak_bytes();
        let jobs = &mut self.jobs;
        (self.cycles).turn(next, memory_bytes, |id| Some(jobs.get_mut(&id)?.sample()));
    }
}

/// The runtime behind its handles.
pub(super) struct Shared {
    pub options: RuntimeOptions,
    pub clock: Arc<dyn Clock>,
    pub class: SchedulingClass,
    /// A thread that was put under the class can go back.
    pub can_raise: bool,
    /// The class in which tasks run at present.
    pub class_of_tasks: Arc<TaskClass>,
    pub cores: Arc<Cores>,
    /// The number of the worker started last.
    pub last_worker: AtomicU64,
    /// What all jobs may read.
    pub reads: Arc<ReadBudget>,
    state: Mutex<State>,
    /// Held while journals are notified; never taken with the state's.
    telling: Mutex<()>,
    /// Wakes the control thread.
    pub kick: Condvar,
    /// Wakes the threads that wait for a job.
    pub ended: Condvar,
}

impl Shared {
    pub fn new(
        options: RuntimeOptions,
        clock: Arc<dyn Clock>,
        (class, can_raise): (SchedulingClass, bool),
    ) -> Self {
        let state = State {
            ended: EndedJobs::new(options.ended_jobs_max),
            memory: MemoryBudget::new(&options),
            ..State::default()
        };
        let class_of_tasks = Arc::new(TaskClass::new(options.lowers_tasks(), can_raise));
        Self {
            options,
            clock,
            class,
            can_raise,
            class_of_tasks,
            cores: Arc::new(Cores::detect()),
            last_worker: AtomicU64::new(0),
            reads: Arc::default(),
            state: Mutex::new(state),
            telling: Mutex::default(),
            kick: Condvar::new(),
            ended: Condvar::new(),
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a commit to the control thread.
    pub fn leave_commit(&self, assignment: Assignment) {
        let mut state = self.lock();
        state.commits.push(assignment);
        self.kick(&mut state);
    }

    /// Ends a lease, if it is one.
    pub fn release(&self, id: JobId) {
        let mut state = self.lock();
        if state.release(id, self.clock.now_s()) {
            self.kick(&mut state);
        }
    }

    /// The pacing of a job that is about to be accepted.
    pub fn pacer(&self) -> Pacer {
        Pacer::new(
            Arc::clone(&self.clock),
            self.options.paces_cpu(),
            self.options.throttles.yield_every,
            Arc::clone(&self.reads),
            Arc::clone(&self.class_of_tasks),
        )
    }

    /// Asks for a new plan at once.
    pub fn kick(&self, state: &mut State) {
        state.kicked = true;
        self.kick.notify_one();
    }

    /// Stops a job unless it has ended or is being committed. True when it did.
    pub fn cancel(&self, id: JobId) -> bool {
        let mut state = self.lock();
        if let Some(job) = state.jobs.get_mut(&id)
            && job.tracker.cancel()
        {
            job.pacer.cancel();
            self.kick(&mut state);
            return true;
        }
        false
    }

    /// Stops every job up to `newest` that is not past that, as failed for `cause`.
    pub fn fail_up_to(&self, newest: JobId, cause: &str) {
        let mut state = self.lock();
        for (_, job) in state.jobs.range_mut(..=newest) {
            if job.tracker.fail(cause.to_owned()) {
                job.pacer.cancel();
            }
        }
    }

    /// Returns the CPU that jobs need from now on to meet their goals, in hundredths of a core.
    pub fn needed_hundredths(&self, now_s: f64) -> u32 {
        let state = self.lock();
        let live = state.jobs.values().filter_map(|job| job.tracker.live());
        let cores: f64 = live.map(|live| live.needed_cores(now_s)).sum();
        (cores * 100.0).ceil() as u32
    }

    /// Looks after all attempts: gives up those that hang.
    pub fn watch(&self, now_s: f64) {
        let options = &self.options;
        let mut state = self.lock();
        // A shorter floor is not worth the work that is done twice.
        let seeks_starved = options.speculation
            && (state.floor_since_s).is_some_and(|since_s| now_s - since_s >= SPECULATE_AFTER_S);
        let State { jobs, news, .. } = &mut *state;
        let mut given_up = Vec::new();
        for job in jobs.values_mut() {
            let could_run = options.management == Management::Unmanaged || job.share_hundredths > 0;
            given_up.extend(job.tracker.watch(now_s, could_run, options.stall_s));
            if seeks_starved && could_run {
                job.tracker.seek_starved(self.can_raise);
            }
            if job.tracker.state() == JobState::Stopping {
                job.pacer.cancel();
            }
            job.note_attempts(news);
        }
        for attempt_state in given_up {
            state.leave_behind(&attempt_state);
        }
        state.fail_without_memory();
        drop(state);
        self.tell_news();
    }

    /// Tells the journals all the news there are. Not with the
    /// lock: they may do I/O. When this returns, whatever was news before has been
    /// told, by this thread or another.
    pub fn tell_news(&self) {
        let _telling = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        let news = std::mem::take(&mut self.lock().news);
        for news in news {
            // The job does not depend on whether anybody takes note.
            let _ = catch(|| news.tell());
        }
    }

    /// Whether an attempt may make its output final.
    pub fn may_finish(&self, task: TaskId, attempt: u32) -> bool {
        let mut state = self.lock();
        (state.jobs.get_mut(&task.job)).is_some_and(|job| job.tracker.may_finish(task, attempt))
    }

    /// Records what came of an assignment. False when the thread was left behind
    /// meanwhile: it has no place here any more.
    pub fn finish(
        &self,
        context: &JobContext,
        duty: &Duty,
        result: Result<Done, TaskError>,
    ) -> bool {
        let now_s = self.clock.now_s();
        let mut state = self.lock();
        let is_left_behind = match duty {
            Duty::Task { attempt_state, .. } => attempt_state.is_left_behind(),
            Duty::Split | Duty::Commit | Duty::Abort => false,
        };
        if is_left_behind {
            state.left_behind = state.left_behind.saturating_sub(1);
        }
        if matches!(duty, Duty::Task { .. }) {
            state.memory.release();
        }
        let State { jobs, news, .. } = &mut *state;
        let Some(job) = jobs.get_mut(&context.id) else {
            // Of a job that ended without this attempt. What it still wrote goes
            // with it.
            drop(state);
            let _ = std::fs::remove_dir_all(&context.task.directory);
            return !is_left_behind;
        };
        let mut lost = Vec::new();
        let replan = match (duty, result) {
            (Duty::Task { task, attempt, .. }, Ok(done)) => {
                let ended = (job.tracker).task_done(*task, *attempt, &done.counters, now_s);
                match task.kind {
                    TaskKind::Map if ended.won => job.map_runs[task.index as usize] = done.runs,
                    _ => lost = done.runs,
                }
                if ended.stopped_others {
                    job.pacer.wake();
                }
                ended.phase_ended
            }
            (Duty::Task { task, attempt, .. }, Err(error)) => {
                let failed = (job.tracker).task_failed(*task, *attempt, &error, now_s);
                if failed {
                    job.pacer.cancel();
                }
                failed
            }
            (Duty::Split, result) => {
                let splits = context.splits();
                job.map_runs = splits.iter().map(|_| Vec::new()).collect();
                let split = (splits.len() as u32, context.task.spec.estimates(splits));
                job.tracker.split_done(result.as_ref().map(|_| split));
                true
            }
            (Duty::Commit, result) => {
                job.tracker.commit_done(result.map(|_| ()));
                true
            }
            (Duty::Abort, _) => {
                job.tracker.abort_done();
                true
            }
        };
        job.note_attempts(news);
        let has_ended = job.tracker.ended().is_some() && !matches!(duty, Duty::Task { .. });
        if let Some(report) = job.report(now_s).filter(|_| has_ended) {
            let measured = job.measured();
            news.extend(job.news(Event::Ended(Box::new((report, measured)))));
        }
        if replan {
            self.kick(&mut state);
        }
        drop(state);
        self.tell_news();
        if has_ended {
            // Only now: who waits for the job finds its end in the journal.
            let mut state = self.lock();
            state.end(context.id, now_s);
            self.ended.notify_all();
            self.kick(&mut state);
        }
        for segment in lost.iter().filter_map(|run| run.segments.first()) {
            // Would be removed with the job; a long one need not keep it.
            let _ = std::fs::remove_file(&*segment.path);
        }
        !is_left_behind
    }
}
