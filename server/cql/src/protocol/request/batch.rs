//! Several statements in one request.

use bytes::{BufMut, BytesMut};

use super::super::consistency::Consistency;
use super::super::fault::{ProtocolError, Result};
use super::super::reader::Reader;
use super::super::values::Values;
use super::super::version::Version;
use super::super::writer;
use super::Tail;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BatchKind {
    /// All statements apply or none does.
    Logged = 0,
    /// The statements of each partition apply together.
    Unlogged = 1,
    /// Updates of counters only.
    Counter = 2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StatementRef<'a> {
    Text(&'a str),
    /// The id from the response to PREPARE; a client may send any bytes.
    Prepared(&'a [u8]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchStatement<'a> {
    pub statement: StatementRef<'a>,
    /// The values of the markers, in order.
    pub values: Values<'a>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch<'a> {
    pub kind: BatchKind,
    /// The statements in the order in which they were sent, at most 65,535.
    pub statements: Vec<BatchStatement<'a>>,
    /// The consistency level of all writes.
    pub consistency: Consistency,
    /// The consistency level of conditional writes; `None` for `SERIAL`. The decoder accepts any
    /// level; only the serial ones are valid.
    pub serial_consistency: Option<Consistency>,
    /// The timestamp of writes without `USING TIMESTAMP`, in microseconds since 1970; `None` if the
    /// server assigns it. Never `i64::MIN`.
    pub timestamp_us: Option<i64>,
    /// The keyspace of unqualified table names in the statements; `None` for the keyspace in use on
    /// the connection. Since version 5.
    pub keyspace: Option<&'a str>,
    /// The time to use as the current time, in seconds since 1970; `None` for the server's clock.
    /// Since version 5.
    pub now_s: Option<i32>,
}

impl<'a> BatchStatement<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let statement = match reader.byte("the kind of a statement")? {
            0 => StatementRef::Text(reader.long_string("the text of a statement")?),
            1 => StatementRef::Prepared(reader.short_bytes("the id of a statement")?),
            code => return Err(ProtocolError::unknown_code("kind of a statement", code)),
        };
        let values = Values::read(reader, false)?;
        Ok(Self { statement, values })
    }

    fn write(&self, out: &mut BytesMut) {
        match self.statement {
            StatementRef::Text(text) => {
                out.put_u8(0);
                writer::long_string(out, text);
            }
            StatementRef::Prepared(id) => {
                out.put_u8(1);
                writer::short_bytes(out, id);
            }
        }
        assert!(
            !self.values.is_named(),
            "a batch cannot carry names of values"
        );
        self.values.write(out);
    }
}

impl<'a> Batch<'a> {
    pub(super) fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self> {
        let kind = match reader.byte("the kind of a batch")? {
            0 => BatchKind::Logged,
            1 => BatchKind::Unlogged,
            2 => BatchKind::Counter,
            code => return Err(ProtocolError::unknown_code("kind of a batch", code)),
        };
        // The list grows with the statements read, because the count is unverified.
        let count = reader.short("the count of statements")?;
        let statements = (0..count).map(|_| BatchStatement::read(reader));
        let statements = statements.collect::<Result<_>>()?;
        let consistency = reader.consistency()?;
        // Names of values (0x40) are not supported: in a batch they are ambiguous (CASSANDRA-10246).
        let flags = super::read_flags(reader, version, Tail::KNOWN, "a batch")?;
        let tail = Tail::read(reader, flags)?;
        Ok(Self {
            kind,
            statements,
            consistency,
            serial_consistency: tail.serial_consistency,
            timestamp_us: tail.timestamp_us,
            keyspace: tail.keyspace,
            now_s: tail.now_s,
        })
    }

    pub(super) fn write(&self, out: &mut BytesMut, version: Version) {
        out.put_u8(self.kind as u8);
        writer::list(out, &self.statements, |out, statement| statement.write(out));
        out.put_u16(self.consistency.code());
        let tail = Tail {
            serial_consistency: self.serial_consistency,
            timestamp_us: self.timestamp_us,
            keyspace: self.keyspace,
            now_s: self.now_s,
        };
        super::write_flags(out, version, tail.flags());
        tail.write(out, version);
    }
}
