//! The table of a run.

use super::index::IndexOn;
use super::value::{FIELDS, Type};

/// Of which columns say whose cells are whose. One that is dropped and added again keeps it.
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
    /// `v int`, `s set<int> STATIC`.
    pub fn definition(&self) -> String {
        let suffix = if self.is_static { " STATIC" } else { "" };
        format!("{} {}{suffix}", self.name, self.ty.cql())
    }
}

/// A table's columns and options.
#[derive(Debug, Clone)]
pub struct Schema {
    /// How many columns the partition key has: 1 or 2, all ints.
    pub partition: usize,
    /// Of each clustering column, an int, whether it is DESC.
    pub clustering: Vec<bool>,
    pub columns: Vec<Column>,
    /// No two on the same.
    pub indexes: Vec<IndexOn>,
    /// Seconds; 0 is for ever.
    pub default_ttl_s: i64,
    /// After so many seconds deletions may go.
    pub gc_grace_s: i64,
}

pub const PARTITION: [&str; 2] = ["k", "j"];
pub const CLUSTERING: [&str; 3] = ["c", "d", "g"];

/// `CREATE TYPE` of [`Type::Udt`] and its frozen form.
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
        let order = match self.clustering.is_empty() {
            true => String::new(),
            false => format!("CLUSTERING ORDER BY ({}) AND ", self.order(false)),
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

    /// `c DESC, d ASC`: the table's own order, or the other way round.
    pub fn order(&self, reversed: bool) -> String {
        let columns = self.clustering_names().iter().zip(&self.clustering);
        let columns = columns.map(|(name, desc)| match *desc != reversed {
            true => format!("{name} DESC"),
            false => format!("{name} ASC"),
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
