//! Reads by an index.
//!
//! ```text
//!   entries of one value, by token and clustering ─► the row, or the partition, of each
//!                                                     │ header and row, filter
//!                                                     v
//!                                                   page; entries without the value: stale
//! ```
//!
//! An entry is only a hint. Its row is filtered as without an index, so that a stale entry costs a
//! lookup but changes no result. Rows come in the same order as in a walk over all partitions, and
//! pages end at the same positions: the next page may use another index, or none.

use bytes::Buf as _;
use ebb_model::key::{ByteRange, DecodedKey, EntryKey, KeyError, Place, header_key};
use ebb_model::schema::TableSchema;
use ebb_storage::Entry;
use ebb_tables::read::{EntryStep, RowReader, RowStep, SourceEntries, TableError};

use super::walk::{End, Entries, SEEK_UNITS, Walk, behind};
use crate::analyse::restrictions::Partitions;
use crate::error::{Result, of_table};
use crate::interrupt;
use crate::paging::{self, PagingState};

impl Walk<'_> {
    /// Finds rows by the entries of an index, and passes them to the page, beginning after `resume`,
    /// at which the previous page ended. Returns the reason why it stopped.
    ///
    /// # Errors
    /// If stored bytes are damaged, the page fails, the statement's time is over, or `resume` lies
    /// outside of `partitions`, which only a forged paging state does.
    pub fn run_by_index(
        &mut self,
        entries: Entries<'_>,
        partitions: &Partitions,
        mut resume: Option<&PagingState>,
    ) -> Result<End> {
        let mut ranges: Vec<ByteRange> = match partitions {
            Partitions::Keys(keys) => keys.iter().map(|key| key.range()).collect(),
            Partitions::Range(range) => vec![range.clone()],
        };
        ranges.retain(|range| !range.is_empty());
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
            let end = if entries.of_partitions {
                self.partitions_of(entries, range, resume)?
            } else {
                self.rows_of(entries, range, resume)?
            };
            if end != End::Done {
                return Ok(end);
            }
        }
        Ok(End::Done)
    }

    /// Adds to the page the matching rows of each partition that an index entry names. Entries name
    /// whole partitions in an index on a static column or on a column of the partition key. Reads
    /// the partitions in `range`, beginning after the row at which the previous page ended
    /// (`resume`). Returns the reason why it stopped.
    fn partitions_of(
        &mut self,
        entries: Entries<'_>,
        mut range: ByteRange,
        mut resume: Option<&PagingState>,
    ) -> Result<End> {
        if let Some(resume) = resume {
            let at = DecodedKey::read(&resume.key).map_err(|_| paging::invalid())?;
            range.from = range.from.max(header_key(at.prefix));
        }
        let RowReader { source, schema, .. } = self.reader;
        let (from, to) = within(entries.prefix, &range);
        let found = source.entries(&from, to.as_deref()).map_err(of_table)?;
        let mut found = Lookahead::new(found);
        loop {
            let key = match found.next()? {
                EntryStep::Entry((key, _)) => key,
                EntryStep::Passed(passed) => {
                    let at = passed
                        .as_ref()
                        .and_then(|key| key.get(entries.prefix.len()..));
                    if self.is_over(at)?
                        && let Some(passed) = passed
                    {
                        return Ok(End::after(row_key_of(schema, &passed)?.prefix));
                    }
                    continue;
                }
                EntryStep::Done => return Ok(End::Done),
            };
            let header = row_key_of(schema, &key)?;
            let resume = resume.take();
            let resume = resume.filter(|resume| resume.key.starts_with(header.prefix));
            let given_rows = self.progress.given_rows;
            let end = self.partition(header.prefix, resume)?;
            if end != End::Done {
                return Ok(end);
            }
            // A partition that gave no row may no longer have the value. After `resume` this is unknown,
            // because the last page may have ended with the partition's rows.
            if resume.is_none() && self.progress.given_rows == given_rows {
                (self.progress).note_stale(Some(entries), &key[entries.prefix.len()..]);
            }
            if self.is_over(Some(header.prefix))? {
                return Ok(End::after(header.prefix));
            }
        }
    }

    /// Adds to the page each matching row that an index entry names, in `range`, beginning after
    /// the row at which the previous page ended (`resume`). Returns the reason why it stopped. The
    /// entries of one partition lie together, so the header of the partition is read once for all
    /// of them.
    fn rows_of(
        &mut self,
        entries: Entries<'_>,
        mut range: ByteRange,
        resume: Option<&PagingState>,
    ) -> Result<End> {
        if let Some(resume) = resume {
            let at = DecodedKey::read(&resume.key).map_err(|_| paging::invalid())?;
            range.from = range.from.max(behind(&resume.key, at.prefix.len()));
        }
        let RowReader { source, schema, .. } = self.reader;
        let rows = self.rows;
        let (from, to) = within(entries.prefix, &range);
        let found = source.entries(&from, to.as_deref()).map_err(of_table)?;
        let mut found = Lookahead::new(found);
        loop {
            let first = match found.next()? {
                EntryStep::Entry((first, _)) => first,
                EntryStep::Passed(passed) => {
                    let at = passed
                        .as_ref()
                        .and_then(|key| key.get(entries.prefix.len()..));
                    if self.is_over(at)?
                        && let Some(passed) = passed
                    {
                        return Ok(End::Cut {
                            key: passed[entries.prefix.len()..].to_vec(),
                            had_rows: true,
                        });
                    }
                    continue;
                }
                EntryStep::Done => return Ok(End::Done),
            };
            let row_key = &first[entries.prefix.len()..];
            let first_row = row_key_of(schema, &first)?;
            let header_key = header_key(first_row.prefix);
            let prefix_len = first_row.prefix.len();
            // The prefix of all entries for rows of the partition.
            let of_partition = &first[..entries.prefix.len() + prefix_len];
            // The header is read before the rows, or with the only one, never after them: a merge may purge a
            // deletion from the header together with the rows that it hides (see the purge race in
            // `ebb_tables::read`), and the rows would reappear.
            // The search for another entry is a short one: behind the last row of LIMIT there may be
            // any number of removed entries.
            let is_alone = found.ends(of_partition)?;
            let (header, mut only) = match first_row.place {
                Place::Row(clustering) if is_alone && rows.contains(clustering) => {
                    let read = (self.reader).read_row(first_row, [&header_key[..], row_key]);
                    let [header, row] = read.map_err(of_table)?;
                    (header, Some(row))
                }
                _ => (source.get(&header_key).map_err(of_table)?, None),
            };
            let partition = self.open(first_row, header.as_deref())?;
            let mut first_entry = Some(first.clone());
            // `true`: rows that an index selects are no whole partitions, so static columns alone make
            // no row.
            let end = self.take_rows(&partition, true, Some(entries), || {
                let mut key = match first_entry.take() {
                    Some(key) => key,
                    None => match found.next_of(of_partition)? {
                        EntryStep::Entry((key, _)) => key,
                        EntryStep::Passed(passed) => {
                            let row_key = passed.map(|key| key.slice(entries.prefix.len()..));
                            return Ok(RowStep::Passed(row_key));
                        }
                        EntryStep::Done => return Ok(RowStep::Done),
                    },
                };
                let Place::Row(clustering) = row_key_of(schema, &key)?.place else {
                    let error = KeyError::Corrupt {
                        what: "an entry of rows points to a header",
                        at: 0,
                        len: key.len(),
                    };
                    return Err(of_table(TableError::damaged(schema, &key, error)));
                };
                let is_selected = rows.contains(clustering);
                // From here on `key` is the key of the row.
                key.advance(entries.prefix.len());
                if !is_selected {
                    return Ok(RowStep::Unselected(key));
                }
                let operand = match only.take() {
                    Some(operand) => operand,
                    None => source.get(&key).map_err(of_table)?,
                };
                Ok(RowStep::of_key(key, prefix_len, operand))
            })?;
            if end != End::Done {
                return Ok(end);
            }
            // `take_rows` does not look at the time after a row that reaches PER PARTITION LIMIT.
            if self.is_over(Some(first_row.prefix))? {
                return Ok(End::after(first_row.prefix));
            }
            // Entries of this partition may be left: the page takes no more rows of it. There may be
            // many, so the scan begins anew behind them.
            if !found.ends(of_partition)? {
                interrupt::charge(SEEK_UNITS)?;
                let behind = ByteRange::of_prefix(of_partition.to_vec()).to;
                let is_in_range = |behind: &Vec<u8>| to.as_ref().is_none_or(|to| behind < to);
                let Some(behind) = behind.filter(is_in_range) else {
                    return Ok(End::Done);
                };
                let rest = source.entries(&behind, to.as_deref()).map_err(of_table)?;
                found = Lookahead::new(rest);
            }
        }
    }
}

/// An iterator over index entries, with room for one entry that was read ahead.
struct Lookahead<'s> {
    entries: SourceEntries<'s>,
    ahead: Option<Entry>,
}

impl<'s> Lookahead<'s> {
    fn new(entries: SourceEntries<'s>) -> Self {
        Self {
            entries,
            ahead: None,
        }
    }

    /// Returns the next entry. Ends after one short search: if that met only entries that the read
    /// does not see, returns [`EntryStep::Passed`].
    fn next(&mut self) -> Result<EntryStep> {
        match self.ahead.take() {
            Some(entry) => Ok(EntryStep::Entry(entry)),
            None => self.entries.search().map_err(of_table),
        }
    }

    /// Returns the next entry, as [`next`](Self::next) does, if its key begins with `prefix`.
    /// Otherwise keeps the entry for later, and returns [`EntryStep::Done`].
    fn next_of(&mut self, prefix: &[u8]) -> Result<EntryStep> {
        Ok(match self.next()? {
            EntryStep::Entry(entry) if !entry.0.starts_with(prefix) => {
                self.ahead = Some(entry);
                EntryStep::Done
            }
            step => step,
        })
    }

    /// Returns whether no further entry begins with `prefix`, as far as a short search shows. False
    /// if that remains unknown, because the search met only entries that the read does not see.
    fn ends(&mut self, prefix: &[u8]) -> Result<bool> {
        if self.ahead.is_none() {
            match self.entries.search().map_err(of_table)? {
                EntryStep::Entry(entry) => self.ahead = Some(entry),
                EntryStep::Passed(_) => return Ok(false),
                EntryStep::Done => return Ok(true),
            }
        }
        Ok((self.ahead.as_ref()).is_none_or(|(key, _)| !key.starts_with(prefix)))
    }
}

/// Returns the key of the row, or of the header with a partition's static columns, that an index
/// entry refers to.
fn row_key_of<'k>(schema: &TableSchema, entry: &'k [u8]) -> Result<DecodedKey<'k>> {
    let row_key = EntryKey::read(entry).map(|read| read.row_key);
    let decoded = row_key.and_then(DecodedKey::read);
    decoded.map_err(|error| of_table(TableError::damaged(schema, entry, error)))
}

/// Returns the bounds of the index entries that begin with `prefix` and refer to keys in `range`.
/// Without an upper bound the second one is `None`.
fn within(prefix: &[u8], range: &ByteRange) -> (Vec<u8>, Option<Vec<u8>>) {
    let to = match &range.to {
        Some(to) => Some([prefix, to].concat()),
        None => ByteRange::of_prefix(prefix.to_vec()).to,
    };
    ([prefix, &range.from].concat(), to)
}
