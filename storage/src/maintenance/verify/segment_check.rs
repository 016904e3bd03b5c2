//! The check of a segment of the log while its bytes are read.
//!
//! A verification reads them for the check, and a backup for its copy of the segment: each record is
//! checked in the buffer that is written to the copy.

use super::log_check::LogCheck;
use crate::error::{Error, Result};
use crate::wal::{Segment, SegmentReplay};

/// The check of a segment whose bytes come in pieces, in their order.
#[derive(Debug)]
pub(crate) struct SegmentCheck<'a> {
    log: &'a mut LogCheck,
    segment: &'a Segment,
    replay: SegmentReplay<'a>,
    /// The bytes that are not checked yet: the beginning of a record, or, after damage, the bytes
    /// from some point before it to the end of the piece with the damage.
    pending: Vec<u8>,
    /// The number of records that were checked.
    pub(super) records: u64,
    /// The damage that ended the check.
    damage: Option<Error>,
}

impl<'a> SegmentCheck<'a> {
    /// Begins the check of the next segment of `log`. A torn tail is damage, unless `may_be_torn`
    /// is true: for the last segment of a log that no process has open.
    pub(crate) fn new(log: &'a mut LogCheck, segment: &'a Segment, may_be_torn: bool) -> Self {
        // If this segment cannot be read to its end, the next one is not compared with it.
        let base = log.end.take();
        Self {
            log,
            segment,
            replay: SegmentReplay::new(segment, may_be_torn, base),
            pending: Vec::new(),
            records: 0,
            damage: None,
        }
    }

    /// Checks the next bytes. Does nothing after damage.
    pub(crate) fn add(&mut self, piece: &[u8]) {
        if self.damage.is_some() {
            return;
        }
        self.pending.extend_from_slice(piece);
        let pending = &self.pending;
        let checked = self.replay.records(pending, |first, count, payload, at| {
            self.records += 1;
            let checked = self.log.commit(first, count, &pending[payload]);
            checked.map_err(|detail| Error::corruption(&self.segment.path, at, detail))
        });
        match checked {
            Ok(bytes) => drop(self.pending.drain(..bytes)),
            Err(damage) => self.damage = Some(damage),
        }
    }

    /// Ends the check after the last byte. Returns the length of the segment up to the end of its
    /// last good record; what follows is a torn tail.
    ///
    /// # Errors
    /// [`Error::Corruption`] or [`Error::UnsupportedFormat`] for everything but a torn tail of a
    /// segment that may be torn.
    pub(crate) fn end(self) -> Result<u64> {
        if let Some(damage) = self.damage {
            return Err(damage);
        }
        let replayed = self.replay.end(&self.pending)?;
        self.log.end = Some(replayed.end);
        Ok(replayed.good_bytes)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::commit::encode_snapshot;
    use crate::file_system::FileSystem;
    use crate::key::{FileNumber, NUMBER_MAX, SeqNo};
    use crate::simulation::MemDisk;
    use crate::snapshots::SnapshotOp;
    use crate::wal::{self, Lsn, Wal};

    /// Returns the segments of a log with twelve commits, and their bytes.
    fn segments() -> Vec<(Segment, Vec<u8>)> {
        let (disk, dir) = (MemDisk::new(), Path::new("/db"));
        disk.create_dir_all(dir).unwrap();
        let log_store = Arc::new(disk.clone());
        let wal = Wal::new(log_store, dir, 100, Vec::new(), FileNumber(1), Lsn(0));
        for seq in 1..=12 {
            let end = wal.push(SeqNo(seq), 1, &encode_snapshot(&SnapshotOp::Delete(seq)));
            wal.sync_to(end).unwrap();
        }
        let all = FileNumber(1)..FileNumber(NUMBER_MAX);
        let found = wal::segments(&disk, dir, all).unwrap().into_iter();
        let with_bytes = |segment: Segment| {
            let bytes = disk.read_all(&segment.path).unwrap();
            (segment, bytes)
        };
        found.map(with_bytes).collect()
    }

    /// Checks a segment that has `bytes`, in pieces of `piece_bytes` bytes.
    fn check(
        log: &mut LogCheck,
        segment: &Segment,
        is_last: bool,
        bytes: &[u8],
        piece_bytes: usize,
    ) -> Result<u64, String> {
        let mut check = SegmentCheck::new(log, segment, is_last);
        bytes.chunks(piece_bytes).for_each(|piece| check.add(piece));
        check.end().map_err(|error| error.to_string())
    }

    #[test]
    fn damage_is_found_in_pieces_of_any_length() {
        let (segment, whole) = segments().swap_remove(0);
        let found = |is_last, bytes: &[u8], piece_bytes| {
            let mut log = LogCheck::new(None);
            let found = check(&mut log, &segment, is_last, bytes, piece_bytes);
            (found, format!("{log:?}"))
        };
        for is_last in [false, true] {
            let bytes = whole.len() as u64;
            assert_eq!(found(is_last, &whole, 10).0, Ok(bytes));
            for at in 0..whole.len() {
                let mut flipped = whole.clone();
                flipped[at] ^= 1 << (at % 8);
                assert!(is_last || found(false, &flipped, 10).0.is_err(), "{at}");
                for bytes in [&flipped[..], &whole[..at]] {
                    let at_once = found(is_last, bytes, whole.len());
                    for piece_bytes in [1, 7, 40] {
                        let in_pieces = found(is_last, bytes, piece_bytes);
                        assert_eq!(in_pieces, at_once, "{is_last} {at} {piece_bytes}");
                    }
                }
            }
        }
    }

    #[test]
    fn each_segment_is_compared_with_those_before_it() {
        let segments = segments();
        let mut log = LogCheck::new(None);
        let mut check = |at: usize| {
            let (segment, bytes) = &segments[at];
            check(&mut log, segment, false, bytes, 50)
        };
        check(0).unwrap();
        let gap = check(2).unwrap_err();
        assert!(gap.contains("the log before it ends at"), "{gap}");
        // After damage, the position of the next segment is not compared.
        let old = check(0).unwrap_err();
        assert!(old.contains("sequence number 1 after"), "{old}");
        check(1).unwrap();
        check(2).unwrap();
    }
}
