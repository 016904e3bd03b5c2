//! Responses.

use bytes::{BufMut, Bytes, BytesMut};

use super::columns::{Columns, NO_METADATA};
use super::error_response::ErrorResponse;
use super::events::SchemaChange;
use super::fault::{ProtocolError, Result};
use super::frame::{Frame, Opcode, flag};
use super::reader::Reader;
use super::rows::Rows;
use super::version::Version;
use super::writer;

/// The kinds of RESULT: the first number in the body.
pub(super) mod result_kind {
    pub const VOID: i32 = 1;
    pub const ROWS: i32 = 2;
    pub const SET_KEYSPACE: i32 = 3;
    pub const PREPARED: i32 = 4;
    pub const SCHEMA_CHANGE: i32 = 5;
}

/// A response. Servers do not create [`Rows`](Self::Rows), but write rows with
/// [`RowsWriter`](super::RowsWriter).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    Error(ErrorResponse),
    /// Completes STARTUP or REGISTER.
    Ready,
    /// The response to STARTUP if the server requires authentication.
    Authenticate {
        /// The authentication mechanism, as the name of its Java class.
        authenticator: String,
    },
    /// The response to OPTIONS: the options that STARTUP may have.
    Supported {
        /// Each option with its possible values.
        options: Vec<(String, Vec<String>)>,
    },
    /// Completes a statement without a result.
    Void,
    Rows(Rows),
    /// Completes USE.
    SetKeyspace {
        keyspace: String,
    },
    Prepared(Prepared),
    SchemaChange(SchemaChange),
    /// A change of the schema, for clients that registered for it.
    Event(SchemaChange),
    AuthChallenge {
        /// The server's challenge, in the form of the SASL mechanism; `None` for a null.
        token: Option<Bytes>,
    },
    AuthSuccess {
        /// The server's last message in the SASL mechanism; `None` for a null.
        token: Option<Bytes>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// The id by which EXECUTE and BATCH refer to the statement.
    pub id: Bytes,
    /// The id by which EXECUTE refers to the result's columns, since version 5; empty before.
    pub result_metadata_id: Bytes,
    pub markers: Columns,
    /// The indexes of the markers for the partition key's columns, in the key's order; empty unless
    /// each column has a marker. Drivers use them to find the replica.
    pub partition_key_markers: Vec<u16>,
    /// The result's columns; `None` if the statement is not a SELECT.
    pub columns: Option<Columns>,
}

/// A response, with its trace id and its warnings. In the body of the frame the trace id and the
/// warnings precede the response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The id of the trace; `None` unless the request has the tracing flag.
    pub tracing_id: Option<[u8; 16]>,
    pub warnings: Vec<String>,
    pub response: Response,
}

impl Response {
    pub fn opcode(&self) -> Opcode {
        match self {
            Self::Error(_) => Opcode::Error,
            Self::Ready => Opcode::Ready,
            Self::Authenticate { .. } => Opcode::Authenticate,
            Self::Supported { .. } => Opcode::Supported,
            Self::Void
            | Self::Rows(_)
            | Self::SetKeyspace { .. }
            | Self::Prepared(_)
            | Self::SchemaChange(_) => Opcode::Result,
            Self::Event(_) => Opcode::Event,
            Self::AuthChallenge { .. } => Opcode::AuthChallenge,
            Self::AuthSuccess { .. } => Opcode::AuthSuccess,
        }
    }

    /// Appends the body as version 4 encodes it. Other versions differ only in errors, rows and
    /// prepared statements; see [`encode_body_in`](Self::encode_body_in).
    ///
    /// # Panics
    /// If a list or an id is longer than its length field can express.
    pub fn encode_body(&self, out: &mut BytesMut) {
        self.encode_body_in(out, Version::V4);
    }

    /// Appends the body; [`OpenFrame`](super::OpenFrame) adds the frame around it.
    ///
    /// # Panics
    /// If a list or an id is longer than its length field can express.
    pub fn encode_body_in(&self, out: &mut BytesMut, version: Version) {
        match self {
            Self::Error(error) => error.write(out, version),
            Self::Ready => {}
            Self::Authenticate { authenticator } => writer::string(out, authenticator),
            Self::Supported { options } => writer::list(out, options, |out, (key, values)| {
                writer::string(out, key);
                writer::string_list(out, values);
            }),
            Self::Void => out.put_i32(result_kind::VOID),
            Self::Rows(rows) => rows.write(out, version),
            Self::SetKeyspace { keyspace } => {
                out.put_i32(result_kind::SET_KEYSPACE);
                writer::string(out, keyspace);
            }
            Self::Prepared(prepared) => prepared.write(out, version),
            Self::SchemaChange(change) => {
                out.put_i32(result_kind::SCHEMA_CHANGE);
                change.write(out);
            }
            Self::Event(change) => change.write_event(out),
            Self::AuthChallenge { token } | Self::AuthSuccess { token } => {
                writer::bytes(out, token.as_deref());
            }
        }
    }

    fn read(frame: &Frame, reader: &mut Reader<'_>) -> Result<Self> {
        let (version, body) = (frame.version, &frame.body);
        let token = "a token of the authentication";
        Ok(match Opcode::from_code(frame.opcode)? {
            Opcode::Error => Self::Error(ErrorResponse::read(reader, version)?),
            Opcode::Ready => Self::Ready,
            Opcode::Authenticate => Self::Authenticate {
                authenticator: reader.string("the authenticator")?.to_owned(),
            },
            Opcode::Supported => {
                let options = reader.string_multimap("the options")?.into_iter();
                let owned = |(key, values): (&str, Vec<&str>)| {
                    let values = values.into_iter().map(str::to_owned);
                    (key.to_owned(), values.collect())
                };
                Self::Supported {
                    options: options.map(owned).collect(),
                }
            }
            Opcode::Result => match reader.int("the kind of a result")? {
                result_kind::VOID => Self::Void,
                result_kind::ROWS => Self::Rows(Rows::read(reader, body, version)?),
                result_kind::SET_KEYSPACE => Self::SetKeyspace {
                    keyspace: reader.string("a keyspace")?.to_owned(),
                },
                result_kind::PREPARED => Self::Prepared(Prepared::read(reader, body, version)?),
                result_kind::SCHEMA_CHANGE => Self::SchemaChange(SchemaChange::read(reader)?),
                code => return Err(ProtocolError::unknown_code("kind of a result", code as u32)),
            },
            Opcode::Event => Self::Event(SchemaChange::read_event(reader)?),
            Opcode::AuthChallenge => Self::AuthChallenge {
                token: reader.bytes(token)?.map(|token| body.slice_ref(token)),
            },
            Opcode::AuthSuccess => Self::AuthSuccess {
                token: reader.bytes(token)?.map(|token| body.slice_ref(token)),
            },
            request => {
                return Err(ProtocolError::Direction {
                    opcode: request.name(),
                });
            }
        })
    }
}

impl Answer {
    /// Decodes the response in a frame. Bytes after the response are ignored, as the specification
    /// requires.
    ///
    /// # Errors
    /// If the opcode is unknown or that of a request, or the body is malformed.
    pub fn decode(frame: &Frame) -> Result<Self> {
        let has = |flag| frame.flags & flag != 0;
        let mut reader = Reader::new(&frame.body);
        let tracing_id = if has(flag::TRACING) {
            Some(reader.uuid("the id of a trace")?)
        } else {
            None
        };
        let warnings = if has(flag::WARNING) {
            reader.string_list("the warnings")?
        } else {
            Vec::new()
        };
        if has(flag::CUSTOM_PAYLOAD) {
            reader.skip_bytes_map("the custom payload")?;
        }
        Ok(Self {
            tracing_id,
            warnings: warnings.into_iter().map(str::to_owned).collect(),
            response: Response::read(frame, &mut reader)?,
        })
    }
}

impl Prepared {
    fn read(reader: &mut Reader<'_>, body: &Bytes, version: Version) -> Result<Self> {
        let id = body.slice_ref(reader.short_bytes("the id of a statement")?);
        let result_metadata_id = match version {
            Version::V4 => Bytes::new(),
            Version::V5 => body.slice_ref(reader.short_bytes("the id of a result's metadata")?),
        };
        let flags = reader.int("the flags of markers")?;
        let count = reader.count("the count of markers")?;
        let keys = reader.count("the count of the partition key's markers")?;
        let keys = (0..keys).map(|_| reader.short("a marker of the partition key"));
        let partition_key_markers = keys.collect::<Result<_>>()?;
        let markers = Columns::read(reader, body, flags, count)?;
        let columns = Rows::read_metadata(reader, body, version)?.columns;
        Ok(Self {
            id,
            result_metadata_id,
            markers,
            partition_key_markers,
            columns,
        })
    }

    fn write(&self, out: &mut BytesMut, version: Version) {
        out.put_i32(result_kind::PREPARED);
        writer::short_bytes(out, &self.id);
        if version >= Version::V5 {
            writer::short_bytes(out, &self.result_metadata_id);
        }
        out.put_i32(self.markers.flags());
        out.put_i32(self.markers.len() as i32);
        out.put_i32(self.partition_key_markers.len() as i32);
        for marker in &self.partition_key_markers {
            out.put_u16(*marker);
        }
        self.markers.write_specs(out, version);
        match &self.columns {
            Some(columns) => {
                out.put_i32(columns.flags());
                out.put_i32(columns.len() as i32);
                columns.write_specs(out, version);
            }
            None => {
                out.put_i32(NO_METADATA);
                out.put_i32(0);
            }
        }
    }
}
