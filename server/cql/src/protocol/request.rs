//! What clients ask.
//!
//! A [`Request`] borrows from the frame's body: names, text and values are read where
//! they were received. QUERY, PREPARE and EXECUTE allocate nothing; the others one
//! list. A custom payload is stepped over, as Cassandra's own handler does.

mod batch;
mod parameters;

use bytes::{BufMut, BytesMut};

use super::events::EventTypes;
use super::fault::{ProtocolError, Result};
use super::frame::{Frame, Opcode, flag};
use super::reader::Reader;
use super::writer;

pub use batch::{Batch, BatchKind, BatchStatement, StatementRef};
pub use parameters::QueryParameters;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request<'a> {
    /// Opens the connection.
    Startup(Startup<'a>),
    /// Asks what STARTUP may choose.
    Options,
    /// One statement in full.
    Query {
        /// Its text.
        text: &'a str,
        /// What it runs with.
        parameters: QueryParameters<'a>,
    },
    /// A statement to be executed later.
    Prepare {
        /// Its text.
        text: &'a str,
    },
    /// A prepared statement.
    Execute {
        /// As PREPARE answered; any bytes.
        id: &'a [u8],
        /// What it runs with.
        parameters: QueryParameters<'a>,
    },
    /// Several statements that write.
    Batch(Batch<'a>),
    /// Asks for events on this connection.
    Register(EventTypes),
    /// A step of the authentication.
    AuthResponse {
        /// What the mechanism says.
        token: Option<&'a [u8]>,
    },
}

/// What a client chooses for a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Startup<'a> {
    /// Every option that was sent, in that order, unknown ones too.
    pub options: Vec<(&'a str, &'a str)>,
}

impl<'a> Startup<'a> {
    /// The last value of an option, by its name in either case.
    pub fn option(&self, name: &str) -> Option<&'a str> {
        let mut options = self.options.iter().rev();
        let found = options.find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|&(_, value)| value)
    }

    /// The version of CQL asked for. It says little: drivers send what they please.
    pub fn cql_version(&self) -> Option<&'a str> {
        self.option("CQL_VERSION")
    }

    /// The name of the compression asked for.
    pub fn compression(&self) -> Option<&'a str> {
        self.option("COMPRESSION")
    }
}

impl<'a> Request<'a> {
    /// The request in a frame. Bytes behind it are ignored, as the specification asks.
    ///
    /// # Errors
    /// When the opcode is unknown or a response's, or the body is not as it says.
    pub fn decode(frame: &'a Frame) -> Result<Self> {
        let opcode = Opcode::from_code(frame.opcode)?;
        let mut reader = Reader::new(&frame.body);
        if frame.flags & flag::CUSTOM_PAYLOAD != 0 {
            reader.skip_bytes_map("the custom payload")?;
        }
        let text = "the text of a statement";
        Ok(match opcode {
            Opcode::Startup => Self::Startup(Startup {
                options: reader.string_map("the options of STARTUP")?,
            }),
            Opcode::Options => Self::Options,
            Opcode::Query => Self::Query {
                text: reader.long_string(text)?,
                parameters: QueryParameters::read(&mut reader)?,
            },
            Opcode::Prepare => Self::Prepare {
                text: reader.long_string(text)?,
            },
            Opcode::Execute => Self::Execute {
                id: reader.short_bytes("the id of a statement")?,
                parameters: QueryParameters::read(&mut reader)?,
            },
            Opcode::Batch => Self::Batch(Batch::read(&mut reader)?),
            Opcode::Register => Self::Register(EventTypes::read(&mut reader)?),
            Opcode::AuthResponse => Self::AuthResponse {
                token: reader.bytes("the token of AUTH_RESPONSE")?,
            },
            response => {
                return Err(ProtocolError::Direction {
                    opcode: response.name(),
                });
            }
        })
    }

    /// The opcode of its frame.
    pub fn opcode(&self) -> Opcode {
        match self {
            Self::Startup(_) => Opcode::Startup,
            Self::Options => Opcode::Options,
            Self::Query { .. } => Opcode::Query,
            Self::Prepare { .. } => Opcode::Prepare,
            Self::Execute { .. } => Opcode::Execute,
            Self::Batch(_) => Opcode::Batch,
            Self::Register(_) => Opcode::Register,
            Self::AuthResponse { .. } => Opcode::AuthResponse,
        }
    }

    /// Appends the body. A frame goes around it by [`OpenFrame`](super::OpenFrame).
    ///
    /// # Panics
    /// Where a string, a list or an id is longer than its length field can say.
    pub fn encode_body(&self, out: &mut BytesMut) {
        match self {
            Self::Startup(startup) => writer::list(out, &startup.options, |out, (key, value)| {
                writer::string(out, key);
                writer::string(out, value);
            }),
            Self::Options => {}
            Self::Query { text, parameters } => {
                writer::long_string(out, text);
                parameters.write(out);
            }
            Self::Prepare { text } => writer::long_string(out, text),
            Self::Execute { id, parameters } => {
                writer::short_bytes(out, id);
                parameters.write(out);
            }
            Self::Batch(batch) => batch.write(out),
            Self::Register(types) => types.write(out),
            Self::AuthResponse { token } => writer::bytes(out, *token),
        }
    }
}

/// Reads the flags of parameters: those outside of `known` are an error.
fn read_flags(reader: &mut Reader<'_>, known: u8, what: &'static str) -> Result<u8> {
    let flags = reader.byte("the flags of the parameters")?;
    match flags & !known {
        0 => Ok(flags),
        unknown => Err(ProtocolError::Flags {
            what,
            flags: unknown.into(),
        }),
    }
}

/// Reads a default timestamp.
fn read_timestamp(reader: &mut Reader<'_>) -> Result<i64> {
    match reader.long("the default timestamp")? {
        i64::MIN => Err(ProtocolError::Forbidden(
            "the default timestamp is the one that means none",
        )),
        timestamp => Ok(timestamp),
    }
}

fn write_tail(
    out: &mut BytesMut,
    serial_consistency: Option<super::Consistency>,
    timestamp_us: Option<i64>,
) {
    if let Some(level) = serial_consistency {
        out.put_u16(level.code());
    }
    if let Some(timestamp_us) = timestamp_us {
        out.put_i64(timestamp_us);
    }
}
