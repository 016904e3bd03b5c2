//! The bytes of one simulated file, and which of them outlive the power.
//!
//! Files only grow, so one buffer serves as both page cache and platter:
//!
//! ```text
//!  0            durable_len      dirty_from        bytes.len()
//!  |--- synced ---|--- sync failed ---|--- unsynced ---|
//! ```
//!
//! Always `durable_len <= dirty_from <= bytes.len()`.

use std::io;
use std::ops::Range;

use super::rng::SplitMix64;

/// The unit in which unsynced bytes survive a power loss or do not.
const SECTOR_BYTES: usize = 512;

#[derive(Clone, Default)]
pub(super) struct MemFile {
    /// The content that readers see.
    bytes: Vec<u8>,
    /// The length below which a crash cannot cut the file.
    durable_len: usize,
    /// The start of the bytes that the next sync will write.
    dirty_from: usize,
    /// Bytes whose sync failed. The kernel takes them for clean after that: a
    /// later sync succeeds and does not write them.
    dropped: Vec<Range<usize>>,
    /// The file as it was before it was truncated, until the truncation is synced: a crash may
    /// bring it back. `None` if no truncation awaits a sync.
    before_cut: Option<Box<MemFile>>,
}

impl MemFile {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let wanted = usize::try_from(offset)
            .ok()
            .and_then(|start| self.bytes.get(start..start.checked_add(buf.len())?))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(wanted);
        Ok(())
    }

    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn sync(&mut self) {
        self.durable_len = self.bytes.len();
        self.dirty_from = self.bytes.len();
        self.before_cut = None;
    }

    pub(super) fn fail_sync(&mut self) {
        self.dropped.push(self.dirty_from..self.bytes.len());
        self.dirty_from = self.bytes.len();
    }

    /// Cuts (or fills with zeros) to `len`, durably.
    pub(super) fn cut(&mut self, len: usize) {
        self.set_len(len);
        self.sync();
    }

    /// Cuts (or fills with zeros) to `len`; until the next sync a crash may
    /// undo it.
    pub(super) fn cut_unsynced(&mut self, len: usize) {
        let before = self.clone();
        self.set_len(len);
        self.before_cut = Some(Box::new(before));
    }

    fn set_len(&mut self, len: usize) {
        self.bytes.resize(len, 0);
        self.durable_len = self.durable_len.min(len);
        self.dirty_from = self.dirty_from.min(len);
        for range in &mut self.dropped {
            range.end = range.end.min(len);
        }
        self.dropped.retain(|range| !range.is_empty());
    }

    /// Flips one bit, in the page cache and on the platter.
    pub(super) fn flip_bit(&mut self, offset: u64, bit: u8) -> io::Result<()> {
        let byte = usize::try_from(offset)
            .ok()
            .and_then(|offset| self.bytes.get_mut(offset))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        *byte ^= 1 << bit;
        Ok(())
    }

    /// Returns a copy with the content that readers see, all of it durable.
    pub(super) fn settled(&self) -> Self {
        Self {
            bytes: self.bytes.clone(),
            durable_len: self.bytes.len(),
            dirty_from: self.bytes.len(),
            ..Self::default()
        }
    }

    /// Returns the file after a power loss, with all that is left of it durable.
    ///
    /// One file in four loses all its unsynced bytes and one in four none: drawing only sector by
    /// sector would never show a reader a long unacknowledged write that survived.
    pub(super) fn after_power_loss(mut self, rng: &mut SplitMix64) -> Self {
        if let Some(before) = self.before_cut.take()
            && rng.coin()
        {
            return before.after_power_loss(rng);
        }
        let fate = match rng.between(0, 3) {
            0 => Fate::AllLost,
            1 => Fate::AllKept,
            _ => Fate::SectorBySector,
        };
        let unsynced_from = self.dirty_from;
        self.dropped.push(unsynced_from..self.bytes.len());
        let len = match fate {
            Fate::AllLost => self.durable_len,
            Fate::AllKept => self.bytes.len(),
            Fate::SectorBySector => rng.between(self.durable_len, self.bytes.len()),
        };
        self.set_len(len);
        for mut range in std::mem::take(&mut self.dropped) {
            while !range.is_empty() {
                let sector_end = (range.start / SECTOR_BYTES + 1) * SECTOR_BYTES;
                let end = sector_end.min(range.end);
                let lost = match fate {
                    Fate::AllLost => true,
                    Fate::AllKept => false,
                    Fate::SectorBySector => rng.coin(),
                };
                if lost {
                    self.bytes[range.start..end].fill(0);
                }
                range.start = end;
            }
        }
        self.sync();
        self
    }
}

/// The outcome of a power loss for the unsynced bytes of one file.
enum Fate {
    AllLost,
    AllKept,
    SectorBySector,
}
