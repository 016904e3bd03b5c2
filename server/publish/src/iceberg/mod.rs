//! The metadata of Iceberg tables, format version 2: what names the data files of a table and
//! describes them.
//!
//! ```text
//!   v7.metadata.json ── snapshot, tag ──► manifest list ──► manifests ──► data files
//!   (metadata)                            (manifest_list)   (manifest)
//! ```
//!
//! Metadata is JSON, manifests and their lists are Avro. Everything here turns values into bytes and
//! back; nothing looks at a disk. Manifests and lists are read as any engine writes them, and
//! [`foreign`] is the view of such a table's metadata. Where a catalog writes the metadata, it takes the changes
//! as a [`commit_request`].

mod avro;
pub mod commit_request;
pub mod foreign;
pub mod manifest;
pub mod manifest_list;
pub mod metadata;
#[cfg(test)]
pub(crate) mod testing;

pub use self::avro::AvroError;
