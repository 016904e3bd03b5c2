//! What a policy answers.

use super::matrix::Placement;
use super::view::Wait;
use crate::model::JobId;

/// What a policy counts as the room of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Measure {
    /// Slots bound to maps or reduces where nodes have them (chapter 3 and
    /// before); resources where they have not.
    #[default]
    Slots,
    /// Resource vectors always, equations (10) and (18).
    Resources,
}

/// What may follow in a slot whose task ends before the next decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Refill {
    /// Any task of the job that the placement gives the slot to.
    #[default]
    AnyTask,
    /// Such a task if its input lies there; otherwise the slot is offered
    /// again in the next cycle.
    LocalTask,
}

/// The placement for the coming control cycle, and what to remember after it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// Who gets which slots.
    pub placement: Placement,
    /// How slots that fall free before the next cycle are used.
    pub refill: Refill,
    /// Waits that changed, each to be given back in the next view of that job.
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
