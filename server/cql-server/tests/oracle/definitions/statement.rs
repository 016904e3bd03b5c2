//! Statements that change the schema, as data: the text is for the server, the parts for the model.

use std::fmt;

use super::names::quoted;
use super::types::Type;

/// The name of a table, a type, an index or a snapshot, and the name of its keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    pub keyspace: String,
    pub name: String,
}

/// A replication strategy with its only option.
#[derive(Debug, Clone, Copy)]
pub struct Replication {
    pub class: &'static str,
    pub option: &'static str,
    pub copies: u32,
}

#[derive(Debug, Clone)]
pub struct NewColumn {
    pub name: String,
    pub ty: Type,
    pub is_static: bool,
}

/// Options of a table. The model contains the first three.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub comment: Option<&'static str>,
    pub default_time_to_live: Option<i32>,
    pub gc_grace_seconds: Option<i32>,
    /// Another option as text, which the model does not contain.
    pub other: Option<&'static str>,
}

/// The indexed part of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Simple,
    Values,
    Keys,
    Entries,
    Full,
}

#[derive(Debug, Clone)]
pub enum Statement {
    CreateKeyspace {
        keyspace: String,
        if_not_exists: bool,
        replication: Replication,
        durable_writes: Option<bool>,
    },
    AlterKeyspace {
        keyspace: String,
        replication: Option<Replication>,
        durable_writes: bool,
    },
    DropKeyspace {
        keyspace: String,
        if_exists: bool,
    },
    CreateType {
        name: Name,
        if_not_exists: bool,
        fields: Vec<(String, Type)>,
    },
    AddField {
        name: Name,
        field: String,
        ty: Type,
    },
    /// Renames fields, given by their old and new names.
    RenameFields {
        name: Name,
        fields: Vec<(String, String)>,
    },
    DropType {
        name: Name,
        if_exists: bool,
    },
    CreateTable {
        name: Name,
        if_not_exists: bool,
        columns: Vec<NewColumn>,
        partition: Vec<String>,
        /// The clustering columns, each with true for descending order.
        clustering: Vec<(String, bool)>,
        options: Options,
    },
    AddColumns {
        name: Name,
        columns: Vec<NewColumn>,
    },
    DropColumns {
        name: Name,
        columns: Vec<String>,
        timestamp_us: Option<i64>,
    },
    /// Renames columns, given by their old and new names.
    RenameColumns {
        name: Name,
        columns: Vec<(String, String)>,
    },
    AlterOptions {
        name: Name,
        options: Options,
    },
    DropTable {
        name: Name,
        if_exists: bool,
    },
    Truncate {
        name: Name,
    },
    CreateIndex {
        table: Name,
        name: Option<String>,
        if_not_exists: bool,
        column: String,
        target: Target,
    },
    DropIndex {
        name: Name,
        if_exists: bool,
    },
    /// Creates a snapshot of a keyspace, or of one of its tables.
    CreateSnapshot {
        keyspace: String,
        table: Option<String>,
        snapshot: String,
        if_not_exists: bool,
    },
    DropSnapshot {
        keyspace: String,
        table: Option<String>,
        snapshot: String,
        if_exists: bool,
    },
    /// A statement that does not change the schema, whether or not the server rejects it.
    WithoutEffect(String),
}

/// The kinds of statements whose effects are visible in `system_schema`.
pub const KINDS: [&str; 17] = [
    "CREATE KEYSPACE",
    "ALTER KEYSPACE",
    "DROP KEYSPACE",
    "CREATE TYPE",
    "ALTER TYPE ADD",
    "ALTER TYPE RENAME",
    "DROP TYPE",
    "CREATE TABLE",
    "ALTER TABLE ADD",
    "ALTER TABLE DROP",
    "ALTER TABLE RENAME",
    "ALTER TABLE WITH",
    "DROP TABLE",
    "CREATE INDEX",
    "DROP INDEX",
    "CREATE SNAPSHOT",
    "DROP SNAPSHOT",
];

impl Statement {
    /// Returns the kind of the statement: one of [`KINDS`], or another text if the statement has no
    /// effect that is visible in `system_schema`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::CreateKeyspace { .. } => "CREATE KEYSPACE",
            Self::AlterKeyspace { .. } => "ALTER KEYSPACE",
            Self::DropKeyspace { .. } => "DROP KEYSPACE",
            Self::CreateType { .. } => "CREATE TYPE",
            Self::AddField { .. } => "ALTER TYPE ADD",
            Self::RenameFields { .. } => "ALTER TYPE RENAME",
            Self::DropType { .. } => "DROP TYPE",
            Self::CreateTable { .. } => "CREATE TABLE",
            Self::AddColumns { .. } => "ALTER TABLE ADD",
            Self::DropColumns { .. } => "ALTER TABLE DROP",
            Self::RenameColumns { .. } => "ALTER TABLE RENAME",
            Self::AlterOptions { .. } => "ALTER TABLE WITH",
            Self::DropTable { .. } => "DROP TABLE",
            Self::Truncate { .. } => "TRUNCATE",
            Self::CreateIndex { .. } => "CREATE INDEX",
            Self::DropIndex { .. } => "DROP INDEX",
            Self::CreateSnapshot { .. } => "CREATE SNAPSHOT",
            Self::DropSnapshot { .. } => "DROP SNAPSHOT",
            Self::WithoutEffect(_) => "another statement",
        }
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let not_exists = |is: &bool| if *is { " IF NOT EXISTS" } else { "" };
        let exists = |is: &bool| if *is { " IF EXISTS" } else { "" };
        match self {
            Self::CreateKeyspace {
                keyspace,
                if_not_exists,
                replication,
                durable_writes,
            } => {
                let (when, keyspace) = (not_exists(if_not_exists), quoted(keyspace));
                write!(f, "CREATE KEYSPACE{when} {keyspace} WITH {replication}")?;
                match durable_writes {
                    Some(durable) => write!(f, " AND durable_writes = {durable}"),
                    None => Ok(()),
                }
            }
            Self::AlterKeyspace {
                keyspace,
                replication,
                durable_writes,
            } => {
                write!(f, "ALTER KEYSPACE {} WITH ", quoted(keyspace))?;
                if let Some(replication) = replication {
                    write!(f, "{replication} AND ")?;
                }
                write!(f, "durable_writes = {durable_writes}")
            }
            Self::DropKeyspace {
                keyspace,
                if_exists,
            } => {
                let keyspace = quoted(keyspace);
                write!(f, "DROP KEYSPACE{} {keyspace}", exists(if_exists))
            }
            Self::CreateType {
                name,
                if_not_exists,
                fields,
            } => {
                let fields = list(fields, |(field, ty)| format!("{} {ty}", quoted(field)));
                let when = not_exists(if_not_exists);
                write!(f, "CREATE TYPE{when} {name} ({fields})")
            }
            Self::AddField { name, field, ty } => {
                write!(f, "ALTER TYPE {name} ADD {} {ty}", quoted(field))
            }
            Self::RenameFields { name, fields } => {
                write!(f, "ALTER TYPE {name} RENAME {}", renames(fields))
            }
            Self::DropType { name, if_exists } => {
                write!(f, "DROP TYPE{} {name}", exists(if_exists))
            }
            Self::CreateTable {
                name,
                if_not_exists,
                columns,
                partition,
                clustering,
                options,
            } => {
                let when = not_exists(if_not_exists);
                write!(f, "CREATE TABLE{when} {name} (")?;
                f.write_str(&list(columns, ToString::to_string))?;
                if !partition.is_empty() {
                    let partition = list(partition, |name| quoted(name));
                    write!(f, ", PRIMARY KEY (({partition})")?;
                    for (column, _) in clustering {
                        write!(f, ", {}", quoted(column))?;
                    }
                    f.write_str(")")?;
                }
                f.write_str(")")?;
                let mut properties = options.properties();
                if clustering.iter().any(|(_, is_descending)| *is_descending) {
                    let order = list(clustering, |(column, is_descending)| {
                        let order = if *is_descending { "DESC" } else { "ASC" };
                        format!("{} {order}", quoted(column))
                    });
                    properties.push(format!("CLUSTERING ORDER BY ({order})"));
                }
                if properties.is_empty() {
                    return Ok(());
                }
                write!(f, " WITH {}", properties.join(" AND "))
            }
            Self::AddColumns { name, columns } => {
                let columns = list(columns, ToString::to_string);
                write!(f, "ALTER TABLE {name} ADD {columns}")
            }
            Self::DropColumns {
                name,
                columns,
                timestamp_us,
            } => {
                let columns = list(columns, |name| quoted(name));
                write!(f, "ALTER TABLE {name} DROP {columns}")?;
                match timestamp_us {
                    Some(timestamp) => write!(f, " USING TIMESTAMP {timestamp}"),
                    None => Ok(()),
                }
            }
            Self::RenameColumns { name, columns } => {
                write!(f, "ALTER TABLE {name} RENAME {}", renames(columns))
            }
            Self::AlterOptions { name, options } => {
                let properties = options.properties().join(" AND ");
                write!(f, "ALTER TABLE {name} WITH {properties}")
            }
            Self::DropTable { name, if_exists } => {
                write!(f, "DROP TABLE{} {name}", exists(if_exists))
            }
            Self::Truncate { name } => write!(f, "TRUNCATE {name}"),
            Self::CreateIndex {
                table,
                name,
                if_not_exists,
                column,
                target,
            } => {
                let name = name.as_deref().map(|name| format!(" {}", quoted(name)));
                let (when, name) = (not_exists(if_not_exists), name.unwrap_or_default());
                let target = target.of(&quoted(column));
                write!(f, "CREATE INDEX{when}{name} ON {table} ({target})")
            }
            Self::DropIndex { name, if_exists } => {
                write!(f, "DROP INDEX{} {name}", exists(if_exists))
            }
            Self::CreateSnapshot {
                keyspace,
                table,
                snapshot,
                if_not_exists,
            } => {
                let (when, on) = (not_exists(if_not_exists), scope(keyspace, table.as_deref()));
                write!(f, "CREATE SNAPSHOT{when} {} ON {on}", quoted(snapshot))
            }
            Self::DropSnapshot {
                keyspace,
                table,
                snapshot,
                if_exists,
            } => {
                let (when, on) = (exists(if_exists), scope(keyspace, table.as_deref()));
                write!(f, "DROP SNAPSHOT{when} {} ON {on}", quoted(snapshot))
            }
            Self::WithoutEffect(text) => f.write_str(text),
        }
    }
}

fn list<T>(all: &[T], one: impl Fn(&T) -> String) -> String {
    all.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn renames(pairs: &[(String, String)]) -> String {
    let pair = |(from, to): &(String, String)| format!("{} TO {}", quoted(from), quoted(to));
    pairs.iter().map(pair).collect::<Vec<_>>().join(" AND ")
}

/// Returns the scope of a snapshot, as statements name it.
fn scope(keyspace: &str, table: Option<&str>) -> String {
    let keyspace = quoted(keyspace);
    match table {
        Some(table) => format!("TABLE {keyspace}.{}", quoted(table)),
        None => format!("KEYSPACE {keyspace}"),
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", quoted(&self.keyspace), quoted(&self.name))
    }
}

impl fmt::Display for NewColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = if self.is_static { " STATIC" } else { "" };
        write!(f, "{} {}{suffix}", quoted(&self.name), self.ty)
    }
}

impl fmt::Display for Replication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            class,
            option,
            copies,
        } = self;
        write!(
            f,
            "replication = {{'class': '{class}', '{option}': {copies}}}"
        )
    }
}

impl Options {
    /// Returns the options as `name = value` each.
    pub fn properties(&self) -> Vec<String> {
        let comment = self.comment.map(|text| text.replace('\'', "''"));
        let ttl = self.default_time_to_live;
        let all = [
            comment.map(|text| format!("comment = '{text}'")),
            ttl.map(|seconds| format!("default_time_to_live = {seconds}")),
            (self.gc_grace_seconds).map(|seconds| format!("gc_grace_seconds = {seconds}")),
            self.other.map(str::to_owned),
        ];
        all.into_iter().flatten().collect()
    }
}

impl Target {
    /// Returns the target of an index in CREATE INDEX. `column` is the name of the column, in
    /// quotes if it needs them.
    pub fn of(self, column: &str) -> String {
        match self {
            Self::Simple => column.to_owned(),
            Self::Values => format!("values({column})"),
            Self::Keys => format!("keys({column})"),
            Self::Entries => format!("entries({column})"),
            Self::Full => format!("full({column})"),
        }
    }

    /// Parses the target of an index in `system_schema`. Returns the indexed part, and the text of
    /// the column.
    pub fn read(text: &str) -> (Self, &str) {
        let functions = [
            ("values(", Self::Values),
            ("keys(", Self::Keys),
            ("entries(", Self::Entries),
            ("full(", Self::Full),
        ];
        let inner = |function: &str| text.strip_prefix(function)?.strip_suffix(')');
        let mut found = functions
            .into_iter()
            .filter_map(|(function, target)| Some((target, inner(function)?)));
        found.next().unwrap_or((Self::Simple, text))
    }
}
