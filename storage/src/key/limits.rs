//! How long keys and values may be.

/// The longest key, in bytes: 256 KiB. Keys that keep the order of several values need more
/// bytes than the values, which may have 64 KiB each in CQL.
pub const MAX_KEY_BYTES: usize = 256 << 10;
/// The longest value, in bytes: 256 MiB.
pub const MAX_VALUE_BYTES: usize = 256 << 20;
/// The maximal length, in bytes, of the result of folding a key's operands: that of a value. It is smaller in
/// unit tests, so that they can exceed it.
pub(crate) const FOLDED_BYTES_MAX: usize = if cfg!(test) { 1 << 20 } else { MAX_VALUE_BYTES };
/// The number of bytes from which on the operands of a key are folded before more of them are read,
/// so that a reader's memory for one key is bounded. The quarter above the longest result bounds the
/// copying: a long result is copied once for each quarter of new operands, not once for each operand.
pub(crate) const UNFOLDED_BYTES_MAX: usize = FOLDED_BYTES_MAX + FOLDED_BYTES_MAX / 4;

/// Checks that key and value are within their limits; the error names the one that is too
/// long.
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
