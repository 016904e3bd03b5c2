//! The state of a node for observers: the last day, the present, and predictions.
//!
//! ```text
//!   Node ─> gather, once a second ─┬─> Day: load, latencies, guard, shares ─> /v1/load
//!                                  ├─> ForecastErrors ─> /v1/forecast
//!                                  ├─> Ledger ─> predictions of jobs, what-if
//!                                  └─> Events ─> as many streams as there are
//! ```
//!
//! Invariants: one thread samples the node, however many clients watch. All data that is kept has a
//! bound. A reader holds the lock only while it copies, and requests of the load never take it.
//! `day`, `events`, `outlook` and `prediction` do not call the node or a clock: they get measurements
//! with their times.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `day` | the last day: each second of the last hour, each ten seconds of a day |
//! | `outlook` | the CPU time expected for jobs, and the errors of forecasts |
//! | `prediction` | the predicted ends of jobs, and the errors of earlier predictions |
//! | `ahead` | the jobs of a node for a look ahead |
//! | `what_if` | the effect of a hypothetical job |
//! | `events` | the queue of events for streams |
//! | `episodes` | when a state begins and ends, such as that the guard leaves jobs nothing |
//! | `gather`, `answers` | the thread that samples the node; the responses from its data |

mod ahead;
mod answers;
mod day;
mod episodes;
mod events;
#[expect(clippy::disallowed_methods, reason = "looks at the node each second")]
mod gather;
mod outlook;
mod prediction;
#[expect(clippy::disallowed_methods, reason = "says how long an answer took")]
mod what_if;

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ebb_jobs::JobError;
use ebb_jobs::history::now_unix_ms;
use ebb_jobs::launch::TableCheck;
use ebb_scheduler::runtime::Finish;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use self::day::{GuardChange, JobShare, LoadPoint, Sample};
pub use self::events::{Event, Events, Subscription};
pub use self::outlook::{Forecast, ForecastErrorView, ForecastPoint};
pub use self::prediction::{Ledger, PredictedEnd, PredictionErrorView};
pub use self::what_if::{LikeJob, Tasks, Victim, WhatIf, WhatIfAnswer};

use self::ahead::Ahead;
use self::day::Day;
use self::gather::Gathering;
use self::outlook::ForecastErrors;
use crate::node::Node;

/// The live view of a node: a thread samples the node each second until this is
/// [closed](Self::close) or dropped, and requests read the collected data.
pub struct Live {
    shared: Arc<Shared>,
    gathering: Mutex<Option<Gathering>>,
}

/// The state that the sampling thread writes and requests read.
struct Shared {
    node: Arc<Node>,
    state: Mutex<State>,
    events: Events,
}

#[derive(Default)]
struct State {
    day: Day,
    forecast_errors: ForecastErrors,
    ledger: Ledger,
}

/// Predicts the ends of the jobs of a node's runtime, without a correction by the errors of earlier
/// predictions. The result is empty before the runtime's first control cycle, and for an unmanaged runtime,
/// which does not limit jobs and has no policy.
#[must_use]
pub fn look_ahead(node: &Node) -> Vec<Finish> {
    let ahead = Ahead::of(node, &node.running_jobs());
    ahead.map_or_else(Vec::new, |ahead| ahead.situation.finishes(&ahead.expected))
}

/// The load of a node over a time span that ends now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Load {
    /// The time of the response, in milliseconds since 1970.
    pub now_unix_ms: u64,
    /// Cores of the machine that the server may use, for the load and for jobs.
    pub cores: u32,
    /// The latency objective of the load; `null` if there is none.
    pub objective: Option<ObjectiveView>,
    /// The samples of the load, the oldest first: one per second, or one per ten seconds for a span of more
    /// than an hour.
    pub samples: Vec<LoadPoint>,
    /// The decisions by which the guard, which limits the cores of jobs to keep the objective,
    /// changed its action or what it allows; the oldest first. The first one may be older than the
    /// time span: its action was in force when the span began. With the same action as before, a
    /// decision is listed if it allows another percentage, and at most once a second.
    pub guard: Vec<GuardChange>,
    /// The time of the first of `guard`, in milliseconds since 1970, if older decisions in the time
    /// span are no longer kept; `null` if all are. The server keeps the latest 4,096.
    #[serde(default)]
    pub guard_cut_unix_ms: Option<u64>,
    /// The CPU use of each job, backup, restore and verification.
    pub shares: Vec<JobShare>,
}

/// The latency objective of the load: a bound, or a multiple of the latency without analytics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ObjectiveView {
    /// The quantile of the latencies: `p50`, `p99` or `p99.9`.
    pub quantile: String,
    /// The upper bound of the latency, in microseconds; `null` if the objective is a `ratio`.
    pub bound_us: Option<f64>,
    /// The upper bound of the latency, as a multiple of the latency without analytics; `null` if the
    /// objective is a `bound_us`.
    pub ratio: Option<f64>,
}

impl Live {
    /// Starts the thread that samples the load and the jobs of the node once a second, for the
    /// views and the events.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn start(node: Arc<Node>) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            node,
            state: Mutex::default(),
            events: Events::after(now_unix_ms() << 10),
        });
        let gathering = Gathering::start(Arc::clone(&shared))?;
        Ok(Self {
            shared,
            gathering: Mutex::new(Some(gathering)),
        })
    }

    /// Predicts the end of a hypothetical job, and the goals that other jobs would miss because of it. `check` is
    /// called for each table that the job would read or write.
    ///
    /// # Errors
    /// When the job makes no sense, the job that it is to be like does not exist, no profile of such jobs is
    /// known, the server has not measured its load yet, or the history cannot be read; the error of `check`.
    pub fn what_if(&self, job: &WhatIf, check: &TableCheck<'_>) -> Result<WhatIfAnswer, JobError> {
        what_if::answer(&self.shared, job, check)
    }

    /// Opens a stream of new events. With `after`, the id of the last event that the client has, the stream
    /// begins with the events since then. If these are no longer kept, or the id is unknown, it begins with a
    /// reset, which means that the client has to fetch the state again.
    pub fn subscribe(&self, after: Option<u64>) -> Subscription {
        self.shared.events.subscribe(after)
    }

    /// Ends all streams of events, stops the sampling thread, and waits for its end.
    pub fn close(&self) {
        self.shared.events.close();
        let gathering = self.gathering.lock();
        drop(gathering.unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").finish_non_exhaustive()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.close();
    }
}

/// Returns the sum of numbers, 0.0 for none. [`Iterator::sum`] returns -0.0 for none, which clients show
/// with its sign.
fn sum(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.fold(0.0, |sum, number| sum + number)
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
