//! The runtime's interface: submit, watch, shut down.

use super::clock::{Clock, MonotonicClock};
use super::control;
use super::error::{RuntimeError, SubmitError};
use super::handle::JobHandle;
use super::job::journal::Event;
use super::job::report::{CycleSample, RuntimeStatus};
use super::job::spec::JobSpec;
use super::job::task_context::TaskContext;
use super::job_entry::{JobContext, JobEntry};
use super::lease::{Lease, LeaseOptions};
use super::options::RuntimeOptions;
use super::owner_only;
use super::process::Pool;
use super::schedule::lookahead::{OutstandingJob, Situation};
use super::schedule::tracker::Tracker;
use super::state::{LEFT_BEHIND_MAX, Shared};
use super::task::key_sample::JobRanges;
use crate::availability::Availability;
use crate::model::{Job, JobId, TaskKind};
use ebb_threads::{SchedulingClass, current_nice, lower_current_thread, raise_current_thread};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

/// A running MapReduce runtime. Its drop shuts it down, as [`shutdown`](Self::shutdown) does.
pub struct Runtime {
    pub(super) shared: Arc<Shared>,
    control: Mutex<Option<JoinHandle<()>>>,
}

impl Runtime {
    /// Starts a runtime on the machine's clock.
    ///
    /// # Errors
    /// If an option is out of range, the spill directory cannot be created, or a thread cannot be
    /// started.
    pub fn start(options: RuntimeOptions) -> Result<Self, RuntimeError> {
        Self::start_with_clock(options, Arc::new(MonotonicClock::default()))
    }

    /// Starts a runtime on a given clock. Goals, pacing and history use it; the control thread
    /// still wakes in real time.
    pub(super) fn start_with_clock(
        options: RuntimeOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, RuntimeError> {
        options.check()?;
        let class = if options.lowers_tasks() {
            probe_class()?
        } else {
            (SchedulingClass::Normal, true)
        };
        let shared = Arc::new(Shared::new(options, clock, class));
        let control = {
            let shared = Arc::clone(&shared);
            thread::Builder::new()
                .name("ebb-control".to_owned())
                .spawn(move || control::run(&shared))?
        };
        Ok(Self {
            shared,
            control: Mutex::new(Some(control)),
        })
    }

    /// Accepts a job, and splits its input on the calling thread. The input of a job that follows
    /// others is split only when that job can start.
    ///
    /// # Errors
    /// If the specification is invalid, the input or the output fails, the spill directory cannot
    /// be created, a job to follow is unknown, too many hanging threads were left behind, or the
    /// runtime is shutting down. Nothing of the job remains then, except perhaps events in its
    /// journal.
    pub fn submit(&self, spec: JobSpec) -> Result<JobHandle, SubmitError> {
        let shared = &self.shared;
        spec.check()?;
        spec.output.check().map_err(SubmitError::Output)?;
        let is_first = spec.after.is_empty();
        // Without the lock: the code of the input may take long.
        let splits = if is_first {
            spec.input.splits().map_err(SubmitError::Input)?
        } else {
            Vec::new()
        };
        // If anything below fails, the drop of the directory removes it.
        let spill_dir = &shared.options.spill_dir;
        let made = owner_only::temporary_dir_in(spill_dir, "ebb-job-");
        let directory = made.map_err(|source| SubmitError::SpillDir {
            path: spill_dir.clone(),
            source,
        })?;
        let pacer = Arc::new(shared.pacer());
        let pool = spec.processes.clone().map(Pool::new);
        // Last, because the goal counts from this time: it does not include the split.
        let (id, submitted_s) = self.admit(&spec.after)?;
        let goal_s = spec.goal_s.map(|goal_s| submitted_s + goal_s);
        let job = Job::new(id, submitted_s, goal_s);
        let estimates = spec.estimates(&splits);
        let (name, after) = (spec.name.clone(), spec.after.clone());
        let tracker = if is_first {
            Tracker::new(job, splits.len() as u32, spec.reduces, &estimates)
        } else {
            Tracker::following(job, spec.reduces, &estimates)
        };
        let mut entry = JobEntry {
            map_runs: splits.iter().map(|_| Vec::new()).collect(),
            context: Some(Arc::new(JobContext {
                id,
                task: TaskContext {
                    spec,
                    directory: directory.path().to_path_buf(),
                    spill_space: shared.options.spill_space.clone(),
                    task_memory_bytes: shared.options.task_memory_bytes,
                },
                splits: if is_first {
                    OnceLock::from(splits)
                } else {
                    OnceLock::new()
                },
                ranges: JobRanges::default(),
                pacer: Arc::clone(&pacer),
                pool,
            })),
            directory: Some(directory),
            ..JobEntry::new(name, tracker, pacer)
        };
        // The journal gets this event before the job can run, so before those of any attempt.
        let ended = Arc::clone(&entry.ended);
        let submitted = entry.notification(Event::Submitted(entry.status(None)));
        shared.lock().notifications.extend(submitted);
        shared.notify_journals();

        let mut state = shared.lock();
        // `admit` knew the job to follow; its record may have been dropped since.
        let known = state.follow(&mut entry.tracker, &after);
        if state.shutting_down || known.is_err() {
            // The journal has the submission, so it gets an end, too.
            entry.tracker.cancel();
            entry.tracker.abort_done();
            let report = entry.report(shared.clock.now_s());
            let measured = entry.measured();
            let ended = report.map(|report| Event::Ended(Box::new((report, measured))));
            (state.notifications).extend(ended.and_then(|ended| entry.notification(ended)));
            drop(state);
            shared.notify_journals();
            return Err(known.map_or_else(SubmitError::Follows, |()| SubmitError::ShuttingDown));
        }
        state.jobs.insert(id, entry);
        shared.kick(&mut state);
        Ok(JobHandle {
            id,
            ended,
            shared: Arc::clone(shared),
        })
    }

    /// Takes a lease: a share of the capacity for work that is not a job, such as a query, an export or
    /// a backup, on threads of the caller. The policy treats the lease like a job.
    /// [`status`](Self::status) lists it, [`cancel`](Self::cancel) cancels it by its id, and it ends
    /// when its last clone and the last thread under it are dropped.
    ///
    /// ```
    /// use ebb_scheduler::runtime::{LeaseOptions, Runtime, RuntimeOptions, TaskError};
    ///
    /// let runtime = Runtime::start(RuntimeOptions::new(2))?;
    /// let lease = runtime.lease("export", LeaseOptions { goal_s: Some(60.0), cpu_s: 0.5 })?;
    ///
    /// // On as many threads as the work has.
    /// let exported = std::thread::scope(|scope| {
    ///     let rows = scope.spawn(|| -> Result<u64, TaskError> {
    ///         let thread = lease.enter()?; // waits for a share
    ///         let mut rows = 0;
    ///         for row in ["ebb", "and", "flow"] {
    ///             thread.read(row.len())?; // waits while the lease is over its share
    ///             rows += 1;
    ///         }
    ///         Ok(rows)
    ///     });
    ///     rows.join().expect("no row panics")
    /// })?;
    ///
    /// assert_eq!(exported, 3);
    /// assert_eq!(runtime.status().jobs[0].name, "export");
    /// drop(lease);
    /// assert!(runtime.status().jobs.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If goal or CPU time is not a positive number, or the runtime is shutting down.
    pub fn lease(
        &self,
        name: impl Into<String>,
        options: LeaseOptions,
    ) -> Result<Lease, SubmitError> {
        Lease::take(&self.shared, name.into(), options)
    }

    /// Returns a new id, and the present time, for a job that is about to be accepted and that
    /// follows the jobs in `after`. Fails if the runtime knows one of these no longer, or accepts
    /// no jobs.
    fn admit(&self, after: &[JobId]) -> Result<(JobId, f64), SubmitError> {
        let mut state = self.shared.lock();
        if state.shutting_down {
            return Err(SubmitError::ShuttingDown);
        }
        if state.left_behind >= LEFT_BEHIND_MAX || state.memory_is_lost() {
            let threads = state.left_behind;
            return Err(SubmitError::LeftBehind { threads });
        }
        let is_known = |id: &JobId| state.jobs.contains_key(id) || state.ended.get(*id).is_some();
        if let Some(unknown) = after.iter().find(|id| !is_known(id)) {
            return Err(SubmitError::Follows(*unknown));
        }
        Ok((state.next_id(), self.shared.clock.now_s()))
    }

    /// Cancels the job or the lease with this id, as [`JobHandle::cancel`] does. Returns false for
    /// an unknown id, too.
    pub fn cancel(&self, id: JobId) -> bool {
        self.shared.cancel(id)
    }

    /// Starts a control cycle now, after a change of the capacity for which the next regular cycle
    /// would be too late. Returns at once; tasks use the new shares from their next checkpoint on.
    pub fn replan(&self) {
        self.shared.kick(&mut self.shared.lock());
    }

    /// Returns the state of the runtime and its jobs at one instant, for progress bars.
    #[must_use]
    pub fn status(&self) -> RuntimeStatus {
        let state = self.shared.lock();
        RuntimeStatus {
            now_s: self.shared.clock.now_s(),
            capacity_hundredths: state.capacity_hundredths,
            policy: self.shared.options.policy.name(),
            scheduling_class: self.shared.class,
            memory_bytes: state.memory.reserved_bytes(),
            jobs: state.list(),
        }
    }

    /// Returns the forecast f(t) that the runtime plans by: the capacity that jobs are expected to
    /// have, in hundredths of a core. `None` before the first control cycle, after a cycle in which
    /// the policy or the capacity source panicked, and in an unmanaged runtime.
    #[must_use]
    pub fn forecast(&self) -> Option<Arc<Availability>> {
        self.shared.lock().forecast.clone()
    }

    /// Returns the jobs that have tasks to run and the leases that need a share, with the policy
    /// and the options that decide their shares, to predict when they end. Jobs that wait for other
    /// jobs are not included. `None` before the first control cycle, after a cycle in which the
    /// policy or the capacity source panicked, and in an unmanaged runtime, where the policy is not
    /// used.
    #[must_use]
    pub fn situation(&self) -> Option<Situation> {
        let shared = &self.shared;
        let options = &shared.options;
        let state = shared.lock();
        let forecast = Arc::clone(state.forecast.as_ref()?);
        let mut usual = state.grant_use;
        (state.jobs.values()).for_each(|job| usual.add(&job.grant_use));
        let usual_speed = usual.ratio(1.0);
        let outstanding = state.jobs.values().filter_map(|job| {
            let live = job.tracker.live()?;
            let (_, maps) = job.tracker.progress(TaskKind::Map);
            let (_, reduces) = job.tracker.progress(TaskKind::Reduce);
            let speed = job.grant_use.ratio(usual_speed);
            Some(OutstandingJob::new(
                live,
                (maps, reduces),
                job.cores(options.cores),
                speed,
            ))
        });
        Some(Situation {
            now_s: shared.clock.now_s(),
            capacity_hundredths: state.capacity_hundredths,
            forecast,
            policy: Arc::clone(&options.policy),
            cycle_s: options.cycle_s,
            goal_margin: options.planned_margin(),
            slot_hundredths: options.slot_share_hundredths,
            cores: options.cores,
            usual_speed,
            jobs: outstanding.collect(),
        })
    }

    /// Returns the latest closed control cycles, oldest first: an hour of them at the default
    /// length, or fewer with very many jobs.
    #[must_use]
    pub fn cycles(&self) -> Vec<CycleSample> {
        self.shared.lock().cycles.closed().cloned().collect()
    }

    /// Returns the closed control cycles that began after `t_s`, in seconds of the runtime's time.
    #[must_use]
    pub fn cycles_after(&self, t_s: f64) -> Vec<CycleSample> {
        let state = self.shared.lock();
        let newest = state.cycles.closed().rev();
        let mut after: Vec<CycleSample> = newest
            .take_while(|cycle| cycle.t_s > t_s)
            .cloned()
            .collect();
        after.reverse();
        after
    }

    /// Returns the number of cores that task threads share.
    #[must_use]
    pub fn cores(&self) -> u32 {
        self.shared.options.cores
    }

    /// Returns the scheduling class that the kernel granted to task threads.
    #[must_use]
    pub fn scheduling_class(&self) -> SchedulingClass {
        self.shared.class
    }

    /// Returns the seconds since the runtime started: the time base of goals, reports and the
    /// forecast.
    #[must_use]
    pub fn now_s(&self) -> f64 {
        self.shared.clock.now_s()
    }

    /// Refuses new jobs, ends all leases, cancels the jobs that are not in their commit, waits
    /// until all jobs have ended, and joins every thread except those that hang in an attempt that
    /// was given up. May be called more than once.
    pub fn shutdown(&self) {
        let running: Vec<JobId> = {
            let mut state = self.shared.lock();
            state.shutting_down = true;
            self.shared.kick(&mut state);
            state.jobs.keys().copied().collect()
        };
        for id in running {
            self.shared.release(id);
            // A job that is in its commit cannot be cancelled; the join below waits for it.
            let _ = self.shared.cancel(id);
        }
        let control = self
            .control
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(control) = control {
            // The thread returns no value, and the panic hook has printed any panic.
            let _ = control.join();
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// Returns the class that the system grants to task threads, and whether a thread can leave it
/// again. Uses a thread of its own, because a thread cannot always leave the class.
fn probe_class() -> Result<(SchedulingClass, bool), RuntimeError> {
    let probe = thread::Builder::new()
        .name("ebb-task".to_owned())
        .spawn(|| {
            let nice = current_nice();
            (lower_current_thread(), raise_current_thread(nice))
        })?;
    Ok(probe.join().unwrap_or((SchedulingClass::Normal, true)))
}
