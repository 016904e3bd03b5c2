//! Rows as the store has them, as JSON.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Bytes, in responses as a text if they are UTF-8, and otherwise as hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Octets {
    /// Bytes that are UTF-8.
    Text(String),
    /// Any bytes. Requests may use this form for UTF-8, too.
    Hex {
        /// Two hexadecimal digits for each byte.
        hex: String,
    },
}

/// A request for the value of one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GetRequest {
    /// The key.
    pub key: Octets,
    /// The snapshot to read; `null` for the table as it is now.
    #[serde(default)]
    pub snapshot: Option<String>,
}

/// A request for a page of the rows of a key range.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScanRequest {
    /// The start of the range, inclusive; `null` for no bound.
    #[serde(default)]
    pub from: Option<Octets>,
    /// The end of the range, exclusive; `null` for no bound.
    #[serde(default)]
    pub to: Option<Octets>,
    /// The value of `next` in the page before this one.
    #[serde(default)]
    pub after: Option<Octets>,
    /// Whether the rows are in descending order of their keys.
    #[serde(default)]
    pub reverse: bool,
    /// Whether the values are left out.
    #[serde(default)]
    pub keys_only: bool,
    /// The largest number of rows in the page, 100 by default.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// The snapshot to read; `null` for the table as it is now.
    #[serde(default)]
    pub snapshot: Option<String>,
}

/// A row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RowView {
    /// The key of the row, as the table stores it.
    pub key: Octets,
    /// The value; absent if the request has `keys_only`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Octets>,
}

/// Rows of a key range, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RowPage {
    /// The rows of this page. If rows are long, there may be fewer than `limit` although more rows follow.
    pub rows: Vec<RowView>,
    /// The value of `after` for the next page; `null` on the last one.
    pub next: Option<Octets>,
}

impl From<&[u8]> for Octets {
    fn from(bytes: &[u8]) -> Self {
        if let Ok(text) = std::str::from_utf8(bytes) {
            return Self::Text(text.to_owned());
        }
        let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
        let digits = digits.filter_map(|digit| char::from_digit(digit.into(), 16));
        Self::Hex {
            hex: digits.collect(),
        }
    }
}

impl Octets {
    /// Returns the bytes.
    ///
    /// # Errors
    /// A text for the client, if `hex` is not made of pairs of hexadecimal digits.
    pub fn into_bytes(self) -> Result<Vec<u8>, String> {
        let hex = match self {
            Self::Text(text) => return Ok(text.into_bytes()),
            Self::Hex { hex } => hex,
        };
        let digit = |digit: u8| char::from(digit).to_digit(16);
        let byte = |pair: &[u8]| match *pair {
            [high, low] => u8::try_from((digit(high)? << 4) | digit(low)?).ok(),
            _ => None,
        };
        let bytes: Option<Vec<u8>> = hex.as_bytes().chunks(2).map(byte).collect();
        bytes.ok_or_else(|| "hex: each byte takes two hexadecimal digits".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_survive_json() {
        for bytes in [&b""[..], "k\u{e4}".as_bytes(), b"\xff\x00\x7f", b"{"] {
            let json = serde_json::to_string(&Octets::from(bytes)).unwrap();
            let read: Octets = serde_json::from_str(&json).unwrap();
            assert_eq!(read.into_bytes().unwrap(), bytes, "{json}");
        }
        for hex in ["0", "0g", "+1", "\u{e4}"] {
            let hex = Octets::Hex { hex: hex.into() };
            assert!(hex.clone().into_bytes().is_err(), "{hex:?}");
        }
    }
}
