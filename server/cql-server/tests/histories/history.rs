//! The history of one row: the operations of clients, with their times.

/// A client's action on a row. The values are those of the row's column `v`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// `INSERT ... IF NOT EXISTS`.
    Insert(i32),
    /// `UPDATE SET v = b IF v = a`, with the values a and b.
    Swap(i32, i32),
    /// `UPDATE SET v = a IF EXISTS`, with the value a.
    Set(i32),
    /// `DELETE ... IF EXISTS`.
    Delete,
    /// `SELECT`.
    Read,
}

/// The outcome of an action for its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Applied,
    /// Not applied. Contains the row if the response has it: its value, or an inner `None` for a
    /// missing row.
    Refused(Option<Option<i32>>),
    /// The value that was read; `None` if there is no row.
    Value(Option<i32>),
    /// There was no response: the action may have happened, or may still happen.
    Unknown,
}

/// An action with its outcome.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    pub action: Action,
    pub outcome: Outcome,
    /// The time of the request, as a number that is greater for later times.
    pub began: u64,
    /// The time of the response, by the same clock as `began`; [`u64::MAX`] without a response.
    pub ended: u64,
}

impl Operation {
    /// Returns the value of the row (an inner `None` is a missing row) after this operation on a
    /// row with the value `row`. Returns `None` if the operation cannot have its outcome on such a
    /// row.
    pub fn apply(&self, row: Option<i32>) -> Option<Option<i32>> {
        let applied = match (self.action, row) {
            (Action::Insert(value), None) => Some(Some(value)),
            (Action::Swap(from, to), Some(value)) if value == from => Some(Some(to)),
            (Action::Set(value), Some(_)) => Some(Some(value)),
            (Action::Delete, Some(_)) => Some(None),
            _ => None,
        };
        match self.outcome {
            Outcome::Applied => applied,
            Outcome::Refused(seen) => {
                let fits = applied.is_none() && seen.is_none_or(|seen| seen == row);
                fits.then_some(row)
            }
            Outcome::Value(value) => (value == row).then_some(row),
            Outcome::Unknown => Some(applied.unwrap_or(row)),
        }
    }
}
