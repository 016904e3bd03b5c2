//! Syntax trees of INSERT, UPDATE, DELETE, BATCH.

use super::{Condition, Name, Part, QualifiedName, Relation, Term};

/// A statement that writes rows of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    Insert(Insert),
    Update(Update),
    Delete(Delete),
}

/// `INSERT INTO t ... [IF NOT EXISTS] [USING ...]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Insert {
    pub table: QualifiedName,
    pub source: InsertSource,
    pub if_not_exists: bool,
    pub using: Using,
}

/// The source of an INSERT's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InsertSource {
    /// `(a, b) VALUES (1, 2)`. The lists may differ in length.
    Values {
        /// The columns as written, at least one.
        columns: Vec<Name>,
        /// The values as written, at least one.
        values: Vec<Term>,
    },
    /// `JSON '...' [DEFAULT NULL | DEFAULT UNSET]`.
    Json {
        /// A string ([`Term::Constant`]) or a [`Term::Marker`].
        value: Term,
        /// `DEFAULT UNSET`: columns that are not in the text stay unchanged.
        default_unset: bool,
    },
}

/// `USING TIMESTAMP a AND TTL b`, in any order. Each is a [`Term::Constant`] (integer) or
/// a [`Term::Marker`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Using {
    /// The timestamp in microseconds since 1970.
    pub timestamp: Option<Term>,
    /// The time to live in seconds.
    pub ttl: Option<Term>,
}

/// `UPDATE t [USING ...] SET ... WHERE ... [IF ...]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    pub table: QualifiedName,
    pub using: Using,
    /// The assignments as written, at least one; a column may occur in several.
    pub assignments: Vec<Assignment>,
    /// The conditions of WHERE. The updated rows satisfy all of them.
    pub relations: Vec<Relation>,
    pub condition: Condition,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    pub column: Name,
    pub change: Change,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// `c = v`.
    Set(Term),
    /// `c = c + v`, `c += v`: of a counter, list, set or map.
    Add(Term),
    /// `c = c - v`, `c -= v`: of a counter, list, set or map.
    Subtract(Term),
    /// `c = v + c`: of a list.
    Prepend(Term),
    /// `c[k] = v`: of a map or list.
    Element {
        /// The key or the index.
        key: Term,
        value: Term,
    },
    /// `c.f = v`: of a user-defined type.
    Field { field: Name, value: Term },
}

/// `DELETE [...] FROM t [USING TIMESTAMP a] WHERE ... [IF ...]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delete {
    /// The deleted parts of each row; empty for the whole row.
    pub targets: Vec<DeleteTarget>,
    pub table: QualifiedName,
    /// `USING TIMESTAMP a`: microseconds since 1970, a [`Term::Constant`] (integer) or a
    /// [`Term::Marker`].
    pub timestamp: Option<Term>,
    /// The conditions of WHERE. The deleted rows satisfy all of them.
    pub relations: Vec<Relation>,
    pub condition: Condition,
}

/// `c`, `c[k]`, `c.f`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeleteTarget {
    pub column: Name,
    pub part: Part,
}

/// `BEGIN [UNLOGGED | COUNTER] BATCH [USING ...] ... APPLY BATCH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    pub kind: BatchKind,
    /// `USING TIMESTAMP a`; a TTL is parsed although Cassandra rejects it.
    pub using: Using,
    /// The writes of the batch, possibly none.
    pub writes: Vec<Write>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BatchKind {
    #[default]
    Logged,
    Unlogged,
    Counter,
}
