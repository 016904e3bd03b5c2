//! One request as its executor sees it: the statement, the call and the service.

use std::sync::Arc;

use bytes::BytesMut;
use ebb_cql::protocol::{
    BatchKind, Columns, Consistency, ErrorResponse, QueryParameters, SchemaChange, Values, Version,
    WriteType,
};

use super::access::{Login, User};
pub use super::interrupt::{Interrupt, TimeOut};
pub use super::outcome::Outcome;
use super::write::write_type_of;

/// Where a statement may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// On the thread that received it: a point read, which takes microseconds.
    Inline,
    /// As `Inline`, but where it would wait for the disk: then behind other writes, on
    /// one thread, which commits together what waits. Batches of writes run here.
    Write,
    /// Behind other scans of its user, on a few threads: it may read any number of rows of some
    /// partitions.
    Scan,
    /// Like `Scan`, on threads of the kernel's idle class: it may read the whole table.
    Range,
    /// The lane of statements that computed for long on a thread on which others wait. Users share its
    /// threads by the rule of the scans, and it has threads of its own. No statement begins here.
    Moved,
    /// One at a time: it changes the schema.
    Schema,
    /// One at a time, and behind no other request: it ends a query.
    Control,
    /// Few at a time: it verifies a password, which takes tens of milliseconds of a core.
    Login,
}

/// Executes statements. Called from many threads at once.
pub trait Service: Send + Sync + 'static {
    /// A statement that was understood.
    type Statement: Statement;

    /// Understands a statement. `keyspace` is the one in use.
    fn prepare(&self, keyspace: Option<&str>, text: &str)
    -> Result<Self::Statement, ErrorResponse>;

    /// Executes a statement and appends the body of the RESULT to `out`. What it
    /// appended before an error is taken back by the caller.
    fn execute(
        &self,
        statement: &Self::Statement,
        call: &Call<'_>,
        out: &mut BytesMut,
    ) -> Result<Outcome, ErrorResponse>;

    /// Executes statements that write as one, and appends the body as `execute` does.
    ///
    /// # Errors
    /// What the client is told; then none of them was executed.
    fn batch(
        &self,
        kind: BatchKind,
        statements: &[(Arc<Self::Statement>, Values<'_>)],
        call: &Call<'_>,
        out: &mut BytesMut,
    ) -> Result<Outcome, ErrorResponse>;

    /// Numbers of what statements that write take turns at: those of one number are best
    /// executed one after the other. Whoever executes some of them at once is told of
    /// conflicts ([`Outcome::is_in_conflict`]).
    ///
    /// # Errors
    /// What the client is told; then executing them would fail, too.
    fn turns(
        &self,
        _statements: &[(Arc<Self::Statement>, Values<'_>)],
    ) -> Result<Vec<u64>, ErrorResponse> {
        Ok(Vec::new())
    }

    /// Who may come in; `None` where nobody has to log in.
    fn login(&self) -> Option<&Login> {
        None
    }

    /// Whether a request of this user may be traced.
    fn check_trace(&self, _user: &User) -> Result<(), ErrorResponse> {
        Ok(())
    }

    /// Whether a write is acknowledged only after [`sync`](Self::sync). `execute` and
    /// `batch` never wait for the disk themselves: one sync serves many writes.
    fn commits_wait_for_sync(&self) -> bool {
        false
    }

    /// Calls `tell` for changes of the schema that no statement makes, from now on. It never
    /// waits.
    fn on_change(&self, _tell: Box<dyn Fn(SchemaChange) + Send + Sync>) {}

    /// Makes what was executed before survive a crash of the machine.
    ///
    /// # Errors
    /// What the clients are told whose writes may be lost.
    fn sync(&self) -> Result<(), ErrorResponse> {
        Ok(())
    }
}

/// The kind of a statement or batch. The server chooses the lane and the turns of a request by it. The
/// kind of a statement is computed when the statement is prepared, the kind of a batch by
/// [`of_batch`](Self::of_batch) for each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatementKind {
    /// The lane in which it begins.
    pub lane: Lane,
    /// The type of a write in the error of its time-out. Reads have [`WriteType::Simple`].
    pub write_type: WriteType,
}

impl StatementKind {
    /// Returns the kind of a batch of statements of these kinds.
    pub fn of_batch(kind: BatchKind, statements: impl Iterator<Item = Self> + Clone) -> Self {
        let has = |of: &WriteType| statements.clone().any(|one| one.write_type == *of);
        let special = [WriteType::Cas, WriteType::Counter].into_iter().find(has);
        Self {
            lane: Lane::Write,
            write_type: special.unwrap_or_else(|| write_type_of(kind)),
        }
    }

    /// Returns whether the statement reads what it writes to. Such writes to one row wait for each other.
    pub fn takes_turns(self) -> bool {
        matches!(self.write_type, WriteType::Cas | WriteType::Counter)
    }

    /// Returns whether it may read any number of rows.
    pub fn is_scan(self) -> bool {
        matches!(self.lane, Lane::Scan | Lane::Range)
    }

    /// Returns the time-out of an execution at this consistency level.
    pub fn time_out(self, consistency: Consistency) -> TimeOut {
        match self.lane {
            Lane::Write => TimeOut::Write(consistency, self.write_type),
            _ => TimeOut::Read(consistency),
        }
    }
}

/// The properties of a statement of administration that its text without constants may not show.
#[derive(Debug, Clone, Default)]
pub struct Administration<'a> {
    /// The keyspace of names that have none.
    pub keyspace: Option<&'a str>,
    /// The roles and the identities of certificates that it names. They may be constants.
    pub roles: Vec<&'a str>,
    /// Whether it makes its role a superuser; `None` if it changes nothing of that.
    pub superuser: Option<bool>,
    /// Whether it may free space on the disk.
    pub frees_space: bool,
    /// The id of the query that it kills, which is a constant there.
    pub query: Option<u64>,
}

/// The kind of a write of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteKind {
    /// INSERT.
    Insert,
    /// UPDATE.
    Update,
    /// DELETE.
    Delete,
    /// A statement of a batch.
    Batch,
}

impl WriteKind {
    /// Returns the word of CQL for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Batch => "BATCH",
        }
    }
}

/// A write of rows, without its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowWrite<'a> {
    /// The kind of the write.
    pub kind: WriteKind,
    /// The keyspace of the table.
    pub keyspace: &'a str,
    /// The table that is written to.
    pub table: &'a str,
}

/// A statement as the protocol sees it.
pub trait Statement: Send + Sync + 'static {
    /// Returns the kind of the statement.
    fn kind(&self) -> StatementKind;

    /// Returns the properties of a statement of administration: one that changes the schema,
    /// snapshots, roles or permissions, or is TRUNCATE or KILL QUERY. Such statements run in
    /// [`Lane::Schema`] or [`Lane::Control`]. `None` for all others.
    fn administration(&self) -> Option<Administration<'_>>;

    /// Returns the writes of rows in the statement: several of a batch, none of statements of other kinds.
    fn writes(&self) -> Vec<RowWrite<'_>>;

    /// Its meaning depends on the keyspace in use: a name in it has none.
    fn needs_keyspace(&self) -> bool;

    /// The markers, and by their places those of the partition key, where all its
    /// columns have one.
    fn markers(&self) -> (&Columns, &[u16]);

    /// The columns of its result; `None` for what returns none.
    fn columns(&self) -> Option<&Columns>;

    /// The text of the statement as the client sent it.
    fn text(&self) -> &str;

    /// About how much memory it takes with its text, in bytes.
    fn size_bytes(&self) -> usize;
}

/// What a statement is executed with.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    /// The keyspace in use.
    pub keyspace: Option<&'a str>,
    /// The version of the protocol in which the answer is written.
    pub version: Version,
    /// What the request says: values, paging, timestamp. Without values in a batch.
    pub parameters: QueryParameters<'a>,
    /// When to give up.
    pub interrupt: &'a Interrupt,
    /// Who asks.
    pub user: &'a User,
}
