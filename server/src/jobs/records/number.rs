//! Numbers in text, and keys in the order of numbers.

use ebb_scheduler::runtime::TaskError;

/// The number that a field is: decimal, with blanks around it at most.
///
/// # Errors
/// When it is none; `key` and `column` say where.
pub fn parse(field: &[u8], key: &[u8], column: &str) -> Result<f64, TaskError> {
    let text = std::str::from_utf8(field).ok().map(str::trim);
    let number = text.and_then(|text| text.parse::<f64>().ok());
    number.filter(|number| !number.is_nan()).ok_or_else(|| {
        TaskError::failed(format!(
            "column {column} of {:?} is {:?}, which is no number",
            key.escape_ascii().to_string(),
            field.escape_ascii().to_string()
        ))
    })
}

/// Eight bytes that are in the order of the numbers. 0 and -0 are the same.
pub fn ordered(number: f64) -> [u8; 8] {
    let bits = (number + 0.0).to_bits();
    // Positive ones get the sign bit and are above all negative ones; of those
    // the larger bits are the smaller number.
    let sign = 1 << 63;
    let ordered = if bits & sign == 0 { bits | sign } else { !bits };
    ordered.to_be_bytes()
}

/// Bytes, none of which are the start of another's, in the order of `text`.
///
/// ```text
///   text, each 0 as 0 0xff | 0 0
/// ```
pub fn ordered_text(text: &[u8]) -> Vec<u8> {
    let mut ordered = Vec::with_capacity(text.len() + 2);
    for &byte in text {
        ordered.push(byte);
        if byte == 0 {
            ordered.push(u8::MAX);
        }
    }
    ordered.extend_from_slice(&[0, 0]);
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_bytes_is_that_of_the_numbers() {
        let ascending = [
            f64::NEG_INFINITY,
            -1e300,
            -2.5,
            -2.0,
            -1e-300,
            0.0,
            1e-300,
            1.0,
            9.0,
            10.0,
            f64::INFINITY,
        ];
        assert!(ascending.map(ordered).is_sorted());
        assert_eq!(ordered(0.0), ordered(-0.0));
    }

    #[test]
    fn the_order_of_texts_survives_and_so_does_its_reverse() {
        let ascending: [&[u8]; 7] = [b"", b"\0", b"\0a", b"a", b"a\0", b"ab", b"\xff"];
        assert!(ascending.map(ordered_text).is_sorted());
        let reversed = ascending.map(|text| ordered_text(text).iter().map(|b| !b).collect());
        assert!(reversed.iter().rev().is_sorted_by(|a: &&Vec<u8>, b| a < b));
    }

    #[test]
    fn what_is_no_number_says_where_it_is() {
        assert_eq!(parse(b" -1.5e3 ", b"k", "c").unwrap(), -1500.0);
        for bad in ["", "x", "1,5", "nan"] {
            let error = parse(bad.as_bytes(), b"row", "age")
                .unwrap_err()
                .to_string();
            assert!(error.contains("column age of \"row\""), "{error}");
        }
    }
}
