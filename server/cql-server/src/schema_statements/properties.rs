//! The properties after WITH, in the form in which the schema has them.

use std::collections::BTreeMap;

use ebb_cql::protocol::ErrorResponse;
use ebb_cql::syntax::ast::{Constant, Property, PropertyValue};
use ebb_model::schema::{OptionValue, SchemaError, TableOptions};
use uuid::Uuid;

use crate::error::of_schema;

type Entries = BTreeMap<String, String>;

pub(super) fn value(value: &PropertyValue) -> OptionValue {
    match value {
        PropertyValue::Constant(constant) => OptionValue::Text(constant.text.clone()),
        PropertyValue::Map(entries) => OptionValue::Map(texts(entries)),
    }
}

fn texts(entries: &[(Constant, Constant)]) -> Entries {
    let text = |(key, value): &(Constant, Constant)| (key.text.clone(), value.text.clone());
    entries.iter().map(text).collect()
}

/// Sets the options of a table, and returns the id that the statement gives the table; `None` if it
/// gives none.
pub(super) fn set_table_options(
    options: &mut TableOptions,
    properties: &[Property],
) -> Result<Option<Uuid>, ErrorResponse> {
    let mut id = None;
    for property in properties {
        let name = property.name.as_str();
        match &property.value {
            PropertyValue::Constant(constant) if name == "id" => {
                let parsed = Uuid::parse_str(&constant.text);
                id = Some(parsed.map_err(|_| ErrorResponse::config("Invalid table id"))?);
            }
            value => set_table_option(options, name, value)?,
        }
    }
    Ok(id)
}

fn set_table_option(
    options: &mut TableOptions,
    name: &str,
    written: &PropertyValue,
) -> Result<(), ErrorResponse> {
    let mut value = value(written);
    if let OptionValue::Map(entries) = &mut value {
        complete(name, entries)?;
    }
    options.set(name, value).map_err(|error| match error {
        // For Cassandra, mistakes after WITH are syntax errors.
        SchemaError::Invalid(message) => ErrorResponse::syntax(message),
        error => of_schema(error),
    })
}

/// Expands the abbreviations that Cassandra permits in a map, and rejects the entries that it rejects.
fn complete(option: &str, entries: &mut Entries) -> Result<(), ErrorResponse> {
    match option {
        "compaction" => compaction(entries),
        "compression" => {
            *entries = compression(std::mem::take(entries))?;
            Ok(())
        }
        _ => Ok(()),
    }
}

fn in_package(package: &str, class: &str) -> String {
    if class.contains('.') {
        class.to_string()
    } else {
        format!("org.apache.cassandra.{package}.{class}")
    }
}

fn no_class(option: &str) -> ErrorResponse {
    ErrorResponse::config(format!(
        "Missing sub-option 'class' for the '{option}' option."
    ))
}

fn compaction(entries: &mut Entries) -> Result<(), ErrorResponse> {
    let class = entries.get_mut("class");
    let class = class.ok_or_else(|| no_class("compaction"))?;
    *class = in_package("db.compaction", class);
    let has_thresholds = [
        "SizeTieredCompactionStrategy",
        "TimeWindowCompactionStrategy",
    ];
    if has_thresholds.iter().any(|name| class.ends_with(name)) {
        for (threshold, default) in [("max_threshold", "32"), ("min_threshold", "4")] {
            let entry = entries.entry(threshold.to_string());
            entry.or_insert_with(|| default.to_string());
        }
    }
    Ok(())
}

/// The options of some of Cassandra's compressors, beyond those that all have. They are accepted for
/// any compressor: ebb chooses a compressor by its class alone.
const COMPRESSOR_OPTIONS: [&str; 4] = [
    "compression_level",
    "crc_check_chance",
    "lz4_compressor_type",
    "lz4_high_compressor_level",
];

/// Checks the options of compression, with the errors of Cassandra's `CompressionParams.fromMap`, and
/// returns them under their present names: `sstable_compression` and `chunk_length_kb` are deprecated
/// names of `class` and `chunk_length_in_kb`. The errors for numbers that cannot be parsed also name the
/// text. Of several errors Cassandra may return another one: it looks for unknown options before it
/// compares numbers with their limits.
fn compression(mut given: Entries) -> Result<Entries, ErrorResponse> {
    let refuse = |message: String| Err(ErrorResponse::config(message));
    let disabled = || Entries::from([("enabled".to_string(), "false".to_string())]);
    if given.is_empty() {
        return Ok(disabled());
    }
    let is_enabled = given
        .remove("enabled")
        .is_none_or(|text| text.eq_ignore_ascii_case("true"));
    if !is_enabled {
        return if given.is_empty() {
            Ok(disabled())
        } else {
            refuse(
                "If the 'enabled' option is set to false no other options must be specified"
                    .to_string(),
            )
        };
    }
    let class = match (given.remove("class"), given.remove("sstable_compression")) {
        (Some(_), Some(_)) => {
            return refuse(
                "The 'sstable_compression' option must not be used if the compression algorithm is \
                 already specified by the 'class' option"
                    .to_string(),
            );
        }
        (Some(class), None) if class.is_empty() => {
            return refuse(
                "The 'class' option must not be empty. To disable compression use 'enabled' : false"
                    .to_string(),
            );
        }
        (Some(class), None) | (None, Some(class)) => class,
        (None, None) => return Err(no_class("compression")),
    };
    let chunk = match (
        given.remove("chunk_length_in_kb"),
        given.remove("chunk_length_kb"),
    ) {
        (Some(_), Some(_)) => {
            return refuse(
                "The 'chunk_length_kb' option must not be used if the chunk length is already \
                 specified by the 'chunk_length_in_kb' option"
                    .to_string(),
            );
        }
        (Some(chunk), None) | (None, Some(chunk)) => chunk,
        (None, None) => "16".to_string(),
    };
    let chunk = match chunk.parse::<i32>() {
        Err(_) => return refuse(format!("Invalid value for chunk_length_in_kb: {chunk}")),
        // Cassandra counts the bytes of a chunk with an `int`.
        Ok(kib) if kib > i32::MAX / 1024 => {
            return refuse(format!("Value of chunk_length_in_kb is too large ({kib})"));
        }
        Ok(..=0) => return refuse("Invalid negative or null chunk_length_in_kb".to_string()),
        Ok(kib) if !(kib as u32).is_power_of_two() => {
            return refuse("chunk_length_in_kb must be a power of 2".to_string());
        }
        Ok(kib) => kib.to_string(),
    };
    let ratio = given
        .remove("min_compress_ratio")
        .unwrap_or_else(|| "0".to_string());
    let ratio = match ratio.parse::<f64>() {
        Err(_) => return refuse(format!("Invalid value for min_compress_ratio: {ratio}")),
        Ok(ratio) if ratio < 0.0 => {
            return refuse("Invalid negative min_compress_ratio".to_string());
        }
        Ok(ratio) if ratio > 0.0 && ratio < 1.0 => {
            return refuse(
                "min_compress_ratio can either be 0 or greater than or equal to 1".to_string(),
            );
        }
        Ok(ratio) => ratio,
    };
    let unknown: Vec<&str> = given
        .keys()
        .map(String::as_str)
        .filter(|option| !COMPRESSOR_OPTIONS.contains(option))
        .collect();
    if !unknown.is_empty() {
        return refuse(format!(
            "Unknown compression options {}",
            unknown.join(", ")
        ));
    }
    // An empty `sstable_compression` turns compression off; an empty `class` was rejected above.
    // Without a compressor the other options do not matter.
    if class.is_empty() {
        return Ok(disabled());
    }
    given.insert("class".to_string(), in_package("io.compress", &class));
    given.insert("chunk_length_in_kb".to_string(), chunk);
    // 0 is the default, and is left out.
    if ratio > 0.0 {
        given.insert("min_compress_ratio".to_string(), format!("{ratio:?}"));
    }
    Ok(given)
}
