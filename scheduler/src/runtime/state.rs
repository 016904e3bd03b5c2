//! The state that the runtime's threads share, behind its one lock.
//!
//! The lock is held for bookkeeping only: policies, user code and I/O run outside it. Lock order:
//! this lock before the pacer's, under which no other lock is taken.

use super::clock::Clock;
use super::cycles::Cycles;
use super::ended_jobs::EndedJobs;
use super::error::TaskError;
use super::job::journal::{Event, Notification};
use super::job::report::{CycleSample, JobSample, JobState, JobStatus};
use super::job_entry::{Assignment, Duty, DutyResult, JobContext, JobEntry};
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

/// No more jobs are accepted while this many threads of hanging attempts are left behind. Each has
/// a stack, and the memory of its task.
pub(super) const LEFT_BEHIND_MAX: u32 = 64;

/// The least free part of a core, in hundredths, for a second attempt at a slow task. With less,
/// the second attempt would take CPU from the task that it should help.
const SPECULATIVE_HUNDREDTHS_MIN: u32 = 50;

#[derive(Default)]
pub(super) struct State {
    /// The jobs and leases that have not ended.
    pub jobs: BTreeMap<JobId, JobEntry>,
    /// The latest jobs that have ended.
    pub ended: EndedJobs,
    /// The CPU time that ended jobs were granted, and the CPU time that they used of it.
    pub grant_use: GrantUse,
    pub last_id: u64,
    pub shutting_down: bool,
    /// True if the control thread should plan now, not at the end of its cycle.
    pub kicked: bool,
    /// Commits that task threads claimed, to be started by the control thread: a thread started by
    /// a task thread would inherit its low class and its core.
    pub commits: Vec<Assignment>,
    pub capacity_hundredths: u32,
    /// Time since which tasks run on the floor (in the ordinary class, with a high nice value), in
    /// seconds of the runtime's time; `None` if they run in the idle class.
    pub floor_since_s: Option<f64>,
    /// The forecast f(t) of the capacity that the present cycle plans with; `None` before the first
    /// cycle and when unmanaged.
    pub forecast: Option<Arc<Availability>>,
    pub cycles: Cycles,
    /// Worker threads by number, from 1.
    pub workers: BTreeMap<u64, JoinHandle<()>>,
    /// Number of threads of hanging attempts that were left behind and still run.
    pub left_behind: u32,
    /// The memory that all attempts have reserved, and its limits.
    pub memory: MemoryBudget,
    /// Events that have not been reported to journals.
    pub notifications: Vec<Notification>,
    /// The job that got the last piece of work; `None` before the first.
    last_claimed: Option<JobId>,
}

impl State {
    /// Returns whether tasks run on the floor: in the ordinary class with a high nice value, not in
    /// the idle class. Attempts that began in the idle class remain there if the system does not
    /// let their threads leave it.
    pub fn is_on_floor(&self) -> bool {
        self.floor_since_s.is_some()
    }

    /// Claims the next piece of work, from the jobs in turn, so that no job waits for memory while
    /// another one gets it twice. Tasks start only if there is memory for them. When managed, each
    /// job runs as many tasks as its share allows; otherwise all jobs together run as many as
    /// `options` has cores. If there is no other work, claims a second attempt at a slow task.
    /// Returns `None` if nothing may start.
    pub fn claim(&mut self, options: &RuntimeOptions, now_s: f64) -> Option<Assignment> {
        let mut order: Vec<JobId> = self.jobs.keys().copied().collect();
        // The job behind the one that was served last comes first.
        let behind = order.partition_point(|id| Some(*id) <= self.last_claimed);
        order.rotate_left(behind);
        let has_memory = self.memory.has_room();
        // The threads under a lease are the caller's, and have begun already.
        let with_tasks = self.jobs.values().filter(|job| !job.tracker.is_lease());
        let running: u32 = with_tasks.map(|job| job.tracker.running()).sum();
        let is_on_floor = self.is_on_floor();
        let has_place = |job: &JobEntry| {
            has_memory
                && match options.management {
                    // Attempts that remain in the idle class take no CPU from the others.
                    Management::Managed if is_on_floor => {
                        job.tracker.running_on_floor() < job.concurrency
                    }
                    Management::Managed => job.tracker.running() < job.concurrency,
                    Management::Unmanaged => {
                        running < options.cores && job.tracker.running() < job.cores(options.cores)
                    }
                }
        };
        // On the floor a slow attempt may be one that remained in the idle class and gets no CPU, so the
        // second one takes none from it.
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
                    // Called even without a place: splits, commits and aborts need none.
                    let may_start = has_place(job);
                    job.tracker.claim(may_start, now_s)
                };
                if let Some(work) = work {
                    self.last_claimed = Some(id);
                    // Splits, commits and aborts have no buffers of a task.
                    if matches!(work, Work::Task { .. }) {
                        self.memory.reserve();
                    }
                    return Some(job.assign(work, is_on_floor));
                }
            }
        }
        None
    }

    /// Returns the status of all live jobs and leases, and of the ended jobs that are kept, by id.
    pub fn list(&self) -> Vec<JobStatus> {
        let mut jobs: Vec<_> = self.ended.iter().cloned().collect();
        jobs.extend(self.jobs.values().map(|job| job.status(None)));
        jobs.sort_by_key(|job| job.id);
        jobs
    }

    /// Returns a new, unique id.
    pub fn next_id(&mut self) -> JobId {
        self.last_id += 1;
        JobId(self.last_id)
    }

    /// Makes a job that was just submitted wait for the jobs `after`. If one of these has ended,
    /// records its end at once.
    ///
    /// # Errors
    /// The id of the first job that is unknown, or ended so long ago that its status was dropped.
    pub fn follow(&self, tracker: &mut Tracker, after: &[JobId]) -> Result<(), JobId> {
        // Register all of them first: otherwise the end of the first one would leave none to wait
        // for, and start the job.
        after.iter().for_each(|id| tracker.follow(*id));
        for id in after.iter().filter(|id| !self.jobs.contains_key(id)) {
            let failure_reason = self.ended.get(*id).ok_or(*id)?.failure_reason();
            tracker.other_ended(*id, failure_reason.as_deref());
        }
        Ok(())
    }

    /// Returns the memory of the attempts' buffers, in bytes, as the attempts last reported it.
    pub fn held_bytes(&self) -> u64 {
        let jobs = self.jobs.values();
        let attempts = jobs.flat_map(|job| job.tracker.attempt_states());
        attempts.map(|attempt| attempt.memory_bytes()).sum()
    }

    /// Stops attempts if memory is short, in a cycle of `cycle_s` seconds that starts at `now_s`.
    /// Call this function after all tasks that may start have been given to workers. Returns the
    /// jobs of the attempts that it stopped, perhaps with repetitions.
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
            // Attempts in the idle class hold memory that attempts on the floor need. Stopped
            // attempts count as running on the floor: they will free their memory.
            for job in self.jobs.values_mut() {
                let running = job.tracker.running_on_floor() + job.tracker.stopped();
                if running < job.concurrency && job.tracker.preempt_straggler() {
                    preempted.extend(job.context.clone());
                }
            }
        }
        preempted
    }

    /// Returns whether threads that were left behind hold all memory of tasks.
    pub fn memory_is_lost(&self) -> bool {
        self.left_behind >= self.memory.attempts_limit()
    }

    /// Fails the jobs that wait for memory if threads that were left behind hold all of it: such
    /// threads may hold it forever.
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

    /// Gives up the thread of an attempt that was ended and may hang forever: the runtime detaches
    /// the thread, counts its memory as lost, and no longer waits for it. If the attempt runs in a
    /// process, or no thread has begun it, only stops the attempt.
    fn leave_behind(&mut self, attempt_state: &AttemptState) {
        // Dropping the handle detaches the thread. A thread that has not begun to run the attempt
        // will notice that it is stopped; so will a thread that waits for a process.
        let has_thread = !attempt_state.is_in_process();
        if has_thread && self.workers.remove(&attempt_state.worker()).is_some() {
            self.left_behind += 1;
            attempt_state.leave_behind();
        } else {
            attempt_state.stop();
        }
    }

    /// Removes an ended job, gives up the threads of its attempts that still run, and publishes its
    /// end.
    fn end(&mut self, id: JobId, now_s: f64) {
        let mut job = self.jobs.remove(&id).expect("a job ends once");
        for attempt_state in job.tracker.attempt_states() {
            self.leave_behind(attempt_state);
        }
        let status = self.record_end(&mut job, now_s);
        let ended = job.take_end(&status, now_s);
        self.grant_use.add(&job.grant_use);
        self.ended.push(status);
        // Only this place sets it, and a job is removed once.
        let _ = job.ended.set(ended);
    }

    /// Removes a lease. It is not listed among the ended jobs. Returns false if there is no lease
    /// with this id.
    pub fn release(&mut self, id: JobId, now_s: f64) -> bool {
        if !(self.jobs.get(&id)).is_some_and(|job| job.tracker.is_lease()) {
            return false;
        }
        let mut lease = self.jobs.remove(&id).expect("it was found above");
        // Threads that are still in it notice the end at their next checkpoint.
        lease.pacer.cancel();
        lease.tracker.release();
        self.record_end(&mut lease, now_s);
        true
    }

    /// Records the end of a job that was removed: its CPU time in the sample of the present control
    /// cycle, and its end in the jobs that wait to run after it. Returns the job's last status.
    fn record_end(&mut self, job: &mut JobEntry, now_s: f64) -> JobStatus {
        let id = job.tracker.job.id;
        self.cycles.job_ended(id, job.sample());
        let status = job.status(Some(now_s));
        let failure_reason = status.failure_reason();
        for follower in self.jobs.values_mut() {
            follower.tracker.other_ended(id, failure_reason.as_deref());
        }
        status
    }

    /// Ends the present control cycle: records the CPU time that each job used in it, and begins
    /// the record of the next cycle with the jobs' shares.
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

/// The state behind all handles of a runtime.
pub(super) struct Shared {
    pub options: RuntimeOptions,
    pub clock: Arc<dyn Clock>,
    pub class: SchedulingClass,
    /// True if the system permits this process to move a thread out of the idle class again.
    pub can_raise: bool,
    /// The present scheduling class of tasks.
    pub class_of_tasks: Arc<TaskClass>,
    pub cores: Arc<Cores>,
    /// The number of the worker thread that was started last; 0 before the first.
    pub last_worker: AtomicU64,
    /// The limit for the bytes that all jobs together read.
    pub reads: Arc<ReadBudget>,
    state: Mutex<State>,
    /// Held while journals are notified. Lock order: taken before the state's lock, never under it.
    notifying: Mutex<()>,
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
            notifying: Mutex::default(),
            kick: Condvar::new(),
            ended: Condvar::new(),
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a commit for the control thread.
    pub fn queue_commit(&self, assignment: Assignment) {
        let mut state = self.lock();
        state.commits.push(assignment);
        self.kick(&mut state);
    }

    /// Ends a lease (a share of CPU for threads of the caller). Does nothing if `id` is that of a
    /// job.
    pub fn release(&self, id: JobId) {
        let mut state = self.lock();
        if state.release(id, self.clock.now_s()) {
            self.kick(&mut state);
        }
    }

    /// Creates the pacer, which holds the tasks of one job to its share of CPU, for a job that is
    /// about to be accepted.
    pub fn pacer(&self) -> Pacer {
        Pacer::new(
            Arc::clone(&self.clock),
            self.options.paces_cpu(),
            self.options.throttles.yield_every,
            Arc::clone(&self.reads),
            Arc::clone(&self.class_of_tasks),
        )
    }

    /// Makes the control thread plan at once.
    pub fn kick(&self, state: &mut State) {
        state.kicked = true;
        self.kick.notify_one();
    }

    /// Cancels a job. Returns false, without any effect, if the job has ended, is in its commit, or
    /// stops already.
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

    /// Fails with `cause` every job with an id up to `newest`, the last one submitted before the
    /// fault. Leaves out jobs that have ended, are in their commit, or stop already.
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

    /// Checks all attempts: gives up those that hang, and chooses the slow tasks that get second
    /// attempts.
    pub fn watch(&self, now_s: f64) {
        let options = &self.options;
        let mut state = self.lock();
        // For a shorter floor, the work that would be done twice costs too much.
        let seeks_starved = options.speculation
            && (state.floor_since_s).is_some_and(|since_s| now_s - since_s >= SPECULATE_AFTER_S);
        let State {
            jobs,
            notifications,
            ..
        } = &mut *state;
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
            job.record_attempts(notifications);
        }
        for attempt_state in given_up {
            state.leave_behind(&attempt_state);
        }
        state.fail_without_memory();
        drop(state);
        self.notify_journals();
    }

    /// Reports all queued events to the journals. Runs without the state's lock, because journals
    /// may do I/O. When this returns, all events that were queued before the call have been
    /// reported, by this thread or another.
    pub fn notify_journals(&self) {
        let _notifying = self
            .notifying
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let notifications = std::mem::take(&mut self.lock().notifications);
        for notification in notifications {
            // A panic of the journal has no effect on the job.
            let _ = catch(|| notification.deliver());
        }
    }

    /// Returns whether an attempt may make its output final; stops the attempt if not.
    pub fn may_finish(&self, task: TaskId, attempt: u32) -> bool {
        let mut state = self.lock();
        (state.jobs.get_mut(&task.job)).is_some_and(|job| job.tracker.may_finish(task, attempt))
    }

    /// Records the result of an assignment. Returns false if the runtime gave up the calling thread
    /// meanwhile because its attempt seemed to hang: the thread must end.
    pub fn finish(
        &self,
        context: &JobContext,
        duty: &Duty,
        result: Result<DutyResult, TaskError>,
    ) -> bool {
        let now_s = self.clock.now_s();
        let mut state = self.lock();
        let is_left_behind = match duty {
            Duty::Task { attempt_state, .. } => attempt_state.is_left_behind(),
            Duty::Split | Duty::Commit | Duty::Abort => false,
        };
        // The thread has returned after all, so it hangs no longer.
        if is_left_behind {
            state.left_behind = state.left_behind.saturating_sub(1);
        }
        // Before the job is looked up: the attempt held its memory even if the job has ended.
        if matches!(duty, Duty::Task { .. }) {
            state.memory.release();
        }
        let State {
            jobs,
            notifications,
            ..
        } = &mut *state;
        let Some(job) = jobs.get_mut(&context.id) else {
            // The job ended without this attempt. Remove the files that it still wrote. An error is
            // ignored: mostly it wrote none, and the directory is gone.
            drop(state);
            let _ = std::fs::remove_dir_all(&context.task.directory);
            return !is_left_behind;
        };
        let mut lost = Vec::new();
        let disk_full = result.as_ref().is_err_and(self.options.is_disk_full);
        // The shares change when a phase of the job begins, and when the job fails or ends. After any
        // other result the worker claims its next piece of work itself, without a new plan.
        let replan = match (duty, result) {
            (Duty::Task { task, attempt, .. }, Ok(done)) => {
                let ended = (job.tracker).task_done(*task, *attempt, &done.counters, now_s);
                // The runs of an attempt that did not win have no reader.
                match task.kind {
                    TaskKind::Map if ended.won => job.map_runs[task.index as usize] = done.runs,
                    _ => lost = done.runs,
                }
                // A stopped attempt may wait for its job's share. It has to notice its end now.
                if ended.stopped_others {
                    job.pacer.wake();
                }
                ended.phase_ended
            }
            (Duty::Task { task, attempt, .. }, Err(error)) => {
                let failed = (job.tracker).task_failed(*task, *attempt, &error, now_s);
                if failed {
                    job.disk_full = disk_full;
                    job.pacer.cancel();
                }
                failed
            }
            (Duty::Split, result) => {
                let splits = context.splits();
                job.map_runs = splits.iter().map(|_| Vec::new()).collect();
                let split = (splits.len() as u32, context.task.spec.estimates(splits));
                job.tracker.split_done(result.as_ref().map(|_| split));
                job.disk_full = disk_full;
                true
            }
            (Duty::Commit, result) => {
                job.tracker.commit_done(result.map(|_| ()));
                job.disk_full = disk_full;
                true
            }
            // An abort returns no error, and if it panics, there is nothing left to try.
            (Duty::Abort, _) => {
                job.tracker.abort_done();
                true
            }
        };
        job.record_attempts(notifications);
        // Only a commit or an abort ends a job. An attempt that was left behind may return while the
        // lock is released below, and must not end the job a second time.
        let has_ended = job.tracker.ended().is_some() && !matches!(duty, Duty::Task { .. });
        if let Some(report) = job.report(now_s).filter(|_| has_ended) {
            let measured = job.measured();
            notifications.extend(job.notification(Event::Ended(Box::new((report, measured)))));
        }
        if replan {
            self.kick(&mut state);
        }
        drop(state);
        self.notify_journals();
        if has_ended {
            // Last, so that a thread that waits for the job finds the end in the journal.
            let mut state = self.lock();
            state.end(context.id, now_s);
            self.ended.notify_all();
            self.kick(&mut state);
        }
        for segment in lost.iter().filter_map(|run| run.segments.first()) {
            // It would be removed with the job, but a long job need not keep it until then.
            let _ = std::fs::remove_file(&*segment.path);
        }
        !is_left_behind
    }
}
