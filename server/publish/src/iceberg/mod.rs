//! The metadata of Iceberg tables, format version 2: what names the data files of a table and
//! describes them.
//!
//! ```text
//!   v7.metadata.json ── snapshot, tag ──► manifest list ──► manifests ──► data files
//!   (metadata)                            (manifest_list)   (manifest)
//! ```
//!
//! Metadata is JSON, manifests and their lists are Avro. Everything here turns values into bytes and
//! back; nothing looks at a disk.

mod avro;
pub mod manifest;
pub mod manifest_list;
pub mod metadata;

pub use self::avro::AvroError;
