//! Error responses, with Cassandra's codes.

use bytes::{BufMut, BytesMut};

use super::consistency::Consistency;
use super::decoder::FrameError;
use super::events::words;
use super::fault::{ProtocolError, Result};
use super::reader::Reader;
use super::version::Version;
use super::writer;

/// The response ERROR.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ErrorResponse {
    /// The kind of the error, for drivers.
    pub kind: ErrorKind,
    /// The message for people. Only as many characters are sent as fit into 65,535 bytes.
    pub message: String,
}

/// The kind of an error. Drivers choose their reaction by it, such as a retry.
///
/// The errors of timeouts and failures contain counts of replicas in the protocol. In ebb they are
/// always the same, because the server is the only replica of its data, so they are not kept here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorKind {
    /// A bug, or a failure of the system.
    Server,
    /// The request violates the protocol.
    Protocol,
    /// The credentials are wrong.
    BadCredentials,
    /// The server is overloaded; a later retry may succeed.
    Overloaded,
    /// A write timed out; it may still be applied.
    WriteTimeout {
        consistency: Consistency,
        write_type: WriteType,
    },
    ReadTimeout {
        consistency: Consistency,
    },
    /// A read failed for another reason than a timeout.
    ReadFailure {
        consistency: Consistency,
    },
    FunctionFailure {
        keyspace: String,
        function: String,
        /// The CQL types of the function's arguments.
        argument_types: Vec<String>,
    },
    /// The statement is not valid CQL.
    Syntax,
    /// The client lacks a permission.
    Unauthorized,
    /// The statement is CQL, but does not fit the schema or the data.
    Invalid,
    /// The statement has an invalid option, such as the replication of a keyspace.
    Config,
    /// The table or keyspace that CREATE names exists already.
    AlreadyExists {
        /// The keyspace that exists, or that contains the table.
        keyspace: String,
        /// The table; empty for a keyspace.
        table: String,
    },
    /// The prepared statement is unknown: the driver must prepare it again.
    Unprepared {
        /// The id in EXECUTE or BATCH.
        id: Vec<u8>,
    },
}

words! {
    WriteType, "type of a write",
    Simple = "SIMPLE",
    /// A logged batch, after its batch log was written.
    Batch = "BATCH",
    UnloggedBatch = "UNLOGGED_BATCH",
    Counter = "COUNTER",
    /// A conditional write.
    Cas = "CAS",
}

impl ErrorKind {
    pub fn code(&self) -> i32 {
        match self {
            Self::Server => 0x0000,
            Self::Protocol => 0x000A,
            Self::BadCredentials => 0x0100,
            Self::Overloaded => 0x1001,
            Self::WriteTimeout { .. } => 0x1100,
            Self::ReadTimeout { .. } => 0x1200,
            Self::ReadFailure { .. } => 0x1300,
            Self::FunctionFailure { .. } => 0x1400,
            Self::Syntax => 0x2000,
            Self::Unauthorized => 0x2100,
            Self::Invalid => 0x2200,
            Self::Config => 0x2300,
            Self::AlreadyExists { .. } => 0x2400,
            Self::Unprepared { .. } => 0x2500,
        }
    }
}

impl ErrorResponse {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind, message }
    }

    pub fn server(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Server, message)
    }

    pub fn protocol(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Protocol, message)
    }

    pub fn syntax(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Syntax, message)
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    pub fn config(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Config, message)
    }

    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unauthorized, message)
    }

    pub fn overloaded(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Overloaded, message)
    }

    /// Returns [`ErrorKind::Unprepared`], with Cassandra's message.
    pub fn unprepared(id: &[u8]) -> Self {
        let hex: String = id.iter().take(64).map(|b| format!("{b:02x}")).collect();
        Self::new(
            ErrorKind::Unprepared { id: id.to_vec() },
            format!(
                "Prepared query with ID {hex} not found (either the query was not prepared \
                 on this host or you have prepared too many queries and it has been evicted)"
            ),
        )
    }

    /// Returns [`ErrorKind::AlreadyExists`] for a table, or for a keyspace if `table` is empty, with
    /// Cassandra's message.
    pub fn already_exists(keyspace: &str, table: &str) -> Self {
        let message = match table {
            "" => format!("Cannot add existing keyspace \"{keyspace}\""),
            _ => {
                format!("Cannot add already existing table \"{table}\" to keyspace \"{keyspace}\"")
            }
        };
        let (keyspace, table) = (keyspace.to_owned(), table.to_owned());
        Self::new(ErrorKind::AlreadyExists { keyspace, table }, message)
    }

    pub(super) fn read(reader: &mut Reader<'_>, version: Version) -> Result<Self> {
        let code = reader.int("the code of an error")?;
        let message = reader.string("the message of an error")?.to_owned();
        let kind = ErrorKind::read(code, reader, version)?;
        Ok(Self { kind, message })
    }

    pub(super) fn write(&self, out: &mut BytesMut, version: Version) {
        out.put_i32(self.kind.code());
        writer::string(out, &self.message);
        self.kind.write(out, version);
    }
}

impl ErrorKind {
    /// Reads the fields that follow the code and the message of an error; some kinds have none.
    /// Only clients of ebb read errors, so the codes that ebb never sends are unknown here: 0x1000
    /// (unavailable), 0x1002 (bootstrapping), 0x1003 (a failed truncation), 0x1500 (a failed write)
    /// and, of version 5, 0x1600 (a failed write for change data capture) and 0x1700 (a conditional
    /// write with an unknown outcome).
    fn read(code: i32, reader: &mut Reader<'_>, version: Version) -> Result<Self> {
        // Rust evaluates fields in the order in which they are written, which is their order on the
        // wire.
        let name = "a name";
        Ok(match code {
            0x0000 => Self::Server,
            0x000A => Self::Protocol,
            0x0100 => Self::BadCredentials,
            0x1001 => Self::Overloaded,
            0x1100 => Self::WriteTimeout {
                consistency: read_replicas(reader)?,
                write_type: {
                    let write_type = WriteType::read(reader)?;
                    // Not kept: ebb always sends 0 here.
                    if version >= Version::V5 && write_type == WriteType::Cas {
                        reader.short("a count of contentions")?;
                    }
                    write_type
                },
            },
            0x1200 => {
                let consistency = read_replicas(reader)?;
                reader.byte("data present")?;
                Self::ReadTimeout { consistency }
            }
            0x1300 => {
                let consistency = read_replicas(reader)?;
                skip_failures(reader, version)?;
                reader.byte("data present")?;
                Self::ReadFailure { consistency }
            }
            0x1400 => Self::FunctionFailure {
                keyspace: reader.string(name)?.to_owned(),
                function: reader.string(name)?.to_owned(),
                argument_types: {
                    let types = reader.string_list("the types of arguments")?;
                    types.into_iter().map(str::to_owned).collect()
                },
            },
            0x2000 => Self::Syntax,
            0x2100 => Self::Unauthorized,
            0x2200 => Self::Invalid,
            0x2300 => Self::Config,
            0x2400 => Self::AlreadyExists {
                keyspace: reader.string(name)?.to_owned(),
                table: reader.string(name)?.to_owned(),
            },
            0x2500 => Self::Unprepared {
                id: reader.short_bytes("the id of a statement")?.to_owned(),
            },
            _ => return Err(ProtocolError::unknown_code("code of an error", code as u32)),
        })
    }

    /// Writes the fields that follow the code and the message of an error.
    fn write(&self, out: &mut BytesMut, version: Version) {
        match self {
            Self::Server
            | Self::Protocol
            | Self::BadCredentials
            | Self::Overloaded
            | Self::Syntax
            | Self::Unauthorized
            | Self::Invalid
            | Self::Config => {}
            Self::WriteTimeout {
                consistency,
                write_type,
            } => {
                write_replicas(out, *consistency);
                writer::string(out, write_type.word());
                if version >= Version::V5 && *write_type == WriteType::Cas {
                    // The number of contending writes: 0, because conflicts are not counted.
                    out.put_u16(0);
                }
            }
            Self::ReadTimeout { consistency } => {
                write_replicas(out, *consistency);
                out.put_u8(NO_DATA);
            }
            Self::ReadFailure { consistency } => {
                write_replicas(out, *consistency);
                write_failure(out, version);
                out.put_u8(NO_DATA);
            }
            Self::FunctionFailure {
                keyspace,
                function,
                argument_types,
            } => {
                writer::string(out, keyspace);
                writer::string(out, function);
                writer::string_list(out, argument_types);
            }
            Self::AlreadyExists { keyspace, table } => {
                writer::string(out, keyspace);
                writer::string(out, table);
            }
            Self::Unprepared { id } => writer::short_bytes(out, id),
        }
    }
}

/// The value of `data present` if the replica that was to return data did not respond.
const NO_DATA: u8 = 0;

/// Reads the consistency level. Skips the numbers of replicas that responded and that the server
/// waited for.
fn read_replicas(reader: &mut Reader<'_>) -> Result<Consistency> {
    let consistency = reader.consistency()?;
    reader.int("a count of replicas")?;
    reader.int("a count of replicas")?;
    Ok(consistency)
}

/// Writes the consistency level, and that the server waited for one replica, which did not respond.
fn write_replicas(out: &mut BytesMut, consistency: Consistency) {
    out.put_u16(consistency.code());
    out.put_i32(0);
    out.put_i32(1);
}

/// Skips the number of failed replicas and, since version 5, the address and the reason of each.
fn skip_failures(reader: &mut Reader<'_>, version: Version) -> Result<()> {
    let count = reader.int("a count of replicas")?;
    if version >= Version::V5 {
        for _ in 0..count {
            let address_bytes = reader.byte("the address of a replica")?;
            reader.take(address_bytes.into(), "the address of a replica")?;
            reader.short("why a replica failed")?;
        }
    }
    Ok(())
}

/// Writes that one replica failed and, since version 5, its address and the reason.
fn write_failure(out: &mut BytesMut, version: Version) {
    /// The address of the only replica, the server itself: its length, then 127.0.0.1.
    const SELF: [u8; 5] = [4, 127, 0, 0, 1];
    const UNKNOWN_REASON: u16 = 0x0000;
    out.put_i32(1);
    if version >= Version::V5 {
        out.put_slice(&SELF);
        out.put_u16(UNKNOWN_REASON);
    }
}

impl From<ProtocolError> for ErrorResponse {
    fn from(error: ProtocolError) -> Self {
        Self::protocol(error.to_string())
    }
}

impl From<FrameError> for ErrorResponse {
    /// Returns the response to a client that sent an invalid frame. A body that is too long is an
    /// invalid request, with Cassandra's message, because the client did not violate the protocol.
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::TooLong {
                body_bytes: bytes,
                body_bytes_max: bytes_max,
                ..
            }
            | FrameError::TooLongPlain {
                plain_bytes: bytes,
                body_bytes_max: bytes_max,
                ..
            } => Self::invalid(format!(
                "Request is too big: length {bytes} exceeds maximum allowed length {bytes_max}."
            )),
            _ => Self::protocol(error.to_string()),
        }
    }
}
