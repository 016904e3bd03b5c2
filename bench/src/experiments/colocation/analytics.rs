//! What runs beside the load: word counts over the snapshot that never end.

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

const CYCLE_S: f64 = 0.1;
const REDUCES: u32 = 1;
/// Completion time goals of the jobs beside the load, in seconds; the last has
/// none.
const GOALS_S: [Option<f64>; 3] = [Some(600.0), Some(3600.0), None];

/// Who runs beside the load.
#[derive(Debug, Clone, PartialEq)]
pub enum Beside {
    Nobody,
    /// Jobs as ordinary threads, as many as there are cores.
    Unmanaged,
    /// Jobs that are held to what the load leaves.
    Managed(Held),
}

/// Whose latencies the guard sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardSees {
    /// The load's, from the moment at which a request was due.
    Load,
    /// The store's own.
    Store,
}

/// How managed jobs are held back.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    pub policy: &'static str,
    pub throttles: Throttles,
    pub objective: Option<Objective>,
    pub guard_sees: GuardSees,
    /// What the disk does for load and jobs together, in bytes per second.
    pub disk_bytes_per_s: Option<u64>,
    pub in_processes: bool,
    /// What they never get, as a part of the machine.
    pub reserve: f64,
    /// They read through the block cache, as who knows nothing of scans would.
    pub through_cache: bool,
}

impl Default for Held {
    /// As `ebb demo` does it.
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

/// Jobs that run until this is dropped.
pub struct Analytics {
    node: Node,
    objective: Option<(Objective, GuardSees)>,
    jobs: Vec<JobHandle>,
    /// What tasks on threads read.
    input: Arc<Endless>,
    /// What processes read.
    pin: Option<PinnedTable>,
}

impl Analytics {
    /// Starts jobs, and waits until they run.
    pub fn start(setup: &Setup, beside: &Beside) -> Result<Option<Self>> {
        let (management, held) = match beside {
            Beside::Nobody => return Ok(None),
            Beside::Unmanaged => (Management::Unmanaged, Held::default()),
            Beside::Managed(held) => (Management::Managed, held.clone()),
        };
        let cores = f64::from(setup.cores);
        let policy = policy::by_name(held.policy);
        let node = Node::start(
            Some(setup.db.clone()),
            NodeOptions {
                colocated: ColocatedOptions {
                    objective: held.objective,
                    reserve_cores: held.reserve * cores,
                    disk_bytes_per_s: held.disk_bytes_per_s,
                    forecast: Some(Arc::new(Availability::constant(cores * 100.0 / 2.0)?)),
                    runtime: RuntimeOptions {
                        policy: policy.ok_or_else(|| anyhow!("no policy {}", held.policy))?,
                        management,
                        throttles: held.throttles,
                        cycle_s: CYCLE_S,
                        ..RuntimeOptions::new(setup.cores)
                    },
                    ..ColocatedOptions::new(setup.cores)
                },
                spill_dir: Some(setup.folder.path().join("spill")),
                ..NodeOptions::new(setup.cores)
            },
        )?;
        let pin = held.in_processes.then(|| setup.text.pin()).transpose()?;
        let application = ApplicationRequest::Wordcount(WordcountRequest { reduces: REDUCES });
        let described = |pin| JobDescription::over_table(application.clone(), pin);
        let description = pin.as_ref().map(described);
        let mut analytics = Self {
            node,
            objective: (held.objective).map(|objective| (objective, held.guard_sees)),
            jobs: Vec::new(),
            input: Arc::new(Endless::new(&setup.text, held.through_cache)?),
            pin,
        };
        for (number, goal_s) in GOALS_S.into_iter().enumerate() {
            let input: Arc<dyn Input> = analytics.input.clone();
            let output = Arc::new(VecOutput::new());
            let mut spec = wordcount::spec(format!("J{number}"), input, output, REDUCES);
            spec.goal_s = goal_s;
            spec.processes = (description.as_ref()).map(|of| Arc::new(of.processes()));
            analytics.jobs.push(analytics.node.runtime().submit(spec)?);
        }
        wait_for_tasks(&analytics.jobs)?;
        Ok(Some(analytics))
    }

    /// Where the load enters its latencies, if there is a guard that goes by them.
    pub fn latencies(&self) -> Option<Latencies> {
        match self.objective? {
            (_, GuardSees::Load) => self.node.latencies(),
            (_, GuardSees::Store) => None,
        }
    }

    /// Lets the guard see the store's own latencies, if it is to go by them.
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

    /// Bytes of rows that tasks read so far; none where they run in processes, which tell
    /// nobody.
    pub fn read_bytes(&self) -> Option<u64> {
        self.pin.is_none().then(|| self.input.read_bytes())
    }

    pub fn scheduling_class(&self) -> String {
        self.node.runtime().scheduling_class().to_string()
    }

    /// The least that the guard allowed of what was left, 0 to 1; none without a guard.
    pub fn allowed_min(&self) -> Option<f64> {
        self.objective?;
        let samples = self.node.governor()?.guarded();
        let allowed = samples.iter().map(|sample| sample.allowed);
        Some(allowed.fold(1.0, f64::min))
    }

    /// That all jobs still run.
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
