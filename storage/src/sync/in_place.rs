//! Types for the entries of a memtable, whose memory is freed without dropping them.
//!
//! Shuttle's atomics would leak there, because they own heap memory. So std's are used under shuttle,
//! which therefore never switches threads at them.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicUsize};

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicUsize};

/// A value that is initialized before it is shared. Loom checks that each reader got its reference
/// through a synchronization that makes the value visible.
#[derive(Debug)]
pub(crate) struct Complete<T> {
    value: T,
    #[cfg(loom)]
    written: loom::cell::UnsafeCell<()>,
}

impl<T> Complete<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value,
            #[cfg(loom)]
            written: loom::cell::UnsafeCell::new(()),
        }
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> &T {
        #[cfg(loom)]
        self.written.with(|_| ());
        &self.value
    }
}
