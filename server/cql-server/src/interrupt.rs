//! The end of requests by timeout, cancellation or CPU limit, and how the work of a statement
//! notices it.
//!
//! ```text
//!   scope(interrupt, timeout, execute)         the executor, around each statement
//!     └ charge(units) ... charge(units) ...     loops over rows, values, digits
//!          └ each 32 units the clock: a low class offers its core, a long scan enters one or waits for
//!            its share of the floor, or the statement ends with its timeout, maybe to begin anew
//! ```
//!
//! One thread executes a statement from begin to end. So the limit is a thread-local for that time,
//! and everything that a client's data can lengthen charges it: a walk over rows, a function of a
//! value, a comparison with a thousand values. As a parameter the limit would have to pass through
//! every function that evaluates a term or compares values, and the next such function could do
//! without it unnoticed.
//!
//! The work between two looks at the clock is always bounded. If an operation cannot stop halfway
//! (an operation on a number, or a copy), its size is checked before it begins.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ebb_cql::protocol::{Consistency, ErrorKind, ErrorResponse, WriteType};
use ebb_threads::{YIELD_EVERY, Yielding, thread_cpu};

use crate::error::Result;
use crate::floor::{self, Settled};

mod cpu_limit;

use cpu_limit::CpuLimit;

/// The units of work after which a statement compares the clock with its limits. A unit is about a
/// microsecond of work, and a comparison takes less than a tenth of that.
pub const UNITS_PER_LOOK: u64 = 32;

/// The number of bytes that are copied, compared or decoded in one unit of work.
const BYTES_PER_UNIT: usize = 1024;

thread_local! {
    /// The limits of the statement that this thread executes; `None` outside of a [`scope`].
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

/// The conditions that end a request: its deadline passes, its client is gone, the server stops, or
/// an operator kills it. Further limits can be set for a single thread.
#[derive(Debug, Clone)]
pub struct Interrupt {
    deadline: Instant,
    is_cancelled: Arc<AtomicBool>,
    /// A flag that is set when the server stops or an operator kills the statement; `None` if
    /// neither ends this statement.
    is_stopped: Option<Arc<AtomicBool>>,
    /// The CPU time after which a statement is stopped on this thread, to begin again on a thread
    /// for long statements. It is stopped by the error of a timeout, which the client does not get.
    /// `None` for no limit.
    cpu_max: Option<Duration>,
    /// The CPU time of the statement after which the thread is moved to a lower scheduling class,
    /// and the function that moves it; `None` if the thread stays in its class.
    lower_after: Option<(Duration, fn())>,
    /// True if a statement is ended when the kernel keeps its thread in the idle class although the
    /// [floor](crate::floor), the CPU share of scans, is turned on. It ends with the error of a
    /// timeout, which the client does not get: the statement begins again on another thread.
    ends_if_left_behind: bool,
}

/// The kind of error of a statement that ends early.
#[derive(Debug, Clone, Copy)]
pub enum TimeOut {
    /// The timeout of a read.
    Read(Consistency),
    /// The timeout of a write, which has written nothing.
    Write(Consistency, WriteType),
}

impl TimeOut {
    /// Returns the error of a statement that ended early, with Cassandra's code and message.
    pub fn error(self) -> ErrorResponse {
        let timed_out = "Operation timed out - received only 0 responses.";
        let (kind, message) = match self {
            Self::Read(consistency) => (ErrorKind::ReadTimeout { consistency }, timed_out),
            Self::Write(consistency, write_type) => {
                let kind = ErrorKind::WriteTimeout {
                    consistency,
                    write_type,
                };
                let message = match write_type {
                    WriteType::Cas => {
                        "CAS operation timed out: received 0 of 1 required responses after 0 \
                         contention retries"
                    }
                    _ => timed_out,
                };
                (kind, message)
            }
        };
        ErrorResponse::new(kind, message)
    }
}

impl Interrupt {
    /// Creates an interrupt that ends a request `timeout` after `now`, or once `is_cancelled` is
    /// set.
    pub fn new(now: Instant, timeout: Duration, is_cancelled: Arc<AtomicBool>) -> Self {
        Self {
            deadline: now + timeout,
            is_cancelled,
            is_stopped: None,
            cpu_max: None,
            lower_after: None,
            ends_if_left_behind: false,
        }
    }

    /// Limits the CPU time of a statement to `cpu_max`, and its duration from `now` on to ten times
    /// `cpu_max`. The duration includes waits for the disk. The limits are for threads on which
    /// other requests wait.
    #[must_use]
    pub fn capped(&self, now: Instant, cpu_max: Duration) -> Self {
        Self {
            cpu_max: Some(cpu_max),
            deadline: self.deadline.min(now + cpu_max * 10),
            ..self.clone()
        }
    }

    /// Makes the thread that executes a statement call `lower`, which lowers the priority of the
    /// thread, once it has used `cpu` of CPU time for the statement.
    #[must_use]
    pub fn lowering(self, cpu: Duration, lower: fn()) -> Self {
        Self {
            lower_after: Some((cpu, lower)),
            ..self
        }
    }

    /// Makes a statement end if its thread is in the idle class and the kernel keeps it there, although
    /// the floor (the CPU share of scans) is turned on. The statement would make hardly any progress
    /// there, and can begin again on another thread.
    #[must_use]
    pub fn ending_if_left_behind(self) -> Self {
        Self {
            ends_if_left_behind: true,
            ..self
        }
    }

    /// Makes a statement also end once `is_stopped` is set.
    #[must_use]
    pub fn stopped_by(self, is_stopped: Arc<AtomicBool>) -> Self {
        Self {
            is_stopped: Some(is_stopped),
            ..self
        }
    }

    /// Returns whether the client is gone, the server stops, or an operator has killed the
    /// statement.
    pub fn is_cancelled(&self) -> bool {
        let is_set = |flag: &Arc<AtomicBool>| flag.load(Ordering::Relaxed);
        is_set(&self.is_cancelled) || self.is_stopped.as_ref().is_some_and(is_set)
    }

    /// Returns whether the request is cancelled, or its deadline has passed at `now`.
    pub fn is_over(&self, now: Instant) -> bool {
        now >= self.deadline || self.is_cancelled()
    }

    /// Returns whether a statement that ended with the result `ended` may begin again on other
    /// threads, because only the [CPU limit](Self::capped) or the [idle
    /// class](Self::ending_if_left_behind) ended it. Call it on the interrupt that is not capped,
    /// which has the deadline of the request.
    pub fn may_go_on<T>(&self, ended: &Result<T>) -> bool {
        let is_time_out = |error: &ErrorResponse| {
            matches!(
                error.kind,
                ErrorKind::ReadTimeout { .. } | ErrorKind::WriteTimeout { .. }
            )
        };
        ended.as_ref().is_err_and(is_time_out) && !self.is_over(Instant::now())
    }

    /// Checks that a statement may go on at `now`.
    ///
    /// # Errors
    /// The timeout, if the statement may not go on.
    pub fn check(&self, now: Instant, time_out: TimeOut) -> Result<()> {
        if self.is_over(now) {
            return Err(time_out.error());
        }
        Ok(())
    }

    pub fn deadline(&self) -> Instant {
        self.deadline
    }
}

/// The limits of the statement that a thread executes, and the work until the clock is read next.
struct Current {
    interrupt: Interrupt,
    time_out: TimeOut,
    /// The units of work (about a microsecond each) that may be charged before the clock is read
    /// again.
    left: u64,
    /// The limits to compare with the clocks, computed when the clock is read for the first time.
    /// Most statements end before that.
    looks: Option<Looks>,
}

/// The state of a running statement's checks at each look at the clock ([`Current::look`]): when to
/// offer the core to other threads, and the limits on CPU time.
struct Looks {
    yielding: Yielding,
    cap: Option<CpuLimit>,
    /// The CPU time at which the thread is moved to a lower scheduling class, and the function that
    /// moves it; `None` once it has moved, or if it stays in its class.
    lowering: Option<(CpuLimit, fn())>,
}

impl Looks {
    /// Begins the checks at `now`, the statement's first look at the clock. The CPU time that the
    /// thread used before does not count.
    fn begin(interrupt: &Interrupt, now: Instant) -> Self {
        let limit = |cpu_max| CpuLimit::new(cpu_max, now, thread_cpu());
        Self {
            yielding: Yielding::of_current_thread(YIELD_EVERY),
            cap: interrupt.cpu_max.map(limit),
            lowering: (interrupt.lower_after).map(|(cpu, lower)| (limit(cpu), lower)),
        }
    }
}

impl Current {
    fn charge(&mut self, units: u64) -> Result<()> {
        if units < self.left {
            self.left -= units;
            return Ok(());
        }
        self.left = UNITS_PER_LOOK;
        self.look(Instant::now())
    }

    fn look(&mut self, now: Instant) -> Result<()> {
        let interrupt = &self.interrupt;
        let looks = (self.looks).get_or_insert_with(|| Looks::begin(interrupt, now));
        let is_long = |(limit, _): &mut (CpuLimit, fn())| limit.is_reached(now, thread_cpu);
        if let Some((_, lower)) = looks.lowering.take_if(is_long) {
            lower();
            looks.yielding = Yielding::of_current_thread(YIELD_EVERY);
        }
        match floor::settle(now, |now| interrupt.is_over(now)) {
            Settled::Moved => looks.yielding = Yielding::of_current_thread(YIELD_EVERY),
            Settled::LeftBehind if interrupt.ends_if_left_behind => {
                return Err(self.time_out.error());
            }
            Settled::Stays | Settled::LeftBehind => {}
        }
        looks.yielding.offer_core(now);
        if (looks.cap.as_mut()).is_some_and(|cap| cap.is_reached(now, thread_cpu)) {
            return Err(self.time_out.error());
        }
        interrupt.check(now, self.time_out)
    }
}

/// Restores, when it is dropped, the limits that the thread had before a statement, even if the
/// statement panics.
struct Restore(Option<Current>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Executes a statement on this thread within the limits of `interrupt`. If these limits end the
/// statement, its error is `time_out`.
pub fn scope<T>(interrupt: &Interrupt, time_out: TimeOut, execute: impl FnOnce() -> T) -> T {
    let current = Current {
        interrupt: interrupt.clone(),
        time_out,
        left: UNITS_PER_LOOK,
        looks: None,
    };
    let _restore = Restore(CURRENT.replace(Some(current)));
    execute()
}

/// Executes work that usually takes microseconds, for at most `time`. Returns `None` if the work
/// was ended because it took longer.
pub fn at_most<T>(time: Duration, execute: impl FnOnce() -> Result<T>) -> Option<Result<T>> {
    let interrupt = Interrupt::new(Instant::now(), time, Arc::default());
    let ended = scope(&interrupt, TimeOut::Read(Consistency::One), execute);
    (ended.is_ok() || !interrupt.is_over(Instant::now())).then_some(ended)
}

/// Charges the statement of this thread for work of about `units` microseconds. Has no effect
/// outside of a [`scope`].
///
/// # Errors
/// The timeout of the statement, if it has to end.
pub fn charge(units: u64) -> Result<()> {
    #[cfg(test)]
    tests::CHARGED.set(tests::CHARGED.get().wrapping_add(units));
    CURRENT.with_borrow_mut(|current| match current {
        Some(current) => current.charge(units),
        None => Ok(()),
    })
}

/// Charges the statement of this thread for a step that takes time for each of `bytes` bytes, such
/// as copying, comparing or decoding a value.
///
/// # Errors
/// The error of [`charge`].
pub fn charge_bytes(bytes: usize) -> Result<()> {
    charge(1 + (bytes / BYTES_PER_UNIT) as u64)
}

/// Returns an iterator over `items` that charges the statement of this thread one unit for each. If
/// the statement has to end, the iterator ends, and `charged` is the error of [`charge`]: check
/// `charged` before the result that was made from the items.
pub fn charge_each<I: IntoIterator>(
    items: I,
    charged: &mut Result<()>,
) -> impl Iterator<Item = I::Item> {
    items.into_iter().map_while(move |item| {
        *charged = charge(1);
        charged.is_ok().then_some(item)
    })
}

#[cfg(test)]
pub(crate) mod tests;
