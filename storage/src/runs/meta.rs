//! The metadata of a run, in the manifest and in the WAL.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::FileMeta;
use crate::key::{
    Boundaries, FileNumber, KeyBounds, KeyRange, NUMBER_MAX, RunId, SeqNo, is_before,
};
use crate::mutation::{self, Mutation};

/// The manifest's record of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunMeta {
    pub(crate) id: RunId,
    /// A lower bound of the sequence numbers in the run; `largest_seq` is the upper bound. The two
    /// include the ranges of all memtables and runs that the run was made from.
    pub(crate) smallest_seq: SeqNo,
    pub(crate) largest_seq: SeqNo,
    /// The files of the run, ascending by key.
    pub(crate) files: Vec<FileMeta>,
    /// The key range of the run: keys in its files outside of the range are not part of the run.
    /// `None`: all keys are part of it. A merge in parts moves keys to its output range by range,
    /// so until it ends, its inputs begin where the output ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) keys: Option<KeyBounds>,
    /// The commit that ingested the run, if it was ingested (`Table::ingest`): to readers all its
    /// versions have this number, whatever numbers are in the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ingested_at: Option<SeqNo>,
    /// The bytes of versions that only snapshots and views (open readers) need: one entry for each
    /// range of the commits at which these read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) kept_for: Vec<KeptFor>,
}

/// Versions of a run that only readers at boundaries (snapshots and views) numbered `from..=to` can
/// see: a newer version or a range tombstone of the same run hides each of them from later readers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptFor {
    pub(crate) from: SeqNo,
    pub(crate) to: SeqNo,
    /// Approximate bytes, in files, of the versions that only readers at commits `from..=to` need.
    pub(crate) bytes: u64,
}

/// The most entries of [`RunMeta::kept_for`]. If there are more, neighbouring entries are joined,
/// so that the manifest stays small if a run was merged in many parts.
const KEPT_FOR_MAX: usize = 256;

impl RunMeta {
    /// Returns a record of a run of files that do not exist, for tests.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn example(id: u64, files: &[u64]) -> Self {
        Self {
            id: RunId(id),
            smallest_seq: SeqNo(1),
            largest_seq: SeqNo(2),
            files: files.iter().copied().map(FileMeta::of_nothing).collect(),
            keys: None,
            ingested_at: None,
            kept_for: Vec::new(),
        }
    }

    /// Checks that the engine may have written this metadata.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.files.iter().try_for_each(FileMeta::check)?;
        let mut numbers = [self.id.0, self.bytes(), self.entries()].into_iter();
        if self.files.is_empty() || numbers.any(|number| number >= NUMBER_MAX) {
            return Err("a run without files, or out of all bounds".to_string());
        }
        Ok(())
    }

    /// Returns whether a file of the run is in quarantine, which means that it is known to be
    /// damaged.
    pub(crate) fn is_quarantined(&self) -> bool {
        self.files.iter().any(|file| file.quarantine.is_some())
    }

    pub(crate) fn numbers(&self) -> impl Iterator<Item = FileNumber> {
        self.files.iter().map(|file| file.number)
    }

    /// Returns the bytes of the run's files, including those of keys outside of the run's key
    /// range.
    pub(crate) fn bytes(&self) -> u64 {
        self.sum(|file| file.bytes)
    }

    /// Returns the number of versions and range tombstones in the run's files, including those
    /// outside of the run's key range.
    pub(crate) fn entries(&self) -> u64 {
        self.sum(|file| file.entries)
    }

    fn sum(&self, of: impl Fn(&FileMeta) -> u64) -> u64 {
        let each = self.files.iter().map(of);
        each.fold(0, u64::saturating_add)
    }

    /// Returns the key at which the run's key range begins; `None` if it has no start.
    pub(crate) fn begins_at(&self) -> Option<&Bytes> {
        let keys = self.keys.as_ref()?.range();
        (!keys.start.is_empty()).then_some(&keys.start)
    }

    /// Returns the key before which the run's key range ends; `None` if it has no end.
    pub(crate) fn ends_before(&self) -> Option<&Bytes> {
        self.keys.as_ref()?.range().end.as_ref()
    }

    /// Drops the keys of the run before `key`, and the files that have no other keys, perhaps all
    /// files. Returns the numbers of the dropped files.
    pub(crate) fn begin_at(&mut self, key: &Bytes) -> Vec<FileNumber> {
        let end = self.ends_before().cloned();
        if !is_before(key, end.as_ref()) {
            // The run is the output of a merge that is over.
            return self.files.drain(..).map(|file| file.number).collect();
        }
        let start = key.clone();
        self.keys = Some(KeyBounds::exactly(KeyRange { start, end }));
        let before = self.bytes();
        let reaches = |file: &FileMeta| {
            let mut ranges = file.ranges();
            ranges.any(|range| is_before(key, range.end.as_ref()))
        };
        let mut gone = Vec::new();
        self.files.retain(|file| {
            let stays = reaches(file);
            gone.extend((!stays).then_some(file.number));
            stays
        });
        self.scale_kept(before);
        gone
    }

    /// Replaces a file of the run by others, perhaps by none. Does nothing if the run does not have
    /// the file.
    pub(crate) fn replace_file(&mut self, file: FileNumber, by: Vec<FileMeta>) {
        let before = self.bytes();
        let at = self.numbers().position(|number| number == file);
        if let Some(at) = at {
            self.files.splice(at..=at, by);
            self.scale_kept(before);
        }
    }

    /// Scales the estimates in `kept_for`, the bytes that are kept for snapshots and views, to the
    /// new size of the run's files after some were replaced. `before` is the earlier size.
    fn scale_kept(&mut self, before: u64) {
        let after = self.bytes();
        for kept in &mut self.kept_for {
            let bytes = u128::from(kept.bytes) * u128::from(after);
            kept.bytes = (bytes / u128::from(before.max(1))) as u64;
        }
    }

    /// Joins the outputs of a merge that is installed in parts, one key range after the other:
    /// `onto` of the earlier parts, and `more` of this part, whose keys are all larger. `None`
    /// stands for parts without output. `ends_before` is the key at which the next part begins;
    /// `None` after the last part.
    pub(crate) fn merged(
        onto: Option<Self>,
        more: Option<Self>,
        ends_before: Option<&Bytes>,
    ) -> Option<Self> {
        let mut merged = match (onto, more) {
            (Some(mut onto), Some(more)) => {
                onto.append(more);
                onto
            }
            (onto, more) => onto.or(more)?,
        };
        let start = merged.begins_at().cloned();
        merged.keys = KeyBounds::between(start, ends_before.cloned());
        Some(merged)
    }

    fn append(&mut self, more: Self) {
        self.smallest_seq = self.smallest_seq.min(more.smallest_seq);
        self.largest_seq = self.largest_seq.max(more.largest_seq);
        self.files.extend(more.files);
        for new in more.kept_for {
            let same = |kept: &&mut KeptFor| (kept.from, kept.to) == (new.from, new.to);
            match self.kept_for.iter_mut().find(same) {
                Some(kept) => kept.bytes = kept.bytes.saturating_add(new.bytes),
                None => self.kept_for.push(new),
            }
        }
        while self.kept_for.len() > KEPT_FOR_MAX {
            self.join_smallest_kept();
        }
    }

    /// Joins the two neighbouring entries of `kept_for` (ordered by `from`) that have the fewest
    /// bytes together, to have one entry less. The joined range goes from the `from` of the first
    /// entry to the larger `to` of the two. The joined bytes count as garbage only once no snapshot
    /// or view reads at a commit in this range.
    fn join_smallest_kept(&mut self) {
        self.kept_for.sort_by_key(|kept| (kept.from, kept.to));
        let pairs = self.kept_for.windows(2).enumerate();
        let bytes = |pair: &[KeptFor]| pair[0].bytes.saturating_add(pair[1].bytes);
        let smallest = pairs.min_by_key(|(_, pair)| bytes(pair));
        if let Some(at) = smallest.map(|(at, _)| at) {
            let next = self.kept_for.remove(at + 1);
            let kept = &mut self.kept_for[at];
            kept.to = kept.to.max(next.to);
            kept.bytes = kept.bytes.saturating_add(next.bytes);
        }
    }

    /// Returns the metadata with the commit `seq` as the one that ingested the run.
    pub(crate) fn ingested_by(mut self, seq: SeqNo) -> Self {
        self.smallest_seq = seq;
        self.largest_seq = seq;
        self.ingested_at = mutation::replace(Some(seq), Mutation::TrustIngestedNumbers, None);
        self
    }

    /// Returns about how many bytes were kept only for snapshots and views that no longer exist.
    pub(crate) fn garbage_bytes(&self, boundaries: &Boundaries) -> u64 {
        self.bytes_unless(|from, to| boundaries.has_any(from, to))
    }

    /// Computes [`RunMeta::garbage_bytes`] (versions that were kept for snapshots and views which
    /// no longer exist) for callers without a list of boundaries: `has_any` returns whether a
    /// snapshot or view reads at a commit between two numbers, both included.
    pub(crate) fn bytes_unless(&self, has_any: impl Fn(SeqNo, SeqNo) -> bool) -> u64 {
        let never = mutation::is(Mutation::OverlookGarbage);
        self.hidden_bytes(|kept| !has_any(kept.from, kept.to) && !never)
    }

    /// Returns about how many bytes of the run only snapshots and views can see, summed over the
    /// entries of `kept_for` that the filter `of` accepts.
    pub(crate) fn hidden_bytes(&self, of: impl Fn(&KeptFor) -> bool) -> u64 {
        let kept = self.kept_for.iter().filter(|kept| of(kept));
        kept.fold(0, |sum, kept| sum.saturating_add(kept.bytes))
    }
}
