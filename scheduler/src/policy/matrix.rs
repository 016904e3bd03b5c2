//! The placement matrix P: how many slots each job holds on each node.

use crate::model::{JobId, NodeId, TaskKind};

/// What one job has on one node for one kind of task: a cell of P^M or P^R.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// Where.
    pub node: NodeId,
    /// Whose.
    pub job: JobId,
    /// For maps or for reduces.
    pub kind: TaskKind,
    /// How many; never zero.
    pub slots: u32,
}

/// Slots per job and node, for maps (P^M) and reduces (P^R).
///
/// Ordered by node, job and kind, so that walking it is deterministic and a
/// node's part is one slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    cells: Vec<Cell>,
}

impl Placement {
    /// A placement without slots.
    #[must_use]
    pub const fn new() -> Self {
        Self { cells: Vec::new() }
    }

    /// Adds up single slots, given in any order.
    #[must_use]
    pub fn of_slots(mut slots: Vec<(NodeId, JobId, TaskKind)>) -> Self {
        slots.sort_unstable();
        let mut cells: Vec<Cell> = Vec::with_capacity(slots.len());
        for (node, job, kind) in slots {
            match cells.last_mut() {
                Some(cell) if (cell.node, cell.job, cell.kind) == (node, job, kind) => {
                    cell.slots += 1;
                }
                _ => cells.push(Cell {
                    node,
                    job,
                    kind,
                    slots: 1,
                }),
            }
        }
        Self { cells }
    }

    /// The cells, ordered by node, job and kind.
    #[must_use]
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The cells of one node, ordered by job and kind.
    #[must_use]
    pub fn on_node(&self, node: NodeId) -> &[Cell] {
        let from = self.cells.partition_point(|cell| cell.node < node);
        let count = self.cells[from..].partition_point(|cell| cell.node == node);
        &self.cells[from..from + count]
    }

    /// Slots of `job` on `node` for tasks of `kind`.
    #[must_use]
    pub fn on(&self, job: JobId, node: NodeId, kind: TaskKind) -> u32 {
        let at = self
            .cells
            .binary_search_by_key(&(node, job, kind), |cell| (cell.node, cell.job, cell.kind));
        at.map_or(0, |at| self.cells[at].slots)
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
        self.cells.iter().map(|cell| cell.slots).sum()
    }

    fn of(&self, job: JobId, kind: TaskKind) -> u32 {
        self.cells
            .iter()
            .filter(|cell| (cell.job, cell.kind) == (job, kind))
            .map(|cell| cell.slots)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_add_up_per_job_node_and_kind() {
        let placement = Placement::of_slots(vec![
            (NodeId(1), JobId(2), TaskKind::Map),
            (NodeId(0), JobId(1), TaskKind::Map),
            (NodeId(1), JobId(1), TaskKind::Reduce),
            (NodeId(0), JobId(1), TaskKind::Map),
        ]);
        assert_eq!(placement.on(JobId(1), NodeId(0), TaskKind::Map), 2);
        assert_eq!(placement.on(JobId(1), NodeId(1), TaskKind::Map), 0);
        assert_eq!(placement.maps(JobId(1)), 2);
        assert_eq!(placement.reduces(JobId(1)), 1);
        assert_eq!(placement.slots(JobId(1)), 3);
        assert_eq!(placement.total(), 4);
        assert_eq!(placement.cells().len(), 3);
        assert_eq!(placement.on_node(NodeId(1)).len(), 2);
        assert!(placement.on_node(NodeId(2)).is_empty());
    }
}
