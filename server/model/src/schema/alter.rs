//! ALTER TABLE: each change of a table returns a new schema or the reason against it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::table::STATIC_WITHOUT_CLUSTERING;
use super::{
    Column, ColumnId, ColumnKind, DroppedColumn, OptionValue, SchemaError, TableSchema, UserType,
    check_name_length, invalid, replace_type,
};
use crate::key::Order;
use crate::types::CqlType;

impl TableSchema {
    /// Returns the table with one more column. A column that was dropped before gets its old id
    /// back. Its stored cells with timestamps above [`DroppedColumn::dropped_us`] are then visible
    /// again.
    ///
    /// # Errors
    /// If the name is taken or too long, the type is not allowed for a new column, the column is
    /// static in a table without clustering columns, or the table would have both counters and
    /// other values. If a column of this name was dropped earlier, also if that column was a
    /// counter, if only one of the two columns is static, or if the new type cannot read the values
    /// of the old type.
    pub fn add_column(
        &self,
        name: &str,
        ty: CqlType,
        is_static: bool,
    ) -> Result<Self, SchemaError> {
        let kind = if is_static {
            ColumnKind::Static
        } else {
            ColumnKind::Regular
        };
        ty.check_new()?;
        if self.column(name).is_some() {
            return invalid(format!("Column with name '{name}' already exists"));
        }
        check_name_length("Column", name)?;
        if is_static && self.columns_of(ColumnKind::Clustering).is_empty() {
            return invalid(STATIC_WITHOUT_CLUSTERING);
        }
        let old = self.dropped.iter().find(|d| *d.name == *name);
        if let Some(old) = old {
            // Cells from after `dropped_us` become visible again, so the new type must read them.
            // Older cells stay stored, so even these must be of the kind (single cells or collections)
            // that is written now: rows are merged without their schema.
            if !reads_cells_of(&ty, &old.ty) {
                return invalid(format!(
                    "Cannot re-add previously dropped column '{name}' of type {ty}, \
                     incompatible with previous type {}",
                    old.ty
                ));
            }
            if kind != old.kind {
                return invalid(format!(
                    "Cannot re-add previously dropped column '{name}' of kind {}, \
                     incompatible with previous kind {}",
                    kind.as_str().to_uppercase(),
                    old.kind.as_str().to_uppercase()
                ));
            }
            // As in Cassandra (CASSANDRA-7831).
            if ty == CqlType::Counter {
                return invalid(format!(
                    "Cannot re-add previously dropped counter column {name}"
                ));
            }
        }
        // Outside of the key, a table has either counters only or none.
        let counters = self.is_counter();
        if counters != (ty == CqlType::Counter) {
            let (not, table) = if counters {
                ("a non counter", "a counter")
            } else {
                ("a counter", "a non counter")
            };
            return Err(SchemaError::Configuration(format!(
                "{}.{}: Cannot have {not} column (\"{name}\") in {table} table",
                self.keyspace, self.name
            )));
        }
        let mut next = self.clone();
        let id = match old {
            Some(old) => old.id,
            None => ColumnId(self.next_column_id),
        };
        // `checked` below moves the column to its place.
        next.columns.push(Column {
            id,
            name: name.into(),
            ty,
            kind,
            position: 0,
            order: Order::Asc,
        });
        // Ids only grow: with the id of a dropped column, a new one would show the old cells.
        if old.is_none() {
            next.next_column_id = match self.next_column_id.checked_add(1) {
                Some(id) => id,
                None => return invalid("The table had as many columns as a table can have"),
            };
        }
        next.checked()
    }

    /// Returns the table without a column. The column's cells up to the timestamp `dropped_us` stay
    /// hidden if it is added again, and so do cells that an earlier drop hid.
    ///
    /// # Errors
    /// If there is no such column, it is part of the key, it has an index, or its type is a
    /// user-defined type that is not frozen.
    pub fn drop_column(&self, name: &str, dropped_us: i64) -> Result<Self, SchemaError> {
        let Some(column) = self.column(name) else {
            return invalid(format!(
                "Column {name} was not found in table '{}.{}'",
                self.keyspace, self.name
            ));
        };
        if column.kind < ColumnKind::Static {
            return invalid(format!("Cannot drop PRIMARY KEY column {name}"));
        }
        // As in Cassandra: a dropped column is recorded with tuples in place of user-defined types, and
        // there is no tuple that is not frozen.
        if let CqlType::Udt { frozen: false, .. } = column.ty {
            return invalid(format!(
                "Cannot drop non-frozen column {name} of user type {}",
                column.ty
            ));
        }
        self.check_not_indexed("Cannot drop", column)?;
        let mut next = self.clone();
        next.columns.retain(|c| c.id != column.id);
        let before = self.dropped.iter().find(|d| d.id == column.id);
        next.dropped.retain(|d| d.id != column.id);
        next.dropped.push(DroppedColumn {
            id: column.id,
            name: column.name.clone(),
            ty: expand(&column.ty),
            kind: column.kind,
            dropped_us: before.map_or(dropped_us, |before| before.dropped_us.max(dropped_us)),
        });
        next.checked()
    }

    /// Returns the table with key columns renamed. `renames` are pairs of an old and a new name. As
    /// in Cassandra, a new name must not be a current name of any column, even of one that is
    /// renamed at the same time: two columns cannot swap their names. If a column is renamed twice,
    /// the last name applies.
    ///
    /// # Errors
    /// If there is no such column, it is not part of the key or has an index, or a new name is
    /// taken or too long.
    pub fn rename_columns<'n>(
        &self,
        renames: impl IntoIterator<Item = (&'n str, &'n str)>,
    ) -> Result<Self, SchemaError> {
        let indexed: HashSet<ColumnId> = self.indexes.iter().map(|index| index.column).collect();
        // The new names of columns, and the columns that have them.
        let mut names: HashMap<ColumnId, &str> = HashMap::new();
        let mut taken: HashMap<&str, ColumnId> = HashMap::new();
        for (from, to) in renames {
            check_name_length("Column", to)?;
            let Some(column) = self.column(from) else {
                return self.undefined(from);
            };
            if column.kind >= ColumnKind::Static {
                return invalid(format!("Cannot rename non PRIMARY KEY column {from}"));
            }
            let is_taken = taken.get(to).is_some_and(|&by| by != column.id);
            if is_taken || self.column(to).is_some() {
                return invalid(format!(
                    "Cannot rename column {from} to {to} in table '{}.{}'; another column with \
                     that name already exists",
                    self.keyspace, self.name
                ));
            }
            if indexed.contains(&column.id) {
                self.check_not_indexed("Can't rename", column)?;
            }
            if let Some(before) = names.insert(column.id, to) {
                taken.remove(before);
            }
            taken.insert(to, column.id);
        }
        let mut next = self.clone();
        for column in &mut next.columns {
            if let Some(&name) = names.get(&column.id) {
                column.name = name.into();
            }
        }
        next.checked()
    }

    /// Returns the table with changed options; options that are not named keep their values.
    ///
    /// # Errors
    /// The errors of [`TableOptions::set`](super::TableOptions::set), and the error of CREATE TABLE
    /// for a table with the resulting options.
    pub fn alter_options(
        &self,
        changes: impl IntoIterator<Item = (String, OptionValue)>,
    ) -> Result<Self, SchemaError> {
        let mut next = self.clone();
        for (name, value) in changes {
            next.options.set(&name, value)?;
        }
        next.checked()
    }

    /// Returns the table with `new` in place of the user-defined type of the same name in the types
    /// of its columns.
    ///
    /// # Errors
    /// The error of CREATE TABLE for a table with these types.
    pub(super) fn with_type(&self, new: &Arc<UserType>) -> Result<Self, SchemaError> {
        let mut next = self.clone();
        for column in &mut next.columns {
            column.ty = replace_type(&column.ty, new)?;
        }
        next.checked()
    }
}

/// Returns whether the cells of a dropped column are valid as cells of the type `ty`: Cassandra's
/// `AbstractType.isSerializationCompatibleWith`. `old` is the type of the dropped column as
/// [`expand`] returned it.
fn reads_cells_of(ty: &CqlType, old: &CqlType) -> bool {
    use CqlType::{
        Ascii, Bigint, Blob, Boolean, Counter, Double, Float, Int, Text, Timestamp, Timeuuid, Uuid,
    };
    // A user-defined type that is not frozen becomes a tuple by the expansion, and so a single cell.
    if ty.is_multi_cell() != old.is_multi_cell() {
        return false;
    }
    match (&expand(ty), old) {
        (Blob, Counter) => false,
        // Cassandra stores the values of these types without a length.
        (Blob, Bigint | Boolean | Double | Float | Int | Timestamp | Timeuuid | Uuid) => false,
        (Blob, _) => true,
        (Text, Ascii) | (Bigint, Timestamp) | (Timestamp, Bigint) => true,
        (Uuid, Timeuuid) => true,
        (ty, old) => ty == old,
    }
}

/// Replaces the user-defined types within a type by tuples, because the user-defined types may be
/// dropped or altered later.
fn expand(ty: &CqlType) -> CqlType {
    let inner = |t: &Arc<CqlType>| Arc::new(expand(t));
    match ty {
        CqlType::List { element, frozen } => CqlType::List {
            element: inner(element),
            frozen: *frozen,
        },
        CqlType::Set { element, frozen } => CqlType::Set {
            element: inner(element),
            frozen: *frozen,
        },
        CqlType::Map { key, value, frozen } => CqlType::Map {
            key: inner(key),
            value: inner(value),
            frozen: *frozen,
        },
        CqlType::Tuple(types) => CqlType::tuple(types.iter().map(expand)),
        CqlType::Udt { definition, .. } => {
            CqlType::tuple(definition.fields().iter().map(|(_, t)| expand(t)))
        }
        native => native.clone(),
    }
}
