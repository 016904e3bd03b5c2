//! The data files of a table in which rows are looked for.

use std::collections::BTreeSet;

use super::Result;
use super::batches::Batches;
use super::cursor::Cursor;
use super::deletes::deleted_rows;
use super::keys::RowKeys;
use crate::commit::LiveFile;
use crate::iceberg::manifest::DataFile;
use crate::row_index::{RowIndex, RowIndexBuilder};
use crate::target::Target;

/// The data files of a table, with their least and greatest keys. All tasks of a publication may share them.
pub struct RowFiles {
    target: Target,
    keys: RowKeys,
    files: Vec<LiveFile>,
    /// The key ranges of the files that have rows, in ascending order of their least keys.
    spans: Vec<Span>,
}

/// The least and the greatest key of a data file.
#[derive(Debug)]
pub(super) struct Span {
    /// The index of the file in [`RowFiles::files`].
    pub(super) file: usize,
    pub(super) sequence_number: i64,
    pub(super) first: Box<[u8]>,
    pub(super) last: Box<[u8]>,
}

impl RowFiles {
    /// Looks up the least and greatest key of each file that has rows. If the index of a file is lost or
    /// damaged, makes it anew from the columns of the key, and stores it.
    ///
    /// # Errors
    /// If a request to the target fails, or if a file is damaged.
    pub fn open(target: &Target, files: Vec<LiveFile>, keys: RowKeys) -> Result<Self> {
        let with_rows = files.iter().enumerate().filter(|(_, live)| live.rows() > 0);
        let (places, data): (Vec<usize>, Vec<&DataFile>) =
            with_rows.map(|(place, live)| (place, &live.file)).unzip();
        let span = |at: usize, index: &RowIndex| Span {
            file: places[at],
            sequence_number: files[places[at]].sequence_number,
            first: index.first().into(),
            last: index.last().into(),
        };
        // One after the other, those of thousands of files in a bucket would take minutes.
        let mut spans = RowIndex::load_each(target, &data, span)?;
        let known: BTreeSet<usize> = spans.iter().map(|span| span.file).collect();
        for (at, file) in data.iter().enumerate() {
            if !known.contains(&places[at]) {
                spans.push(span(at, &made_anew(target, file, &keys)?));
            }
        }
        spans.sort_by(|a, b| a.first.cmp(&b.first));
        Ok(Self {
            target: target.clone(),
            keys,
            files,
            spans,
        })
    }

    /// Returns the files, in the order in which [`open`](Self::open) got them.
    pub fn files(&self) -> &[LiveFile] {
        &self.files
    }

    /// Returns the key ranges of the files that have rows, in ascending order of their least keys:
    /// for each file its index in [`files`](Self::files), and its least and greatest key. Deleted
    /// rows count, too.
    pub fn key_ranges(&self) -> impl Iterator<Item = (usize, &[u8], &[u8])> {
        let spans = self.spans.iter();
        spans.map(|span| (span.file, &*span.first, &*span.last))
    }

    pub(super) fn keys(&self) -> &RowKeys {
        &self.keys
    }

    /// Returns the key ranges of the files that have rows, in ascending order of their least keys.
    pub(super) fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Opens a data file, which must have rows, to look up rows by their keys. `file` is the index
    /// of the data file in [`files`](Self::files).
    pub(super) fn cursor(&self, file: usize) -> Result<Cursor> {
        let live = &self.files[file];
        let index = index_of(&self.target, &live.file, &self.keys)?;
        let batches = Batches::open(&self.target, &live.file, self.keys.columns())?;
        let deleted = deleted_rows(&self.target, live)?;
        Ok(Cursor::new(index, batches, deleted))
    }
}

/// Returns the row index of a data file, which must have rows: the stored index, or a new one if
/// the stored one is lost or damaged.
fn index_of(target: &Target, file: &DataFile, keys: &RowKeys) -> Result<RowIndex> {
    match RowIndex::load(target, file)? {
        Some(index) => Ok(index),
        None => made_anew(target, file, keys),
    }
}

/// Makes the index of a data file from the file's key columns, and stores it.
///
/// # Errors
/// If the file cannot be read, if its keys do not ascend, if it does not have `file.record_count` rows, or if
/// the index cannot be stored.
fn made_anew(target: &Target, file: &DataFile, keys: &RowKeys) -> Result<RowIndex> {
    let mut batches = Batches::open(target, file, keys.columns())?;
    let mut index = RowIndexBuilder::new();
    while let Some(batch) = batches.next_batch()? {
        for row in 0..batch.rows {
            if !index.append(&keys.of(&batches, &batch, row)?) {
                let position = batch.first + row as u64;
                let problem = format!("the key of row {position} is not above the one before it");
                return Err(batches.error(problem));
            }
        }
    }
    let rows = batches.next_row();
    let index = index.finish(rows);
    let is_whole = i64::try_from(rows) == Ok(file.record_count);
    let too_short = || batches.error("it has fewer rows than its manifest".to_owned());
    let index = index.filter(|_| is_whole).ok_or_else(too_short)?;
    index.store(target, file)?;
    Ok(index)
}
