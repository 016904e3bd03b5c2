//! What a run does, as data: so it can be made shorter when it fails.

use super::counters::Count;
use super::index::IndexOn;
use super::schema::{Column, ColumnId};
use super::select::Select;
use super::write::Write;

#[derive(Debug, Clone)]
pub enum Step {
    Write(Request),
    /// One with IF, a second later: then the server's timestamp is above all others.
    Conditional(Request),
    /// On the table of counters.
    Count(Count),
    /// Read to its end: at once, or in pages of some rows.
    Select(Select, Source, Option<usize>),
    /// Begins to read in pages of some rows.
    Open(CursorId, Select, Source, usize),
    /// The next page, whatever happened in between.
    Next(CursorId),
    /// Seconds go by.
    Advance(i64),
    Flush,
    Compact,
    /// The server stops and starts again; clients go on where they were.
    Restart,
    Truncate,
    Add(Column),
    /// With a timestamp, if the statement says one.
    Drop(ColumnId, Option<i64>),
    /// And waits until it is built.
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

/// One request that writes.
#[derive(Debug, Clone)]
pub struct Request {
    /// One, or a batch of any number.
    pub writes: Vec<Write>,
    pub form: Form,
    pub at: At,
    /// Values are bound to markers.
    pub binds: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A statement by itself.
    Single,
    /// BEGIN BATCH ... APPLY BATCH.
    Text,
    /// The protocol's BATCH.
    Frame,
}

/// Where timestamps come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Each statement says its own.
    Statements,
    /// BEGIN BATCH USING TIMESTAMP.
    Batch(i64),
    /// The request has one beside its statements.
    Request(i64),
    Server,
}

/// What a SELECT reads.
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
