//! A member of the object in a JSON line.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;

/// Returns the value at `path` in the object `line`. `path` is the name of a member (which may contain
/// dots), or the names of nested members with dots between them. A string is returned as its text, other
/// JSON as it is written, so that numbers keep all digits.
///
/// # Errors
/// A message, if the value is missing or null, or if `line` is no JSON object.
pub(super) fn text_at(line: &[u8], path: &str) -> Result<Vec<u8>, String> {
    let found = serde_json::from_slice::<Object<'_>>(line).and_then(|object| object.text_at(path));
    match found {
        Ok(Some(text)) => Ok(text),
        Ok(None) => Err(format!(
            "member {path:?}, which is the key, is missing or null"
        )),
        Err(error) => Err(format!("it is no JSON object: {error}")),
    }
}

/// The members of an object, as unparsed JSON.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Object<'a>(#[serde(borrow)] HashMap<Cow<'a, str>, &'a RawValue>);

impl Object<'_> {
    fn text_at(&self, path: &str) -> serde_json::Result<Option<Vec<u8>>> {
        if let Some(value) = self.0.get(path) {
            return text_of(value);
        }
        let Some((first, rest)) = path.split_once('.') else {
            return Ok(None);
        };
        match self.0.get(first) {
            Some(value) if value.get().starts_with('{') => {
                serde_json::from_str::<Object<'_>>(value.get())?.text_at(rest)
            }
            _ => Ok(None),
        }
    }
}

fn text_of(value: &RawValue) -> serde_json::Result<Option<Vec<u8>>> {
    match value.get() {
        "null" => Ok(None),
        text if text.starts_with('"') => {
            Ok(Some(serde_json::from_str::<String>(text)?.into_bytes()))
        }
        other => Ok(Some(other.as_bytes().to_vec())),
    }
}
