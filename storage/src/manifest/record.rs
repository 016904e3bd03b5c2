//! The bytes of a manifest (the book, Formats: Manifest).
//!
//! ```text
//!   header   magic "ebbMANIF" 8 | version u32 | crc32 u32 of the rest | database id 16
//!   record   crc32 u32 of the rest | length u32 | an Edit as JSON
//! ```

use std::path::Path;

use super::database_id::DatabaseId;
use super::state::Edit;
use crate::error::{Error, Result};
use crate::formats::MANIFEST;
use crate::mutation::{self, Mutation};

const MAGIC: &[u8; 8] = b"ebbMANIF";
pub(super) const HEADER_BYTES: usize = 32;
pub(super) const RECORD_HEADER_BYTES: usize = 8;

pub(super) fn header(id: DatabaseId) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&MANIFEST.version.to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&id.0).to_le_bytes());
    bytes.extend_from_slice(&id.0);
    bytes
}

/// Checks the header of a manifest and returns the id of its database. The version is checked before
/// the id, because a header of another version may have another length.
///
/// # Errors
/// [`Error::UnsupportedFormat`] for another version; [`Error::Corruption`].
pub(super) fn check_header(path: &Path, bytes: &[u8]) -> Result<DatabaseId> {
    if bytes.len() < 12 || &bytes[..8] != MAGIC {
        return Err(Error::corruption(path, 0, "this is not a manifest"));
    }
    MANIFEST.check(path, u32_at(bytes, 8))?;
    let id = bytes.get(16..HEADER_BYTES);
    match id.filter(|id| crc32fast::hash(id) == u32_at(bytes, 12)) {
        Some(id) => Ok(DatabaseId(id.try_into().expect("16 bytes"))),
        None => {
            let detail = "the database id does not have its checksum";
            Err(Error::corruption(path, 12, detail))
        }
    }
}

pub(super) fn encode(edit: &Edit) -> Vec<u8> {
    let json = serde_json::to_vec(edit).expect("edits have string or number keys only");
    let mut out = vec![0; 4];
    out.extend_from_slice(&(json.len() as u32).to_le_bytes());
    out.extend_from_slice(&json);
    let crc = crc32fast::hash(&out[4..]);
    out[..4].copy_from_slice(&crc.to_le_bytes());
    out
}

/// Returns the edit, as JSON, in the record at the offset `at`, after its checksum is verified, or
/// a description of the damage.
pub(super) fn record_at(bytes: &[u8], at: usize) -> Result<&[u8], String> {
    let left = bytes.len().saturating_sub(at);
    if left < RECORD_HEADER_BYTES {
        return Err(format!("{left} bytes where a record begins"));
    }
    let len = u32_at(bytes, at + 4) as usize;
    if len > left - RECORD_HEADER_BYTES {
        return Err(format!("a record of {len} bytes where {left} are left"));
    }
    let end = at + RECORD_HEADER_BYTES + len;
    let (found, expected) = (crc32fast::hash(&bytes[at + 4..end]), u32_at(bytes, at));
    if found != expected && !mutation::is(Mutation::TrustManifest) {
        return Err(format!(
            "record checksum {found:#010x}, expected {expected:#010x}"
        ));
    }
    Ok(&bytes[at + RECORD_HEADER_BYTES..end])
}

/// Returns the offset of the first good record behind the bad record at the offset `bad`; `None` if there
/// is none.
pub(super) fn later_record(bytes: &[u8], bad: usize) -> Option<usize> {
    (bad + 1..bytes.len().saturating_sub(RECORD_HEADER_BYTES)).find(|&at| {
        // An edit is a JSON object or a string; looking for that first spares
        // most of the checksums.
        matches!(bytes[at + RECORD_HEADER_BYTES], b'{' | b'"') && record_at(bytes, at).is_ok()
    })
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}
