//! Runs the public driver `scylla`, unmodified, against a server in the same process, as an
//! application in Rust would use it.
//!
//! | module | what the driver does |
//! | --- | --- |
//! | `metadata` | reads the schema, follows its changes by events, computes tokens |
//! | `rows` | fetches pages, executes batches and conditional writes, maps errors |
//! | `values` | writes and reads values of every type |
//!
//! No reads here scan a whole table or a range of tokens. The server executes such reads in the
//! kernel's idle class, which makes no progress on a busy machine.

mod metadata;
mod rows;
mod session;
mod values;
