//! The database: what a user holds, and the engine behind it.

mod back_pressure;
mod background;
mod catalog;
mod engine;
mod gate;
mod handle;
mod idle;
mod ingest;
mod open;
mod pressure;
mod priority;
mod replay;
mod snapshots;
mod table_core;
mod tables;
mod write;

pub(crate) use catalog::Catalog;
pub(crate) use engine::Engine;
pub use handle::Db;
pub(crate) use handle::DbInner;
pub(crate) use table_core::TableCore;
