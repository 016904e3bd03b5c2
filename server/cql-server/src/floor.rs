//! The floor of scans: their share of the CPU while other processes keep it busy.
//!
//! ```text
//!   a thread of scans: normal class ─ a scan is long ─┬─ the floor is in use ─> floor, paced
//!                                                     └─ otherwise ──────────> idle class
//!                      floor ── the floor is no longer in use ───────────────> idle class
//!                      idle class ── the floor comes into use ─┬─ if permitted ─> floor
//!                                                              └─ otherwise ───> idle class
//! ```
//!
//! A thread of the idle class makes hardly any progress beside busy processes, and a process
//! without privileges cannot take it out of that class. So the class is chosen when a thread leaves
//! the normal one. A scan whose thread is left behind in the idle class begins anew on another
//! thread ([`Interrupt::ending_if_left_behind`](crate::call::Interrupt::ending_if_left_behind)).
//!
//! The floor is a thread-local, as the limit of a statement is: the code that executes statements
//! does not pass its thread around.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ebb_colocate::FloorShare;
use ebb_threads::{
    SchedulingClass, current_class, current_nice, enter_floor, lower_current_thread,
    return_to_floor, thread_cpu,
};

/// The interval at which a thread on the floor (the CPU share of scans) measures its CPU time, by a
/// system call.
const SETTLE_EVERY: Duration = Duration::from_micros(500);

thread_local! {
    /// The CPU share that is guaranteed to scans (the floor), if the calling thread may move to it;
    /// `None` if the thread may not.
    static FLOOR: RefCell<Option<FloorThread>> = const { RefCell::new(None) };
}

struct FloorThread {
    share: Arc<FloorShare>,
    /// The nice value (CPU priority) of the thread in the normal scheduling class.
    nice: i32,
    place: Place,
}

/// The present scheduling class of a thread.
enum Place {
    Normal,
    Floor(Account),
    Idle {
        /// True if the kernel has refused to let the thread leave the idle class.
        is_bound: bool,
    },
}

/// The account of a thread that runs within the CPU share of scans: up to which CPU time the thread
/// was charged to the share, and when it is charged next.
struct Account {
    /// The total CPU time of the thread at the last charge.
    cpu: Duration,
    /// The time of the next charge, which charges the CPU time since the last one.
    settle_at: Instant,
}

/// The effect of [`settle`] (which charges the calling thread's CPU time to the share of scans) on
/// the scheduling class of the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// The thread has stayed in its scheduling class.
    Stays,
    /// The thread has moved between the floor (the CPU share of scans) and the idle class.
    Moved,
    /// The CPU share of scans is turned on, but the kernel does not let the thread leave the idle
    /// class.
    LeftBehind,
}

/// Registers the calling thread, which is in the normal scheduling class, for the floor: the thread
/// may later move into the CPU share of scans, `share`.
pub(crate) fn allow(share: &Arc<FloorShare>) {
    FLOOR.set(Some(FloorThread {
        share: Arc::clone(share),
        nice: current_nice(),
        place: Place::Normal,
    }));
}

/// Moves the calling thread from the normal scheduling class to the floor, the CPU share of scans
/// that [`allow`] has set for this thread. Does nothing if there is none.
pub(crate) fn enter() {
    FLOOR.with_borrow_mut(|floor| {
        if let Some(floor) = floor {
            floor.enter();
        }
    });
}

/// Moves the calling thread from the normal scheduling class to the floor if [`allow`] has
/// registered the thread and the CPU share of scans is turned on. Otherwise moves it to the idle
/// class.
pub(crate) fn lower() {
    FLOOR.with_borrow_mut(|floor| match floor {
        Some(floor) if floor.share.is_on() && current_class() == SchedulingClass::Normal => {
            floor.enter();
        }
        Some(floor) => floor.leave(),
        None => {
            lower_current_thread();
        }
    });
}

/// Returns whether the calling thread runs within the CPU share of scans, the floor.
pub(crate) fn is_entered() -> bool {
    FLOOR.with_borrow(|floor| {
        let place = floor.as_ref().map(|floor| &floor.place);
        matches!(place, Some(Place::Floor(_)))
    })
}

/// Charges the CPU time that the calling thread has used to the CPU share of scans (the floor), if
/// the thread runs within that share. Waits until the thread may use more, or until `is_over`
/// returns true. If the share is turned off, the thread moves to the kernel's idle class. A thread
/// in the idle class moves to the floor if the share is turned on and the kernel permits the move.
pub(crate) fn settle(now: Instant, is_over: impl Fn(Instant) -> bool) -> Settled {
    FLOOR.with_borrow_mut(|floor| match floor {
        Some(floor) => floor.settle(now, is_over),
        None => Settled::Stays,
    })
}

impl FloorThread {
    fn enter(&mut self) {
        enter_floor();
        if !matches!(self.place, Place::Floor(_)) {
            self.place = Place::Floor(Account::open());
        }
    }

    fn leave(&mut self) {
        lower_current_thread();
        self.place = Place::Idle { is_bound: false };
    }

    fn settle(&mut self, now: Instant, is_over: impl Fn(Instant) -> bool) -> Settled {
        match &mut self.place {
            Place::Floor(account) if account.settle_at <= now => {
                if account.pay(&self.share, is_over) {
                    return Settled::Stays;
                }
                self.leave();
                Settled::Moved
            }
            Place::Idle { is_bound } if self.share.is_on() => {
                if !*is_bound && return_to_floor(self.nice) {
                    self.place = Place::Floor(Account::open());
                    return Settled::Moved;
                }
                *is_bound = true;
                Settled::LeftBehind
            }
            Place::Normal | Place::Floor(_) | Place::Idle { .. } => Settled::Stays,
        }
    }
}

impl Account {
    /// Begins to charge the calling thread for the CPU time that it uses from now on.
    fn open() -> Self {
        Self {
            cpu: thread_cpu(),
            settle_at: Instant::now(),
        }
    }

    /// Charges `share`, the CPU share of scans, for the CPU time since the last charge, and waits
    /// until the thread may use more, or until `is_over` returns true. Returns false if the share
    /// is turned off.
    fn pay(&mut self, share: &FloorShare, is_over: impl Fn(Instant) -> bool) -> bool {
        let cpu = thread_cpu();
        share.charge(cpu.saturating_sub(self.cpu));
        self.cpu = cpu;
        while share.is_on() {
            let is_paid = share.may_go_on();
            let now = Instant::now();
            if is_paid || is_over(now) {
                self.settle_at = now + SETTLE_EVERY;
                return true;
            }
        }
        false
    }
}

/// Makes the calling thread behave as if the kernel did not let it leave the idle class.
#[cfg(test)]
pub(crate) fn pretend_to_be_bound(share: &Arc<FloorShare>) {
    FLOOR.set(Some(FloorThread {
        share: Arc::clone(share),
        nice: current_nice(),
        place: Place::Idle { is_bound: true },
    }));
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use ebb_threads::FLOOR_NICE;

    use super::*;

    /// Returns a CPU share of this many cores for scans; `None` makes a share that is turned off.
    fn share(cores: Option<f64>) -> Arc<FloorShare> {
        let share = FloorShare::new();
        share.set(cores);
        Arc::new(share)
    }

    fn now() -> Instant {
        Instant::now() // clock: handed to code that takes an instant
    }

    /// Runs `body` on a thread of its own, since a thread cannot always leave a scheduling class
    /// again.
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
            assert_eq!(settle(now(), |_| false), Settled::Stays);
            enter();
            assert!(current_nice() >= FLOOR_NICE);
            assert_eq!(settle(now(), |_| false), Settled::Moved);
            assert_ne!(current_class(), SchedulingClass::Normal);
            assert_eq!(settle(now(), |_| false), Settled::Stays, "once");
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
            assert_eq!(settle(now(), is_over), Settled::Stays);
            assert_eq!(looks.get(), 3);
        });
    }

    #[test]
    fn an_idle_thread_enters_the_floor_only_if_the_kernel_permits_it() {
        on_a_thread(|| {
            let share = share(None);
            allow(&share);
            lower();
            let idle = current_class();
            assert_ne!(idle, SchedulingClass::Normal);
            assert_eq!(settle(now(), |_| false), Settled::Stays);
            share.set(Some(1.0));
            let settled = settle(now(), |_| false);
            if settled == Settled::Moved {
                assert_ne!(current_class(), SchedulingClass::Idle);
                assert!(current_nice() >= FLOOR_NICE);
                share.set(None);
                assert_eq!(settle(now(), |_| false), Settled::Moved, "and back");
            } else {
                assert_eq!(settled, Settled::LeftBehind);
                assert_eq!(settle(now(), |_| false), Settled::LeftBehind, "again");
            }
            assert_eq!(current_class(), idle);
        });
    }
}
