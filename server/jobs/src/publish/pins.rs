//! Pins: the snapshots that targets show, kept readable for the next publications.
//!
//! After a publication, a pin keeps the published snapshot of each table readable. The next publication to
//! the same target compares with this snapshot, and writes only changed rows. Without the pin it writes all
//! rows, so a pin may be released at any time: because of its age, because of the disk space that it takes,
//! and when space gets short. The store also releases the pin before it drops rows of the table that it
//! cannot read. Both snapshots then lack such rows, so a comparison would not find them. For the same
//! reason each publication has a pin of its own from its beginning on. Only if this pin still exists at the
//! end, it becomes the pin of the target.

#[cfg(feature = "publish")]
mod target_pins;

use std::cell::LazyCell;

use ebb_storage::{Db, ErrorKind, Keyspace, Result, SnapshotInfo};
use serde::{Deserialize, Serialize};

#[cfg(feature = "publish")]
pub(super) use self::target_pins::TargetPins;

/// The text that the store keeps with a pin. A pin is a hold (a snapshot that the store keeps) for the next
/// publication to a target. A hold with any other text is not a pin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    /// The location of the target whose next publication compares with the kept snapshot.
    published_to: String,
    /// The largest percentage of the database's size that may be kept on disk only because of the pin;
    /// `None` if there is no such limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    percent_max: Option<u8>,
}

impl Note {
    /// Reads the note that is stored with a hold (a snapshot that the store keeps); `None` if the snapshot
    /// is not kept for a publication.
    fn of(hold: &SnapshotInfo) -> Option<Self> {
        serde_json::from_str(hold.held_for.as_deref()?).ok()
    }

    #[cfg(feature = "publish")]
    fn to_text(&self) -> String {
        serde_json::json!(self).to_string()
    }
}

/// Returns a text for people that names the holder of a snapshot, from the note that is stored with it:
/// `publications to LOCATION` if the snapshot is kept for publications to a target, otherwise the note
/// itself.
pub fn holder(note: &str) -> String {
    match serde_json::from_str::<Note>(note) {
        Ok(note) => format!("publications to {}", note.published_to),
        Err(_) => note.to_owned(),
    }
}

/// A pin (a published snapshot that was kept readable) that was released because it took too much of the
/// disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleasedPin {
    /// The table, as `KEYSPACE.TABLE`.
    pub table: String,
    /// The location of the target for which the snapshot was kept: without the snapshot, the next
    /// publication there cannot write only the changes.
    pub target: String,
    /// The number of bytes that were kept only because of the pin.
    pub pinned_bytes: u64,
}

/// Releases each pin (a published snapshot that is kept readable) that takes a larger percentage of the
/// database's size than its publication allows, and returns the released ones. A pin may take more once
/// another snapshot is deleted, so callers repeat this from time to time.
///
/// # Errors
/// The errors of the store.
pub fn release_large(db: &Db) -> Result<Vec<ReleasedPin>> {
    let file_bytes = LazyCell::new(|| db.file_bytes());
    let mut released = Vec::new();
    for keyspace in db.keyspaces() {
        let keyspace = db.existing_keyspace(&keyspace)?;
        for hold in keyspace.holds() {
            let Some(note) = Note::of(&hold) else {
                continue;
            };
            if let Some(percent) = note.percent_max
                && is_too_large(hold.pinned_bytes, percent, *file_bytes)
                && release(&keyspace, &hold)?
            {
                released.push(ReleasedPin {
                    table: format!("{}.{}", keyspace.name(), hold.tables.concat()),
                    target: note.published_to,
                    pinned_bytes: hold.pinned_bytes,
                });
            }
        }
    }
    Ok(released)
}

/// Returns whether `pinned_bytes` is more than `percent_max` percent of `file_bytes`, the size of all files.
fn is_too_large(pinned_bytes: u64, percent_max: u8, file_bytes: u64) -> bool {
    u128::from(pinned_bytes) * 100 > u128::from(file_bytes) * u128::from(percent_max)
}

/// Releases a hold: deletes the snapshot that the store keeps. Returns false if it was deleted already.
fn release(keyspace: &Keyspace, hold: &SnapshotInfo) -> Result<bool> {
    match keyspace.delete_snapshot(&hold.name) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_too_large_above_its_part_of_the_files() {
        for (pinned, percent, files, is_large) in [
            (20, 20, 100, false),
            (21, 20, 100, true),
            (0, 1, 0, false),
            (u64::MAX, 100, u64::MAX, false),
            (u64::MAX, 99, u64::MAX, true),
        ] {
            let found = is_too_large(pinned, percent, files);
            assert_eq!(found, is_large, "{pinned} {percent} {files}");
        }
    }

    #[test]
    fn the_holder_of_a_pin_is_its_target() {
        assert_eq!(
            holder(r#"{"published_to":"file:///lake"}"#),
            "publications to file:///lake"
        );
        assert_eq!(holder("a copy"), "a copy");
    }
}
