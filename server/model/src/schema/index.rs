//! A secondary index: what of which column it is by, and under which values it has a row.
//!
//! A row is under the *form* of each of its values: the ordered form of a cell's value, of a
//! collection's elements or keys, or of an entry's key and then its value. Values that are
//! equal in CQL have one form. The keys of entries are those of [`crate::key`].

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Column, ColumnId, ColumnKind, SchemaError, TableSchema, invalid};
use crate::key::{KeyError, entry_prefix, ordered};
use crate::row::{LiveColumn, RowError, RowView};
use crate::types::identifier::Quoted;
use crate::types::{CqlType, TypeError};

/// The part of a column that an index has entries for. CQL and records spell it alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexTarget {
    /// The value of a column that is no collection.
    Simple,
    /// The elements of a list or set, or the values of a map.
    Values,
    /// The keys of a map.
    Keys,
    /// The keys of a map, each with its value.
    Entries,
    /// A frozen collection as a whole.
    Full,
}

impl IndexTarget {
    /// As CQL and records spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Simple => "simple",
            Self::Values => "values",
            Self::Keys => "keys",
            Self::Entries => "entries",
            Self::Full => "full",
        }
    }
}

impl fmt::Display for IndexTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An index of a table. The table's record contains it in this form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexSchema {
    /// Its number in the keys of its entries: no other index of its table ever has it.
    pub id: u32,
    /// Its name, which no other index of its keyspace has.
    pub name: Arc<str>,
    /// The column that it is by.
    pub column: ColumnId,
    /// What of it.
    pub target: IndexTarget,
    /// The rows from before it was created may not have their entries yet.
    #[serde(rename = "building")]
    pub is_building: bool,
}

/// What a value stands in.
#[derive(Debug, Clone, Copy)]
pub enum Indexed<'v> {
    /// A column of one cell.
    Cell(&'v [u8]),
    /// An element of a collection: its path, and its value.
    Element(&'v [u8], &'v [u8]),
}

/// An index and its column: what maintains and reads it asks these.
#[derive(Debug, Clone, Copy)]
pub struct IndexedColumn<'s> {
    /// The index.
    pub index: &'s IndexSchema,
    /// The column.
    pub column: &'s Column,
}

impl IndexedColumn<'_> {
    /// What the keys of the entries begin with under which a row is for this value of the
    /// column, as the stored row has it.
    ///
    /// # Errors
    /// Where the value is none of the column's type.
    pub fn prefix_of(&self, value: Indexed<'_>) -> Result<Vec<u8>, TypeError> {
        let mut form = Vec::new();
        match (value, self.index.target, &self.column.ty) {
            (Indexed::Cell(value), ..) => ordered::encode(&self.column.ty, value, &mut form)?,
            // The path of a member or key is its form.
            (Indexed::Element(_, value), _, CqlType::List { element, .. }) => {
                ordered::encode(element, value, &mut form)?;
            }
            (Indexed::Element(path, _), _, CqlType::Set { .. })
            | (Indexed::Element(path, _), IndexTarget::Keys, _) => form.extend(path),
            (Indexed::Element(path, value), target, CqlType::Map { value: ty, .. }) => {
                if target == IndexTarget::Entries {
                    form.extend(path);
                }
                ordered::encode(ty, value, &mut form)?;
            }
            (Indexed::Element(..), ..) => {
                return Err(TypeError::new(format!(
                    "{} is no collection",
                    self.column.ty
                )));
            }
        }
        Ok(entry_prefix(self.index.id, &form))
    }

    /// What the keys of the entries begin with under which rows are that have this value,
    /// key, or (of [`IndexTarget::Entries`]) this key and value.
    ///
    /// # Errors
    /// Where a value is none of its type.
    pub fn prefix_for(&self, wanted: &[&[u8]]) -> Result<Vec<u8>, TypeError> {
        let (target, ty) = (self.index.target, &self.column.ty);
        let types: Vec<&CqlType> = match (target, ty) {
            (IndexTarget::Keys, CqlType::Map { key, .. }) => vec![key],
            (IndexTarget::Entries, CqlType::Map { key, value, .. }) => vec![key, value],
            (IndexTarget::Values, CqlType::Map { value, .. }) => vec![value],
            (IndexTarget::Values, CqlType::List { element, .. } | CqlType::Set { element, .. }) => {
                vec![element]
            }
            _ => vec![ty],
        };
        let mut form = Vec::new();
        for (ty, value) in types.into_iter().zip(wanted) {
            ordered::encode(ty, value, &mut form)?;
        }
        Ok(entry_prefix(self.index.id, &form))
    }

    /// Hands `each` what [`prefix_of`](Self::prefix_of) says of everything that a reader sees
    /// of the column in a row, static or not. For columns that are of no key.
    ///
    /// # Errors
    /// Where the row is damaged.
    pub fn for_each_live(
        &self,
        row: &RowView<'_>,
        mut each: impl FnMut(Vec<u8>),
    ) -> Result<(), RowError> {
        let damaged = |_: TypeError| RowError::Damaged {
            what: "a value that is none of its type",
            offset: 0,
        };
        match row.column(self.column.id.0)? {
            None => {}
            Some(LiveColumn::Cell(cell)) => {
                each(self.prefix_of(Indexed::Cell(cell.value)).map_err(damaged)?);
            }
            Some(LiveColumn::Collection(collection)) => {
                for element in collection.elements() {
                    let element = element?;
                    let value = Indexed::Element(element.path, element.cell.value);
                    each(self.prefix_of(value).map_err(damaged)?);
                }
            }
        }
        Ok(())
    }

    /// What the key of the entry begins with under which a row of this clustering is, for an
    /// index by a clustering column.
    ///
    /// # Errors
    /// Where the clustering is none of the table.
    pub fn prefix_of_clustering(
        &self,
        table: &TableSchema,
        clustering: &[u8],
    ) -> Result<Vec<u8>, KeyError> {
        let values = table.layout().clustering_values(clustering)?;
        Ok(self.prefix_of(Indexed::Cell(&values[self.column.position]))?)
    }

    /// What the key of the entry begins with under which a partition is, for an index by a
    /// column of the partition key.
    ///
    /// # Errors
    /// Where the key is none of the table.
    pub fn prefix_of_partition(
        &self,
        table: &TableSchema,
        partition_key: &[u8],
    ) -> Result<Vec<u8>, KeyError> {
        let values = table.layout().partition_values(partition_key)?;
        Ok(self.prefix_of(Indexed::Cell(values[self.column.position]))?)
    }

    /// Whether its entries are of partitions, by their headers, and not of rows.
    pub fn is_of_partitions(&self) -> bool {
        matches!(
            self.column.kind,
            ColumnKind::PartitionKey | ColumnKind::Static
        )
    }

    /// What of the column it is by, as `CREATE INDEX` says it: `c`, `keys(c)`.
    pub fn target(&self) -> String {
        let column = Quoted(&self.column.name);
        match self.index.target {
            IndexTarget::Simple => column.to_string(),
            target => format!("{target}({column})"),
        }
    }
}

impl TableSchema {
    /// Its indexes, by name.
    pub fn indexes(&self) -> &[IndexSchema] {
        &self.indexes
    }

    /// Its indexes with their columns, by name.
    pub fn indexed_columns(&self) -> impl Iterator<Item = IndexedColumn<'_>> {
        self.indexes.iter().filter_map(|index| {
            let column = self.column_by_id(index.column)?;
            Some(IndexedColumn { index, column })
        })
    }

    /// An index with its column, by its number.
    pub fn indexed_column(&self, id: u32) -> Option<IndexedColumn<'_>> {
        self.indexed_columns().find(|one| one.index.id == id)
    }

    /// The numbers that indexes had that are gone, as ranges from a first to before a second.
    /// What lies in entries of these is nobody's.
    pub fn ids_of_no_index(&self) -> Vec<(u32, u32)> {
        let mut ids: Vec<u32> = self.indexes.iter().map(|index| index.id).collect();
        ids.sort_unstable();
        ids.push(self.next_index_id);
        let mut from = 0;
        let mut ranges = Vec::new();
        for id in ids {
            if from < id {
                ranges.push((from, id));
            }
            from = id.saturating_add(1);
        }
        ranges
    }

    /// What a target of `CREATE INDEX` means of a column: a collection that is not frozen is
    /// indexed by its values where nothing is said.
    ///
    /// # Errors
    /// What Cassandra refuses, in its words.
    pub fn check_index(
        &self,
        column: &str,
        target: IndexTarget,
    ) -> Result<IndexTarget, SchemaError> {
        let Some(column) = self.column(column) else {
            return invalid(format!(
                "Undefined column name {column} in table {}.{}",
                self.keyspace, self.name
            ));
        };
        let (name, ty) = (&column.name, &column.ty);
        let target = match target {
            IndexTarget::Simple if ty.is_collection() => IndexTarget::Values,
            target => target,
        };
        if ty.contains_duration() {
            return invalid(match ty {
                CqlType::Tuple(_) => {
                    "Secondary indexes are not supported on tuples containing durations"
                }
                CqlType::Udt { .. } => {
                    "Secondary indexes are not supported on UDTs containing durations"
                }
                ty if ty.is_collection() => {
                    "Secondary indexes are not supported on collections containing durations"
                }
                _ => "Secondary indexes are not supported on duration columns",
            });
        }
        let is_alone = self.columns_of(ColumnKind::PartitionKey).len() == 1;
        if column.kind == ColumnKind::PartitionKey && is_alone {
            return invalid(format!(
                "Cannot create secondary index on the only partition key column {name}"
            ));
        }
        let is_frozen = ty.is_collection() && !ty.is_multi_cell();
        if is_frozen && target != IndexTarget::Full {
            return invalid(format!(
                "Cannot create {target}() index on frozen column {name}. Frozen collections only \
                 support full() indexes"
            ));
        }
        if !is_frozen && target == IndexTarget::Full {
            return invalid("full() indexes can only be created on frozen collections");
        }
        if !ty.is_collection() && target != IndexTarget::Simple {
            return invalid(format!(
                "Cannot create {target}() index on {name}. Non-collection columns only support \
                 simple indexes"
            ));
        }
        let by_key = matches!(target, IndexTarget::Keys | IndexTarget::Entries);
        if by_key && !matches!(ty, CqlType::Map { frozen: false, .. }) {
            return invalid(format!(
                "Cannot create index on {target} of column {name} with non-map type"
            ));
        }
        if matches!(ty, CqlType::Udt { frozen: false, .. }) {
            return invalid(format!(
                "Cannot create index on non-frozen UDT column {name}"
            ));
        }
        Ok(target)
    }

    /// The index by this of a column, if there is one.
    pub fn index_by(&self, column: &str, target: IndexTarget) -> Option<&IndexSchema> {
        let column = self.column(column)?.id;
        let mut indexes = self.indexes.iter();
        indexes.find(|index| index.column == column && index.target == target)
    }

    /// The table with one more index, which is to be built.
    ///
    /// # Errors
    /// As [`check_index`](Self::check_index), and for a name that can be none.
    pub fn create_index(
        &self,
        name: &str,
        column: &str,
        target: IndexTarget,
    ) -> Result<Self, SchemaError> {
        let target = self.check_index(column, target)?;
        check_index_name(name)?;
        let Some(column) = self.column(column) else {
            return invalid(format!("Column '{column}' doesn't exist"));
        };
        let mut next = self.clone();
        next.indexes.push(IndexSchema {
            id: self.next_index_id,
            name: name.into(),
            column: column.id,
            target,
            is_building: true,
        });
        next.next_index_id = match self.next_index_id.checked_add(1) {
            Some(id) => id,
            None => return invalid("The table had as many indexes as a table can have"),
        };
        next.checked()
    }

    /// The table without an index; as it is where it has none of this name.
    #[must_use]
    pub fn drop_index(&self, name: &str) -> Self {
        let mut next = self.clone();
        next.indexes.retain(|index| *index.name != *name);
        next
    }

    /// The table whose index of this number is built; as it is where it has none.
    #[must_use]
    pub fn with_index_built(&self, id: u32) -> Self {
        let mut next = self.clone();
        let mut indexes = next.indexes.iter_mut();
        if let Some(index) = indexes.find(|index| index.id == id) {
            index.is_building = false;
        }
        next
    }

    /// The table as if all its indexes were built.
    #[must_use]
    pub(super) fn with_indexes_built(&self) -> Self {
        let mut next = self.clone();
        for index in &mut next.indexes {
            index.is_building = false;
        }
        next
    }

    /// The table with those indexes only that have an entry for each row: what a snapshot can
    /// be read by.
    #[must_use]
    pub fn without_unbuilt_indexes(mut self) -> Self {
        self.indexes.retain(|index| !index.is_building);
        self
    }

    /// Refuses to change a column that indexes are by.
    pub(super) fn check_not_indexed(&self, what: &str, column: &Column) -> Result<(), SchemaError> {
        let indexes = self.indexes.iter();
        let indexes: Vec<&str> = indexes
            .filter(|index| index.column == column.id)
            .map(|index| &*index.name)
            .collect();
        if indexes.is_empty() {
            return Ok(());
        }
        invalid(format!(
            "Cannot {what} column {} because it has dependent secondary indexes ({})",
            column.name,
            indexes.join(", ")
        ))
    }
}

/// Holds an index's name to Cassandra's rules.
pub(super) fn check_index_name(name: &str) -> Result<(), SchemaError> {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    match !name.is_empty() && name.bytes().all(word) {
        true => Ok(()),
        false => Err(SchemaError::Configuration(format!(
            "Illegal index name {name}"
        ))),
    }
}

/// The name of an index on a column where none is given.
pub(super) fn default_index_name(table: &str, column: &str) -> String {
    let word = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    format!("{table}_{column}_idx")
        .chars()
        .filter(word)
        .collect()
}
