//! Monitor, governor, guard and runtime in one object, for a service to embed.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use ebb_scheduler::availability::Availability;
use ebb_scheduler::runtime::{
    JobHandle, JobSpec, Lease, LeaseOptions, Runtime, RuntimeError, RuntimeOptions, RuntimeStatus,
    SubmitError,
};
use serde::Serialize;
use thiserror::Error;

use crate::floor::FLOOR_CORES;
use crate::governor::{Governor, LoadSample};
use crate::guard::{Guard, GuardSample};
use crate::latencies::{Latencies, RecordedRequests, RecordedWindows};
use crate::machine::{Machine, RESERVE};
use crate::monitor::{LoadMonitor, RequestSource};
use crate::objective::Objective;
use crate::price::PricePoint;
use crate::recent::SAMPLES_MAX_DEFAULT;
use crate::watch::{GuardWatch, LatencySource};

/// The options of a [`Colocated`].
pub struct ColocatedOptions {
    /// The latency objective of the service: analytics shrink before it is missed. With `None`, or without
    /// latencies from [`record`](Colocated::record) or [`watch`](Colocated::watch), analytics get everything
    /// that is left.
    pub objective: Option<Objective>,
    /// The cores that analytics never get, if the service and analytics may use `runtime.cores`
    /// cores together. If they may use more or fewer, because of the CPU limit (`cpu.max`) of a
    /// cgroup, the reserve grows or shrinks in proportion.
    pub reserve_cores: f64,
    /// The guaranteed minimum of analytics, in hundredths of a core. Analytics get it even if the
    /// service needs the CPU or misses its objective. There are two exceptions: pauses that measure
    /// the service alone, and the floor (see `floor_cores`). With 0, analytics may wait forever.
    pub least_hundredths: u32,
    /// The *floor*: the cores that analytics get although other processes hold the CPU, unless the
    /// service or the objective needs them; 0 for none. For the floor, analytics run in the
    /// ordinary scheduling class with a high nice value: in the idle class, threads would get next
    /// to nothing. Meanwhile the floor replaces `least_hundredths`. There is no floor if
    /// `runtime.throttles` turns off the idle class or the pacing of CPU time.
    pub floor_cores: f64,
    /// The throughput of the disk that the service and analytics share, in bytes per second; `None`:
    /// analytics read without a limit.
    pub disk_bytes_per_s: Option<u64>,
    /// The forecast f(t) by which policies plan: the capacity for analytics over time, in hundredths of a
    /// core, with the reserve deducted. `None`: a moving average, over about ten minutes, of the capacity
    /// that analytics got.
    pub forecast: Option<Arc<Availability>>,
    /// The source of [`LoadSample::requests`]; `None`: the [recorded](Colocated::record) requests.
    pub requests: Option<Box<dyn RequestSource>>,
    /// The number of latest control cycles that are kept, and also the number of latest decisions of the
    /// latency guard.
    pub samples_max: usize,
    /// The options of the runtime of the jobs. `cores` is the number of cores on which jobs can run
    /// at once. If it is less than the number that the process could use at the start, it also
    /// bounds the service and the jobs together. The CPU limit of the cgroup is another bound on
    /// the service and the jobs together, and is read in each control cycle. `capacity` is ignored,
    /// because the governor provides it.
    pub runtime: RuntimeOptions,
}

impl ColocatedOptions {
    /// Returns options for `cores` cores. Analytics get everything that the service leaves of them,
    /// less a reserve of a twentieth of the cores. The latency objective is [`Objective::DEFAULT`],
    /// and the options of the runtime are those of [`RuntimeOptions::new`].
    #[must_use]
    pub fn new(cores: u32) -> Self {
        Self {
            objective: Some(Objective::DEFAULT),
            reserve_cores: RESERVE * f64::from(cores),
            least_hundredths: 0,
            floor_cores: FLOOR_CORES.min(f64::from(cores)),
            disk_bytes_per_s: None,
            forecast: None,
            requests: None,
            samples_max: SAMPLES_MAX_DEFAULT,
            runtime: RuntimeOptions::new(cores),
        }
    }

    /// Returns the options of [`new`](Self::new) for the cores that this process may use, with this
    /// objective of the service.
    #[must_use]
    pub fn keeping(objective: Objective) -> Self {
        Self {
            objective: Some(objective),
            ..Self::default()
        }
    }
}

impl Default for ColocatedOptions {
    /// Returns the options of [`new`](Self::new) for the cores that this process may use.
    fn default() -> Self {
        Self::new(available_parallelism().map_or(1, |cores| cores.get() as u32))
    }
}

/// The reason why a [`Colocated`] cannot start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ColocateError {
    /// The kernel does not report the CPU time of threads: the system is not Linux, or `/proc` is not
    /// mounted.
    #[error("cannot read what the threads of this process use; is /proc mounted? {0}")]
    Monitor(#[source] io::Error),
    /// An option is out of range, or the runtime could not start.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The system refuses to start the thread that watches the service's latencies.
    #[error("cannot start the thread that watches latencies: {0}")]
    Watch(#[source] io::Error),
}

/// Runs jobs in a service's own process, on the capacity of the machine that the service's requests
/// leave. The parts are a monitor, a governor, a guard and a runtime. Dropping this value cancels
/// the jobs and joins all threads of the parts.
///
/// All threads in this process count as the service, except those that run tasks of jobs or work
/// under a [lease](Self::lease). The service has priority over jobs. Every other process has
/// priority over them, too, but cannot take the [floor](ColocatedOptions::floor_cores), a minimum
/// of CPU, from them.
///
/// ```
/// use std::sync::Arc;
/// use std::time::{Duration, Instant};
///
/// use ebb_colocate::runtime::{Emit, JobSpec, Outcome, TaskError, VecInput, VecOutput};
/// use ebb_colocate::{Colocated, ColocatedOptions};
///
/// // Once, when the service starts.
/// let options = ColocatedOptions::keeping("p99=5ms".parse()?);
/// # let mut options = options;
/// # options.least_hundredths = 100;
/// # options.runtime.throttles.idle_class = false;
/// let colocated = Arc::new(Colocated::new(options)?);
///
/// // In each request, on any thread.
/// let begun = Instant::now();
/// // ... it is answered ...
/// colocated.record(begun.elapsed());
///
/// // Now and then.
/// let shout = |key: &[u8], line: &[u8], emit: &mut dyn Emit| -> Result<(), TaskError> {
///     emit.emit(key, &line.to_ascii_uppercase())
/// };
/// let input = Arc::new(VecInput::lines("one\ntwo", 1));
/// let output = VecOutput::new();
/// let job = JobSpec::new("shout", input, Arc::new(shout), Arc::new(output.clone()));
/// let report = colocated.submit(job)?.wait();
/// assert_eq!(report.outcome, Outcome::Succeeded);
/// println!("{}", colocated.status());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Colocated {
    latencies: Latencies,
    governor: Arc<Governor>,
    // The runtime, which the watch refers to, must be dropped after it.
    _watch: Option<GuardWatch>,
    runtime: Arc<Runtime>,
}

impl fmt::Debug for Colocated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Colocated")
            .field("governor", &self.governor)
            .finish_non_exhaustive()
    }
}

impl Colocated {
    /// Starts to measure the machine, and starts a runtime without jobs.
    ///
    /// # Errors
    /// If an option is out of range, the kernel does not report the CPU time of threads, the spill
    /// directory cannot be created, or a thread cannot be started.
    pub fn new(options: ColocatedOptions) -> Result<Self, ColocateError> {
        let latencies = Latencies::new();
        let requests = options
            .requests
            .unwrap_or_else(|| Box::new(RecordedRequests::new(latencies.clone())));
        let monitor = LoadMonitor::start().map_err(ColocateError::Monitor)?;
        let monitor = monitor.with_requests(requests);
        let throttles = &options.runtime.throttles;
        let has_floor = throttles.idle_class && throttles.cpu_pacing;
        let machine = Machine {
            cores: options.runtime.cores,
            reserve_cores: options.reserve_cores,
            least_hundredths: options.least_hundredths,
            floor_cores: if has_floor { options.floor_cores } else { 0.0 },
            disk_bytes_per_s: options.disk_bytes_per_s,
            forecast: options.forecast,
        };
        machine.check()?;
        let governor = Governor::new(machine, monitor, options.objective.map(Guard::new));
        let governor = Arc::new(governor.keeping(options.samples_max));
        let runtime = Arc::new(Runtime::start(RuntimeOptions {
            capacity: governor.clone(),
            ..options.runtime
        })?);
        let watch = |objective: Objective| {
            let windows = RecordedWindows::new(latencies.clone(), objective.quantile);
            GuardWatch::start(governor.clone(), runtime.clone(), windows)
        };
        let watch = options.objective.map(watch).transpose();
        Ok(Self {
            _watch: watch.map_err(ColocateError::Watch)?,
            latencies,
            governor,
            runtime,
        })
    }

    /// Counts a request of this latency: one atomic addition, without a lock. Time that the request waited
    /// before `latency` began is invisible here. So if you know when the request was due or came in, measure
    /// from then on.
    #[inline]
    pub fn record(&self, latency: Duration) {
        self.latencies.record(latency);
    }

    /// Returns the counters to which [`record`](Self::record) adds. A thread that only records needs no more
    /// than these.
    pub fn latencies(&self) -> Latencies {
        self.latencies.clone()
    }

    /// Accepts a job, like [`Runtime::submit`].
    ///
    /// # Errors
    /// If the job is invalid, its input or output returns an error, its spill directory cannot be created,
    /// or the runtime accepts no jobs. Nothing is left behind then.
    pub fn submit(&self, job: JobSpec) -> Result<JobHandle, SubmitError> {
        self.runtime.submit(job)
    }

    /// Returns a share for background work of the service, such as an export or a report, like
    /// [`Runtime::lease`]: the work runs on threads of the service beside the jobs, and its CPU time counts
    /// as analytics.
    ///
    /// ```
    /// # use ebb_colocate::{Colocated, ColocatedOptions, runtime::LeaseOptions};
    /// let options = ColocatedOptions::default();
    /// # let mut options = options;
    /// # options.least_hundredths = 100;
    /// # options.runtime.throttles.idle_class = false;
    /// let colocated = Colocated::new(options)?;
    /// let lease = colocated.lease("report", LeaseOptions::default())?;
    /// let thread = lease.enter()?; // waits for a share
    /// for row in ["ebb", "and", "flow"] {
    ///     thread.read(row.len())?; // waits while the lease has used more than its share
    /// }
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
        self.runtime.lease(name, options)
    }

    /// Returns the state of the service and its jobs.
    pub fn status(&self) -> ColocatedStatus {
        ColocatedStatus {
            load: self.governor.latest(),
            guard: self.governor.latest_guarded(),
            price: self.governor.price(),
            runtime: self.runtime.status(),
        }
    }

    /// Adds another source of latencies, for a service that cannot [`record`](Self::record) them.
    /// The latency guard, which limits analytics while requests are too slow, uses the source until
    /// the result is dropped. If the service also records its latencies, each request is counted
    /// twice. Without an objective there is no guard, and the latencies are ignored.
    ///
    /// # Errors
    /// If the system refuses to start a thread.
    pub fn watch(&self, source: impl LatencySource + 'static) -> io::Result<GuardWatch> {
        GuardWatch::start(self.governor.clone(), self.runtime.clone(), source)
    }

    /// Returns the runtime of the jobs.
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// Returns the governor, which determines the capacity of the jobs.
    pub fn governor(&self) -> &Arc<Governor> {
        &self.governor
    }
}

/// The state of a service and its jobs. Displayed, it is one line.
#[derive(Debug, Clone, Serialize)]
pub struct ColocatedStatus {
    /// The latest control cycle; `None` before the first one.
    pub load: Option<LoadSample>,
    /// The latest decision of the latency guard, which limits analytics so that the service meets its
    /// latency objective; `None` before the first one, and without an objective.
    pub guard: Option<GuardSample>,
    /// The price of analytics: the growth of the service's latencies, for each fraction of the
    /// remaining capacity that analytics were allowed to use. Empty until the price is known, and
    /// for an objective that is no [multiple](crate::Limit::OverAlone) of the latency without
    /// analytics.
    pub price: Vec<PricePoint>,
    /// The state of the runtime and of its jobs.
    pub runtime: RuntimeStatus,
}

impl fmt::Display for ColocatedStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let load = self.load.unwrap_or_default();
        let requests = load.requests.unwrap_or_default();
        let jobs = &self.runtime.jobs;
        let running = jobs.iter().filter(|job| job.finished_s.is_none()).count();
        write!(
            f,
            "service {:.2} cores, {:.0} requests/s, p99 {:.2} ms; others {:.2} cores; {running} {}, {:.2} cores for them",
            load.transactional_cores,
            requests.requests_per_s,
            requests.p99_us / 1e3,
            load.others_cores,
            if running == 1 { "job" } else { "jobs" },
            f64::from(load.capacity_hundredths) / 100.0,
        )?;
        match self.guard {
            Some(guard) => {
                write!(f, " ({:.0}% of what is left", guard.allowed * 100.0)?;
                match guard.alone_us {
                    Some(alone_us) => write!(f, "; alone {:.2} ms)", alone_us / 1e3),
                    None => f.write_str(")"),
                }
            }
            None => Ok(()),
        }
    }
}
