//! A thread of the caller under the scheduling class of tasks, for a while.

use super::cores::{Cores, Place};
use crate::model::JobId;
use ebb_threads::{
    SchedulingClass, current_class, current_nice, lower_current_thread, raise_current_thread,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::Arc;

/// The calling thread under the class of tasks and tied to a core, as they are. On drop,
/// on the same thread, it is what it was before, as far as the system lets it.
#[derive(Debug)]
pub(in crate::runtime) struct Lowered {
    nice: i32,
    cores: Option<CpuSet>,
    _place: Place,
}

impl Lowered {
    /// Lowers the calling thread for `job`; `None` when it is not of the ordinary class,
    /// and then is left as it is.
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

impl Drop for Lowered {
    fn drop(&mut self) {
        // Refused, it stays where it is, as `Lowered::new` documents.
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
    fn a_lowered_thread_is_what_it_was_before_where_the_system_lets_it() {
        let cores = Arc::new(Cores::detect());
        let thread = std::thread::spawn(move || {
            let allowed = || sched_getaffinity(None).map(|set| set.count()).ok();
            let before = (allowed(), current_nice());
            let lowered = Lowered::begin(&cores, JobId(1)).expect("it is as any other");
            assert_ne!(current_class(), SchedulingClass::Normal);
            assert!(Lowered::begin(&cores, JobId(2)).is_none(), "it is low");
            drop(lowered);
            let is_raised = current_class() == SchedulingClass::Normal;
            assert_eq!(allowed(), before.0);
            assert!(!is_raised || current_nice() == before.1);
            let nice = current_nice();
            lower_current_thread();
            assert_eq!(is_raised, raise_current_thread(nice), "as it was seen");
        });
        thread.join().unwrap();
    }
}
