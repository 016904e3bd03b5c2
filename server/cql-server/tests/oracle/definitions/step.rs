//! The steps of a run, as data: so it can be made shorter when it fails.

use super::statement::Statement;

#[derive(Debug, Clone)]
pub enum Step {
    Run(Statement),
    /// Writes a row into a table and reads it. The number draws the table and the values.
    Row(u64),
    /// Opens the database anew, which had nothing under way. Perhaps it writes its memtables to
    /// files and merges them before.
    Restart {
        flushes: bool,
    },
    /// Opens the database anew, which lost its power or was killed while it executed a statement.
    /// The number draws the moment, and what a loss of power leaves.
    Cut {
        statement: Statement,
        draw: u64,
    },
}
