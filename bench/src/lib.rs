//! The lab: demonstrations, studies and measurements of ebb.
//!
//! ```text
//!   demo          a load and jobs with goals beside it, a day in a minute
//!   sim           scenarios under several policies: studies, pictures
//!   queueing      policies of the queueing model at several loads
//!   msjo          schedules of jobs known in advance, beside their bound
//!   ycsb          the transactional load; `ebb-bench ycsb` measures the process around it
//!   experiments   one question each, with processes of their own
//!   chart         pictures of results: the one place that draws
//!   number        numbers as people read them, "-" where there is none
//!   columns       tables of text
//!   console  resources    bars and files; what a process uses
//!   threads       work in other threads, and pauses
//! ```
//!
//! The commands `ebb demo` and `ebb sim` run `demo` and `sim`; `command_line` is the command line
//! of the binary `ebb-bench`.

#![forbid(unsafe_code)]

pub mod chart;
pub mod columns;
pub mod command_line;
pub mod console;
pub mod demo;
mod experiments;
pub mod msjo;
pub mod number;
pub mod queueing;
pub mod resources;
pub mod sim;
mod threads;
pub mod ycsb;
