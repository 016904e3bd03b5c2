//! The options of a node.

use std::path::PathBuf;
use std::thread::available_parallelism;

use ebb_colocate::ColocatedOptions;

/// The options of a [`Node`](super::Node).
pub struct NodeOptions {
    /// The co-location of jobs and load, and the runtime of the jobs. If these options have no source
    /// of requests, the node counts the requests of the store. `runtime.spill_dir` is ignored in favour
    /// of `spill_dir` below.
    pub colocated: ColocatedOptions,
    /// A fixed CPU budget for the jobs, in hundredths of a core; `None`: the cores that the load and
    /// other processes leave free.
    pub fixed_hundredths: Option<u32>,
    /// The directory in which the node creates its folder for the spilled sorted runs of jobs and for
    /// output rows that wait for their commit. The folder is removed with the node. `None`: for a node that
    /// opens its database ([`Node::open`](super::Node::open)), `spill` in the directory of the database;
    /// for a node over an open database or without one, the system's folder for temporary files.
    pub spill_dir: Option<PathBuf>,
}

impl NodeOptions {
    /// Returns the options of a node that serves a load on `cores` cores. Jobs get the cores that the load
    /// leaves free, less a reserve, but at most `cores`, even if the limit of the cgroup is raised later.
    #[must_use]
    pub fn new(cores: u32) -> Self {
        Self {
            colocated: ColocatedOptions::new(cores),
            fixed_hundredths: None,
            spill_dir: None,
        }
    }

    /// Returns the options of a node that serves no load, for a command that runs jobs itself. No cores are
    /// held in reserve. Other processes come first, but the budget of jobs is always one core at least,
    /// because the user waits for the command. Task threads run under `SCHED_IDLE`: they get the time that
    /// other threads leave of that core. If that is next to nothing, they get the floor, a minimum of CPU
    /// time beside busy processes.
    #[must_use]
    pub fn command() -> Self {
        let mut options = Self::default();
        options.colocated.reserve_cores = 0.0;
        options.colocated.least_hundredths = 100;
        options
    }

    /// Returns the options of [`command`](Self::command), changed for tests that are about something else
    /// than pacing: slow tasks get no second attempt, and task threads run in the normal scheduling class.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn for_tests() -> Self {
        let mut options = Self::command();
        let runtime = &mut options.colocated.runtime;
        runtime.speculation = false;
        runtime.throttles.idle_class = false;
        options
    }

    /// Has jobs run in the normal scheduling class, on all cores, regardless of other processes.
    #[must_use]
    pub fn at_normal_priority(mut self) -> Self {
        let runtime = &mut self.colocated.runtime;
        self.fixed_hundredths = Some(runtime.cores.saturating_mul(100));
        runtime.throttles.idle_class = false;
        self
    }
}

impl Default for NodeOptions {
    /// Returns the options of a node that may use the cores of this process.
    fn default() -> Self {
        Self::new(machine_cores())
    }
}

/// Returns the number of cores that this process may use now, by its CPUs and the limit of its cgroup.
pub fn machine_cores() -> u32 {
    available_parallelism().map_or(1, |cores| cores.get() as u32)
}
