//! The rights of a publisher in a table.

/// The rights of a publisher in a table of a target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rights {
    /// True if a commit may move an existing tag that has the name of the snapshot. If it is false, and
    /// such a tag names an Iceberg snapshot of another publication, the commit is refused.
    pub replaces_tag: bool,
    /// True if a commit may take over a table that another database, or another copy of this one, has
    /// published. If it is false, such a table is refused.
    pub takes_over: bool,
    /// The epochs that the database has recorded for the table. The caller must read them after it has opened
    /// the table: another publisher of the database may commit at any time.
    pub own_epochs: Vec<String>,
}
