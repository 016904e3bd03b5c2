//! Whether the load notices that analytics run beside it, and how much of what it
//! leaves they use.
//!
//! ```text
//!   args ─► run ─► trial ─► window          parts; rounds of windows in turn
//!                    │        │ setup        one store, one load, one text
//!                    │        └ analytics    endless jobs, held back by what
//!                  ratios ─► report          within a round; tables, JSON, SVG
//!            goals                            the demo's days in turn
//! ```
//!
//! A *window* is some seconds of the load, with nobody or somebody beside it. The
//! windows of a *trial* take turns, each round the other way round, and each
//! round has the load alone twice: what the second differs from the first is
//! noise, and what differs less than that is no result. The load is an open loop,
//! whose latencies count from the moment at which an operation was due.

mod analytics;
mod args;
mod endless;
mod goals;
mod ratios;
mod report;
mod run;
mod setup;
mod shape;
mod step;
mod trial;
mod window;

pub use args::ColocationArgs;
pub use run::run;
