//! The bounds of the keys of a file, or of the part of a run that counts, as the manifest records
//! them.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::KeyRange;
use crate::hex;

/// The longest key, in bytes, that bounds keep whole. Longer keys are cut to a prefix of this length,
/// so that a manifest of many files stays small. The range then begins at the prefix of the first
/// key, and ends after all keys that begin with the prefix of the last one.
const KEY_BYTES_MAX: usize = 256;

/// A range of keys that is not empty. The bounds of a file contain all of its keys, and may be
/// wider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Hex", into = "Hex")]
pub(crate) struct KeyBounds(KeyRange);

/// The hexadecimal form of the first key and of the exclusive end; `None` for no end.
type Hex = (String, Option<String>);

impl KeyBounds {
    pub(crate) fn of(keys: &KeyRange) -> Self {
        let start = keys.start.slice(..keys.start.len().min(KEY_BYTES_MAX));
        let end = keys.end.as_ref().and_then(|end| {
            if end.len() > KEY_BYTES_MAX {
                KeyRange::prefix(&end[..KEY_BYTES_MAX]).end
            } else {
                Some(end.clone())
            }
        });
        Self(KeyRange { start, end })
    }

    /// Returns exactly this range, without cutting long keys. The range must not be empty.
    pub(crate) fn exactly(range: KeyRange) -> Self {
        debug_assert!(!range.is_empty());
        Self(range)
    }

    /// Returns the range from `start` (included; `None` for the first key) to `end` (excluded; `None` for
    /// no end), which must not be empty. Returns `None` if neither is given, that is, for all keys.
    pub(crate) fn between(start: Option<Bytes>, end: Option<Bytes>) -> Option<Self> {
        let is_bounded = start.is_some() || end.is_some();
        let start = start.unwrap_or_default();
        is_bounded.then(|| Self::exactly(KeyRange { start, end }))
    }

    pub(crate) fn range(&self) -> &KeyRange {
        &self.0
    }
}

impl From<KeyBounds> for Hex {
    fn from(KeyBounds(range): KeyBounds) -> Self {
        (
            hex::encode(&range.start),
            range.end.as_ref().map(|end| hex::encode(end)),
        )
    }
}

impl TryFrom<Hex> for KeyBounds {
    type Error = String;

    fn try_from((start, end): Hex) -> Result<Self, String> {
        let key = |text: &String| {
            let bytes = hex::decode(text).ok_or_else(|| format!("{text:?} is not hex"))?;
            Ok::<_, String>(Bytes::from(bytes))
        };
        let (start, end) = (key(&start)?, end.as_ref().map(key).transpose()?);
        let range = KeyRange { start, end };
        if range.is_empty() {
            Err("bounds of keys end before they begin".into())
        } else {
            Ok(Self(range))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json_and_back(bounds: &KeyBounds) -> KeyBounds {
        serde_json::from_str(&serde_json::to_string(bounds).unwrap()).unwrap()
    }

    #[test]
    fn bounds_come_back_and_hold_what_they_are_of() {
        let long = |byte: u8| [&vec![byte; 300][..], b"tail"].concat();
        for (first, last) in [
            (b"a".to_vec(), b"b".to_vec()),
            (Vec::new(), Vec::new()),
            (long(3), long(3)),
            (long(1), long(u8::MAX)),
        ] {
            let bounds = KeyBounds::of(&KeyRange::spanning(&first, &last));
            assert!(bounds.range().contains(&first) && bounds.range().contains(&last));
            assert_eq!(json_and_back(&bounds), bounds);
            assert!(serde_json::to_string(&bounds).unwrap().len() < 4 * KEY_BYTES_MAX + 10);
        }
        let all = KeyBounds::of(&KeyRange::all());
        assert_eq!(json_and_back(&all), all);
    }

    #[test]
    fn bounds_without_a_key_are_refused() {
        for bad in [r#"["62","61"]"#, r#"["6","61"]"#, r#"["61","61"]"#] {
            assert!(serde_json::from_str::<KeyBounds>(bad).is_err(), "{bad}");
        }
    }
}
