//! The table of a run.

use super::index::IndexOn;
use super::value::{FIELDS, Type};

/// The identity of a column, which cells refer to. A column that is dropped and added again has the
/// same id.
pub type ColumnId = u32;

/// A static or regular column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub id: ColumnId,
    pub name: String,
    pub ty: Type,
    pub is_static: bool,
}

impl Column {
    /// Returns the definition of the column in CREATE TABLE, such as `v int` or
    /// `s set<int> STATIC`.
    pub fn definition(&self) -> String {
        let suffix = if self.is_static { " STATIC" } else { "" };
        format!("{} {}{suffix}", self.name, self.ty.cql())
    }
}

/// The columns and options of a table.
#[derive(Debug, Clone)]
pub struct Schema {
    /// The number of columns of the partition key: 1 or 2, all ints.
    pub partition: usize,
    /// The clustering columns, all of them ints: true for a column in descending order.
    pub clustering: Vec<bool>,
    pub columns: Vec<Column>,
    /// The indexes, at most one for each target.
    pub indexes: Vec<IndexOn>,
    /// The default TTL in seconds; 0 for none.
    pub default_ttl_s: i64,
    /// The seconds after which deletions may be purged.
    pub gc_grace_s: i64,
}

pub const PARTITION: [&str; 2] = ["k", "j"];
pub const CLUSTERING: [&str; 3] = ["c", "d", "g"];

/// Returns the `CREATE TYPE` of the user-defined type `pair`. Columns of [`Type::Udt`] have this
/// type, frozen or not.
pub fn create_type() -> String {
    let fields = FIELDS.map(|field| format!("{field} int"));
    format!("CREATE TYPE pair ({})", fields.join(", "))
}

impl Schema {
    pub fn create_table(&self) -> String {
        let (partition, clustering) = (self.partition_names(), self.clustering_names());
        let keys = partition.iter().chain(clustering);
        let keys = keys.map(|name| format!("{name} int"));
        let columns: Vec<String> = keys
            .chain(self.columns.iter().map(Column::definition))
            .collect();
        let key: Vec<String> = [format!("({})", partition.join(", "))]
            .into_iter()
            .chain(clustering.iter().map(ToString::to_string))
            .collect();
        let order = if self.clustering.is_empty() {
            String::new()
        } else {
            format!("CLUSTERING ORDER BY ({}) AND ", self.order(false))
        };
        format!(
            "CREATE TABLE t ({}, PRIMARY KEY ({})) WITH {order}default_time_to_live = {} AND \
             gc_grace_seconds = {}",
            columns.join(", "),
            key.join(", "),
            self.default_ttl_s,
            self.gc_grace_s
        )
    }

    pub fn partition_names(&self) -> &'static [&'static str] {
        &PARTITION[..self.partition]
    }

    pub fn clustering_names(&self) -> &'static [&'static str] {
        &CLUSTERING[..self.clustering.len()]
    }

    /// Returns an ORDER BY such as `c DESC, d ASC`: the order of the table or, if `reversed`, its
    /// reverse.
    pub fn order(&self, reversed: bool) -> String {
        let columns = self.clustering_names().iter().zip(&self.clustering);
        let columns = columns.map(|(name, desc)| {
            if *desc != reversed {
                format!("{name} DESC")
            } else {
                format!("{name} ASC")
            }
        });
        columns.collect::<Vec<_>>().join(", ")
    }

    pub fn column(&self, id: ColumnId) -> Option<&Column> {
        self.columns.iter().find(|column| column.id == id)
    }

    pub fn statics(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| column.is_static)
    }

    pub fn regular(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| !column.is_static)
    }
}
