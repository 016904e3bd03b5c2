//! The index entries of a job's rows. They are put into the table with the rows, in the same files
//! and by the same commit.

use ebb_model::key::{DecodedKey, Place, is_index_entry};
use ebb_model::schema::TableSchema;
use ebb_scheduler::runtime::{SpillGrant, TaskError};
use ebb_storage::SortedWriter;
use ebb_tables::read::{LiveValues, TableError};

use super::SORT_BYTES;
use crate::outputs::spill_place::SpillPlace;
use crate::outputs::staging::{StagingWriter, merge_with};

/// The stored forms (operands) of rows and of partition headers (deletions and static columns), and
/// the index entries for their values, in temporary files. In the table, index entries sort before
/// all rows.
pub(super) struct WithEntries<'s> {
    schema: &'s TableSchema,
    values: LiveValues<'s>,
    /// The index entries, in no particular order.
    entries: StagingWriter,
    /// The stored forms (operands) of rows and of partition headers (deletions and static columns),
    /// which are appended in the order of their keys.
    operands: StagingWriter,
    /// The key prefix of the last partition that had a header, and the header's stored form: its
    /// deletions and static columns. `None` before the first header.
    header: Option<(Vec<u8>, Vec<u8>)>,
    place: &'s SpillPlace,
    grant: SpillGrant,
}

impl<'s> WithEntries<'s> {
    /// Creates empty files in `place` for the rows of a table. Values that have expired at `now_s`,
    /// in seconds since 1970, get no index entries.
    pub(super) fn new(
        schema: &'s TableSchema,
        now_s: i64,
        place: &'s SpillPlace,
    ) -> Result<Self, TaskError> {
        let staging = || StagingWriter::create(place.directory(), SORT_BYTES).map_err(waiting());
        Ok(Self {
            schema,
            values: LiveValues::new(schema, now_s),
            entries: staging()?,
            operands: staging()?,
            header: None,
            place,
            grant: place.grant(),
        })
    }

    /// Adds a partition header or a row in its stored form, `operand`, and the index entries of its
    /// values. The keys of successive calls must ascend.
    pub(super) fn add(&mut self, key: &[u8], operand: &[u8]) -> Result<(), TaskError> {
        let decoded = DecodedKey::read(key).map_err(TaskError::failed)?;
        if decoded.place == Place::Header {
            self.header = Some((decoded.prefix.to_vec(), operand.to_vec()));
        }
        let header = self.header.as_ref().filter(|(of, _)| of == decoded.prefix);
        let header = header.map(|(_, header)| &header[..]);
        for indexed in self.schema.indexed_columns() {
            let mut pushed = Ok(());
            // A commit has no checkpoints.
            let charge = &mut |_: usize| Ok(());
            let found = (self.values).entries(indexed, key, header, operand, charge, |entry| {
                if pushed.is_ok() {
                    let granted = self.grant.take(self.place.directory(), entry.len() as u64);
                    pushed =
                        granted.and_then(|()| self.entries.push(&entry, &[]).map_err(waiting()));
                }
            });
            found.map_err(damaged)?;
            pushed?;
        }
        let bytes = (key.len() + operand.len()) as u64;
        self.grant.take(self.place.directory(), bytes)?;
        self.operands.push(key, operand).map_err(waiting())
    }

    /// Writes the index entries, the rows and the partition headers to `writer`, in the order of
    /// their keys. The files of `writer` must lie in the place that was passed to
    /// [`new`](Self::new), because they take their disk space from it.
    pub(super) fn write(self, writer: &mut SortedWriter) -> Result<(), TaskError> {
        let (place, mut grant) = (self.place, self.grant);
        let staged = [self.entries, self.operands].map(StagingWriter::finish);
        let [entries, operands] = staged.map(|staged| staged.map_err(waiting()));
        let write = |key: &[u8], operand: &[u8]| {
            // The sorted files are a second copy of the rows.
            grant.take(place.directory(), (key.len() + operand.len()) as u64)?;
            let written = if is_index_entry(key) {
                writer.put(key, operand)
            } else {
                writer.merge(key, operand)
            };
            written.map_err(TaskError::failed)
        };
        // Several rows of a partition may have the same entry.
        let staged = [entries?, operands?];
        merge_with(place, staged, &|| Ok(()), write, |_, _, _| Ok(()))
    }
}

/// Returns the error for an operand of the job's rows that cannot be read. The job wrote the
/// operand itself, so the table is not damaged.
#[cold]
fn damaged(error: TableError) -> TaskError {
    match error {
        TableError::Store(error) => TaskError::failed(error),
        TableError::Damaged(damage) => TaskError::failed(format!(
            "a row that waits for the commit is damaged: {}",
            damage.reason
        )),
        TableError::Ended(ended) => TaskError::failed(ended.to_string()),
    }
}

fn waiting() -> impl FnOnce(std::io::Error) -> TaskError {
    TaskError::io("writing the entries of indexes to a temporary file")
}
