//! Secondary indexes: the indexed part of a column, and the prefixes of the index entries.
//!
//! The entries of a row contain the *form* of each of its indexed values: the ordered encoding of a
//! cell's value, of a collection's elements or keys, or of an entry's key and then its value.
//! Values that are equal in CQL have equal forms. [`crate::key`] describes the keys of entries.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Column, ColumnId, ColumnKind, SchemaError, TableSchema, check_name_length, invalid};
use crate::key::ordered::{self, DecodeError, EncodeError};
use crate::key::{KeyError, entry_prefix};
use crate::row::{LiveColumn, RowError, RowView};
use crate::types::identifier::Quoted;
use crate::types::{Charge, CqlType, TypeError};

/// The indexed part of a column.
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
    /// Returns the word for this target in stored records and in error messages. In CREATE INDEX it
    /// stands before the column, except `simple`, which CREATE INDEX does not write.
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
    /// The id of the index in the keys of its entries. No other index of its table ever has this
    /// id.
    pub id: u32,
    /// The name, unique among the indexes of the keyspace.
    pub name: Arc<str>,
    /// The indexed column.
    pub column: ColumnId,
    /// The indexed part of the column.
    pub target: IndexTarget,
    /// True until the index is built: rows from before its creation may have no entries yet.
    #[serde(rename = "building")]
    pub is_building: bool,
}

/// A stored value that is indexed.
#[derive(Debug, Clone, Copy)]
pub enum Indexed<'v> {
    /// The value of a column that is stored as a whole, unlike a collection that is not frozen.
    Cell(&'v [u8]),
    /// An element of a collection. The first bytes are the path by which it is stored: the ordered
    /// form of a map's key or a set's element, or the place in a list. The second bytes are its
    /// value, empty in a set.
    Element(&'v [u8], &'v [u8]),
}

/// The bytes that Cassandra adds to an entry of a map that it indexes: two of length and one of end
/// for the key, and the same for the value.
const ENTRY_FRAMING_LEN: usize = 6;

/// Returns the length, in native serialization, of a map's key or a set's element of the type `ty`.
/// `path` is that key or element in ordered form. Reports the work to `charge`, as
/// [`ordered::decode`] does.
///
/// # Errors
/// If `path` is no ordered form of the type; the error of `charge`.
pub fn len_in_path<E>(
    ty: &CqlType,
    path: &[u8],
    charge: Charge<'_, E>,
) -> Result<usize, EncodeError<E>> {
    match ordered::decode(ty, &mut ordered::Reader::new(path, false), charge) {
        Ok(key) => Ok(key.len()),
        Err(DecodeError::Damaged(malformed)) => Err(TypeError::new(malformed.what).into()),
        Err(DecodeError::Charge(error)) => Err(EncodeError::Charge(error)),
    }
}

/// An index together with its column. It computes the prefixes that writers and readers of entries
/// need.
#[derive(Debug, Clone, Copy)]
pub struct IndexedColumn<'s> {
    /// The index of the column.
    pub index: &'s IndexSchema,
    /// The indexed column.
    pub column: &'s Column,
}

impl IndexedColumn<'_> {
    /// Returns the key prefix of the index entries for a value as it is stored in a row. Reports to
    /// `charge` the length of the value before it copies the value, and then the work of
    /// [`ordered::try_encode`].
    ///
    /// # Errors
    /// If the value is invalid for the column's type; the error of `charge`.
    pub fn prefix_of<E>(
        &self,
        value: Indexed<'_>,
        charge: Charge<'_, E>,
    ) -> Result<Vec<u8>, EncodeError<E>> {
        let stored_len = match value {
            Indexed::Cell(value) => value.len(),
            Indexed::Element(path, value) => path.len() + value.len(),
        };
        charge(stored_len).map_err(EncodeError::Charge)?;
        let mut form = Vec::new();
        match (value, self.index.target, &self.column.ty) {
            (Indexed::Cell(value), _, ty) => ordered::try_encode(ty, value, &mut form, charge)?,
            // The path of a set's element and of a map's key is already its form.
            (Indexed::Element(_, value), _, CqlType::List { element, .. }) => {
                ordered::try_encode(element, value, &mut form, charge)?;
            }
            (Indexed::Element(path, _), _, CqlType::Set { .. })
            | (Indexed::Element(path, _), IndexTarget::Keys, _) => form.extend(path),
            (Indexed::Element(path, value), target, CqlType::Map { value: ty, .. }) => {
                if target == IndexTarget::Entries {
                    form.extend(path);
                }
                ordered::try_encode(ty, value, &mut form, charge)?;
            }
            (Indexed::Element(..), ..) => {
                let problem = format!("{} is no collection", self.column.ty);
                return Err(TypeError::new(problem).into());
            }
        }
        Ok(entry_prefix(self.index.id, &form))
    }

    /// Returns the length that Cassandra compares with its limit on indexed values: that of the
    /// indexed part in native serialization. For [`IndexTarget::Entries`], this is the length of
    /// the map's key and value together, and six bytes that Cassandra adds. Calls `charge` as
    /// [`ordered::decode`] does, because the length of a key or member is known only after its path
    /// is decoded.
    ///
    /// # Errors
    /// If the value is invalid for the column's type; the error of `charge`.
    pub fn value_len<E>(
        &self,
        value: Indexed<'_>,
        charge: Charge<'_, E>,
    ) -> Result<usize, EncodeError<E>> {
        let (path, value) = match value {
            Indexed::Cell(value) => return Ok(value.len()),
            Indexed::Element(path, value) => (path, value),
        };
        match (self.index.target, &self.column.ty) {
            (_, CqlType::Set { element, .. }) => len_in_path(element, path, charge),
            (IndexTarget::Keys, CqlType::Map { key, .. }) => len_in_path(key, path, charge),
            (IndexTarget::Entries, CqlType::Map { key, .. }) => {
                Ok(len_in_path(key, path, charge)? + value.len() + ENTRY_FRAMING_LEN)
            }
            _ => Ok(value.len()),
        }
    }

    /// Returns the key prefix of the index entries of all rows that a search finds. `requested` is
    /// the searched value: for [`IndexTarget::Keys`] a map key, for [`IndexTarget::Entries`] a map
    /// key and its value, otherwise a single value.
    ///
    /// # Errors
    /// If a value is invalid for its type.
    pub fn prefix_for(&self, requested: &[&[u8]]) -> Result<Vec<u8>, TypeError> {
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
        for (ty, value) in types.into_iter().zip(requested) {
            ordered::encode(ty, value, &mut form)?;
        }
        Ok(entry_prefix(self.index.id, &form))
    }

    /// Calls `each` with the result of [`prefix_of`](Self::prefix_of) for every live value of the
    /// column in a row, static or not. Only for columns outside the primary key.
    ///
    /// Leaves out values that are or contain a decimal that is too long for an ordered form, because
    /// no statement can search for them. Such values are older than the index, or a job has written
    /// them: a statement cannot write them into an indexed column.
    ///
    /// # Errors
    /// If the row is damaged; the error of `charge`.
    pub fn for_each_live<E>(
        &self,
        row: &RowView<'_>,
        charge: Charge<'_, E>,
        mut each: impl FnMut(Vec<u8>),
    ) -> Result<(), DecodeError<RowError, E>> {
        let mut add = |value: Indexed<'_>| match self.prefix_of(value, charge) {
            Ok(prefix) => {
                each(prefix);
                Ok(())
            }
            Err(EncodeError::TooLong(_)) => Ok(()),
            Err(EncodeError::Value(_)) => Err(DecodeError::Damaged(RowError::Damaged {
                what: "a value that is none of its type",
                offset: 0,
            })),
            Err(EncodeError::Charge(error)) => Err(DecodeError::Charge(error)),
        };
        match row.column(self.column.id.0)? {
            None => {}
            Some(LiveColumn::Cell(cell)) => add(Indexed::Cell(cell.value))?,
            Some(LiveColumn::Collection(collection)) => {
                for element in collection.elements() {
                    let element = element?;
                    add(Indexed::Element(element.path, element.cell.value))?;
                }
            }
        }
        Ok(())
    }

    /// Returns the key prefix of the index entry of a row with this clustering, for an index on a
    /// clustering column.
    ///
    /// # Errors
    /// If the clustering is invalid for the table.
    pub fn prefix_of_clustering(
        &self,
        table: &TableSchema,
        clustering: &[u8],
    ) -> Result<Vec<u8>, KeyError> {
        let form = table
            .layout()
            .clustering_form(clustering, self.column.position)?;
        Ok(entry_prefix(self.index.id, &form))
    }

    /// Returns the key prefix of the index entry of a partition, for an index on a column of the
    /// partition key. Reports the work to the callback `charge`, as [`prefix_of`](Self::prefix_of)
    /// does.
    ///
    /// # Errors
    /// If the key is invalid for the table; the error of `charge`.
    pub fn prefix_of_partition<E>(
        &self,
        table: &TableSchema,
        partition_key: &[u8],
        charge: Charge<'_, E>,
    ) -> Result<Vec<u8>, DecodeError<KeyError, E>> {
        let values = table.layout().partition_values(partition_key)?;
        let prefix = self.prefix_of(Indexed::Cell(values[self.column.position]), charge);
        prefix.map_err(|error| match error {
            EncodeError::Value(error) | EncodeError::TooLong(error) => {
                DecodeError::Damaged(error.into())
            }
            EncodeError::Charge(error) => DecodeError::Charge(error),
        })
    }

    /// Returns whether an entry refers to a partition, not to a row, because the column is static
    /// or part of the partition key. Such an entry ends with the key of the partition's header,
    /// even if the partition has no stored header.
    pub fn is_of_partitions(&self) -> bool {
        matches!(
            self.column.kind,
            ColumnKind::PartitionKey | ColumnKind::Static
        )
    }

    /// Returns the target as in `CREATE INDEX`: `c`, `keys(c)`.
    pub fn target(&self) -> String {
        let column = Quoted(&self.column.name);
        match self.index.target {
            IndexTarget::Simple => column.to_string(),
            target => format!("{target}({column})"),
        }
    }
}

impl TableSchema {
    /// Returns the indexes in the order of their names.
    pub fn indexes(&self) -> &[IndexSchema] {
        &self.indexes
    }

    /// Returns the indexes with their columns, in the order of their names.
    pub fn indexed_columns(&self) -> impl Iterator<Item = IndexedColumn<'_>> {
        self.indexes.iter().filter_map(|index| {
            let column = self.column_by_id(index.column)?;
            Some(IndexedColumn { index, column })
        })
    }

    /// Returns an index and its column by the id of the index; `None` if there is no such index.
    pub fn indexed_column(&self, id: u32) -> Option<IndexedColumn<'_>> {
        self.indexed_columns().find(|one| one.index.id == id)
    }

    /// Returns the ids of dropped indexes as ranges. Each pair is the first id of a range, and the
    /// id after its last one. Index entries with these ids are garbage.
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

    /// Checks that an index on this part of a column is possible. Returns the target that the index
    /// then has: [`IndexTarget::Values`] for [`IndexTarget::Simple`] of a collection, otherwise
    /// `target`.
    ///
    /// # Errors
    /// Cassandra's messages. The checks have the order of Cassandra's
    /// `CreateIndexStatement.validateIndexTarget`, so that ebb returns the same error if several
    /// apply.
    pub fn check_index(
        &self,
        column: &str,
        target: IndexTarget,
    ) -> Result<IndexTarget, SchemaError> {
        let Some(column) = self.column(column) else {
            return self.undefined(column);
        };
        let (name, ty) = (&column.name, &column.ty);
        // Also of a frozen one, whose error below then names values().
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
        // Such an index would find what the key finds by itself.
        let is_alone = self.columns_of(ColumnKind::PartitionKey).len() == 1;
        if column.kind == ColumnKind::PartitionKey && is_alone {
            return invalid(format!(
                "Cannot create secondary index on the only partition key column {name}"
            ));
        }
        let is_frozen = ty.is_collection() && !ty.is_multi_cell();
        if is_frozen && target != IndexTarget::Full {
            return invalid(format!(
                "Cannot create {target}() index on frozen column {name}. Frozen collections are \
                 immutable and must be fully indexed by using the 'full({name})' modifier"
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

    /// Returns the index on this part of a column, if there is one.
    pub fn index_by(&self, column: &str, target: IndexTarget) -> Option<&IndexSchema> {
        let column = self.column(column)?.id;
        let mut indexes = self.indexes.iter();
        indexes.find(|index| index.column == column && index.target == target)
    }

    /// Returns the table with one more index, which has yet to be built.
    ///
    /// # Errors
    /// The errors of [`check_index`](Self::check_index), and one if the name is invalid or too
    /// long, or if the table has used up all ids of indexes.
    pub fn create_index(
        &self,
        name: &str,
        column: &str,
        target: IndexTarget,
    ) -> Result<Self, SchemaError> {
        let target = self.check_index(column, target)?;
        check_name_length("Index", name)?;
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

    /// Returns the table without an index; unchanged if it has no index of this name.
    #[must_use]
    pub fn drop_index(&self, name: &str) -> Self {
        let mut next = self.clone();
        next.indexes.retain(|index| *index.name != *name);
        next
    }

    /// Returns the table with an index marked as built; unchanged if it has no index of this id.
    #[must_use]
    pub fn with_index_built(&self, id: u32) -> Self {
        let mut next = self.clone();
        let mut indexes = next.indexes.iter_mut();
        if let Some(index) = indexes.find(|index| index.id == id) {
            index.is_building = false;
        }
        next
    }

    /// Returns the table with all its indexes marked as built.
    #[must_use]
    pub(super) fn with_indexes_built(&self) -> Self {
        let mut next = self.clone();
        for index in &mut next.indexes {
            index.is_building = false;
        }
        next
    }

    /// Returns the table without the indexes that are still being built. A read of a snapshot must
    /// not use these, because rows without entries would be missing from its result.
    #[must_use]
    pub fn without_unbuilt_indexes(mut self) -> Self {
        self.indexes.retain(|index| !index.is_building);
        self
    }

    /// Returns Cassandra's error for a column that the table does not have.
    pub(super) fn undefined<T>(&self, column: &str) -> Result<T, SchemaError> {
        invalid(format!(
            "Undefined column name {} in table {}.{}",
            Quoted(column),
            Quoted(&self.keyspace),
            Quoted(&self.name)
        ))
    }

    /// Returns an error if the column has indexes, because it must not change then. `cannot` begins
    /// the message, such as "Cannot drop".
    pub(super) fn check_not_indexed(
        &self,
        cannot: &str,
        column: &Column,
    ) -> Result<(), SchemaError> {
        let indexes = self.indexes.iter();
        let indexes: Vec<&str> = indexes
            .filter(|index| index.column == column.id)
            .map(|index| &*index.name)
            .collect();
        if indexes.is_empty() {
            return Ok(());
        }
        invalid(format!(
            "{cannot} column {} because it has dependent secondary indexes ({})",
            column.name,
            indexes.join(", ")
        ))
    }
}

/// Checks an index's name against Cassandra's rules.
pub(super) fn check_index_name(name: &str) -> Result<(), SchemaError> {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if !name.is_empty() && name.bytes().all(word) {
        Ok(())
    } else {
        Err(SchemaError::Configuration(format!(
            "Illegal index name {name}"
        )))
    }
}

/// Returns the default name of an index on a column: `<table>_<column>_idx`, without characters
/// that names of indexes must not have.
pub(super) fn default_index_name(table: &str, column: &str) -> String {
    let word = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    format!("{table}_{column}_idx")
        .chars()
        .filter(word)
        .collect()
}
