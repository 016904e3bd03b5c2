//! The thread that records the load and learns a forecast of it.
//!
//! ```text
//!   each minute     samples of the load ─► share, slot
//!   each 5 minutes  slot ─► load.csv
//!   each hour       record ─► thread `ebb-forecast`, in the idle class ─► decision
//!   each minute     decision, share ─► f(t) ─► governor
//! ```
//!
//! The thread in the idle class shares no lock with others: it gets a copy of the record, and sends its result.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{io, mem};

use ebb_colocate::{Governor, Learned, LeftForecast, LoadRecord, learn};
use ebb_jobs::history::now_unix_ms;
use ebb_scheduler::runtime::Runtime;
use ebb_threads::lower_current_thread;
use tracing::{info, warn};

use super::learning::{Learning, Moment, RefusedForecast, Turn};
use super::load_file::LoadFile;

/// The time between two readings of the samples.
const EVERY: Duration = Duration::from_secs(60);

/// The plan by what was learned, for readers on other threads.
#[derive(Debug, Default)]
pub(super) struct LearnedForecast(Mutex<Plan>);

#[derive(Debug, Default)]
struct Plan {
    /// The forecast by which policies plan, while they plan by one that was learned.
    forecast: Option<Arc<LeftForecast>>,
    /// The errors of the latest forecast, if it was refused.
    refused: Option<RefusedForecast>,
}

impl LearnedForecast {
    pub(super) fn forecast(&self) -> Option<Arc<LeftForecast>> {
        self.lock().forecast.clone()
    }

    pub(super) fn refused(&self) -> Option<RefusedForecast> {
        self.lock().refused
    }

    /// Replaces the plan. Returns true if the one before had a forecast.
    fn set(&self, plan: Plan) -> bool {
        mem::replace(&mut *self.lock(), plan).forecast.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Plan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The learning thread. Dropping this stops it and waits for its end.
pub(super) struct Learner {
    /// Dropping this stops the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The parts of the node that the learning thread uses.
pub(super) struct LearnerParts {
    pub runtime: Arc<Runtime>,
    pub governor: Arc<Governor>,
    pub learned: Arc<LearnedForecast>,
    /// The directory of the file with the record of the load.
    pub dir: PathBuf,
    /// True if the group may read that file.
    pub is_group_readable: bool,
}

impl Learner {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(super) fn start(parts: LearnerParts) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let run = move || {
            let mut worker = Worker::new(parts);
            worker.step(worker.now());
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                worker.step(worker.now());
            }
        };
        let thread = thread::Builder::new().name("ebb-learn".to_owned());
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread.spawn(run)?),
        })
    }
}

impl Drop for Learner {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed.
            let _ = thread.join();
        }
    }
}

struct Worker {
    parts: LearnerParts,
    learning: Learning,
    record: LoadRecord,
    /// The file of the record; `None` if it could not be read. It is left as it is then.
    file: Option<LoadFile>,
    /// True if the latest write to the file failed.
    is_failing: bool,
    /// Receives the decision that the thread in the idle class makes, if there is such a thread.
    deciding: Option<Receiver<Learned>>,
}

impl Worker {
    fn new(parts: LearnerParts) -> Self {
        let (file, record) = match LoadFile::read(&parts.dir, parts.is_group_readable) {
            Ok((file, record)) => (Some(file), record),
            Err(error) => {
                warn!(
                    target: "jobs",
                    "the record of the load cannot be read, so it begins anew and is in memory only; move the file away and start the server again: {error}"
                );
                (None, LoadRecord::default())
            }
        };
        Self {
            learning: Learning::new(parts.runtime.now_s()),
            record,
            file,
            is_failing: false,
            deciding: None,
            parts,
        }
    }

    fn now(&self) -> Moment {
        Moment {
            now_s: self.parts.runtime.now_s(),
            unix_s: now_unix_ms() as f64 / 1e3,
        }
    }

    fn step(&mut self, now: Moment) {
        let governor = Arc::clone(&self.parts.governor);
        let cores = governor.cores_for_analytics();
        let samples = governor.history_after(self.learning.sampled_s());
        for slot in self.learning.measure(&samples, cores, now) {
            match &mut self.file {
                Some(file) => {
                    let added = file.add(slot, &mut self.record);
                    self.note(added);
                }
                None => {
                    self.record.push(slot);
                }
            }
        }
        if let Some(learned) = self.decision() {
            self.adopt(learned);
        }
        if self.deciding.is_none() && self.learning.is_due(now) {
            self.begin_decision(now, cores);
        }
        let plan = self.learning.plan(cores, now).map(Arc::new);
        let planned = plan.as_ref().map(|plan| Arc::clone(&plan.expected));
        let had_forecast = self.parts.learned.set(Plan {
            forecast: plan,
            refused: self.learning.refused(),
        });
        match planned {
            Some(expected) => governor.plan_by(expected),
            None if had_forecast => governor.plan_by_mean(),
            // A forecast that something else gave the governor stays.
            None => {}
        }
    }

    /// Logs the first of several failures to write the file.
    fn note(&mut self, added: io::Result<()>) {
        let was_failing = mem::replace(&mut self.is_failing, added.is_err());
        if let Err(error) = added
            && !was_failing
        {
            warn!(target: "jobs", "the record of the load is in memory only until it can be written: {error}");
        }
    }

    /// Starts a thread in the idle class that makes a decision. It is not waited for, because it gets no CPU time
    /// while others use all of it.
    fn begin_decision(&mut self, now: Moment, cores: f64) {
        self.learning.begin(now);
        let (sender, decided) = channel();
        let record = self.record.clone();
        let decide = move || {
            lower_current_thread();
            // The receiver is gone if the node has shut down.
            let _ = sender.send(learn(&record, now.unix_s as u64, cores));
        };
        let thread = thread::Builder::new().name("ebb-forecast".to_owned());
        match thread.spawn(decide) {
            Ok(_) => self.deciding = Some(decided),
            Err(error) => warn!(target: "jobs", "no thread for the forecast of the load: {error}"),
        }
    }

    /// Returns the decision if it was made since the last call.
    fn decision(&mut self) -> Option<Learned> {
        let learned = match self.deciding.as_ref()?.try_recv() {
            Ok(learned) => learned,
            Err(TryRecvError::Empty) => return None,
            // The thread panicked, and its panic was printed.
            Err(TryRecvError::Disconnected) => Learned::TooEarly,
        };
        self.deciding = None;
        Some(learned)
    }

    /// Takes a decision, and logs the change of the plan, if it is one.
    fn adopt(&mut self, learned: Learned) {
        match self.learning.decide(learned) {
            Some(Turn::Forecast { methods }) => info!(
                target: "jobs",
                methods,
                "policies plan by a forecast of the load, which was learned from its record"
            ),
            Some(Turn::Mean(refused)) => info!(
                target: "jobs",
                forecast_error_cores = hundredths(refused.forecast_error_cores),
                mean_error_cores = hundredths(refused.mean_error_cores),
                "policies plan by the mean of the last ten minutes: the forecast of the last six hours was worse"
            ),
            Some(Turn::Neither) => info!(
                target: "jobs",
                "policies plan by the mean of the last ten minutes: no forecast can be made of what is known of the load"
            ),
            None => {}
        }
    }
}

/// Returns a number rounded to two decimal places.
fn hundredths(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

#[cfg(test)]
pub(crate) mod tests {
    use std::f64::consts::TAU;
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::node::{Node, NodeOptions};

    pub(crate) const MIDNIGHT_S: u64 = 1_795_996_800;
    const DAY_S: u64 = 86_400;

    /// Returns the lines of a record of `days` days from [`MIDNIGHT_S`] on, with 0.1 cores at 3:00 and 0.9 cores at
    /// 15:00.
    pub(crate) fn record(days: u64) -> String {
        let line = |slot: u64| {
            let phase = (slot as f64 / 288.0 - 0.125) * TAU;
            let cores = 0.5 - 0.4 * phase.cos();
            format!("{},{cores:.3}\n", MIDNIGHT_S + slot * 300)
        };
        (0..days * 288).map(line).collect()
    }

    fn worker(node: &Node, dir: &Path) -> Worker {
        Worker::new(LearnerParts {
            runtime: Arc::clone(node.runtime()),
            governor: Arc::clone(node.governor().unwrap()),
            learned: Arc::clone(&node.learned),
            dir: dir.to_path_buf(),
            is_group_readable: false,
        })
    }

    /// Lets policies of `node` plan by the record in `dir`, as at `unix_s`, seconds since 1970.
    pub(crate) fn learn_at(node: &Node, dir: &Path, unix_s: u64) {
        decide(&mut worker(node, dir), unix_s);
    }

    /// Makes a step at a time of the machine, and another one after the decision that the first one began.
    fn decide(worker: &mut Worker, unix_s: u64) -> Moment {
        let now = Moment {
            unix_s: unix_s as f64,
            ..worker.now()
        };
        worker.step(now);
        let learned = worker.deciding.take().unwrap().recv().unwrap();
        worker.adopt(learned);
        worker.step(now);
        now
    }

    #[test]
    fn a_server_that_has_a_record_plans_by_the_time_of_day() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("load.csv"), record(3)).unwrap();
        let node = Node::start(None, NodeOptions::for_tests()).unwrap();
        let mut worker = worker(&node, dir.path());
        let now = decide(&mut worker, MIDNIGHT_S + 3 * DAY_S);
        let planned = node.governor().unwrap().forecast().unwrap();
        let at = |hour: f64| planned.at(now.now_s + hour * 3600.0);
        assert!(at(3.0) > at(9.0) && at(9.0) > at(15.0));
        assert!(at(27.0) > at(15.0), "the day is repeated");
        let learned = node.learned_forecast().unwrap();
        assert_eq!(learned.expected, planned);
        // The clock is set back to a day of which too little is known.
        decide(&mut worker, MIDNIGHT_S + DAY_S);
        assert!(node.governor().unwrap().forecast().is_none());
        assert!(node.learned_forecast().is_none());
    }

    #[test]
    fn a_refused_forecast_is_shown_with_its_errors() {
        let dir = tempfile::tempdir().unwrap();
        // From 17:50 on, the load of the last day stays at 1,000 cores, far above the reserve of any machine.
        let last = 3 * 288 - 74;
        let flat = |slot: u64| format!("{},1000.000\n", MIDNIGHT_S + slot * 300);
        let before: Vec<String> = record(3).split_inclusive('\n').map(str::to_owned).collect();
        let text =
            before[..last as usize].concat() + &(last..3 * 288).map(flat).collect::<String>();
        fs::write(dir.path().join("load.csv"), text).unwrap();
        let node = Node::start(None, NodeOptions::for_tests()).unwrap();
        learn_at(&node, dir.path(), MIDNIGHT_S + 3 * DAY_S);
        assert!(node.learned_forecast().is_none());
        let refused = node.refused_forecast().unwrap();
        assert!(refused.forecast_error_cores > 500.0, "{refused:?}");
        assert!(refused.mean_error_cores < 0.01, "{refused:?}");
    }

    #[test]
    fn without_a_record_a_given_forecast_stays() {
        let dir = tempfile::tempdir().unwrap();
        let node = Node::start(None, NodeOptions::for_tests()).unwrap();
        let governor = node.governor().unwrap();
        let given = ebb_scheduler::availability::Availability::constant(70.0).unwrap();
        governor.plan_by(Arc::new(given));
        decide(&mut worker(&node, dir.path()), MIDNIGHT_S);
        assert_eq!(governor.forecast().unwrap().at(0.0), 70.0);
        assert!(!dir.path().join("load.csv").exists(), "no slot has ended");
    }

    #[test]
    fn the_thread_ends_with_its_node() {
        let dir = tempfile::tempdir().unwrap();
        let node = Node::start(None, NodeOptions::for_tests()).unwrap();
        node.learn_load(dir.path(), false).unwrap();
        node.shutdown(crate::node::Stop::Park);
        assert!(node.lock_learner().is_none());
    }
}
