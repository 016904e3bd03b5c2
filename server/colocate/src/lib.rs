//! Co-location: computes the capacity of analytics from the resource use of a service.
//!
//! ```text
//!   CPU and disk by class, requests ─► LoadMonitor ─► LoadEstimate ─┐
//!   latencies of the service or its load ─► GuardWatch ─► Guard ──────┼─► Governor ─► capacity
//!   MemAvailable, cgroups ────────────► MemoryMonitor ──────────────┤
//!   cpu.max of cgroups ───────────────► CpuLimitMonitor ────────────┤
//!   LoadRecord, or a schedule ───────────────────────► forecast f(t)┘
//! ```
//!
//! Invariant: all threads of the process that neither run tasks of analytics jobs nor work under a lease
//! count as transactional, including flushes and compactions, and have priority. So has every other
//! process, except over the *floor*, a small minimum of CPU that analytics get even while others use all
//! cores. `estimate`, `floor`, `guard`, `load_record`, `learned` and `machine` decide without a clock;
//! `monitor`, `threads`, `idle_times`, `latencies`, `memory`, `cpu_limit` and `watch` measure and pass
//! measurements on; `colocated` combines all of them for a service to embed.

#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests look at clocks and files themselves"
    )
)]

#[cfg(test)]
mod busy_thread;
mod colocated;
mod counts;
mod cpu_limit;
mod estimate;
mod floor;
#[expect(clippy::disallowed_methods, reason = "paces threads in real time")]
mod floor_share;
mod governor;
mod guard;
#[expect(
    clippy::disallowed_methods,
    reason = "reads what the kernel says of CPUs"
)]
mod idle_times;
#[expect(
    clippy::disallowed_methods,
    reason = "measures real requests in real time"
)]
mod latencies;
mod learned;
mod load_record;
mod machine;
mod mean_cores;
#[expect(
    clippy::disallowed_methods,
    reason = "reads what the kernel says of memory"
)]
mod memory;
#[expect(clippy::disallowed_methods, reason = "measures over real time")]
mod monitor;
mod objective;
mod price;
mod recent;
mod share;
#[expect(
    clippy::disallowed_methods,
    reason = "reads what the kernel says of threads"
)]
mod threads;
mod watch;

pub use colocated::{ColocateError, Colocated, ColocatedOptions, ColocatedStatus};
pub use counts::LatencyCounts;
pub use cpu_limit::CpuLimit;
/// The runtime that executes the jobs, and the types of which a job consists.
pub use ebb_scheduler::runtime;
pub use floor::{FLOOR_CORES, FLOOR_CORES_MIN};
pub use floor_share::FloorShare;
pub use governor::{Governor, LoadSample};
pub use guard::{Action, Guard, GuardSample, LatencyWindow, ObservedWindow};
pub use latencies::Latencies;
pub use learned::{Learned, LeftForecast, LoadForecast, learn};
pub use load_record::{LoadRecord, LoadSlot, RecordChange, SlotMean};
pub use machine::{Machine, RESERVE};
pub use mean_cores::MeanCores;
pub use memory::MemoryMonitor;
pub use monitor::{LoadMonitor, MeasuredLoad, RequestRates, RequestSource, reachable_cores};
pub use objective::{Limit, Objective, Quantile};
pub use price::PricePoint;
pub use recent::SAMPLES_MAX_DEFAULT;
pub use share::{Share, ShareMeter};
pub use watch::{GuardWatch, LatencySource};
