//! One client's session: what its requests mean.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bytes::BytesMut;
use ebb_cql::protocol::{
    self, Batch, Compression, ErrorKind, ErrorResponse, Event, EventTypes, Frame, Head, Opcode,
    OpenFrame, ProtocolError, QueryParameters, Request, Response, Startup, StatementRef, Values,
};

use super::listener::Shared;
use super::statements::Entry;
use crate::cql::call::{Call, Interrupt, Lane, Outcome, Service, Statement};

/// What became of a request.
pub(super) enum Handled<S: Service> {
    /// Its response was appended.
    Answered {
        /// It was one that ran at once, whose latency says how the server is.
        is_point: bool,
    },
    /// It is to run elsewhere.
    Elsewhere(Lane, Work<S>),
}

/// The state of a connection, as its requests change it.
pub(super) struct Session<S: Service> {
    shared: Arc<Shared<S>>,
    keyspace: Option<Arc<str>>,
    has_started: bool,
    pub compression: Compression,
    pub events: EventTypes,
    /// Set when the client is gone.
    pub is_cancelled: Arc<AtomicBool>,
}

/// A request that waits for its lane.
pub(super) struct Work<S: Service> {
    shared: Arc<Shared<S>>,
    keyspace: Option<Arc<str>>,
    compression: Compression,
    statement: Arc<S::Statement>,
    frame: Frame,
    interrupt: Interrupt,
}

/// What work that ran elsewhere left.
pub(super) struct Ran {
    /// A whole frame.
    pub frame: BytesMut,
    /// The keyspace that is in use now.
    pub keyspace: Option<String>,
}

impl<S: Service> Drop for Session<S> {
    fn drop(&mut self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }
}

impl<S: Service> Session<S> {
    pub(super) fn new(shared: Arc<Shared<S>>) -> Self {
        Self {
            shared,
            keyspace: None,
            has_started: false,
            compression: Compression::None,
            events: EventTypes::default(),
            is_cancelled: Arc::default(),
        }
    }

    /// The keyspace that is in use from now on.
    pub(super) fn use_keyspace(&mut self, keyspace: String) {
        self.keyspace = Some(keyspace.into());
    }

    /// Does what a request asks, or says where it is to be done.
    pub(super) fn handle(&mut self, frame: Frame, now: Instant, out: &mut BytesMut) -> Handled<S> {
        match self.try_handle(&frame, now, out) {
            Ok(Some((lane, statement))) => {
                let interrupt = self.interrupt(now);
                let work = Work {
                    shared: self.shared.clone(),
                    keyspace: self.keyspace.clone(),
                    compression: self.compression,
                    statement,
                    frame,
                    interrupt,
                };
                Handled::Elsewhere(lane, work)
            }
            Ok(None) => Handled::Answered {
                is_point: matches!(
                    Opcode::from_code(frame.opcode),
                    Ok(Opcode::Query | Opcode::Execute | Opcode::Batch)
                ),
            },
            Err(error) => {
                self.answer(frame.stream, &Response::Error(error), out);
                Handled::Answered { is_point: false }
            }
        }
    }

    pub(super) fn answer(&self, stream: i16, response: &Response, out: &mut BytesMut) {
        response.encode(out, stream, &Head::default(), self.compression);
    }

    /// Appends the response, or gives what is to be executed elsewhere.
    #[expect(clippy::type_complexity, reason = "a lane and a statement")]
    fn try_handle(
        &mut self,
        frame: &Frame,
        now: Instant,
        out: &mut BytesMut,
    ) -> Result<Option<(Lane, Arc<S::Statement>)>, ErrorResponse> {
        let request = Request::decode(frame).map_err(in_protocol)?;
        if !self.has_started && !matches!(request, Request::Startup(_) | Request::Options) {
            let message = "the first message of a connection is STARTUP or OPTIONS";
            return Err(error(ErrorKind::Protocol, message));
        }
        let stream = frame.stream;
        match request {
            Request::Startup(startup) => self.start(&startup, stream, out)?,
            Request::Options => self.answer(stream, &supported(), out),
            Request::Register(events) => {
                self.events.topology |= events.topology;
                self.events.status |= events.status;
                self.events.schema |= events.schema;
                self.answer(stream, &Response::Ready, out);
            }
            Request::AuthResponse { .. } => {
                let message = "nobody asked for AUTH_RESPONSE: the server wants no credentials";
                return Err(error(ErrorKind::Protocol, message));
            }
            Request::Prepare { text } => self.prepare(text, stream, out)?,
            Request::Query { text, parameters } => {
                let keyspace = self.keyspace.as_deref();
                let statement = match self.shared.statements.find(keyspace, text) {
                    Some((_, entry)) => entry.statement.clone(),
                    None => Arc::new(self.shared.service.prepare(keyspace, text)?),
                };
                return self.run(statement, parameters, frame, now, out);
            }
            Request::Execute { id, parameters } => {
                let statement = self.prepared(id)?.statement.clone();
                return self.run(statement, parameters, frame, now, out);
            }
            Request::Batch(batch) => self.batch(&batch, frame, now, out)?,
        }
        Ok(None)
    }

    fn start(
        &mut self,
        startup: &Startup<'_>,
        stream: i16,
        out: &mut BytesMut,
    ) -> Result<(), ErrorResponse> {
        let compression = match startup.compression() {
            None | Some("") => Compression::None,
            Some(name) => Compression::from_name(name).ok_or_else(|| {
                let message = format!("Unknown compression algorithm: {name}; there is lz4");
                error(ErrorKind::Protocol, message)
            })?,
        };
        self.has_started = true;
        self.answer(stream, &Response::Ready, out);
        self.compression = compression;
        Ok(())
    }

    fn prepare(&self, text: &str, stream: i16, out: &mut BytesMut) -> Result<(), ErrorResponse> {
        let keyspace = self.keyspace.as_deref();
        // Always anew: the schema may be another than when the text was last prepared.
        let statement = self.shared.service.prepare(keyspace, text)?;
        let (id, entry) = self.shared.statements.insert(keyspace, text, statement);
        let (markers, partition_key_markers) = entry.statement.markers();
        let prepared = protocol::Prepared {
            id: id.to_vec().into(),
            markers: markers.clone(),
            partition_key_markers: partition_key_markers.to_vec(),
            columns: entry.statement.columns().cloned(),
        };
        self.answer(stream, &Response::Prepared(prepared), out);
        Ok(())
    }

    fn prepared(&self, id: &[u8]) -> Result<Arc<Entry<S::Statement>>, ErrorResponse> {
        self.shared.statements.get(id).ok_or_else(|| {
            let message = "the statement is not prepared here: prepare it, then execute it again";
            error(ErrorKind::Unprepared { id: id.to_vec() }, message)
        })
    }

    #[expect(clippy::type_complexity, reason = "a lane and a statement")]
    fn run(
        &mut self,
        statement: Arc<S::Statement>,
        parameters: QueryParameters<'_>,
        frame: &Frame,
        now: Instant,
        out: &mut BytesMut,
    ) -> Result<Option<(Lane, Arc<S::Statement>)>, ErrorResponse> {
        match statement.lane() {
            Lane::Inline => {}
            lane => return Ok(Some((lane, statement))),
        }
        let interrupt = self.interrupt(now);
        let keyspace = self.keyspace.clone();
        let call = Call {
            keyspace: keyspace.as_deref(),
            parameters,
            interrupt: &interrupt,
        };
        let outcome = respond(frame, self.compression, out, |out| {
            self.shared.service.execute(&statement, &call, out)
        })?;
        self.take(outcome);
        Ok(None)
    }

    fn batch(
        &mut self,
        batch: &Batch<'_>,
        frame: &Frame,
        now: Instant,
        out: &mut BytesMut,
    ) -> Result<(), ErrorResponse> {
        let keyspace = self.keyspace.clone();
        let keyspace = keyspace.as_deref();
        let mut statements = Vec::with_capacity(batch.statements.len());
        for part in &batch.statements {
            let statement = match part.statement {
                StatementRef::Prepared(id) => self.prepared(id)?.statement.clone(),
                StatementRef::Text(text) => match self.shared.statements.find(keyspace, text) {
                    Some((_, entry)) => entry.statement.clone(),
                    None => Arc::new(self.shared.service.prepare(keyspace, text)?),
                },
            };
            statements.push((statement, part.values));
        }
        let interrupt = self.interrupt(now);
        let call = Call {
            keyspace,
            parameters: QueryParameters {
                consistency: batch.consistency,
                values: Values::default(),
                skip_metadata: false,
                page_size_rows: None,
                paging_state: None,
                serial_consistency: batch.serial_consistency,
                timestamp_us: batch.timestamp_us,
            },
            interrupt: &interrupt,
        };
        let service = &self.shared.service;
        let outcome = respond(frame, self.compression, out, |out| {
            service.batch(batch.kind, &statements, &call, out)
        })?;
        self.take(outcome);
        Ok(())
    }

    fn take(&mut self, outcome: Outcome) {
        if let Some(keyspace) = outcome.keyspace {
            self.use_keyspace(keyspace);
        }
        if let Some(change) = outcome.change {
            self.shared.publish(Event::Schema(change));
        }
    }

    fn interrupt(&self, now: Instant) -> Interrupt {
        Interrupt::new(
            now,
            self.shared.request_timeout(),
            self.is_cancelled.clone(),
        )
    }
}

impl<S: Service> Work<S> {
    /// Executes the request: not on a thread that serves connections.
    pub(super) fn run(self) -> Ran {
        let mut frame = BytesMut::new();
        let keyspace = match self.try_run(&mut frame) {
            Ok(outcome) => {
                if let Some(change) = outcome.change {
                    self.shared.publish(Event::Schema(change));
                }
                outcome.keyspace
            }
            Err(error) => {
                let response = Response::Error(error);
                let head = Head::default();
                response.encode(&mut frame, self.frame.stream, &head, self.compression);
                None
            }
        };
        Ran { frame, keyspace }
    }

    /// The stream to answer in.
    pub(super) fn stream(&self) -> i16 {
        self.frame.stream
    }

    fn try_run(&self, out: &mut BytesMut) -> Result<Outcome, ErrorResponse> {
        // Decoded once already; what it borrows from could not come along.
        let parameters = match Request::decode(&self.frame).map_err(in_protocol)? {
            Request::Query { parameters, .. } | Request::Execute { parameters, .. } => parameters,
            _ => return Err(error(ErrorKind::Server, "only statements have lanes")),
        };
        // It may have waited for its turn for longer than it may take.
        (self.interrupt).check_read(Instant::now(), parameters.consistency)?;
        let call = Call {
            keyspace: self.keyspace.as_deref(),
            parameters,
            interrupt: &self.interrupt,
        };
        respond(&self.frame, self.compression, out, |out| {
            self.shared.service.execute(&self.statement, &call, out)
        })
    }
}

/// Appends a RESULT whose body `write` appends; nothing where that fails.
fn respond(
    request: &Frame,
    compression: Compression,
    out: &mut BytesMut,
    write: impl FnOnce(&mut BytesMut) -> Result<Outcome, ErrorResponse>,
) -> Result<Outcome, ErrorResponse> {
    let open = |out: &mut BytesMut, head: &Head<'_>| {
        OpenFrame::response(out, request.stream, Opcode::Result, head)
    };
    let frame = open(out, &Head::default());
    let body_at = out.len();
    let outcome = match write(out) {
        Ok(outcome) => outcome,
        Err(error) => {
            frame.abandon(out);
            return Err(error);
        }
    };
    if outcome.warnings.is_empty() {
        frame.finish(out, compression);
        return Ok(outcome);
    }
    // They come first and are known last, which is seldom.
    let body = out.split_off(body_at);
    frame.abandon(out);
    let head = Head {
        tracing_id: None,
        warnings: &outcome.warnings,
    };
    let frame = open(out, &head);
    out.extend_from_slice(&body);
    frame.finish(out, compression);
    Ok(outcome)
}

fn supported() -> Response {
    let option = |name: &str, values: &[&str]| {
        let values = values.iter().map(|&value| value.to_owned());
        (name.to_owned(), values.collect())
    };
    Response::Supported {
        options: vec![
            option("CQL_VERSION", &["3.4.5"]),
            option("COMPRESSION", &["lz4"]),
            option("PROTOCOL_VERSIONS", &["4/v4"]),
        ],
    }
}

fn in_protocol(error: ProtocolError) -> ErrorResponse {
    self::error(ErrorKind::Protocol, error.to_string())
}

pub(super) fn error(kind: ErrorKind, message: impl Into<String>) -> ErrorResponse {
    ErrorResponse {
        kind,
        message: message.into(),
    }
}
