//! How a node is set up.

use std::path::PathBuf;
use std::thread::available_parallelism;

use ebb_colocate::ColocatedOptions;

/// The options of a [`Node`](super::Node).
pub struct NodeOptions {
    /// How jobs share the machine with the load, and how they are run. The store counts
    /// the requests unless somebody else is named; `runtime.spill_dir` is not looked at,
    /// see below.
    pub colocated: ColocatedOptions,
    /// Hundredths of a core for the jobs, whatever else runs; `None`: what load and other
    /// processes leave.
    pub fixed_hundredths: Option<u32>,
    /// Where sorted runs and waiting rows are kept, in a folder that goes with the node.
    /// `None`: in `spill` in the directory of the database, or the system's for temporary
    /// files.
    pub spill_dir: Option<PathBuf>,
}

impl NodeOptions {
    /// A node that serves a load on `cores` cores: jobs get what that leaves, but for a
    /// reserve.
    #[must_use]
    pub fn new(cores: u32) -> Self {
        Self {
            colocated: ColocatedOptions::new(cores),
            fixed_hundredths: None,
            spill_dir: None,
        }
    }

    /// A node that serves nobody, for a command over a directory. Other processes come
    /// first; but jobs may ask the kernel for a core in any case, since somebody waits for
    /// them. Under `SCHED_IDLE` they get what other threads leave of it, and the floor where that is
    /// next to nothing. There is no load to reserve for.
    #[must_use]
    pub fn command() -> Self {
        let mut options = Self::default();
        options.colocated.reserve_cores = 0.0;
        options.colocated.least_hundredths = 100;
        options
    }

    /// [`command`](Self::command) for tests that are about something else than pacing: slow
    /// tasks get no second attempt, and task threads run in the normal scheduling class.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn for_tests() -> Self {
        let mut options = Self::command();
        let runtime = &mut options.colocated.runtime;
        runtime.speculation = false;
        runtime.throttles.idle_class = false;
        options
    }

    /// With jobs that run as any other process does, whatever else there is to do.
    #[must_use]
    pub fn at_normal_priority(mut self) -> Self {
        let runtime = &mut self.colocated.runtime;
        self.fixed_hundredths = Some(runtime.cores.saturating_mul(100));
        runtime.throttles.idle_class = false;
        self
    }
}

impl Default for NodeOptions {
    /// On the cores of this machine.
    fn default() -> Self {
        Self::new(machine_cores())
    }
}

/// The cores that this process may run on.
pub fn machine_cores() -> u32 {
    available_parallelism().map_or(1, |cores| cores.get() as u32)
}
