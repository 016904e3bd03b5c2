//! Which requests are refused when there is more to do than can be done.
//!
//! ```text
//!   probe ─ how long a ready connection waits for its turn ─> arrivals of each connection
//!                                                                 v
//!   rule <─ each 100 ms: did most requests wait too long? ── waits of requests
//!     └──── refusing or not ──> connections: what waited longer than a target is refused
//! ```
//!
//! Requests wait in the sockets and in the queue of connections that are ready: first in,
//! first out. When most of them have waited longer than a limit for a whole interval, waiting does
//! not end by itself: then a request that has waited longer than a much lower target is
//! refused, which costs a fraction of serving it. What is left has come lately, and is served
//! as fast as without overload. That goes on until an interval has nothing to refuse.
//!
//! A standing queue as the signal is from CoDel (Nichols and Jacobson, 2012), two time-outs of which
//! the short one holds while there is one from Maurer (Fail at Scale, 2015), a limit of 20 ms on waiting
//! from Zhou et al. (Overload Control for Scaling WeChat Microservices, 2018).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio::task::yield_now;
use tokio::time::sleep;

/// How often the rule looks.
const INTERVAL: Duration = Duration::from_millis(100);
/// The limit over the target: what is served in an overload has waited that much less than
/// what begins one.
const LIMIT_OVER_TARGET: u32 = 20;
/// Requests of an interval that waited too long, at least, before it counts: an overload has
/// thousands, and a pause of the machine makes a few late.
const LATE_MIN: u32 = 50;
/// Turns of which the longest counts: they are of unlike length.
const TURNS: usize = 4;
/// How often the probe looks how long turns are.
const PROBE_EVERY: Duration = Duration::from_millis(1);
/// How long after the last request it does.
const PROBE_FOR: Duration = Duration::from_millis(50);

/// What an interval had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Interval {
    /// Requests that waited no longer than the limit.
    in_time: u32,
    /// Those that waited longer.
    late: u32,
    refused: u32,
}

/// Whether requests are to be refused after an interval in which they were, or were not.
fn refuses(refused_before: bool, interval: Interval) -> bool {
    match refused_before {
        true => interval.refused > 0,
        false => interval.late >= LATE_MIN && interval.late > interval.in_time,
    }
}

/// Whether the server is overloaded.
#[derive(Debug)]
pub(super) struct Overload {
    /// None where nothing is ever refused.
    limit: Option<Duration>,
    is_refusing: AtomicBool,
    in_time: AtomicU32,
    late: AtomicU32,
    refused: AtomicU32,
    /// Since the start, but in the interval that goes on.
    refused_before: AtomicU64,
    /// How long a connection waited for its turn that was ready, the last few times, in
    /// microseconds.
    turns_us: [AtomicU64; TURNS],
    turns: AtomicU32,
    /// Requests came since the probe looked last.
    is_busy: AtomicBool,
    is_probed: AtomicBool,
    wake: Notify,
}

impl Overload {
    /// With the limit on waiting; zero for none.
    pub(super) fn new(limit: Duration) -> Self {
        Self {
            limit: (!limit.is_zero()).then_some(limit),
            is_refusing: AtomicBool::new(false),
            in_time: AtomicU32::new(0),
            late: AtomicU32::new(0),
            refused: AtomicU32::new(0),
            refused_before: AtomicU64::new(0),
            turns_us: Default::default(),
            turns: AtomicU32::new(0),
            is_busy: AtomicBool::new(false),
            is_probed: AtomicBool::new(false),
            wake: Notify::new(),
        }
    }

    /// Something was read: tells how long a ready connection waits for its turn, at most.
    pub(super) fn turn(&self) -> Duration {
        if !self.is_busy.load(Ordering::Relaxed) {
            self.is_busy.store(true, Ordering::Relaxed);
            if !self.is_probed.load(Ordering::Relaxed) {
                self.wake.notify_one();
            }
        }
        let turns = self.turns_us.iter().map(|us| us.load(Ordering::Relaxed));
        Duration::from_micros(turns.max().unwrap_or(0))
    }

    fn note_turn(&self, turn: Duration) {
        let place = self.turns.fetch_add(1, Ordering::Relaxed) as usize % TURNS;
        self.turns_us[place].store(turn.as_micros() as u64, Ordering::Relaxed);
    }

    /// What waited longer is refused; nothing where nothing is.
    pub(super) fn target(&self) -> Option<Duration> {
        let limit = self
            .limit
            .filter(|_| self.is_refusing.load(Ordering::Relaxed));
        limit.map(|limit| limit / LIMIT_OVER_TARGET)
    }

    /// Counts requests that waited so long, and were served.
    pub(super) fn served(&self, requests: u32, waited: Duration) {
        let is_late = self.limit.is_some_and(|limit| waited > limit);
        let counter = if is_late { &self.late } else { &self.in_time };
        counter.fetch_add(requests, Ordering::Relaxed);
    }

    /// Counts requests that were refused.
    pub(super) fn refused(&self, requests: u32) {
        self.refused.fetch_add(requests, Ordering::Relaxed);
    }

    /// Whether a request that has waited so long may be refused.
    pub(super) fn is_too_long(&self, waited: Duration) -> bool {
        self.limit.is_some_and(|limit| waited > limit)
    }

    /// Counts a request that was refused in a queue of its own: it says nothing of others.
    pub(super) fn refused_elsewhere(&self) {
        self.refused_before.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests that were refused since the start.
    pub(super) fn refused_in_all(&self) -> u64 {
        let now = u64::from(self.refused.load(Ordering::Relaxed));
        self.refused_before.load(Ordering::Relaxed) + now
    }

    fn end_interval(&self) {
        let take = |counter: &AtomicU32| counter.swap(0, Ordering::Relaxed);
        let interval = Interval {
            in_time: take(&self.in_time),
            late: take(&self.late),
            refused: take(&self.refused),
        };
        (self.refused_before).fetch_add(interval.refused.into(), Ordering::Relaxed);
        let refused_before = self.is_refusing.load(Ordering::Relaxed);
        (self.is_refusing).store(refuses(refused_before, interval), Ordering::Relaxed);
    }
}

/// Looks how long turns are and ends intervals, until the server stops. It sleeps while there
/// are no requests.
pub(super) async fn probe(overload: Arc<Overload>, mut stop: watch::Receiver<bool>) {
    if overload.limit.is_none() {
        return;
    }
    loop {
        tokio::select! {
            () = overload.wake.notified() => {}
            _ = stop.wait_for(|stops| *stops) => return,
        }
        overload.is_probed.store(true, Ordering::Relaxed);
        let (mut interval_began, mut busy_at) = (Instant::now(), Instant::now());
        while busy_at.elapsed() < PROBE_FOR {
            let begun = Instant::now();
            // As a connection whose bytes come now: behind all that are ready.
            yield_now().await;
            let now = Instant::now();
            overload.note_turn(now.duration_since(begun));
            if overload.is_busy.swap(false, Ordering::Relaxed) {
                busy_at = now;
            }
            if now.duration_since(interval_began) >= INTERVAL {
                overload.end_interval();
                interval_began = now;
            }
            sleep(PROBE_EVERY).await;
        }
        // Nobody asks for anything.
        overload.end_interval();
        overload.is_refusing.store(false, Ordering::Relaxed);
        (0..TURNS).for_each(|_| overload.note_turn(Duration::ZERO));
        overload.is_probed.store(false, Ordering::SeqCst);
        // A request that came in between woke nobody.
        if overload.is_busy.load(Ordering::SeqCst) {
            overload.wake.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
