//! The jobs beside the load: word counts over a snapshot whose text repeats without end.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use ebb_colocate::{ColocatedOptions, Governor, GuardWatch, Latencies, Objective, RESERVE};
use ebb_jobs::launch::JobDescription;
use ebb_jobs::request::{ApplicationRequest, WordcountRequest};
use ebb_jobs::wordcount;
use ebb_scheduler::availability::Availability;
use ebb_scheduler::policy;
use ebb_scheduler::runtime::{Input, JobHandle, Management, RuntimeOptions, Throttles, VecOutput};
use ebb_server::node::{Node, NodeOptions, Stop, StoreWindows};
use ebb_storage::{Db, PinnedTable};

use super::endless::{Endless, wait_for_tasks};
use super::setup::Setup;

/// The length of a control cycle, in seconds. It is shorter than the default, because windows last
/// for seconds only, and the part `step` evaluates the time after a sudden rise of the load in
/// pieces of this length.
const CYCLE_S: f64 = 0.1;
/// The number of reduce tasks of a job. No reduce task runs, because each window ends before the
/// maps do.
const REDUCES: u32 = 1;
/// Completion time goals of the jobs beside the load, in seconds; the last job has none. Both goals
/// lie far beyond the end of a window, which lasts for seconds; otherwise the values are arbitrary.
const GOALS_S: [Option<f64>; 3] = [Some(600.0), Some(3600.0), None];

/// The jobs beside the load.
#[derive(Debug, Clone, PartialEq)]
pub enum Beside {
    NoJobs,
    /// Jobs as ordinary threads, as many as there are cores.
    Unmanaged,
    /// Jobs that may use only the capacity that the load leaves.
    Managed(JobSettings),
}

/// The latencies by which the guard limits jobs, so that the load keeps its objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardSees {
    /// The latencies that the load's threads measure, from the moment at which an operation was
    /// due.
    Load,
    /// The latencies of reads and writes that the store measures itself.
    Store,
}

/// The settings of managed jobs, which may use only the capacity that the load leaves.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSettings {
    pub policy: &'static str,
    pub throttles: Throttles,
    pub objective: Option<Objective>,
    pub guard_sees: GuardSees,
    /// The disk bandwidth that load and jobs share, in bytes per second; `None` for no limit.
    pub disk_bytes_per_s: Option<u64>,
    pub in_processes: bool,
    /// The fraction of the machine that jobs never get, 0 to 1.
    pub reserve: f64,
    /// Whether jobs read through the block cache, like a program that does not use the store's
    /// scans for analytics.
    pub through_cache: bool,
}

impl Default for JobSettings {
    /// The settings of `ebb demo`.
    fn default() -> Self {
        Self {
            policy: policy::DEFAULT,
            throttles: Throttles::default(),
            objective: None,
            guard_sees: GuardSees::Load,
            disk_bytes_per_s: None,
            in_processes: false,
            reserve: RESERVE,
            through_cache: false,
        }
    }
}

/// Jobs that run until this value is dropped.
pub struct Analytics {
    node: Node,
    objective: Option<(Objective, GuardSees)>,
    jobs: Vec<JobHandle>,
    /// The input of jobs whose tasks run on threads of this process.
    input: Arc<Endless>,
    /// The pinned table from which child processes read, if tasks run in processes of their own.
    pin: Option<PinnedTable>,
}

impl Analytics {
    /// Starts the jobs, and waits until they run. Returns `None` for [`Beside::NoJobs`].
    pub fn start(setup: &Setup, beside: &Beside) -> Result<Option<Self>> {
        let (management, settings) = match beside {
            Beside::NoJobs => return Ok(None),
            // The runtime does not use the policy of unmanaged jobs, and the default settings have no
            // objective, so that no guard limits the jobs.
            Beside::Unmanaged => (Management::Unmanaged, JobSettings::default()),
            Beside::Managed(settings) => (Management::Managed, settings.clone()),
        };
        let cores = f64::from(setup.cores);
        let policy = policy::by_name(settings.policy);
        let node = Node::start(
            Some(setup.db.clone()),
            NodeOptions {
                colocated: ColocatedOptions {
                    objective: settings.objective,
                    reserve_cores: settings.reserve * cores,
                    disk_bytes_per_s: settings.disk_bytes_per_s,
                    // Without a forecast, policies would plan by what the load has left so far, so that
                    // plans would differ from window to window. With this one, half of the machine by choice,
                    // they do not depend on the load; jobs still get only what is left.
                    forecast: Some(Arc::new(Availability::constant(cores * 100.0 / 2.0)?)),
                    runtime: RuntimeOptions {
                        policy: policy.ok_or_else(|| anyhow!("no policy {}", settings.policy))?,
                        management,
                        throttles: settings.throttles,
                        cycle_s: CYCLE_S,
                        ..RuntimeOptions::new(setup.cores)
                    },
                    ..ColocatedOptions::new(setup.cores)
                },
                spill_dir: Some(setup.folder.path().join("spill")),
                ..NodeOptions::new(setup.cores)
            },
        )?;
        let pin = settings
            .in_processes
            .then(|| setup.text.pin())
            .transpose()?;
        let application = ApplicationRequest::Wordcount(WordcountRequest { reduces: REDUCES });
        let described = |pin| JobDescription::over_table(application.clone(), pin);
        let description = pin.as_ref().map(described);
        // Made before the jobs are submitted: if that fails, the drop of this value ends those that run.
        let mut analytics = Self {
            node,
            objective: (settings.objective).map(|objective| (objective, settings.guard_sees)),
            jobs: Vec::new(),
            input: Arc::new(Endless::new(&setup.text, settings.through_cache)?),
            pin,
        };
        for (number, goal_s) in GOALS_S.into_iter().enumerate() {
            let input: Arc<dyn Input> = analytics.input.clone();
            // Stays empty, because no reduce runs before the window ends.
            let output = Arc::new(VecOutput::new());
            let mut spec = wordcount::spec(format!("J{number}"), input, output, REDUCES);
            spec.goal_s = goal_s;
            spec.processes = (description.as_ref()).map(|of| Arc::new(of.processes()));
            analytics.jobs.push(analytics.node.runtime().submit(spec)?);
        }
        wait_for_tasks(&analytics.jobs)?;
        Ok(Some(analytics))
    }

    /// Returns the recorder for the load's latencies, if the latency guard, which limits the jobs,
    /// measures these.
    pub fn latencies(&self) -> Option<Latencies> {
        match self.objective? {
            (_, GuardSees::Load) => self.node.latencies(),
            (_, GuardSees::Store) => None,
        }
    }

    /// Starts to pass the store's own latencies to the latency guard, until the returned value is
    /// dropped. Returns `None` if the guard does not measure these, or there is no guard.
    pub fn watch_store(&self, db: &Db) -> Result<Option<GuardWatch>> {
        let Some((objective, GuardSees::Store)) = self.objective else {
            return Ok(None);
        };
        let watch = self.node.watch(StoreWindows::new(db, objective.quantile));
        watch.context("cannot start the guard")
    }

    pub fn governor(&self) -> Option<&Arc<Governor>> {
        self.node.governor()
    }

    /// Returns the bytes of rows that tasks have read so far. `None` if tasks run in processes,
    /// which do not report it.
    pub fn read_bytes(&self) -> Option<u64> {
        self.pin.is_none().then(|| self.input.read_bytes())
    }

    pub fn scheduling_class(&self) -> String {
        self.node.runtime().scheduling_class().to_string()
    }

    /// Returns the lowest limit that the latency guard set for analytics, as a fraction (0 to 1) of
    /// the capacity that the load leaves. `None` without a latency objective.
    pub fn allowed_min(&self) -> Option<f64> {
        self.objective?;
        let samples = self.node.governor()?.guarded();
        let allowed = samples.iter().map(|sample| sample.allowed);
        Some(allowed.fold(1.0, f64::min))
    }

    /// Checks that all jobs still run.
    pub fn check(&self) -> Result<()> {
        for job in &self.jobs {
            let status = job.status();
            ensure!(
                status.finished_s.is_none(),
                "{} ended during the window: {}",
                status.name,
                status.cause.unwrap_or_default()
            );
        }
        Ok(())
    }
}

impl Drop for Analytics {
    fn drop(&mut self) {
        self.node.shutdown(Stop::Cancel);
    }
}
