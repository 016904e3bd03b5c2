//! CQL, as bytes and rules without I/O: what a statement says, and how requests and
//! results travel.
//!
//! ```text
//! protocol   frames of the native protocol, version 4
//! syntax     text to statements
//! ```
//!
//! Neither uses the other.
#![forbid(unsafe_code)]

pub mod protocol;
pub mod syntax;
