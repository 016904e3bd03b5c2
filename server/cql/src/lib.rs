//! CQL as bytes and rules, without I/O: the syntax of statements, and the encoding of requests and
//! responses.
//!
//! ```text
//! protocol   frames of the native protocol, versions 4 and 5
//! syntax     text to statements
//! client     a blocking client, the only module with I/O (feature `client`)
//! ```
//!
//! `protocol` and `syntax` do not use each other.
#![forbid(unsafe_code)]

#[cfg(feature = "client")]
pub mod client;
pub mod protocol;
pub mod syntax;
