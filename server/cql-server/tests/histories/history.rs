//! What clients did to one row, and when: a history of operations.

/// What a client asks of its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// `INSERT ... IF NOT EXISTS`.
    Insert(i32),
    /// `UPDATE SET v = .1 IF v = .0`.
    Swap(i32, i32),
    /// `UPDATE SET v = .0 IF EXISTS`.
    Set(i32),
    /// `DELETE ... IF EXISTS`.
    Delete,
    /// `SELECT`.
    Read,
}

/// What it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    Applied,
    /// Not applied; the value of the row where the answer has it, `None` where there is no row.
    Refused(Option<Option<i32>>),
    /// The value of the row.
    Value(Option<i32>),
    /// Nothing: it may have happened, or may yet.
    Nothing,
}

/// One operation.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    pub ask: Ask,
    pub told: Told,
    /// When it was asked, and when the answer was there.
    pub began: u64,
    /// [`u64::MAX`] without one.
    pub ended: u64,
}

impl Operation {
    /// The row after it, if it can have happened to this row and been told so.
    pub fn apply(&self, row: Option<i32>) -> Option<Option<i32>> {
        let applied = match (self.ask, row) {
            (Ask::Insert(value), None) => Some(Some(value)),
            (Ask::Swap(from, to), Some(value)) if value == from => Some(Some(to)),
            (Ask::Set(value), Some(_)) => Some(Some(value)),
            (Ask::Delete, Some(_)) => Some(None),
            _ => None,
        };
        match self.told {
            Told::Applied => applied,
            Told::Refused(seen) => {
                let fits = applied.is_none() && seen.is_none_or(|seen| seen == row);
                fits.then_some(row)
            }
            Told::Value(value) => (value == row).then_some(row),
            Told::Nothing => Some(applied.unwrap_or(row)),
        }
    }
}
