//! Distribution of task threads over the machine's cores.
//!
//! The kernel distributes ordinary threads. Under `SCHED_IDLE` it does not: it treats a core that
//! runs only idle-class threads as idle. So two of them were seen to share one core for seconds
//! while another one had nothing to do. Each task is therefore tied to a core: one without another
//! task of its job, and of these the one with the fewest tasks. A transactional thread that wakes
//! up on that core still displaces the task. But a transactional thread that waits behind another
//! one, on another core, is not moved to a core that runs a task: when the kernel looks for an idle
//! core, cores full of idle-class threads count as busy.
//!
//! A thread under a lease is not tied while it is the only one: nothing can share its core, and if
//! it were tied, it would wait for a busy core while another core is idle.

use crate::model::JobId;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The cores that this process may use, and for each core the jobs of the tasks that have a place
/// there.
#[derive(Debug)]
pub(in crate::runtime) struct Cores {
    tasks: Mutex<Vec<(usize, Vec<JobId>)>>,
    /// The number of places that are taken on all cores. A leased thread of the idle class reads
    /// this number every half millisecond. It takes no lock for that, because the kernel could
    /// preempt it while it held the lock. Another thread that leaves a lease would then have to
    /// wait.
    taken: AtomicUsize,
}

/// A place for a task (or a thread under a lease) on a core, freed on drop.
#[derive(Debug)]
pub(in crate::runtime) struct Place {
    cores: Arc<Cores>,
    core: Option<usize>,
    job: JobId,
}

impl Place {
    pub fn core(&self) -> Option<u32> {
        self.core.and_then(|core| core.try_into().ok())
    }

    /// Ties the calling thread to the core.
    pub fn tie_current_thread(&self) {
        if let Some(core) = self.core {
            tie_current_thread(core);
        }
    }

    /// Returns whether this is the only place that is taken.
    pub fn is_only(&self) -> bool {
        self.cores.taken.load(Ordering::Relaxed) <= 1
    }
}

/// Ties the calling thread to `core`.
pub(in crate::runtime) fn tie_current_thread(core: usize) {
    if core < CpuSet::MAX_CPU {
        let mut set = CpuSet::new();
        set.set(core);
        // If the call fails, the thread runs wherever the kernel puts it.
        let _ = sched_setaffinity(None, &set);
    }
}

impl Cores {
    /// Asks the kernel for the allowed cores. If the call fails, tasks are not tied to cores.
    pub fn detect() -> Self {
        let allowed = sched_getaffinity(None);
        let cores = allowed.map(|set| {
            (0..CpuSet::MAX_CPU)
                .filter(|&core| set.is_set(core))
                .collect()
        });
        Self::of(cores.unwrap_or_default())
    }

    fn of(cores: Vec<usize>) -> Self {
        Self {
            tasks: Mutex::new(cores.into_iter().map(|core| (core, Vec::new())).collect()),
            taken: AtomicUsize::new(0),
        }
    }

    /// Ties the calling thread to a core with few tasks, for a task of `job`. The core counts the
    /// task until the returned place is dropped.
    pub fn take(self: &Arc<Self>, job: JobId) -> Place {
        let place = self.reserve(job);
        place.tie_current_thread();
        place
    }

    /// Reserves a place on a core with few tasks, as [`take`](Self::take) does, and ties no thread.
    pub fn reserve(self: &Arc<Self>, job: JobId) -> Place {
        Place {
            cores: Arc::clone(self),
            core: self.choose(job),
            job,
        }
    }

    fn choose(&self, job: JobId) -> Option<usize> {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let own = |jobs: &[JobId]| jobs.iter().filter(|other| **other == job).count();
        let (core, jobs) = tasks
            .iter_mut()
            .min_by_key(|(_, jobs)| (own(jobs), jobs.len()))?;
        jobs.push(job);
        self.taken.fetch_add(1, Ordering::Relaxed);
        Some(*core)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut tasks = (self.cores.tasks.lock()).unwrap_or_else(PoisonError::into_inner);
        let core = tasks.iter_mut().find(|(core, _)| Some(*core) == self.core);
        if let Some((_, jobs)) = core
            && let Some(at) = jobs.iter().position(|job| *job == self.job)
        {
            jobs.swap_remove(at);
            self.cores.taken.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_spreads_over_the_cores_and_shares_them_evenly_with_others() {
        let cores = Arc::new(Cores::of(vec![3, 5]));
        let [a, b] = [JobId(1), JobId(2)];
        assert_eq!((cores.choose(a), cores.choose(b)), (Some(3), Some(5)));
        // The second task of a job goes to a core without one, though both are equally full.
        assert_eq!((cores.choose(b), cores.choose(a)), (Some(3), Some(5)));
        drop(Place {
            cores: Arc::clone(&cores),
            core: Some(5),
            job: b,
        });
        assert_eq!(cores.choose(JobId(3)), Some(5));
        assert_eq!(Cores::of(Vec::new()).choose(a), None);
    }

    #[test]
    fn a_place_counts_the_others_without_the_lock() {
        let cores = Arc::new(Cores::of(vec![3, 5]));
        let first = cores.reserve(JobId(1));
        // A second lock by the same thread would never be granted.
        let locked = cores.tasks.lock().unwrap();
        assert!(first.is_only());
        drop(locked);
        let second = cores.reserve(JobId(1));
        assert!(!first.is_only() && !second.is_only());
        drop(first);
        assert!(second.is_only());
    }

    #[test]
    fn a_tied_thread_runs_on_one_core() {
        let cores = Arc::new(Cores::detect());
        let allowed = || sched_getaffinity(None).map(|set| set.count());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let place = cores.take(JobId(1));
                if place.core.is_some() {
                    assert_eq!(allowed(), Ok(1));
                }
            });
        });
    }
}
