//! The output of a policy.

use super::matrix::Placement;
use super::view::Wait;
use crate::model::JobId;

/// The unit in which a policy measures the free capacity of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Measure {
    /// On nodes with separate slots for maps and reduces, the number of free slots, as in chapter 3
    /// of the thesis; on other nodes, free resources.
    #[default]
    Slots,
    /// Free CPU, I/O and memory on all nodes, as in the thesis's equations (10) and (18).
    Resources,
}

/// The tasks that may start in a slot that becomes free between two decisions of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Refill {
    /// Any task of the job that the placement gives the slot to.
    #[default]
    AnyTask,
    /// Only a task of the slot's job whose input is on the slot's node. If there is none, the next
    /// cycle offers the slot again.
    LocalTask,
}

/// The placement for the coming control cycle, and the state to keep until the next one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// The slots of each job on each node.
    pub placement: Placement,
    /// The tasks that may start in slots that become free before the next cycle.
    pub refill: Refill,
    /// The jobs whose waits for slots near their input have changed, each with its new wait. The
    /// next view of the job must contain this wait.
    pub waits: Vec<(JobId, Wait)>,
}

impl From<Placement> for Decision {
    fn from(placement: Placement) -> Self {
        Self {
            placement,
            ..Self::default()
        }
    }
}
