//! `ebb demo`: the purpose of ebb, shown in a minute.
//!
//! ```text
//!   corpus ─► setup ─► measure ─► plan ─► day_run ─► outcome ─► table, JSON, report
//!             store    costs      sizes   a day      │
//!                                                     └─► comparison
//!   load    threads of this process, or a client in another process, through CQL
//!   served  the same with a server, so that the day can be watched
//! ```
//!
//! A day of 24 hours is compressed into a minute. An open-loop load peaks at its 18th hour. Beside
//! it, three jobs with completion time goals and one without read snapshots. The sizes of the jobs
//! are fitted to the machine, so that a schedule that meets all goals exists, with about a fifth of
//! the capacity to spare, or a twentieth ([`Goals`]).

mod check;
mod comparison;
mod corpus;
mod day;
mod day_run;
mod forecast;
mod half_way;
mod jobs;
mod load;
mod load_slots;
mod measure;
mod options;
mod outcome;
mod picture;
mod plan;
mod policy;
mod report;
mod run;
mod served;
mod setup;
mod show;
mod simulated;

pub use comparison::Comparison;
pub use forecast::ForecastFrom;
pub use half_way::HalfWay;
pub use load::run_client;
pub use options::{DemoDay, DemoOptions, Goals};
pub use outcome::Outcome;
pub use policy::Policy;
pub use report::{write as write_report, write_page};
pub use run::run;
pub(crate) use served::start_cql;
pub use served::{Served, serve};
