//! Some members of a JSON object; the others are read past, and never in memory.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// What `object` has at each of `paths`, the names of members of members: a string's
/// text, other JSON in as few bytes as there can be. `None` where it has nothing or null.
/// Of members with the same name the last one counts.
///
/// # Errors
/// When `object` is no JSON object.
pub(super) fn members(
    object: &[u8],
    paths: &[Vec<String>],
) -> serde_json::Result<Vec<Option<Vec<u8>>>> {
    let mut found = vec![None; paths.len()];
    let wanted = paths.iter().map(Vec::as_slice).enumerate().collect();
    let members = Members {
        wanted,
        found: &mut found,
    };
    let mut json = serde_json::Deserializer::from_slice(object);
    json.deserialize_map(members)?;
    json.end()?;
    Ok(found)
}

/// Takes what is wanted of an object, by its place in `found`; of anything else nothing.
struct Members<'p, 'f> {
    wanted: Vec<(usize, &'p [String])>,
    found: &'f mut [Option<Vec<u8>>],
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
        while let Some(name) = object.next_key::<String>()? {
            let below = self.wanted.iter().filter_map(|&(place, path)| {
                let (first, rest) = path.split_first()?;
                (*first == name).then_some((place, rest))
            });
            let wanted: Vec<_> = below.collect();
            if wanted.is_empty() {
                object.next_value::<IgnoredAny>()?;
            } else if wanted.iter().any(|(_, rest)| rest.is_empty()) {
                let value: Value = object.next_value()?;
                for (place, rest) in wanted {
                    self.found[place] = member(&value, rest);
                }
            } else {
                for (place, _) in &wanted {
                    self.found[*place] = None;
                }
                let found = &mut *self.found;
                object.next_value_seed(Members { wanted, found })?;
            }
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

fn member(object: &Value, path: &[String]) -> Option<Vec<u8>> {
    let found = path.iter().try_fold(object, |at, name| at.get(name))?;
    match found {
        Value::Null => None,
        Value::String(text) => Some(text.as_bytes().to_vec()),
        other => Some(other.to_string().into_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn paths(paths: &[&str]) -> Vec<Vec<String>> {
        let path = |path: &&str| path.split('.').map(str::to_string).collect();
        paths.iter().map(path).collect()
    }

    /// Objects of few names in each other, some of them twice.
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
                let name = ["a", "b", "\\u0063"][rng.random_range(0..3)];
                format!("\"{name}\" : {}", drawn(rng, depth))
            })
            .collect();
        format!("{{{}}}", members.join(","))
    }

    #[test]
    fn members_are_those_of_the_whole_object() {
        let seed: u64 = rand::random();
        println!("seed {seed}");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let all = paths(&["a", "b", "a.b", "c.a", "c.b.a", "b.b", "c.b.a", "d", ""]);
        for _ in 0..5000 {
            let wanted: Vec<_> = (all.iter().filter(|_| rng.random())).cloned().collect();
            let text = object(&mut rng, 3);
            let whole: Value = serde_json::from_str(&text).unwrap();
            let expected: Vec<_> = wanted.iter().map(|path| member(&whole, path)).collect();
            let found = members(text.as_bytes(), &wanted).unwrap();
            assert_eq!(found, expected, "{wanted:?} of {text}");
        }
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
            assert!(members(bad.as_bytes(), &wanted).is_err(), "{bad}");
        }
    }
}
