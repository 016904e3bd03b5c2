//! Encodings of numbers and of texts that sort by their bytes like the values.

use super::Number;

/// The first byte of the encoding of a negative number.
const NEGATIVE: u8 = 1;
/// The only byte of the encoding of zero.
const ZERO: u8 = 2;
/// The first byte of the encoding of a positive number.
const POSITIVE: u8 = 3;

impl Number {
    /// Appends an encoding of the number. The encodings of numbers sort by their bytes as the
    /// numbers do. No encoding is a prefix of another one, and equal numbers have equal encodings.
    ///
    /// ```text
    ///   sign, u8 | exponent e of 0.DIGITS * 10^e, i16 BE with its sign bit inverted
    ///            | digits two by two, each pair plus one | 0
    /// ```
    ///
    /// After the sign all bits are inverted if the number is negative; zero consists of the sign
    /// only.
    pub fn push_ordered(&self, to: &mut Vec<u8>) {
        let (is_negative, digits, point) = self.digits();
        if digits.is_empty() {
            return to.push(ZERO);
        }
        to.push(if is_negative { NEGATIVE } else { POSITIVE });
        let from = to.len();
        // Sums of numbers within the bounds stay far from these ends.
        let point = point.clamp(i16::MIN.into(), i16::MAX.into()) as i16;
        to.extend(((point as u16) ^ (1 << 15)).to_be_bytes());
        for pair in digits.as_bytes().chunks(2) {
            let tens = 10 * (pair[0] - b'0');
            to.push(1 + tens + pair.get(1).map_or(0, |digit| digit - b'0'));
        }
        to.push(0);
        if is_negative {
            to[from..].iter_mut().for_each(|byte| *byte = !*byte);
        }
    }
}

/// Appends an encoding of `text`. The encodings of texts sort by their bytes as the texts do, and
/// none is a prefix of another one: each byte 0 of the text becomes the two bytes 0 and 0xff, and
/// two bytes 0 mark the end.
pub fn ordered_text(text: &[u8], to: &mut Vec<u8>) {
    for &byte in text {
        to.push(byte);
        if byte == 0 {
            to.push(u8::MAX);
        }
    }
    to.extend_from_slice(&[0, 0]);
}
