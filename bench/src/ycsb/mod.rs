//! The transactional load: YCSB's workloads, run against a table of the store.
//!
//! ```text
//!   workload ── the operations           chooser ── the record of an operation
//!   pace ────── when they are due        records ── its key and value, and the check
//!   agenda ──── which thread   \   /     pauses ─── when the machine stood still
//!   load             worker  ◄── source   reads: the live table or a snapshot
//!                      │
//!                    driver ──► timeline  live, interval by interval
//!                      │    ──► watch     writers' latency around an event
//!                    report
//!
//!   cql ── the same workloads, against a server
//! ```
//!
//! Every value that is read must have the number of the requested record, and a read of a snapshot
//! must never return a write of the same run; a violation counts as a mismatch. Latencies of an
//! open loop count from the moment at which an operation was due (unless an option selects
//! otherwise), so that a stall is not hidden by the operations that it prevented from starting.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! use ebb_bench::ycsb::{Driver, LoadOptions, ReadFrom, RunOptions, load};
//!
//! let db = ebb_storage::Db::open(dir.path(), Default::default())?;
//! let table = db.keyspace("app")?.table("users", Default::default())?;
//! load(&db, &table, 0..1_000, &LoadOptions::default(), |_rows| ())?;
//!
//! let mut options = RunOptions::new("b".parse()?);
//! options.operations_max = Some(1_000);
//! let report = Driver::start(&db, &table, &ReadFrom::Live, options)?.join()?;
//! assert_eq!((report.operations, report.mismatches), (1_000, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agenda;
mod chooser;
pub(crate) mod command;
pub(crate) mod cql;
mod driver;
mod inserts;
mod latencies;
mod load;
mod options;
mod pace;
mod pauses;
mod records;
mod report;
mod sections;
mod source;
mod timeline;
mod watch;
mod worker;
mod workload;

pub use chooser::{Chooser, THETA, Zipfian};
pub use driver::Driver;
pub use inserts::Inserts;
pub use latencies::Latencies;
pub use load::{LoadOptions, LoadReport, load};
pub use options::{LatencyFrom, RunOptions};
pub use pace::{Pace, RateSchedule};
pub(crate) use pauses::{HIDDEN_MAX, PF_KTHREAD, Pauses, Sentinels, enter_real_time_class};
pub use records::{
    KEY_BYTES, Stamp, VALUE_BYTES_DEFAULT, VALUE_BYTES_MIN, count_records, key, read_stamp,
    write_value,
};
pub use report::{OperationReport, Report};
pub use sections::Section;
pub use source::{ReadFrom, Source};
pub use timeline::{Interval, Timeline};
pub use watch::{Watch, WatchGroup, WatchReport};
pub use workload::{Distribution, Operation, UnknownName, Workload};
