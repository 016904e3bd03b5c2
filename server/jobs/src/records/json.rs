//! Some members of a JSON object. The parser skips the other members without copying them
//! to memory.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::Fields;

/// Sets the fields with the indexes `places` to the members of `object` at `paths`, one path for
/// each index. Strings get the form `form`; other JSON keeps its original form, so that no digit of
/// a number is lost. A path is the name of a member, or the names of nested members with dots
/// between them. A member whose name is the whole path takes precedence over a nested one, because
/// jobs write such names: `x_p99.9`, and `user.id` for a column `--by user.id`. A field is missing
/// if there is no such member, and null if the member is null. If several members have the same
/// name, the last one is used.
///
/// # Errors
/// When `object` is not a JSON object; the error is the reason.
pub(super) fn members(
    object: &[u8],
    paths: &[String],
    places: &[usize],
    fields: &mut Fields,
    form: Form,
) -> Result<(), String> {
    let wanted = paths.iter().map(String::as_str);
    let wanted: Vec<FieldPath<'_>> = places.iter().copied().zip(wanted).collect();
    read(object, &wanted, fields, form).map_err(|e| format!("it is no JSON object: {e}"))
}

/// The form in which a field gets a member that is a JSON string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// The text of the string, without quotes and escapes.
    Text,
    /// The string as JSON, with quotes and escapes, as the object contains it.
    Json,
}

fn read(
    object: &[u8],
    wanted: &[FieldPath<'_>],
    fields: &mut Fields,
    form: Form,
) -> serde_json::Result<()> {
    let mut json = serde_json::Deserializer::from_slice(object);
    json.deserialize_map(Members {
        wanted,
        fields,
        form,
    })?;
    json.end()
}

/// The index of a field, and the path of the member that it is set to.
type FieldPath<'p> = (usize, &'p str);

/// Returns the rest of `path` after the member `name`, if `path` is `name`, a dot and more. Returns
/// `None` otherwise, and if `name` has a dot itself.
fn below<'p>(path: &'p str, name: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(name)?.strip_prefix('.')?;
    (!name.contains('.')).then_some(rest)
}

/// A visitor of a JSON value. If the value is an object, sets each field in `wanted` to the member
/// at its path; ignores any other value.
struct Members<'p, 'f> {
    wanted: &'f [FieldPath<'p>],
    fields: &'f mut Fields,
    form: Form,
}

/// A seed that reads the name of a member, usually without a copy.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Name {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name.to_string()))
    }
}

impl<'de> DeserializeSeed<'de> for Members<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Members<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        let Self {
            wanted,
            fields,
            form,
        } = self;
        // The fields that are set by a member whose name is the whole path, and stay so.
        let mut named: Vec<usize> = Vec::new();
        while let Some(name) = object.next_key_seed(Name)? {
            let name: &str = &name;
            if wanted.iter().any(|&(_, path)| path == name) {
                let member: &RawValue = object.next_value()?;
                for &(place, path) in wanted {
                    let rest = below(path, name).filter(|_| !named.contains(&place));
                    if path == name && path.contains('.') {
                        named.push(place);
                    }
                    if path == name || rest.is_some() {
                        set(place, rest, member.get(), fields, form)
                            .map_err(serde::de::Error::custom)?;
                    }
                }
                continue;
            }
            let nested: Vec<FieldPath<'_>> = (wanted.iter())
                .filter(|(place, _)| !named.contains(place))
                .filter_map(|&(place, path)| Some((place, below(path, name)?)))
                .collect();
            if nested.is_empty() {
                object.next_value::<IgnoredAny>()?;
                continue;
            }
            nested.iter().for_each(|&(place, _)| fields.unset(place));
            let wanted = &nested;
            object.next_value_seed(Members {
                wanted,
                fields,
                form,
            })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        while elements.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}

/// Sets the field with the index `place` to `json`, which is valid JSON. If there is a `path`, sets
/// the field to the member at that path within `json`.
fn set(
    place: usize,
    path: Option<&str>,
    json: &str,
    fields: &mut Fields,
    form: Form,
) -> serde_json::Result<()> {
    fields.unset(place);
    let json = json.trim_ascii();
    match (path, json.as_bytes()) {
        (None, b"null") => fields.set_null(place),
        (None, json) if form == Form::Json => fields.set(place, json),
        (None, [b'"', text @ .., b'"']) if !text.contains(&b'\\') => fields.set(place, text),
        (None, [b'"', ..]) => {
            let text: String = serde_json::from_str(json)?;
            fields.set(place, text.as_bytes());
        }
        (None, json) => fields.set(place, json),
        (Some(path), [b'{', ..]) => read(json.as_bytes(), &[(place, path)], fields, form)?,
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ebb_test_support::seed::for_seeds;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use serde_json::Value;

    use super::*;

    fn found(text: &str, paths: &[String]) -> Result<Vec<Option<String>>, String> {
        let mut fields = Fields::default();
        fields.reset(paths.len());
        let places: Vec<usize> = (0..paths.len()).collect();
        members(text.as_bytes(), paths, &places, &mut fields, Form::Text)?;
        let text = |field: &[u8]| String::from_utf8(field.to_vec()).unwrap();
        Ok(fields.iter().map(|field| field.map(text)).collect())
    }

    #[test]
    fn no_digit_of_a_number_is_lost() {
        let object =
            r#"{"n": 9007199254740993, "x": 1e400, "y": 0.10, "l": [12345678901234567890123]}"#;
        let found = found(object, &paths(&["n", "x", "y", "l"])).unwrap();
        let digits = [
            "9007199254740993",
            "1e400",
            "0.10",
            "[12345678901234567890123]",
        ];
        assert_eq!(found, digits.map(|digits| Some(digits.to_string())));
    }

    fn paths(paths: &[&str]) -> Vec<String> {
        paths.iter().map(|path| (*path).to_string()).collect()
    }

    /// Finds the member at `path` in a parsed object by the rules of [`members`].
    fn member<'v>(whole: &'v Value, path: &str) -> Option<&'v Value> {
        let object = whole.as_object()?;
        object.get(path).or_else(|| {
            let (first, rest) = path.split_once('.')?;
            member(object.get(first)?, rest)
        })
    }

    /// Draws nested objects with few different names, some of which occur twice or have dots.
    fn drawn(rng: &mut ChaCha8Rng, depth: u32) -> String {
        match rng.random_range(0..if depth == 0 { 6 } else { 9 }) {
            0 => "null".to_string(),
            1 => "true".to_string(),
            2 => rng.random_range(-9..9).to_string(),
            3 => "1.50".to_string(),
            4 => "\"text \\u00e4 \\\"\"".to_string(),
            5 => "12345678901234567890123".to_string(),
            6 => format!("[{}, {}]", drawn(rng, depth - 1), drawn(rng, depth - 1)),
            _ => object(rng, depth - 1),
        }
    }

    fn object(rng: &mut ChaCha8Rng, depth: u32) -> String {
        let members: Vec<String> = (0..rng.random_range(0..5))
            .map(|_| {
                let name = ["a", "b", "\\u0063", "a.b", "b.a"][rng.random_range(0..5)];
                format!("\"{name}\" : {}", drawn(rng, depth))
            })
            .collect();
        format!("{{{}}}", members.join(","))
    }

    #[test]
    fn members_are_those_of_the_whole_object() {
        for_seeds("members_are_those_of_the_whole_object", 1, |seed| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let all = paths(&[
                "a", "b", "a.b", "c.a", "c.b.a", "b.b", "c.b.a", "c.a.b", "a.b.a", "d", "",
            ]);
            for _ in 0..5000 {
                let wanted: Vec<_> = (all.iter().filter(|_| rng.random())).cloned().collect();
                let text = object(&mut rng, 3);
                let whole: Value = serde_json::from_str(&text).unwrap();
                let found = found(&text, &wanted).unwrap();
                for (path, field) in wanted.iter().zip(found) {
                    let expected = member(&whole, path);
                    let field = field.map(|field| match expected {
                        Some(Value::String(_)) => Value::String(field),
                        _ => serde_json::from_str(&field).unwrap(),
                    });
                    let expected = expected.filter(|value| !value.is_null()).cloned();
                    assert_eq!(field, expected, "{path:?} of {text}");
                }
            }
        });
    }

    #[test]
    fn what_is_no_object_is_an_error_wherever_it_goes_wrong() {
        let wanted = paths(&["a.b"]);
        for bad in [
            "",
            "1",
            "null",
            "[{}]",
            "\"a\"",
            "{",
            "{} {}",
            "{\"a\":}",
            "{\"x\":[1}",
            "{\"a\":{\"b\":1}",
            "{\"a\":[1,]}",
        ] {
            assert!(found(bad, &wanted).is_err(), "{bad}");
        }
    }
}
