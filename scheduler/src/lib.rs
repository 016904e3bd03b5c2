//! The scheduler.
#![forbid(unsafe_code)]
pub mod availability;
pub mod model;
pub mod policy;
pub mod sim;
