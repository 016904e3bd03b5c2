//! A prepared statement.

use std::sync::Arc;

use arc_swap::ArcSwap;
use ebb_cql::protocol::{Columns, ErrorResponse, prepared_id};
use ebb_cql::syntax::ast::{self, Parsed, PermissionStatement, RoleStatement};
use ebb_model::access::Need;
use ebb_model::schema::TableSchema;

use super::call::{Administration, RowWrite, Statement, StatementKind, WriteKind};
use super::context::in_keyspace;
use super::error::{Result, invalid};
use super::read::Select;
use super::write::{NOT_A_WRITE, WriteStatement};

/// A statement, with the result of its analysis under the schema of its last execution.
#[derive(Debug)]
pub struct Prepared {
    /// The syntax tree, which is analysed again after a change of the schema.
    pub(super) parsed: Parsed,
    /// The number of the statement, never 0 and never reused.
    pub(super) number: u64,
    /// The permissions that the statement requires; `None` if they are determined at each
    /// execution.
    pub(super) needs: Option<Box<[Need]>>,
    /// The keyspace in which unqualified names in the statement are resolved.
    pub(super) keyspace: Option<String>,
    /// A hash of the text and, unless the statement is a SELECT from a qualified table, of the
    /// keyspace in use. Paging states contain it.
    pub(super) hash: u64,
    pub(super) text: Box<str>,
    /// The number of tokens in the text, for an estimate of the memory that the statement takes.
    pub(super) tokens: usize,
    /// The bytes that the statement took at PREPARE beyond what is proportional to its text: see
    /// [`Memory`](super::memory::Memory).
    pub(super) memory_bytes: usize,
    /// The markers, as in the response to PREPARE.
    pub(super) markers: Columns,
    pub(super) partition_key: Vec<u16>,
    pub(super) columns: Option<Columns>,
    pub(super) kind: StatementKind,
    pub(super) needs_keyspace: bool,
    /// The latest analysis of the statement. If the schema has changed by the next execution, the
    /// statement is analysed again.
    pub(super) meaning: ArcSwap<Meaning>,
}

/// The most bytes by which a later analysis of a statement may exceed the analysis at PREPARE. This
/// is about the size of the smallest statement, so that growth at most doubles the memory of the
/// cache.
const GROWTH_BYTES_MAX: usize = 4 << 10;

impl Prepared {
    /// Returns whether the analysis under a changed schema takes too much more memory than the one
    /// at PREPARE, which is the one that the cache of prepared statements counts.
    pub(super) fn is_outgrown_by(&self, memory_bytes: usize) -> bool {
        memory_bytes > self.memory_bytes + GROWTH_BYTES_MAX
    }

    /// Returns the error of an execution after a change of the schema by which the markers have other
    /// names or types, or the analysis takes much more memory. The client has to prepare the statement
    /// again: with other types, the server would misread values that were encoded before the change.
    pub(super) fn unprepared(&self) -> ErrorResponse {
        let keyspace = self.keyspace.as_deref().filter(|_| self.needs_keyspace);
        ErrorResponse::unprepared(&prepared_id(keyspace, &self.text))
    }
}

/// The result of analysing a statement under a schema.
#[derive(Debug)]
pub(super) enum Meaning {
    Select(Box<SelectMeaning>),
    /// INSERT, UPDATE, DELETE or BATCH.
    Write(Box<WriteStatement>),
    /// A statement that is analysed only when it is executed.
    Late,
}

impl Meaning {
    /// Returns the analysed write.
    ///
    /// # Errors
    /// If the statement does not write rows.
    pub(super) fn as_write(&self) -> Result<&WriteStatement> {
        match self {
            Self::Write(write) => Ok(write),
            _ => invalid(NOT_A_WRITE),
        }
    }

    /// Returns the analysed SELECT.
    ///
    /// # Errors
    /// If the statement is no SELECT, which is a bug.
    pub(super) fn as_select(&self) -> Result<&SelectMeaning> {
        match self {
            Self::Select(select) => Ok(select),
            _ => Err(ErrorResponse::server(
                "a SELECT was understood as another statement",
            )),
        }
    }
}

/// An analysed SELECT, with the schema of its table.
#[derive(Debug)]
pub(super) struct SelectMeaning {
    /// The schema of the table at the analysis. It differs from the present schema after an ALTER
    /// TABLE.
    pub(super) schema: Arc<TableSchema>,
    pub(super) select: Select,
    pub(super) markers: Columns,
    /// The bytes that the statement takes beyond what is proportional to its text, for example for
    /// the types of its markers.
    pub(super) memory_bytes: usize,
}

/// Returns the roles and identities that a statement creates, changes or drops; `None` for a
/// statement that only lists roles.
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

/// Returns the table and kind of a write, without its values. Returns `None` if the table is
/// unqualified and no keyspace is in use.
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
                // A read pins files that merges have replaced.
                administration.frees_space = true;
            }
            _ => {}
        }
        Some(administration)
    }

    fn may_be_in_batch(&self) -> bool {
        matches!(self.parsed.statement, ast::Statement::Write(_))
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
        // Tree and plan consist of many small allocations. A measurement with 60,000 short SELECTs
        // of ten tokens gave 3.8 KB for each. Long statements took 50 to 190 bytes for a token, by
        // its kind: a column in a list, or one of the four of `AND a = 1`.
        const PIECES: usize = 1536;
        const TOKEN_BYTES: usize = 96;
        // A long constant is in the text, in the tree and in the plan.
        const COPIES: usize = 3;
        let own = size_of::<Self>() + size_of::<SelectMeaning>() + PIECES;
        let words = COPIES * self.text.len() + TOKEN_BYTES * self.tokens;
        // The metadata are a part of `memory_bytes`.
        own + words + 3 * metadata + self.memory_bytes
    }
}
