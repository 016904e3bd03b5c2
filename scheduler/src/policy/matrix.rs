//! The placement matrix P: how many slots each job holds on each node.

use crate::model::{JobId, NodeId, TaskKind};

/// A cell of the placement matrix, which the thesis calls P^M for maps and P^R for reduces: the
/// slots of one job on one node for one kind of task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// The node of the slots.
    pub node: NodeId,
    /// The job that holds the slots.
    pub job: JobId,
    /// The kind of task that the slots are for.
    pub kind: TaskKind,
    /// The number of slots, never zero.
    pub slots: u32,
}

/// The placement matrix: how many slots for maps (the thesis's P^M) and for reduces (P^R) each job
/// has on each node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    cells: Vec<Cell>,
}

impl Placement {
    /// Builds the matrix from one entry per slot, in any order.
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

    /// Returns the entries of the matrix that are not zero, ordered by node, job and kind.
    #[must_use]
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Returns the number of slots of `job` for tasks of `kind` on all nodes: the thesis's s_alloc
    /// for maps, r_alloc for reduces.
    #[must_use]
    pub fn of(&self, job: JobId, kind: TaskKind) -> u32 {
        let cells = self.cells.iter();
        let of_these = cells.filter(|cell| (cell.job, cell.kind) == (job, kind));
        of_these.map(|cell| cell.slots).sum()
    }

    /// Returns the number of slots of `job`, for maps and reduces, on all nodes.
    #[must_use]
    pub fn slots(&self, job: JobId) -> u32 {
        self.of(job, TaskKind::Map) + self.of(job, TaskKind::Reduce)
    }

    /// Returns the number of slots of all jobs together.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.cells.iter().map(|cell| cell.slots).sum()
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
        let cells = placement.cells().iter();
        let cells: Vec<_> = cells
            .map(|cell| (cell.node.0, cell.job.0, cell.kind, cell.slots))
            .collect();
        let expected = [
            (0, 1, TaskKind::Map, 2),
            (1, 1, TaskKind::Reduce, 1),
            (1, 2, TaskKind::Map, 1),
        ];
        assert_eq!(cells, expected);
        assert_eq!(placement.of(JobId(1), TaskKind::Map), 2);
        assert_eq!(placement.of(JobId(1), TaskKind::Reduce), 1);
        assert_eq!(placement.slots(JobId(1)), 3);
        assert_eq!(placement.total(), 4);
    }
}
