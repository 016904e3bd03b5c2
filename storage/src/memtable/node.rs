//! The memory layout of a node of the skip list: its parts, their offsets, and its number of
//! levels. [`super::skiplist`] writes and reads the nodes.
//!
//! ```text
//!   | prefix 16 | number 8 | lengths 8 | kind, height | links | key | value |
//! ```

use bytes::Bytes;

use super::chunk::ALIGN_BYTES;
use crate::key::{Kind, SeqNo};
use crate::sync::in_place::{AtomicPtr, Complete};

/// The greatest number of levels of the list: enough for 4^12 nodes, as each level has a quarter of the
/// nodes of the level below. Fewer for loom, which explores each access to a link.
pub(super) const HEIGHT_MAX: usize = if cfg!(loom) { 2 } else { 12 };

/// The number of leading bytes of a key that are compared as integers.
pub(super) const PREFIX_BYTES: usize = 16;

/// A link to the next node of a level; null at the end.
pub(super) type Link = AtomicPtr<Node>;

/// A version in the skip list. In memory, the links follow the header: one for each of the `height`
/// levels, and for a merge operand one more, to its fold (the result of merging it with all older
/// versions of its key, which a reader stores). Then comes the key, and then the value: its bytes, or
/// an aligned [`Bytes`].
#[repr(C)]
pub(super) struct Node {
    pub(super) header: Complete<Header>,
    links: [Link; 0],
}

pub(super) struct Header {
    pub(super) prefix: Prefix,
    pub(super) seq: SeqNo,
    pub(super) key_bytes: u32,
    pub(super) value_bytes: u32,
    pub(super) kind: Kind,
    pub(super) height: u8,
    /// Whether the value is stored as a [`Bytes`], whose memory readers share.
    pub(super) shared: bool,
}

const _: () = assert!(align_of::<Node>() <= ALIGN_BYTES && align_of::<Bytes>() <= ALIGN_BYTES);

impl Header {
    /// Returns the header of a node. `shared` is true if the value is stored as a [`Bytes`], whose
    /// memory readers share.
    ///
    /// # Panics
    /// If the key or the value has 4 GiB or more.
    #[inline]
    pub(super) fn new(key: &[u8], seq: SeqNo, kind: Kind, value: &[u8], shared: bool) -> Self {
        let bytes = |slice: &[u8]| u32::try_from(slice.len()).expect("less than 4 GiB");
        Self {
            prefix: Prefix::of(key),
            seq,
            key_bytes: bytes(key),
            value_bytes: bytes(value),
            kind,
            height: height_of(seq) as u8,
            shared,
        }
    }

    #[inline]
    pub(super) fn links(&self) -> usize {
        usize::from(self.height) + usize::from(self.kind == Kind::Merge)
    }

    #[inline]
    pub(super) fn key_offset(&self) -> usize {
        size_of::<Node>() + self.links() * size_of::<Link>()
    }

    #[inline]
    pub(super) fn value_offset(&self) -> usize {
        let end = self.key_offset() + self.key_bytes as usize;
        if self.shared {
            end.next_multiple_of(align_of::<Bytes>())
        } else {
            end
        }
    }

    #[inline]
    pub(super) fn node_bytes(&self) -> usize {
        self.value_offset()
            + if self.shared {
                size_of::<Bytes>()
            } else {
                self.value_bytes as usize
            }
    }
}

/// The first [`PREFIX_BYTES`] bytes of a key, with zeros behind a shorter key. If the prefixes of two
/// keys differ, they compare as the keys do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Prefix(u64, u64);

impl Prefix {
    #[inline]
    pub(super) fn of(key: &[u8]) -> Self {
        let mut bytes = [0; PREFIX_BYTES];
        match key.first_chunk() {
            Some(first) => bytes = *first,
            None => bytes[..key.len()].copy_from_slice(key),
        }
        let value = u128::from_be_bytes(bytes);
        Self((value >> 64) as u64, value as u64)
    }
}

/// Returns the number of levels of the node with this sequence number, which is derived from a hash of
/// `seq`. On average, each level has a quarter of the nodes of the level below.
pub(super) fn height_of(seq: SeqNo) -> usize {
    // The finisher of SplitMix64: every bit of the result hangs on all.
    let mut bits = seq.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    (1 + bits.trailing_zeros() as usize / 2).min(HEIGHT_MAX)
}
