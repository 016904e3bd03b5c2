//! The entries of `compaction`: a strategy of Cassandra's, and the options that it understands.
//!
//! ebb merges in its own way, and no entry has an effect. They are checked nevertheless: otherwise a
//! misspelled option would come to light only when the described table is created in Cassandra.
//!
//! The checks and errors are those of the methods `validateOptions` of Cassandra's strategies. Where
//! these name another option, or its default, than the one with the mistake, the error here names the
//! right one. Of several errors Cassandra may return another one.

use ebb_cql::protocol::ErrorResponse;

use super::entries::{Entries, digits, full_class, is_one_of};
use crate::error::{Result, config};

/// Cassandra's compaction strategies, those of Cassandra 5.0 included.
const STRATEGIES: [&str; 5] = [
    "DateTieredCompactionStrategy",
    "LeveledCompactionStrategy",
    "SizeTieredCompactionStrategy",
    "TimeWindowCompactionStrategy",
    "UnifiedCompactionStrategy",
];

/// The options that Cassandra 4.1 adds to every strategy if they are not given, and their defaults.
const THRESHOLDS: [(&str, &str); 2] = [("max_threshold", "32"), ("min_threshold", "4")];

/// The values that an option takes, and the error for others. In the error, `$` stands for the
/// value.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Any value. Some of these options are checked later, together with other options.
    Any,
    /// One of these words, in upper or lower case, and the error for other values.
    Word(&'static [&'static str], &'static str),
    /// One of these units of time, in upper case, and the error for other values.
    Unit(&'static [&'static str], &'static str),
    /// An integer between two bounds, both included, and the error for a smaller integer.
    Integer(i64, i64, &'static str),
    /// A number that is not negative, and the error for a negative one. The first member is the
    /// number of digits after the point with which the error shows the number.
    NotNegative(usize, &'static str),
}

type Options = &'static [(&'static str, Kind)];

const BOOLEAN: &[&str] = &["true", "false"];
const INT_MAX: i64 = i32::MAX as i64;
const LONG_MAX: i64 = i64::MAX;

/// The options of every strategy.
const COMMON: Options = &[
    (
        "enabled",
        Kind::Word(BOOLEAN, "enabled should either be 'true' or 'false', not $"),
    ),
    (
        "log_all",
        Kind::Word(
            BOOLEAN,
            "'log_all' should either be 'true' or 'false', not $",
        ),
    ),
    ("max_threshold", Kind::Any),
    ("min_threshold", Kind::Any),
    ("only_purge_repaired_tombstones", Kind::Any),
    (
        "provide_overlapping_tombstones",
        Kind::Word(
            &["NONE", "ROW", "CELL"],
            "Invalid value $ for 'provide_overlapping_tombstones' compaction sub-option - must be \
             one of the following [NONE, ROW, CELL].",
        ),
    ),
    (
        "tombstone_compaction_interval",
        Kind::Integer(
            0,
            LONG_MAX,
            "tombstone_compaction_interval must be greater than 0, but was $",
        ),
    ),
    (
        "tombstone_threshold",
        Kind::NotNegative(6, "tombstone_threshold must be greater than 0, but was $"),
    ),
    (
        "unchecked_tombstone_compaction",
        Kind::Word(
            BOOLEAN,
            "'unchecked_tombstone_compaction' should be either 'true' or 'false', not '$'",
        ),
    ),
];

/// The options of SizeTieredCompactionStrategy. The other strategies take them, too, because they
/// merge files of similar sizes within their levels or windows.
const SIZE_TIERED: Options = &[
    ("bucket_high", Kind::Any),
    ("bucket_low", Kind::Any),
    (
        "min_sstable_size",
        Kind::Integer(0, LONG_MAX, "min_sstable_size must be non negative: $"),
    ),
];

const LEVELED: Options = &[
    (
        "fanout_size",
        Kind::Integer(1, INT_MAX, "fanout_size must be larger than 0, but was $"),
    ),
    ("single_sstable_uplevel", Kind::Any),
    (
        "sstable_size_in_mb",
        Kind::Integer(
            1,
            INT_MAX,
            "sstable_size_in_mb must be larger than 0, but was $",
        ),
    ),
];

const CHECK_FREQUENCY: (&str, Kind) = (
    "expired_sstable_check_frequency_seconds",
    Kind::Integer(
        0,
        LONG_MAX,
        "expired_sstable_check_frequency_seconds must not be negative, but was $",
    ),
);

const TIME_WINDOW: Options = &[
    (
        "compaction_window_size",
        Kind::Integer(
            1,
            INT_MAX,
            "$ must be greater than 1 for compaction_window_size",
        ),
    ),
    (
        "compaction_window_unit",
        Kind::Unit(
            &["MINUTES", "HOURS", "DAYS"],
            "$ is not valid for compaction_window_unit",
        ),
    ),
    CHECK_FREQUENCY,
    (
        "timestamp_resolution",
        Kind::Unit(
            &["SECONDS", "MILLISECONDS", "MICROSECONDS", "NANOSECONDS"],
            "$ is not valid for timestamp_resolution",
        ),
    ),
    // Cassandra permits `true` only if a server was started with a property for it.
    (
        "unsafe_aggressive_sstable_expiration",
        Kind::Word(
            BOOLEAN,
            "unsafe_aggressive_sstable_expiration is not 'true' or 'false' ($)",
        ),
    ),
];

const DATE_TIERED: Options = &[
    (
        "base_time_seconds",
        Kind::Integer(
            1,
            LONG_MAX,
            "base_time_seconds must be greater than 0, but was $",
        ),
    ),
    CHECK_FREQUENCY,
    (
        "max_sstable_age_days",
        Kind::NotNegative(2, "max_sstable_age_days must be non-negative: $"),
    ),
    (
        "max_window_size_seconds",
        Kind::Integer(
            0,
            LONG_MAX,
            "max_window_size_seconds must not be negative, but was $",
        ),
    ),
    (
        "timestamp_resolution",
        Kind::Unit(
            &[
                "DAYS",
                "HOURS",
                "MINUTES",
                "SECONDS",
                "MILLISECONDS",
                "MICROSECONDS",
                "NANOSECONDS",
            ],
            "timestamp_resolution $ is not valid",
        ),
    ),
];

/// Completes the entries of a table's `compaction` option as Cassandra does (the full name of the
/// class, and [`THRESHOLDS`]), and rejects the entries that Cassandra rejects. The options of
/// UnifiedCompactionStrategy and of classes that are not Cassandra's are not checked.
///
/// # Errors
/// A strategy that is missing or unknown, an option that the strategy does not have, or a value that
/// the option does not take.
pub(super) fn complete(entries: &mut Entries) -> Result<()> {
    let Some(class) = entries.get_mut("class") else {
        return config("Missing sub-option 'class' for the 'compaction' option");
    };
    *class = full_class("db.compaction", &STRATEGIES, class, |full| {
        format!("Unable to find compaction strategy class '{full}'")
    })?;
    let class = class.clone();
    let own: Options = match class.strip_prefix("org.apache.cassandra.db.compaction.") {
        Some("DateTieredCompactionStrategy") => DATE_TIERED,
        Some("LeveledCompactionStrategy") => LEVELED,
        Some("SizeTieredCompactionStrategy") => &[],
        Some("TimeWindowCompactionStrategy") => TIME_WINDOW,
        // The options of other strategies are unknown here.
        _ => return Ok(()),
    };
    for (threshold, default) in THRESHOLDS {
        let entry = entries.entry(threshold.to_string());
        entry.or_insert_with(|| default.to_string());
    }
    check_each(&class, &[COMMON, SIZE_TIERED, own].concat(), entries)?;
    check_buckets(entries)?;
    check_thresholds(entries)
}

/// Checks each of the options `entries` by itself. `class` is the name of the compaction strategy,
/// and `known` are its options.
fn check_each(class: &str, known: &[(&str, Kind)], entries: &Entries) -> Result<()> {
    let mut unknown = Vec::new();
    for (name, text) in entries {
        match known.iter().find(|(option, _)| option == name) {
            Some((_, kind)) => kind.check(name, text)?,
            None if name == "class" => {}
            None => unknown.push(name.as_str()),
        }
    }
    if unknown.is_empty() {
        return Ok(());
    }
    let strategy = class.rsplit('.').next().unwrap_or(class);
    config(format!(
        "Properties specified [{}] are not understood by {strategy}",
        unknown.join(", ")
    ))
}

/// Checks `bucket_low` and `bucket_high`: the least and the greatest file size in a bucket, as
/// multiples of the average size there.
fn check_buckets(entries: &Entries) -> Result<()> {
    let number = |name: &str, default: f64| match entries.get(name) {
        Some(text) => text.parse::<f64>().map_err(|_| not_parsable(name, text)),
        None => Ok(default),
    };
    let (low, high) = (number("bucket_low", 0.5)?, number("bucket_high", 1.5)?);
    if high <= low {
        return config(format!(
            "Bucket high value ({high:?}) is less than or equal bucket low value ({low:?})"
        ));
    }
    Ok(())
}

/// Checks the least and the greatest number of files that a compaction merges.
fn check_thresholds(entries: &Entries) -> Result<()> {
    let number = |name: &str| {
        let text = entries.get(name).map_or("", String::as_str);
        digits(text).ok_or_else(|| {
            ErrorResponse::config(format!(
                "Invalid value {text} for '{name}' compaction sub-option - must be an integer"
            ))
        })
    };
    let (min, max) = (number("min_threshold")?, number("max_threshold")?);
    if min == 0 || max == 0 {
        return config(
            "Disabling compaction by setting compaction thresholds to 0 has been removed, set the \
             compaction option 'enabled' to false instead.",
        );
    }
    if min < 2 {
        return config(format!(
            "Min compaction threshold cannot be less than 2 (got {min})"
        ));
    }
    if min > max {
        return config(format!(
            "Min compaction threshold (got {min}) cannot be greater than max compaction threshold \
             (got {max})"
        ));
    }
    Ok(())
}

impl Kind {
    /// Checks the value of the option `name`.
    fn check(self, name: &str, text: &str) -> Result<()> {
        match self {
            Self::Any => Ok(()),
            Self::Word(words, _) if is_one_of(text, words) => Ok(()),
            Self::Unit(units, _) if units.contains(&text) => Ok(()),
            Self::Word(_, error) | Self::Unit(_, error) => config(error.replace('$', text)),
            Self::Integer(least, most, error) => match text.parse::<i64>() {
                Ok(value) if value < least => config(error.replace('$', &value.to_string())),
                Ok(value) if value <= most => Ok(()),
                _ => Err(not_parsable(name, text)),
            },
            Self::NotNegative(decimals, error) => match text.parse::<f64>() {
                Ok(value) if value < 0.0 => {
                    config(error.replace('$', &format!("{value:.decimals$}")))
                }
                Ok(_) => Ok(()),
                Err(_) => Err(not_parsable(name, text)),
            },
        }
    }
}

fn not_parsable(name: &str, text: &str) -> ErrorResponse {
    ErrorResponse::config(format!("{text} is not a parsable int (base10) for {name}"))
}
