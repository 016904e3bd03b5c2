//! Trees to text: the canonical form of a statement, which reads as the same tree.
//!
//! Words of the language are in capitals, names in quotes only where they need them,
//! clauses in the order of the grammar, nothing that goes without saying.

mod access;
mod definition;
mod select;
mod term;
mod write;

use std::fmt::{Display, Formatter, Result};

use ebb_model::types::identifier::Quoted;

use super::ast::{Name, QualifiedName, Statement};

impl Display for Statement {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Statement::Select(select) => select.fmt(f),
            Statement::Write(write) => write.fmt(f),
            Statement::Batch(batch) => batch.fmt(f),
            Statement::Truncate(table) => write!(f, "TRUNCATE {table}"),
            Statement::Use(keyspace) => write!(f, "USE {keyspace}"),
            Statement::CreateKeyspace(create) => create.fmt(f),
            Statement::AlterKeyspace(alter) => alter.fmt(f),
            Statement::DropKeyspace(drop) => {
                write!(
                    f,
                    "DROP KEYSPACE {}{}",
                    if_exists(drop.if_exists),
                    drop.name
                )
            }
            Statement::CreateTable(create) => create.fmt(f),
            Statement::AlterTable(alter) => alter.fmt(f),
            Statement::DropTable(drop) => {
                write!(f, "DROP TABLE {}{}", if_exists(drop.if_exists), drop.name)
            }
            Statement::CreateType(create) => create.fmt(f),
            Statement::AlterType(alter) => alter.fmt(f),
            Statement::DropType(drop) => {
                let name = term::TypeReference(&drop.name);
                write!(f, "DROP TYPE {}{name}", if_exists(drop.if_exists))
            }
            Statement::CreateIndex(create) => create.fmt(f),
            Statement::DropIndex(drop) => {
                write!(f, "DROP INDEX {}{}", if_exists(drop.if_exists), drop.name)
            }
            Statement::Describe(describe) => describe.fmt(f),
            Statement::CreateSnapshot(create) => create.fmt(f),
            Statement::DropSnapshot(drop) => drop.fmt(f),
            Statement::ListSnapshots(list) => list.fmt(f),
            Statement::Role(role) => role.fmt(f),
            Statement::Permission(permission) => permission.fmt(f),
            Statement::Unsupported(unsupported) => f.write_str(&unsupported.text),
        }
    }
}

/// As CQL writes it: in quotes where it is not small letters, digits and `_`, or where it
/// is a reserved word.
impl Display for Name {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        Quoted(self.as_str()).fmt(f)
    }
}

impl Display for QualifiedName {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if let Some(keyspace) = &self.keyspace {
            write!(f, "{keyspace}.")?;
        }
        self.name.fmt(f)
    }
}

/// A name in quotes, needed or not.
fn quoted(name: &Name) -> String {
    format!("\"{}\"", name.as_str().replace('"', "\"\""))
}

/// Items with something between them.
struct Joined<'a, T>(&'a [T], &'static str);

impl<T: Display> Display for Joined<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for (at, item) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(self.1)?;
            }
            item.fmt(f)?;
        }
        Ok(())
    }
}

/// `a: b, c: d`.
struct Pairs<'a, K, V>(&'a [(K, V)]);

impl<K: Display, V: Display> Display for Pairs<'_, K, V> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for (at, (key, value)) in self.0.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            // A marker's colon must not follow the key's.
            write!(f, "{comma}{key}: {value}")?;
        }
        Ok(())
    }
}

fn comma<T>(items: &[T]) -> Joined<'_, T> {
    Joined(items, ", ")
}

fn if_exists(said: bool) -> &'static str {
    if said { "IF EXISTS " } else { "" }
}

fn if_not_exists(said: bool) -> &'static str {
    if said { "IF NOT EXISTS " } else { "" }
}
