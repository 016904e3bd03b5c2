//! The history of one row: the operations of clients, with their times.

/// A client's action on its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
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

/// The outcome of an action for its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Applied,
    /// Not applied. Contains the row's value if the response has it; `None` inside if there is no
    /// row.
    Refused(Option<Option<i32>>),
    /// The value of the row, which was read.
    Value(Option<i32>),
    /// There was no response: the action may have happened, or may still happen.
    Unknown,
}

/// An action with its outcome.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    pub action: Action,
    pub outcome: Outcome,
    /// The time of the request.
    pub began: u64,
    /// The time of the response; [`u64::MAX`] without one.
    pub ended: u64,
}

impl Operation {
    /// The row after the operation, if the operation can have happened to this row with this
    /// outcome.
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
