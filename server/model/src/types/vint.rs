//! Cassandra's variable-length integers: the number of leading one bits in the first byte is the
//! number of further bytes; signed integers are zigzag encoded. Durations in the native protocol
//! use them.

/// Appends an unsigned integer in 1 to 9 bytes.
pub fn write_unsigned(value: u64, out: &mut Vec<u8>) {
    // Each byte beyond the first takes one bit of the first byte.
    let extra = (1..9).find(|n| value >> (7 * n) == 0).map_or(8, |n| n - 1);
    let bytes = value.to_be_bytes();
    if extra == 8 {
        out.push(0xff);
        out.extend(bytes);
        return;
    }
    let ones = !(0xff_u8 >> extra);
    out.push(ones | bytes[7 - extra]);
    out.extend(&bytes[8 - extra..]);
}

/// Appends a signed integer in 1 to 9 bytes.
pub fn write_signed(value: i64, out: &mut Vec<u8>) {
    write_unsigned(((value << 1) ^ (value >> 63)) as u64, out);
}

/// Takes an unsigned integer off the front; `None` if the bytes end too early.
pub fn read_unsigned(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    let extra = first.leading_ones() as usize;
    let (tail, rest) = rest.split_at_checked(extra)?;
    let head = if extra >= 8 {
        0
    } else {
        first & (0xff >> extra)
    };
    *bytes = rest;
    Some(
        tail.iter()
            .fold(u64::from(head), |value, &b| value << 8 | u64::from(b)),
    )
}

/// Takes a signed integer off the front; `None` if the bytes end too early.
pub fn read_signed(bytes: &mut &[u8]) -> Option<i64> {
    let value = read_unsigned(bytes)?;
    Some((value >> 1) as i64 ^ -((value & 1) as i64))
}
