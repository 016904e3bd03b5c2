//! Random statements. About half are valid: these name existing objects, and permitted types. The
//! others name anything.

mod tables;
mod types;

use std::collections::BTreeMap;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::model::Model;
use super::names::{COLUMNS, INDEXES, KEYSPACES, Names, SNAPSHOTS, TABLES, TYPES, quoted};
use super::statement::{Name, Replication, Statement};
use super::step::Step;

/// The number of tables above which tables are dropped more often.
const TABLES_MAX: usize = 7;
/// The number of types above which types are dropped more often.
const TYPES_MAX: usize = 10;
/// The number of snapshots above which snapshots are dropped more often.
const SNAPSHOTS_MAX: usize = 5;

pub struct Generator {
    rng: ChaCha8Rng,
}

impl Generator {
    pub fn new(seed: u64) -> Self {
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// Draws a step that writes and reads a row. Returns `None` in nine of ten calls, so that such
    /// steps are rare.
    pub fn row(&mut self) -> Option<Step> {
        self.chance(0.1).then(|| Step::Row(self.rng.random()))
    }

    /// Draws the step that ends the server: a loss of power or a kill during a statement, or a
    /// restart.
    pub fn ending(&mut self, model: &Model) -> Step {
        if self.chance(0.4) {
            return Step::Cut {
                statement: self.statement(model),
                draw: self.rng.random(),
            };
        }
        Step::Restart {
            flushes: self.chance(0.5),
        }
    }

    /// Draws a statement for the schema `model`.
    pub fn statement(&mut self, model: &Model) -> Statement {
        if model.keyspaces.is_empty() && self.chance(0.9) {
            return self.create_keyspace();
        }
        if model.tables().len() > TABLES_MAX && self.chance(0.2) {
            return self.drop_table(model);
        }
        if model.user_types().len() > TYPES_MAX && self.chance(0.2) {
            return self.drop_type(model);
        }
        if model.snapshots().len() > SNAPSHOTS_MAX && self.chance(0.2) {
            return self.drop_snapshot(model);
        }
        match self.rng.random_range(0..100) {
            0..4 => self.create_keyspace(),
            4..6 => Statement::AlterKeyspace {
                keyspace: self.keyspace(model),
                replication: self.chance(0.5).then(|| self.replication()),
                durable_writes: self.chance(0.5),
            },
            6 => Statement::DropKeyspace {
                keyspace: self.keyspace(model),
                if_exists: self.chance(0.3),
            },
            7..17 => self.create_type(model),
            17..28 => self.add_field(model),
            28..32 => self.rename_fields(model),
            32..36 => self.drop_type(model),
            36..48 => self.create_table(model),
            48..58 => self.add_columns(model),
            58..65 => self.drop_columns(model),
            65..69 => self.rename_columns(model),
            69..72 => self.alter_options(model),
            72..74 => self.drop_table(model),
            74..76 => Statement::Truncate {
                name: self.table(model),
            },
            76..86 => self.create_index(model),
            86..89 => self.drop_index(model),
            89..93 => self.create_snapshot(model),
            93..95 => self.drop_snapshot(model),
            _ => Statement::WithoutEffect(self.without_effect(model)),
        }
    }

    fn create_keyspace(&mut self) -> Statement {
        Statement::CreateKeyspace {
            keyspace: self.some_name(KEYSPACES),
            if_not_exists: self.chance(0.3),
            replication: self.replication(),
            durable_writes: self.chance(0.3).then(|| self.chance(0.5)),
        }
    }

    fn replication(&mut self) -> Replication {
        let (class, option) = self.pick(&[
            ("SimpleStrategy", "replication_factor"),
            ("NetworkTopologyStrategy", "datacenter1"),
        ]);
        Replication {
            class,
            option,
            copies: self.rng.random_range(1..4),
        }
    }

    fn create_snapshot(&mut self, model: &Model) -> Statement {
        let table = self.table(model);
        let of_table = self.chance(0.4);
        Statement::CreateSnapshot {
            keyspace: table.keyspace,
            table: of_table.then_some(table.name),
            snapshot: self.some_name(SNAPSHOTS),
            if_not_exists: self.chance(0.2),
        }
    }

    fn drop_snapshot(&mut self, model: &Model) -> Statement {
        let existing = self.one_of(&model.snapshots());
        let name = existing.unwrap_or_else(|| self.new_name(model, SNAPSHOTS));
        let found = model.keyspaces.get(&name.keyspace);
        let found = found.and_then(|keyspace| keyspace.snapshots.get(&name.name));
        let of_table = self.chance(0.5);
        let of = found.and_then(|snapshot| snapshot.table.clone());
        Statement::DropSnapshot {
            keyspace: name.keyspace,
            table: of.filter(|_| of_table),
            snapshot: name.name,
            if_exists: self.chance(0.2),
        }
    }

    /// Draws a statement that must not change the schema, because ebb or CQL rejects it.
    fn without_effect(&mut self, model: &Model) -> String {
        let table = self.table(model);
        let ty = self.user_type(model);
        let keyspace = quoted(&table.keyspace);
        let new = format!("{keyspace}.z");
        let texts = [
            format!(
                "CREATE MATERIALIZED VIEW {new} AS SELECT * FROM {table} WHERE a IS NOT NULL \
                 PRIMARY KEY (a)"
            ),
            format!(
                "CREATE FUNCTION {new} (a int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE \
                 java AS 'return a;'"
            ),
            format!("CREATE AGGREGATE {new} (int) SFUNC f STYPE int"),
            format!("CREATE TRIGGER z ON {table} USING 'z'"),
            format!("CREATE TABLE {new} (a int PRIMARY KEY) WITH COMPACT STORAGE"),
            format!("CREATE TABLE {new} (a int, b int)"),
            format!("CREATE TABLE {new} (a vector<float, 3> PRIMARY KEY)"),
            format!(
                "CREATE TABLE {new} (a 'org.apache.cassandra.db.marshal.Int32Type' PRIMARY KEY)"
            ),
            format!("CREATE TABLE {new} (a int PRIMARY KEY) WITH nothing = 'z'"),
            format!("CREATE TYPE {new} ()"),
            format!("CREATE CUSTOM INDEX ON {table} (a) USING 'z'"),
            format!("ALTER TABLE {table} DROP COMPACT STORAGE"),
            format!("ALTER TABLE {table} ALTER a TYPE text"),
            format!("ALTER TABLE {table} WITH id = 50554d6e-29bb-11e5-b345-feff819cdc9f"),
            format!("ALTER TABLE {table} WITH gc_grace_seconds = -1"),
            format!("ALTER TYPE {ty} ALTER a TYPE text"),
            "CREATE KEYSPACE z WITH replication = {'class': 'LocalStrategy'}".to_owned(),
            "CREATE KEYSPACE z WITH replication = {'replication_factor': 1}".to_owned(),
            format!("ALTER KEYSPACE {keyspace} WITH replication = {{'class': 'LocalStrategy'}}"),
            "DROP KEYSPACE system".to_owned(),
            "ALTER TABLE system_schema.tables ADD a int".to_owned(),
            "TRUNCATE system.local".to_owned(),
            format!("DROP SNAPSHOT z ON {keyspace}.z"),
        ];
        self.pick(&texts)
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.rng.random_bool(probability)
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.rng.random_range(0..all.len())].clone()
    }

    /// Draws one of `all`, or seldom `None`; always `None` if `all` is empty.
    fn one_of<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        let is_some = !all.is_empty() && self.chance(0.93);
        is_some.then(|| self.pick(all))
    }

    fn key_of<T>(&mut self, all: &BTreeMap<String, T>) -> Option<String> {
        let names: Vec<&String> = all.keys().collect();
        self.one_of(&names).cloned()
    }

    fn some_name(&mut self, names: Names) -> String {
        let odd = self.chance(0.12);
        let names = if odd { names.odd } else { names.usual };
        self.pick(names).to_owned()
    }

    fn new_name(&mut self, model: &Model, names: Names) -> Name {
        Name {
            keyspace: self.keyspace(model),
            name: self.some_name(names),
        }
    }

    /// Draws the name of a keyspace, mostly that of an existing one.
    fn keyspace(&mut self, model: &Model) -> String {
        let existing = self.key_of(&model.keyspaces);
        existing.unwrap_or_else(|| self.some_name(KEYSPACES))
    }

    fn table(&mut self, model: &Model) -> Name {
        let existing = self.one_of(&model.tables());
        existing.unwrap_or_else(|| self.new_name(model, TABLES))
    }

    fn user_type(&mut self, model: &Model) -> Name {
        let existing = self.one_of(&model.user_types());
        existing.unwrap_or_else(|| self.new_name(model, TYPES))
    }

    fn index(&mut self, model: &Model) -> Name {
        let existing = self.one_of(&model.indexes());
        existing.unwrap_or_else(|| self.new_name(model, INDEXES))
    }

    fn column_of<T>(&mut self, columns: &BTreeMap<String, T>) -> String {
        let existing = self.key_of(columns);
        existing.unwrap_or_else(|| self.some_name(COLUMNS))
    }

    /// Draws `count` names for the objects that a statement creates. Mostly they are different.
    fn different_names(&mut self, names: Names, count: usize) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        while all.len() < count {
            let name = self.some_name(names);
            if !all.contains(&name) || self.chance(0.02) {
                all.push(name);
            }
        }
        all
    }
}
