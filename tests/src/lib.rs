//! What the proofs of ebb share, and the proofs themselves.
//!
//! ```text
//! operation   what is done, as data and as text; drawn from a seed
//! model       what it means        session   how a database does it
//! setup       how the database is set up
//! disk        the machine in memory under it
//! made        a database after some operations
//!
//! crash       power lost at every call
//! faults      calls that fail, disks that fill up
//! scarcity    a disk that has no space now and then, and may lose power
//! space       a disk of the machine that is full
//! damage      bits that flip, files cut short
//! metamorphic the same operations under many configurations
//! isolation   histories of concurrent transactions
//! schedules   a whole database under drawn schedules
//! kills       processes killed for real
//!
//! soak        drives all of them, and repeats what failed
//! ```
//!
//! A proof is a function of a seed. It returns counts and failures, each with
//! the words that repeat it.

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
