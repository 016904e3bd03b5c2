//! When a thread beside the load lets the kernel choose anew which thread gets its core.
//!
//! An ordinary thread that wakes up does not always displace a thread of the idle class:
//! beside a load, one wake-up in a hundred did not, although the idle-class thread ran its
//! own code. That thread went on until the core next had to choose, at the tick or for
//! another thread. The trace shows this, but not the reason. (An idle-class thread has a
//! small share too, and under EEVDF a woken thread that has had more than its share is not
//! eligible.) So a thread of a low class makes the kernel choose far more often: tasks of
//! jobs, scans of whole tables, and other work that is not urgent. So does a thread on the floor with
//! short time slices.

use super::class::{SchedulingClass, current_class, has_floor_slices};
use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

/// The least wall time between two yields of a thread. A yield is a system call of less than half a
/// microsecond if no other thread waits for the core, and a switch to the other thread if one does.
pub const YIELD_EVERY: Duration = Duration::from_micros(50);

/// Lets one thread offer its core to others now and then, if it is of a low class
/// ([`lower_current_thread`](crate::lower_current_thread)), or on the
/// [floor](crate::enter_floor) with short time slices. Any other thread of the ordinary class never
/// yields, because a yield costs a thread the rest of its slice.
///
/// ```no_run
/// use ebb_threads::{YIELD_EVERY, Yielding, lower_current_thread};
/// use std::time::Instant;
///
/// # fn work_on(_record: u64) {}
/// lower_current_thread();
/// let yielding = Yielding::of_current_thread(YIELD_EVERY);
/// for record in 0..1_000_000 {
///     work_on(record);
///     yielding.offer_core(Instant::now());
/// }
/// ```
#[derive(Debug)]
pub struct Yielding(Option<Every>);

/// The interval between two yields, and the time of the last yield.
#[derive(Debug)]
struct Every {
    every: Duration,
    last: Cell<Instant>,
}

impl Yielding {
    /// Creates the state for the calling thread: two yields are at least `every` apart, such as
    /// [`YIELD_EVERY`]. Reads the scheduling class of the thread from the kernel now. If it is the
    /// ordinary one, the thread never yields, except on the floor with short time slices.
    pub fn of_current_thread(every: Duration) -> Self {
        match current_class() {
            SchedulingClass::Normal if !has_floor_slices() => Self::never(),
            _ => Self::new(every, Instant::now()),
        }
    }

    /// Returns the state of a thread that never yields.
    pub fn never() -> Self {
        Self(None)
    }

    fn new(every: Duration, now: Instant) -> Self {
        let last = Cell::new(now);
        Self(Some(Every { every, last }))
    }

    /// Yields if the interval that was given to [`of_current_thread`](Self::of_current_thread) has
    /// passed since the last yield. `now` is the present time.
    pub fn offer_core(&self, now: Instant) {
        if self.is_due(now) {
            thread::yield_now();
            self.returned(Instant::now());
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        let since = |last: Instant| now.saturating_duration_since(last);
        (self.0.as_ref()).is_some_and(|it| since(it.last.get()) >= it.every)
    }

    /// Records that the thread has its core again, from `now` on, after a yield. The interval until
    /// its next yield begins now. If it began at the yield, it would often have passed already, and
    /// the yielding threads of a core would do nothing but switch.
    fn returned(&self, now: Instant) {
        if let Some(Every { last, .. }) = &self.0 {
            last.set(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{enter_floor, lower_current_thread};

    fn now() -> Instant {
        Instant::now() // clock: handed to code that takes an instant
    }

    #[test]
    fn a_thread_yields_now_and_then_or_never() {
        let start = now();
        let at = |us| start + Duration::from_micros(us);
        let yielding = Yielding::new(Duration::from_micros(50), start);
        assert!(!yielding.is_due(at(49)) && yielding.is_due(at(50)));
        yielding.returned(at(300));
        assert!(!yielding.is_due(at(349)) && yielding.is_due(at(350)));
        let never = Yielding::never();
        never.returned(at(50));
        assert!(!never.is_due(at(500)));
    }

    #[test]
    fn only_a_thread_of_a_low_class_or_with_short_slices_yields() {
        let yielding = || Yielding::of_current_thread(YIELD_EVERY);
        assert!(!yielding().is_due(now() + YIELD_EVERY));
        let lowered = thread::spawn(move || {
            lower_current_thread();
            let yielding = yielding();
            let last = || yielding.0.as_ref().map(|it| it.last.get());
            let begun = last();
            yielding.offer_core(now() + YIELD_EVERY);
            begun.is_some() && last() > begun
        });
        assert!(lowered.join().unwrap());
        let on_floor = thread::spawn(move || {
            enter_floor();
            yielding().0.is_some() == has_floor_slices()
        });
        assert!(on_floor.join().unwrap());
    }
}
