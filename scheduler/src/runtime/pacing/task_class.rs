//! The present scheduling class of tasks: the idle class, or the *floor*, the ordinary class with a
//! high nice value and, where the kernel grants them, short time slices.
//!
//! ```text
//!              a thread that starts enters one of them
//!   idle class ── the floor begins: only with the permission to raise ──> floor
//!              <─────── the floor ends: always ──────────────────────────
//! ```
//!
//! Without that permission, an attempt that hardly advances in the idle class is overtaken by a
//! second one on a new thread ([`starved`](crate::runtime::schedule::speculation::starved)).

use super::attempt_state::AttemptState;
use ebb_threads::{current_nice, enter_floor, lower_current_thread, return_to_floor};
use std::sync::atomic::{AtomicBool, Ordering};

/// The operating system's scheduling class and nice value for the task threads of a runtime. The
/// control thread sets the class, and each task thread changes to it.
#[derive(Debug, Default)]
pub(in crate::runtime) struct TaskClass {
    /// True if tasks run in the idle class or on the floor, the ordinary class with a high nice
    /// value. If false, they are always ordinary threads.
    lowers: bool,
    /// True if the system lets a thread leave the idle class again.
    can_raise: bool,
    /// The nice value of the process.
    nice: i32,
    is_on_floor: AtomicBool,
}

impl TaskClass {
    /// Creates the class of tasks. If `lowers` is true, it is the idle class until
    /// [`set_on_floor`](Self::set_on_floor) changes it; otherwise it is always the ordinary class.
    /// `can_raise` is true if the system lets a thread leave the idle class again. The calling
    /// thread must have the nice value of the process.
    pub fn new(lowers: bool, can_raise: bool) -> Self {
        Self {
            lowers,
            can_raise,
            nice: current_nice(),
            is_on_floor: AtomicBool::new(false),
        }
    }

    /// Sets whether tasks run on the floor (at a high nice value) instead of in the idle class.
    /// Returns whether they do so now: never if tasks are always ordinary threads.
    pub fn set_on_floor(&self, is_on_floor: bool) -> bool {
        let is_on_floor = is_on_floor && self.lowers;
        self.is_on_floor.store(is_on_floor, Ordering::Relaxed);
        is_on_floor
    }

    /// Moves the calling thread, which is an ordinary one, to the floor (a high nice value) if
    /// `is_on_floor` is true, otherwise to the idle class. The thread stays ordinary if tasks are
    /// always ordinary threads.
    pub fn enter(&self, is_on_floor: bool) {
        if is_on_floor {
            enter_floor();
        } else if self.lowers {
            lower_current_thread();
        }
    }

    /// Moves the calling thread to the class in which tasks run now, as far as the system permits
    /// this. `is_on_floor` must be true if the thread is on the floor: at its high nice value and
    /// not in the idle class. Returns whether the thread is on the floor afterwards.
    pub fn follow(&self, is_on_floor: bool) -> bool {
        match (is_on_floor, self.is_on_floor.load(Ordering::Relaxed)) {
            (true, false) => {
                lower_current_thread();
                false
            }
            (false, true) if self.can_raise => return_to_floor(self.nice),
            _ => is_on_floor,
        }
    }

    /// Moves the thread that works for an attempt to the class in which tasks run now, as
    /// [`follow`](Self::follow) does. If the attempt runs in a child process, the child moves
    /// itself from the floor to the idle class; its parent, this process, cannot raise it again.
    pub fn follow_with(&self, attempt_state: &AttemptState) {
        let is_on_floor = attempt_state.is_on_floor();
        if is_on_floor || !attempt_state.is_in_process() {
            attempt_state.set_on_floor(self.follow(is_on_floor));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_threads::{FLOOR_NICE, SchedulingClass, current_class};

    /// Runs `body` on a thread of its own, because a thread cannot always leave a class again.
    fn on_a_thread(body: impl FnOnce() + Send + 'static) {
        std::thread::spawn(body).join().unwrap();
    }

    #[test]
    fn a_thread_leaves_the_floor_when_it_ends() {
        on_a_thread(|| {
            let class = TaskClass::new(true, false);
            assert!(class.set_on_floor(true));
            class.enter(true);
            assert!(current_nice() >= FLOOR_NICE);
            assert!(class.follow(true), "the floor goes on");
            class.set_on_floor(false);
            assert!(!class.follow(true));
            assert_ne!(current_class(), SchedulingClass::Normal);
        });
    }

    #[test]
    fn a_thread_of_the_idle_class_enters_the_floor_only_with_permission() {
        on_a_thread(|| {
            let class = TaskClass::new(true, false);
            class.enter(false);
            class.set_on_floor(true);
            assert!(!class.follow(false));
            assert_ne!(current_class(), SchedulingClass::Normal);
        });
        on_a_thread(|| {
            let class = TaskClass::new(true, true);
            class.enter(false);
            class.set_on_floor(true);
            let state = AttemptState::default();
            class.follow_with(&state);
            let is_raised = current_class() == SchedulingClass::Normal;
            assert_eq!(state.is_on_floor(), is_raised);
        });
    }

    #[test]
    fn the_thread_of_a_process_that_was_started_in_the_idle_class_stays_there() {
        on_a_thread(|| {
            let class = TaskClass::new(true, true);
            class.enter(false);
            class.set_on_floor(true);
            let state = AttemptState::default();
            state.set_in_process();
            class.follow_with(&state);
            assert!(!state.is_on_floor());
            assert_ne!(current_class(), SchedulingClass::Normal);
        });
    }

    #[test]
    fn tasks_of_the_ordinary_class_have_no_floor() {
        on_a_thread(|| {
            let before = current_nice();
            let class = TaskClass::new(false, true);
            assert!(!class.set_on_floor(true));
            class.enter(false);
            assert!(!class.follow(false));
            assert_eq!(current_nice(), before);
        });
    }
}
