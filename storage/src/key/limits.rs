//! How long keys and values may be.

/// The longest key, in bytes: 256 KiB. A CQL key consists of several values of up to 64 KiB each,
/// and their order-preserving encoding takes more bytes than the values.
pub const MAX_KEY_BYTES: usize = 256 << 10;
/// The longest value, in bytes: 256 MiB.
pub const MAX_VALUE_BYTES: usize = 256 << 20;
/// The longest result, in bytes, of folding the merge operands of a key: as long as the longest value. It is
/// smaller in unit tests, so that they can exceed it.
pub(crate) const FOLDED_BYTES_MAX: usize = if cfg!(test) { 1 << 20 } else { MAX_VALUE_BYTES };
/// The limit on the bytes of merge operands of one key that a reader collects, to bound its memory.
/// If the next operand would exceed the limit, the reader first folds the operands that it has, if
/// there are at least two.
///
/// The limit is a quarter above the longest result. So after a fold with the longest result, the
/// reader collects new operands of a quarter of this length before the next fold copies that
/// result.
pub(crate) const UNFOLDED_BYTES_MAX: usize = FOLDED_BYTES_MAX + FOLDED_BYTES_MAX / 4;

/// Checks that the key and the value are within their limits. The error names the one that is too long.
pub(crate) fn check_lengths(key: &[u8], value: &[u8]) -> Result<(), String> {
    if key.len() > MAX_KEY_BYTES {
        Err(format!(
            "a key of {} bytes; the longest allowed is {MAX_KEY_BYTES}",
            key.len()
        ))
    } else if value.len() > MAX_VALUE_BYTES {
        Err(format!(
            "a value of {} bytes; the longest allowed is {MAX_VALUE_BYTES}",
            value.len()
        ))
    } else {
        Ok(())
    }
}
