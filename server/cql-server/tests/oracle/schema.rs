//! The table of a run.

use super::index::IndexOn;
use super::text::Text;
use super::value::{FIELDS, Type, Value};

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

/// A clustering column. The model has small numbers as its values.
#[derive(Debug, Clone, Copy)]
pub struct ClusteringColumn {
    pub is_descending: bool,
    /// True for a timestamp, false for an int. The timestamp with the number `n` is `n` times
    /// [`STEP_MS`].
    pub is_time: bool,
}

/// The time between two timestamps of a clustering column, in milliseconds. It is half an hour, so
/// that `floor(c, 1h)` puts two timestamps into one group.
pub const STEP_MS: i64 = HOUR_MS / 2;
pub const HOUR_MS: i64 = 3_600_000;

impl ClusteringColumn {
    fn cql(self) -> &'static str {
        if self.is_time { "timestamp" } else { "int" }
    }

    /// Appends the value of the column that the model represents by `number`.
    pub fn write(self, number: i32, text: &mut Text) {
        let value = if self.is_time {
            Value::Bigint(i64::from(number) * STEP_MS)
        } else {
            Value::Int(number)
        };
        // Integers have the same literals and bytes in every type.
        text.value(Type::Int, Some(&value));
    }

    /// Decodes a value of the column to the number that represents it in the model; `None` if no
    /// number does.
    pub fn read(self, bytes: &[u8]) -> Option<Value> {
        if !self.is_time {
            return Value::read(Type::Int, bytes);
        }
        let time_ms = i64::from_be_bytes(bytes.try_into().ok()?);
        let number = i32::try_from(time_ms / STEP_MS).ok()?;
        (time_ms % STEP_MS == 0).then_some(Value::Int(number))
    }
}

/// The columns and options of a table.
#[derive(Debug, Clone)]
pub struct Schema {
    /// The number of columns of the partition key: 1 or 2, all ints.
    pub partition: usize,
    pub clustering: Vec<ClusteringColumn>,
    pub columns: Vec<Column>,
    /// The indexes, at most one for each target.
    pub indexes: Vec<IndexOn>,
    /// The default TTL in seconds; 0 for none.
    pub default_ttl_s: i64,
    /// The seconds after which deletions may be purged. After changes, the least number so far.
    pub gc_grace_s: i64,
}

pub const PARTITION: [&str; 2] = ["k", "j"];
pub const CLUSTERING: [&str; 3] = ["c", "d", "g"];

/// Returns the `CREATE TYPE` of the user-defined type `pair`, the type of the columns of
/// [`Type::Udt`] and, frozen, of [`Type::FrozenUdt`].
pub fn create_type() -> String {
    let fields = FIELDS.map(|field| format!("{field} int"));
    format!("CREATE TYPE pair ({})", fields.join(", "))
}

impl Schema {
    pub fn create_table(&self) -> String {
        let (partition, clustering) = (self.partition_names(), self.clustering_names());
        let of_partition = partition.iter().map(|name| format!("{name} int"));
        let of_rows = clustering.iter().zip(&self.clustering);
        let of_rows = of_rows.map(|(name, column)| format!("{name} {}", column.cql()));
        let columns: Vec<String> = of_partition
            .chain(of_rows)
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
        let columns = columns.map(|(name, column)| {
            if column.is_descending != reversed {
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
