//! Pending maps by the nodes that hold their input, while a decision gives them out one by one.

use super::view::ClusterView;
use crate::model::{NodeId, PendingSplits};

/// The pending splits of all jobs, without the splits whose maps this decision has started.
pub(super) struct Local<'a> {
    view: &'a ClusterView,
    /// For each job of which this decision has started a map, its remaining pending splits; `None`
    /// for other jobs.
    remaining: Vec<Option<PendingSplits>>,
}

impl<'a> Local<'a> {
    pub fn new(view: &'a ClusterView) -> Self {
        Self {
            view,
            remaining: vec![None; view.jobs.len()],
        }
    }

    /// Starts a map of `job` with its input on `node`. Returns false if no such map is pending. If
    /// all nodes are equally near to the job's input, always returns true.
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

    /// Starts a map of `job`, wherever its input lies.
    pub fn take_any(&mut self, job: usize) {
        if let Some(split) = self.pending(job).and_then(PendingSplits::first) {
            self.remove(job, split);
        }
    }

    fn pending(&self, job: usize) -> Option<&PendingSplits> {
        (self.remaining[job].as_ref()).or(self.view.jobs[job].local.as_ref())
    }

    fn remove(&mut self, job: usize, split: u32) {
        if self.remaining[job].is_none() {
            self.remaining[job].clone_from(&self.view.jobs[job].local);
        }
        if let Some(pending) = &mut self.remaining[job] {
            pending.remove(split);
        }
    }
}
