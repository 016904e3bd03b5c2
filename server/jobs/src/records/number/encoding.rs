//! Numbers on their way from map tasks to reduce tasks.

use bigdecimal::BigDecimal;
use bigdecimal::num_bigint::BigInt;

use super::{Form, Number, SCALE_MAX};

/// The first byte of a number whose mantissa does not fit into 128 bits, or whose scale is above
/// [`SCALE_MAX`].
const BIG: u8 = u8::MAX;

impl Number {
    /// Appends the number to `to`, with as few bytes as its mantissa needs. The second form is for numbers
    /// whose mantissa does not fit into 128 bits, or whose scale is above 38:
    ///
    /// ```text
    ///   bytes of the mantissa, u8 | scale, u8 | mantissa, two's complement LE
    ///   0xff | scale, i64 LE | bytes, u32 LE | mantissa, two's complement LE
    /// ```
    pub fn encode(&self, to: &mut Vec<u8>) {
        match &self.0 {
            Form::Small { mantissa, scale } => {
                // The bits below the sign bits, and one sign bit.
                let bits = 129 - (mantissa ^ (mantissa >> 127)).leading_zeros();
                let bytes = bits.div_ceil(8) as usize;
                to.extend([bytes as u8, *scale]);
                to.extend_from_slice(&mantissa.to_le_bytes()[..bytes]);
            }
            Form::Big(big) => {
                let (mantissa, scale) = big.as_bigint_and_scale();
                let mantissa = mantissa.to_signed_bytes_le();
                to.push(BIG);
                to.extend(scale.to_le_bytes());
                to.extend((mantissa.len() as u32).to_le_bytes());
                to.extend(mantissa);
            }
        }
    }

    /// Decodes a number from the start of `bytes`, and removes the bytes that it took; `None` if
    /// `bytes` do not begin with an encoded number.
    pub fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let (&length, rest) = bytes.split_first()?;
        if length == BIG {
            let (&scale, rest) = rest.split_first_chunk()?;
            let (&length, rest) = rest.split_first_chunk()?;
            let (mantissa, rest) = rest.split_at_checked(u32::from_le_bytes(length) as usize)?;
            *bytes = rest;
            let mantissa = BigInt::from_signed_bytes_le(mantissa);
            let big = BigDecimal::new(mantissa, i64::from_le_bytes(scale));
            return Some(Self(Form::Big(big)));
        }
        let (&scale, rest) = rest.split_first()?;
        let (encoded, rest) = rest.split_at_checked(length.into())?;
        let mantissa = sign_extended(encoded)?;
        *bytes = rest;
        (scale <= SCALE_MAX).then(|| Self::small(mantissa, scale))
    }

    /// Writes the number to `to`: the scale in the first byte, and the mantissa, two's complement LE, in
    /// all remaining bytes (16 at most). Returns false if the number does not fit there; `to` may then
    /// contain a part of it.
    pub fn encode_fixed(&self, to: &mut [u8]) -> bool {
        let (Form::Small { mantissa, scale }, Some((to_scale, to_mantissa))) =
            (&self.0, to.split_first_mut())
        else {
            return false;
        };
        let bytes = mantissa.to_le_bytes();
        let Some(kept) = bytes.get(..to_mantissa.len()) else {
            return false;
        };
        to_mantissa.copy_from_slice(kept);
        *to_scale = *scale;
        sign_extended(kept) == Some(*mantissa)
    }

    /// Decodes all of `bytes` as [`encode_fixed`](Self::encode_fixed) writes a number; `None` if they
    /// are not an encoded number.
    pub fn decode_fixed(bytes: &[u8]) -> Option<Self> {
        let (&scale, mantissa) = bytes.split_first()?;
        let mantissa = sign_extended(mantissa)?;
        (scale <= SCALE_MAX).then(|| Self::small(mantissa, scale))
    }
}

/// Returns the integer with the bytes `bytes`, two's complement LE; `None` if `bytes` is empty or has
/// more than 16 bytes.
fn sign_extended(bytes: &[u8]) -> Option<i128> {
    let sign = bytes.last()?.cast_signed() >> 7;
    let mut extended = [sign.cast_unsigned(); 16];
    extended.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(i128::from_le_bytes(extended))
}
