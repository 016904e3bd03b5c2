//! Reading a manifest from its copies.
//!
//! Each record is read from any copy in which it is undamaged, so damage to one copy loses nothing.
//! Copies with different good records in one place contradict each other: that is damage, and
//! neither record is used.

use std::path::Path;

use super::copies::{ManifestCopy, most_telling};
use super::database_id::DatabaseId;
use super::record::{HEADER_BYTES, RECORD_HEADER_BYTES, check_header, later_record, record_at};
use super::state::{Edit, State};
use crate::error::{Error, Result};
use crate::mutation::{self, Mutation};

/// The content of a manifest.
#[derive(Debug)]
pub(super) struct Replayed {
    pub(super) id: DatabaseId,
    /// The state after all records.
    pub(super) state: State,
    /// The number of edits after the manifest's first record, which is a whole state.
    pub(super) edits: usize,
    /// The offset at which the last record ends.
    pub(super) end: usize,
    /// The damage to a copy of the manifest, in places where the other copy was readable, so that
    /// nothing is lost.
    pub(super) damage: Vec<Error>,
}

/// Reads a manifest from its copies.
///
/// An edit is synced in all copies before the next one is written. So if the last record can be read
/// in no copy, a crash has torn it, and the edit never took effect. (Any part of such a record may be
/// missing, its length too.) A crash may also leave one copy without the last record. Any other record
/// that cannot be read is damage.
///
/// # Errors
/// [`Error::Corruption`]; [`Error::UnsupportedFormat`].
pub(super) fn replay(copies: &[ManifestCopy]) -> Result<Replayed> {
    let (id, mut records, mut damage) = check_headers(copies)?;
    let mut state: Option<State> = None;
    let mut edits = 0;
    while let Some(record) = records.next()? {
        let corrupt = |detail: String| Error::corruption(record.path, record.at as u64, detail);
        let edit: Edit = serde_json::from_slice(record.json)
            .map_err(|e| corrupt(format!("a record that does not read: {e}")))?;
        match (&state, &edit) {
            (None, Edit::State(_)) | (Some(_), _) => {
                edits += usize::from(state.is_some());
                state.get_or_insert_default().apply(edit).map_err(corrupt)?;
            }
            (None, _) => return Err(corrupt("the first record is not a state".into())),
        }
    }
    let first = &copies[0];
    // The first record was synced before CURRENT named the manifest.
    let state = state.ok_or_else(|| records.bad_record(first, ""))?;
    records.check_end()?;
    state
        .check()
        .map_err(|detail| Error::corruption(&first.path, HEADER_BYTES as u64, detail))?;
    damage.extend(records.damage());
    Ok(Replayed {
        id,
        state,
        edits,
        end: records.at,
        damage,
    })
}

/// Returns the id of the database, the records of all copies, and the damage to headers if another
/// copy has a good one. A damaged header loses no record: the records behind it have checksums of
/// their own.
///
/// # Errors
/// [`Error::Corruption`] or [`Error::UnsupportedFormat`] if no copy has a good header;
/// [`Error::Corruption`] if the copies are of different databases.
fn check_headers(copies: &[ManifestCopy]) -> Result<(DatabaseId, Records<'_>, Vec<Error>)> {
    let (mut id, mut damage) = (None, Vec::new());
    for copy in copies {
        match check_header(&copy.path, &copy.bytes) {
            Ok(found) if *id.get_or_insert(found) != found => {
                let detail = "the copies of the manifest are of different databases";
                return Err(Error::corruption(&copy.path, 16, detail));
            }
            Ok(_) => {}
            Err(error) => damage.push(error),
        }
    }
    match id {
        Some(id) => Ok((id, Records::of(copies), damage)),
        None => Err(most_telling(damage)),
    }
}

/// Returns the state after the records before the first bad one, and the offset of the bad one;
/// `None` if not even the first state could be read. A record is bad if it cannot be read, does not
/// fit the state, or would leave an invalid state. The headers, whose versions have no checksum,
/// are skipped.
pub(super) fn replay_prefix(copies: &[ManifestCopy]) -> Option<(State, usize)> {
    let (state, end) = apply_prefix(copies, false)?;
    match state.check() {
        Ok(()) => Some((state, end)),
        Err(_) => apply_prefix(copies, true),
    }
}

/// Applies the records before the first bad one. Returns the resulting state, and the offset of the
/// bad record; `None` if not even the first state could be read. With `is_checked`, an edit that
/// leaves an invalid state is bad, too; this is slow, because each check reads the whole state.
fn apply_prefix(copies: &[ManifestCopy], is_checked: bool) -> Option<(State, usize)> {
    let mut records = Records::of(copies);
    let mut state: Option<State> = None;
    let mut end = records.at;
    while let Ok(Some(record)) = records.next() {
        let before = if is_checked { state.clone() } else { None };
        let fits = match serde_json::from_slice(record.json) {
            Ok(edit @ Edit::State(_)) if state.is_none() => {
                state.get_or_insert_default().apply(edit).is_ok()
            }
            Ok(edit) => state
                .as_mut()
                .is_some_and(|state| state.apply(edit).is_ok()),
            Err(_) => false,
        };
        if is_checked && state.as_ref().is_some_and(|state| state.check().is_err()) {
            state = before;
            break;
        }
        if !fits {
            break;
        }
        end = records.at;
    }
    state.map(|state| (state, end))
}

/// The records of a manifest, each from a copy that has it whole.
struct Records<'a> {
    copies: &'a [ManifestCopy],
    /// The offset of the next record.
    at: usize,
    /// The offset of the record that was read last.
    last: usize,
    /// For each copy, the offset of the first record that it lacks, and a description of the damage
    /// there.
    lacking: Vec<Option<(usize, String)>>,
}

/// A record of a manifest, from a copy of the manifest in which it is whole.
struct Record<'a> {
    path: &'a Path,
    at: usize,
    json: &'a [u8],
}

impl<'a> Records<'a> {
    fn of(copies: &'a [ManifestCopy]) -> Self {
        Self {
            lacking: vec![None; copies.len()],
            copies,
            at: HEADER_BYTES,
            last: HEADER_BYTES,
        }
    }

    /// Returns the next record; `None` if no copy has a good record at the next offset.
    ///
    /// # Errors
    /// [`Error::Corruption`] if two copies contradict each other.
    fn next(&mut self) -> Result<Option<Record<'a>>> {
        let at = self.at;
        let mut found: Option<Record<'a>> = None;
        let mut lacking = Vec::new();
        for (i, copy) in self.copies.iter().enumerate() {
            let json = match record_at(&copy.bytes, at) {
                Ok(json) => json,
                Err(detail) => {
                    lacking.push((i, detail));
                    continue;
                }
            };
            let Some(other) = &found else {
                let path = copy.path.as_path();
                found = Some(Record { path, at, json });
                continue;
            };
            if json != other.json && !mutation::is(Mutation::TrustFirstManifest) {
                let other = other.path.display();
                let detail = format!("{other} has another record in this place");
                return Err(Error::corruption(&copy.path, at as u64, detail));
            }
        }
        let Some(record) = found else {
            return Ok(None);
        };
        for (i, detail) in lacking {
            self.lacking[i].get_or_insert((at, detail));
        }
        self.last = at;
        self.at = at + RECORD_HEADER_BYTES + record.json.len();
        Ok(Some(record))
    }

    /// Checks, after [`Self::next`] returned `None`, that no copy has a good record anywhere behind
    /// the current offset. If none has one, the bytes there are an edit that a crash has torn.
    ///
    /// # Errors
    /// [`Error::Corruption`] if a good record follows.
    fn check_end(&self) -> Result<()> {
        for copy in self.copies {
            let later = later_record(&copy.bytes, self.at);
            if let Some(later) = later.filter(|_| !mutation::is(Mutation::DamagedManifestIsTorn)) {
                let follows = format!(", and a good record follows at offset {later}");
                return Err(self.bad_record(copy, &follows));
            }
        }
        Ok(())
    }

    /// Returns the error for a copy that has no good record at the next offset. `follows`, a
    /// description of what the copy has behind that offset, is appended to the message.
    fn bad_record(&self, copy: &ManifestCopy, follows: &str) -> Error {
        let detail = record_at(&copy.bytes, self.at).err().unwrap_or_default();
        Error::corruption(&copy.path, self.at as u64, detail + follows)
    }

    /// Returns the damage to records that another copy has whole. If a copy lacks only the last
    /// record, and that is an edit, this is not damage: a crash may have torn the record.
    fn damage(&self) -> impl Iterator<Item = Error> {
        let lacking = self.copies.iter().zip(&self.lacking);
        lacking.filter_map(move |(copy, lacking)| {
            let (at, detail) = lacking.as_ref()?;
            (*at < self.last || *at == HEADER_BYTES)
                .then(|| Error::corruption(&copy.path, *at as u64, detail.clone()))
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::record::{encode, header};
    use super::*;

    /// Returns the bytes of a manifest with an empty state, and one edit for each keyspace, which adds
    /// it.
    fn manifest(keyspaces: &[&str]) -> Vec<u8> {
        let mut bytes = header(DatabaseId([7; 16]));
        bytes.extend_from_slice(&encode(&Edit::State(State::default())));
        for name in keyspaces {
            let name = name.to_string();
            bytes.extend_from_slice(&encode(&Edit::AddKeyspace { name }));
        }
        bytes
    }

    fn replay_all(copies: &[&[u8]]) -> Result<Replayed> {
        let copy = |(i, bytes): (usize, &&[u8])| ManifestCopy {
            path: format!("copy {i}").into(),
            bytes: bytes.to_vec(),
        };
        let copies: Vec<_> = copies.iter().enumerate().map(copy).collect();
        replay(&copies)
    }

    fn keyspaces(copies: &[&[u8]]) -> Result<Vec<String>> {
        replay_all(copies).map(|replayed| replayed.state.keyspaces)
    }

    /// Regression: the power failed in the sync of an edit that lay in two sectors, and only the
    /// second had reached the disk: the record began with zeros, looked like a record of length 0
    /// with other bytes behind it, and was refused as damage.
    #[test]
    fn an_edit_torn_at_its_start_or_end_or_both_never_took_effect() {
        let (before, whole) = (manifest(&["a"]), manifest(&["a", "b"]));
        for zeros_to in before.len() + 1..=whole.len() {
            for cut in before.len()..=whole.len() {
                let mut torn = whole.clone();
                torn[before.len()..zeros_to].fill(0);
                torn.truncate(cut);
                let without_it: [&[&[u8]]; 3] = [&[&torn], &[&torn, &before], &[&torn, &torn]];
                for copies in without_it {
                    let replayed = replay_all(copies).unwrap();
                    assert_eq!(replayed.state.keyspaces, ["a"], "{zeros_to} {cut}");
                    assert_eq!((replayed.damage.len(), replayed.end), (0, before.len()));
                }
                // The edit is in the other copy.
                let replayed = replay_all(&[&torn, &whole]).unwrap();
                assert_eq!(replayed.state.keyspaces, ["a", "b"]);
                assert!(replayed.damage.is_empty());
            }
        }
    }

    /// Regression: a length that a flipped bit made too long looked like a record cut off by a
    /// crash, and all edits behind it were silently dropped.
    #[test]
    fn a_flipped_bit_in_an_edit_with_another_behind_it_is_damage() {
        let (before, whole) = (manifest(&["a"]), manifest(&["a", "b"]));
        for bit in 0..before.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let alone: [&[&[u8]]; 2] = [&[&damaged], &[&damaged, &damaged]];
            for copies in alone {
                let is_damage = matches!(
                    keyspaces(copies),
                    Err(Error::Corruption { .. } | Error::UnsupportedFormat { .. })
                );
                assert!(is_damage, "bit {bit}");
            }
            for copies in [[&damaged, &whole], [&whole, &damaged]] {
                let replayed = replay_all(&copies.map(|copy| &copy[..])).unwrap();
                assert_eq!(replayed.state.keyspaces, ["a", "b"], "bit {bit}");
                assert_eq!(replayed.damage.len(), 1, "bit {bit}");
            }
        }
    }

    #[test]
    fn each_copy_makes_up_for_the_damage_of_the_other() {
        let ends = [0, 1, 2].map(|keyspaces| manifest(&["a", "b"][..keyspaces]).len());
        let whole = manifest(&["a", "b", "c"]);
        let mut damaged = [whole.clone(), whole.clone()];
        damaged[0][ends[0] + 4] ^= 1;
        damaged[1][ends[1] + 20] ^= 1;
        let replayed = replay_all(&[&damaged[0], &damaged[1]]).unwrap();
        assert_eq!(replayed.state.keyspaces, ["a", "b", "c"]);
        let offset = |error: &Error| match error {
            Error::Corruption { offset, .. } => *offset as usize,
            other => panic!("{other}"),
        };
        let offsets: Vec<_> = replayed.damage.iter().map(offset).collect();
        assert_eq!(offsets, ends[..2]);
        // Both lack the same record.
        damaged[1][ends[0] + 4] ^= 1;
        assert!(replay_all(&[&damaged[0], &damaged[1]]).is_err());
        // One has no header, the other lacks the last record, as after a crash.
        let mut damaged = [whole.clone(), whole.clone()];
        damaged[0][20] ^= 1;
        damaged[1][ends[2] + 20] ^= 1;
        let replayed = replay_all(&[&damaged[0], &damaged[1]]).unwrap();
        assert_eq!(replayed.state.keyspaces, ["a", "b", "c"]);
        let offsets: Vec<_> = replayed.damage.iter().map(offset).collect();
        assert_eq!(offsets, [12]);
    }

    /// One copy ends early but is undamaged; the other has more edits, and damage. If the former were
    /// used, edits that other files rely on would be lost.
    #[test]
    fn a_whole_copy_that_is_older_than_a_damaged_one_is_not_believed() {
        let (older, mut damaged) = (manifest(&["a"]), manifest(&["a", "b", "c"]));
        damaged[older.len() + 10] ^= 1;
        for copies in [[&older, &damaged], [&damaged, &older]] {
            let error = keyspaces(&copies.map(|copy| &copy[..])).unwrap_err();
            assert!(
                error.to_string().contains("a good record follows"),
                "{error}"
            );
        }
    }

    #[test]
    fn copies_that_contradict_each_other_are_damage() {
        let one = manifest(&["a", "b"]);
        for other in [manifest(&["a", "c"]), manifest(&["a", "cc", "d"])] {
            let error = keyspaces(&[&one, &other]).unwrap_err().to_string();
            assert!(
                error.contains("copy 1") && error.contains("copy 0 has another record"),
                "{error}"
            );
        }
        let mut foreign = header(DatabaseId([8; 16]));
        foreign.extend_from_slice(&one[HEADER_BYTES..]);
        let error = keyspaces(&[&one, &foreign]).unwrap_err().to_string();
        assert!(error.contains("different databases"), "{error}");
    }
}
