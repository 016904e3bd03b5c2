//! The stored records of keyspaces and tables: JSON, whose field `format` is checked first.
//!
//! A table's record contains every user-defined type that the table uses, so that it can be decoded
//! without its keyspace: a snapshot of the table alone has everything that decodes its rows. Types
//! are stored as their CQL text; the JSON parser and [`CqlType::parse`] both bound nesting.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::keyspace::in_order_of_use;
use super::unreadable::UnreadableType;
use super::{
    Column, ColumnId, ColumnKind, DroppedColumn, IndexSchema, KeyspaceSchema, SchemaError,
    TableOptions, TableSchema, UserType,
};
use crate::key::Order;
use crate::types::{CqlType, DEPTH_MAX};

/// The number of the record format. This version of ebb reads and writes no other format.
const FORMAT: u32 = 1;

#[derive(Deserialize)]
struct Format {
    format: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TableRecord {
    format: u32,
    keyspace: String,
    table: String,
    id: String,
    types: Vec<TypeRecord>,
    columns: Vec<ColumnRecord>,
    dropped: Vec<DroppedRecord>,
    next_column_id: u32,
    options: TableOptions,
    // Omitted for a table that never had an index, so that older versions can read the record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    indexes: Vec<IndexSchema>,
    #[serde(default, skip_serializing_if = "is_zero")]
    next_index_id: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyspaceRecord {
    format: u32,
    keyspace: String,
    replication: BTreeMap<String, String>,
    durable_writes: bool,
    types: Vec<TypeRecord>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TypeRecord {
    name: String,
    fields: Vec<(String, String)>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ColumnRecord {
    id: ColumnId,
    name: String,
    #[serde(rename = "type")]
    ty: String,
    kind: ColumnKind,
    position: usize,
    descending: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DroppedRecord {
    id: ColumnId,
    name: String,
    #[serde(rename = "type")]
    ty: String,
    kind: ColumnKind,
    dropped_us: i64,
}

fn refuse<T>(what: impl std::fmt::Display) -> Result<T, SchemaError> {
    Err(SchemaError::Record(what.to_string()))
}

/// Turns `error`, which a check for statements returned for a stored record, into
/// [`SchemaError::Record`] with the same reason.
fn as_record(error: SchemaError) -> SchemaError {
    SchemaError::Record(error.reason())
}

/// Reads a record, which is JSON. Its field `format` is read first, and must be equal to `known`.
///
/// # Errors
/// [`SchemaError::Record`].
pub(crate) fn read_record<T: DeserializeOwned>(bytes: &[u8], known: u32) -> Result<T, SchemaError> {
    match serde_json::from_slice::<Format>(bytes) {
        Ok(Format { format }) if format == known => serde_json::from_slice(bytes).or_else(refuse),
        Ok(Format { format }) => refuse(format!(
            "format {format} is unknown, this version reads {known}; use the version that wrote it"
        )),
        Err(e) => refuse(e),
    }
}

fn encode_types<'a>(types: impl Iterator<Item = &'a Arc<UserType>>) -> Vec<TypeRecord> {
    in_order_of_use(types)
        .into_iter()
        .map(|ty| TypeRecord {
            name: ty.name().to_owned(),
            fields: ty
                .fields()
                .iter()
                .map(|(name, ty)| (name.to_string(), ty.to_string()))
                .collect(),
        })
        .collect()
}

type Types = BTreeMap<Arc<str>, Arc<UserType>>;

fn decode_type(
    keyspace: &str,
    record: &TypeRecord,
    types: &Types,
) -> Result<Arc<UserType>, SchemaError> {
    let fields = record
        .fields
        .iter()
        .map(|(name, ty)| Ok((name.as_str().into(), parse(ty, types)?)))
        .collect::<Result<Vec<_>, SchemaError>>()?;
    let ty = UserType::new(keyspace, &record.name, fields);
    ty.map(Arc::new).or_else(refuse)
}

/// Decodes the types that a table uses. One unreadable type makes the table unreadable.
fn decode_types(keyspace: &str, records: &[TypeRecord]) -> Result<Types, SchemaError> {
    let mut types = Types::new();
    for record in records {
        let ty = decode_type(keyspace, record, &types)?;
        if types.insert(record.name.as_str().into(), ty).is_some() {
            return refuse(format!("type {} twice", record.name));
        }
    }
    Ok(types)
}

/// Decodes the types of a keyspace. An unreadable type makes only those types unreadable that use
/// it.
fn decode_known_types(
    keyspace: &str,
    records: Vec<TypeRecord>,
) -> Result<(Types, BTreeMap<Arc<str>, UnreadableType>), SchemaError> {
    let mut names = BTreeSet::new();
    if let Some(twice) = records.iter().find(|record| !names.insert(&record.name)) {
        return refuse(format!("type {} twice", twice.name));
    }
    let mut types = Types::new();
    let mut unreadable = BTreeMap::new();
    let mut left = records;
    // Types usually come after the types that they use. If a damaged record has another order, each
    // further round decodes one more level of nesting.
    for _ in 0..DEPTH_MAX {
        let before = left.len();
        unreadable.clear();
        let mut failed = Vec::new();
        for record in left {
            let name: Arc<str> = record.name.as_str().into();
            match decode_type(keyspace, &record, &types) {
                Ok(ty) => drop(types.insert(name, ty)),
                Err(error) => {
                    let (fields, why) = (record.fields.clone(), error.reason());
                    unreadable.insert(name, UnreadableType { fields, why });
                    failed.push(record);
                }
            }
        }
        if failed.is_empty() || failed.len() == before {
            break;
        }
        left = failed;
    }
    Ok((types, unreadable))
}

fn parse(text: &str, types: &Types) -> Result<CqlType, SchemaError> {
    CqlType::parse_stored(text, &|name| types.get(name).cloned()).or_else(refuse)
}

/// Collects every user-defined type within a type, at any depth: also within the types of fields.
fn collect<'a>(ty: &'a CqlType, into: &mut BTreeMap<&'a str, &'a Arc<UserType>>) {
    match ty {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => collect(element, into),
        CqlType::Map { key, value, .. } => {
            collect(key, into);
            collect(value, into);
        }
        CqlType::Tuple(types) => types.iter().for_each(|t| collect(t, into)),
        CqlType::Udt { definition, .. } if into.insert(definition.name(), definition).is_none() => {
            let fields = definition.fields().iter();
            fields.for_each(|(_, t)| collect(t, into));
        }
        _ => {}
    }
}

impl KeyspaceSchema {
    /// Encodes the keyspace and its types, also those that are unreadable; tables have their own
    /// records.
    pub fn encode(&self) -> Vec<u8> {
        let mut types = encode_types(self.types.values());
        types.extend(self.unreadable_types.iter().map(|(name, ty)| TypeRecord {
            name: name.to_string(),
            fields: ty.fields.clone(),
        }));
        let record = KeyspaceRecord {
            format: FORMAT,
            keyspace: self.name.to_string(),
            replication: self.replication.clone(),
            durable_writes: self.durable_writes,
            types,
        };
        serde_json::to_vec(&record).expect("texts and numbers are JSON")
    }

    /// Decodes a record of [`encode`](Self::encode); the keyspace has no tables yet. Unreadable types
    /// are set aside: see [`unreadable_type`](Self::unreadable_type).
    ///
    /// # Errors
    /// [`SchemaError::Record`].
    pub fn decode(bytes: &[u8]) -> Result<Self, SchemaError> {
        let record: KeyspaceRecord = read_record(bytes, FORMAT)?;
        let mut keyspace = Self::new(&record.keyspace, record.replication, record.durable_writes)
            .map_err(as_record)?;
        let (types, unreadable) = decode_known_types(&record.keyspace, record.types)?;
        keyspace.types = types;
        keyspace.unreadable_types = unreadable;
        Ok(keyspace)
    }

    /// Adds a table, which has a record of its own, in place of a table of the same name.
    ///
    /// # Errors
    /// [`SchemaError::Record`] if the table belongs to another keyspace.
    pub fn with_table(mut self, table: TableSchema) -> Result<Self, SchemaError> {
        if table.keyspace != self.name {
            return refuse(format!(
                "table {}.{} in keyspace {}",
                table.keyspace, table.name, self.name
            ));
        }
        self.tables.insert(table.name.clone(), Arc::new(table));
        Ok(self)
    }

    /// Adds a table as it is in a snapshot, and the types that it uses as they are in the snapshot:
    /// they may have been altered or dropped later.
    ///
    /// # Errors
    /// See [`with_table`](Self::with_table).
    pub fn with_table_and_types(self, table: TableSchema) -> Result<Self, SchemaError> {
        let types = table.used_types().into_values();
        let types: Vec<Arc<UserType>> = types.cloned().collect();
        let mut keyspace = self.with_table(table)?;
        for ty in types {
            keyspace.unreadable_types.remove(ty.name());
            keyspace.types.insert(ty.name().into(), ty);
        }
        Ok(keyspace)
    }
}

/// Returns every user-defined type that the types of columns contain, also within the types of
/// fields, by name.
fn used_types(columns: &[Column]) -> BTreeMap<&str, &Arc<UserType>> {
    let mut types = BTreeMap::new();
    columns.iter().for_each(|c| collect(&c.ty, &mut types));
    types
}

/// Rejects a record in which the type of a column is ambiguous. Earlier versions wrote a user-defined
/// type called "int" as `int`, like the native type. A record contains exactly the types that its
/// columns use, so the presence of such a type proves that a column has it.
fn check_names_of_types(
    record: &TableRecord,
    types: &Types,
    columns: &[Column],
) -> Result<(), SchemaError> {
    let used = used_types(columns);
    if let Some(unused) = types.keys().find(|name| !used.contains_key(&***name)) {
        return refuse(format!(
            "it has the user-defined type {unused}, which no column uses; a column may be of it"
        ));
    }
    let texts = || record.columns.iter().map(|c| c.ty.as_str()).zip(columns);
    let is_of_earlier = texts().any(|(text, column)| column.ty.to_string() != text)
        || record.types.iter().any(|ty| is_respelled(ty, types));
    // Key columns with a user-defined type are frozen, so their text is `frozen<int>`, which is
    // unambiguous.
    let is_ambiguous = |(text, column): &(&str, &Column)| {
        let is_value = column.kind >= ColumnKind::Static;
        is_value && column.ty.is_native() && types.contains_key(*text)
    };
    match texts().find(is_ambiguous).filter(|_| is_of_earlier) {
        Some((text, column)) => refuse(format!(
            "column {} is of the native type {text} or of the user-defined type of this name: the \
             earlier version that wrote the record spelled both alike",
            column.name
        )),
        None => Ok(()),
    }
}

/// Returns whether this build prints the type of a field differently from the text in the stored
/// record. If so, an earlier version of ebb wrote the record.
fn is_respelled(record: &TypeRecord, types: &Types) -> bool {
    let definition = types.get(record.name.as_str());
    let fields = definition.into_iter().flat_map(|ty| ty.fields());
    let mut fields = record.fields.iter().zip(fields);
    fields.any(|((_, text), (_, ty))| ty.to_string() != *text)
}

impl TableSchema {
    /// Returns every user-defined type that the types of the columns contain, also within the types
    /// of fields, by name.
    pub(super) fn used_types(&self) -> BTreeMap<&str, &Arc<UserType>> {
        used_types(&self.columns)
    }

    /// Encodes the table as a self-contained record.
    pub fn encode(&self) -> Vec<u8> {
        let record = TableRecord {
            format: FORMAT,
            keyspace: self.keyspace.to_string(),
            table: self.name.to_string(),
            id: self.id.to_string(),
            types: encode_types(self.used_types().into_values()),
            columns: self
                .columns
                .iter()
                .map(|c| ColumnRecord {
                    id: c.id,
                    name: c.name.to_string(),
                    ty: c.ty.to_string(),
                    kind: c.kind,
                    position: c.position,
                    descending: c.order == Order::Desc,
                })
                .collect(),
            dropped: self
                .dropped
                .iter()
                .map(|d| DroppedRecord {
                    id: d.id,
                    name: d.name.to_string(),
                    ty: d.ty.to_string(),
                    kind: d.kind,
                    dropped_us: d.dropped_us,
                })
                .collect(),
            next_column_id: self.next_column_id,
            options: self.options.clone(),
            indexes: self.indexes.clone(),
            next_index_id: self.next_index_id,
        };
        serde_json::to_vec(&record).expect("texts and numbers are JSON")
    }

    /// Decodes a record of [`encode`](Self::encode), and checks the rules for tables.
    ///
    /// # Errors
    /// [`SchemaError::Record`].
    pub fn decode(bytes: &[u8]) -> Result<Self, SchemaError> {
        let record: TableRecord = read_record(bytes, FORMAT)?;
        let id = Uuid::parse_str(&record.id).or_else(refuse)?;
        let types = decode_types(&record.keyspace, &record.types)?;
        let columns = record
            .columns
            .iter()
            .map(|c| {
                Ok(Column {
                    id: c.id,
                    ty: parse(&c.ty, &types)?,
                    name: c.name.as_str().into(),
                    kind: c.kind,
                    position: c.position,
                    order: if c.descending {
                        Order::Desc
                    } else {
                        Order::Asc
                    },
                })
            })
            .collect::<Result<Vec<_>, SchemaError>>()?;
        check_names_of_types(&record, &types, &columns)?;
        let dropped = record
            .dropped
            .into_iter()
            .map(|d| {
                Ok(DroppedColumn {
                    id: d.id,
                    ty: parse(&d.ty, &Types::new())?,
                    name: d.name.into(),
                    kind: d.kind,
                    dropped_us: d.dropped_us,
                })
            })
            .collect::<Result<Vec<_>, SchemaError>>()?;
        let table = Self::from_parts(
            (record.keyspace.into(), record.table.into()),
            id,
            columns,
            dropped,
            record.next_column_id,
            record.options.in_normal_form().map_err(as_record)?,
            (record.indexes, record.next_index_id),
        );
        table.check().map_err(as_record)?;
        Ok(table)
    }
}
