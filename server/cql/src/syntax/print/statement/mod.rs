//! Printing of whole statements in canonical form, for tests and fuzzing. The text parses to an equal
//! tree.
//!
//! Keywords are in capitals, names in quotes only where necessary, clauses in the order of the
//! grammar, and defaults are omitted.

mod access;
mod definition;
mod select;
mod write;

use std::fmt::{Display, Formatter, Result};

use super::term::TypeReference;
use crate::syntax::ast::Statement;

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
                let name = TypeReference(&drop.name);
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
            Statement::KillQuery(id) => write!(f, "KILL QUERY {id}"),
            Statement::Role(role) => role.fmt(f),
            Statement::Permission(permission) => permission.fmt(f),
            Statement::Unsupported(unsupported) => f.write_str(&unsupported.text),
        }
    }
}

fn if_exists(is_set: bool) -> &'static str {
    if is_set { "IF EXISTS " } else { "" }
}

fn if_not_exists(is_set: bool) -> &'static str {
    if is_set { "IF NOT EXISTS " } else { "" }
}
