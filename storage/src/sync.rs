//! The primitives that threads meet on, so that loom can drive them.
//!
//! Built with `--cfg loom` these are loom's own, and the models in
//! `loom_models` explore every interleaving; otherwise they are std's.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};

#[cfg(not(loom))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};
