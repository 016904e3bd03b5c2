//! A statement that was understood.

use std::sync::Arc;

use arc_swap::ArcSwap;
use ebb_cql::protocol::Columns;
use ebb_cql::syntax::ast::{self, Parsed, PermissionStatement, RoleStatement};
use ebb_model::access::Need;
use ebb_model::schema::TableSchema;

use super::call::{Administration, RowWrite, Statement, StatementKind, WriteKind};
use super::context::in_keyspace;
use super::error::{Result, invalid};
use super::read::Select;
use super::write::{NOT_A_WRITE, WriteStatement};

/// A statement with its meaning under the schema that was there when it was last asked.
#[derive(Debug)]
pub struct Prepared {
    /// The tree, to be understood again where the schema is another.
    pub(super) parsed: Parsed,
    /// Never 0, and never that of another statement.
    pub(super) number: u64,
    /// What it takes of whoever executes it; `None` where that is seen each time.
    pub(super) needs: Option<Box<[Need]>>,
    /// The keyspace that names without one are of.
    pub(super) keyspace: Option<String>,
    /// Of the text and keyspace: paging states belong to it.
    pub(super) hash: u64,
    pub(super) text: Box<str>,
    /// What PREPARE answered.
    pub(super) markers: Columns,
    pub(super) partition_key: Vec<u16>,
    pub(super) columns: Option<Columns>,
    pub(super) kind: StatementKind,
    pub(super) needs_keyspace: bool,
    /// What it means now.
    pub(super) meaning: ArcSwap<Meaning>,
}

/// What a statement means under a schema.
#[derive(Debug)]
pub(super) enum Meaning {
    Select(Box<SelectMeaning>),
    /// INSERT, UPDATE, DELETE, BATCH.
    Write(Box<WriteStatement>),
    /// What is understood each time that it is executed.
    Late,
}

impl Meaning {
    /// What it writes.
    ///
    /// # Errors
    /// Where it does not write rows.
    pub(super) fn as_write(&self) -> Result<&WriteStatement> {
        match self {
            Self::Write(write) => Ok(write),
            _ => invalid(NOT_A_WRITE),
        }
    }
}

/// A SELECT with its table.
#[derive(Debug)]
pub(super) struct SelectMeaning {
    /// What it was analysed for; another one after an ALTER.
    pub(super) schema: Arc<TableSchema>,
    pub(super) select: Select,
    pub(super) markers: Columns,
}

/// Returns the roles and identities in a statement about roles; `None` if it changes nothing.
fn roles_of(statement: &RoleStatement) -> Option<Vec<&str>> {
    Some(match statement {
        RoleStatement::Create(create) => vec![create.name.as_str()],
        RoleStatement::Alter(alter) => vec![alter.name.as_str()],
        RoleStatement::Drop(drop) => vec![drop.name.as_str()],
        RoleStatement::Grant(of) | RoleStatement::Revoke(of) => {
            vec![of.role.as_str(), of.member.as_str()]
        }
        RoleStatement::AddIdentity(add) => vec![add.identity.as_str(), add.role.as_str()],
        RoleStatement::DropIdentity(drop) => vec![drop.identity.as_str()],
        RoleStatement::List(_) | RoleStatement::ListUsers => return None,
    })
}

/// Returns a write without its values; `None` if no keyspace is named and none is in use.
fn row_write<'a>(write: &'a ast::Write, in_use: Option<&'a str>) -> Option<RowWrite<'a>> {
    let (kind, name) = match write {
        ast::Write::Insert(insert) => (WriteKind::Insert, &insert.table),
        ast::Write::Update(update) => (WriteKind::Update, &update.table),
        ast::Write::Delete(delete) => (WriteKind::Delete, &delete.table),
    };
    Some(RowWrite {
        kind,
        keyspace: in_keyspace(name, in_use).ok()?,
        table: name.name.as_str(),
    })
}

impl Statement for Prepared {
    fn kind(&self) -> StatementKind {
        self.kind
    }

    fn administration(&self) -> Option<Administration<'_>> {
        use ast::Statement::*;
        let mut administration = Administration {
            keyspace: self.keyspace.as_deref(),
            ..Administration::default()
        };
        match &self.parsed.statement {
            Select(_) | Write(_) | Batch(_) | Use(_) | Describe(_) | ListSnapshots(_) => {
                return None;
            }
            Role(role) => {
                administration.roles = roles_of(role)?;
                administration.superuser = match role {
                    RoleStatement::Create(create) => create.options.superuser,
                    RoleStatement::Alter(alter) => alter.options.superuser,
                    _ => None,
                };
            }
            Permission(PermissionStatement::List(_)) => return None,
            Permission(PermissionStatement::Grant(grant) | PermissionStatement::Revoke(grant)) => {
                if let ast::Resource::Role(role) = &grant.on {
                    administration.roles.push(role.as_str());
                }
                administration.roles.push(grant.role.as_str());
            }
            Truncate(_) | DropKeyspace(_) | DropTable(_) | DropIndex(_) | DropSnapshot(_) => {
                administration.frees_space = true;
            }
            KillQuery(id) => {
                administration.query = Some(*id);
                // A read keeps files that merges have replaced.
                administration.frees_space = true;
            }
            _ => {}
        }
        Some(administration)
    }

    fn writes(&self) -> Vec<RowWrite<'_>> {
        let of = |write| row_write(write, self.keyspace.as_deref());
        match &self.parsed.statement {
            ast::Statement::Write(write) => of(write).into_iter().collect(),
            ast::Statement::Batch(batch) => {
                let kind = WriteKind::Batch;
                let writes = batch.writes.iter().filter_map(of);
                writes.map(|write| RowWrite { kind, ..write }).collect()
            }
            _ => Vec::new(),
        }
    }

    fn needs_keyspace(&self) -> bool {
        self.needs_keyspace
    }

    fn markers(&self) -> (&Columns, &[u16]) {
        (&self.markers, &self.partition_key)
    }

    fn columns(&self) -> Option<&Columns> {
        self.columns.as_ref()
    }

    fn text(&self) -> &str {
        &self.text
    }

    fn size_bytes(&self) -> usize {
        let metadata = self.markers.metadata_bytes()
            + self.columns.as_ref().map_or(0, Columns::metadata_bytes);
        // Tree and plan are many small pieces, each a word or a list of them. 60,000 short
        // SELECTs took 3.8 KB each where the text had 45 bytes.
        const PIECES: usize = 1024;
        let own = size_of::<Self>() + size_of::<SelectMeaning>() + PIECES;
        own + 33 * self.text.len() + 4 * metadata
    }
}
