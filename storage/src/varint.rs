//! Unsigned LEB128 integers: seven bits per byte, lowest first, the top bit set
//! on all but the last. At most ten bytes for a `u64`.

pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads an integer from `bytes` at the offset `*at`, and moves `*at` to the
/// byte after it. Returns `None` if the bytes end within the integer, or the
/// integer does not fit into 64 bits.
#[inline]
pub(crate) fn get(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let first = *bytes.get(*at)?;
    *at += 1;
    if first < 0x80 {
        return Some(u64::from(first));
    }
    get_long(bytes, at, u64::from(first & 0x7f))
}

/// Reads the second and all later bytes of an integer, which begin at `*at`;
/// `value` has the bits of the first byte.
fn get_long(bytes: &[u8], at: &mut usize, mut value: u64) -> Option<u64> {
    for shift in (7..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        let bits = u64::from(byte & 0x7f);
        // The tenth byte holds the 64th bit only.
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        for value in [0, 1, 127, 128, 300, 1 << 35, u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            let mut at = 0;
            assert_eq!(get(&bytes, &mut at), Some(value));
            assert_eq!(at, bytes.len());
            assert_eq!(get(&bytes[..bytes.len() - 1], &mut 0), None);
        }
    }

    #[test]
    fn more_than_64_bits_are_refused() {
        let mut bytes = [0xff; 11];
        assert_eq!(get(&bytes, &mut 0), None);
        bytes[9] = 0x02;
        assert_eq!(get(&bytes, &mut 0), None);
        bytes[9] = 0x01;
        assert_eq!(get(&bytes, &mut 0), Some(u64::MAX));
    }
}
