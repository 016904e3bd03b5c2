//! Helpers for the tests of all crates: [waiting for an event](wait), [seeds](seed) of random
//! tests, and [tables of cases](cases).
//!
//! A test waits for an event, never for a time. On a machine that takes cores away for half a
//! second now and then, every sleep is too short and every measured duration too long.

#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    reason = "the one place where tests read a clock, the environment and files"
)]

pub mod cases;
pub mod seed;
pub mod wait;
