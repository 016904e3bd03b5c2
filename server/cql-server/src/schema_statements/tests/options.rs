//! The options of a table: those that Cassandra accepts are accepted, and the others rejected.

use ebb_test_support::cases::parse_cases;

use super::{CONFIG, code_of};
use crate::testing::Session;

#[test]
fn compression_and_compaction_accept_cassandras_options_only() {
    let mut session = Session::with_table();
    let cases = "
        {'class': 'SnappyCompressor', 'min_compress_ratio': 2}
        => {'chunk_length_in_kb': '16', 'class': \
           'org.apache.cassandra.io.compress.SnappyCompressor', 'min_compress_ratio': '2.0'}
        {'sstable_compression': 'LZ4Compressor', 'chunk_length_kb': 32, 'enabled': true}
        => {'chunk_length_in_kb': '32', 'class': 'org.apache.cassandra.io.compress.LZ4Compressor'}
        {'class': 'org.example.Compressor'}
        => {'chunk_length_in_kb': '16', 'class': 'org.example.Compressor'}
        {'enabled': 'false'} => {'enabled': 'false'}
        {'sstable_compression': ''} => {'enabled': 'false'}
    ";
    for (at, [written, shown]) in parse_cases(cases).into_iter().enumerate() {
        session.run(&format!(
            "CREATE TABLE app.c{at} (k int PRIMARY KEY) WITH compression = {written}"
        ));
        let state = session.state();
        let text = state
            .table("app", &format!("c{at}"))
            .unwrap()
            .schema()
            .describe(false);
        assert!(text.contains(shown), "{shown} in {text}");
    }
    let cases = "
        compaction = {'min_threshold': 4} => Missing sub-option 'class' for the 'compaction' option
        compression = {'chunk_length_in_kb': 32}
        => Missing sub-option 'class' for the 'compression' option.
        compression = {'enabled': false, 'class': 'LZ4Compressor'}
        => If the 'enabled' option is set to false no other options must be specified
        compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 31}
        => chunk_length_in_kb must be a power of 2
        compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 2097152}
        => Value of chunk_length_in_kb is too large (2097152)
        compression = {'class': 'LZ4Compressor', 'min_compress_ratio': -1}
        => Invalid negative min_compress_ratio
        compression = {'class': 'LZ4Compressor', 'other': 1} => Unknown compression options other
        compaction = {'class': 'LeveledStrategy'}
        => Unable to find compaction strategy class \
           'org.apache.cassandra.db.compaction.LeveledStrategy'
        compression = {'class': 'ZstdCompresor'}
        => Could not create Compression for type org.apache.cassandra.io.compress.ZstdCompresor
    ";
    for [option, message] in parse_cases(cases) {
        let text = format!("CREATE TABLE app.x (k int PRIMARY KEY) WITH {option}");
        let refused = (CONFIG, message.to_string());
        assert_eq!(session.refused(&text), refused, "{text}");
    }
}

#[test]
fn options_without_an_effect_are_checked_as_in_cassandra() {
    let mut session = Session::with_table();
    for option in [
        "speculative_retry = 'never'",
        "speculative_retry = '99.5PERCENTILE'",
        "speculative_retry = '.5ms'",
        "additional_write_policy = 'max(10ms , 99p)'",
        "read_repair = 'none'",
        "caching = {'keys': 'none', 'rows_per_partition': 10}",
        "caching = {}",
        "bloom_filter_fp_chance = 6.72e-5",
        "bloom_filter_fp_chance = 1",
        "compaction = {'class': 'org.example.Strategy'}",
    ] {
        session.run(&format!("ALTER TABLE app.t WITH {option}"));
    }
    let cases = "
        speculative_retry = '' => Invalid value  for option 'speculative_retry'
        speculative_retry = '99' => Invalid value 99 for option 'speculative_retry'
        speculative_retry = '1.2.3ms' => Invalid value 1.2.3ms for option 'speculative_retry'
        additional_write_policy = 'sometimes'
        => Invalid value sometimes for option 'speculative_retry'
        speculative_retry = '100p'
        => Invalid value 100p for PERCENTILE option 'speculative_retry': must be between (0.0 and \
           100.0)
        speculative_retry = 'MIN(100p,10ms)'
        => Invalid value MIN(100p,10ms) for option 'speculative_retry'
        speculative_retry = 'AVG(99p,10ms)'
        => Invalid value AVG(99p,10ms) for option 'speculative_retry'
        speculative_retry = 'MIN(1ms,10ms)'
        => Invalid value MIN(1ms,10ms) for option 'speculative_retry': MIN()/MAX() arguments \
           should be of different types, but both are of type FIXED
        read_repair = 'ASYNC' => Invalid value ASYNC for option 'read_repair'
        caching = {'keys': 'SOME'}
        => Invalid value 'SOME' for caching sub-option 'keys': only 'ALL' and 'NONE' are allowed
        caching = {'rows_per_partition': -1}
        => Invalid value '-1' for caching sub-option 'rows_per_partition': only 'ALL', 'NONE', and \
           integer values are allowed
        caching = {'keys': 'ALL', 'rows': 1, 'x': 2}
        => Invalid caching sub-options [rows, x]: only 'keys' and 'rows_per_partition' are allowed
        bloom_filter_fp_chance = 0
        => bloom_filter_fp_chance must be larger than 6.71E-5 and less than or equal to 1.0 (got 0)
        bloom_filter_fp_chance = 1.5
        => bloom_filter_fp_chance must be larger than 6.71E-5 and less than or equal to 1.0 (got \
           1.5)
    ";
    for [option, message] in parse_cases(cases) {
        let text = format!("ALTER TABLE app.t WITH {option}");
        let refused = (CONFIG, message.to_string());
        assert_eq!(session.refused(&text), refused, "{text}");
    }
}

/// Regression: any entry of `compaction` was stored, and shown by DESCRIBE, whose statement Cassandra
/// then refused.
#[test]
fn strategies_of_compaction_have_cassandras_options_only() {
    let mut session = Session::with_table();
    for entries in [
        "'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': 160, 'fanout_size': 10, \
         'min_threshold': 5, 'single_sstable_uplevel': false",
        "'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'HOURS', \
         'compaction_window_size': 6, 'bucket_low': 0.6, 'enabled': false",
        "'class': 'SizeTieredCompactionStrategy', 'tombstone_threshold': '0.2', \
         'min_sstable_size': 0, 'only_purge_repaired_tombstones': 'TRUE', \
         'provide_overlapping_tombstones': 'row'",
        "'class': 'DateTieredCompactionStrategy', 'max_sstable_age_days': 0.5, \
         'timestamp_resolution': 'DAYS', 'max_threshold': 4",
        "'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'T4'",
        "'class': 'org.example.Strategy', 'other': 1",
    ] {
        session.run(&format!(
            "ALTER TABLE app.t WITH compaction = {{{entries}}}"
        ));
    }
    // The wording is Cassandra's, even where it is inexact: an option whose values are fractions must
    // be an `int`, and one whose least value is 1 must be greater than 1.
    let cases = "
        SizeTiered => 'tombstone_treshold': 0.1, 'x': 1
        => Properties specified [tombstone_treshold, x] are not understood by \
           SizeTieredCompactionStrategy
        Leveled => 'compaction_window_size': 4
        => Properties specified [compaction_window_size] are not understood by \
           LeveledCompactionStrategy
        SizeTiered => 'tombstone_threshold': -0.4
        => tombstone_threshold must be greater than 0, but was -0.400000
        SizeTiered => 'tombstone_threshold': 'half'
        => half is not a parsable int (base10) for tombstone_threshold
        Leveled => 'tombstone_compaction_interval': -7
        => tombstone_compaction_interval must be greater than 0, but was -7
        Leveled => 'unchecked_tombstone_compaction': 'maybe'
        => 'unchecked_tombstone_compaction' should be either 'true' or 'false', not 'maybe'
        TimeWindow => 'enabled': 'certainly'
        => enabled should either be 'true' or 'false', not certainly
        TimeWindow => 'log_all': 2 => 'log_all' should either be 'true' or 'false', not 2
        TimeWindow => 'provide_overlapping_tombstones': 'ALL'
        => Invalid value ALL for 'provide_overlapping_tombstones' compaction sub-option - must be \
           one of the following [NONE, ROW, CELL].
        SizeTiered => 'min_sstable_size': -1 => min_sstable_size must be non negative: -1
        TimeWindow => 'bucket_low': 1.5
        => Bucket high value (1.5) is less than or equal bucket low value (1.5)
        TimeWindow => 'bucket_high': 'x' => x is not a parsable int (base10) for bucket_high
        Leveled => 'sstable_size_in_mb': -5 => sstable_size_in_mb must be larger than 0, but was -5
        Leveled => 'fanout_size': 2147483648
        => 2147483648 is not a parsable int (base10) for fanout_size
        TimeWindow => 'compaction_window_unit': 'SECONDS'
        => SECONDS is not valid for compaction_window_unit
        TimeWindow => 'timestamp_resolution': 'seconds'
        => seconds is not valid for timestamp_resolution
        TimeWindow => 'compaction_window_size': -8
        => -8 must be greater than 1 for compaction_window_size
        TimeWindow => 'expired_sstable_check_frequency_seconds': -1
        => expired_sstable_check_frequency_seconds must not be negative, but was -1
        TimeWindow => 'unsafe_aggressive_sstable_expiration': 'no'
        => unsafe_aggressive_sstable_expiration is not 'true' or 'false' (no)
        DateTiered => 'base_time_seconds': 0 => base_time_seconds must be greater than 0, but was 0
        DateTiered => 'max_sstable_age_days': -0.5
        => max_sstable_age_days must be non-negative: -0.50
        DateTiered => 'timestamp_resolution': 'WEEKS' => timestamp_resolution WEEKS is not valid
        SizeTiered => 'min_threshold': '+4'
        => Invalid value +4 for 'min_threshold' compaction sub-option - must be an integer
        SizeTiered => 'max_threshold': 0
        => Disabling compaction by setting compaction thresholds to 0 has been removed, set the \
           compaction option 'enabled' to false instead.
        SizeTiered => 'min_threshold': 1 => Min compaction threshold cannot be less than 2 (got 1)
        Leveled => 'max_threshold': 3
        => Min compaction threshold (got 4) cannot be greater than max compaction threshold (got 3)
    ";
    for [strategy, entry, message] in parse_cases(cases) {
        let text = format!(
            "ALTER TABLE app.t WITH compaction = {{'class': '{strategy}CompactionStrategy', \
             {entry}}}"
        );
        let refused = (CONFIG, message.to_string());
        assert_eq!(session.refused(&text), refused, "{text}");
    }
}

#[test]
fn the_maximal_index_interval_is_not_less_than_the_minimal_one() {
    let mut session = Session::with_table();
    session.run("ALTER TABLE app.t WITH max_index_interval = 128");
    let cases = "
        max_index_interval = 127
        => max_index_interval must be greater than or equal to min_index_interval (128) (got 127)
        min_index_interval = 256
        => max_index_interval must be greater than or equal to min_index_interval (256) (got 128)
    ";
    for [options, message] in parse_cases(cases) {
        let text = format!("ALTER TABLE app.t WITH {options}");
        let refused = (CONFIG, message.to_string());
        assert_eq!(session.refused(&text), refused, "{text}");
    }
    session.run("ALTER TABLE app.t WITH min_index_interval = 256 AND max_index_interval = 256");
}

/// Regression: any text was accepted as the name of a memtable configuration and as the
/// `crc_check_chance` of `compression`.
#[test]
fn unknown_memtables_and_values_of_another_kind_are_refused_as_in_cassandra() {
    let mut session = Session::with_table();
    let cases = "
        memtable = 'unknown' => CONFIG => Memtable configuration \"unknown\" not found.
        memtable = '' => CONFIG => Memtable configuration \"\" not found.
        crc_check_chance = 'abc' => SYNTAX => Invalid double value abc for 'crc_check_chance'
        compression = {'class': 'LZ4Compressor', 'crc_check_chance': 'abc'} => SYNTAX
        => Invalid double value abc for crc_check_chance.'
        comment = {'a': 'b'} => SYNTAX
        => Invalid value for property 'comment'. It should be a string
    ";
    for [option, code, message] in parse_cases(cases) {
        for text in [
            format!("ALTER TABLE app.t WITH {option}"),
            format!("CREATE TABLE app.u (k int PRIMARY KEY) WITH {option}"),
        ] {
            let refused = session.refused(&text);
            assert_eq!(refused, (code_of(code), message.to_string()), "{text}");
        }
    }
    session.run("ALTER TABLE app.t WITH memtable = 'default'");
    session.run("CREATE TABLE app.u (k int PRIMARY KEY) WITH memtable = default");
}
