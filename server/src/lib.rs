//! What joins the store and the scheduler: jobs over snapshots, the
//! co-location loop, and the `ebb` command line.
//!
//! ```text
//!   cli        one subcommand per file
//!   demo       the store, a load and jobs beside it, on this machine
//!   colocate   storage's load ─► scheduler's capacity
//!   sim        scenarios under several policies: studies, pictures
//!   jobs       built-in applications, their input and output
//!   ycsb       the transactional load
//!   chart      pictures of results
//!   text       text files as rows
//! ```
//!
//! Arrows point down this list only, and from here to `ebb-storage` and
//! `ebb-scheduler`, which know nothing of each other.

#![forbid(unsafe_code)]

pub mod chart;
pub mod cli;
pub mod colocate;
pub mod demo;
pub mod jobs;
pub mod sim;
pub mod text;
pub mod ycsb;
