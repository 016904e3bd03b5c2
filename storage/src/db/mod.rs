//! The engine: opening and closing, the write path, flushes and merges, snapshots.

#[expect(
    clippy::disallowed_methods,
    reason = "looks up now and then in real time; no content depends on it"
)]
mod background;
mod backlog;
mod catalog;
mod choose;
mod compact;
mod engine;
mod flush;
mod flush_and_trim;
mod idle;
mod ingest;
mod inner;
mod kept_runs;
mod open;
mod picks;
mod priority;
mod replay;
mod snapshots;
mod stats;
mod table_core;
mod tables;
mod write;
#[expect(
    clippy::disallowed_methods,
    reason = "measures how long writers waited; no content depends on it"
)]
mod write_stall;
mod write_throttling;

pub(crate) use catalog::Catalog;
pub(crate) use engine::{Access, Engine};
pub use ingest::IngestInfo;
pub(crate) use inner::DbInner;
pub(crate) use table_core::TableCore;
