//! An embeddable LSM key-value store with named, restart-surviving snapshots.

#![deny(unsafe_code)]

mod cursor;
mod error;
mod key;
pub mod vfs;
