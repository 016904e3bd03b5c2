//! A thread of the caller that temporarily has the scheduling class of tasks.

use super::cores::{Cores, Place};
use crate::model::JobId;
use ebb_threads::{
    SchedulingClass, current_class, current_nice, lower_current_thread, raise_current_thread,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::cell::Cell;
use std::sync::Arc;

/// A guard of a thread that was moved to the scheduling class of tasks. The thread is tied to a
/// core while tasks or other lowered threads run. Dropping the guard, on the same thread, restores
/// the thread's former class and cores, as far as the system permits it.
#[derive(Debug)]
pub(in crate::runtime) struct LoweredThread {
    nice: i32,
    place: Place,
    /// The cores on which the thread could run before it was tied; `None` if it is not tied. A
    /// thread that was never tied keeps cores that the system gives the process meanwhile.
    former_cores: Cell<Option<CpuSet>>,
}

impl LoweredThread {
    /// Moves the calling thread to the scheduling class of tasks, and reserves a place on a core
    /// for it, as for a task of `job`. Returns `None`, and changes nothing, if the thread is not of
    /// the ordinary class.
    pub fn begin(cores: &Arc<Cores>, job: JobId) -> Option<Self> {
        if current_class() != SchedulingClass::Normal {
            return None;
        }
        let nice = current_nice();
        lower_current_thread();
        let lowered = Self {
            nice,
            place: cores.reserve(job),
            former_cores: Cell::new(None),
        };
        lowered.follow_others();
        Some(lowered)
    }

    /// Ties the calling thread, which must be the one that called [`begin`](Self::begin), to the
    /// core of its place if other places are taken, too. Otherwise lets it run on all of its former
    /// cores.
    pub fn follow_others(&self) {
        if self.place.is_only() {
            self.untie();
        } else if self.former_cores.get().is_none()
            && let Ok(cores) = sched_getaffinity(None)
        {
            self.former_cores.set(Some(cores));
            self.place.tie_current_thread();
        }
    }

    fn untie(&self) {
        if let Some(cores) = self.former_cores.take() {
            let _ = sched_setaffinity(None, &cores);
        }
    }
}

impl Drop for LoweredThread {
    fn drop(&mut self) {
        // If the system refuses, the thread keeps the low class, as the type documents.
        raise_current_thread(self.nice);
        self.untie();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lowered_thread_is_tied_to_a_core_only_beside_others() {
        let cores = Arc::new(Cores::detect());
        let thread = std::thread::spawn(move || {
            let allowed = || sched_getaffinity(None).map(|set| set.count()).ok();
            let before = allowed();
            let lowered = LoweredThread::begin(&cores, JobId(1)).expect("it is an ordinary thread");
            assert_eq!(allowed(), before);
            let task = cores.reserve(JobId(2));
            lowered.follow_others();
            assert_eq!(allowed(), before.map(|_| 1));
            drop(task);
            lowered.follow_others();
            assert_eq!(allowed(), before);
        });
        thread.join().unwrap();
    }

    /// Regression: the thread was given the cores that it had when it was lowered, though the system
    /// had changed its cores since, as for a container.
    #[test]
    fn a_lowered_thread_that_was_never_tied_keeps_the_cores_that_it_got_meanwhile() {
        let cores = Arc::new(Cores::detect());
        let thread = std::thread::spawn(move || {
            let allowed = || sched_getaffinity(None).map(|set| set.count()).ok();
            let before = allowed();
            let lowered = LoweredThread::begin(&cores, JobId(1)).expect("it is an ordinary thread");
            lowered.place.tie_current_thread();
            drop(lowered);
            assert_eq!(allowed(), before.map(|_| 1));
        });
        thread.join().unwrap();
    }

    #[test]
    fn a_lowered_thread_gets_its_class_back_where_the_system_permits_it() {
        let cores = Arc::new(Cores::detect());
        let thread = std::thread::spawn(move || {
            let allowed = || sched_getaffinity(None).map(|set| set.count()).ok();
            let before = (allowed(), current_nice());
            let lowered = LoweredThread::begin(&cores, JobId(1)).expect("it is an ordinary thread");
            assert_ne!(current_class(), SchedulingClass::Normal);
            assert!(
                LoweredThread::begin(&cores, JobId(2)).is_none(),
                "it is low"
            );
            drop(lowered);
            let is_raised = current_class() == SchedulingClass::Normal;
            assert_eq!(allowed(), before.0);
            assert!(!is_raised || current_nice() == before.1);
            let nice = current_nice();
            lower_current_thread();
            assert_eq!(
                is_raised,
                raise_current_thread(nice),
                "as at the first time"
            );
        });
        thread.join().unwrap();
    }
}
