//! The placement matrix P: how many slots each job holds on each node.

use crate::model::{JobId, NodeId, TaskKind};
use std::collections::BTreeMap;

/// Slots per job and node, for maps (P^M) and reduces (P^R).
///
/// Ordered by job, node and kind, so that walking it is deterministic. Entries
/// are never zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    slots: BTreeMap<(JobId, NodeId, TaskKind), u32>,
}

impl Placement {
    /// A placement without slots.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives `job` one more slot for a task of `kind` on `node`.
    pub fn add(&mut self, job: JobId, node: NodeId, kind: TaskKind) {
        *self.slots.entry((job, node, kind)).or_insert(0) += 1;
    }

    /// Slots of `job` on `node` for tasks of `kind`.
    #[must_use]
    pub fn on(&self, job: JobId, node: NodeId, kind: TaskKind) -> u32 {
        self.slots.get(&(job, node, kind)).copied().unwrap_or(0)
    }

    /// Slots of `job` for maps on all nodes: s_alloc.
    #[must_use]
    pub fn maps(&self, job: JobId) -> u32 {
        self.of(job, TaskKind::Map)
    }

    /// Slots of `job` for reduces on all nodes: r_alloc.
    #[must_use]
    pub fn reduces(&self, job: JobId) -> u32 {
        self.of(job, TaskKind::Reduce)
    }

    /// Slots of `job`, maps and reduces, on all nodes.
    #[must_use]
    pub fn slots(&self, job: JobId) -> u32 {
        self.maps(job) + self.reduces(job)
    }

    /// All slots of all jobs.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.slots.values().sum()
    }

    /// The entries, ordered by job, node and kind.
    pub fn iter(&self) -> impl Iterator<Item = (JobId, NodeId, TaskKind, u32)> {
        self.slots
            .iter()
            .map(|(&(job, node, kind), &slots)| (job, node, kind, slots))
    }

    fn of(&self, job: JobId, kind: TaskKind) -> u32 {
        self.slots
            .range((job, NodeId(0), TaskKind::Map)..=(job, NodeId(u32::MAX), TaskKind::Reduce))
            .filter(|((_, _, slot_kind), _)| *slot_kind == kind)
            .map(|(_, slots)| slots)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_add_up_per_job_and_kind() {
        let mut placement = Placement::new();
        placement.add(JobId(1), NodeId(0), TaskKind::Map);
        placement.add(JobId(1), NodeId(0), TaskKind::Map);
        placement.add(JobId(1), NodeId(1), TaskKind::Reduce);
        placement.add(JobId(2), NodeId(1), TaskKind::Map);
        assert_eq!(placement.on(JobId(1), NodeId(0), TaskKind::Map), 2);
        assert_eq!(placement.maps(JobId(1)), 2);
        assert_eq!(placement.reduces(JobId(1)), 1);
        assert_eq!(placement.slots(JobId(1)), 3);
        assert_eq!(placement.total(), 4);
        assert_eq!(placement.iter().count(), 3);
    }
}
