//! The properties after WITH, converted to the form in which the schema stores them.

use ebb_cql::protocol::ErrorResponse;
use ebb_cql::syntax::ast::{Constant, Property, PropertyValue};
use ebb_model::schema::{OptionValue, SchemaError, TableOptions};
use uuid::Uuid;

use super::compaction;
use super::entries::{Entries, digits, full_class, is_one_of};
use crate::error::{Result, config, of_schema};

/// The bound that `bloom_filter_fp_chance` must exceed. Cassandra's `BloomCalculations` has no filter
/// with so small a chance.
const BLOOM_CHANCE_BOUND: f64 = 6.71e-5;

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

/// Sets the options of a table, and returns the id in `WITH ID`; `None` if the statement has none.
pub(super) fn set_table_options(
    options: &mut TableOptions,
    properties: &[Property],
) -> Result<Option<Uuid>> {
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
    // Tables of earlier versions may have other intervals. Statements that leave them alone are
    // accepted.
    let is_interval = |property: &Property| property.name.as_str().ends_with("_index_interval");
    if properties.iter().any(is_interval) {
        check_index_intervals(options)?;
    }
    Ok(id)
}

fn check_index_intervals(options: &TableOptions) -> Result<()> {
    let number = |name: &str| match options.get(name) {
        Some(OptionValue::Text(text)) => text.parse::<i32>().unwrap_or(0),
        _ => 0,
    };
    let (min, max) = (number("min_index_interval"), number("max_index_interval"));
    if max < min {
        return config(format!(
            "max_index_interval must be greater than or equal to min_index_interval ({min}) (got \
             {max})"
        ));
    }
    Ok(())
}

fn set_table_option(options: &mut TableOptions, name: &str, written: &PropertyValue) -> Result<()> {
    let mut value = value(written);
    match &mut value {
        OptionValue::Map(entries) => complete(name, entries)?,
        OptionValue::Text(text) => check(name, text)?,
    }
    options.set(name, value).map_err(|error| match error {
        // For Cassandra, mistakes after WITH are syntax errors.
        SchemaError::Invalid(message) => ErrorResponse::syntax(message),
        error => of_schema(error),
    })
}

/// Completes the entries of an option that is a map as Cassandra does, for example with defaults
/// and full names of classes, and rejects the entries that Cassandra rejects.
fn complete(option: &str, entries: &mut Entries) -> Result<()> {
    match option {
        "compaction" => compaction::complete(entries),
        "compression" => {
            *entries = compression(std::mem::take(entries))?;
            Ok(())
        }
        "caching" => caching(entries),
        _ => Ok(()),
    }
}

/// Rejects the values that Cassandra rejects although they have the right form for the option. The
/// schema accepts them, because tables of earlier versions have them.
fn check(option: &str, text: &str) -> Result<()> {
    match option {
        "additional_write_policy" | "speculative_retry" => retry_policy(text),
        // In Cassandra a table may use any configuration of the file cassandra.yaml. ebb has no such file,
        // and only the default.
        "memtable" if text != "default" => {
            config(format!("Memtable configuration \"{text}\" not found."))
        }
        "read_repair" if !is_one_of(text, &["BLOCKING", "NONE"]) => {
            Err(invalid_value(option, text))
        }
        "bloom_filter_fp_chance" => match text.parse::<f64>() {
            Ok(chance) if chance <= BLOOM_CHANCE_BOUND || chance > 1.0 => config(format!(
                "{option} must be larger than {BLOOM_CHANCE_BOUND:E} and less than or equal \
                 to 1.0 (got {text})"
            )),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

fn invalid_value(option: &str, text: &str) -> ErrorResponse {
    ErrorResponse::config(format!("Invalid value {text} for option '{option}'"))
}

/// Checks the entries of `caching`, with the errors of Cassandra's `CachingParams.fromMap`.
fn caching(entries: &Entries) -> Result<()> {
    let is_word = |text: &str| is_one_of(text, &["ALL", "NONE"]);
    let mut others = Vec::new();
    for (name, text) in entries {
        match name.as_str() {
            "keys" if !is_word(text) => {
                return config(format!(
                    "Invalid value '{text}' for caching sub-option '{name}': only 'ALL' and \
                     'NONE' are allowed"
                ));
            }
            "rows_per_partition" if !is_word(text) && digits(text).is_none() => {
                return config(format!(
                    "Invalid value '{text}' for caching sub-option '{name}': only 'ALL', 'NONE', \
                     and integer values are allowed"
                ));
            }
            "keys" | "rows_per_partition" => {}
            other => others.push(other),
        }
    }
    if others.is_empty() {
        Ok(())
    } else {
        config(format!(
            "Invalid caching sub-options [{}]: only 'keys' and 'rows_per_partition' are allowed",
            others.join(", ")
        ))
    }
}

/// Checks a policy for repeated requests: a word, a percentile such as `99p`, a time such as
/// `10ms`, or both as in `MIN(99p, 10ms)`. The errors are those of Cassandra's
/// `SpeculativeRetryPolicy`, which name `speculative_retry` also for `additional_write_policy`.
fn retry_policy(text: &str) -> Result<()> {
    if is_one_of(text, &["ALWAYS", "NEVER", "NONE"]) {
        return Ok(());
    }
    let Some((first, second)) = two_thresholds(text) else {
        threshold(text)?;
        return Ok(());
    };
    match (threshold(first), threshold(second)) {
        (Ok(first), Ok(second)) if first == second => config(format!(
            "Invalid value {text} for option 'speculative_retry': MIN()/MAX() arguments should be \
             of different types, but both are of type {first}"
        )),
        (Ok(_), Ok(_)) => Ok(()),
        _ => Err(invalid_value("speculative_retry", text)),
    }
}

/// Returns the two arguments of a text such as `MIN(99p, 10ms)`; `None` for a text of another form.
fn two_thresholds(text: &str) -> Option<(&str, &str)> {
    let (function, rest) = text.split_once('(')?;
    let (first, second) = rest.strip_suffix(')')?.split_once(',')?;
    is_one_of(function, &["MIN", "MAX"])
        .then(|| (first.trim_ascii_end(), second.trim_ascii_start()))
}

/// Checks a threshold such as `99p` or `10ms`, and returns Cassandra's name of its type.
fn threshold(text: &str) -> Result<&'static str> {
    let invalid = || invalid_value("speculative_retry", text);
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(unit_at.unwrap_or(text.len()));
    let number: f64 = number.parse().map_err(|_| invalid())?;
    if unit.eq_ignore_ascii_case("ms") {
        Ok("FIXED")
    } else if !is_one_of(unit, &["p", "percentile"]) {
        Err(invalid())
    } else if number > 0.0 && number < 100.0 {
        Ok("PERCENTILE")
    } else {
        config(format!(
            "Invalid value {text} for PERCENTILE option 'speculative_retry': must be between (0.0 \
             and 100.0)"
        ))
    }
}

/// The options of some of Cassandra's compressors, beyond those that all have. They are accepted for
/// any compressor: ebb chooses a compressor by its class alone.
const COMPRESSOR_OPTIONS: [&str; 4] = [
    "compression_level",
    "crc_check_chance",
    "lz4_compressor_type",
    "lz4_high_compressor_level",
];

/// Cassandra's own compressors.
const COMPRESSORS: [&str; 5] = [
    "DeflateCompressor",
    "LZ4Compressor",
    "NoopCompressor",
    "SnappyCompressor",
    "ZstdCompressor",
];

/// Checks the options of compression, with the errors of Cassandra's `CompressionParams.fromMap`, and
/// returns them under their present names: `sstable_compression` and `chunk_length_kb` are deprecated
/// names of `class` and `chunk_length_in_kb`. The errors for numbers that cannot be parsed also name the
/// text. Of several errors Cassandra may return another one: it looks for unknown options before it
/// compares numbers with their limits. Only `class` and `enabled` have an effect in ebb. The other
/// options are checked and stored because tools send them.
fn compression(mut given: Entries) -> Result<Entries> {
    let disabled = || Entries::from([("enabled".to_string(), "false".to_string())]);
    // As in Cassandra, this one is a syntax error, and its message ends with a quote.
    if let Some(text) = given.get("crc_check_chance")
        && text.parse::<f64>().is_err()
    {
        return Err(ErrorResponse::syntax(format!(
            "Invalid double value {text} for crc_check_chance.'"
        )));
    }
    // As in Cassandra, an empty map turns compression off.
    if given.is_empty() {
        return Ok(disabled());
    }
    // As in Cassandra, any text but `true` means false.
    let is_enabled = given
        .remove("enabled")
        .is_none_or(|text| text.eq_ignore_ascii_case("true"));
    if !is_enabled {
        return if given.is_empty() {
            Ok(disabled())
        } else {
            config("If the 'enabled' option is set to false no other options must be specified")
        };
    }
    let class = match (given.remove("class"), given.remove("sstable_compression")) {
        (Some(_), Some(_)) => {
            return config(
                "The 'sstable_compression' option must not be used if the compression algorithm is \
                 already specified by the 'class' option",
            );
        }
        (Some(class), None) if class.is_empty() => {
            return config(
                "The 'class' option must not be empty. To disable compression use 'enabled' : \
                 false",
            );
        }
        (Some(class), None) | (None, Some(class)) => class,
        (None, None) => return config("Missing sub-option 'class' for the 'compression' option."),
    };
    let chunk = match (
        given.remove("chunk_length_in_kb"),
        given.remove("chunk_length_kb"),
    ) {
        (Some(_), Some(_)) => {
            return config(
                "The 'chunk_length_kb' option must not be used if the chunk length is already \
                 specified by the 'chunk_length_in_kb' option",
            );
        }
        (Some(chunk), None) | (None, Some(chunk)) => chunk,
        // Cassandra's default.
        (None, None) => "16".to_string(),
    };
    let chunk = match chunk.parse::<i32>() {
        Err(_) => return config(format!("Invalid value for chunk_length_in_kb: {chunk}")),
        // Cassandra counts the bytes of a chunk with an `int`.
        Ok(kib) if kib > i32::MAX / 1024 => {
            return config(format!("Value of chunk_length_in_kb is too large ({kib})"));
        }
        Ok(..=0) => return config("Invalid negative or null chunk_length_in_kb"),
        // Cassandra relies on this when it computes the number of a chunk from an offset.
        Ok(kib) if !(kib as u32).is_power_of_two() => {
            return config("chunk_length_in_kb must be a power of 2");
        }
        Ok(kib) => kib.to_string(),
    };
    let ratio = given
        .remove("min_compress_ratio")
        .unwrap_or_else(|| "0".to_string());
    let ratio = match ratio.parse::<f64>() {
        Err(_) => return config(format!("Invalid value for min_compress_ratio: {ratio}")),
        Ok(ratio) if ratio < 0.0 => return config("Invalid negative min_compress_ratio"),
        Ok(ratio) if ratio > 0.0 && ratio < 1.0 => {
            return config("min_compress_ratio can either be 0 or greater than or equal to 1");
        }
        Ok(ratio) => ratio,
    };
    // An empty `sstable_compression` turns compression off; an empty `class` was rejected above.
    let class = if class.is_empty() {
        None
    } else {
        let unknown = |full: &str| format!("Could not create Compression for type {full}");
        Some(full_class("io.compress", &COMPRESSORS, &class, unknown)?)
    };
    let unknown: Vec<&str> = given
        .keys()
        .map(String::as_str)
        .filter(|option| !COMPRESSOR_OPTIONS.contains(option))
        .collect();
    if !unknown.is_empty() {
        return config(format!(
            "Unknown compression options {}",
            unknown.join(", ")
        ));
    }
    // Without a compressor the other options do not matter.
    let Some(class) = class else {
        return Ok(disabled());
    };
    given.insert("class".to_string(), class);
    given.insert("chunk_length_in_kb".to_string(), chunk);
    // 0 is the default, and is left out. Cassandra shows 2.0, as `{:?}` prints it, and not 2.
    if ratio > 0.0 {
        given.insert("min_compress_ratio".to_string(), format!("{ratio:?}"));
    }
    Ok(given)
}
