//! The steps of a run, as data, so that a failing run can be shortened.

use super::statement::Statement;

#[derive(Debug, Clone)]
pub enum Step {
    Run(Statement),
    /// Writes a row into a table and reads it. The random number determines the table and the
    /// values.
    Row(u64),
    /// Opens the database again, without requests in progress, maybe after its memtables were
    /// written to files and merged.
    Restart {
        flushes: bool,
    },
    /// Opens the database again after the power was lost, or the server was killed, during a
    /// statement. The random number determines the moment, and which writes survive a loss of
    /// power.
    Cut {
        statement: Statement,
        draw: u64,
    },
}
