//! CQL over the native protocol, version 4: what drivers, cqlsh and load tools speak.
//!
//! ```text
//!   serve      sockets, frames, lanes: whose turn it is
//!     │ Service: statement, values ──> the body of a RESULT
//!     v
//!   executor   what a statement means
//! ```
//!
//! What always holds: `serve` knows no statement, and what executes statements knows no
//! socket and no clock but the one of its call. No bytes from a client make the server
//! panic, loop or keep more than it agreed to.

pub mod call;
pub mod serve;
