//! The reading side: decodes segments into commits, and distinguishes a torn tail from damage.

use std::ops::Range;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::log::Lsn;
use super::record::{self, RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES};
use crate::error::{Error, Result};
use crate::file_system::copy;
use crate::files::{self, FileKind};
use crate::formats::WAL;
use crate::key::{FileNumber, NUMBER_MAX, SeqNo};
use crate::log_store::{LogStore, read_all};
use crate::mutation::{self, Mutation};

/// A segment found in the directory.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub(crate) number: FileNumber,
    pub(crate) path: PathBuf,
}

/// The result of the replay of one segment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Replayed {
    /// Bytes of the segment up to the end of its last good record; 0 when not
    /// even its header was finished.
    pub(crate) good_bytes: u64,
    /// The position after the segment's last record.
    pub(crate) end: Lsn,
}

/// Returns the segments of a directory whose numbers are in `numbers`, ascending. None may be
/// missing from the start of `numbers` to the last one that exists. Segments below `numbers` are
/// not needed; a crash while they were removed may have left any of them.
///
/// # Errors
/// [`Error::Corruption`] when a segment is missing; also when there is none at all, unless
/// `numbers` begins at 1, the first number that a segment gets: a removal of old segments always
/// leaves one. [`Error::Io`].
pub(crate) fn segments(
    log_store: &dyn LogStore,
    dir: &Path,
    numbers: Range<FileNumber>,
) -> Result<Vec<Segment>> {
    let floor = numbers.start;
    let mut found: Vec<Segment> = log_store
        .list(dir)
        .map_err(Error::io("list", dir))?
        .into_iter()
        .filter_map(|path| match FileKind::of(&path) {
            Some(FileKind::Wal(number)) if numbers.contains(&number) => {
                Some(Segment { number, path })
            }
            _ => None,
        })
        .collect();
    found.sort_by_key(|segment| segment.number);
    let mut expected = floor;
    for segment in &found {
        if segment.number != expected {
            let detail = format!("WAL segment {} before it is missing", expected.0);
            return Err(Error::corruption(&segment.path, 0, detail));
        }
        expected = expected.next();
    }
    if found.is_empty() && floor > FileNumber::default() {
        let detail = "the manifest needs this WAL segment, and it is missing";
        return Err(Error::corruption(&files::wal(dir, floor), 0, detail));
    }
    Ok(found)
}

/// Removes the segments of a directory from this number on, durably.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn remove_segments(
    log_store: &dyn LogStore,
    dir: &Path,
    from: FileNumber,
) -> Result<()> {
    for path in log_store.list(dir).map_err(Error::io("list", dir))? {
        if matches!(FileKind::of(&path), Some(FileKind::Wal(number)) if number >= from) {
            let removed = log_store.remove(&path);
            removed.map_err(Error::io("remove", &path))?;
        }
    }
    log_store.sync_dir(dir).map_err(Error::io("sync", dir))
}

/// Calls `commit(first, operations, payload, offset)` for each record of a segment, in order: the
/// number of its first operation, the number of operations, the payload, and the record's offset in
/// the segment. If `last_segment` is true, a torn tail is no error. `base` is the position in the
/// log at which the segment before ended, if there was one: this segment must begin there.
///
/// # Errors
/// [`Error::Corruption`] for any damage, except for a torn tail of the last segment;
/// [`Error::UnsupportedFormat`], [`Error::Io`], and the errors of `commit`.
pub(crate) fn replay_segment(
    log_store: &dyn LogStore,
    segment: &Segment,
    last_segment: bool,
    base: Option<Lsn>,
    mut commit: impl FnMut(SeqNo, u32, Bytes, u64) -> Result<()>,
) -> Result<Replayed> {
    let bytes = Bytes::from(read_all(log_store, &segment.path)?);
    let mut replay = SegmentReplay::new(segment, last_segment, base);
    let replayed = replay.records(&bytes, |first, count, payload, at| {
        commit(first, count, bytes.slice(payload), at)
    })?;
    replay.end(&bytes[replayed..])
}

/// The replay of a segment whose bytes may come in pieces. After an error it must be dropped.
#[derive(Debug)]
pub(crate) struct SegmentReplay<'a> {
    segment: &'a Segment,
    is_last: bool,
    base: Option<Lsn>,
    /// The position in the log at which the segment begins; `None` until its header is complete.
    start: Option<Lsn>,
    /// The number of bytes of the segment that were replayed.
    at: usize,
    /// The number of the last operation in the replayed bytes; 0 before the first record.
    last: SeqNo,
    /// Whether the record behind the replayed bytes is damaged: further bytes cannot make it good.
    is_damaged: bool,
}

impl<'a> SegmentReplay<'a> {
    /// Begins the replay of a segment. If `is_last` is true, a torn tail is no error. `base` is the
    /// position in the log at which the segment before ended, if there was one: this segment must
    /// begin there.
    pub(crate) fn new(segment: &'a Segment, is_last: bool, base: Option<Lsn>) -> Self {
        Self {
            segment,
            is_last,
            base,
            start: None,
            at: 0,
            last: SeqNo::ZERO,
            is_damaged: false,
        }
    }

    /// Replays `bytes`, which follow those that were replayed before, and need not reach to the end
    /// of the segment. Calls `commit(first, operations, payload, offset)` for each good record;
    /// `payload` is a range of `bytes`. Stops at an incomplete record. A damaged record ends the
    /// replay: further calls do nothing. Returns the number of bytes of `bytes` that were replayed;
    /// the next call must pass the others again, with those that follow them.
    ///
    /// # Errors
    /// [`Error::Corruption`] for a damaged segment header, [`Error::UnsupportedFormat`] for one of
    /// another version, and the errors of `commit`.
    pub(crate) fn records(
        &mut self,
        bytes: &[u8],
        mut commit: impl FnMut(SeqNo, u32, Range<usize>, u64) -> Result<()>,
    ) -> Result<usize> {
        if self.is_damaged {
            // Its checksum would be calculated again with every piece that follows.
            return Ok(0);
        }
        let before = self.at;
        if self.start.is_none() {
            self.start = check_header(bytes, self.segment, self.base)?;
            if self.start.is_none() {
                return Ok(0);
            }
            self.at = SEGMENT_HEADER_BYTES;
        }
        while let Ok(header) = record_at(bytes, self.at - before) {
            let from = self.at - before;
            let payload = from + RECORD_HEADER_BYTES..from + header.record_bytes();
            commit(header.first, header.count, payload, self.at as u64)?;
            self.last = header.last();
            self.at += header.record_bytes();
        }
        let rest = &bytes[self.at - before..];
        let header = RecordHeader::decode(rest);
        self.is_damaged = header.is_some_and(|header| header.record_bytes() <= rest.len());
        Ok(self.at - before)
    }

    /// Ends the replay. `rest` are the bytes that were not replayed: they begin with the first
    /// record that is incomplete or damaged.
    ///
    /// # Errors
    /// [`Error::Corruption`] if `rest` is not empty and not the torn tail of the last segment, or
    /// if an earlier segment lacks a part of its header.
    pub(crate) fn end(self, rest: &[u8]) -> Result<Replayed> {
        let path = &self.segment.path;
        let Some(start) = self.start else {
            if self.is_last {
                // A crash cut it off while it was begun. The log ends with the segment before.
                return Ok(Replayed {
                    good_bytes: 0,
                    end: self.base.unwrap_or_default(),
                });
            }
            return Err(Error::corruption(
                path,
                0,
                "it has no whole header, and no crash leaves it like this",
            ));
        };
        let end = Lsn(start.0 + (self.at - SEGMENT_HEADER_BYTES) as u64);
        if !rest.is_empty()
            && let Err(detail) = record_at(rest, 0)
        {
            // The log syncs a segment before it begins the next one.
            if !self.is_last && !mutation::is(Mutation::HoleInTheWal) {
                return Err(Error::corruption(path, self.at as u64, detail));
            }
            // A crash leaves only bytes behind that were not synced. Each record contains how far
            // the log was durable before it: if a later one counts these bytes in, they are damaged.
            if let Some(later) = later_record_that_counts_on(rest, end, self.last)
                && !mutation::is(Mutation::DamagedWalIsTorn)
            {
                let later = self.at + later;
                return Err(Error::corruption(
                    path,
                    self.at as u64,
                    format!(
                        "{detail}; the record at offset {later} says that these bytes were durable"
                    ),
                ));
            }
        }
        Ok(Replayed {
            good_bytes: self.at as u64,
            end,
        })
    }
}

/// Returns the `header` of a segment with the number `to` instead of its own; `None` if the header
/// is damaged.
pub(crate) fn renumbered_header(
    header: &[u8; SEGMENT_HEADER_BYTES],
    segment: &Segment,
    to: FileNumber,
) -> Option<[u8; SEGMENT_HEADER_BYTES]> {
    let start = check_header(header, segment, None).ok()??;
    Some(record::encode_segment_header(to, start.0))
}

/// Makes the first `good_bytes` of the last segment durable, and cuts off the rest. This must be
/// done before the log gets its next segment, because a torn tail is damage in any segment but the
/// last.
///
/// The segment is replaced by a copy, because the bytes that were read may never reach the
/// disk from where they are: after a failed fsync the system takes the pages for clean, and a
/// later fsync of the same file leaves them out. Only if there is no space for the copy or
/// its name is the segment synced as it is; a full disk must not keep a database from being
/// read.
///
/// # Errors
/// [`Error::DiskFull`], [`Error::Io`]; the segment then is as before the call, or as after one that
/// succeeds.
pub(crate) fn settle(
    log_store: &dyn LogStore,
    dir: &Path,
    segment: &Path,
    good_bytes: u64,
) -> Result<()> {
    let tmp = files::wal_tmp(dir);
    let copied = copy(log_store, segment, &tmp, good_bytes);
    let copied = copied.map_err(Error::no_space_or_io("copy", segment));
    let replaced = copied.and_then(|()| {
        let renamed = log_store.rename(&tmp, segment);
        renamed.map_err(Error::no_space_or_io("rename", &tmp))
    });
    match replaced {
        Ok(()) => log_store
            .sync_dir(dir)
            .map_err(Error::no_space_or_io("sync", dir)),
        Err(Error::DiskFull { .. }) => log_store
            .truncate(segment, good_bytes)
            .map_err(Error::no_space_or_io("truncate", segment)),
        Err(e) => Err(e),
    }
}

/// Returns the LSN at which the segment begins, from its header; `None` if the header is incomplete
/// or all zeros, as a crash may leave it. `base` is the end of the log before the segment, if it is
/// known: the segment must begin there.
///
/// # Errors
/// [`Error::Corruption`] if the header is damaged or of another segment;
/// [`Error::UnsupportedFormat`].
fn check_header(bytes: &[u8], segment: &Segment, base: Option<Lsn>) -> Result<Option<Lsn>> {
    let path = &segment.path;
    let Some(header) = bytes.get(..SEGMENT_HEADER_BYTES) else {
        return Ok(None);
    };
    let whole = crc32fast::hash(&header[16..]) == record::u32_at(header, 12);
    if &header[..8] != record::MAGIC || !whole {
        // A lost first sector reads as zeros; then nothing of the segment was
        // ever durable. Anything else in its place is damage.
        if header.iter().all(|&b| b == 0) {
            return Ok(None);
        }
        return Err(Error::corruption(
            path,
            0,
            "this is not the header of a WAL segment",
        ));
    }
    WAL.check(path, record::u32_at(header, 8))?;
    let number = record::u64_at(header, 16);
    if number != segment.number.0 {
        return Err(Error::corruption(
            path,
            16,
            format!("the header says segment {number}"),
        ));
    }
    let start = Lsn(record::u64_at(header, 24));
    if start.0 >= NUMBER_MAX {
        let detail = format!("starts at LSN {}, which is out of all bounds", start.0);
        return Err(Error::corruption(path, 24, detail));
    }
    if base.is_some_and(|base| base != start) && !mutation::is(Mutation::HoleInTheWal) {
        let expected = base.unwrap_or_default().0;
        return Err(Error::corruption(
            path,
            24,
            format!(
                "starts at LSN {}, the log before it ends at {expected}",
                start.0
            ),
        ));
    }
    Ok(Some(start))
}

/// Returns the header of the record at the offset `at`, after a check of the record's checksum; the
/// error describes the damage.
pub(super) fn record_at(bytes: &[u8], at: usize) -> Result<RecordHeader, String> {
    let left = bytes.len() - at;
    let header = RecordHeader::decode(&bytes[at..]).ok_or_else(|| {
        format!("{left} bytes left where a record header takes {RECORD_HEADER_BYTES}")
    })?;
    if header.record_bytes() > left || header.payload_bytes as usize > record::MAX_RECORD_BYTES {
        return Err(format!(
            "record of {} bytes where {left} are left",
            header.record_bytes()
        ));
    }
    let found = crc32fast::hash(&bytes[at + 4..at + header.record_bytes()]);
    if found != header.crc && !mutation::is(Mutation::TrustWal) {
        return Err(format!(
            "record checksum {found:#010x}, expected {:#010x}",
            header.crc
        ));
    }
    Ok(header)
}

/// Looks for proof that the bad record at the start of `bytes` is damaged, and was not torn by a
/// crash: a good record behind it whose durable LSN is above `bad_lsn`. Returns the offset of that
/// record; `None` if there is none. `bad_lsn` is the position of the bad record in the log, and
/// `last` the last sequence number before it.
fn later_record_that_counts_on(bytes: &[u8], bad_lsn: Lsn, last: SeqNo) -> Option<usize> {
    (1..bytes.len().saturating_sub(RECORD_HEADER_BYTES)).find(|&at| {
        // The cheap tests come first: a checksum over the rest of the segment
        // at every offset would take quadratic time.
        let header = RecordHeader::decode(&bytes[at..]).expect("a header fits");
        header.durable_lsn > bad_lsn.0
            && header.durable_lsn <= bad_lsn.0 + at as u64
            && header.first > last
            && header.count >= 1
            && record_at(bytes, at).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::log::Wal;
    use super::*;
    use crate::file_system::FileSystem;
    use crate::simulation::MemDisk;
    use crate::snapshots::SnapshotOp;

    fn log_of(records: u64, sync_each: bool) -> (MemDisk, Segment) {
        let disk = MemDisk::default();
        let dir = Path::new("/db");
        disk.create_dir_all(dir).unwrap();
        let wal = Wal::new(
            Arc::new(disk.clone()),
            dir,
            1 << 20,
            Vec::new(),
            FileNumber(1),
            Lsn(0),
        );
        for i in 1..=records {
            let lsn = wal.push(SeqNo(i), 1, format!("payload {i}").as_bytes());
            if sync_each {
                wal.sync_to(lsn).unwrap()
            } else {
                wal.write_to(lsn).unwrap()
            }
        }
        let all = FileNumber(1)..FileNumber(NUMBER_MAX);
        let segment = segments(&disk, dir, all).unwrap().remove(0);
        (disk, segment)
    }

    fn replay(disk: &MemDisk, segment: &Segment, last: bool) -> Result<Vec<u64>> {
        let mut seqs = Vec::new();
        replay_segment(disk, segment, last, None, |first, _, _, _| {
            seqs.push(first.0);
            Ok(())
        })?;
        Ok(seqs)
    }

    #[test]
    fn a_log_cut_anywhere_replays_a_prefix_when_it_is_the_last_segment() {
        let (disk, segment) = log_of(5, false);
        let len = disk.file_len(&segment.path).unwrap();
        for cut in (0..len).rev() {
            disk.cut(&segment.path, cut).unwrap();
            let seqs = replay(&disk, &segment, true).unwrap();
            assert_eq!(
                seqs,
                (1..=seqs.len() as u64).collect::<Vec<_>>(),
                "cut at {cut}"
            );
            assert!(seqs.len() < 5);
        }
    }

    #[test]
    fn a_flipped_bit_below_what_a_later_record_knows_durable_is_damage() {
        let (disk, segment) = log_of(5, true);
        let len = disk.file_len(&segment.path).unwrap();
        let (mut refused, mut tail) = (0, 0);
        for byte in 0..len {
            disk.flip_bit(&segment.path, byte, (byte % 8) as u8)
                .unwrap();
            match replay(&disk, &segment, true) {
                Err(Error::Corruption { .. } | Error::UnsupportedFormat { .. }) => refused += 1,
                // Only the last record, on whose durability nothing follows.
                Ok(seqs) => {
                    assert_eq!(seqs, [1, 2, 3, 4], "byte {byte}");
                    tail += 1;
                }
                Err(e) => panic!("byte {byte}: {e}"),
            }
            disk.flip_bit(&segment.path, byte, (byte % 8) as u8)
                .unwrap();
            assert!(matches!(replay(&disk, &segment, false), Ok(seqs) if seqs.len() == 5));
        }
        assert_eq!(tail, RECORD_HEADER_BYTES as u64 + 9);
        assert_eq!(refused + tail, len);
    }

    /// Regression: the checksum of a damaged record was calculated once more with each piece.
    #[test]
    fn a_damaged_record_is_checked_once_while_pieces_follow() {
        let (disk, segment) = log_of(2, true);
        let whole = disk.read_all(&segment.path).unwrap();
        let mut damaged = whole.clone();
        damaged[SEGMENT_HEADER_BYTES + RECORD_HEADER_BYTES] ^= 1;
        let mut replay = SegmentReplay::new(&segment, true, None);
        let mut replayed = |bytes: &[u8]| replay.records(bytes, |_, _, _, _| Ok(())).unwrap();
        assert_eq!(replayed(&damaged), SEGMENT_HEADER_BYTES);
        // A second look would find the record whole.
        assert_eq!(replayed(&whole[SEGMENT_HEADER_BYTES..]), 0);
    }

    #[test]
    fn a_torn_record_before_the_last_segment_is_damage() {
        let (disk, segment) = log_of(5, false);
        disk.cut(&segment.path, disk.file_len(&segment.path).unwrap() - 1)
            .unwrap();
        assert!(matches!(
            replay(&disk, &segment, false),
            Err(Error::Corruption { .. })
        ));
    }

    /// Regression: a segment header with an LSN near the largest number, or a commit with such a
    /// sequence number, each under a correct checksum, made sums overflow.
    #[test]
    fn numbers_out_of_all_bounds_are_damage() {
        let (path, dir) = (
            files::wal(Path::new("/db"), FileNumber(1)),
            Path::new("/db"),
        );
        let replayed = |base: u64, first: u64| {
            let disk = MemDisk::default();
            disk.create_dir_all(dir).unwrap();
            let mut bytes = record::encode_segment_header(FileNumber(1), base).to_vec();
            let payload = crate::commit::encode_snapshot(&SnapshotOp::Delete(1));
            RecordHeader::encode(&mut bytes, 0, SeqNo(first), 2, &payload);
            disk.create(&path).unwrap().append(&bytes).unwrap();
            let (number, path) = (FileNumber(1), path.clone());
            let segment = Segment { number, path };
            replay_segment(&disk, &segment, false, None, |first, _, payload, at| {
                let ops = crate::commit::OpReader::new(&payload, first);
                let read: Result<Vec<_>, _> = ops.collect();
                read.map(drop)
                    .map_err(|e| Error::corruption(&segment.path, at, e))
            })
        };
        assert!(replayed(7, 7).is_ok());
        for (base, first) in [(u64::MAX, 7), (7, u64::MAX), (7, u64::MAX - 1)] {
            let refused = replayed(base, first);
            assert!(
                matches!(refused, Err(Error::Corruption { .. })),
                "{base} {first}"
            );
        }
    }

    /// Regression: segments that the manifest no longer needed were removed in the order in which
    /// the directory listed them; a crash in between left a hole, and the database was refused as
    /// damaged.
    #[test]
    fn a_hole_among_segments_that_are_not_needed_is_no_damage() {
        let (disk, dir) = (MemDisk::default(), Path::new("/db"));
        disk.create_dir_all(dir).unwrap();
        for number in [1, 3, 4, 5] {
            disk.create(&files::wal(dir, FileNumber(number))).unwrap();
        }
        let found = |floor, end| {
            let found = segments(&disk, dir, FileNumber(floor)..FileNumber(end))?;
            Ok::<_, Error>(found.iter().map(|s| s.number.0).collect::<Vec<_>>())
        };
        assert_eq!(found(4, NUMBER_MAX).unwrap(), [4, 5]);
        assert_eq!(found(4, 5).unwrap(), [4]);
        for floor in [1, 2, 6] {
            assert!(
                matches!(found(floor, NUMBER_MAX), Err(Error::Corruption { .. })),
                "{floor}"
            );
        }
    }
}
