//! The execution of writes: analyses them, checks them, and hands them to the store.

use std::collections::HashSet;
use std::iter;
use std::sync::Arc;

use bytes::BytesMut;
use ebb_cql::protocol::{BatchKind, Response, Values, Version};
use ebb_cql::syntax::ast::Parsed;
use ebb_tables::CatalogState;

use super::{Executor, levels};
use crate::call::{Call, Outcome};
use crate::context::in_keyspace;
use crate::error::{Result, invalid};
use crate::interrupt;
use crate::prepared::{Meaning, Prepared};
use crate::targets;
use crate::write::{
    JsonPlans, NOT_A_WRITE, WriteContext, WriteStatement, Written, check_consistency,
    check_list_reads, execute_batch,
};

impl Executor {
    /// Returns the context of a write: the catalog, the guardrails that hold for the user of the
    /// call, and the limits. `request_bytes` is the length of all values and statements of the
    /// request.
    fn writing(&self, call: &Call<'_>, request_bytes: usize) -> Result<WriteContext<'_>> {
        Ok(WriteContext {
            catalog: &self.catalog,
            guardrails: self.guardrails(call)?,
            now_s: call.parameters.now_s.map(i64::from),
            request_bytes,
            result_bytes: self.limits.result_bytes,
        })
    }

    /// Analyses a write under this schema. Returns `None` if the statement does not write rows.
    /// `json_plans` has the plans of the INSERT JSON statements of the same request. The plan of
    /// this statement is added to them if the statement is an INSERT JSON.
    pub(super) fn understand_write(
        &self,
        state: &CatalogState,
        parsed: &Parsed,
        keyspace: Option<&str>,
        json_plans: &mut JsonPlans,
    ) -> Result<Option<WriteStatement>> {
        WriteStatement::analyse(parsed, json_plans, |name| {
            let table = (in_keyspace(name, keyspace)?, name.name.as_str());
            targets::writable(state, &self.system, table)
        })
    }

    /// Returns the analysis of a write under the current schema. Analyses the write again only if the
    /// schema has changed since its last analysis. `json_plans` has the plans of the INSERT JSON
    /// statements of the same request.
    ///
    /// The memory of the write is not counted here. It was counted at PREPARE, by the cache or for
    /// the texts of the request, and [`Prepared::is_outgrown_by`] limits its growth since then.
    ///
    /// # Errors
    /// The error of the analysis. UNPREPARED, if the markers are not those of PREPARE, or if the
    /// analysis takes much more memory.
    pub(super) fn write_meaning(
        &self,
        state: &CatalogState,
        prepared: &Prepared,
        json_plans: &mut JsonPlans,
    ) -> Result<Arc<Meaning>> {
        let meaning = prepared.meaning.load_full();
        if let Meaning::Write(write) = &*meaning
            && write.is_of(state)?
        {
            return Ok(meaning);
        }
        let keyspace = prepared.keyspace.as_deref();
        let write = self.understand_write(state, &prepared.parsed, keyspace, json_plans)?;
        let Some(write) = write else {
            return invalid(NOT_A_WRITE);
        };
        if *write.markers() != prepared.markers || prepared.is_outgrown_by(write.memory_bytes()) {
            return Err(prepared.unprepared());
        }
        let meaning = Arc::new(Meaning::Write(Box::new(write)));
        prepared.meaning.store(meaning.clone());
        Ok(meaning)
    }

    /// Executes a write, after checking the user's permissions. The caller has begun the time limit
    /// of the statement.
    pub(super) fn write(
        &self,
        statement: &Prepared,
        call: &Call<'_>,
        out: &mut BytesMut,
    ) -> Result<Outcome> {
        // The state is held until the write is done: see `Catalog::earlier_states`.
        let (state, ()) = self.checked(|_| self.check(statement, call.user))?;
        let (level, serial) = levels(call);
        check_consistency(statement.kind.write_type, level, serial)?;
        let json_plans = &mut JsonPlans::default();
        let meaning = self.write_meaning(&state, statement, json_plans)?;
        let values_bytes = call.parameters.values.encoded_bytes();
        let writing = self.writing(call, values_bytes + statement.text.len())?;
        let warnings = writing.check_levels(level, serial)?;
        let write = meaning.as_write()?;
        check_list_reads(level, iter::once(write))?;
        let written = write.execute(
            writing,
            call.parameters.values,
            call.parameters.timestamp_us,
        )?;
        drop(state);
        Ok(answer(written, warnings, call.version, out))
    }

    /// Executes writes as one batch. The caller has begun the time limit of the batch on this
    /// thread by [`interrupt::scope`](crate::interrupt::scope).
    pub(super) fn batch_in_time(
        &self,
        kind: BatchKind,
        statements: &[(Arc<Prepared>, Values<'_>)],
        call: &Call<'_>,
        out: &mut BytesMut,
    ) -> Result<Outcome> {
        // The state is held until the write is done, as for a single statement.
        // All statements are checked before one of them writes.
        let (state, meanings) = self.checked(|state| {
            let mut meanings = Vec::with_capacity(statements.len());
            let json_plans = &mut JsonPlans::default();
            for (prepared, _) in statements {
                interrupt::charge(1)?;
                self.check(prepared, call.user)?;
                meanings.push(self.write_meaning(state, prepared, json_plans)?);
            }
            Ok(meanings)
        })?;
        let with_values = meanings.iter().zip(statements);
        let with_values =
            with_values.map(|(meaning, (_, values))| Ok((meaning.as_write()?, *values)));
        let with_values = with_values.collect::<Result<Vec<_>>>()?;
        let timestamp_us = call.parameters.timestamp_us;
        let writing = self.writing(call, batch_bytes(statements))?;
        let (level, serial) = levels(call);
        let warnings = writing.check_levels(level, serial)?;
        check_list_reads(level, with_values.iter().map(|(write, _)| *write))?;
        let written = execute_batch(writing, kind, &with_values, timestamp_us)?;
        drop(state);
        Ok(answer(written, warnings, call.version, out))
    }

    /// Returns a hash of each partition that conditional writes or counter writes among these
    /// statements read before they write.
    pub(super) fn turns_of(&self, statements: &[(Arc<Prepared>, Values<'_>)]) -> Result<Vec<u64>> {
        let state = self.catalog.state();
        let mut turns = Vec::new();
        let json_plans = &mut JsonPlans::default();
        for (prepared, values) in statements {
            interrupt::charge(1)?;
            if prepared.kind.takes_turns() {
                let meaning = self.write_meaning(&state, prepared, json_plans)?;
                turns.extend(meaning.as_write()?.turns(&self.catalog, *values)?);
            }
        }
        Ok(turns)
    }
}

/// Returns the total length of a batch's values and of the texts of its statements. The text of a
/// statement counts once, however often the batch mentions the statement.
fn batch_bytes(statements: &[(Arc<Prepared>, Values<'_>)]) -> usize {
    let mut known = HashSet::new();
    let bytes = statements.iter().map(|(prepared, values)| {
        let is_new = known.insert(Arc::as_ptr(prepared));
        values.encoded_bytes() + if is_new { prepared.text.len() } else { 0 }
    });
    bytes.sum()
}

/// Encodes the response to a write for a protocol version. The returned outcome has `warnings`,
/// followed by the warnings of the write. After a conflict nothing is encoded, because the write is
/// executed again.
fn answer(
    written: Written,
    warnings: Vec<String>,
    version: Version,
    out: &mut BytesMut,
) -> Outcome {
    let mut outcome = Outcome {
        warnings,
        ..Outcome::default()
    };
    match written {
        Written::Done(warnings) => {
            Response::Void.encode_body(out);
            outcome.warnings.extend(warnings);
        }
        Written::Answered(rows, warnings) => {
            rows.write_in(out, version);
            outcome.warnings.extend(warnings);
        }
        Written::InConflict => outcome.is_in_conflict = true,
    }
    outcome
}
