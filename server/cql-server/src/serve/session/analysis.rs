//! The statements of a session's requests: prepared ones from the cache, others analysed anew.

use std::sync::Arc;
use std::time::Instant;

use ebb_cql::protocol::{self, Columns, Consistency, ErrorResponse, Response, Values};

use super::Session;
use crate::call::{RequestAnalysis, Service, Statement, TimeOut};
use crate::error::{Result, invalid};
use crate::interrupt;
use crate::serve::outbox::Outbox;
use crate::serve::statements::Entry;
use crate::serve::work::SHARED_THREAD_CPU_MAX;

impl<S: Service> Session<S> {
    pub(super) fn prepare(
        &mut self,
        text: &str,
        keyspace: Option<&str>,
        stream: i16,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<()> {
        if let Some(trace) = &mut self.trace {
            trace.note("Preparing the statement");
        }
        // Always prepared anew, because the schema may have changed since the text was last
        // prepared.
        let schema_changes = self.shared.statements.schema_changes();
        let analysis = &mut RequestAnalysis::default();
        let statement = self.understand(keyspace, text, Consistency::One, now, analysis)?;
        let keyspace = keyspace.or(self.sender.keyspace.as_deref());
        let (statements, service) = (&self.shared.statements, &self.shared.service);
        let is_current = |statement: &S::Statement| service.is_current(statement);
        let (id, entry) =
            statements.insert(keyspace, text, statement, schema_changes, is_current)?;
        let (markers, partition_key_markers) = entry.statement.markers();
        let columns = entry.statement.columns();
        let none = Columns::default();
        let prepared = protocol::Prepared {
            id: id.to_vec().into(),
            result_metadata_id: columns.unwrap_or(&none).id().to_vec().into(),
            markers: markers.clone(),
            partition_key_markers: partition_key_markers.to_vec(),
            columns: columns.cloned(),
        };
        let start = out.frames().len();
        self.answer(stream, &Response::Prepared(prepared), out.frames());
        // The names and types of markers and columns may take much memory.
        let memory = self.shared.lanes.inline_memory(false);
        let held = out.hold(start, memory);
        held.inspect_err(|_| out.truncate(start))
    }

    pub(super) fn prepared(&self, id: &[u8]) -> Result<Arc<Entry<S::Statement>>> {
        let entry = self.shared.statements.get(id);
        entry.ok_or_else(|| ErrorResponse::unprepared(id))
    }

    /// Returns the statement for a text: the prepared one from the cache if there is one, or else a
    /// newly parsed one. `keyspace` is the keyspace that the request contains; without it, the
    /// keyspace in use applies. `analysis` is the state that all texts of the request share.
    pub(super) fn statement(
        &mut self,
        keyspace: Option<&str>,
        text: &str,
        consistency: Consistency,
        now: Instant,
        analysis: &mut RequestAnalysis,
    ) -> Result<Arc<Entry<S::Statement>>> {
        let in_use = keyspace.or(self.sender.keyspace.as_deref());
        if let Some((_, entry)) = self.shared.statements.find(in_use, text) {
            return Ok(entry);
        }
        let statement = self.understand(keyspace, text, consistency, now, analysis)?;
        Ok(Entry::of_request(statement))
    }

    /// Parses and plans a statement. That may take long, since constants are computed and JSON is
    /// parsed. If the deadline of the request passes, or the statements of the request take too
    /// long for a shared thread, the error is the timeout of a read, because nothing was executed.
    fn understand(
        &mut self,
        keyspace: Option<&str>,
        text: &str,
        consistency: Consistency,
        now: Instant,
        analysis: &mut RequestAnalysis,
    ) -> Result<S::Statement> {
        let keyspace = keyspace.or(self.sender.keyspace.as_deref());
        let (mut interrupt, begun) = (self.interrupt(now), Instant::now());
        if self.is_thread_shared {
            let left = SHARED_THREAD_CPU_MAX.saturating_sub(self.spent.prepared);
            interrupt = interrupt.capped(begun, left);
        }
        let time_out = TimeOut::Read(consistency);
        if !self.spent.prepared.is_zero() {
            // The analysis of a short statement ends before it reads the clock, but that of thousands
            // in a batch takes long.
            interrupt.check(begun, time_out)?;
        }
        let prepare = || self.shared.service.prepare(keyspace, text, analysis);
        let statement = interrupt::scope(&interrupt, time_out, prepare);
        self.spent.prepared += begun.elapsed();
        statement
    }
}

/// Checks that an EXECUTE or a BATCH has one value for each marker of a statement. The error begins
/// with `there`: Cassandra writes "there" for an EXECUTE and "There" for a BATCH. A QUERY is not
/// checked here, because Cassandra has another error for it. Values with names are not checked here
/// either. Both are checked when the values are bound to the markers.
pub(super) fn check_value_count(
    statement: &impl Statement,
    values: &Values<'_>,
    there: &str,
) -> Result<()> {
    let (markers, _) = statement.markers();
    if values.is_named() || values.len() == markers.len() {
        return Ok(());
    }
    invalid(format!(
        "{there} were {} markers(?) in CQL but {} bound variables",
        markers.len(),
        values.len()
    ))
}
