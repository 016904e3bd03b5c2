//! A node: a machine that runs tasks (the thesis's TaskTracker).

use super::{Resources, TaskKind};
use serde::{Deserialize, Serialize};

/// Identifies a node of the cluster: its position among the nodes, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeId(pub u32);

/// The kind of hardware of a node (thesis section 3.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pool {
    /// An ordinary machine, without accelerator (P_reg in the thesis).
    #[default]
    Regular,
    /// A machine with an accelerator (P_acc in the thesis), which runs the accelerated version of a
    /// job's maps where there is one.
    Accelerated,
}

impl Pool {
    /// Both pools, in the order of the elements in arrays that have one element for each pool.
    pub const ALL: [Self; 2] = [Self::Regular, Self::Accelerated];

    /// Returns the position of this pool in an array of one element per pool, ordered as
    /// [`Self::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Slots bound to a type of task, as Hadoop's TaskTrackers have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct TypedSlots {
    /// Number of maps that may run at once.
    pub maps: u32,
    /// Number of reduces that may run at once.
    pub reduces: u32,
}

impl TypedSlots {
    /// Returns the number of slots for tasks of `kind`.
    #[must_use]
    pub const fn of(self, kind: TaskKind) -> u32 {
        match kind {
            TaskKind::Map => self.maps,
            TaskKind::Reduce => self.reduces,
        }
    }
}

/// A node and the resources that analytics may use on it (Omega in the thesis's equations (10) and
/// (18)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Position of the node in the cluster.
    pub id: NodeId,
    /// Resources for analytics during the coming control cycle. A node whose capacity is 0 in every
    /// resource is down.
    pub capacity: Resources,
    /// Numbers of slots, for a node whose tasks are limited by their number rather than by the
    /// resources that they need. Only policies whose [`measure`](crate::policy::Policy::measure) is
    /// `Slots` read these numbers. If there are none (`None`), these policies use the node's
    /// resources, as all other policies always do.
    pub slots: Option<TypedSlots>,
    /// Kind of hardware: it decides whether accelerated maps run here.
    pub pool: Pool,
}

impl Node {
    /// Returns an ordinary machine without slots for maps and reduces: only its resources limit the
    /// tasks that run on it at once.
    #[must_use]
    pub const fn new(id: NodeId, capacity: Resources) -> Self {
        Self {
            id,
            capacity,
            slots: None,
            pool: Pool::Regular,
        }
    }
}
