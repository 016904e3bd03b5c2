//! Frames of the native protocol, version 4: bytes to requests and responses to bytes,
//! and the other way round for clients and tests.
//!
//! ```text
//! received bytes --FrameDecoder--> Frame --Request::decode--> Request (borrows)
//! Response, or cells --RowsWriter--> in an OpenFrame --> bytes to send
//! ```
//!
//! What always holds: no bytes make it panic, and none make it allocate more than a
//! small multiple of what was received, or of the limit that the decoder was given.
//! Executing a prepared statement and answering with rows allocates nothing but the
//! growth of the caller's buffer.
//!
//! Source: Cassandra's `native_protocol_v4.spec`.

mod columns;
mod compression;
mod consistency;
mod decoder;
mod error_response;
mod events;
mod fault;
mod frame;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod open_frame;
mod prepared_id;
mod reader;
mod request;
mod response;
mod rows;
mod values;
pub mod writer;

pub use columns::{Column, ColumnSpec, Columns};
pub use compression::{COMPRESSED_BODY_BYTES_MIN, Compression};
pub use consistency::Consistency;
pub use decoder::{BODY_BYTES_MAX_DEFAULT, FrameDecoder, FrameError};
pub use error_response::{ErrorKind, ErrorResponse, WriteType};
pub use events::{
    Event, EventTypes, SchemaChange, SchemaChangeKind, SchemaTarget, StatusChange, TopologyChange,
};
pub use fault::ProtocolError;
pub use frame::{
    Direction, EVENT_STREAM, Frame, HEADER_BYTES, Opcode, RESPONSE_BIT, VERSION, flag,
};
pub use open_frame::{Head, OpenFrame};
pub use prepared_id::prepared_id;
pub use reader::{Reader, Value};
pub use request::{
    Batch, BatchKind, BatchStatement, QueryParameters, Request, Startup, StatementRef,
};
pub use response::{Answer, Prepared, Response};
pub use rows::{Rows, RowsWriter};
pub use values::{Values, ValuesBuf};

#[cfg(test)]
mod tests;
