//! A thread of the caller that temporarily has the scheduling class of tasks.

use super::cores::{Cores, Place};
use crate::model::JobId;
use ebb_threads::{
    SchedulingClass, current_class, current_nice, lower_current_thread, raise_current_thread,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::Arc;

/// A guard: the calling thread has the class of tasks and is tied to a core, as they are. The drop,
/// on the same thread, restores its former class and cores, as far as the system permits it.
#[derive(Debug)]
pub(in crate::runtime) struct LoweredThread {
    nice: i32,
    cores: Option<CpuSet>,
    _place: Place,
}

impl LoweredThread {
    /// Moves the calling thread to the scheduling class of tasks, and to a core like a task of
    /// `job`. Returns `None`, and leaves the thread as it is, if it is not of the ordinary class.
    pub fn begin(cores: &Arc<Cores>, job: JobId) -> Option<Self> {
        if current_class() != SchedulingClass::Normal {
            return None;
        }
        let (nice, allowed) = (current_nice(), sched_getaffinity(None));
        lower_current_thread();
        Some(Self {
            nice,
            cores: allowed.ok(),
            _place: cores.take(job),
        })
    }
}

impl Drop for LoweredThread {
    fn drop(&mut self) {
        // If the system refuses, the thread keeps the low class, as the type documents.
        raise_current_thread(self.nice);
        if let Some(cores) = &self.cores {
            let _ = sched_setaffinity(None, cores);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
