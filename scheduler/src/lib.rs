//! Completion-time-goal scheduling of MapReduce jobs beside a transactional
//! load: policies, a simulator, and a live runner.
//!
//! Analytics get the ebb: the capacity that the transactional load leaves free, which changes over
//! time. A *policy* divides this capacity among the jobs, so that each meets its completion time
//! goal. Policies are pure functions, so the same code runs in two places:
//!
//! ```text
//!   model ─┬─> policy ─┬─> sim       a simulated week in seconds of CPU
//!   availability ──────┴─> runtime   real jobs, on threads
//!        └─ forecast       └─> planning  goals that can be met
//! ```
//!
//! - [`model`]: jobs, tasks, nodes, resources, profiles;
//! - [`availability`]: f(t), the capacity that is free over time;
//! - [`forecast`]: f(t) from a measured load, with intervals;
//! - [`policy`]: the eight schedulers of the thesis, its baselines included, one of our
//!   own, and three rules of weighted completion time;
//! - [`sim`]: an event-driven simulator;
//! - [`planning`]: lower bounds on missed goals, plans, advice at submission;
//! - [`msjo`]: schedules for weighted completion time, with all jobs known in advance;
//! - [`queueing`]: tasks that run faster near their data, in time slots;
//! - [`runtime`]: map, shuffle, reduce, retries, pacing.
//!
//! The algorithms are those of J. Polo, *Multi-constraint scheduling of
//! MapReduce workloads* (2014), chapters 3 to 5; "the thesis" in these pages.
//!
//! # Counting words
//!
//! ```
//! use ebb_scheduler::runtime::{
//!     Emit, JobSpec, Outcome, Runtime, RuntimeOptions, TaskError, Values, VecInput, VecOutput,
//! };
//! use std::sync::Arc;
//!
//! let map = |_line: &[u8], text: &[u8], emit: &mut dyn Emit| -> Result<(), TaskError> {
//!     for word in text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()) {
//!         emit.emit(word, b"1")?;
//!     }
//!     Ok(())
//! };
//! let count = |word: &[u8], ones: &mut Values<'_>, emit: &mut dyn Emit| -> Result<(), TaskError> {
//!     let mut n = 0_u64;
//!     while ones.next_value()?.is_some() {
//!         n += 1;
//!     }
//!     emit.emit(word, n.to_string().as_bytes())
//! };
//!
//! let runtime = Runtime::start(RuntimeOptions::new(2))?;
//! let output = VecOutput::new();
//! let input = Arc::new(VecInput::lines("ebb and flow\nflow and ebb and flow", 2));
//! let job = JobSpec::new("word count", input, Arc::new(map), Arc::new(output.clone()))
//!     .reducer(Arc::new(count), 1)
//!     .goal_s(60.0);
//! let report = runtime.submit(job)?.wait();
//!
//! assert_eq!(report.outcome, Outcome::Succeeded);
//! assert_eq!(report.met, Some(true));
//! let rows = output.rows().expect("committed");
//! assert_eq!(rows[0], (b"and".to_vec(), b"3".to_vec()));
//! assert_eq!(rows[2], (b"flow".to_vec(), b"3".to_vec()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! Both features are on by default. A service that only runs jobs disables them and builds a third
//! fewer crates.
//!
//! - `scenarios`, and with it `simulation`: [`sim`], [`planning`], [`msjo`] and [`queueing`];
//! - `typed`: [`runtime::typed`].

#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests look at clocks and files themselves"
    )
)]

pub mod availability;
pub mod forecast;
#[cfg(feature = "lp")]
pub mod lp;
pub mod model;
#[cfg(feature = "simulation")]
pub mod msjo;
mod ordered_f64;
#[cfg(feature = "simulation")]
pub mod planning;
pub mod policy;
#[cfg(feature = "simulation")]
pub mod queueing;
pub mod runtime;
#[cfg(feature = "simulation")]
pub mod sim;
#[cfg(test)]
mod test_rng;
