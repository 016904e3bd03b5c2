//! The native protocol, versions 4 and 5: decoding of requests and encoding of responses, and the
//! reverse for clients and tests.
//!
//! ```text
//! received bytes --FrameDecoder--> Frame --Request::decode--> Request (borrows)
//! Response, or cells --RowsWriter--> in an OpenFrame --> bytes to send
//! ```
//!
//! Invariants: no input causes a panic, or an allocation beyond a small multiple of the received
//! bytes or of the decoder's limit. Executing a prepared statement and responding with rows
//! allocates nothing except for the growth of the caller's buffer.
//!
//! Since version 5, received bytes are [`Segments`], which contain the frames.
//!
//! Source: Cassandra's `native_protocol_v4.spec` and `native_protocol_v5.spec`.

mod codes;
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
mod segment;
mod values;
mod version;
pub mod writer;

pub use columns::{Column, ColumnSpec, Columns};
pub use compression::{COMPRESSED_BODY_BYTES_MIN, Compression};
pub use consistency::Consistency;
pub use decoder::{BODY_BYTES_MAX_DEFAULT, FrameDecoder, FrameError};
pub use error_response::{ErrorKind, ErrorResponse, WriteType};
pub use events::{EventTypes, SchemaChange, SchemaChangeKind, SchemaTarget};
pub use fault::ProtocolError;
pub use frame::{Direction, EVENT_STREAM, Frame, HEADER_BYTES, Opcode, RESPONSE_BIT, flag};
pub use open_frame::{Head, OpenFrame};
pub use prepared_id::prepared_id;
pub use reader::{Reader, Value};
pub use request::{
    Batch, BatchKind, BatchStatement, QueryParameters, Request, Startup, StatementRef,
};
pub use response::{Answer, Prepared, Response};
pub use rows::{Metadata, Rows, RowsWriter};
pub use segment::{PAYLOAD_BYTES_MAX, SEGMENT_BYTES_MORE_MAX, Sealer, SegmentError, Segments};
pub use values::{Values, ValuesBuf};
pub use version::{Coding, Version};

#[cfg(test)]
mod tests;
