//! The engine: opening and closing, the write path, flushes and merges, snapshots.

mod accept_loss;
#[expect(
    clippy::disallowed_methods,
    reason = "looks up now and then in real time; no content depends on it"
)]
mod background;
mod backlog;
mod backup_files;
mod catalog;
mod check_record;
mod choose;
#[expect(
    clippy::disallowed_methods,
    reason = "tells how long a merge took; no content depends on it"
)]
mod compact;
mod disk_calls;
mod engine;
mod events;
mod file_checks;
mod flush;
mod flush_and_trim;
mod flush_round;
mod health;
mod idle;
mod ingest;
mod inner;
mod kept_runs;
mod large_groups;
mod left_out;
mod low_water;
mod memtable_memory;
mod merge_pauses;
mod open;
mod picks;
mod pinned;
mod priority;
mod quarantine;
mod replay;
mod reserve;
mod snapshots;
mod stats;
mod table_core;
mod table_work;
mod tables;
mod truncation;
mod unmergeable;
mod unreadable;
mod write;
#[expect(
    clippy::disallowed_methods,
    reason = "measures how long writers waited; no content depends on it"
)]
mod write_stall;
mod write_throttling;

pub(crate) use accept_loss::Rest;
pub(crate) use backup_files::{BackupFiles, KeptFiles};
pub use catalog::NAME_BYTES_MAX;
pub(crate) use catalog::{Catalog, check_name};
pub(crate) use engine::{Access, Capture, Engine};
pub(crate) use events::EventListeners;
pub use events::{Event, SpaceUse};
pub use file_checks::FileCheck;
pub use health::Health;
pub use ingest::IngestInfo;
pub(crate) use inner::DbInner;
pub(crate) use large_groups::GroupListeners;
pub use large_groups::LargeGroup;
pub use pinned::SnapshotPins;
pub(crate) use snapshots::hold_name;
pub(crate) use table_core::TableCore;
