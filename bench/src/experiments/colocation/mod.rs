//! The effect of analytics on the tail latency of the load, and the fraction of the idle CPU that
//! analytics use.
//!
//! ```text
//!   args ─► run ─► trial ─► window          parts; rounds of windows in random order
//!                    │        │ setup        one store, one load, one text
//!                    │        │ analytics    endless jobs, managed or unmanaged
//!                    │        └ disturbance  the window's disturbance by others
//!                  ratios ─► report          all windows together; tables, JSON, SVG
//!                    │ counts, bootstrap     pooled latencies, and intervals for their ratios
//!            goals                            the demo's days in turn
//! ```
//!
//! A *window* is two seconds of the load, alone or with jobs beside it, after half a second that
//! does not count. The order of the windows in a *trial* is drawn for each round. All latencies of
//! a condition's windows go into one histogram. Its quantiles are compared with those of the load
//! alone, and the intervals come from drawing windows again (`bootstrap`). Each round has the load
//! alone twice: the difference between the two is noise, and a run with more noise than a claim
//! allows proves nothing. The load is an open loop, whose latencies count from the moment at which
//! an operation was due.

mod analytics;
mod args;
pub(super) mod bootstrap;
pub(super) mod counts;
mod curve;
pub(super) mod disturbance;
pub(super) mod endless;
mod goals;
pub(super) mod ratios;
mod report;
mod run;
mod setup;
mod shape;
mod step;
pub(super) mod text;
mod trial;
mod window;

pub use args::ColocationArgs;
pub use run::run;
