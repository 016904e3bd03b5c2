//! The checks of a database after it was opened: every table accepts a row and returns it by its
//! key and by its indexes, every snapshot can be read, and the statements of DESCRIBE create the
//! same schema.

use std::collections::BTreeMap;

use ebb_test_support::wait;
use rand_chacha::ChaCha8Rng;

use super::literal::Literal;
use super::machine::{Machine, Memory};
use super::model::{Column, Kind, Model};
use super::names::quoted;
use super::observed::{Row, definitions, rows, text};
use super::statement::{Name, Target};
use super::types::Type;

type Result<T = (), E = String> = std::result::Result<T, E>;

/// Checks all tables, snapshots and definitions of a server with the schema `model`.
///
/// # Errors
/// The first failure.
pub fn all(machine: &mut dyn Machine, model: &Model, rng: &mut ChaCha8Rng) -> Result {
    until_indexes_are_built(machine)?;
    for table in model.tables() {
        row(machine, model, &table, rng)?;
        for (index, (column, target)) in model.table(&table).into_iter().flat_map(|of| &of.indexes)
        {
            let Some(of) = model.table(&table).and_then(|of| of.columns.get(column)) else {
                return Err(format!("index {index} is by no column"));
            };
            by_index(
                machine,
                model,
                &table,
                (column.as_str(), &of.ty, *target),
                rng,
            )?;
        }
    }
    snapshots(machine, model)?;
    describe(machine, model)
}

fn until_indexes_are_built(machine: &mut dyn Machine) -> Result {
    wait::until_some("the indexes to be built", || {
        let builds = match rows(machine, "SELECT * FROM system_views.index_builds") {
            Ok(builds) if builds.is_empty() => return Some(Ok(())),
            Ok(builds) => builds,
            Err(error) => return Some(Err(error)),
        };
        let failed = builds.iter().find(|build| build.contains_key("last_error"));
        failed.map(|build| Err(format!("the build of an index failed: {}", shown(build))))
    })
}

/// Writes a random row, with its values as literals, into the table `name`. Checks that the server
/// returns the row by its key and among all rows.
pub fn row(machine: &mut dyn Machine, model: &Model, name: &Name, rng: &mut ChaCha8Rng) -> Result {
    let Some(table) = model.table(name) else {
        return Err(format!("there is no table {name}"));
    };
    if table.is_counter && !table.has(Kind::Static) && !table.has(Kind::Regular) {
        // All counters were dropped, so that no statement can write a row.
        return rows(machine, &format!("SELECT * FROM {name}")).map(drop);
    }
    let types = model.types(&name.keyspace);
    let values: BTreeMap<&String, String> = (table.columns.iter())
        .map(|(column, of)| (column, Literal::draw(&of.ty, types, rng).text))
        .collect();
    // Counters are written by UPDATE. An UPDATE of static columns alone names a partition.
    let is_static = table.is_counter && !table.has(Kind::Regular);
    let is_named = |column: &Column| match column.kind {
        Kind::Partition(_) => true,
        Kind::Clustering(..) => !is_static,
        Kind::Static | Kind::Regular => false,
    };
    let key: Vec<String> = (table.columns.iter())
        .filter(|(_, column)| is_named(column))
        .map(|(name, _)| format!("{} = {}", quoted(name), values[name]))
        .collect();
    let key = key.join(" AND ");
    let write = if table.is_counter {
        let counters = table.columns.iter().filter(|(_, column)| {
            let is_value = matches!(column.kind, Kind::Static | Kind::Regular);
            is_value && column.ty == Type::Native("counter")
        });
        let add = counters.map(|(column, _)| {
            let column = quoted(column);
            format!("{column} = {column} + 1")
        });
        let add = add.collect::<Vec<_>>().join(", ");
        format!("UPDATE {name} SET {add} WHERE {key}")
    } else {
        let columns: Vec<String> = values.keys().map(|column| quoted(column)).collect();
        let values: Vec<&str> = values.values().map(String::as_str).collect();
        let (columns, values) = (columns.join(", "), values.join(", "));
        format!("INSERT INTO {name} ({columns}) VALUES ({values})")
    };
    let written = machine.run(&write);
    written.map_err(|error| format!("{write}: {error}"))?;
    let select = format!("SELECT * FROM {name} WHERE {key}");
    let found = rows(machine, &select)?;
    let [found] = &found[..] else {
        return Err(format!(
            "{write}\nwas accepted, but {select}\nreturns {} rows",
            found.len()
        ));
    };
    let is_null = |column: &Column| is_static && matches!(column.kind, Kind::Clustering(..));
    let mut columns = table.columns.iter().filter(|(_, column)| !is_null(column));
    if let Some((column, _)) = columns.find(|(column, _)| !found.contains_key(*column)) {
        let found = shown(found);
        return Err(format!(
            "{write}\nwas accepted, but {column} is null in {found}"
        ));
    }
    some_rows(machine, &format!("SELECT * FROM {name}")).map(drop)
}

/// Writes a row with a known value in an indexed column, and checks that the index finds it.
fn by_index(
    machine: &mut dyn Machine,
    model: &Model,
    name: &Name,
    (column, ty, target): (&str, &Type, Target),
    rng: &mut ChaCha8Rng,
) -> Result {
    let Some(table) = model.table(name) else {
        return Err(format!("there is no table {name}"));
    };
    let types = model.types(&name.keyspace);
    let indexed = Literal::draw(ty, types, rng);
    let mut columns = vec![quoted(column)];
    let mut values = vec![indexed.text.clone()];
    for (key, of) in table.key() {
        if key != column {
            columns.push(quoted(&key));
            values.push(Literal::draw(&of.ty, types, rng).text);
        }
    }
    let (columns, values) = (columns.join(", "), values.join(", "));
    let write = format!("INSERT INTO {name} ({columns}) VALUES ({values})");
    let written = machine.run(&write);
    written.map_err(|error| format!("{write}: {error}"))?;
    let column = quoted(column);
    let relation = match (target, &indexed.parts[..]) {
        (Target::Values, [.., value]) => format!("{column} CONTAINS {value}"),
        (Target::Keys, [key, _]) => format!("{column} CONTAINS KEY {key}"),
        (Target::Entries, [key, value]) => format!("{column}[{key}] = {value}"),
        _ => format!("{column} = {}", indexed.text),
    };
    let select = format!("SELECT * FROM {name} WHERE {relation}");
    let found = some_rows(machine, &select);
    found
        .map(drop)
        .map_err(|error| format!("after {write}: {error}"))
}

fn some_rows(machine: &mut dyn Machine, select: &str) -> Result<Vec<Row>> {
    let found = rows(machine, select)?;
    if found.is_empty() {
        return Err(format!("{select} returns no row"));
    }
    Ok(found)
}

/// Reads all tables of all snapshots, each once from the keyspace `ks@s` and once with USING
/// SNAPSHOT.
fn snapshots(machine: &mut dyn Machine, model: &Model) -> Result {
    for name in model.snapshots() {
        let Some(of) = model.keyspaces.get(&name.keyspace) else {
            continue;
        };
        let tables = of.snapshots.get(&name.name).into_iter();
        for table in tables.flat_map(|snapshot| snapshot.tables.keys()) {
            let (keyspace, snapshot) = (&name.keyspace, &name.name);
            let at = quoted(&format!("{keyspace}@{snapshot}"));
            rows(machine, &format!("SELECT * FROM {at}.{}", quoted(table)))?;
            let (keyspace, table) = (quoted(keyspace), quoted(table));
            let snapshot = quoted(snapshot);
            rows(
                machine,
                &format!("SELECT * FROM {keyspace}.{table} USING SNAPSHOT {snapshot}"),
            )?;
        }
    }
    Ok(())
}

/// Executes the statements of DESCRIBE in an empty database, and compares the `system_schema` of
/// both databases.
fn describe(machine: &mut dyn Machine, model: &Model) -> Result {
    let mut copy = Memory::new();
    for keyspace in model.keyspaces.keys() {
        let described = format!("DESCRIBE KEYSPACE {}", quoted(keyspace));
        for row in rows(machine, &described)? {
            let statement = text(&row, "create_statement")?;
            let done = copy.run(&statement);
            done.map_err(|error| format!("{described} prints {statement}\n: {error}"))?;
        }
    }
    for table in ["keyspaces", "types", "tables", "columns", "indexes"] {
        let (there, copied) = (comparable(machine, table)?, comparable(&mut copy, table)?);
        let lost = there.iter().find(|row| !copied.contains(row));
        let added = copied.iter().find(|row| !there.contains(row));
        if lost.is_some() || added.is_some() {
            return Err(format!(
                "the statements of DESCRIBE make another system_schema.{table}:\n{}\nis\n{}",
                lost.map_or("no row".to_owned(), shown),
                added.map_or("no row".to_owned(), shown)
            ));
        }
    }
    Ok(())
}

/// Returns the rows of a table of `system_schema` as far as DESCRIBE prints them: without
/// snapshots, and without the ids and flags of tables. A table whose counters were all dropped has
/// a flag that CREATE TABLE cannot set.
fn comparable(machine: &mut dyn Machine, table: &str) -> Result<Vec<Row>> {
    let mut found = definitions(machine, table)?;
    found.retain(|row| !row["keyspace_name"].contains(&b'@'));
    for row in &mut found {
        row.remove("id");
        row.remove("flags");
    }
    Ok(found)
}

/// Returns a row as text for messages, since not all cells are text.
fn shown(row: &Row) -> String {
    let cells = row.iter().map(|(column, cell)| {
        let cell = cell.escape_ascii();
        format!("{column}: {cell}")
    });
    cells.collect::<Vec<_>>().join(", ")
}
