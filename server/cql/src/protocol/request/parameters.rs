//! The parameters of a statement.

use bytes::{BufMut, BytesMut};

use super::super::consistency::Consistency;
use super::super::fault::{ProtocolError, Result};
use super::super::reader::Reader;
use super::super::values::Values;
use super::super::version::Version;
use super::super::writer;
use super::Tail;

const VALUES: u32 = 0x01;
const SKIP_METADATA: u32 = 0x02;
const PAGE_SIZE: u32 = 0x04;
const PAGING_STATE: u32 = 0x08;
const NAMES: u32 = 0x40;
const KNOWN: u32 = VALUES | SKIP_METADATA | PAGE_SIZE | PAGING_STATE | NAMES | Tail::KNOWN;

/// The parameters of QUERY and EXECUTE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueryParameters<'a> {
    /// The consistency level of reads and writes.
    pub consistency: Consistency,
    pub values: Values<'a>,
    /// True if the client knows the result's columns from PREPARE, and the result may omit them.
    pub skip_metadata: bool,
    /// The maximal number of rows of a page, never 0. `None`, and a negative number in the request,
    /// turn paging off.
    pub page_size_rows: Option<u32>,
    /// The position at which the page starts. These bytes are untrusted.
    pub paging_state: Option<&'a [u8]>,
    /// The consistency level of conditional writes; `None` for `SERIAL`. The decoder accepts any
    /// level; only the serial ones are valid.
    pub serial_consistency: Option<Consistency>,
    /// The timestamp of writes without `USING TIMESTAMP`, in microseconds since 1970; `None` if the
    /// server assigns it. Never `i64::MIN`.
    pub timestamp_us: Option<i64>,
    /// The keyspace of unqualified table names in the statement; `None` for the keyspace in use on
    /// the connection. Since version 5.
    pub keyspace: Option<&'a str>,
    /// The time to use as the current time, in seconds since 1970; `None` for the server's clock.
    /// Since version 5.
    pub now_s: Option<i32>,
    /// The id of the result columns that the client knows, from the response to PREPARE or from a
    /// later result. Only EXECUTE has it, since version 5.
    pub result_metadata_id: Option<&'a [u8]>,
}

impl<'a> QueryParameters<'a> {
    /// Reads the id of the result columns that the client knows (since version 5), then the
    /// parameters of EXECUTE.
    pub(super) fn read_of_execute(reader: &mut Reader<'a>, version: Version) -> Result<Self> {
        let result_metadata_id = match version {
            Version::V4 => None,
            Version::V5 => Some(reader.short_bytes("the id of a result's metadata")?),
        };
        Ok(Self {
            result_metadata_id,
            ..Self::read(reader, version)?
        })
    }

    pub(super) fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self> {
        let consistency = reader.consistency()?;
        let flags = super::read_flags(reader, version, KNOWN, "a statement")?;
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
            if rows == 0 {
                return Err(ProtocolError::Forbidden("The page size cannot be 0"));
            }
            parameters.page_size_rows = u32::try_from(rows).ok();
        }
        if has(PAGING_STATE) {
            parameters.paging_state = reader.bytes("the paging state")?;
        }
        let tail = Tail::read(reader, flags)?;
        Ok(Self {
            serial_consistency: tail.serial_consistency,
            timestamp_us: tail.timestamp_us,
            keyspace: tail.keyspace,
            now_s: tail.now_s,
            ..parameters
        })
    }

    pub(super) fn write(&self, out: &mut BytesMut, version: Version) {
        let flag = |set: bool, flag: u32| if set { flag } else { 0 };
        let tail = Tail {
            serial_consistency: self.serial_consistency,
            timestamp_us: self.timestamp_us,
            keyspace: self.keyspace,
            now_s: self.now_s,
        };
        out.put_u16(self.consistency.code());
        let flags = flag(!self.values.is_empty(), VALUES)
            | flag(self.skip_metadata, SKIP_METADATA)
            | flag(self.page_size_rows.is_some(), PAGE_SIZE)
            | flag(self.paging_state.is_some(), PAGING_STATE)
            | flag(self.values.is_named(), NAMES)
            | tail.flags();
        super::write_flags(out, version, flags);
        if !self.values.is_empty() {
            self.values.write(out);
        }
        if let Some(rows) = self.page_size_rows {
            out.put_i32(i32::try_from(rows).unwrap_or(i32::MAX));
        }
        if self.paging_state.is_some() {
            writer::bytes(out, self.paging_state);
        }
        tail.write(out, version);
    }
}
