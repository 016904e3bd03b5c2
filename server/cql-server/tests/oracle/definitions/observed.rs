//! The schema as `system_schema` and `system_views.snapshots` return it.

use std::collections::{BTreeMap, BTreeSet};

use ebb_cql::protocol::Response;

use super::machine::Machine;
use super::model::{Column, Columns, Keyspace, Kind, Model, Snapshot, Table, Tables};
use super::names::unquoted;
use super::statement::Target;
use super::types::Type;

/// A row without its nulls, by the names of its columns.
pub type Row = BTreeMap<String, Vec<u8>>;

/// The separator of a keyspace and its snapshot in the name by which clients see the snapshot as a
/// keyspace.
const SNAPSHOT_SIGN: char = '@';

/// Executes a statement that returns rows.
pub fn rows(machine: &mut dyn Machine, text: &str) -> Result<Vec<Row>, String> {
    let rows = match machine.run(text) {
        Ok(Response::Rows(rows)) => rows,
        Ok(other) => return Err(format!("{text} returned {other:?}")),
        Err(error) => return Err(format!("{text}: {error}")),
    };
    let columns = rows.columns.iter().flat_map(|columns| columns.iter());
    let names: Vec<String> = columns.map(|column| column.name.to_owned()).collect();
    let cells: Vec<Option<&[u8]>> = rows.cells().collect();
    let row = |cells: &[Option<&[u8]>]| -> Row {
        let cells = names.iter().zip(cells);
        let present = cells.filter_map(|(name, cell)| Some((name.clone(), (*cell)?.to_vec())));
        present.collect()
    };
    Ok(cells.chunks(names.len().max(1)).map(row).collect())
}

/// Returns the rows of a table of `system_schema` for the keyspaces of users and their snapshots.
pub fn definitions(machine: &mut dyn Machine, table: &str) -> Result<Vec<Row>, String> {
    let mut found = rows(machine, &format!("SELECT * FROM system_schema.{table}"))?;
    found.retain(|row| {
        let keyspace = row
            .get("keyspace_name")
            .map_or(&b""[..], |name| name.as_slice());
        !keyspace.starts_with(b"system")
    });
    Ok(found)
}

/// Returns the text in a cell.
pub fn text(row: &Row, column: &str) -> Result<String, String> {
    let cell = row.get(column).map(|cell| String::from_utf8(cell.clone()));
    match cell {
        Some(Ok(text)) => Ok(text),
        _ => Err(format!("{column} is no text in {row:?}")),
    }
}

fn int(row: &Row, column: &str) -> Result<i32, String> {
    let cell = row
        .get(column)
        .and_then(|cell| cell.as_slice().try_into().ok());
    let cell = cell.map(i32::from_be_bytes);
    cell.ok_or_else(|| format!("{column} is no int in {row:?}"))
}

/// Returns the texts in a cell with a list, or with a map: each key, then its value.
fn texts(row: &Row, column: &str) -> Result<Vec<String>, String> {
    let read = |cell: &Vec<u8>| {
        let (_count, mut rest) = cell.split_first_chunk::<4>()?;
        let mut all = Vec::new();
        while let Some((len, after)) = rest.split_first_chunk::<4>() {
            let len = usize::try_from(i32::from_be_bytes(*len)).ok()?;
            let (text, after) = after.split_at_checked(len)?;
            all.push(String::from_utf8(text.to_vec()).ok()?);
            rest = after;
        }
        Some(all)
    };
    let found = row.get(column).and_then(read);
    found.ok_or_else(|| format!("{column} has no texts in {row:?}"))
}

fn map(row: &Row, column: &str) -> Result<BTreeMap<String, String>, String> {
    let texts = texts(row, column)?;
    let pairs = texts.chunks_exact(2);
    Ok(pairs
        .map(|pair| (pair[0].clone(), pair[1].clone()))
        .collect())
}

/// Parses a type, and returns its normal form.
fn ty(text: &str) -> Result<Type, String> {
    let read = Type::read(text).map(|ty| ty.normal());
    read.ok_or_else(|| format!("the type {text} cannot be read"))
}

/// Reads the schema of a server.
///
/// # Errors
/// If the server fails, or its tables contradict each other.
pub fn observe(machine: &mut dyn Machine) -> Result<Model, String> {
    let mut observed = Observed::default();
    for row in definitions(machine, "keyspaces")? {
        observed.keyspace(&row)?;
    }
    for row in definitions(machine, "types")? {
        observed.user_type(&row)?;
    }
    for row in definitions(machine, "tables")? {
        observed.table(&row)?;
    }
    for row in definitions(machine, "columns")? {
        observed.column(&row)?;
    }
    for row in definitions(machine, "indexes")? {
        observed.index(&row)?;
    }
    for row in rows(machine, "SELECT * FROM system_views.snapshots")? {
        observed.snapshot(&row)?;
    }
    match observed.at_snapshots.keys().next() {
        Some(name) => Err(format!("{name} is a keyspace, and no snapshot is listed")),
        None => Ok(observed.model),
    }
}

/// The schema that the rows of `system_schema` describe, as far as they were read.
#[derive(Default)]
struct Observed {
    model: Model,
    /// The tables of each snapshot that `system_schema` shows as a keyspace, by the name of that
    /// keyspace (`KEYSPACE@SNAPSHOT`). They are moved to `model` when the snapshot's row in
    /// `system_views.snapshots` is read, so any that remain belong to a snapshot without a row.
    at_snapshots: BTreeMap<String, Tables>,
}

impl Observed {
    /// Returns the keyspace that a row of `system_schema` belongs to, and the name of the table in
    /// the row.
    fn of(&mut self, row: &Row) -> Result<(&mut Keyspace, String), String> {
        let (keyspace, table) = (text(row, "keyspace_name")?, text(row, "table_name")?);
        let found = self.model.keyspaces.get_mut(&keyspace);
        let found = found.ok_or_else(|| format!("{keyspace} is no keyspace, but has {row:?}"))?;
        Ok((found, table))
    }

    /// Returns the tables of the snapshot that a row of `system_schema` belongs to, and the name of
    /// the table in the row; `None` if the keyspace is no snapshot.
    fn at_snapshot(&mut self, row: &Row) -> Result<Option<(&mut Tables, String)>, String> {
        let keyspace = text(row, "keyspace_name")?;
        if !keyspace.contains(SNAPSHOT_SIGN) {
            return Ok(None);
        }
        let table = text(row, "table_name")?;
        let found = self.at_snapshots.get_mut(&keyspace);
        let found = found.ok_or_else(|| format!("{keyspace} is no keyspace, but has {row:?}"))?;
        Ok(Some((found, table)))
    }

    fn keyspace(&mut self, row: &Row) -> Result<(), String> {
        let name = text(row, "keyspace_name")?;
        if name.contains(SNAPSHOT_SIGN) {
            self.at_snapshots.insert(name, Tables::new());
            return Ok(());
        }
        let mut replication = map(row, "replication")?;
        if let Some(class) = replication.get_mut("class")
            && let Some((_package, short)) = class.rsplit_once('.')
        {
            *class = short.to_owned();
        }
        let keyspace = Keyspace {
            replication,
            durable_writes: (row.get("durable_writes")).is_some_and(|cell| *cell == [1]),
            ..Keyspace::default()
        };
        self.model.keyspaces.insert(name, keyspace);
        Ok(())
    }

    fn user_type(&mut self, row: &Row) -> Result<(), String> {
        let (keyspace, name) = (text(row, "keyspace_name")?, text(row, "type_name")?);
        if keyspace.contains(SNAPSHOT_SIGN) {
            // A snapshot has the current types of its keyspace.
            return Ok(());
        }
        let (names, types) = (texts(row, "field_names")?, texts(row, "field_types")?);
        let fields = names.into_iter().zip(types);
        let fields = fields.map(|(name, text)| Ok((name, ty(&text)?)));
        let fields = fields.collect::<Result<Vec<_>, String>>()?;
        let found = self.model.keyspaces.get_mut(&keyspace);
        let found = found.ok_or_else(|| format!("{keyspace} is no keyspace, but has {row:?}"))?;
        found.types.insert(name, fields);
        Ok(())
    }

    fn table(&mut self, row: &Row) -> Result<(), String> {
        if let Some((tables, table)) = self.at_snapshot(row)? {
            tables.insert(table, Columns::new());
            return Ok(());
        }
        let made = Table {
            columns: Columns::new(),
            is_counter: (texts(row, "flags")?.iter()).any(|flag| flag == "counter"),
            indexes: BTreeMap::new(),
            comment: text(row, "comment")?,
            default_time_to_live: int(row, "default_time_to_live")?,
            gc_grace_seconds: int(row, "gc_grace_seconds")?,
        };
        let (keyspace, table) = self.of(row)?;
        keyspace.tables.insert(table, made);
        Ok(())
    }

    fn column(&mut self, row: &Row) -> Result<(), String> {
        let name = text(row, "column_name")?;
        let position = usize::try_from(int(row, "position")?);
        let is_descending = text(row, "clustering_order")? == "desc";
        let kind = match (text(row, "kind")?.as_str(), position) {
            ("partition_key", Ok(at)) => Kind::Partition(at),
            ("clustering", Ok(at)) => Kind::Clustering(at, is_descending),
            ("static", _) => Kind::Static,
            ("regular", _) => Kind::Regular,
            other => return Err(format!("column {name} is {other:?}")),
        };
        let ty = ty(&text(row, "type")?)?;
        let column = Column { kind, ty };
        if let Some((tables, table)) = self.at_snapshot(row)? {
            let columns = tables.get_mut(&table);
            let columns = columns.ok_or_else(|| format!("there is no table for {row:?}"))?;
            columns.insert(name, column);
            return Ok(());
        }
        let (keyspace, table) = self.of(row)?;
        let found = keyspace.tables.get_mut(&table);
        let found = found.ok_or_else(|| format!("there is no table for {row:?}"))?;
        found.columns.insert(name, column);
        Ok(())
    }

    fn index(&mut self, row: &Row) -> Result<(), String> {
        if self.at_snapshot(row)?.is_some() {
            // Indexes that were unfinished at the snapshot are left out.
            return Ok(());
        }
        let (name, options) = (text(row, "index_name")?, map(row, "options")?);
        let target = options.get("target").cloned().unwrap_or_default();
        let (target, column) = Target::read(&target);
        let index = (unquoted(column), target);
        let (keyspace, table) = self.of(row)?;
        let found = keyspace.tables.get_mut(&table);
        let found = found.ok_or_else(|| format!("there is no table for {row:?}"))?;
        found.indexes.insert(name, index);
        Ok(())
    }

    fn snapshot(&mut self, row: &Row) -> Result<(), String> {
        let (keyspace, name) = (text(row, "keyspace_name")?, text(row, "snapshot_name")?);
        let listed: BTreeSet<String> = texts(row, "tables")?.into_iter().collect();
        let at = format!("{keyspace}{SNAPSHOT_SIGN}{name}");
        let tables = self.at_snapshots.remove(&at);
        let tables = tables.ok_or_else(|| format!("{at} is no keyspace, but is listed"))?;
        let read: BTreeSet<String> = tables.keys().cloned().collect();
        if read != listed {
            return Err(format!(
                "{at} has tables {read:?}, and is listed with {listed:?}"
            ));
        }
        let table = (text(row, "scope")? == "table").then(|| listed.into_iter().next());
        let snapshot = Snapshot {
            table: table.flatten(),
            tables,
        };
        let found = self.model.keyspaces.get_mut(&keyspace);
        let found = found.ok_or_else(|| format!("{keyspace} is no keyspace, but has {row:?}"))?;
        found.snapshots.insert(name, snapshot);
        Ok(())
    }
}
