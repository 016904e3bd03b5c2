//! The parts of a job, and the reports that the runtime gives about it.
//!
//! | file | contents |
//! | --- | --- |
//! | `spec` | the description of a job at its submission |
//! | `input`, `output`, `functions`, `in_place_combiner`, `partitioner` | the traits of a job's parts |
//! | `typed` | jobs with typed keys and values |
//! | `task_context` | the resources of a job's tasks |
//! | `task_notes` | notes of tasks beside their rows |
//! | `task_processes` | the command that starts processes for tasks |
//! | `profile` | the estimated and the measured cost of tasks |
//! | `counters`, `attempt_record`, `report`, `journal` | results, and the listener for events |

pub(in crate::runtime) mod attempt_record;
pub(in crate::runtime) mod counters;
pub(in crate::runtime) mod functions;
pub(in crate::runtime) mod in_place_combiner;
pub(in crate::runtime) mod input;
pub(in crate::runtime) mod journal;
pub(in crate::runtime) mod output;
pub(in crate::runtime) mod partitioner;
pub(in crate::runtime) mod profile;
pub(in crate::runtime) mod report;
pub(in crate::runtime) mod spec;
pub(in crate::runtime) mod task_context;
pub(in crate::runtime) mod task_notes;
pub(in crate::runtime) mod task_processes;
#[cfg(feature = "typed")]
pub mod typed;
