//! Encoding of one value as bytes that sort in the order of its type.
//!
//! ```text
//! ascii text blob inet     bytes, 00 as 00 01 | 00 00
//! duration                 the same; not in keys, but in elements of sets and keys of maps
//! tinyint smallint         sign flipped
//! date time                unchanged
//! boolean                  00 empty | 01 false | 02 true
//! int bigint timestamp     00 empty | 01, sign flipped
//! float double             00 empty | 01, bits: negative ones inverted, else the sign flipped
//! uuid                     00 empty | 1 + version, high half (v1: time first), low half
//! timeuuid                 00 empty | 01, high half time first, low half with each sign flipped
//! varint                   00 empty | 01 negative or 02, length, two's complement
//! decimal                  00 empty | 01 negative, 02 zero or 03, exponent: 8, digits in pairs
//!                          of 1 + 0..99, 00; negative: all after the first byte inverted
//! list set map             00 empty | 01, for each part 01 and its ordered form, 00
//! tuple udt                00 empty | 01, for each part up to the last that is not null
//!                          01 null | 02 and its ordered form, 00
//! ```
//!
//! A tuple ends after its last part that is not null. Fields that `ALTER TYPE ... ADD` appends are
//! null in older values, so their encoding does not change.
//!
//! A length below 255 is one byte, others are 255 and four bytes; for a negative `varint` it is
//! inverted. Every form marks its own end. In a column that sorts descending, all bytes are inverted.
//!
//! Values that compare as equal have one form, so not every value can be decoded from its form: see
//! [`is_reconstructible`].
//!
//! ```text
//! encoding        a value to its ordered form
//! reconstruction  the values that their forms restore byte for byte
//! reader          the bytes of forms, inverted for descending columns
//! decoding        an ordered form to its value
//! ```

mod decoding;
mod encoding;
mod reader;
mod reconstruction;

pub use decoding::{DecodeError, decode, skip};
pub use encoding::{EncodeError, encode, try_encode};
pub use reader::{Malformed, Reader};
pub use reconstruction::{always_reconstructible, is_reconstructible, try_is_reconstructible};

const EMPTY: u8 = 0;
const PRESENT: u8 = 1;
const NULL_PART: u8 = 1;
const PART: u8 = 2;
const NEGATIVE: u8 = 1;
const ZERO: u8 = 2;
const POSITIVE: u8 = 3;

/// Returns the bits of a `float` or `double` in the order of the numbers.
fn to_ascending<const N: usize>(bits: [u8; N]) -> [u8; N] {
    if bits[0] & 0x80 == 0 {
        flip_sign(bits)
    } else {
        bits.map(|byte| !byte)
    }
}

/// Returns the bits that [`to_ascending`] put into the order of the numbers.
fn from_ascending<const N: usize>(ascending: [u8; N]) -> [u8; N] {
    if ascending[0] & 0x80 == 0 {
        ascending.map(|byte| !byte)
    } else {
        flip_sign(ascending)
    }
}

fn flip_sign<const N: usize>(mut bytes: [u8; N]) -> [u8; N] {
    bytes[0] ^= 0x80;
    bytes
}
