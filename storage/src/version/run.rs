//! A run: SSTables with disjoint key ranges that together are one sorted
//! sequence, one entry of the run list; and the range tombstones over them.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::files::FileNumber;
use crate::key::{Kind, NUMBER_MAX, SeqNo};
use crate::mutation::{self, Mutation};
use crate::read::cursor::Cursor;
use crate::retention::boundaries::Boundaries;
use crate::sstable::{KeySketch, Properties, ReadCounters, SsTable, SsTableCursor, Version};
use crate::sync::{AtomicBool, Ordering};
use crate::version::key_range::{KeyRange, is_before};
use crate::version::range_tombstones::RangeTombstones;
use crate::vfs::Vfs;

/// The id of a run; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct RunId(pub(crate) u64);

/// A run as it stands in the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunMeta {
    pub(crate) id: RunId,
    /// The smallest sequence number that it may hold, and the largest: the
    /// union of the spans of what it was made from, so never too narrow.
    pub(crate) smallest_seq: SeqNo,
    pub(crate) largest_seq: SeqNo,
    /// Ascending by key.
    pub(crate) files: Vec<FileNumber>,
    /// Bytes of the files.
    pub(crate) bytes: u64,
    /// Versions and range tombstones in the files.
    pub(crate) entries: u64,
    /// Of a run that was written elsewhere and ingested, the commit that did:
    /// all its versions have this number, whatever is in the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ingested_at: Option<SeqNo>,
    /// What of it is there for snapshots and views only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) kept_for: Vec<KeptFor>,
}

/// Versions of a run that nobody can see but readers at boundaries (snapshots and
/// views) numbered `from..=to`: a newer version of each is in the same run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptFor {
    pub(crate) from: SeqNo,
    pub(crate) to: SeqNo,
    /// About how many bytes of the files they take.
    pub(crate) bytes: u64,
}

impl RunMeta {
    /// Says what cannot be in a meta that the engine wrote.
    pub(crate) fn check(&self) -> Result<(), String> {
        let files = self.files.iter().map(|file| file.0);
        let mut numbers = files.chain([self.id.0, self.bytes, self.entries]);
        if self.files.is_empty() || numbers.any(|number| number >= NUMBER_MAX) {
            return Err("a run without files, or out of all bounds".to_string());
        }
        Ok(())
    }

    /// The meta of a run as the commit `seq` ingests it.
    pub(crate) fn ingested_by(mut self, seq: SeqNo) -> Self {
        self.smallest_seq = seq;
        self.largest_seq = seq;
        self.ingested_at = mutation::replace(Some(seq), Mutation::TrustIngestedNumbers, None);
        self
    }

    /// About how many bytes were kept for boundaries of which none is left.
    pub(crate) fn garbage_bytes(&self, boundaries: &Boundaries) -> u64 {
        let never = mutation::is(Mutation::OverlookGarbage);
        self.hidden_bytes(|kept| !boundaries.has_any(kept.from, kept.to) && !never)
    }

    /// About how many bytes only snapshots and views can see, of those asked for.
    pub(crate) fn hidden_bytes(&self, of: impl Fn(&KeptFor) -> bool) -> u64 {
        let kept = self.kept_for.iter().filter(|kept| of(kept));
        kept.fold(0, |sum, kept| sum.saturating_add(kept.bytes))
    }
}

/// A run with its files open.
#[derive(Debug)]
pub(crate) struct Run {
    meta: RunMeta,
    files: Vec<Arc<RunFile>>,
    /// Those of the files that hold versions.
    sorted: Vec<Arc<RunFile>>,
    range_tombstones: Option<Arc<RangeTombstones>>,
    overwrites: Option<Arc<KeySketch>>,
}

/// An open SSTable whose file goes when it is obsolete and nobody holds it.
#[derive(Debug)]
pub(crate) struct RunFile {
    table: Arc<SsTable>,
    path: PathBuf,
    vfs: Arc<dyn Vfs>,
    obsolete: AtomicBool,
}

impl RunFile {
    pub(crate) fn new(table: Arc<SsTable>, path: PathBuf, vfs: Arc<dyn Vfs>) -> Arc<Self> {
        Arc::new(Self {
            table,
            path,
            vfs,
            obsolete: AtomicBool::new(false),
        })
    }

    pub(crate) fn table(&self) -> &Arc<SsTable> {
        &self.table
    }

    fn smallest_key(&self) -> &[u8] {
        &self.table.properties().smallest_key
    }

    fn largest_key(&self) -> &[u8] {
        &self.table.properties().largest_key
    }
}

impl Drop for RunFile {
    fn drop(&mut self) {
        if self.obsolete.load(Ordering::Relaxed) {
            // A file that cannot be removed now is an orphan, which the next
            // opening removes.
            let _ = self.vfs.remove(&self.path);
        }
    }
}

impl Run {
    /// A run of these files, ascending by key, at least one.
    pub(crate) fn new(meta: RunMeta, files: Vec<Arc<RunFile>>) -> Arc<Self> {
        debug_assert_eq!(meta.files.len(), files.len());
        let holds_versions = |file: &&Arc<RunFile>| file.table.properties().entries > 0;
        let sorted = files.iter().filter(holds_versions).cloned().collect();
        // They belong to the run as a whole: one of its files has them all.
        let mut tombstones = files.iter().filter_map(|f| f.table.range_tombstones());
        Arc::new(Self {
            range_tombstones: tombstones.next().cloned(),
            overwrites: overwrites(&files).map(Arc::new),
            meta,
            files,
            sorted,
        })
    }

    pub(crate) fn id(&self) -> RunId {
        self.meta.id
    }

    pub(crate) fn meta(&self) -> &RunMeta {
        &self.meta
    }

    pub(crate) fn files(&self) -> &[Arc<RunFile>] {
        &self.files
    }

    /// The sequence numbers that it stands for: its span, and what flushes and
    /// merges left out at the ends of it.
    pub(crate) fn origin_span(&self) -> (SeqNo, SeqNo) {
        let span = (self.meta.smallest_seq, self.meta.largest_seq);
        let origins = self.files.iter().filter_map(|file| {
            let origin = file.table.properties().origin.as_ref()?;
            Some((origin.smallest_seq, origin.largest_seq))
        });
        origins.fold(span, |a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Whether a reader at `seq` can see anything in it.
    pub(crate) fn is_seen_at(&self, seq: SeqNo) -> bool {
        let blind = mutation::is(Mutation::SkipRunAtItsFirstNumber);
        self.meta.smallest_seq < seq || self.meta.smallest_seq == seq && !blind
    }

    /// Lets the files go once the last reader is done; the manifest no longer
    /// names them.
    pub(crate) fn retire(&self) {
        for file in &self.files {
            let obsolete = mutation::replace(true, Mutation::KeepObsoleteFiles, false);
            file.obsolete.store(obsolete, Ordering::Relaxed);
            if mutation::is(Mutation::RemoveFilesInUse)
                || mutation::is(Mutation::RemoveInputsBeforeEdit)
            {
                let _ = file.vfs.remove(&file.path);
            }
        }
    }

    /// The newest version of `key` numbered `<= seq`.
    pub(crate) fn get(
        &self,
        key: &[u8],
        hash: u64,
        seq: SeqNo,
        reads: &mut ReadCounters,
    ) -> Result<Option<Version>> {
        let ingested_at = self.meta.ingested_at;
        if ingested_at.is_some_and(|at| at > seq) {
            return Ok(None);
        }
        // A key's versions may go on in the next file, so a miss goes on too.
        for file in &self.sorted[self.first_file_reaching(key)..] {
            if file.smallest_key() > key {
                break;
            }
            if let Some(mut version) = file.table.get(key, hash, seq, reads)? {
                version.seq = ingested_at.unwrap_or(version.seq);
                return Ok(Some(version));
            }
        }
        Ok(None)
    }

    /// The keys whose older versions it hides; `None` when there may be more that
    /// it hides, or its own versions go by themselves: range tombstones, values
    /// that expire.
    pub(crate) fn overwrites(&self) -> Option<&Arc<KeySketch>> {
        self.overwrites.as_ref()
    }

    /// Number of different user keys in it, as far as its files say.
    pub(crate) fn keys(&self) -> u64 {
        self.sum(|properties| properties.keys)
    }

    /// Number of versions in it that are tombstones.
    pub(crate) fn tombstones(&self) -> u64 {
        self.sum(|properties| properties.tombstones)
    }

    fn sum(&self, of: impl Fn(&Properties) -> u64) -> u64 {
        let each = self.files.iter().map(|file| of(file.table.properties()));
        each.fold(0, u64::saturating_add)
    }

    /// Its range tombstones, if it has any.
    pub(crate) fn range_tombstones(&self) -> Option<&Arc<RangeTombstones>> {
        self.range_tombstones.as_ref()
    }

    /// Whether it holds versions, not range tombstones only.
    pub(crate) fn holds_versions(&self) -> bool {
        !self.sorted.is_empty()
    }

    /// Whether a version of `key`, or a range tombstone over it, may be in it.
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        self.sorted
            .get(self.first_file_reaching(key))
            .is_some_and(|file| file.smallest_key() <= key)
            || self
                .range_tombstones
                .as_ref()
                .is_some_and(|tombstones| !tombstones.over(key).is_empty())
    }

    /// Whether a version or a range tombstone may be in it for a key of `range`.
    pub(crate) fn overlaps(&self, range: &KeyRange) -> bool {
        self.sorted
            .get(self.first_file_reaching(&range.start))
            .is_some_and(|file| is_before(file.smallest_key(), range.end.as_ref()))
            || self
                .range_tombstones
                .as_ref()
                .is_some_and(|tombstones| tombstones.overlaps(range))
    }

    /// The keys of its versions and range tombstones, from the first to the last.
    pub(crate) fn bounds(&self) -> KeyRange {
        let versions = self.sorted.first().zip(self.sorted.last());
        let versions = versions
            .map(|(first, last)| KeyRange::spanning(first.smallest_key(), last.largest_key()));
        let tombstones = self.range_tombstones.as_ref().and_then(|t| t.bounds());
        match (versions, tombstones) {
            (Some(a), Some(b)) => mutation::replace(a.hull(&b), Mutation::NarrowBounds, a),
            (a, b) => a.or(b).expect("a run holds something"),
        }
    }

    /// The first file that does not end before `key`.
    fn first_file_reaching(&self, key: &[u8]) -> usize {
        self.sorted.partition_point(|file| file.largest_key() < key)
    }

    pub(crate) fn cursor(self: &Arc<Self>, fill_cache: bool) -> RunCursor {
        RunCursor {
            run: self.clone(),
            fill_cache,
            at: 0,
            cursor: None,
        }
    }
}

/// A position in a run: the file, and the position in it.
#[derive(Debug)]
pub(crate) struct RunCursor {
    run: Arc<Run>,
    fill_cache: bool,
    at: usize,
    /// `None` when nowhere.
    cursor: Option<SsTableCursor>,
}

impl RunCursor {
    fn open(&mut self, at: usize) -> Option<&mut SsTableCursor> {
        match (self.run.sorted.get(at), &mut self.cursor) {
            (None, cursor) => *cursor = None,
            (Some(_), Some(_)) if self.at == at => {}
            (Some(file), Some(cursor)) => cursor.change_table(&file.table),
            (Some(file), empty) => *empty = Some(file.table.cursor(self.fill_cache)),
        }
        self.at = at;
        self.cursor.as_mut()
    }

    /// Moves on to the next files while the position is past the end of one.
    fn settle_forward(&mut self) -> Result<()> {
        while self.cursor.as_ref().is_some_and(|cursor| !cursor.valid()) {
            if let Some(cursor) = self.open(self.at + 1) {
                cursor.seek_to_first()?;
            }
        }
        Ok(())
    }

    fn settle_backward(&mut self) -> Result<()> {
        while self.cursor.as_ref().is_some_and(|cursor| !cursor.valid()) {
            match self.at.checked_sub(1) {
                Some(before) => self
                    .open(before)
                    .expect("a file before this one")
                    .seek_to_last()?,
                None => self.cursor = None,
            }
        }
        Ok(())
    }

    /// Whether the run was ingested by a commit after `seq`: then its version of
    /// a key comes before `(key, seq)`, though the number in the file is 0.
    fn is_newer_than(&self, seq: SeqNo) -> bool {
        self.run.meta.ingested_at.is_some_and(|at| at > seq)
    }

    fn here(&self) -> &SsTableCursor {
        self.cursor.as_ref().expect("the cursor is valid")
    }
}

impl Cursor for RunCursor {
    #[inline]
    fn valid(&self) -> bool {
        self.cursor.as_ref().is_some_and(Cursor::valid)
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        let at = self.run.first_file_reaching(key);
        if let Some(cursor) = self.open(at) {
            cursor.seek(key, seq)?;
        }
        self.settle_forward()?;
        if self.is_newer_than(seq) && self.valid() && self.key() == key {
            self.next()?;
        }
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        if self.run.meta.ingested_at.is_some() && seq < SeqNo::MAX {
            self.seek(key, SeqNo::MAX)?;
            if self.is_newer_than(seq) && self.valid() && self.key() == key {
                return Ok(());
            }
            return self.seek_before(key, SeqNo::MAX);
        }
        // The last file that begins at or before the key.
        let after = self
            .run
            .sorted
            .partition_point(|file| file.smallest_key() <= key);
        let Some(at) = after.checked_sub(1) else {
            self.cursor = None;
            return Ok(());
        };
        self.open(at)
            .expect("a file at the key")
            .seek_before(key, seq)?;
        self.settle_backward()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        if let Some(cursor) = self.open(0) {
            cursor.seek_to_first()?;
        }
        self.settle_forward()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        if let Some(last) = self.run.sorted.len().checked_sub(1)
            && let Some(cursor) = self.open(last)
        {
            cursor.seek_to_last()?;
        }
        self.settle_backward()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        let cursor = self.cursor.as_mut().expect("the cursor is valid");
        cursor.next()?;
        if cursor.valid() {
            return Ok(());
        }
        self.settle_forward()
    }

    fn prev(&mut self) -> Result<()> {
        self.cursor.as_mut().expect("the cursor is valid").prev()?;
        self.settle_backward()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.here().key()
    }

    #[inline]
    fn seq(&self) -> SeqNo {
        self.run.meta.ingested_at.unwrap_or(self.here().seq())
    }

    #[inline]
    fn kind(&self) -> Kind {
        self.here().kind()
    }

    #[inline]
    fn value(&self) -> Bytes {
        self.here().value()
    }
}
/// See [`Run::overwrites`].
fn overwrites(files: &[Arc<RunFile>]) -> Option<KeySketch> {
    let mut all = KeySketch::default();
    for file in files {
        let properties = file.table.properties();
        if properties.expiring > 0 || file.table.range_tombstones().is_some() {
            return None;
        }
        all.union(properties.key_sketch.as_ref()?);
    }
    Some(all)
}
