//! The options of a table, which stand behind `WITH`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::SchemaError;

/// The value of an option in a statement or a record: a constant's text, or a map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OptionValue {
    /// A string without its quotes, a number or a boolean.
    Text(String),
    /// A map from constants to constants, each as in [`Text`](Self::Text).
    Map(BTreeMap<String, String>),
}

/// The options of a table, each of them present.
///
/// ebb acts on `default_time_to_live`, on `gc_grace_seconds`, and on the [`Compressor`] of
/// `compression`. The other options have no effect. They are checked, stored and shown, because tools
/// send them.
///
/// Values are stored in normal form, which CQL accepts without quotes: `'+128'` as `128`, `'.5'` as
/// `0.5`, `'yes'` as `true`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TableOptions {
    values: BTreeMap<String, OptionValue>,
}

/// The kind of values that an option has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Boolean,
    Double,
    /// A 32-bit integer of at least this value.
    Integer(i32),
    Map,
    /// A map from names to blobs.
    Extensions,
}

/// The default of an option. For an option that is a map, its entries (key and value); for another
/// one, a single pair of an empty key and the value.
pub(super) type Entries = &'static [(&'static str, &'static str)];

/// The maximal TTL in Cassandra, in seconds: 20 years.
pub const TTL_MAX_SECS: i32 = 20 * 365 * 24 * 60 * 60;

/// Names, kinds and defaults, in the order of DESCRIBE. The defaults are those of Cassandra 4.1,
/// except for gc_grace_seconds: with a single copy it only protects against late writes with old
/// timestamps, so an hour is enough.
pub(super) const OPTIONS: [(&str, Kind, Entries); 18] = [
    ("additional_write_policy", Kind::Text, &[("", "99p")]),
    ("bloom_filter_fp_chance", Kind::Double, &[("", "0.01")]),
    (
        "caching",
        Kind::Map,
        &[("keys", "ALL"), ("rows_per_partition", "NONE")],
    ),
    ("cdc", Kind::Boolean, &[("", "false")]),
    ("comment", Kind::Text, &[("", "")]),
    (
        "compaction",
        Kind::Map,
        &[
            (
                "class",
                "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy",
            ),
            ("max_threshold", "32"),
            ("min_threshold", "4"),
        ],
    ),
    (
        "compression",
        Kind::Map,
        &[
            ("chunk_length_in_kb", "16"),
            ("class", "org.apache.cassandra.io.compress.LZ4Compressor"),
        ],
    ),
    ("memtable", Kind::Text, &[("", "default")]),
    ("crc_check_chance", Kind::Double, &[("", "1.0")]),
    ("default_time_to_live", Kind::Integer(0), &[("", "0")]),
    ("extensions", Kind::Extensions, &[]),
    ("gc_grace_seconds", Kind::Integer(0), &[("", "3600")]),
    ("max_index_interval", Kind::Integer(1), &[("", "2048")]),
    (
        "memtable_flush_period_in_ms",
        Kind::Integer(0),
        &[("", "0")],
    ),
    ("min_index_interval", Kind::Integer(1), &[("", "128")]),
    ("read_repair", Kind::Text, &[("", "BLOCKING")]),
    ("speculative_retry", Kind::Text, &[("", "99p")]),
    // Accepted from older clients; DESCRIBE does not print it.
    ("dclocal_read_repair_chance", Kind::Double, &[("", "0.0")]),
];

/// The kind of compressor that a table's option `compression` selects. ebb has compressors of its
/// own, and chooses one of the same kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compressor {
    /// No compression.
    None,
    /// A fast compressor: for LZ4, Snappy, and compressors that Cassandra does not ship.
    Fast,
    /// A compressor that saves more space: for Zstd and Deflate.
    Strong,
}

impl Default for TableOptions {
    fn default() -> Self {
        let values = OPTIONS.map(|(name, kind, default)| {
            let value = match (kind, default) {
                (Kind::Map | Kind::Extensions, entries) => OptionValue::Map(
                    entries
                        .iter()
                        .map(|&(k, v)| (k.to_owned(), v.to_owned()))
                        .collect(),
                ),
                (_, entries) => OptionValue::Text(entries[0].1.to_owned()),
            };
            (name.to_owned(), value)
        });
        Self {
            values: values.into(),
        }
    }
}

impl TableOptions {
    /// Sets one option.
    ///
    /// # Errors
    /// Cassandra's messages: for unknown options, values of the wrong kind, and numbers out of range.
    pub fn set(&mut self, name: &str, value: OptionValue) -> Result<(), SchemaError> {
        let Some((_, kind, _)) = OPTIONS.iter().find(|(option, ..)| *option == name) else {
            return super::invalid(format!("Unknown property '{name}'"));
        };
        let value = normal(name, *kind, &value)?;
        self.values.insert(name.to_owned(), value);
        Ok(())
    }

    /// Returns the value of an option; `None` for an unknown name.
    pub fn get(&self, name: &str) -> Option<&OptionValue> {
        self.values.get(name)
    }

    /// Returns the options and their values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &OptionValue)> {
        self.values.iter().map(|(name, value)| (&**name, value))
    }

    /// Returns the TTL in seconds of writes without a TTL; 0 means that they do not expire.
    pub fn default_time_to_live_secs(&self) -> u32 {
        self.integer("default_time_to_live")
    }

    /// Returns the seconds for which tombstones are kept at least.
    pub fn gc_grace_secs(&self) -> u32 {
        self.integer("gc_grace_seconds")
    }

    /// Returns the text of the option `comment`; empty if it was not set.
    pub fn comment(&self) -> &str {
        match self.get("comment") {
            Some(OptionValue::Text(text)) => text,
            _ => "",
        }
    }

    /// Returns the kind of compressor that the option `compression` selects: none, a fast one, or
    /// one that saves more space.
    pub fn compressor(&self) -> Compressor {
        let entry = |name: &str| match self.get("compression") {
            Some(OptionValue::Map(entries)) => entries.get(name).map(String::as_str),
            _ => None,
        };
        if entry("enabled").is_some_and(|text| text.eq_ignore_ascii_case("false")) {
            return Compressor::None;
        }
        match entry("class").map(|class| class.rsplit('.').next().unwrap_or(class)) {
            Some("NoopCompressor") => Compressor::None,
            Some("ZstdCompressor" | "DeflateCompressor") => Compressor::Strong,
            _ => Compressor::Fast,
        }
    }

    fn integer(&self, name: &str) -> u32 {
        match self.get(name) {
            Some(OptionValue::Text(text)) => text.parse().unwrap_or(0),
            _ => 0,
        }
    }

    /// Brings the options of a record into the form that [`set`](Self::set) stores. Earlier versions
    /// stored values exactly as statements contained them.
    ///
    /// # Errors
    /// The errors of [`set`](Self::set).
    pub(super) fn in_normal_form(self) -> Result<Self, SchemaError> {
        let mut normal = Self {
            values: BTreeMap::new(),
        };
        for (name, value) in self.values {
            normal.set(&name, value)?;
        }
        Ok(normal)
    }

    /// Checks that every option of a record is present and valid for [`set`](Self::set).
    pub(super) fn check(&self) -> Result<(), SchemaError> {
        for (name, kind, _) in OPTIONS {
            match self.values.get(name) {
                Some(value) => drop(normal(name, kind, value)?),
                None => return super::invalid(format!("Missing property '{name}'")),
            }
        }
        if self.values.len() == OPTIONS.len() {
            Ok(())
        } else {
            super::invalid("Unknown properties")
        }
    }
}

/// Checks a value, and returns it in its normal form. A number out of range is a configuration
/// error, as in Cassandra. A value of the wrong form is [`SchemaError::Invalid`], which the CQL
/// server turns into Cassandra's syntax error.
fn normal(name: &str, kind: Kind, value: &OptionValue) -> Result<OptionValue, SchemaError> {
    let text = match (kind, value) {
        // The entries have no normal form here: the server of CQL checks and expands them.
        (Kind::Map, OptionValue::Map(_)) => return Ok(value.clone()),
        (Kind::Extensions, OptionValue::Map(entries)) => {
            let entries = entries.iter().map(|(key, value)| match blob(value) {
                Some(blob) => Ok((key.clone(), blob)),
                None => super::invalid(format!("Invalid blob value {value} for '{name}'")),
            });
            return Ok(OptionValue::Map(entries.collect::<Result<_, _>>()?));
        }
        (Kind::Map | Kind::Extensions, OptionValue::Text(_)) => {
            return super::invalid(format!(
                "Invalid value for property '{name}'. It should be a map."
            ));
        }
        (_, OptionValue::Map(_)) => {
            return super::invalid(format!(
                "Invalid value for property '{name}'. It should be a string"
            ));
        }
        (_, OptionValue::Text(text)) => text,
    };
    let normal = match kind {
        Kind::Boolean => match text.to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" => "true".to_owned(),
            "0" | "false" | "no" => "false".to_owned(),
            _ => {
                return super::invalid(format!(
                    "Invalid boolean value {text} for '{name}'. Positive values can be '1', \
                     'true' or 'yes'. Negative values can be '0', 'false' or 'no'."
                ));
            }
        },
        // All options of this kind are probabilities. The CQL server checks the narrower range that Cassandra
        // has for `bloom_filter_fp_chance`; tables of earlier versions may have values outside of that range.
        Kind::Double => match text.parse::<f64>() {
            Ok(value) if (0.0..=1.0).contains(&value) => double(value),
            Ok(_) => {
                return Err(SchemaError::Configuration(format!(
                    "{name} must be larger than or equal to 0 and smaller than or equal to 1.0 \
                     (got {text})"
                )));
            }
            Err(_) => {
                return super::invalid(format!("Invalid double value {text} for '{name}'"));
            }
        },
        Kind::Integer(least) => match text.parse::<i32>() {
            Ok(value) if value < least => {
                return Err(SchemaError::Configuration(format!(
                    "{name} must be greater than or equal to {least} (got {value})"
                )));
            }
            Ok(value) if name == "default_time_to_live" && value > TTL_MAX_SECS => {
                return Err(SchemaError::Configuration(format!(
                    "{name} must be less than or equal to {TTL_MAX_SECS} (got {value})"
                )));
            }
            Ok(value) => value.to_string(),
            Err(_) => {
                return super::invalid(format!("Invalid integer value {text} for '{name}'"));
            }
        },
        // The last two do not occur: they returned above.
        Kind::Text | Kind::Map | Kind::Extensions => text.clone(),
    };
    Ok(OptionValue::Text(normal))
}

/// Returns a blob in lower case; `None` if the text is not a blob.
fn blob(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let digits = text.strip_prefix("0x")?;
    let is_blob = digits.len() % 2 == 0 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    is_blob.then_some(text)
}

/// Prints a number from 0 to 1 like Java's `Double.toString`: 0.5, 1.0E-4.
fn double(value: f64) -> String {
    // Minus zero counts as zero.
    let value = value.abs();
    if value == 0.0 || value >= 1e-3 {
        return format!("{value:?}");
    }
    let text = format!("{value:E}");
    if text.contains('.') {
        text
    } else {
        text.replace('E', ".0E")
    }
}
