//! Which pending maps of each job could read their input where they run, while
//! a decision gives them out one by one.

use super::view::ClusterView;
use crate::model::{NodeId, PendingSplits};

/// The pending splits of all jobs, less those that this decision has started.
pub(super) struct Local<'a> {
    view: &'a ClusterView,
    /// Copied when a job's first map is started.
    changed: Vec<Option<PendingSplits>>,
}

impl<'a> Local<'a> {
    pub fn new(view: &'a ClusterView) -> Self {
        Self {
            view,
            changed: vec![None; view.jobs.len()],
        }
    }

    /// Starts a map of `job` whose input lies on `node`. False when there is
    /// none. A job whose input is equally near everywhere is local everywhere.
    pub fn take_on(&mut self, job: usize, node: NodeId) -> bool {
        let Some(pending) = self.pending(job) else {
            return true;
        };
        let Some(split) = pending.first_on(node) else {
            return false;
        };
        self.remove(job, split);
        true
    }

    /// Starts a map of `job` somewhere else.
    pub fn take_any(&mut self, job: usize) {
        if let Some(split) = self.pending(job).and_then(PendingSplits::first) {
            self.remove(job, split);
        }
    }

    fn pending(&self, job: usize) -> Option<&PendingSplits> {
        (self.changed[job].as_ref()).or(self.view.jobs[job].local.as_ref())
    }

    fn remove(&mut self, job: usize, split: u32) {
        if self.changed[job].is_none() {
            self.changed[job].clone_from(&self.view.jobs[job].local);
        }
        if let Some(pending) = &mut self.changed[job] {
            pending.remove(split);
        }
    }
}
