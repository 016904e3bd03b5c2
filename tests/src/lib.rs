//! The proofs of ebb, and the modules that they share.
//!
//! ```text
//! operation   operations as data and as text, drawn from a seed
//! model       the reference: what each operation means
//! session     an open database that runs operations
//! setup       options of databases
//! disk        the in-memory machine under a database
//! made        a database after some operations
//!
//! crash       power losses at every I/O call
//! faults      I/O calls that fail, disks that fill up
//! scarcity    a disk that lacks space now and then, and may lose power
//! space       a full disk of the machine
//! damage      flipped bits, cut files
//! metamorphic the same operations under many configurations
//! isolation   histories of concurrent transactions
//! schedules   a whole database under random schedules of its threads
//! kills       processes killed on a real disk
//!
//! soak        runs all proofs, and replays failures
//! ```
//!
//! A proof is a function of a seed. It returns counts and failures, each with the text that
//! replays it.

#![forbid(unsafe_code)]

pub mod caught;
pub mod crash;
pub mod damage;
pub mod disk;
pub mod faults;
pub mod isolation;
pub mod kills;
pub mod made;
pub mod memory;
pub mod metamorphic;
pub mod model;
pub mod operation;
pub mod report;
pub mod scarcity;
pub mod schedules;
pub mod seed;
pub mod session;
pub mod setup;
pub mod shrink;
pub mod soak;
pub mod space;
