//! The steps of a run, as data, so that a failing run can be shortened.

use super::counters::Count;
use super::index::IndexOn;
use super::schema::{Column, ColumnId};
use super::select::Select;
use super::write::Write;

#[derive(Debug, Clone)]
pub enum Step {
    Write(Request),
    /// Sends a request with IF, after the clock has advanced by a second, so that the server's
    /// timestamp is above all others.
    Conditional(Request),
    /// Sends a request on the table of counters.
    Count(Count),
    /// Reads all rows of a SELECT in pages of this size; without a size, in one page.
    Select(Select, Source, Option<usize>),
    /// Begins a SELECT, and reads its first page of this size. `Next` steps read the other pages.
    Open(CursorId, Select, Source, usize),
    /// Reads the next page of a SELECT that `Open` began. Does nothing after the last page.
    Next(CursorId),
    /// Advances the clock by this number of seconds.
    Advance(i64),
    Flush,
    Compact,
    /// Changes the grace period of the table to this number of seconds.
    AlterGrace(i64),
    /// Drops all snapshots, lets all deletions become old, and merges all runs. Then nothing may be left
    /// that could be purged.
    Purge,
    /// Restarts the server. Clients keep their paging states, and use them afterwards.
    Restart,
    Truncate,
    Add(Column),
    /// Drops a column, with the timestamp of USING TIMESTAMP, in microseconds, if there is one.
    Drop(ColumnId, Option<i64>),
    /// Creates an index, and waits until it is built.
    CreateIndex(IndexOn),
    DropIndex(IndexOn),
    CreateSnapshot(SnapshotId, Scope),
    DropSnapshot(SnapshotId),
}

pub type CursorId = usize;
pub type SnapshotId = usize;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Keyspace,
    Table,
}

/// A write request.
#[derive(Debug, Clone)]
pub struct Request {
    /// The one statement, or the statements of the batch: any number, even none.
    pub writes: Vec<Write>,
    pub form: Form,
    pub at: At,
    /// True if values are bound to markers, false if they are literals.
    pub binds: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A single statement.
    Single,
    /// BEGIN BATCH ... APPLY BATCH.
    Text,
    /// A BATCH message of the protocol, in place of the statement BEGIN BATCH.
    Frame,
}

/// The origin of the timestamps of a request. Numbers are microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Each statement has its own USING TIMESTAMP.
    Statements,
    /// The batch has one timestamp: BEGIN BATCH USING TIMESTAMP.
    Batch(i64),
    /// The protocol message has this default timestamp.
    Request(i64),
    Server,
}

/// The table that a SELECT reads, and the form of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Live,
    /// `FROM t USING SNAPSHOT s`.
    Snapshot(SnapshotId),
    /// `FROM "ks@s".t`.
    Keyspace(SnapshotId),
    /// `FROM ks__at__s.t`.
    Alias(SnapshotId),
}

impl Source {
    pub fn snapshot(self) -> Option<SnapshotId> {
        match self {
            Self::Live => None,
            Self::Snapshot(id) | Self::Keyspace(id) | Self::Alias(id) => Some(id),
        }
    }

    pub fn name(self) -> String {
        match self {
            Self::Live => "ks.t".to_owned(),
            Self::Snapshot(id) => format!("ks.t USING SNAPSHOT s{id}"),
            Self::Keyspace(id) => format!("\"ks@s{id}\".t"),
            Self::Alias(id) => format!("ks__at__s{id}.t"),
        }
    }
}
