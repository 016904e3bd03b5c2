//! A job as its owner sees it: what it is made of, and what the runtime tells of it.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `spec` | a job as it is submitted |
//! | `input`, `output`, `functions`, `in_place_combiner`, `partitioner` | the traits it is made of |
//! | `typed` | the same for typed keys and values |
//! | `task_context` | what its tasks work with |
//! | `task_notes` | what its tasks note beside their rows |
//! | `task_processes` | how processes for its tasks are started |
//! | `profile` | what its tasks are believed to take, and took |
//! | `counters`, `attempt_record`, `report`, `journal` | what comes out, and the listener |

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
