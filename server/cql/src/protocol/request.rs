//! Requests.
//!
//! A [`Request`] borrows from the frame's body: names, text and values stay in the receive buffer.
//! QUERY, PREPARE and EXECUTE allocate nothing; the other requests allocate one list. A custom
//! payload is skipped, as by Cassandra's own handler.

mod batch;
mod parameters;

use bytes::{BufMut, BytesMut};

use super::events::EventTypes;
use super::fault::{ProtocolError, Result};
use super::frame::{Frame, Opcode, flag};
use super::reader::Reader;
use super::version::Version;
use super::writer;

pub use batch::{Batch, BatchKind, BatchStatement, StatementRef};
pub use parameters::QueryParameters;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request<'a> {
    /// STARTUP: opens the connection.
    Startup(Startup<'a>),
    /// OPTIONS: requests the list of options for STARTUP.
    Options,
    /// QUERY: runs a statement that is given as text.
    Query {
        text: &'a str,
        parameters: QueryParameters<'a>,
    },
    /// PREPARE: prepares a statement, to be executed later.
    Prepare {
        text: &'a str,
        /// The keyspace of unqualified table names in the text; `None` for the keyspace in use on
        /// the connection. Since version 5.
        keyspace: Option<&'a str>,
    },
    /// EXECUTE: runs a prepared statement.
    Execute {
        /// The id from the response to PREPARE; a client may send any bytes.
        id: &'a [u8],
        parameters: QueryParameters<'a>,
    },
    /// BATCH: runs several statements that write.
    Batch(Batch<'a>),
    /// REGISTER: subscribes the connection to events.
    Register(EventTypes),
    /// AUTH_RESPONSE: a step of the authentication.
    AuthResponse {
        /// The client's message in the SASL mechanism, such as user name and password; `None` for a
        /// null.
        token: Option<&'a [u8]>,
    },
}

/// The options that a client chooses for a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Startup<'a> {
    /// Every option in the order sent, including unknown ones.
    pub options: Vec<(&'a str, &'a str)>,
}

impl<'a> Startup<'a> {
    /// Returns the value of an option, or the last one if the client sent several. The name may be
    /// in upper or lower case.
    pub fn option(&self, name: &str) -> Option<&'a str> {
        let mut options = self.options.iter().rev();
        let found = options.find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|&(_, value)| value)
    }

    pub fn compression(&self) -> Option<&'a str> {
        self.option("COMPRESSION")
    }
}

impl<'a> Request<'a> {
    /// Decodes the request in a frame. Bytes after the request are ignored, as the specification
    /// requires.
    ///
    /// # Errors
    /// If the opcode is unknown or that of a response, or the body is malformed.
    pub fn decode(frame: &'a Frame) -> Result<Self> {
        let opcode = Opcode::from_code(frame.opcode)?;
        let mut reader = Reader::new(&frame.body);
        let version = frame.version;
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
                parameters: QueryParameters::read(&mut reader, version)?,
            },
            Opcode::Prepare => Self::Prepare {
                text: reader.long_string(text)?,
                keyspace: read_keyspace_of_prepare(&mut reader, version)?,
            },
            Opcode::Execute => Self::Execute {
                id: reader.short_bytes("the id of a statement")?,
                parameters: QueryParameters::read_of_execute(&mut reader, version)?,
            },
            Opcode::Batch => Self::Batch(Batch::read(&mut reader, version)?),
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

    /// Appends the body; [`OpenFrame`](super::OpenFrame) adds the frame around it. Fields that do
    /// not exist in the version are left out.
    ///
    /// # Panics
    /// If a list, an id or the text of a statement is longer than its length field can express, or
    /// if a batch has named values.
    pub fn encode_body_in(&self, out: &mut BytesMut, version: Version) {
        match self {
            Self::Startup(startup) => writer::list(out, &startup.options, |out, (key, value)| {
                writer::string(out, key);
                writer::string(out, value);
            }),
            Self::Options => {}
            Self::Query { text, parameters } => {
                writer::long_string(out, text);
                parameters.write(out, version);
            }
            Self::Prepare { text, keyspace } => {
                writer::long_string(out, text);
                if version >= Version::V5 {
                    out.put_u32(keyspace.map_or(0, |_| KEYSPACE_OF_PREPARE));
                    keyspace.iter().for_each(|name| writer::string(out, name));
                }
            }
            Self::Execute { id, parameters } => {
                writer::short_bytes(out, id);
                if version >= Version::V5 {
                    writer::short_bytes(out, parameters.result_metadata_id.unwrap_or_default());
                }
                parameters.write(out, version);
            }
            Self::Batch(batch) => batch.write(out, version),
            Self::Register(types) => types.write(out),
            Self::AuthResponse { token } => writer::bytes(out, *token),
        }
    }
}

/// The flag of PREPARE if it names a keyspace. PREPARE has no other flags.
const KEYSPACE_OF_PREPARE: u32 = 0x01;

fn read_keyspace_of_prepare<'a>(
    reader: &mut Reader<'a>,
    version: Version,
) -> Result<Option<&'a str>> {
    if version < Version::V5 {
        return Ok(None);
    }
    match reader.int("the flags of PREPARE")?.cast_unsigned() {
        0 => Ok(None),
        KEYSPACE_OF_PREPARE => reader.string("a keyspace").map(Some),
        flags => Err(ProtocolError::Flags {
            what: "PREPARE",
            flags,
        }),
    }
}

/// Reads the flags of parameters, which have 8 bits in version 4 and 32 bits in version 5. A flag
/// outside of `known` is an error. In version 5, bits that no request defines are ignored instead,
/// as in Cassandra.
fn read_flags(
    reader: &mut Reader<'_>,
    version: Version,
    known: u32,
    what: &'static str,
) -> Result<u32> {
    let of_flags = "the flags of the parameters";
    let (flags, unknown) = match version {
        Version::V4 => {
            let flags = u32::from(reader.byte(of_flags)?);
            (flags, flags & !(known & FLAGS_OF_V4))
        }
        // Cassandra ignores bits that no request defines.
        Version::V5 => {
            let flags = reader.int(of_flags)?.cast_unsigned() & FLAGS_OF_V5;
            (flags, flags & !known)
        }
    };
    match unknown {
        0 => Ok(flags),
        flags => Err(ProtocolError::Flags { what, flags }),
    }
}

const FLAGS_OF_V4: u32 = 0x7f;
const FLAGS_OF_V5: u32 = 0x1ff;

fn write_flags(out: &mut BytesMut, version: Version, flags: u32) {
    match version {
        Version::V4 => out.put_u8((flags & FLAGS_OF_V4) as u8),
        Version::V5 => out.put_u32(flags),
    }
}

fn read_timestamp(reader: &mut Reader<'_>) -> Result<i64> {
    match reader.long("the default timestamp")? {
        i64::MIN => Err(ProtocolError::Forbidden(
            "the default timestamp is the one that means none",
        )),
        timestamp => Ok(timestamp),
    }
}

/// The last fields of the parameters of QUERY, EXECUTE and BATCH.
#[derive(Debug, Clone, Copy, Default)]
struct Tail<'a> {
    serial_consistency: Option<super::Consistency>,
    timestamp_us: Option<i64>,
    keyspace: Option<&'a str>,
    now_s: Option<i32>,
}

const SERIAL_CONSISTENCY: u32 = 0x10;
const TIMESTAMP: u32 = 0x20;
const KEYSPACE: u32 = 0x80;
const NOW_IN_SECONDS: u32 = 0x100;

impl<'a> Tail<'a> {
    const KNOWN: u32 = SERIAL_CONSISTENCY | TIMESTAMP | KEYSPACE | NOW_IN_SECONDS;

    fn read(reader: &mut Reader<'a>, flags: u32) -> Result<Self> {
        let has = |flag| flags & flag != 0;
        let mut tail = Self::default();
        if has(SERIAL_CONSISTENCY) {
            tail.serial_consistency = Some(reader.consistency()?);
        }
        if has(TIMESTAMP) {
            tail.timestamp_us = Some(read_timestamp(reader)?);
        }
        if has(KEYSPACE) {
            tail.keyspace = Some(reader.string("a keyspace")?);
        }
        if has(NOW_IN_SECONDS) {
            tail.now_s = Some(reader.int("the current time")?);
        }
        Ok(tail)
    }

    fn flags(&self) -> u32 {
        let flag = |set: bool, flag: u32| if set { flag } else { 0 };
        flag(self.serial_consistency.is_some(), SERIAL_CONSISTENCY)
            | flag(self.timestamp_us.is_some(), TIMESTAMP)
            | flag(self.keyspace.is_some(), KEYSPACE)
            | flag(self.now_s.is_some(), NOW_IN_SECONDS)
    }

    fn write(&self, out: &mut BytesMut, version: Version) {
        if let Some(level) = self.serial_consistency {
            out.put_u16(level.code());
        }
        if let Some(timestamp_us) = self.timestamp_us {
            out.put_i64(timestamp_us);
        }
        if version < Version::V5 {
            return;
        }
        if let Some(keyspace) = self.keyspace {
            writer::string(out, keyspace);
        }
        if let Some(now_s) = self.now_s {
            out.put_i32(now_s);
        }
    }
}
