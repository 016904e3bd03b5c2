//! Several statements in one request.

use bytes::{BufMut, BytesMut};

use super::super::consistency::Consistency;
use super::super::fault::{ProtocolError, Result};
use super::super::reader::Reader;
use super::super::values::Values;
use super::super::writer;
use super::parameters::{SERIAL_CONSISTENCY, TIMESTAMP};

/// What a batch promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BatchKind {
    /// All or nothing.
    Logged = 0,
    /// Each partition for itself.
    Unlogged = 1,
    /// Counters only.
    Counter = 2,
}

/// Which statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StatementRef<'a> {
    /// By its text.
    Text(&'a str),
    /// By the id that PREPARE answered; any bytes.
    Prepared(&'a [u8]),
}

/// One statement of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchStatement<'a> {
    /// Which.
    pub statement: StatementRef<'a>,
    /// Bound to its markers, by their places.
    pub values: Values<'a>,
}

/// The request BATCH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch<'a> {
    /// What it promises.
    pub kind: BatchKind,
    /// In the order sent; at most 65,535.
    pub statements: Vec<BatchStatement<'a>>,
    /// Of all writes.
    pub consistency: Consistency,
    /// Of conditional writes. Any level may be here; only the serial ones are right.
    pub serial_consistency: Option<Consistency>,
    /// Of the cells written, where a statement has none, in microseconds since 1970.
    /// Not `i64::MIN`.
    pub timestamp_us: Option<i64>,
}

fn unknown(what: &'static str, code: u8) -> ProtocolError {
    let code = code.into();
    ProtocolError::UnknownCode { what, code }
}

impl<'a> BatchStatement<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let statement = match reader.byte("the kind of a statement")? {
            0 => StatementRef::Text(reader.long_string("the text of a statement")?),
            1 => StatementRef::Prepared(reader.short_bytes("the id of a statement")?),
            code => return Err(unknown("kind of a statement", code)),
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
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let kind = match reader.byte("the kind of a batch")? {
            0 => BatchKind::Logged,
            1 => BatchKind::Unlogged,
            2 => BatchKind::Counter,
            code => return Err(unknown("kind of a batch", code)),
        };
        // It grows with what was read: the count is only a claim.
        let count = reader.short("the count of statements")?;
        let statements = (0..count).map(|_| BatchStatement::read(reader));
        let statements = statements.collect::<Result<_>>()?;
        let consistency = reader.consistency()?;
        // Names of values (0x40) are not among them: where a batch has them, its
        // values cannot be told apart (CASSANDRA-10246).
        let flags = super::read_flags(reader, SERIAL_CONSISTENCY | TIMESTAMP, "a batch")?;
        let serial_consistency = match flags & SERIAL_CONSISTENCY {
            0 => None,
            _ => Some(reader.consistency()?),
        };
        let timestamp_us = match flags & TIMESTAMP {
            0 => None,
            _ => Some(super::read_timestamp(reader)?),
        };
        Ok(Self {
            kind,
            statements,
            consistency,
            serial_consistency,
            timestamp_us,
        })
    }

    pub(super) fn write(&self, out: &mut BytesMut) {
        out.put_u8(self.kind as u8);
        writer::list(out, &self.statements, |out, statement| statement.write(out));
        out.put_u16(self.consistency.code());
        let mut flags = 0;
        if self.serial_consistency.is_some() {
            flags |= SERIAL_CONSISTENCY;
        }
        if self.timestamp_us.is_some() {
            flags |= TIMESTAMP;
        }
        out.put_u8(flags);
        super::write_tail(out, self.serial_consistency, self.timestamp_us);
    }
}
