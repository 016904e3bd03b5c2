//! DESCRIBE: the columns and texts that cqlsh expects of a server since Cassandra 4.0.
//!
//! | target | columns |
//! | --- | --- |
//! | KEYSPACES, TABLES, TYPES, FUNCTIONS, AGGREGATES | `keyspace_name`, `type`, `name` |
//! | an object, a keyspace with its objects, SCHEMA, SNAPSHOTS | the same, `create_statement` |
//! | CLUSTER | `cluster`, `partitioner`, `snitch`, `range_ownership` if a keyspace is in use |
//!
//! A snapshot is described like a keyspace, with the tables of its moment, by statements that
//! create them again in the live keyspace. DESCRIBE SNAPSHOTS is an extension of ebb: the snapshots
//! of the keyspace in use, or all.

use std::sync::Arc;

use bytes::Bytes;
use ebb_cql::protocol::ErrorResponse;
use ebb_cql::syntax::ast::{Describe, DescribeTarget, Name, QualifiedName};
use ebb_model::schema::{IndexedColumn, KeyspaceSchema, ObjectKind, TableSchema, Unreadable};
use ebb_model::types::identifier::Quoted;
use ebb_model::types::{CqlType, QuotedType};
use ebb_storage::SnapshotScope;
use ebb_tables::SNAPSHOT_SIGN;

use super::error::{Result, invalid, of_schema};
use super::interrupt;
use super::listing::Listing;
use super::snapshots::{find, keyspace_at};
use super::system::cells::{list, map, text};
use super::system::{Facts, LOCAL_KEYSPACES, PARTITIONER, SnapshotRow, snapshot_rows};

/// The keyspace and table in the metadata of the results of DESCRIBE.
const TABLE: (&str, &str) = ("system", "describe");

/// The value of the column `type` in the result of DESCRIBE if the element is a table.
const TABLE_KIND: &str = "table";
const INDEX: &str = "index";
const TYPE: &str = "type";

/// Executes DESCRIBE. `in_use` is the keyspace in use, if there is one.
pub fn describe(facts: &Facts, in_use: Option<&str>, describe: &Describe) -> Result<Listing> {
    let describer = Describer {
        facts,
        in_use,
        internals: describe.internals,
    };
    let (elements, column_count) = match describer.elements(&describe.target)? {
        Answer::Names(elements) => (elements, 3),
        Answer::Statements(elements) => (elements, 4),
        Answer::Cluster => return Ok(describer.cluster()),
    };
    let columns = ["keyspace_name", "type", "name", "create_statement"];
    let columns = columns.map(|name| (name, CqlType::Text));
    let mut rows = Vec::with_capacity(elements.len());
    for element in &elements {
        interrupt::charge(1)?;
        rows.push(element.cells()[..column_count].to_vec());
    }
    Ok(Listing::new(TABLE, &columns[..column_count], rows))
}

/// The rows of the result of DESCRIBE. The variants differ in the columns of the result.
enum Answer {
    /// Rows without the column `create_statement`, for lists of names.
    Names(Vec<Element>),
    /// Rows with the column `create_statement`.
    Statements(Vec<Element>),
    /// The single row of DESCRIBE CLUSTER.
    Cluster,
}

/// A keyspace, table, index, type or snapshot as a row of the result.
struct Element {
    keyspace: String,
    kind: &'static str,
    name: String,
    statement: String,
}

impl Element {
    /// Charges the statement for the element.
    ///
    /// # Errors
    /// If the statement's time is over.
    fn charged(self) -> Result<Self> {
        interrupt::charge_bytes(self.statement.len())?;
        Ok(self)
    }

    fn cells(&self) -> [Option<Bytes>; 4] {
        let name = if self.kind == TYPE {
            QuotedType(&self.name).to_string()
        } else {
            Quoted(&self.name).to_string()
        };
        let keyspace = Quoted(&self.keyspace).to_string();
        let cells = [keyspace.as_str(), self.kind, &name, &self.statement];
        cells.map(|cell| Some(text(cell)))
    }
}

/// A keyspace that a DESCRIBE has found.
enum Found {
    /// A keyspace of a user, as it is now or as a snapshot contains it.
    User(Arc<KeyspaceSchema>),
    /// A keyspace of the system.
    System(&'static str),
    /// A keyspace whose stored schema cannot be read.
    Unreadable(Unreadable),
}

struct Describer<'a> {
    facts: &'a Facts,
    in_use: Option<&'a str>,
    internals: bool,
}

impl Describer<'_> {
    /// Finds the elements that a DESCRIBE names.
    ///
    /// # Errors
    /// If the keyspace or object that `target` names does not exist or has an unreadable record, or
    /// if the statement's time is over. Where `target` is a list or a whole keyspace, unreadable
    /// objects are no error: the result contains them as comments.
    fn elements(&self, target: &DescribeTarget) -> Result<Answer> {
        Ok(match target {
            DescribeTarget::Cluster => Answer::Cluster,
            DescribeTarget::Keyspaces => {
                let all = self.all().into_iter();
                Answer::Names(all.map(|keyspace| self.keyspace(&keyspace)).collect())
            }
            DescribeTarget::Snapshots => Answer::Statements(self.snapshots()),
            DescribeTarget::Tables => Answer::Names(self.listed(|keyspace| {
                // `tables` returns the indexes of each table, too.
                let mut tables = self.tables(keyspace)?;
                tables.retain(|element| element.kind == TABLE_KIND);
                Ok(tables)
            })?),
            DescribeTarget::Types => Answer::Names(self.listed(|keyspace| self.types(keyspace))?),
            // There are no functions or aggregates, but the keyspace in use has to exist.
            DescribeTarget::Functions | DescribeTarget::Aggregates => {
                Answer::Names(self.listed(|_| Ok(Vec::new()))?)
            }
            // Only FULL SCHEMA includes the keyspaces of the system, which cannot be created again.
            DescribeTarget::Schema { full } => {
                let all = self.all().into_iter();
                let mut shown = Vec::new();
                for keyspace in all.filter(|k| *full || !matches!(k, Found::System(_))) {
                    shown.extend(self.whole(&keyspace)?);
                }
                Answer::Statements(shown)
            }
            DescribeTarget::Keyspace { name, only } => {
                let keyspace = self.named(name.as_ref())?;
                Answer::Statements(if *only {
                    vec![self.keyspace(&keyspace)]
                } else {
                    self.whole(&keyspace)?
                })
            }
            DescribeTarget::Table(name) => {
                let keyspace = self.of(name)?;
                let found = self.table(&keyspace, name.name.as_str())?;
                let found = found.ok_or_else(|| {
                    ErrorResponse::invalid(format!(
                        "Table '{}' not found in keyspace '{}'",
                        name.name.as_str(),
                        keyspace.name()
                    ))
                })?;
                Answer::Statements(found)
            }
            DescribeTarget::Type(name) => {
                let keyspace = self.of(name)?;
                // The type exists, so "not found" would be the wrong error.
                if let Found::User(of) = &keyspace
                    && let Some(unreadable) = of.unreadable_type(name.name.as_str())
                {
                    return Err(of_schema(unreadable));
                }
                let types = self.types(&keyspace)?.into_iter();
                let mut types = types.filter(|ty| ty.name == name.name.as_str());
                match types.next() {
                    Some(found) => Answer::Statements(vec![found]),
                    None => return Err(not_found("User defined type", name, &keyspace)),
                }
            }
            DescribeTarget::Index(name) => {
                let keyspace = self.of(name)?;
                match index(&keyspace, name.name.as_str()) {
                    Some(found) => Answer::Statements(vec![found]),
                    None => return Err(not_found("Table for existing index", name, &keyspace)),
                }
            }
            // There are none of these three, so the error is about the keyspace or about the object.
            DescribeTarget::View(name) => {
                return Err(not_found("Materialized view", name, &self.of(name)?));
            }
            DescribeTarget::Function(name) => {
                return Err(not_found("User defined function", name, &self.of(name)?));
            }
            DescribeTarget::Aggregate(name) => {
                return Err(not_found("User defined aggregate", name, &self.of(name)?));
            }
            DescribeTarget::Any(name) => Answer::Statements(self.any(name)?),
        })
    }

    /// Describes the object with this name, when the statement does not give the kind of the
    /// object. An unqualified name means a keyspace or, if there is no such keyspace, a table or
    /// index in the keyspace in use. A qualified name means a table or index.
    fn any(&self, name: &QualifiedName) -> Result<Vec<Element>> {
        let wanted = name.name.as_str();
        let within = match &name.keyspace {
            Some(keyspace) => keyspace.as_str(),
            None => {
                if let Some(keyspace) = self.find(wanted)? {
                    return self.whole(&keyspace);
                }
                self.in_use.unwrap_or(wanted)
            }
        };
        let keyspace = self.existing(within)?;
        if let Some(found) = self.table(&keyspace, wanted)? {
            return Ok(found);
        }
        match index(&keyspace, wanted) {
            Some(index) => Ok(vec![index]),
            None => invalid(format!("'{wanted}' not found in keyspace '{within}'")),
        }
    }

    /// Returns all keyspaces, sorted by name, readable or not. Snapshots are left out.
    fn all(&self) -> Vec<Found> {
        let schema = self.facts.state.schema();
        let users = schema.keyspaces();
        let users = users.map(|keyspace| Found::User(keyspace.clone()));
        let mut unreadable = schema.all_unreadable();
        unreadable.retain(|found| found.kind == ObjectKind::Keyspace);
        let mut all: Vec<_> = users
            .chain(self.facts.system.keyspaces().map(Found::System))
            .chain(unreadable.into_iter().map(Found::Unreadable))
            .collect();
        all.sort_by(|a, b| a.name().cmp(b.name()));
        all
    }

    /// Returns the keyspace of this name. The name may also stand for a snapshot: `ks@s` or
    /// `ks__at__s` for the snapshot `s` of `ks`. Returns `None` if there is neither.
    ///
    /// # Errors
    /// If the keyspace or snapshot is unreadable, if there is no snapshot for a name with `@`, or
    /// if a name with `__at__` fits several snapshots.
    fn find(&self, name: &str) -> Result<Option<Found>> {
        let (state, db) = (&self.facts.state, self.facts.catalog.db());
        if let Some(keyspace) = state.schema().keyspace(name) {
            return Ok(Some(Found::User(keyspace.clone())));
        }
        if let Some(name) = self.facts.system.keyspaces().find(|system| *system == name) {
            return Ok(Some(Found::System(name)));
        }
        if let Some(unreadable) = state.schema().unreadable(name, None) {
            return Err(of_schema(unreadable));
        }
        let at = |snapshot| keyspace_at(db, state, &snapshot);
        let found = find(db, state, name)?.map(at).transpose()?;
        Ok(found.map(|keyspace| Found::User(Arc::new(keyspace))))
    }

    fn existing(&self, name: &str) -> Result<Found> {
        self.find(name)?
            .ok_or_else(|| ErrorResponse::invalid(format!("'{name}' not found in keyspaces")))
    }

    /// Returns the keyspace of this name or, without a name, the keyspace in use.
    fn named(&self, name: Option<&Name>) -> Result<Found> {
        let name = name.map(Name::as_str).or(self.in_use).ok_or_else(|| {
            ErrorResponse::invalid("No keyspace specified and no current keyspace")
        })?;
        self.existing(name)
    }

    /// Returns the keyspace that a name is qualified with or, for an unqualified name, the keyspace
    /// in use.
    fn of(&self, name: &QualifiedName) -> Result<Found> {
        self.named(name.keyspace.as_ref())
    }

    /// Calls `of` for the keyspace in use or, without one, for each keyspace, and returns the
    /// resulting elements, sorted by name within each keyspace.
    fn listed(&self, of: impl Fn(&Found) -> Result<Vec<Element>>) -> Result<Vec<Element>> {
        let keyspaces = match self.in_use {
            Some(name) => vec![self.existing(name)?],
            None => self.all(),
        };
        let mut listed = Vec::new();
        for keyspace in &keyspaces {
            let mut elements = of(keyspace)?;
            elements.sort_by(|a, b| a.name.cmp(&b.name));
            listed.extend(elements);
        }
        Ok(listed)
    }

    /// Returns a keyspace, its types and its tables, in this order. Each type comes after the types
    /// that it uses. So the statements of the elements can be executed in their order.
    fn whole(&self, keyspace: &Found) -> Result<Vec<Element>> {
        let mut whole = vec![self.keyspace(keyspace)];
        whole.extend(self.types(keyspace)?);
        whole.extend(self.tables(keyspace)?);
        Ok(whole)
    }

    /// Returns the snapshots of the keyspace in use. Returns all snapshots if no keyspace is in
    /// use, or if the keyspace in use is not one of users.
    fn snapshots(&self) -> Vec<Element> {
        let (state, db) = (&self.facts.state, self.facts.catalog.db());
        let users = self
            .in_use
            .filter(|name| state.schema().keyspace(name).is_some());
        let mut rows = snapshot_rows(db, state);
        rows.retain(|row| users.is_none_or(|keyspace| row.keyspace == keyspace));
        let element = |row: SnapshotRow| {
            let (keyspace, name) = (Quoted(&row.keyspace), Quoted(&row.info.name));
            let on = match &row.info.scope {
                SnapshotScope::Keyspace => format!("KEYSPACE {keyspace}"),
                SnapshotScope::Table(table) => format!("TABLE {keyspace}.{}", Quoted(table)),
            };
            let time = humantime::format_rfc3339_seconds;
            let expires = row.info.expires;
            let expires = expires.map(|at| format!(", expires {}", time(at)));
            let statement = format!(
                "CREATE SNAPSHOT {name} ON {on};\n-- created {}{}; read as \"{}{SNAPSHOT_SIGN}{}\"",
                time(row.info.created),
                expires.unwrap_or_default(),
                row.keyspace,
                row.info.name,
            );
            Element {
                kind: "snapshot",
                name: row.info.name,
                keyspace: row.keyspace,
                statement,
            }
        };
        rows.into_iter().map(element).collect()
    }

    fn keyspace(&self, keyspace: &Found) -> Element {
        let name = keyspace.name();
        let statement = match keyspace {
            Found::User(keyspace) => keyspace.describe(),
            Found::System(name) if LOCAL_KEYSPACES.contains(name) => format!(
                "CREATE KEYSPACE {name} WITH replication = {{'class': 'LocalStrategy'}}  AND \
                 durable_writes = true;"
            ),
            Found::System(name) => format!(
                "/*\nWarning: Keyspace {name} is a virtual keyspace and cannot be recreated with \
                 CQL.\nStructure, for reference:\nVIRTUAL KEYSPACE {name};\n*/"
            ),
            Found::Unreadable(found) => warning(found),
        };
        Element {
            keyspace: name.to_string(),
            kind: "keyspace",
            name: name.to_string(),
            statement,
        }
    }

    fn types(&self, keyspace: &Found) -> Result<Vec<Element>> {
        let Found::User(keyspace) = keyspace else {
            return Ok(Vec::new());
        };
        let mut types = Vec::new();
        for ty in keyspace.user_types() {
            let element = Element {
                keyspace: keyspace.name().to_string(),
                kind: TYPE,
                name: ty.name().to_string(),
                statement: ty.describe(),
            };
            types.push(element.charged()?);
        }
        types.extend(unreadable(keyspace, ObjectKind::Type));
        Ok(types)
    }

    /// Returns the tables of a keyspace, each followed by its indexes. Unreadable tables come last.
    fn tables(&self, keyspace: &Found) -> Result<Vec<Element>> {
        let mut elements = Vec::new();
        match keyspace {
            Found::User(keyspace) => {
                for table in keyspace.tables() {
                    elements.extend(self.with_indexes(table)?);
                }
                elements.extend(unreadable(keyspace, ObjectKind::Table));
            }
            Found::System(name) => {
                for table in self.facts.system.tables_of(&[*name]) {
                    elements.push(self.element(table, true).charged()?);
                }
            }
            Found::Unreadable(_) => {}
        }
        Ok(elements)
    }

    /// Returns a table and its indexes; `None` if there is no such table.
    ///
    /// # Errors
    /// If the table's record is unreadable, or the statement's time is over.
    fn table(&self, keyspace: &Found, name: &str) -> Result<Option<Vec<Element>>> {
        match keyspace {
            Found::User(of) => {
                if let Some(unreadable) = of.unreadable_table(name) {
                    return Err(of_schema(unreadable));
                }
                let table = of.table(name).map(|table| self.with_indexes(table));
                table.transpose()
            }
            Found::System(of) => {
                let table = self.facts.system.table(of, name);
                Ok(table.map(|table| vec![self.element(table.schema(), true)]))
            }
            Found::Unreadable(_) => Ok(None),
        }
    }

    /// Returns a table of a user and its indexes.
    ///
    /// # Errors
    /// If the statement's time is over.
    fn with_indexes(&self, table: &TableSchema) -> Result<Vec<Element>> {
        let mut elements = vec![self.element(table, false).charged()?];
        for indexed in table.indexed_columns() {
            elements.push(index_element(table, &indexed).charged()?);
        }
        Ok(elements)
    }

    fn element(&self, table: &TableSchema, is_system: bool) -> Element {
        let mut statement = table.describe(self.internals);
        if is_system && !LOCAL_KEYSPACES.contains(&table.keyspace()) {
            statement = format!(
                "/*\nWarning: Table {}.{} is a virtual table and cannot be recreated with \
                 CQL.\nStructure, for reference:\nVIRTUAL{}\n*/",
                table.keyspace(),
                table.name(),
                statement.trim_start_matches("CREATE")
            );
        }
        Element {
            keyspace: table.keyspace().to_string(),
            kind: TABLE_KIND,
            name: table.name().to_string(),
            statement,
        }
    }

    fn cluster(&self) -> Listing {
        let short = |class: &str| class.rsplit('.').next().unwrap_or(class).to_string();
        let columns = ["cluster", "partitioner", "snitch"];
        let mut columns = columns.map(|name| (name, CqlType::Text)).to_vec();
        let partitioner = short(PARTITIONER);
        let row = [&*self.facts.node.cluster_name, &partitioner, "SimpleSnitch"];
        let mut row = row.map(|cell| Some(text(cell))).to_vec();
        let system = &self.facts.system;
        if self
            .in_use
            .is_some_and(|keyspace| !system.has_keyspace(keyspace))
        {
            let owners = CqlType::list(CqlType::Text);
            columns.push(("range_ownership", CqlType::map(CqlType::Text, owners)));
            let token = self.facts.catalog.identity().token.to_string();
            let owner = text(&self.facts.node.address.to_string());
            row.push(Some(map([(text(&token), list([owner]))])));
        }
        Listing::new(TABLE, &columns, vec![row])
    }
}

impl Found {
    fn name(&self) -> &str {
        match self {
            Found::User(keyspace) => keyspace.name(),
            Found::System(name) => name,
            Found::Unreadable(found) => &found.keyspace,
        }
    }
}

/// Returns a comment that stands for the statement of an unreadable object.
fn warning(found: &Unreadable) -> String {
    // A path in the reason may contain the end of a comment.
    let found = found.to_string().replace("*/", "* /");
    format!("/*\nWarning: {found}\n*/")
}

/// Returns the unreadable types or tables of a keyspace as comments, so that a copy of the schema
/// made from the statements does not leave them out in silence.
fn unreadable(keyspace: &KeyspaceSchema, kind: ObjectKind) -> Vec<Element> {
    let element = |found: Unreadable| Element {
        keyspace: found.keyspace.clone(),
        kind: if kind == ObjectKind::Type {
            TYPE
        } else {
            TABLE_KIND
        },
        name: found.name.clone().unwrap_or_default(),
        statement: warning(&found),
    };
    let all = keyspace.all_unreadable().into_iter();
    all.filter(|found| found.kind == kind)
        .map(element)
        .collect()
}

/// Returns the index with this name; `None` if the keyspace has none.
fn index(keyspace: &Found, name: &str) -> Option<Element> {
    let Found::User(keyspace) = keyspace else {
        return None;
    };
    let table = keyspace.table_of_index(name)?;
    let mut indexes = table.indexed_columns();
    let indexed = indexes.find(|indexed| *indexed.index.name == *name)?;
    Some(index_element(table, &indexed))
}

fn index_element(table: &TableSchema, indexed: &IndexedColumn<'_>) -> Element {
    Element {
        keyspace: table.keyspace().to_string(),
        kind: INDEX,
        name: indexed.index.name.to_string(),
        statement: indexed.describe(table),
    }
}

fn not_found(what: &str, name: &QualifiedName, keyspace: &Found) -> ErrorResponse {
    ErrorResponse::invalid(format!(
        "{what} '{}' not found in '{}'",
        name.name.as_str(),
        keyspace.name()
    ))
}

#[cfg(test)]
mod tests;
