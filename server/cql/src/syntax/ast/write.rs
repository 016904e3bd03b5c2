//! INSERT, UPDATE, DELETE, BATCH.

use super::{Condition, Name, Part, QualifiedName, Relation, Term};

/// A statement that writes rows of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// `INSERT`.
    Insert(Insert),
    /// `UPDATE`.
    Update(Update),
    /// `DELETE`.
    Delete(Delete),
}

/// `INSERT INTO t ... [IF NOT EXISTS] [USING ...]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Insert {
    /// The table.
    pub table: QualifiedName,
    /// The row.
    pub source: InsertSource,
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// `USING TIMESTAMP a AND TTL b`.
    pub using: Using,
}

/// Where INSERT takes its row from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InsertSource {
    /// `(a, b) VALUES (1, 2)`. The lists may differ in length.
    Values {
        /// At least one, as written.
        columns: Vec<Name>,
        /// At least one, as written.
        values: Vec<Term>,
    },
    /// `JSON '...' [DEFAULT NULL | DEFAULT UNSET]`.
    Json {
        /// A string ([`Term::Constant`]) or a [`Term::Marker`].
        value: Term,
        /// `DEFAULT UNSET`: columns that are not in the text stay as they are.
        default_unset: bool,
    },
}

/// `USING TIMESTAMP a AND TTL b`, in any order. Each is a [`Term::Constant`] (integer) or
/// a [`Term::Marker`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Using {
    /// Microseconds since 1970.
    pub timestamp: Option<Term>,
    /// Seconds.
    pub ttl: Option<Term>,
}

/// `UPDATE t [USING ...] SET ... WHERE ... [IF ...]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The table.
    pub table: QualifiedName,
    /// `USING TIMESTAMP a AND TTL b`.
    pub using: Using,
    /// At least one, as written; a column may stand in several.
    pub assignments: Vec<Assignment>,
    /// Which rows; all of them must hold.
    pub relations: Vec<Relation>,
    /// `IF ...`.
    pub condition: Condition,
}

/// What UPDATE does to one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The column.
    pub column: Name,
    /// What happens to it.
    pub change: Change,
}

/// What happens to a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// `c = v`.
    Set(Term),
    /// `c = c + v`, `c += v`: counter, list, set, map.
    Add(Term),
    /// `c = c - v`, `c -= v`: counter, list, set, map.
    Subtract(Term),
    /// `c = v + c`: list.
    Prepend(Term),
    /// `c[k] = v`: map, list.
    Element {
        /// The key or the index.
        key: Term,
        /// What it becomes.
        value: Term,
    },
    /// `c.f = v`: user-defined type.
    Field {
        /// The field.
        field: Name,
        /// What it becomes.
        value: Term,
    },
}

/// `DELETE [...] FROM t [USING TIMESTAMP a] WHERE ... [IF ...]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delete {
    /// What of each row; empty: all of it.
    pub targets: Vec<DeleteTarget>,
    /// The table.
    pub table: QualifiedName,
    /// `USING TIMESTAMP a`: microseconds since 1970, a [`Term::Constant`] (integer) or a
    /// [`Term::Marker`].
    pub timestamp: Option<Term>,
    /// Which rows; all of them must hold.
    pub relations: Vec<Relation>,
    /// `IF ...`.
    pub condition: Condition,
}

/// `c`, `c[k]`, `c.f`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeleteTarget {
    /// The column.
    pub column: Name,
    /// What of it.
    pub part: Part,
}

/// `BEGIN [UNLOGGED | COUNTER] BATCH [USING ...] ... APPLY BATCH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Which kind.
    pub kind: BatchKind,
    /// `USING TIMESTAMP a`; a TTL is written down although Cassandra refuses it.
    pub using: Using,
    /// What is written, perhaps nothing.
    pub writes: Vec<Write>,
}

/// The kinds of batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BatchKind {
    /// `BEGIN BATCH`.
    #[default]
    Logged,
    /// `BEGIN UNLOGGED BATCH`.
    Unlogged,
    /// `BEGIN COUNTER BATCH`.
    Counter,
}
