//! Rows by the entries of an index.
//!
//! ```text
//!   entries of one value, by token and clustering ─► the row, or the partition, of each
//!                                                     │ header and row, predicates asked
//!                                                     v
//!                                                   sink; what no longer has the value: stale
//! ```
//!
//! An entry only says where to look. What is found is asked as without an index, so a stale
//! entry costs a look and changes no answer. Rows come in the order of a walk over all
//! partitions, and pages are cut as there: who goes on with another page may do so by another
//! index, or by none.

use std::time::Duration;

use ebb_model::key::{ByteRange, DecodedKey, EntryKey, Place, ROW, header_key};
use ebb_model::row::LiveColumn;
use ebb_tables::read::TableError;

use super::walk::{End, Flow, Progress, SEEK_UNITS, Sink, Visited, Walk, with};
use crate::analyse::restrictions::Partitions;
use crate::error::{Result, of_key, of_table};
use crate::interrupt;
use crate::paging::{self, PagingState};

/// The most stale entries that one read tells of: they are removed at its end.
const STALE_MAX: usize = 32;

/// Which entries are read.
#[derive(Debug, Clone, Copy)]
pub struct Entries<'e> {
    /// What the keys of all begin with.
    pub prefix: &'e [u8],
    /// They are of partitions, not of rows.
    pub of_partitions: bool,
    /// The place of what the index serves among the predicates.
    pub predicate: Option<usize>,
}

/// Keys of entries whose rows may not have the value any more.
pub type Stale = Vec<Vec<u8>>;

impl Walk<'_> {
    /// Gives the rows that entries point to to a sink, from after `resume` where a page was cut.
    ///
    /// # Errors
    /// As [`Walk::run`].
    pub fn run_by_index(
        &self,
        entries: Entries<'_>,
        partitions: &Partitions,
        resume: Option<&PagingState>,
        sink: &mut dyn Sink,
    ) -> Result<(End, Stale)> {
        let mut progress = Progress::new();
        let mut stale = Stale::new();
        let mut ranges: Vec<ByteRange> = match partitions {
            Partitions::Keys(keys) => keys.iter().map(|key| key.range()).collect(),
            Partitions::Range(range) => vec![range.clone()],
        };
        ranges.retain(|range| !range.is_empty());
        let mut resume = resume;
        if let Some(resume) = resume {
            DecodedKey::read(&resume.key).map_err(|_| paging::invalid())?;
            if !ranges.iter().any(|range| range.contains(&resume.key)) {
                return Err(paging::invalid());
            }
        }
        for range in ranges {
            interrupt::charge(SEEK_UNITS)?;
            let resume = match resume {
                Some(resume) if !range.contains(&resume.key) => continue,
                _ => resume.take(),
            };
            let end = match entries.of_partitions {
                true => {
                    self.partitions_of(entries, &range, resume, sink, &mut progress, &mut stale)
                }
                false => self.rows_of(entries, &range, resume, sink, &mut progress, &mut stale),
            }?;
            if end != End::Done {
                return Ok((end, stale));
            }
        }
        Ok((End::Done, stale))
    }

    /// Whole partitions: of an index by a static column or one of the partition key.
    fn partitions_of(
        &self,
        entries: Entries<'_>,
        range: &ByteRange,
        resume: Option<&PagingState>,
        sink: &mut dyn Sink,
        progress: &mut Progress,
        stale: &mut Stale,
    ) -> Result<End> {
        let mut range = range.clone();
        let mut resume = match resume {
            None => None,
            Some(resume) => {
                let at = DecodedKey::read(&resume.key).map_err(|_| paging::invalid())?;
                range.from = range.from.max(header_key(at.prefix));
                Some((at.prefix, resume))
            }
        };
        let (from, to) = within(entries.prefix, &range);
        let found = self.source.range(&from, to.as_deref(), false);
        for entry in found.map_err(of_table)? {
            let (key, _) = entry.map_err(of_table)?;
            let decoded = self.row_key_of(&key)?;
            let resume = resume.take();
            let resume = resume.filter(|(prefix, _)| *prefix == decoded.prefix);
            let resume = resume.map(|(_, resume)| resume);
            let mut sink = Noticing {
                sink,
                has_rows: resume.is_some(),
            };
            let end = self.partition(decoded.prefix.to_vec(), resume, &mut sink, progress)?;
            match end {
                End::Done if !sink.has_rows => note(stale, &key),
                End::Done => {}
                end => return Ok(end),
            }
            if progress.is_over(&sink)? {
                return Ok(End::after(with(decoded.prefix, ROW)));
            }
        }
        Ok(End::Done)
    }

    /// Rows, each by its entry.
    fn rows_of(
        &self,
        entries: Entries<'_>,
        range: &ByteRange,
        resume: Option<&PagingState>,
        sink: &mut dyn Sink,
        progress: &mut Progress,
        stale: &mut Stale,
    ) -> Result<End> {
        let mut range = range.clone();
        if let Some(resume) = resume {
            range.from = range.from.max(with(&resume.key, 0));
        }
        let (from, to) = within(entries.prefix, &range);
        let found = self.source.range(&from, to.as_deref(), false);
        let mut found = found.map_err(of_table)?;
        let mut next = found.next().transpose().map_err(of_table)?;
        while let Some((first, _)) = next.take() {
            let first_row = self.row_key_of(&first)?;
            let header_key = header_key(first_row.prefix);
            let prefix_len = first_row.prefix.len();
            next = found.next().transpose().map_err(of_table)?;
            let is_alone = match &next {
                Some((another, _)) => self.row_key_of(another)?.prefix != first_row.prefix,
                None => true,
            };
            // The header comes with the only row, or before any.
            let (header, mut row) = match first_row.place {
                Place::Row(clustering) if is_alone && self.selects(clustering) => {
                    let row_key = EntryKey::read(&first).map_err(of_key)?.row_key;
                    let keys = [&header_key[..], row_key];
                    let (header, row) = self.header_and_row(first_row, keys, clustering)?;
                    (header, Some(row))
                }
                _ => (self.source.get(&header_key).map_err(of_table)?, None),
            };
            let partition = self.open(first_row, header.as_deref())?;
            let mut key = first.clone();
            loop {
                let decoded = self.row_key_of(&key)?;
                let row_key = EntryKey::read(&key).map_err(of_key)?.row_key;
                let Place::Row(clustering) = decoded.place else {
                    let error = TableError::damaged(self.schema, &key, damaged(&key));
                    return Err(of_table(error));
                };
                let mut flow = None;
                if self.selects(clustering) {
                    let operand = match row.take() {
                        Some(operand) => operand,
                        None => self.source.get(row_key).map_err(of_table)?,
                    };
                    flow = match operand {
                        Some(operand) => {
                            let (flow, no_longer) = self.visit_found(
                                &partition,
                                row_key,
                                prefix_len,
                                &operand,
                                sink,
                                |cells: &[Option<LiveColumn<'_>>]| match entries.predicate {
                                    Some(one) => Ok(!self.filter.passes_one(one, cells)?),
                                    None => Ok(false),
                                },
                            )?;
                            if no_longer {
                                note(stale, &key);
                            }
                            flow
                        }
                        None => {
                            note(stale, &key);
                            None
                        }
                    };
                }
                match flow {
                    Some(Flow::Stop) => return Ok(End::Stopped),
                    Some(Flow::Partition) => {
                        let after = ByteRange::of_prefix(decoded.prefix.to_vec()).to;
                        let Some(after) = after else {
                            return Ok(End::Done);
                        };
                        let from = [entries.prefix, &after].concat();
                        if to.as_ref().is_some_and(|to| *to <= from) {
                            return Ok(End::Done);
                        }
                        let behind = self.source.range(&from, to.as_deref(), false);
                        found = behind.map_err(of_table)?;
                        next = found.next().transpose().map_err(of_table)?;
                        break;
                    }
                    _ => {}
                }
                if progress.is_over(sink)? {
                    let key = row_key.to_vec();
                    return Ok(End::Cut {
                        key,
                        had_rows: true,
                    });
                }
                match next.take() {
                    Some((another, _)) if self.row_key_of(&another)?.prefix == first_row.prefix => {
                        key = another;
                        next = found.next().transpose().map_err(of_table)?;
                    }
                    another => {
                        next = another;
                        break;
                    }
                }
            }
        }
        Ok(End::Done)
    }

    /// Returns the key of a row or a header that an entry points to.
    fn row_key_of<'k>(&self, entry: &'k [u8]) -> Result<DecodedKey<'k>> {
        let row_key = EntryKey::read(entry).map(|read| read.row_key);
        let decoded = row_key.and_then(DecodedKey::read);
        decoded.map_err(|error| of_table(TableError::damaged(self.schema, entry, error)))
    }
}

/// Notices whether there are rows.
struct Noticing<'s> {
    sink: &'s mut dyn Sink,
    has_rows: bool,
}

impl Sink for Noticing<'_> {
    fn row(&mut self, row: &Visited<'_>) -> Result<Flow> {
        self.has_rows = true;
        self.sink.row(row)
    }

    fn may_cut(&self, elapsed: Duration) -> bool {
        self.sink.may_cut(elapsed)
    }
}

/// The entries with this prefix that point into a range of keys.
fn within(prefix: &[u8], range: &ByteRange) -> (Vec<u8>, Option<Vec<u8>>) {
    let to = match &range.to {
        Some(to) => Some([prefix, to].concat()),
        None => ByteRange::of_prefix(prefix.to_vec()).to,
    };
    ([prefix, &range.from].concat(), to)
}

fn damaged(entry: &[u8]) -> ebb_model::key::KeyError {
    ebb_model::key::KeyError::Corrupt {
        what: "an entry of rows points to a header",
        at: 0,
        len: entry.len(),
    }
}

fn note(stale: &mut Stale, entry: &[u8]) {
    if stale.len() < STALE_MAX {
        stale.push(entry.to_vec());
    }
}
