//! The driver: starts a run, reports its progress, and returns its report.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ebb_storage::{Db, Error, Result, Table};

use super::agenda::Agenda;
use super::inserts::Inserts;
use super::options::RunOptions;
use super::pace::{Arrivals, Pace};
use super::pauses::{Pauses, Sentinels};
use super::report::Report;
use super::sections;
use super::source::{ReadFrom, Source};
use super::timeline::{Sampler, Slot, Timeline};
use super::watch::{Board, Watch};
use super::worker::{self, Shared, Tally};
use crate::threads::value_of;

/// A run under way. Dropping it ends the run, and waits for its threads.
///
/// Only one run may write to a table at a time: two would insert the same records.
#[derive(Debug)]
pub struct Driver {
    shared: Arc<Shared>,
    timeline: Timeline,
    alive: Arc<RunningWorkers>,
    workers: Vec<JoinHandle<Tally>>,
    sampler: Option<JoinHandle<()>>,
    /// The sentinels, which observe pauses of the machine; `None` unless operations in pauses are
    /// left out and the system grants real-time threads.
    sentinels: Option<Sentinels>,
}

/// The number of workers that are still running.
#[derive(Debug)]
struct RunningWorkers {
    workers: Mutex<usize>,
    ended: Condvar,
}

/// The delay before the run starts, so that all threads exist by then: a thread starts within 0.1
/// ms, on a busy machine within a few milliseconds.
const LEAD: Duration = Duration::from_millis(10);

impl Driver {
    /// Starts a run against a table that was loaded by [`load`](super::load).
    ///
    /// # Errors
    /// [`InvalidRequest`](ebb_storage::ErrorKind::InvalidRequest) if options are out of range or
    /// there is no record to read; [`NotFound`](ebb_storage::ErrorKind::NotFound) if the snapshot
    /// does not exist; other errors of the store.
    ///
    /// # Panics
    /// If the system refuses a thread.
    pub fn start(
        db: &Db,
        table: &Table,
        read_from: &ReadFrom,
        options: RunOptions,
    ) -> Result<Self> {
        options.validate()?;
        let source = read_from.open(db, table)?;
        // Two counts, because inserts continue behind the records of the live table although reads
        // may choose from a snapshot, which may have fewer records.
        let records = Source::Live(table.clone()).records()?;
        let source_records = match &source {
            Source::Live(_) => None,
            Source::Snapshot { .. } => Some(source.records()?),
        };
        if source_records.unwrap_or(records) == 0 {
            return Err(Error::InvalidRequest(format!(
                "table {} ({read_from}) holds no records; load some first",
                table.name()
            )));
        }
        // Each write takes a commit, so versions that continue from here are above those of all
        // earlier runs.
        let version_before = db.view().seq().0;
        // Posted before the run begins, because the first time takes a second.
        let sentinels = if options.leave_out_pauses {
            Sentinels::post().expect("the system has room for a thread")
        } else {
            None
        };
        let start = Instant::now() + LEAD;
        let shared = Arc::new(Shared {
            distribution: options
                .distribution
                .unwrap_or(options.workload.distribution),
            table: table.clone(),
            read_from: read_from.clone(),
            records,
            source,
            source_records,
            inserts: Inserts::new(records),
            start,
            agenda: match &options.pace {
                Pace::Closed => None,
                Pace::Open(rate) => {
                    let arrivals = Arrivals::new(rate.clone(), options.burst);
                    Some(Mutex::new(Agenda::new(arrivals)))
                }
            },
            issued: AtomicU64::new(0),
            version_before,
            version_next: AtomicU64::new(version_before + 1),
            board: Arc::new(Board::new(start)),
            slots: (0..options.threads).map(|_| Slot::new()).collect(),
            ending: AtomicBool::new(false),
            failure: Mutex::default(),
            options,
        });
        let mut driver = Self {
            timeline: Timeline::default(),
            alive: Arc::new(RunningWorkers {
                workers: Mutex::new(0),
                ended: Condvar::new(),
            }),
            workers: Vec::new(),
            sampler: None,
            sentinels,
            shared,
        };
        // The driver exists before its threads: if the system refuses one, the drop of the driver ends
        // and joins those that have started.
        driver.spawn_all();
        Ok(driver)
    }

    fn spawn_all(&mut self) {
        for index in 0..self.shared.options.threads {
            let (shared, alive) = (self.shared.clone(), self.alive.clone());
            // Counted before the thread exists, or a wait could find no worker and end at once.
            *alive.workers.lock().unwrap() += 1;
            let guard = EndGuard(alive);
            self.workers.push(spawn("ycsb-worker", move || {
                let _guard = guard;
                worker::run(&shared, index)
            }));
        }
        let (shared, alive) = (self.shared.clone(), self.alive.clone());
        let sampler = Sampler::new(self.timeline.clone(), shared.options.pace.clone());
        let body = move || sample_until_end(&shared, &alive, sampler);
        self.sampler = Some(spawn("ycsb-sampler", body));
    }

    /// Returns the intervals of the run so far. The timeline stays valid after the run.
    pub fn timeline(&self) -> Timeline {
        self.timeline.clone()
    }

    /// Returns how far the run is, from 0 to 1, by operations or by time, whichever is further; 0
    /// if it ends only by [`stop`](Self::stop).
    pub fn progress(&self) -> f64 {
        let options = &self.shared.options;
        let by_ops = options
            .operations_max
            .map(|max| self.operations() as f64 / max.max(1) as f64);
        let elapsed = Instant::now().saturating_duration_since(self.shared.start);
        let by_time = options
            .duration
            .map(|all| elapsed.as_secs_f64() / all.as_secs_f64());
        by_ops.unwrap_or(0.0).max(by_time.unwrap_or(0.0)).min(1.0)
    }

    /// Returns the number of operations that were started.
    pub fn operations(&self) -> u64 {
        let issued = self.shared.issued.load(Ordering::Relaxed);
        issued.min(self.shared.options.operations_max.unwrap_or(u64::MAX))
    }

    /// Opens a window that ends when the watch is dropped. Writes in a window are reported
    /// separately; the report groups windows by `kind`. Only one window is open at a time: opening
    /// a second one ends the first. The drop of any watch ends the open window, so drop the first
    /// watch before the second window opens.
    pub fn watch(&self, kind: &'static str) -> Watch {
        self.shared.board.open(kind)
    }

    /// Waits until the run has ended, at most for `timeout`. Returns whether it has ended.
    pub fn wait_for_end(&self, timeout: Duration) -> bool {
        let workers = self.alive.workers.lock().unwrap();
        let wait = self
            .alive
            .ended
            .wait_timeout_while(workers, timeout, |workers| *workers > 0);
        *wait.unwrap().0 == 0
    }

    /// Makes the run end soon; [`Driver::join`] waits for its end.
    pub fn stop(&self) {
        self.shared.ending.store(true, Ordering::Relaxed);
    }

    /// Waits for the end of the run.
    ///
    /// # Errors
    /// The first error of the store, which ended the run.
    pub fn join(mut self) -> Result<Report> {
        let tallies = self.join_threads();
        let pauses = self.sentinels.take().map(Sentinels::end);
        if let Some(error) = self.shared.failure.lock().unwrap().take() {
            return Err(error);
        }
        let ended = tallies.iter().map(|tally| tally.ended).max();
        let ended = ended.unwrap_or(self.shared.start);
        let mut report = Report::new(&tallies, &self.shared, ended, self.timeline.since(0));
        let packed = tallies
            .iter()
            .flat_map(|tally| tally.packed.iter().copied());
        let ends = &self.shared.options.section_ends;
        let (sections, start) = (&mut report.sections, self.shared.start);
        let leaves_out = sections::record_packed(sections, ends, start, pauses.as_ref(), packed);
        self.count_unserved(ended, &leaves_out, &mut report);
        Ok(report)
    }

    /// Counts in `report` the operations that were due before the end and that no thread took.
    /// `leaves_out` has, for each section, the pauses whose operations the section leaves out.
    fn count_unserved(&self, ended: Instant, leaves_out: &[Option<&Pauses>], report: &mut Report) {
        let options = &self.shared.options;
        let Some(agenda) = &self.shared.agenda else {
            return;
        };
        let all_done = |max| self.shared.issued.load(Ordering::Relaxed) >= max;
        if options.operations_max.is_some_and(all_done) {
            return;
        }
        let ended = options
            .duration
            .map_or(ended, |time| ended.min(self.shared.start + time));
        let ended_s = ended
            .saturating_duration_since(self.shared.start)
            .as_secs_f64();
        for (due_s, operations) in agenda.lock().unwrap().take_unserved(ended_s) {
            report.operations_unserved += operations;
            let due = Duration::from_secs_f64(due_s);
            if let Some(position) = sections::position(&options.section_ends, due)
                && !leaves_out[position].is_some_and(|pauses| pauses.hide(self.shared.start + due))
            {
                let waited = Duration::from_secs_f64((ended_s - due_s).max(0.0));
                report.sections[position].add_unserved(waited, operations);
            }
        }
    }

    fn join_threads(&mut self) -> Vec<Tally> {
        let workers = self.workers.drain(..);
        let tallies = workers.map(|worker| value_of(worker.join())).collect();
        if let Some(sampler) = self.sampler.take() {
            value_of(sampler.join());
        }
        tallies
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.stop();
        for worker in self.workers.drain(..) {
            // The panic of a worker was printed on stderr already.
            let _ = worker.join();
        }
        if let Some(sampler) = self.sampler.take() {
            let _ = sampler.join();
        }
    }
}

/// Counts a worker as ended when dropped, after a panic too.
struct EndGuard(Arc<RunningWorkers>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        *self.0.workers.lock().unwrap() -= 1;
        self.0.ended.notify_all();
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let thread = thread::Builder::new().name(name.to_string()).spawn(body);
    thread.expect("the system has room for a thread")
}

fn sample_until_end(shared: &Shared, alive: &RunningWorkers, mut sampler: Sampler) {
    let mut next = shared.start;
    loop {
        next += shared.options.interval;
        let left = next.saturating_duration_since(Instant::now());
        let workers = alive.workers.lock().unwrap();
        let (workers, _) = alive
            .ended
            .wait_timeout_while(workers, left, |workers| *workers > 0)
            .unwrap();
        let over = *workers == 0;
        drop(workers);
        let now = Instant::now();
        let now_s = now.saturating_duration_since(shared.start).as_secs_f64();
        sampler.sample(now_s, &shared.slots);
        if over {
            return;
        }
        // After a stall that was longer than an interval, the next interval starts here.
        next = next.max(now - shared.options.interval);
    }
}

#[cfg(test)]
mod tests;
