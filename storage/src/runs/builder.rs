//! Writes a run: versions in order in, SSTables of bounded size out.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::{FileNumbers, KeptFor, Run, RunMeta, RunStore};
use crate::error::Result;
use crate::key::{FileNumber, KeyBounds, Kind, RangeTombstones, SeqNo, TableId, Version};
use crate::read::{ExpiryBounds, KeyPrefixes, MergeOperator, ValueBounds, bounds_of};
use crate::sstable::{Origin, SsTableOptions, SsTableWriter};

/// A run being written. If it is dropped before [`RunBuilder::finish`] has succeeded, its files are
/// removed.
pub(crate) struct RunBuilder<'a> {
    store: &'a RunStore,
    numbers: &'a dyn FileNumbers,
    table: TableId,
    options: SsTableOptions,
    /// The table and the part of its history that each file records as its origin. The key range is
    /// set for each file by itself.
    origin: Origin,
    /// The start of the key range that the open file records as its part of the table; if no file
    /// is open, the start for the next file. `None` for the start of all keys.
    start: Option<Bytes>,
    /// The merge operator, which reads the timestamps and the expiries in the values.
    operator: Option<&'a dyn MergeOperator>,
    prefixes: Option<&'a KeyPrefixes>,
    writer: Option<(FileNumber, SsTableWriter)>,
    /// The bounds of the timestamps and of the expiries in the values of the open file.
    bounds: ValueBounds,
    files: Vec<FileNumber>,
    bytes: u64,
    /// Bytes of all added keys and values, before compression.
    plain_bytes: u64,
    /// For each range of sequence numbers (the first and the last, both included): the bytes of the
    /// versions that only snapshots and views (open readers) at sequence numbers in this range
    /// need.
    kept: BTreeMap<(SeqNo, SeqNo), u64>,
    finished: bool,
}

impl<'a> RunBuilder<'a> {
    /// Begins a run of `table`. `origin` has the range of sequence numbers for which the run's
    /// files have all versions that readers still need. `operator` is the table's merge operator,
    /// which finds the timestamps and expiries in values. Without it the timestamps are unknown,
    /// and, if `origin` names an operator, the expiries, too.
    pub(crate) fn new(
        (store, numbers): (&'a RunStore, &'a dyn FileNumbers),
        table: TableId,
        options: SsTableOptions,
        origin: Origin,
        operator: Option<&'a dyn MergeOperator>,
    ) -> Self {
        Self {
            store,
            numbers,
            table,
            options,
            origin,
            start: None,
            operator,
            prefixes: None,
            writer: None,
            bounds: ValueBounds::of_none(operator),
            files: Vec::new(),
            bytes: 0,
            plain_bytes: 0,
            kept: BTreeMap::new(),
            finished: false,
        }
    }

    /// Sets the key at which the run's part of the table begins, as its files record it; `None` for
    /// the start of all keys.
    pub(crate) fn beginning_at(mut self, start: Option<Bytes>) -> Self {
        self.start = start;
        self
    }

    /// Makes the filters contain prefixes of keys, too; with `None` they contain keys alone.
    pub(crate) fn with_prefixes(mut self, prefixes: Option<&'a KeyPrefixes>) -> Self {
        self.prefixes = prefixes;
        self
    }

    /// Adds a version. Versions must be added in order: by key, and the newest of a key first. All
    /// versions of a key go into the same file.
    pub(crate) fn add(&mut self, key: &[u8], version: &Version) -> Result<()> {
        self.add_slices(key, version.seq, version.kind, &version.value)
    }

    /// As [`Self::add`], for a version in borrowed parts.
    pub(crate) fn add_slices(
        &mut self,
        key: &[u8],
        seq: SeqNo,
        kind: Kind,
        value: &[u8],
    ) -> Result<()> {
        let bytes_max = self.store.file_bytes();
        let full = |(_, writer): &(_, SsTableWriter)| {
            writer.is_full(bytes_max) && writer.last_key() != Some(key)
        };
        if self.writer.as_ref().is_some_and(full) {
            self.finish_file(Some(Bytes::copy_from_slice(key)))?;
        }
        self.plain_bytes += plain_bytes(key, value);
        self.writer()?.add(key, seq, kind, value)?;
        let otherwise = match self.origin.merge_operator {
            Some(_) => ExpiryBounds::Unknown,
            None => ExpiryBounds::Never,
        };
        let more = bounds_of(self.operator, otherwise, key, kind, value);
        self.bounds = self.bounds.union(more);
        Ok(())
    }

    /// Returns the writer of the open file; begins a new file if none is open.
    fn writer(&mut self) -> Result<&mut SsTableWriter> {
        if self.writer.is_none() {
            let number = self.numbers.next_file_number()?;
            self.files.push(number);
            let (tables, name) = (self.store.tables(), self.store.name(number));
            let mut writer = SsTableWriter::begin(
                tables.create(number.0),
                &name,
                (number.0, self.table.0),
                self.options.clone(),
            )?;
            writer.set_prefixes(self.prefixes);
            self.bounds = ValueBounds::of_none(self.operator);
            self.writer = Some((number, writer));
        }
        let (_, writer) = self.writer.as_mut().expect("just opened");
        Ok(writer)
    }

    /// Returns the bytes that were written to the finished files and the open one.
    pub(crate) fn written_bytes(&self) -> u64 {
        let open = self
            .writer
            .as_ref()
            .map_or(0, |(_, writer)| writer.file_bytes());
        self.bytes + open
    }

    /// Records that only snapshots and views at the sequence numbers `by` (first, last) can see
    /// `version`, which the caller also adds to the run.
    pub(crate) fn note_kept(&mut self, by: (SeqNo, SeqNo), key: &[u8], version: &Version) {
        *self.kept.entry(by).or_default() += plain_bytes(key, &version.value);
    }

    /// Returns, for each range of the sequence numbers at which snapshots and views (open readers)
    /// read, an estimate of the stored bytes that only these need: the bytes before compression,
    /// times the compression ratio of the whole run.
    fn kept_for(&self) -> Vec<KeptFor> {
        let stored = |plain: u64| {
            let bytes = u128::from(plain) * u128::from(self.bytes);
            (bytes / u128::from(self.plain_bytes.max(1))) as u64
        };
        let kept = self.kept.iter();
        kept.map(|(&(from, to), &plain)| KeptFor {
            from,
            to,
            bytes: stored(plain),
        })
        .collect()
    }

    /// Finishes the open file, if there is one. The file records that its part of the table ends
    /// before `next`, the first key of the next file; `None` if the part has no end.
    fn finish_file(&mut self, next: Option<Bytes>) -> Result<()> {
        if let Some((_, mut writer)) = self.writer.take() {
            let start = std::mem::replace(&mut self.start, next.clone());
            writer.set_origin(Origin {
                keys: KeyBounds::between(start, next),
                ..self.origin.clone()
            });
            writer.set_bounds(self.bounds);
            let finished = writer.finish()?;
            self.bytes += finished.file_bytes;
        }
        Ok(())
    }

    /// Finishes the files and opens them; their names are durable after [`RunStore::finish_runs`].
    /// Returns `None` when nothing was added and there are no range tombstones, which go into the
    /// last file. `span` has the smallest and the largest sequence number of the inputs. The key
    /// range that the last file covers ends before the key `end`; `None`: it has no end.
    pub(crate) fn finish(
        mut self,
        span: (SeqNo, SeqNo),
        tombstones: RangeTombstones,
        end: Option<Bytes>,
    ) -> Result<Option<Arc<Run>>> {
        if !tombstones.is_empty() {
            self.writer()?.set_range_tombstones(tombstones);
        }
        self.finish_file(end)?;
        if self.files.is_empty() {
            return Ok(None);
        }
        let open = |&number: &FileNumber| self.store.open_new(number);
        let opened: Vec<_> = self.files.iter().map(open).collect::<Result<_>>()?;
        let (metas, files) = opened.into_iter().unzip();
        let meta = RunMeta {
            id: self.store.next_run_id(),
            smallest_seq: span.0,
            largest_seq: span.1,
            files: metas,
            keys: None,
            ingested_at: None,
            kept_for: self.kept_for(),
        };
        self.finished = true;
        Ok(Some(Run::new(meta, files)))
    }
}

/// Returns the bytes of a key and a value, before compression.
pub(crate) fn plain_bytes(key: &[u8], value: &[u8]) -> u64 {
    (key.len() + value.len()) as u64
}

impl Drop for RunBuilder<'_> {
    fn drop(&mut self) {
        if !self.finished {
            for &number in &self.files {
                self.store.remove(number);
            }
        }
    }
}
