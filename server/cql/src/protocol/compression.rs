//! The LZ4 format of the protocol: the length of the plain body as four bytes, big-endian, then one
//! raw LZ4 block.

use bytes::{BufMut, Bytes, BytesMut};
use lz4_flex::block;

use super::fault::{ProtocolError, Result};

/// The minimal length in bytes of a body, or of a segment's payload, that is compressed: shorter
/// ones would hardly shrink.
pub const COMPRESSED_BODY_BYTES_MIN: usize = 512;
/// The limit of unused bytes in a buffer after its compression. Above the limit, the compressed
/// bytes move to a smaller buffer, because they may wait long until the client receives them.
const UNUSED_BYTES_MAX: usize = 256 << 10;
/// The greatest ratio of plain to compressed bytes that the LZ4 format can express. It bounds the
/// memory that is allocated for a received block.
const EXPANSION_MAX: usize = 255;
const LENGTH_BYTES: usize = 4;

/// The compression agreed on in STARTUP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    #[default]
    None,
    Lz4,
}

impl Compression {
    /// Returns the compression with this name in STARTUP or SUPPORTED, in upper or lower case.
    /// `None` for others, such as Snappy, which is not supported.
    pub fn from_name(name: &str) -> Option<Self> {
        name.eq_ignore_ascii_case("lz4").then_some(Self::Lz4)
    }
}

/// Returns the length after decompression, in bytes, from the start of a compressed body; `None` if
/// the body is too short to contain it.
pub(super) fn plain_bytes(body: &[u8]) -> Option<u32> {
    body.first_chunk().copied().map(u32::from_be_bytes)
}

/// Decompresses a body. Allocations are bounded by `body_bytes_max` and by 255 times the received
/// bytes, whatever the stated length is.
pub(super) fn decompress(body: &[u8], body_bytes_max: usize) -> Result<Bytes> {
    let Some((length, block)) = body.split_first_chunk::<LENGTH_BYTES>() else {
        return Err(ProtocolError::Truncated {
            what: "a compressed body",
            needed_bytes: LENGTH_BYTES,
            left_bytes: body.len(),
        });
    };
    let length = u32::from_be_bytes(*length);
    let bound = body_bytes_max.min(block.len().saturating_mul(EXPANSION_MAX));
    let wrong = ProtocolError::length("a compressed body", length);
    let plain_bytes = usize::try_from(length).map_err(|_| wrong.clone())?;
    if plain_bytes > bound {
        return Err(wrong);
    }
    let mut plain = vec![0; plain_bytes];
    match block::decompress_into(block, &mut plain) {
        Ok(written) if written == plain_bytes => Ok(plain.into()),
        Ok(_) => Err(wrong),
        Err(_) => Err(ProtocolError::Forbidden("the body is no LZ4 block")),
    }
}

/// Compresses the bytes of `out` from `start` on, and returns true. If they are fewer than
/// [`COMPRESSED_BODY_BYTES_MIN`], or if compression does not make them fewer, leaves them unchanged
/// and returns false.
pub(super) fn compress_tail(out: &mut BytesMut, start: usize) -> bool {
    let plain = &out[start..];
    if plain.len() < COMPRESSED_BODY_BYTES_MIN {
        return false;
    }
    let compressed = block::compress(plain);
    if LENGTH_BYTES + compressed.len() >= plain.len() {
        return false;
    }
    let length = u32::try_from(plain.len()).expect("a body is below 4 GiB");
    out.truncate(start);
    out.put_u32(length);
    out.put_slice(&compressed);
    if out.capacity() - out.len() > UNUSED_BYTES_MAX {
        *out = BytesMut::from(&out[..]);
    }
    true
}
