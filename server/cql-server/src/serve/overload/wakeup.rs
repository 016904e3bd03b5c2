//! The two flags by which requests wake the probe, the task that measures how long connections
//! wait, and sleeps while there are no requests.
//!
//! ```text
//!   request: sets "busy"   ─> is the probe asleep?    ─> notifies the probe
//!   probe:   sets "asleep" ─> have requests arrived? ─> notifies itself
//! ```
//!
//! Each side stores its own flag and then loads the other one. If both loads came first, each side
//! would miss the other, and the probe would sleep for ever beside requests. So all four operations
//! are `SeqCst`: any weaker order lets a load overtake the store. The tests explore all orders of
//! these operations.

use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that threads share: an atomic of the standard library or, in tests, a simulated one.
pub(super) trait Flag {
    fn load(&self, order: Ordering) -> bool;
    fn store(&self, value: bool, order: Ordering);
    fn swap(&self, value: bool, order: Ordering) -> bool;
}

impl Flag for AtomicBool {
    fn load(&self, order: Ordering) -> bool {
        AtomicBool::load(self, order)
    }

    fn store(&self, value: bool, order: Ordering) {
        AtomicBool::store(self, value, order);
    }

    fn swap(&self, value: bool, order: Ordering) -> bool {
        AtomicBool::swap(self, value, order)
    }
}

#[derive(Debug, Default)]
pub(super) struct Wakeup<F = AtomicBool> {
    /// Set if requests were received, served or rejected since the probe (the task that measures
    /// waits) last looked.
    is_busy: F,
    is_awake: F,
}

impl<F: Flag> Wakeup<F> {
    /// Notes a request. Returns true if the probe (the task that measures waits) sleeps, and the
    /// caller has to notify it.
    #[must_use]
    pub(super) fn note_request(&self) -> bool {
        // Another request has set the flag, and the probe has yet to look.
        if self.is_busy.load(Ordering::Relaxed) {
            return false;
        }
        self.is_busy.store(true, Ordering::SeqCst);
        !self.is_awake.load(Ordering::SeqCst)
    }

    pub(super) fn is_awake(&self) -> bool {
        self.is_awake.load(Ordering::SeqCst)
    }

    pub(super) fn unpark(&self) {
        self.is_awake.store(true, Ordering::SeqCst);
    }

    /// Returns whether requests arrived since the last call of this method.
    pub(super) fn take_requests(&self) -> bool {
        self.is_busy.swap(false, Ordering::SeqCst)
    }

    /// Notes that the probe (the task that measures waits) goes to sleep. Returns true if the probe
    /// has to notify itself, because requests have arrived that saw it awake and so did not notify
    /// it.
    #[must_use]
    pub(super) fn park(&self) -> bool {
        self.is_awake.store(false, Ordering::SeqCst);
        self.is_busy.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests;
