//! What a statement runs with.

use bytes::{BufMut, BytesMut};

use super::super::consistency::Consistency;
use super::super::fault::Result;
use super::super::reader::Reader;
use super::super::values::Values;
use super::super::writer;

const VALUES: u8 = 0x01;
const SKIP_METADATA: u8 = 0x02;
const PAGE_SIZE: u8 = 0x04;
const PAGING_STATE: u8 = 0x08;
pub(super) const SERIAL_CONSISTENCY: u8 = 0x10;
pub(super) const TIMESTAMP: u8 = 0x20;
const NAMES: u8 = 0x40;
const KNOWN: u8 = 0x7f;

/// What comes with QUERY and EXECUTE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryParameters<'a> {
    /// Of reads and writes.
    pub consistency: Consistency,
    /// Bound to the markers; none where the request has none.
    pub values: Values<'a>,
    /// The client knows the result's columns from PREPARE: do not send them.
    pub skip_metadata: bool,
    /// Rows of a page at most; `None`, also for what is not above 0: no paging.
    pub page_size_rows: Option<u32>,
    /// Where the page starts: bytes that anybody may have made up.
    pub paging_state: Option<&'a [u8]>,
    /// Of conditional writes. Any level may be here; only the serial ones are right.
    pub serial_consistency: Option<Consistency>,
    /// Of the cells written, where the statement has none, in microseconds since 1970.
    /// Not `i64::MIN`.
    pub timestamp_us: Option<i64>,
}

impl Default for QueryParameters<'_> {
    /// Consistency `ONE`, all else absent.
    fn default() -> Self {
        Self {
            consistency: Consistency::One,
            values: Values::default(),
            skip_metadata: false,
            page_size_rows: None,
            paging_state: None,
            serial_consistency: None,
            timestamp_us: None,
        }
    }
}

impl<'a> QueryParameters<'a> {
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let consistency = reader.consistency()?;
        let flags = super::read_flags(reader, KNOWN, "a statement")?;
        let has = |flag| flags & flag != 0;
        let mut parameters = Self {
            consistency,
            skip_metadata: has(SKIP_METADATA),
            ..Self::default()
        };
        if has(VALUES) {
            parameters.values = Values::read(reader, has(NAMES))?;
        }
        if has(PAGE_SIZE) {
            let rows = reader.int("the page size")?;
            parameters.page_size_rows = u32::try_from(rows).ok().filter(|rows| *rows > 0);
        }
        if has(PAGING_STATE) {
            parameters.paging_state = reader.bytes("the paging state")?;
        }
        if has(SERIAL_CONSISTENCY) {
            parameters.serial_consistency = Some(reader.consistency()?);
        }
        if has(TIMESTAMP) {
            parameters.timestamp_us = Some(super::read_timestamp(reader)?);
        }
        Ok(parameters)
    }

    pub(super) fn write(&self, out: &mut BytesMut) {
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        out.put_u16(self.consistency.code());
        out.put_u8(
            flag(!self.values.is_empty(), VALUES)
                | flag(self.skip_metadata, SKIP_METADATA)
                | flag(self.page_size_rows.is_some(), PAGE_SIZE)
                | flag(self.paging_state.is_some(), PAGING_STATE)
                | flag(self.serial_consistency.is_some(), SERIAL_CONSISTENCY)
                | flag(self.timestamp_us.is_some(), TIMESTAMP)
                | flag(self.values.is_named(), NAMES),
        );
        if !self.values.is_empty() {
            self.values.write(out);
        }
        if let Some(rows) = self.page_size_rows {
            out.put_i32(i32::try_from(rows).unwrap_or(i32::MAX));
        }
        if self.paging_state.is_some() {
            writer::bytes(out, self.paging_state);
        }
        super::write_tail(out, self.serial_consistency, self.timestamp_us);
    }
}
