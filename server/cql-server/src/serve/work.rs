//! A request with its statements: the one way to execute it, inline or in a lane.
//!
//! ```text
//!   session: frame ─> Work ─┬─ run_inline ─> response, in the buffer of the connection
//!                           └─ lane: LaneRequest (Work, frame) ─> run ─> reply
//! ```

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::slice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use ebb_cql::protocol::{
    Batch, Coding, Consistency, ErrorKind, ErrorResponse, QueryParameters, Request, StatementRef,
    Values,
};

use super::audit::BegunWrites;
use super::login::LoginAttempt;
use super::outbox::Outbox;
use super::replies::respond;
use super::requests::WaitingStatement;
use super::shared::Shared;
use super::slow::{Sender, Spent};
use super::statements::Entry;
use super::turns::Stripes;
use crate::activity::Trace;
use crate::call::{
    Call, Interrupt, Lane, RequestAnalysis, ResponseMemory, Service, Statement, StatementKind,
    TimeOut,
};
use crate::error::Result;
use crate::interrupt;
use crate::outcome::{Outcome, SchemaChanges};

/// The CPU time that a statement may use on a thread on which other requests wait: one that serves
/// connections, or the one that commits their writes. After that the statement begins anew on a
/// separate thread ([`Lane::Moved`]).
pub(super) const SHARED_THREAD_CPU_MAX: Duration = Duration::from_millis(5);

pub(super) enum RequestStatements<T> {
    /// No statement: the request is a login.
    Login(Arc<LoginAttempt>),
    One(Arc<Entry<T>>),
    Batch(Vec<Arc<Entry<T>>>),
}

impl<T> RequestStatements<T> {
    pub(super) fn as_slice(&self) -> &[Arc<Entry<T>>] {
        match self {
            Self::Login(_) => &[],
            Self::One(statement) => slice::from_ref(statement),
            Self::Batch(statements) => statements,
        }
    }
}

/// A request, without the frame that contains its bound values.
pub(super) struct Work<S: Service> {
    pub shared: Arc<Shared<S>>,
    pub sender: Sender,
    pub coding: Coding,
    pub statements: RequestStatements<S::Statement>,
    pub kind: StatementKind,
    pub consistency: Consistency,
    /// The locks of the partitions that the request reads and then writes ([turns](super::turns)).
    /// The request takes the locks before it runs on a thread that serves connections; `None` if it
    /// needs none.
    pub turns: Option<Stripes>,
    pub interrupt: Interrupt,
    pub received_at: Instant,
    /// True if overload control may reject the request.
    pub may_refuse: bool,
    pub trace: Option<Trace>,
    pub spent: Spent,
    /// The writes of the request to audited tables, which are added to the audit log with its
    /// result; `None` if there are none.
    pub writes: Option<Box<BegunWrites>>,
}

pub(super) enum Inline {
    /// The response was appended to the buffer of the connection.
    Answered(Outcome),
    /// Nothing was appended; the request has to run on the threads of this lane.
    Lane(Lane),
}

impl<S: Service> Work<S> {
    /// Runs the request on the thread of its connection, and appends the response to `out`. A large
    /// response holds memory of the pool for results until it is sent. If the request must run on
    /// other threads, appends nothing and returns the lane: the group of threads for requests of
    /// its kind.
    ///
    /// # Errors
    /// The error for the client, if the request fails, or if there is no memory for the response of
    /// a read.
    pub(super) fn run_inline(
        &mut self,
        request: Request<'_>,
        stream: i16,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<Inline> {
        let lane = match self.kind.lane {
            // A serial read must not return a write that a crash may undo, so it is answered after
            // a sync, as writes are.
            Lane::Inline if self.shared.is_synced(self.consistency) => Lane::Write,
            lane => lane,
        };
        let is_inline = match lane {
            Lane::Inline => true,
            Lane::Write => !self.shared.writes_wait(now),
            Lane::Scan | Lane::Range | Lane::Moved | Lane::Schema | Lane::Control | Lane::Login => {
                false
            }
        };
        if !is_inline {
            return Ok(Inline::Lane(lane));
        }
        self.turns = self.turns(&request)?;
        let turn = (self.turns.as_ref()).map(|stripes| self.shared.turns.try_take(stripes));
        if matches!(turn, Some(None)) {
            return Ok(Inline::Lane(lane));
        }
        if let Some(trace) = &mut self.trace {
            trace.note("Executing on the thread of the connection");
        }
        let brief = (self.interrupt).capped(Instant::now(), SHARED_THREAD_CPU_MAX);
        // A finished write must not be reported as rejected, and its response is small.
        let is_read = self.kind.lane == Lane::Inline;
        let memory = self.shared.lanes.inline_memory(self.may_refuse);
        let of_read = is_read.then_some(&memory as &dyn ResponseMemory);
        let start = out.frames().len();
        let run = || self.run(request, stream, &brief, of_read, out.frames());
        let ended = match lane {
            Lane::Write => self.shared.commits.pace.run(run),
            _ => run(),
        };
        drop(turn);
        if ended.is_err() {
            // A read that took too long may have written much of its response.
            out.truncate(start);
        }
        if self.interrupt.may_go_on(&ended) {
            return Ok(Inline::Lane(Lane::Moved));
        }
        let outcome = ended?;
        if outcome.is_in_conflict {
            return Ok(Inline::Lane(lane));
        }
        if let Err(no_memory) = out.hold(start, memory)
            && is_read
        {
            out.truncate(start);
            return Err(no_memory);
        }
        Ok(Inline::Answered(outcome))
    }

    /// Executes the statements of the request, and appends the response to `out`, but nothing after
    /// an error or a conflict. If a change of the schema has changed the markers of a statement
    /// that the request contains as text, analyses the text again. Publishes the schema changes
    /// that the statements made. While it grows, the response takes its memory from `memory`, which
    /// is `None` unless the request is a read.
    ///
    /// # Errors
    /// The error for the client, if the request fails.
    pub(super) fn run(
        &self,
        request: Request<'_>,
        stream: i16,
        interrupt: &Interrupt,
        memory: Option<&dyn ResponseMemory>,
        out: &mut BytesMut,
    ) -> Result<Outcome> {
        let changes = SchemaChanges::default();
        let call = || self.call(request, stream, interrupt, memory, &changes, out);
        let ended = catch_unwind(AssertUnwindSafe(call));
        // Also after an error or a panic: it may follow the change.
        self.shared.publish(changes.take());
        ended.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Executes the request like [`run`](Self::run), and adds the schema changes to `changes`,
    /// where they stay if the request fails.
    fn call(
        &self,
        request: Request<'_>,
        stream: i16,
        interrupt: &Interrupt,
        memory: Option<&dyn ResponseMemory>,
        changes: &SchemaChanges,
        out: &mut BytesMut,
    ) -> Result<Outcome> {
        let without_id: &[u8] = &[];
        let (id, parameters, text, batch) = match request {
            Request::Query { text, parameters } => (without_id, parameters, Some(text), None),
            Request::Execute { id, parameters } => (id, parameters, None, None),
            Request::Batch(batch) => (without_id, batch_parameters(&batch), None, Some(batch)),
            _ => {
                let message = "bug: a message that is no statement was given to the executor";
                return Err(ErrorResponse::server(message));
            }
        };
        let call = Call {
            keyspace: parameters.keyspace.or(self.sender.keyspace.as_deref()),
            version: self.coding.version,
            parameters,
            interrupt,
            user: &self.sender.user,
            changes,
            memory,
        };
        let mut ended = self.execute(&self.statements, batch.as_ref(), &call, stream, out);
        // The request may have waited after the analysis. Now it is executed at once, so a second
        // change at this moment is too rare to matter.
        if ended.as_ref().is_err_and(is_unprepared)
            && let Some(anew) = self.analysed_again(text, batch.as_ref(), &call)?
        {
            ended = self.execute(&anew, batch.as_ref(), &call, stream, out);
        }
        let outcome = ended?;
        if outcome.is_outdated {
            return Err(ErrorResponse::unprepared(id));
        }
        Ok(outcome)
    }

    /// Executes `statements`: those of the request or, if a text had to be analysed again, the same
    /// ones with their new analysis. Appends the response to `out`, and nothing after an error.
    fn execute(
        &self,
        statements: &RequestStatements<S::Statement>,
        batch: Option<&Batch<'_>>,
        call: &Call<'_>,
        stream: i16,
        out: &mut BytesMut,
    ) -> Result<Outcome> {
        let service = &self.shared.service;
        let execute = |out: &mut BytesMut| match (statements, batch) {
            (RequestStatements::One(one), None) => service.execute(&one.statement, call, out),
            (RequestStatements::Batch(statements), Some(batch)) => {
                service.batch(batch.kind, &with_values(statements, batch), call, out)
            }
            _ => {
                let message =
                    "bug: a request was executed with the statements of another kind of request";
                Err(ErrorResponse::server(message))
            }
        };
        respond(stream, self.coding, self.tracing_id(), out, execute)
    }

    /// Analyses the texts in the request under the present schema: `text` for a QUERY, any number
    /// in `batch`. Returns all statements of the request; `None` for an EXECUTE, which contains no
    /// text.
    ///
    /// UNPREPARED must not be the response to a text. Its client prepared nothing, and the values
    /// that it sent are for the types that the markers have when the server executes the statement.
    ///
    /// # Errors
    /// The error for the client, if a text is not valid any more. If the time of the request is
    /// over, this is the timeout of a read, because nothing was executed.
    fn analysed_again(
        &self,
        text: Option<&str>,
        batch: Option<&Batch<'_>>,
        call: &Call<'_>,
    ) -> Result<Option<RequestStatements<S::Statement>>> {
        let (service, mut analysis) = (&self.shared.service, RequestAnalysis::default());
        let mut analysed = |text: &str| -> Result<Arc<Entry<S::Statement>>> {
            // The analysis of a short text may charge nothing.
            interrupt::charge(1)?;
            let statement = service.prepare(call.keyspace, text, &mut analysis)?;
            Ok(Entry::of_request(statement))
        };
        let analyse = || -> Result<Option<RequestStatements<S::Statement>>> {
            Ok(match (text, batch, &self.statements) {
                (Some(text), ..) => Some(RequestStatements::One(analysed(text)?)),
                (None, Some(batch), RequestStatements::Batch(statements)) => {
                    let parts = batch.statements.iter().zip(statements);
                    let anew = parts.map(|(part, known)| match part.statement {
                        StatementRef::Text(text) => analysed(text),
                        StatementRef::Prepared(_) => Ok(known.clone()),
                    });
                    let anew = anew.collect::<Result<Vec<_>>>()?;
                    Some(RequestStatements::Batch(anew))
                }
                _ => None,
            })
        };
        // One scope for all texts: each scope permits some work before it reads the clock.
        interrupt::scope(call.interrupt, TimeOut::Read(self.consistency), analyse)
    }

    /// Returns the locks of partitions ([turns](super::turns)) that the request has to take before
    /// it runs; `None` if it needs none.
    fn turns(&self, request: &Request<'_>) -> Result<Option<Stripes>> {
        if !self.kind.takes_turns() {
            return Ok(None);
        }
        let service = &self.shared.service;
        let turns = match (&self.statements, request) {
            (
                RequestStatements::One(one),
                Request::Query { parameters, .. } | Request::Execute { parameters, .. },
            ) => service.turns(&[(one.statement.clone(), parameters.values)]),
            (RequestStatements::Batch(statements), Request::Batch(batch)) => {
                service.turns(&with_values(statements, batch))
            }
            _ => return Ok(None),
        };
        match turns {
            Ok(turns) => Ok(Stripes::of(&turns)),
            // The execution fails with the same error, or analyses the text again and runs without
            // turns.
            Err(error) if is_unprepared(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the parsed statements of the request, with the bytes of memory that each takes while
    /// the request waits.
    pub(super) fn waiting_statements(&self) -> impl Iterator<Item = WaitingStatement<'_>> + Clone {
        let statements = self.statements.as_slice().iter();
        statements.map(|entry| WaitingStatement {
            bytes: entry.statement.size_bytes(),
            // The cache or other requests have the entry, too.
            shared: (Arc::strong_count(entry) > 1).then_some(&entry.waiting),
        })
    }

    /// Returns the error of the request after its deadline.
    pub(super) fn time_out(&self) -> TimeOut {
        self.kind.time_out(self.consistency)
    }

    pub(super) fn tracing_id(&self) -> Option<[u8; 16]> {
        self.trace.as_ref().map(Trace::id)
    }
}

/// Returns the parameters of a batch. They contain no values, because each statement of the batch
/// has values of its own.
fn batch_parameters<'a>(batch: &Batch<'a>) -> QueryParameters<'a> {
    QueryParameters {
        consistency: batch.consistency,
        serial_consistency: batch.serial_consistency,
        timestamp_us: batch.timestamp_us,
        keyspace: batch.keyspace,
        now_s: batch.now_s,
        ..QueryParameters::default()
    }
}

fn with_values<'a, T>(
    statements: &[Arc<Entry<T>>],
    batch: &Batch<'a>,
) -> Vec<(Arc<T>, Values<'a>)> {
    let values = batch.statements.iter().map(|part| part.values);
    let statements = statements.iter().map(|entry| entry.statement.clone());
    statements.zip(values).collect()
}

/// Returns whether the error means that the markers of a statement have other names or types than
/// when the statement was analysed.
fn is_unprepared(error: &ErrorResponse) -> bool {
    matches!(error.kind, ErrorKind::Unprepared { .. })
}
