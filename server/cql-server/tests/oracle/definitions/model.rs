//! The schema after the statements that the server accepted.
//!
//! The model has no rules about which statements are valid: the server decides. It applies the
//! effects of accepted statements, and returns an error only for impossible ones, such as a second
//! table with the same name, or a column of a missing type.

use std::collections::{BTreeMap, BTreeSet};

use super::statement::{Name, NewColumn, Options, Replication, Statement, Target};
use super::types::{Type, Types};

/// The schema of the keyspaces of users: as the model predicts it, or as it was read from a server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Model {
    pub keyspaces: BTreeMap<String, Keyspace>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Keyspace {
    pub replication: BTreeMap<String, String>,
    pub durable_writes: bool,
    pub types: Types,
    pub tables: BTreeMap<String, Table>,
    pub snapshots: BTreeMap<String, Snapshot>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    pub columns: Columns,
    /// True if the values of the table are counters, or were before all of them were dropped.
    pub is_counter: bool,
    /// The column and the indexed part of each index, by the name of the index.
    pub indexes: BTreeMap<String, (String, Target)>,
    pub comment: String,
    pub default_time_to_live: i32,
    pub gc_grace_seconds: i32,
}

pub type Columns = BTreeMap<String, Column>;

/// The columns of each table, by the name of the table.
pub type Tables = BTreeMap<String, Columns>;

#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    pub kind: Kind,
    /// The type in normal form.
    pub ty: Type,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    Partition(usize),
    /// A clustering column: its position, and true for descending order.
    Clustering(usize, bool),
    Static,
    Regular,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The table that the snapshot covers; `None` if it covers the whole keyspace.
    pub table: Option<String>,
    /// The tables with their columns at the snapshot's moment.
    pub tables: Tables,
}

static NO_TYPES: Types = BTreeMap::new();

type Result<T = (), E = String> = std::result::Result<T, E>;

/// Returns the error `why`, unless `allowed` is true because IF [NOT] EXISTS permits that the
/// statement has no effect.
fn unless(allowed: bool, why: String) -> Result {
    if allowed { Ok(()) } else { Err(why) }
}

impl Model {
    /// Returns the user-defined types of a keyspace; empty without such a keyspace.
    pub fn types(&self, keyspace: &str) -> &Types {
        let found = self.keyspaces.get(keyspace);
        found.map_or(&NO_TYPES, |keyspace| &keyspace.types)
    }

    pub fn tables(&self) -> Vec<Name> {
        self.named(|keyspace| keyspace.tables.keys())
    }

    pub fn user_types(&self) -> Vec<Name> {
        self.named(|keyspace| keyspace.types.keys())
    }

    pub fn snapshots(&self) -> Vec<Name> {
        self.named(|keyspace| keyspace.snapshots.keys())
    }

    pub fn indexes(&self) -> Vec<Name> {
        self.named(|keyspace| {
            let tables = keyspace.tables.values();
            tables.flat_map(|table| table.indexes.keys())
        })
    }

    fn named<'m, I: Iterator<Item = &'m String>>(
        &'m self,
        of: impl Fn(&'m Keyspace) -> I,
    ) -> Vec<Name> {
        let mut all = Vec::new();
        for (keyspace, found) in &self.keyspaces {
            all.extend(of(found).map(|name| Name {
                keyspace: keyspace.clone(),
                name: name.clone(),
            }));
        }
        all
    }

    pub fn table(&self, name: &Name) -> Option<&Table> {
        self.keyspaces.get(&name.keyspace)?.tables.get(&name.name)
    }

    fn keyspace(&mut self, name: &str) -> Result<&mut Keyspace> {
        let found = self.keyspaces.get_mut(name);
        found.ok_or_else(|| format!("there is no keyspace {name}"))
    }

    fn fields(&mut self, name: &Name) -> Result<&mut Vec<(String, Type)>> {
        let found = self.keyspace(&name.keyspace)?.types.get_mut(&name.name);
        found.ok_or_else(|| format!("there is no type {name}"))
    }

    /// Changes the schema as an accepted statement does.
    ///
    /// # Errors
    /// If the effect is impossible, so that the server should have rejected the statement.
    pub fn apply(&mut self, statement: &Statement) -> Result {
        match statement {
            Statement::CreateKeyspace {
                keyspace,
                if_not_exists,
                replication,
                durable_writes,
            } => {
                if self.keyspaces.contains_key(keyspace) {
                    return unless(*if_not_exists, format!("keyspace {keyspace} is there"));
                }
                let made = Keyspace {
                    replication: replication.options(),
                    durable_writes: durable_writes.unwrap_or(true),
                    ..Keyspace::default()
                };
                self.keyspaces.insert(keyspace.clone(), made);
                Ok(())
            }
            Statement::AlterKeyspace {
                keyspace,
                replication,
                durable_writes,
            } => {
                let keyspace = self.keyspace(keyspace)?;
                if let Some(replication) = replication {
                    keyspace.replication = replication.options();
                }
                keyspace.durable_writes = *durable_writes;
                Ok(())
            }
            Statement::DropKeyspace {
                keyspace,
                if_exists,
            } => match self.keyspaces.remove(keyspace) {
                Some(_) => Ok(()),
                None => unless(*if_exists, format!("there is no keyspace {keyspace}")),
            },
            Statement::CreateType {
                name,
                if_not_exists,
                fields,
            } => {
                let keyspace = self.keyspace(&name.keyspace)?;
                if keyspace.types.contains_key(&name.name) {
                    return unless(*if_not_exists, format!("type {name} is there"));
                }
                let mut made = Vec::new();
                for (field, ty) in fields {
                    keyspace.check_type(ty)?;
                    add_field(&mut made, field, ty)?;
                }
                keyspace.types.insert(name.name.clone(), made);
                Ok(())
            }
            Statement::AddField { name, field, ty } => {
                let keyspace = self.keyspace(&name.keyspace)?;
                keyspace.check_type(ty)?;
                if keyspace.mentions(ty, &name.name) {
                    return Err(format!("type {name} would contain itself"));
                }
                add_field(self.fields(name)?, field, ty)
            }
            Statement::RenameFields { name, fields } => {
                // All at once, so that two fields may swap their names, as in the server.
                let there = self.fields(name)?;
                let mut renamed = there.clone();
                for (from, to) in fields {
                    match there.iter().position(|(field, _)| field == from) {
                        Some(at) => renamed[at].0.clone_from(to),
                        None => return Err(format!("there is no field {from}")),
                    }
                }
                let names: BTreeSet<&String> = renamed.iter().map(|(field, _)| field).collect();
                if names.len() < renamed.len() {
                    return Err(format!("two fields of {name} have one name"));
                }
                *there = renamed;
                Ok(())
            }
            Statement::DropType { name, if_exists } => self.drop_type(name, *if_exists),
            Statement::CreateTable {
                name,
                if_not_exists,
                columns,
                partition,
                clustering,
                options,
            } => {
                let keyspace = self.keyspace(&name.keyspace)?;
                if keyspace.tables.contains_key(&name.name) {
                    return unless(*if_not_exists, format!("table {name} is there"));
                }
                for column in columns {
                    keyspace.check_type(&column.ty)?;
                }
                let table = Table::new(columns, partition, clustering, options)?;
                keyspace.tables.insert(name.name.clone(), table);
                Ok(())
            }
            Statement::DropTable { name, if_exists } => {
                let keyspace = self.keyspaces.get_mut(&name.keyspace);
                let found = keyspace.and_then(|keyspace| keyspace.tables.remove(&name.name));
                match found {
                    Some(_) => Ok(()),
                    None => unless(*if_exists, format!("there is no table {name}")),
                }
            }
            Statement::AddColumns { name, columns } => {
                let keyspace = self.keyspace(&name.keyspace)?;
                for column in columns {
                    keyspace.check_type(&column.ty)?;
                }
                let table = keyspace.table(&name.name)?;
                (columns.iter()).try_for_each(|column| table.add(column, column.kind()))
            }
            Statement::DropColumns { name, columns, .. } => {
                let table = self.keyspace(&name.keyspace)?.table(&name.name)?;
                columns.iter().try_for_each(|column| table.drop(column))
            }
            Statement::RenameColumns { name, columns } => {
                let table = self.keyspace(&name.keyspace)?.table(&name.name)?;
                // Of two new names for one column the later counts. The order of the renames does
                // not matter: the server rejects a new name that a column has before the statement.
                let renames = columns
                    .iter()
                    .map(|(from, to)| (from.as_str(), to.as_str()));
                let renames: BTreeMap<&str, &str> = renames.collect();
                (renames.into_iter()).try_for_each(|(from, to)| table.rename(from, to))
            }
            Statement::AlterOptions { name, options } => {
                let table = self.keyspace(&name.keyspace)?.table(&name.name)?;
                table.set(options);
                Ok(())
            }
            Statement::Truncate { name } => {
                let found = self.keyspace(&name.keyspace)?.table(&name.name);
                found.map(|_| ())
            }
            Statement::CreateIndex {
                table,
                name,
                if_not_exists,
                column,
                target,
            } => {
                let keyspace = self.keyspace(&table.keyspace)?;
                keyspace.create_index(
                    &table.name,
                    name.as_deref(),
                    (column.as_str(), *target),
                    *if_not_exists,
                )
            }
            Statement::DropIndex { name, if_exists } => {
                let keyspace = self.keyspaces.get_mut(&name.keyspace);
                let mut tables = keyspace.into_iter().flat_map(|of| of.tables.values_mut());
                match tables.find_map(|table| table.indexes.remove(&name.name)) {
                    Some(_) => Ok(()),
                    None => unless(*if_exists, format!("there is no index {name}")),
                }
            }
            Statement::CreateSnapshot {
                keyspace,
                table,
                snapshot,
                if_not_exists,
            } => {
                let keyspace = self.keyspace(keyspace)?;
                keyspace.create_snapshot(table.as_deref(), snapshot, *if_not_exists)
            }
            Statement::DropSnapshot {
                keyspace,
                table,
                snapshot,
                if_exists,
            } => {
                let found = self.keyspaces.get_mut(keyspace);
                let snapshots = found.map(|found| &mut found.snapshots);
                let is_it = |there: &Snapshot| table.is_none() || there.table == *table;
                match snapshots {
                    Some(all) if all.get(snapshot).is_some_and(is_it) => {
                        all.remove(snapshot);
                        Ok(())
                    }
                    _ => unless(*if_exists, format!("there is no snapshot {snapshot}")),
                }
            }
            Statement::WithoutEffect(_) => Ok(()),
        }
    }

    fn drop_type(&mut self, name: &Name, if_exists: bool) -> Result {
        let Some(keyspace) = self.keyspaces.get_mut(&name.keyspace) else {
            return unless(if_exists, format!("there is no type {name}"));
        };
        if keyspace.types.remove(&name.name).is_none() {
            return unless(if_exists, format!("there is no type {name}"));
        }
        let fields = keyspace.types.values().flatten().map(|(_, ty)| ty);
        let columns = keyspace.tables.values().flat_map(|of| of.columns.values());
        let mut used = fields.chain(columns.map(|column| &column.ty));
        match used.find(|ty| ty.user_types().contains(&name.name.as_str())) {
            Some(ty) => Err(format!("type {name} is used in {ty}")),
            None => Ok(()),
        }
    }
}

fn add_field(fields: &mut Vec<(String, Type)>, field: &str, ty: &Type) -> Result {
    if fields.iter().any(|(there, _)| there == field) {
        return Err(format!("field {field} is there"));
    }
    fields.push((field.to_owned(), ty.normal()));
    Ok(())
}

impl Keyspace {
    fn table(&mut self, name: &str) -> Result<&mut Table> {
        let found = self.tables.get_mut(name);
        found.ok_or_else(|| format!("there is no table {name}"))
    }

    fn check_type(&self, ty: &Type) -> Result {
        let mut names = ty.user_types().into_iter();
        match names.find(|name| !self.types.contains_key(*name)) {
            Some(name) => Err(format!("there is no type {name}")),
            None => Ok(()),
        }
    }

    /// Returns whether a type contains the user-defined type `name`, also within the fields of
    /// other types.
    fn mentions(&self, ty: &Type, name: &str) -> bool {
        let mut names = ty.user_types().into_iter();
        names.any(|one| {
            let mut fields = self.types.get(one).into_iter().flatten();
            one == name || fields.any(|(_, ty)| self.mentions(ty, name))
        })
    }

    fn has_index(&self, name: &str) -> bool {
        (self.tables.values()).any(|table| table.indexes.contains_key(name))
    }

    fn create_index(
        &mut self,
        table: &str,
        name: Option<&str>,
        (column, target): (&str, Target),
        if_not_exists: bool,
    ) -> Result {
        if let Some(name) = name
            && self.has_index(name)
        {
            return unless(if_not_exists, format!("index {name} is there"));
        }
        let name = match name {
            Some(name) => name.to_owned(),
            None => self.default_index_name(table, column),
        };
        let table = self.table(table)?;
        let Some(found) = table.columns.get(column) else {
            return Err(format!("there is no column {column}"));
        };
        let target = if target == Target::Simple && found.ty.is_collection() {
            Target::Values
        } else {
            target
        };
        let index = (column.to_owned(), target);
        if table.indexes.values().any(|there| *there == index) {
            return unless(if_not_exists, format!("an index by {index:?} is there"));
        }
        table.indexes.insert(name, index);
        Ok(())
    }

    /// Returns Cassandra's default name of an index.
    fn default_index_name(&self, table: &str, column: &str) -> String {
        let base: String = format!("{table}_{column}_idx")
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || *c == '_')
            .collect();
        let numbered = (1..).map(|number| format!("{base}_{number}"));
        let mut names = std::iter::once(base.clone()).chain(numbered);
        let free = names.find(|name| !self.has_index(name));
        free.expect("there are more numbers than indexes")
    }

    fn create_snapshot(
        &mut self,
        table: Option<&str>,
        snapshot: &str,
        if_not_exists: bool,
    ) -> Result {
        if self.snapshots.contains_key(snapshot) {
            return unless(if_not_exists, format!("snapshot {snapshot} is there"));
        }
        let mut tables = Tables::new();
        for (name, of) in &self.tables {
            if table.is_none_or(|table| table == name) {
                tables.insert(name.clone(), of.columns.clone());
            }
        }
        if let Some(table) = table
            && tables.is_empty()
        {
            return Err(format!("there is no table {table}"));
        }
        let table = table.map(str::to_owned);
        let made = Snapshot { table, tables };
        self.snapshots.insert(snapshot.to_owned(), made);
        Ok(())
    }
}

impl Table {
    fn new(
        columns: &[NewColumn],
        partition: &[String],
        clustering: &[(String, bool)],
        options: &Options,
    ) -> Result<Self> {
        let mut table = Self {
            columns: Columns::new(),
            is_counter: (columns.iter()).any(|column| column.ty == Type::Native("counter")),
            indexes: BTreeMap::new(),
            comment: String::new(),
            default_time_to_live: 0,
            gc_grace_seconds: 3600,
        };
        for column in columns {
            table.add(column, column.kind())?;
        }
        if partition.is_empty() {
            return Err("there is no primary key".to_owned());
        }
        let partition = (0..).map(Kind::Partition).zip(partition);
        let clustering = (clustering.iter().enumerate())
            .map(|(at, (name, descending))| (Kind::Clustering(at, *descending), name));
        for (kind, name) in partition.chain(clustering) {
            match table.columns.get_mut(name) {
                Some(column) if column.kind == Kind::Regular => column.kind = kind,
                _ => return Err(format!("{name} cannot be a column of the primary key")),
            }
        }
        table.set(options);
        Ok(table)
    }

    pub fn key(&self) -> Columns {
        let is_key = |column: &Column| !matches!(column.kind, Kind::Static | Kind::Regular);
        let columns = self.columns.iter().filter(|(_, column)| is_key(column));
        columns
            .map(|(name, column)| (name.clone(), column.clone()))
            .collect()
    }

    pub fn has(&self, kind: Kind) -> bool {
        self.columns.values().any(|column| column.kind == kind)
    }

    fn add(&mut self, column: &NewColumn, kind: Kind) -> Result {
        let ty = column.ty.normal();
        match self
            .columns
            .insert(column.name.clone(), Column { kind, ty })
        {
            Some(_) => Err(format!("column {} is there", column.name)),
            None => Ok(()),
        }
    }

    fn drop(&mut self, name: &str) -> Result {
        if let Some((index, _)) = (self.indexes.iter()).find(|(_, (column, _))| column == name) {
            return Err(format!("column {name} has index {index}"));
        }
        match self.columns.remove(name).map(|column| column.kind) {
            Some(Kind::Static | Kind::Regular) => Ok(()),
            Some(_) => Err(format!("column {name} is part of the primary key")),
            None => Err(format!("there is no column {name}")),
        }
    }

    fn rename(&mut self, from: &str, to: &str) -> Result {
        let Some(column) = self.columns.remove(from) else {
            return Err(format!("there is no column {from}"));
        };
        if self.columns.insert(to.to_owned(), column).is_some() {
            return Err(format!("column {to} is there"));
        }
        for (column, _) in self.indexes.values_mut() {
            if *column == *from {
                to.clone_into(column);
            }
        }
        Ok(())
    }

    fn set(&mut self, options: &Options) {
        if let Some(comment) = options.comment {
            comment.clone_into(&mut self.comment);
        }
        if let Some(seconds) = options.default_time_to_live {
            self.default_time_to_live = seconds;
        }
        if let Some(seconds) = options.gc_grace_seconds {
            self.gc_grace_seconds = seconds;
        }
    }
}

impl NewColumn {
    /// Returns the kind of a column outside of the primary key.
    fn kind(&self) -> Kind {
        if self.is_static {
            Kind::Static
        } else {
            Kind::Regular
        }
    }
}

impl Replication {
    /// Returns the options of a replication strategy as `system_schema` has them, except that the
    /// class has no package.
    fn options(self) -> BTreeMap<String, String> {
        BTreeMap::from([
            ("class".to_owned(), self.class.to_owned()),
            (self.option.to_owned(), self.copies.to_string()),
        ])
    }
}
