//! A table after ALTER TABLE: each change gives a new schema, or says why not.

use std::sync::Arc;

use super::table::STATIC_WITHOUT_CLUSTERING;
use super::{
    Column, ColumnId, ColumnKind, DroppedColumn, OptionValue, SchemaError, TableSchema, UserType,
    invalid, replace_type,
};
use crate::key::Order;
use crate::types::CqlType;

impl TableSchema {
    /// The table with one more column. One that was dropped comes back with its id, and
    /// with its cells from after [`DroppedColumn::dropped_us`].
    ///
    /// # Errors
    /// Where the name is taken, the type does not fit the table, or a column of this name was
    /// dropped that had another kind, or a type whose values this one cannot be read as.
    pub fn add_column(
        &self,
        name: &str,
        ty: CqlType,
        is_static: bool,
    ) -> Result<Self, SchemaError> {
        let kind = match is_static {
            true => ColumnKind::Static,
            false => ColumnKind::Regular,
        };
        ty.check_new()?;
        if self.column(name).is_some() {
            return invalid(format!("Column with name '{name}' already exists"));
        }
        if is_static && self.columns_of(ColumnKind::Clustering).is_empty() {
            return invalid(STATIC_WITHOUT_CLUSTERING);
        }
        let old = self.dropped.iter().find(|d| *d.name == *name);
        if let Some(old) = old {
            if !reads_cells_of(&expand(&ty), &old.ty) {
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
            if ty == CqlType::Counter {
                return invalid(format!(
                    "Cannot re-add previously dropped counter column {name}"
                ));
            }
        }
        let counters = self.is_counter();
        if counters != (ty == CqlType::Counter) {
            let (not, table) = match counters {
                true => ("a non counter", "a counter"),
                false => ("a counter", "a non counter"),
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
        next.columns.push(Column {
            id,
            name: name.into(),
            ty,
            kind,
            position: 0,
            order: Order::Asc,
        });
        if old.is_none() {
            next.next_column_id = match self.next_column_id.checked_add(1) {
                Some(id) => id,
                None => return invalid("The table had as many columns as a table can have"),
            };
        }
        next.checked()
    }

    /// The table without a column, whose cells up to a timestamp are gone. What an earlier
    /// drop of it hid stays hidden.
    ///
    /// # Errors
    /// Where there is none of this name, or it is part of the key.
    pub fn drop_column(&self, name: &str, dropped_us: i64) -> Result<Self, SchemaError> {
        let column = self.existing(name)?;
        if column.kind < ColumnKind::Static {
            return invalid(format!("Cannot drop PRIMARY KEY column {name}"));
        }
        self.check_not_indexed("drop", column)?;
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

    /// The table with a column of its key under another name.
    ///
    /// # Errors
    /// Where there is none of this name, it is not of the key, or the new name is taken.
    pub fn rename_column(&self, from: &str, to: &str) -> Result<Self, SchemaError> {
        let column = self.existing(from)?;
        if column.kind >= ColumnKind::Static {
            return invalid(format!("Cannot rename non PRIMARY KEY column {from}"));
        }
        if self.column(to).is_some() {
            return invalid(format!(
                "Cannot rename column {from} to {to} in table '{}.{}'; another column with that \
                 name already exists",
                self.keyspace, self.name
            ));
        }
        self.check_not_indexed("rename", column)?;
        let mut next = self.clone();
        for c in next.columns.iter_mut().filter(|c| *c.name == *from) {
            c.name = to.into();
        }
        next.checked()
    }

    /// The table with other options; those not named stay.
    ///
    /// # Errors
    /// The errors of [`TableOptions::set`](super::TableOptions::set), and that of CREATE TABLE if it
    /// would refuse the table with these options.
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

    /// The table with a user-defined type in its new form.
    ///
    /// # Errors
    /// If CREATE TABLE would refuse the table with the type in its new form, the same error.
    pub(super) fn with_type(&self, new: &Arc<UserType>) -> Result<Self, SchemaError> {
        let mut next = self.clone();
        for column in &mut next.columns {
            column.ty = replace_type(&column.ty, new)?;
        }
        next.checked()
    }

    fn existing(&self, name: &str) -> Result<&Column, SchemaError> {
        match self.column(name) {
            Some(column) => Ok(column),
            None => invalid(format!(
                "Column {name} was not found in table '{}.{}'",
                self.keyspace, self.name
            )),
        }
    }
}

/// Whether cells of a type are cells of another too: Cassandra's
/// `AbstractType.isSerializationCompatibleWith`.
fn reads_cells_of(ty: &CqlType, old: &CqlType) -> bool {
    use CqlType::{Ascii, Bigint, Blob, Decimal, Duration, Inet, Text, Timestamp, Varint};
    match (ty, old) {
        (Blob, Ascii | Text | Varint | Decimal | Inet | Duration) => true,
        (Text, Ascii) | (Bigint, Timestamp) | (Timestamp, Bigint) => true,
        (CqlType::Uuid, CqlType::Timeuuid) => true,
        _ => ty == old,
    }
}

/// A type whose user-defined types are tuples: those may be dropped or altered later.
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
