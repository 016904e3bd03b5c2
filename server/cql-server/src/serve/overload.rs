//! Overload control: which requests are rejected when more come than can be served.
//!
//! ```text
//!   probe ── how long a ready connection waits for its turn ──> arrivals of each connection
//!                                                                  │ waits of requests
//!   rule <── each 100 ms: did most requests wait too long? ────────┘
//!     └── rejecting or not ──> connections reject requests that waited longer than the target
//! ```
//!
//! Requests wait in the sockets and in the queue of ready connections, first in, first out. When
//! most of them wait longer than a limit for [some intervals](rule) in a row, the queue does not
//! drain by itself. Then requests that have waited longer than a much lower target are rejected,
//! which costs a fraction of serving them. The remaining requests have arrived recently, and are
//! served as fast as without overload, until an interval has nothing to reject.
//!
//! Requests of a connection with far fewer of them than the mean are never rejected: beside clients
//! that flood the server, a client that waits for each response is served.
//!
//! Waits are measured on [a clock](running_clock) that stops while the server does not run: a pause
//! of the machine delays every request, and is no overload. A wait behind scans of the same
//! connection does not count either, while these leave no room for further requests.
//!
//! Sources: a standing queue as the signal (CoDel; Nichols and Jacobson, 2012); two timeouts, of
//! which the short one holds while there is a queue (Maurer, Fail at Scale, 2015); a limit of 20 ms
//! on waiting (Zhou et al., Overload Control for Scaling WeChat Microservices, 2018).

mod rule;
mod running_clock;
mod wakeup;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio::task::yield_now;
use tokio::time::sleep;

use super::events::{ServerEvent, ServerEvents};
use rule::{INTERVAL, Interval, Rule};
use running_clock::{RunningClock, TICK_EVERY};
use wakeup::Wakeup;

/// The limit divided by the target. An overload begins when most requests wait longer than the
/// limit. In an overload, requests are rejected if they have waited longer than the target.
const LIMIT_OVER_TARGET: u32 = 20;
/// The number of measurements that are kept. Each is the time that a ready connection waited until
/// it was served. The measurements vary, so the longest of the kept ones is used.
const TURNS: usize = 4;
/// The number of reads over which the moving mean of unserved bytes is taken. The mean is stored
/// multiplied by `READS`, so that the integer keeps fractions of a byte.
const READS: u64 = 16;
/// The ratio below the mean at which a connection is small: its unserved bytes are fewer than the
/// mean divided by this number. No request of a small connection is rejected. If many connections
/// cause the overload together, their unserved bytes differ by far less than this ratio, so none of
/// them is small.
const MEAN_OVER_SMALL: u64 = 4;
/// The interval at which the probe, a task, measures how long a ready connection waits until it is
/// served.
const PROBE_EVERY: Duration = Duration::from_millis(1);
/// The time after the last request for which the probe (the task that measures waits) goes on.
const PROBE_FOR: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct Overload {
    /// The wait above which a served request is late; `None` if overload control is off.
    limit: Option<Duration>,
    clock: RunningClock,
    rule: Mutex<Rule>,
    /// True if requests are rejected, by the last decision at the end of an interval.
    is_rejecting: AtomicBool,
    in_time: AtomicU32,
    late: AtomicU32,
    rejected: AtomicU32,
    rejected_in_all: AtomicU64,
    events: ServerEvents,
    /// The value of `rejected_in_all` at the start of the overload that was last reported. `None`
    /// if the end of that overload was reported, too, or if there was none.
    reported: Mutex<Option<u64>>,
    /// The last measurements, in microseconds, of the time that a ready connection waits until it
    /// is served.
    turns_us: [AtomicU64; TURNS],
    turns: AtomicU32,
    /// The moving mean of the unserved bytes of connections: the bytes that a connection had
    /// received but not served after a read. It covers about the last [`READS`] reads of all
    /// connections during overloads. It is stored multiplied by [`READS`], so that the integer
    /// keeps fractions of a byte.
    unserved: AtomicU64,
    wakeup: Wakeup,
    wake: Notify,
    /// The thread that advances `clock`. While there are no requests, the probe (the task that
    /// measures waits) sleeps and this thread is parked.
    ticker: OnceLock<Thread>,
}

impl Overload {
    /// Creates overload control with a limit on waiting; zero turns it off.
    pub(super) fn new(limit: Duration) -> Self {
        Self {
            limit: (!limit.is_zero()).then_some(limit),
            clock: RunningClock::new(Instant::now()),
            rule: Mutex::default(),
            is_rejecting: AtomicBool::new(false),
            in_time: AtomicU32::new(0),
            late: AtomicU32::new(0),
            rejected: AtomicU32::new(0),
            rejected_in_all: AtomicU64::new(0),
            events: ServerEvents::default(),
            reported: Mutex::default(),
            turns_us: Default::default(),
            turns: AtomicU32::new(0),
            unserved: AtomicU64::new(0),
            wakeup: Wakeup::default(),
            wake: Notify::new(),
            ticker: OnceLock::new(),
        }
    }

    /// Sets the callback for the start and the end of overloads.
    pub(super) fn telling(mut self, events: ServerEvents) -> Self {
        self.events = events;
        self
    }

    /// Starts the thread that lets the clock advance until this value is dropped. Starts none if
    /// overload control is off.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub(super) fn start_ticking(self: &Arc<Self>) -> io::Result<()> {
        if self.limit.is_none() {
            return Ok(());
        }
        let weak = Arc::downgrade(self);
        let thread = thread::Builder::new()
            .name("cql-ticks".into())
            .spawn(move || tick(&weak))?;
        self.ticker.get_or_init(|| thread.thread().clone());
        Ok(())
    }

    /// Returns the time on a clock that stops while the server does not run, as in a pause of the
    /// machine. Waits are differences of such times.
    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Notes that a connection was read. Returns an estimate of the time that the connection was
    /// ready before it was served: the longest of the last [`TURNS`] measurements.
    pub(super) fn turn(&self) -> Duration {
        self.note_busy();
        let turns = self.turns_us.iter().map(|us| us.load(Ordering::Relaxed));
        Duration::from_micros(turns.max().unwrap_or(0))
    }

    /// Notes that there are requests, which keeps the probe, the task that measures waits, awake.
    /// Noting only reads from sockets would not be enough, since a connection with many requests in
    /// its buffer is served for long without a read.
    fn note_busy(&self) {
        if self.wakeup.note_request() {
            self.wake.notify_one();
        }
    }

    fn note_turn(&self, turn: Duration) {
        let place = self.turns.fetch_add(1, Ordering::Relaxed) as usize % TURNS;
        self.turns_us[place].store(turn.as_micros() as u64, Ordering::Relaxed);
    }

    /// Returns the wait above which requests are rejected now; `None` outside of an overload.
    pub(super) fn target(&self) -> Option<Duration> {
        let limit = self
            .limit
            .filter(|_| self.is_rejecting.load(Ordering::Relaxed));
        limit.map(|limit| limit / LIMIT_OVER_TARGET)
    }

    /// In an overload, notes the unserved bytes of a connection after a read, and returns whether
    /// the bytes are so few that the connection does not contribute to the overload. The requests
    /// of such a connection are served, however long they have waited behind the bursts of other
    /// connections. Returns false outside of an overload.
    pub(super) fn is_small(&self, unserved_bytes: usize) -> bool {
        if !self.is_rejecting.load(Ordering::Relaxed) {
            return false;
        }
        let mean = self.unserved.load(Ordering::Relaxed);
        let bytes = unserved_bytes as u64;
        // Two threads may overwrite each other's sum. Then the mean misses one read.
        let next = mean - mean / READS + bytes;
        self.unserved.store(next, Ordering::Relaxed);
        bytes * MEAN_OVER_SMALL < mean / READS
    }

    /// Counts `requests` requests that overload control could have rejected, but that were served
    /// after they had waited for `waited`.
    pub(super) fn served(&self, requests: u32, waited: Duration) {
        let is_late = self.is_too_long(waited);
        let counter = if is_late { &self.late } else { &self.in_time };
        counter.fetch_add(requests, Ordering::Relaxed);
        self.note_busy();
    }

    pub(super) fn rejected(&self, requests: u32) {
        self.rejected.fetch_add(requests, Ordering::Relaxed);
        (self.rejected_in_all).fetch_add(requests.into(), Ordering::Relaxed);
        self.note_busy();
    }

    pub(super) fn is_too_long(&self, waited: Duration) -> bool {
        self.limit.is_some_and(|limit| waited > limit)
    }

    /// Counts a request that the commit lane, the thread that commits writes in groups, rejected.
    /// The decision about overloads ignores such requests: the queue of that thread grows when the
    /// disk is slow, not in an overload.
    pub(super) fn rejected_by_commit_lane(&self) {
        self.rejected_in_all.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn rejected_in_all(&self) -> u64 {
        self.rejected_in_all.load(Ordering::Relaxed)
    }

    fn end_interval(&self) {
        let (rejects, is_over) = self.decide();
        if rejects || is_over {
            self.report(rejects);
        }
    }

    /// Decides, at the end of an interval, whether requests are rejected in the next one. Returns
    /// this decision, and whether the last overload is over for good (see [`Rule::is_over`]).
    fn decide(&self) -> (bool, bool) {
        let take = |counter: &AtomicU32| counter.swap(0, Ordering::Relaxed);
        let interval = Interval {
            in_time: take(&self.in_time),
            late: take(&self.late),
            rejected: take(&self.rejected),
        };
        let (rejects, is_over) = {
            let mut rule = self.rule();
            (rule.end(interval), rule.is_over())
        };
        self.is_rejecting.store(rejects, Ordering::Relaxed);
        (rejects, is_over)
    }

    /// Reports the start or the end of an overload, unless that was reported already.
    fn report(&self, is_overload: bool) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let event = match (*reported, is_overload) {
            (None, true) => {
                *reported = Some(self.rejected_in_all());
                ServerEvent::OverloadBegan
            }
            (Some(before), false) => {
                *reported = None;
                let refused = self.rejected_in_all() - before;
                ServerEvent::OverloadEnded { refused }
            }
            _ => return,
        };
        self.events.report(event);
    }

    /// Ends an overload, because there are no requests.
    fn calm(&self) {
        self.decide();
        self.rule().calm();
        self.is_rejecting.store(false, Ordering::Relaxed);
        self.report(false);
        (0..TURNS).for_each(|_| self.note_turn(Duration::ZERO));
    }

    fn rule(&self) -> std::sync::MutexGuard<'_, Rule> {
        self.rule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_ticker(&self) {
        if let Some(ticker) = self.ticker.get() {
            ticker.unpark();
        }
    }
}

impl Drop for Overload {
    fn drop(&mut self) {
        self.wake_ticker();
    }
}

/// Lets the clock advance while requests arrive, until the server is dropped.
///
/// A thread and not a task: the clock must advance even if all threads of the runtime are busy.
fn tick(overload: &Weak<Overload>) {
    while let Some(overload) = overload.upgrade() {
        overload.clock.tick(Instant::now());
        let is_probed = overload.wakeup.is_awake();
        drop(overload);
        if is_probed {
            thread::park_timeout(TICK_EVERY);
        } else {
            thread::park();
        }
    }
}

/// The state of the probe, the task that measures how long a ready connection waits, while requests
/// arrive. The simulation in the tests uses it, too.
#[derive(Debug)]
struct Probe {
    interval_began: Instant,
    busy_at: Instant,
}

impl Probe {
    fn begin(now: Instant) -> Self {
        Self {
            interval_began: now,
            busy_at: now,
        }
    }

    /// Records a measurement: the probe was ready to run at `turn_began`, like a connection whose
    /// bytes have arrived, and got its turn at `now`. If [`INTERVAL`] has passed since the last
    /// decision, decides whether requests are rejected from now on. Returns false once no request
    /// was noted for [`PROBE_FOR`]: the probe can sleep.
    fn step(&mut self, overload: &Overload, turn_began: Instant, now: Instant) -> bool {
        overload.note_turn(now.saturating_duration_since(turn_began));
        if overload.wakeup.take_requests() {
            self.busy_at = now;
        }
        if now.saturating_duration_since(self.interval_began) >= INTERVAL {
            overload.end_interval();
            self.interval_began = now;
        }
        now.saturating_duration_since(self.busy_at) < PROBE_FOR
    }
}

/// A guard that marks the probe, the task that measures waits, as awake. When it is dropped, the
/// probe is marked as asleep, and the thread that advances the clock may park. This also happens if
/// the runtime drops the task.
struct Awake<'a>(&'a Overload);

impl<'a> Awake<'a> {
    fn new(overload: &'a Overload) -> Self {
        overload.wakeup.unpark();
        overload.wake_ticker();
        Self(overload)
    }
}

impl Drop for Awake<'_> {
    fn drop(&mut self) {
        if self.0.wakeup.park() {
            self.0.wake.notify_one();
        }
    }
}

/// Measures how long ready connections wait, and decides at the end of each interval whether
/// requests are rejected, until the server stops. Sleeps while there are no requests.
pub(super) async fn probe(overload: Arc<Overload>, mut stop: watch::Receiver<bool>) {
    if overload.limit.is_none() {
        return;
    }
    loop {
        tokio::select! {
            () = overload.wake.notified() => {}
            _ = stop.wait_for(|stops| *stops) => return,
        }
        let _awake = Awake::new(&overload);
        let mut probe = Probe::begin(overload.now());
        loop {
            let turn_began = overload.now();
            // Waits behind all ready connections, like a connection whose bytes arrive now.
            yield_now().await;
            if !probe.step(&overload, turn_began, overload.now()) {
                break;
            }
            sleep(PROBE_EVERY).await;
        }
        overload.calm();
    }
}

#[cfg(test)]
mod tests;
