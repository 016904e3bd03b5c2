//! The interface by which a thread is paced: its work uses no more than the share of a lease.
//!
//! Code that works under a lease depends on these traits only. `runtime::Lease` of `ebb-scheduler`
//! implements them; there the policy decides the share.

use std::fmt;
use thiserror::Error;

/// The work under a lease is to stop: the lease was cancelled, or what gave it out shuts down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the work under the lease was cancelled")]
pub struct Cancelled;

/// A share of what analytics may use, for work on threads of the caller.
///
/// ```
/// use ebb_threads::{Cancelled, Lease};
///
/// fn copy(rows: &[&[u8]], lease: &dyn Lease, to: &mut Vec<u8>) -> Result<(), Cancelled> {
///     let thread = lease.enter()?; // waits for a share
///     for row in rows {
///         thread.read(row.len())?; // waits while the share is used up
///         to.extend_from_slice(row);
///     }
///     Ok(()) // dropped, the guard ends the pacing of the thread
/// }
/// ```
pub trait Lease: fmt::Debug + Send + Sync {
    /// Lets the calling thread work under the lease until the returned guard is dropped. Waits
    /// until the lease has a share. Any number of threads may enter: together they use the share.
    ///
    /// Meanwhile the thread may be in a low scheduling class: it must hold no lock for which a
    /// transaction may wait.
    ///
    /// # Errors
    /// If the work is to stop.
    fn enter(&self) -> Result<Box<dyn LeasedThread>, Cancelled>;
}

/// A guard: the calling thread works under a [`Lease`] until it is dropped.
///
/// Callers may call both functions for each row. So an implementation returns within tens of
/// nanoseconds if there is nothing to wait for.
pub trait LeasedThread {
    /// Charges the lease for the CPU time that the thread used, and waits while the lease has used
    /// more than its share. To be called between pieces of work of well below a millisecond.
    ///
    /// # Errors
    /// If the work is to stop.
    fn checkpoint(&self) -> Result<(), Cancelled>;

    /// Charges the lease also for reading a record of `bytes` bytes, since reads are paced too.
    /// Otherwise the same as [`checkpoint`](Self::checkpoint).
    ///
    /// # Errors
    /// If the work is to stop.
    fn read(&self, bytes: usize) -> Result<(), Cancelled>;
}
