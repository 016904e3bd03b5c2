//! The reducer of a join: pairs the rows of a key.

use ebb_scheduler::runtime::{Emit, Reducer, TaskError, Values};

use super::JoinKind;
use super::mapper::{JOINED, LEFT, UNPAIRED};

/// The most memory, in bytes, for the left rows of one key. A reduce task holds all of them at once.
/// The job fails if a key has more.
pub(super) const LEFT_BYTES_MAX: usize = 64 << 20;

/// The reducer of a join: emits a row for each pair of rows with the same key.
pub(super) struct PairReducer {
    kind: JoinKind,
    /// The value of the right columns, all empty, for a left row without a match.
    right_nothing: Vec<u8>,
    /// Whether the result has columns of both the left and the right side.
    has_both: bool,
    left_bytes_max: usize,
}

impl PairReducer {
    /// Creates a reducer of sides with this many columns beside the key: those of the left and of the right one.
    /// The left rows of a key may take `left_bytes_max` bytes of memory.
    pub(super) fn new(
        kind: JoinKind,
        (left_columns, right_columns): (usize, usize),
        left_bytes_max: usize,
    ) -> Self {
        Self {
            kind,
            right_nothing: vec![b','; right_columns.saturating_sub(1)],
            has_both: left_columns > 0 && right_columns > 0,
            left_bytes_max,
        }
    }

    /// Emits a row of the result, with an empty key, for each left row in a group of left rows without a join
    /// key. No right row matches them, so they need not be held in memory. They may be most of the left side.
    fn reduce_unpaired(
        &self,
        values: &mut Values<'_>,
        emit: &mut dyn Emit,
    ) -> Result<(), TaskError> {
        while let Some(left) = values.next_value()? {
            emit.emit(b"", &self.pair(left, &self.right_nothing))?;
        }
        Ok(())
    }

    /// Returns the value of a result row: the columns of the left row, then those of the right one.
    fn pair(&self, left: &[u8], right: &[u8]) -> Vec<u8> {
        let comma = if self.has_both { &b","[..] } else { b"" };
        [left, comma, right].concat()
    }
}

/// The columns of the left rows of a key, in two allocations. A key may have very many short rows,
/// and an allocation for each of them would take many times the bytes of its columns.
#[derive(Default)]
struct LeftRows {
    /// The columns of all rows, one row after the other.
    columns: Vec<u8>,
    /// For each row, the end of its columns in `columns`.
    ends: Vec<u32>,
}

impl LeftRows {
    fn push(&mut self, columns: &[u8]) -> Result<(), TaskError> {
        self.columns.extend_from_slice(columns);
        let end = u32::try_from(self.columns.len()).map_err(TaskError::failed)?;
        self.ends.push(end);
        Ok(())
    }

    /// Returns the bytes of the rows in memory.
    fn bytes(&self) -> usize {
        self.columns.len() + size_of_val(&self.ends[..])
    }

    /// Returns the columns of each row, in the order of the rows.
    fn columns(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        let places = starts.zip(&self.ends);
        places.map(move |(&start, &end)| &self.columns[start as usize..end as usize])
    }
}

impl Reducer for PairReducer {
    fn reduce(
        &self,
        key: &[u8],
        values: &mut Values<'_>,
        emit: &mut dyn Emit,
    ) -> Result<(), TaskError> {
        let key = match key.split_first() {
            Some((&JOINED, key)) => key,
            Some((&UNPAIRED, _)) => return self.reduce_unpaired(values, emit),
            _ => return Err(TaskError::failed("a key that no map of a join emits")),
        };
        // The maps of the left side are the first ones, so the left values come first.
        let (mut left, mut has_right) = (LeftRows::default(), false);
        while let Some(value) = values.next_value()? {
            let (&side, value) =
                (value.split_first()).ok_or_else(|| TaskError::failed("a value without a side"))?;
            if side == LEFT {
                left.push(value)?;
                if left.bytes() > self.left_bytes_max {
                    return Err(TaskError::failed(format!(
                        "the rows of key {:?} on the left side take more than {} bytes of memory; \
                         swap the sides if the right one has fewer",
                        key.escape_ascii().to_string(),
                        self.left_bytes_max
                    )));
                }
                continue;
            }
            has_right = true;
            for left in left.columns() {
                emit.emit(key, &self.pair(left, value))?;
            }
        }
        if !has_right && self.kind == JoinKind::Left {
            for left in left.columns() {
                emit.emit(key, &self.pair(left, &self.right_nothing))?;
            }
        }
        Ok(())
    }
}
