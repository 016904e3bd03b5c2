//! The floor of scans: the CPU that they get while other processes hold it.
//!
//! ```text
//!   a thread of scans: usual class ── a scan is long ─┬─ the floor is in use ─> floor, paced
//!                                                     └─ otherwise ──────────> idle class
//!                      floor ── the floor is no longer in use ───────────────> idle class
//! ```
//!
//! A thread of the idle class gets next to nothing beside busy processes, and a process without
//! privileges cannot take it out of that class. So the class is chosen when a thread leaves the usual
//! one. A scan that has entered the idle class before the floor came into use stays there, until it
//! ends with its time-out at the latest.
//!
//! The floor belongs to the thread, as the limit of a statement does: the code that executes statements
//! takes no thread as a parameter.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ebb_colocate::FloorShare;
use ebb_threads::{SchedulingClass, current_class, enter_floor, lower_current_thread, thread_cpu};

/// The time between two looks at the CPU time of a thread on the floor, which take a system call each.
const SETTLE_EVERY: Duration = Duration::from_micros(500);

thread_local! {
    /// The floor that the calling thread may enter.
    static FLOOR: RefCell<Option<FloorThread>> = const { RefCell::new(None) };
}

struct FloorThread {
    share: Arc<FloorShare>,
    /// `None` while the thread is not on the floor.
    account: Option<Account>,
}

/// The CPU time that a thread has paid for, and the time of the next payment.
struct Account {
    cpu: Duration,
    settle_at: Instant,
}

/// Lets the calling thread enter this floor.
pub(crate) fn allow(share: &Arc<FloorShare>) {
    let share = Arc::clone(share);
    let account = None;
    FLOOR.set(Some(FloorThread { share, account }));
}

/// Moves the calling thread, which is of the usual class, to the floor that it may enter.
pub(crate) fn enter() {
    FLOOR.with_borrow_mut(|floor| {
        if let Some(floor) = floor {
            enter_floor();
            floor.account.get_or_insert_with(|| Account {
                cpu: thread_cpu(),
                settle_at: Instant::now(),
            });
        }
    });
}

/// Moves the calling thread from the usual class to the floor if that is in use, or else to the idle
/// class.
pub(crate) fn lower() {
    let is_in_use =
        |floor: &Option<FloorThread>| (floor.as_ref()).is_some_and(|floor| floor.share.is_on());
    if FLOOR.with_borrow(is_in_use) && current_class() == SchedulingClass::Normal {
        enter();
    } else {
        lower_current_thread();
    }
}

/// If the calling thread is on the floor: charges the CPU time that it used, and waits until it may use
/// more, or until `is_over`. Once the floor is not in use any more, the thread enters the idle class.
/// Returns whether it did.
pub(crate) fn settle(now: Instant, is_over: impl Fn(Instant) -> bool) -> bool {
    FLOOR.with_borrow_mut(|floor| (floor.as_mut()).is_some_and(|floor| floor.settle(now, is_over)))
}

impl FloorThread {
    fn settle(&mut self, now: Instant, is_over: impl Fn(Instant) -> bool) -> bool {
        let Some(account) = self.account.as_mut().filter(|it| it.settle_at <= now) else {
            return false;
        };
        let cpu = thread_cpu();
        (self.share).charge(cpu.saturating_sub(account.cpu));
        account.cpu = cpu;
        while self.share.is_on() {
            let is_paid = self.share.may_go_on();
            let now = Instant::now();
            if is_paid || is_over(now) {
                account.settle_at = now + SETTLE_EVERY;
                return false;
            }
        }
        self.account = None;
        lower_current_thread();
        true
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use ebb_threads::{FLOOR_NICE, current_nice};

    use super::*;

    /// Returns a floor of this many cores; for `None`, a floor that is not in use.
    fn share(cores: Option<f64>) -> Arc<FloorShare> {
        let share = FloorShare::new();
        share.set(cores);
        Arc::new(share)
    }

    /// Runs `body` on a thread of its own, since a class cannot always be left again.
    fn on_a_thread(body: impl FnOnce() + Send + 'static) {
        std::thread::spawn(body).join().unwrap();
    }

    #[test]
    fn a_thread_enters_the_idle_class_while_the_floor_is_not_in_use() {
        on_a_thread(|| {
            allow(&share(None));
            lower();
            assert_ne!(current_class(), SchedulingClass::Normal);
        });
        on_a_thread(|| {
            lower();
            assert_ne!(current_class(), SchedulingClass::Normal);
        });
    }

    #[test]
    fn a_thread_leaves_a_floor_that_is_not_in_use_any_more() {
        on_a_thread(|| {
            allow(&share(None));
            let now = Instant::now(); // clock: handed to code that takes an instant
            assert!(!settle(now, |_| false), "it is not on the floor");
            enter();
            assert!(current_nice() >= FLOOR_NICE);
            let now = Instant::now(); // clock: handed to code that takes an instant
            assert!(settle(now, |_| false));
            assert_ne!(current_class(), SchedulingClass::Normal);
            assert!(!settle(now, |_| false), "once");
        });
    }

    #[test]
    fn a_thread_on_the_floor_waits_until_its_scan_is_over() {
        on_a_thread(|| {
            allow(&share(Some(0.0)));
            lower();
            assert!(current_nice() >= FLOOR_NICE);
            assert_ne!(current_class(), SchedulingClass::Idle);
            let looks = Cell::new(0);
            let is_over = |_| {
                looks.set(looks.get() + 1);
                looks.get() == 3
            };
            let now = Instant::now(); // clock: handed to code that takes an instant
            assert!(!settle(now, is_over));
            assert_eq!(looks.get(), 3);
        });
    }
}
