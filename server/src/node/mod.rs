//! A node: one database, the jobs beside it, and the co-location loop that keeps them out of its way.
//!
//! ```text
//!   front ends: command line, servers, demo, experiments
//!        │ JobRequest, id
//!        v
//!   Node ── submit, estimate, restart
//!    │ ├─ start ─> launch ─> drive: a thread per job ──> history, in the database
//!    │ ├─ jobs: list, show, cancel, discard
//!    │ ├─ verify, backup: the files of the database, beside the jobs
//!    └─ assembly: Db, governor, guard, runtime
//! ```
//!
//! Invariants: a node does not depend on its front ends, prints nothing, and handles no signal. Any
//! number of its jobs run at once, under one policy. The history has a job before the job starts, and
//! its end before any client sees the end.
//!
//! | file | contents |
//! | --- | --- |
//! | `options` | the options of a node |
//! | `assembly` | the assembly of database, governor and runtime, in one place |
//! | `start`, `expect` | the start of a job, and the facts that are known before it |
//! | `jobs` | the running jobs and those in the history, by the trait [`Jobs`](crate::jobs::Jobs) |
//! | `running`, `drive` | the handle of a running job, and the thread that drives it to its end |
//! | `registry`, `ended` | the running jobs, claims to jobs, and counts of the ended ones by outcome |
//! | `spills` | the folder for sorted runs |
//! | `store` | a store's measurements of its own requests |
//! | `verify`, `backup`, `restore` | the verification of the database, a backup, and a restore, under a lease |
//! | `loss` | the acceptance of a loss of damaged files |
//! | `file_checks` | the checks of one file after the other, for as long as the node runs |
//! | `learner`, `learning` | the thread that learns a forecast of the load, and its state |
//! | `load_file` | the file with the record of the load |
//! | `running_maintenance`, `byte_rate` | a backup, a restore or a verification as the clients of jobs see it |
//! | `maintenance` | the records of these in the history of jobs |
//! | `pace` | the limit on the rate of these |

mod assembly;
mod backup;
#[expect(
    clippy::disallowed_methods,
    reason = "measures work on real files in real time"
)]
mod byte_rate;
mod drive;
mod ended;
mod expect;
#[expect(
    clippy::disallowed_methods,
    reason = "slows real reads down in real time"
)]
mod file_checks;
mod jobs;
mod learner;
mod learning;
mod leased_work;
#[expect(
    clippy::disallowed_methods,
    reason = "the record of the load is a file"
)]
mod load_file;
mod loss;
mod maintenance;
mod options;
#[expect(
    clippy::disallowed_methods,
    reason = "sleeps between blocks of a backup, in real time"
)]
mod pace;
mod registry;
mod restore;
mod running;
mod running_maintenance;
#[expect(
    clippy::disallowed_methods,
    reason = "makes and removes the folder for spills"
)]
mod spills;
mod start;
#[expect(
    clippy::disallowed_methods,
    reason = "measures real requests in real time"
)]
mod store;
#[cfg(test)]
mod tests;
mod verify;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ebb_colocate::{Colocated, Governor, GuardWatch, Latencies, LatencySource, LeftForecast};
use ebb_jobs::advice::SizedJob;
use ebb_jobs::history::{History, Submission};
use ebb_jobs::launch::{Site, TableCheck, delete_left_snapshots, permit_all};
use ebb_jobs::request::JobRequest;
use ebb_jobs::{JobError, SPILLS, SpillPlace};
use ebb_scheduler::runtime::{JobSpec, Runtime};
use ebb_storage::{Db, Options};
use ebb_tables::{Catalog, GracePeriods, LazyCatalog, Unreadable, with_cql_tables};
use tracing::warn;

use self::backup::BackupTimes;
pub use self::ended::EndedJobs;
use self::file_checks::FileChecker;
#[cfg(test)]
pub(crate) use self::learner::tests as learner_tests;
use self::learner::{LearnedForecast, Learner, LearnerParts};
pub use self::learning::RefusedForecast;
pub use self::options::{NodeOptions, machine_cores};
pub use self::pace::Pace;
use self::registry::Registry;
pub use self::running::{RunningJob, Stop};
pub(crate) use self::running_maintenance::RunningMaintenance;
use self::spills::Spills;
pub use self::store::{StoreRequests, StoreWindows};
use crate::jobs::{Estimate, Restart};

/// A node: a runtime for jobs, and a database if it has one. Dropping it parks the running jobs:
/// they stay unfinished, and the next node over the same database can start them again (without a
/// database they are lost). See [`shutdown`](Self::shutdown).
pub struct Node {
    registry: Arc<Registry>,
    history: OnceLock<History>,
    backup_times: BackupTimes,
    site: Site,
    policy: &'static str,
    /// The loop that measures the load and sets how many cores jobs may use; `None` if that number
    /// is fixed.
    colocated: Option<Colocated>,
    runtime: Arc<Runtime>,
    checker: Mutex<Option<FileChecker>>,
    learner: Mutex<Option<Learner>>,
    learned: Arc<LearnedForecast>,
    /// The folder for temporary files of jobs. It is dropped after everything that may write to it.
    _spills: Spills,
}

impl Node {
    /// Opens the database in `data` and starts a node over it. The merge operators of CQL tables need
    /// not be in `db`: this adds them.
    ///
    /// # Errors
    /// When the database cannot be opened, an option is out of range, or the system
    /// refuses a thread or a folder.
    pub fn open(data: &Path, db: Options, options: NodeOptions) -> Result<Self, JobError> {
        let grace_periods = GracePeriods::default();
        let db = Db::open(data, with_cql_tables(db, &grace_periods))?;
        if let Ok(Some(history)) = History::existing(&db) {
            // Snapshots that cannot be deleted now are deleted at the next opening, or expire.
            let _ = delete_left_snapshots(&db, &history);
        }
        let spill_dir = options.spill_dir.is_none().then(|| data.join(SPILLS));
        let spills = spill_dir.map(|parent| Spills::create_in(parent, true));
        let catalog = LazyCatalog::new(grace_periods);
        Self::assemble(Some(db), catalog, spills.transpose()?, options)
    }

    /// Starts a node over a database that is open, or without one.
    ///
    /// # Errors
    /// As [`Node::open`].
    pub fn start(db: Option<Db>, options: NodeOptions) -> Result<Self, JobError> {
        Self::assemble(db, LazyCatalog::default(), None, options)
    }

    fn assemble(
        db: Option<Db>,
        catalog: LazyCatalog,
        spills: Option<Spills>,
        options: NodeOptions,
    ) -> Result<Self, JobError> {
        let named = || options.spill_dir.clone().unwrap_or_else(std::env::temp_dir);
        let spills = match spills {
            Some(spills) => spills,
            None => Spills::create_in(named(), false)?,
        };
        let runtime = &options.colocated.runtime;
        let space = assembly::spill_space(db.as_ref(), runtime);
        let place = SpillPlace::new(spills.path(), space);
        let (cores, task_memory_bytes) = (runtime.cores, runtime.task_memory_bytes);
        let policy = runtime.policy.name();
        let (runtime, colocated) = assembly::start(db.as_ref(), &place, options)?;
        Ok(Self {
            registry: Arc::default(),
            history: OnceLock::new(),
            backup_times: BackupTimes::recorded(db.as_ref()),
            site: Site {
                db,
                catalog,
                spills: place,
                cores,
                task_memory_bytes,
            },
            policy,
            colocated,
            runtime,
            checker: Mutex::default(),
            learner: Mutex::default(),
            learned: Arc::default(),
            _spills: spills,
        })
    }

    /// Starts a job, and returns its handle. The inputs and the output are opened on the calling
    /// thread. A node with a database records the job before its first task starts.
    ///
    /// # Errors
    /// When the request makes no sense, an input does not exist, or the output cannot be opened. A
    /// refused job leaves nothing behind.
    pub fn submit(&self, request: JobRequest) -> Result<RunningJob, JobError> {
        start::submit(self, request, None, &permit_all, |spec| spec)
    }

    /// Starts a job for the request of a client, which may retry the request. The submission is recorded with the
    /// job, and [`submitted`](Self::submitted) finds it. `check` is called for each table that the
    /// job reads or writes.
    ///
    /// # Errors
    /// See [`submit`](Self::submit); the error of `check`.
    pub fn submit_as(
        &self,
        request: JobRequest,
        submission: Option<Submission>,
        check: &TableCheck<'_>,
    ) -> Result<RunningJob, JobError> {
        start::submit(self, request, submission, check, |spec| spec)
    }

    /// Estimates for a client how long a job would take: see [`Jobs::estimate`](crate::jobs::Jobs::estimate).
    /// `check` is called for each table that the job would read or write.
    ///
    /// # Errors
    /// See [`submit`](Self::submit); the error of `check`.
    pub fn estimate_as(
        &self,
        request: &JobRequest,
        check: &TableCheck<'_>,
    ) -> Result<Estimate, JobError> {
        start::estimate(self, request, check)
    }

    /// Starts a job after applying `change` to its specification. An experiment can make a job
    /// longer by reading its input several times. The change does not apply to a chain, nor when
    /// the job is started again after its node has stopped.
    ///
    /// # Errors
    /// See [`submit`](Self::submit).
    pub fn submit_changed(
        &self,
        request: JobRequest,
        change: impl FnOnce(JobSpec) -> JobSpec,
    ) -> Result<RunningJob, JobError> {
        start::submit(self, request, None, &permit_all, change)
    }

    /// Returns the number of tasks that the job of `request` would have, and the CPU time of a task by the
    /// profile of earlier jobs in the history. Starts no job and leaves nothing behind. `check` is called for each
    /// table that the job would read or write.
    ///
    /// # Errors
    /// See [`Node::submit`]; also when no profile of such jobs is known; the error of `check`.
    pub fn sized(
        &self,
        request: &JobRequest,
        check: &TableCheck<'_>,
    ) -> Result<SizedJob, JobError> {
        expect::sized(self, request, check)
    }

    /// Starts an unfinished job again, and returns its handle. If the job had succeeded before, or must not
    /// start again, records this as its end instead.
    ///
    /// # Errors
    /// See [`Jobs::restart`](crate::jobs::Jobs::restart).
    pub fn restart(&self, id: &str) -> Result<Restart<RunningJob>, JobError> {
        start::restart(self, id, &permit_all)
    }

    /// Starts an unfinished job again for a client, as [`restart`](Self::restart). `check` is called for each table
    /// that the job reads or writes.
    ///
    /// # Errors
    /// See [`restart`](Self::restart); the error of `check`, after which the job stays unfinished.
    pub fn restart_as(
        &self,
        id: &str,
        check: &TableCheck<'_>,
    ) -> Result<Restart<RunningJob>, JobError> {
        start::restart(self, id, check)
    }

    /// Returns the database, if the node has one.
    pub fn db(&self) -> Option<&Db> {
        self.site.db.as_ref()
    }

    /// Returns the database for `what`, the work that needs it, such as "a backup".
    ///
    /// # Errors
    /// When the node has no database; the error names the work.
    pub(crate) fn database(&self, what: &str) -> Result<&Db, JobError> {
        let no = || JobError::NoDatabase(what.to_string());
        self.db().ok_or_else(no)
    }

    /// Returns the catalog of the database, which CQL and jobs share: the schemas of the tables, and the
    /// source of timestamps. The first call opens it.
    ///
    /// # Errors
    /// See [`Catalog::open`]; also when the node has no database.
    pub fn catalog(&self) -> Result<Arc<Catalog>, JobError> {
        let db = self.database("a table of CQL")?;
        Ok(self.site.catalog.of(db)?)
    }

    /// Returns the catalog if it is open. Waits while another thread opens it.
    pub fn opened_catalog(&self) -> Option<Arc<Catalog>> {
        self.site.catalog.opened_or_opening()
    }

    /// Runs `work`, such as the creation or deletion of a snapshot, under the lock that statements of CQL take for
    /// that and for changes of the schema: see [`LazyCatalog::exclusively`].
    pub fn exclusively<T>(&self, work: impl FnOnce() -> T) -> T {
        self.site.catalog.exclusively(work)
    }

    /// Reads the unreadable parts of the schema and the roles again, after damaged files were replaced or
    /// found whole, and puts those that can be read into service. If stored records of objects in service
    /// were lost, writes them again from memory. Does nothing if the catalog is not open.
    ///
    /// An error is logged and not returned, because the caller has to report which files are whole.
    pub fn reread_catalog(&self) {
        let Some(catalog) = self.opened_catalog() else {
            return;
        };
        if let Err(error) = catalog.reread() {
            warn!(target: "storage", "the records of the schema and the roles: {error}");
        }
    }

    /// Lists the unreadable records of the schema, of the roles and of the node. Reads no file and does not
    /// wait: the list is empty if the catalog is not open, and while another thread opens it or looks at it.
    pub fn unreadable(&self) -> Vec<Unreadable> {
        let catalog = self.site.catalog.opened();
        catalog.map_or_else(Vec::new, |catalog| catalog.unreadable())
    }

    /// Returns whether the node refuses new jobs because it shuts down.
    pub fn is_closed(&self) -> bool {
        self.registry.is_closed()
    }

    /// Returns the numbers of ended jobs by outcome.
    pub fn ended(&self) -> EndedJobs {
        self.registry.ended()
    }

    /// Returns the name of the policy by which jobs share the cores that they may use.
    pub fn policy(&self) -> &'static str {
        self.policy
    }

    /// Returns the runtime of the jobs, for its statistics, and for callers that submit a job to it without a
    /// [`JobRequest`].
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// Returns the governor, which decides how many cores jobs may use; `None` if the options fix the number.
    pub fn governor(&self) -> Option<&Arc<Governor>> {
        self.colocated.as_ref().map(Colocated::governor)
    }

    /// Returns the recorder for the latencies of a server's requests; `None` if the options fix how many
    /// cores jobs may use. The guard, which limits the cores of jobs, uses these latencies to keep the
    /// latency objective.
    pub fn latencies(&self) -> Option<Latencies> {
        self.colocated.as_ref().map(Colocated::latencies)
    }

    /// Passes the latencies of the load from `source` to the guard, which limits the cores of jobs to keep
    /// the latency objective, until the returned watch is dropped. Returns `None` if the options fix how many
    /// cores jobs may use.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn watch(&self, source: impl LatencySource + 'static) -> io::Result<Option<GuardWatch>> {
        let colocated = self.colocated.as_ref();
        let watch = colocated.map(|colocated| colocated.watch(source));
        watch.transpose()
    }

    /// Starts a thread that records the load in the file `load.csv` of the directory `dir`, and from two days of
    /// records on lets policies plan by a forecast of it, until the node shuts down. The group may read the file
    /// if `is_group_readable` is set. If the options fix how many cores jobs may use, this does nothing: the load
    /// is not measured then.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn learn_load(&self, dir: &Path, is_group_readable: bool) -> io::Result<()> {
        let Some(governor) = self.governor() else {
            return Ok(());
        };
        let learner = Learner::start(LearnerParts {
            runtime: Arc::clone(&self.runtime),
            governor: Arc::clone(governor),
            learned: Arc::clone(&self.learned),
            dir: dir.to_path_buf(),
            is_group_readable,
        })?;
        let before = self.lock_learner().replace(learner);
        drop(before);
        Ok(())
    }

    /// Returns the forecast by which policies plan, if it was [learned](Self::learn_load) from the record of the
    /// load.
    pub fn learned_forecast(&self) -> Option<Arc<LeftForecast>> {
        self.learned.forecast()
    }

    /// Returns the errors of the latest forecast that was [learned](Self::learn_load), if policies do not plan by it
    /// because of them.
    pub fn refused_forecast(&self) -> Option<RefusedForecast> {
        self.learned.refused()
    }

    /// Refuses new jobs, stops the running ones as `how` states, and waits until they have ended. Cancelled
    /// jobs are done; parked jobs stay unfinished, and the next node over the database can start them again.
    /// Also ends backups, verifications, the checks of files and the record of the load. May be called more than once.
    pub fn shutdown(&self, how: Stop) {
        self.registry.close(how);
        self.runtime.shutdown();
        let checker = self.lock_checker().take();
        drop(checker);
        let learner = self.lock_learner().take();
        drop(learner);
    }

    fn lock_checker(&self) -> MutexGuard<'_, Option<FileChecker>> {
        self.checker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_learner(&self) -> MutexGuard<'_, Option<Learner>> {
        self.learner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shutdown(Stop::Park);
    }
}
