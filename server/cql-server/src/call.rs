//! The interface between the sockets and the execution of statements: the service, its statements
//! and one call.

use std::fmt::Debug;
use std::sync::Arc;

use bytes::BytesMut;
use ebb_cql::protocol::{
    BatchKind, Columns, Consistency, QueryParameters, SchemaChange, Values, Version, WriteType,
};

use super::access::{Login, User};
use super::error::Result;
pub use super::interrupt::{Interrupt, TimeOut};
pub use super::outcome::{Outcome, SchemaChanges};
use super::write::write_type_of;
pub use super::write::{NOT_A_WRITE, RequestAnalysis};

/// The lane of a statement: the threads on which the statement runs, and the queue in which it
/// waits for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// The thread that received the request. This lane is for reads of one row by its whole key,
    /// which take microseconds, for reads of virtual tables and for USE.
    Inline,
    /// For writes, batches among them. While commits are quick, a write runs on the thread that
    /// received it. If each commit waits for an fsync, or writes are slow at the moment, one other
    /// thread executes the writes that have queued up, and syncs once for all of them.
    Write,
    /// A few threads, for reads of any number of rows that a key or an index selects, and for
    /// DESCRIBE. A statement may wait behind other scans of the same user.
    Scan,
    /// Like `Scan`, but by default on threads of the kernel's idle class: for reads without key or
    /// index, which may read a whole table.
    Range,
    /// Separate threads for statements that have used much CPU time on a thread on which other
    /// requests wait: they are moved here, and no statement begins here. A moved statement may wait
    /// behind others of the same user.
    Moved,
    /// For changes of the schema and TRUNCATE, and for statements that change or list snapshots,
    /// roles or permissions, one at a time.
    Schema,
    /// For statements that kill a query, one at a time. They do not wait for statements of other
    /// lanes.
    Control,
    /// For logins, a few at a time: verifying a password takes tens of milliseconds of CPU time.
    Login,
}

/// The execution of statements. Methods are called from many threads at once.
pub trait Service: Send + Sync + 'static {
    /// A prepared statement.
    type Statement: Statement;

    /// Parses and analyses a statement. `keyspace` is the keyspace in use. `analysis` is the state
    /// that all statements in the texts of one request share.
    ///
    /// # Errors
    /// The error for the client, for example if the statements of the request take too much memory.
    fn prepare(
        &self,
        keyspace: Option<&str>,
        text: &str,
        analysis: &mut RequestAnalysis,
    ) -> Result<Self::Statement>;

    /// Returns whether a prepared statement can still be executed: it is valid under the current
    /// schema, its markers have the same names and types as at PREPARE, and it takes about as much
    /// memory as then. If not, its clients have to prepare it again. Also true for statements that
    /// are checked only when they are executed.
    fn is_current(&self, _statement: &Self::Statement) -> bool {
        true
    }

    /// Executes a statement and appends the body of the RESULT to `out`. After an error the caller
    /// discards whatever was appended, but not the [changes of the schema](Call::changes).
    ///
    /// # Errors
    /// The error for the client. After UNPREPARED nothing was executed, and the caller may analyse the
    /// text of the statement again.
    fn execute(
        &self,
        statement: &Self::Statement,
        call: &Call<'_>,
        out: &mut BytesMut,
    ) -> Result<Outcome>;

    /// Executes writes, all of which [may be in a batch](Statement::may_be_in_batch), as one batch, and
    /// appends the body of the RESULT as `execute` does.
    ///
    /// # Errors
    /// The error for the client. After UNPREPARED nothing was executed, and the caller may analyse
    /// the texts of statements again.
    fn batch(
        &self,
        kind: BatchKind,
        statements: &[(Arc<Self::Statement>, Values<'_>)],
        call: &Call<'_>,
        out: &mut BytesMut,
    ) -> Result<Outcome>;

    /// Returns a hash of each partition that conditional writes or counter writes among these
    /// statements read before they write. Statements with the same hash should be executed one
    /// after another, because concurrent ones conflict ([`Outcome::is_in_conflict`]).
    ///
    /// # Errors
    /// The error for the client, if execution would fail with the same error.
    fn turns(&self, _statements: &[(Arc<Self::Statement>, Values<'_>)]) -> Result<Vec<u64>> {
        Ok(Vec::new())
    }

    /// Returns the authentication of clients; `None` on a server without authentication.
    fn login(&self) -> Option<&Login> {
        None
    }

    /// Checks that requests of this user may be traced.
    fn check_trace(&self, _user: &User) -> Result<()> {
        Ok(())
    }

    /// Returns whether a write is acknowledged only after [`sync`](Self::sync). `execute` and
    /// `batch` never wait for the disk themselves, so that one sync serves many writes.
    fn commits_wait_for_sync(&self) -> bool {
        false
    }

    /// Registers a callback for schema changes that no statement causes, such as the expiry of a
    /// snapshot. The callback must not block.
    fn on_change(&self, _notify: Box<dyn Fn(SchemaChange) + Send + Sync>) {}

    /// Makes the statements executed so far durable.
    ///
    /// # Errors
    /// The error for the clients whose writes may be lost.
    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

/// The kind of a statement or batch, which decides on which threads (in which lane) a request runs,
/// and whether it waits for other writes of the same partition. The kind of a statement is computed
/// at PREPARE, the kind of a batch by [`of_batch`](Self::of_batch) for each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatementKind {
    /// The lane (threads with a queue) in which the statement begins. A statement that takes long
    /// may be moved to another one.
    pub lane: Lane,
    /// The write type that the error of a timeout reports. Statements that write no rows have
    /// [`WriteType::Simple`], which is not reported.
    pub write_type: WriteType,
}

impl StatementKind {
    /// Returns the kind of a batch. `statements` has the kinds of the statements in the batch.
    pub fn of_batch(kind: BatchKind, statements: impl Iterator<Item = Self> + Clone) -> Self {
        let has = |of: &WriteType| statements.clone().any(|one| one.write_type == *of);
        let special = [WriteType::Cas, WriteType::Counter].into_iter().find(has);
        Self {
            lane: Lane::Write,
            write_type: special.unwrap_or_else(|| write_type_of(kind)),
        }
    }

    /// Returns whether the statement is a conditional write or a write of counters, which reads
    /// rows before it writes them. Such writes of the same partition are executed one after
    /// another.
    pub fn takes_turns(self) -> bool {
        matches!(self.write_type, WriteType::Cas | WriteType::Counter)
    }

    /// Returns whether the statement may read any number of rows.
    pub fn is_scan(self) -> bool {
        matches!(self.lane, Lane::Scan | Lane::Range)
    }

    /// Returns the error of an execution at this consistency level that exceeds its time limit.
    pub fn time_out(self, consistency: Consistency) -> TimeOut {
        match self.lane {
            Lane::Write => TimeOut::Write(consistency, self.write_type),
            _ => TimeOut::Read(consistency),
        }
    }
}

/// The properties of an administrative statement, for the audit log and for
/// `ServerEvent::Administered`. Both also contain the text of the statement, but with `?` in place
/// of constants, so the properties are listed separately.
#[derive(Debug, Clone, Default)]
pub struct Administration<'a> {
    /// The keyspace in which unqualified names in the statement are resolved.
    pub keyspace: Option<&'a str>,
    /// The roles and certificate identities that the statement names. Some are constants, which the
    /// text in the audit log does not show.
    pub roles: Vec<&'a str>,
    /// True if the statement makes a role a superuser, false if it makes one an ordinary role;
    /// `None` if it does neither.
    pub superuser: Option<bool>,
    /// True if the statement may free disk space. Such a statement is executed even if the disk is
    /// too full for its entry in the audit log.
    pub frees_space: bool,
    /// The id of the query that the statement kills, which is a constant in its text.
    pub query: Option<u64>,
}

/// The kind of a write of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteKind {
    Insert,
    Update,
    Delete,
    /// A batch, whatever its statements are.
    Batch,
}

impl WriteKind {
    /// Returns the keyword of the write in CQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Batch => "BATCH",
        }
    }
}

/// The kind and the table of a write of rows, without its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowWrite<'a> {
    pub kind: WriteKind,
    pub keyspace: &'a str,
    pub table: &'a str,
}

/// A prepared statement, with the properties that the server of the protocol needs.
pub trait Statement: Send + Sync + 'static {
    fn kind(&self) -> StatementKind;

    /// Returns the properties of an administrative statement: one that changes the schema,
    /// snapshots, roles or permissions, or is TRUNCATE or KILL QUERY. Such statements run in
    /// [`Lane::Schema`] or [`Lane::Control`]. `None` for all others.
    fn administration(&self) -> Option<Administration<'_>>;

    /// Returns whether a BATCH of the protocol may contain the statement: it is a single INSERT, UPDATE
    /// or DELETE.
    fn may_be_in_batch(&self) -> bool;

    /// Returns the row writes of the statement: several for a batch, none for other kinds of
    /// statements.
    fn writes(&self) -> Vec<RowWrite<'_>>;

    /// Returns whether a name in the statement is resolved in the keyspace in use.
    fn needs_keyspace(&self) -> bool;

    /// Returns the bind markers of the statement, and the indexes of the markers that provide the
    /// partition key (empty unless every column of the key has a marker).
    fn markers(&self) -> (&Columns, &[u16]);

    /// Returns the columns of the result; `None` for a statement without a result.
    fn columns(&self) -> Option<&Columns>;

    /// Returns the text of the statement as the client sent it.
    fn text(&self) -> &str;

    /// Returns the approximate memory of the statement and its text, in bytes.
    fn size_bytes(&self) -> usize;
}

/// The memory for the response to a read, with the rows that the read sorts and the states of its
/// aggregates. All reads, and all responses that wait for their clients, share a limited amount.
pub trait ResponseMemory: Debug {
    /// Takes memory until the request has `bytes` bytes, if it has less.
    ///
    /// # Errors
    /// OVERLOADED, if there is too little memory at the moment.
    fn grow(&self, bytes: usize) -> Result<()>;
}

/// The parameters of one execution.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    /// The keyspace in use.
    pub keyspace: Option<&'a str>,
    /// The protocol version of the response.
    pub version: Version,
    /// The parameters of the request: values, paging, timestamp. For a batch the values are empty,
    /// since each statement has values of its own.
    pub parameters: QueryParameters<'a>,
    /// The deadline and the cancellation of the statement.
    pub interrupt: &'a Interrupt,
    /// The user of the connection.
    pub user: &'a User,
    /// The schema changes that the call has made so far. The server publishes them to clients that
    /// registered for events, even if the call fails.
    pub changes: &'a SchemaChanges,
    /// The memory for the response; `None` without a limit.
    pub memory: Option<&'a dyn ResponseMemory>,
}
