//! The synchronization primitives of the crate. A checker of concurrency replaces them by its own.
//!
//! ```text
//!   --cfg loom      loom's: `loom_models` explores every interleaving of a piece
//!   --cfg shuttle   shuttle's: random schedules of a whole database
//!   otherwise       std's, and [`Published`] is an `ArcSwap`
//! ```
//!
//! Invariant: locks that are held, conditions that are waited for and threads that are joined
//! while another thread may run go through this module. Exceptions (the block cache,
//! counters, the disk in memory; for shuttle also [`in_place`]) block others only for a
//! moment in which none of these is touched.

pub(crate) mod in_place;
mod published;
mod spin;

#[cfg(loom)]
mod loom_condvar;

pub(crate) use published::{Published, PublishedGuard};
pub(crate) use spin::spin_until;

#[cfg(loom)]
pub(crate) use {
    loom::sync::{
        Mutex, MutexGuard, RwLock, RwLockReadGuard,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    loom::thread,
    loom_condvar::Condvar,
};

#[cfg(shuttle)]
pub(crate) use shuttle::{
    sync::{
        Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
};

#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::{
    sync::{
        Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
};
