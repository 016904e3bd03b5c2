//! The nouns that every other module uses: jobs, tasks, nodes, resources and profiles
//! (thesis section 5.3.3), pools of hardware (3.4.3) and the places of the input.
//!
//! Plain data without behaviour over time. All times are `f64` seconds since
//! the start of the simulation or of the runtime.

mod job;
mod node;
mod profile;
mod resources;
mod splits;
mod task;

pub use job::{Job, JobId};
pub use node::{Node, NodeId, Pool, TypedSlots};
pub use profile::{PhaseProfile, Profile, expected_remaining_s};
pub use resources::Resources;
pub use splits::{PendingSplits, Splits};
pub use task::{Phase, TaskId, TaskKind, TaskState};
