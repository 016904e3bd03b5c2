//! Floors, most of them those of Cassandra's `DurationTest`.

use ebb_test_support::cases::parse_cases;
use ebb_test_support::seed::for_seeds;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::executor::harness::Server;

/// Parses a timestamp in UTC, and returns it in milliseconds since 1970.
fn ms(text: &str) -> i64 {
    let bytes = CqlType::Timestamp.parse_value(&format!("{text}Z")).unwrap();
    i64::from_be_bytes(bytes.try_into().unwrap())
}

fn duration(text: &str) -> Duration {
    Duration::parse(text).unwrap()
}

/// Asserts that `floor` returns the results in a table. Each line has a time, a duration, a start
/// and the floor.
#[track_caller]
fn assert_floors(table: &str) {
    for line in table.lines() {
        let [time, size, start, floor] = line.split(", ").collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let found = floor_ms(ms(time), duration(size), ms(start)).unwrap();
        assert_eq!(found, ms(floor), "{line}");
    }
}

#[test]
fn timestamps_are_rounded_down_as_in_cassandra() {
    assert_floors(
        "2016-09-27 16:12:00, 2h, 2016-09-27 16:12:00, 2016-09-27 16:12:00
2016-09-27 18:12:00, 0h, 2016-09-27 16:12:00, 2016-09-27 18:12:00
2016-09-27 18:12:00, 2h, 2016-09-27 16:12:00, 2016-09-27 18:12:00
2016-09-27 16:13:00, 2h, 2016-09-27 16:12:00, 2016-09-27 16:12:00
2016-09-27 16:12:00, 2h, 2016-09-27 00:00:00, 2016-09-27 16:00:00
2016-09-27 16:12:00, 2d, 2016-09-01 00:00:00, 2016-09-27 00:00:00
2016-09-27 16:12:00, 2d, 2016-08-01 00:00:00, 2016-09-26 00:00:00
2016-09-27 16:12:00, 2d12h, 2016-09-01 00:00:00, 2016-09-26 00:00:00
2016-09-01 00:00:00, 2mo, 2016-09-01 00:00:00, 2016-09-01 00:00:00
2016-09-27 16:12:00, 2mo, 2016-09-01 00:00:00, 2016-09-01 00:00:00
2016-09-27 16:12:00, 1mo, 2016-01-01 00:00:00, 2016-09-01 00:00:00
2016-09-27 16:12:00, 2mo, 2015-01-01 00:00:00, 2016-09-01 00:00:00
2016-09-27 16:12:00, 2mo, 2015-02-02 00:00:00, 2016-08-02 00:00:00
2016-09-27 16:12:00, 2mo2d, 2016-01-01 00:00:00, 2016-09-09 00:00:00
2016-09-27 16:12:00, 2mo5d, 2016-01-01 00:00:00, 2016-09-21 00:00:00
2016-09-04 16:12:00, 2mo5d, 2016-07-01 00:00:00, 2016-07-01 00:00:00
2016-09-27 16:12:00, 2mo10d, 2016-01-01 00:00:00, 2016-07-31 00:00:00
2016-09-27 16:12:00, 2mo12d, 2016-01-01 00:00:00, 2016-08-06 00:00:00
2016-04-27 16:12:00, 1mo30d, 2016-01-01 00:00:00, 2016-03-02 00:00:00
2015-04-27 16:12:00, 1mo30d, 2015-01-01 00:00:00, 2015-03-03 00:00:00
2016-09-27 18:14:00, 5us, 2016-09-27 16:12:00, 2016-09-27 18:14:00
2016-09-27 18:14:00, 1h5us, 2016-09-27 16:12:00, 2016-09-27 18:12:00
2016-07-02 00:00:00, 2m, 2016-06-30 23:58:00, 2016-07-02 00:00:00
2016-07-02 00:00:00, 2mo2d8h, 2016-01-01 00:00:00, 2016-05-05 16:00:00",
    );
}

/// The expected floors are computed by hand from Cassandra's `Duration.floorTimestamp`. The first
/// two floors are later than their times. The third goes from April 30th back to March 30th, and
/// not to March 31st.
#[test]
fn months_that_lack_the_day_of_the_start_have_cassandras_floors() {
    assert_floors(
        "2016-08-01 00:00:00, 2mo, 2015-02-02 00:00:00, 2016-08-02 00:00:00
2016-02-15 00:00:00, 1mo, 2016-01-31 00:00:00, 2016-02-29 00:00:00
2016-04-20 00:00:00, 1mo10d, 2016-01-31 00:00:00, 2016-04-19 00:00:00
2016-03-20 00:00:00, 1mo10d, 2016-01-31 00:00:00, 2016-03-10 00:00:00",
    );
}

#[test]
fn a_floor_is_the_greatest_multiple_that_is_not_after_the_time() {
    for_seeds(
        "a_floor_is_the_greatest_multiple_that_is_not_after_the_time",
        20,
        |seed| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            for _ in 0..200 {
                let months = rng.random_range(0..30);
                let size = Duration {
                    months,
                    days: rng.random_range(0..40),
                    // A step of zero has no multiples.
                    nanos: rng.random_range(1..100_000_000) * NANOS_PER_MS,
                };
                // Without days that a month lacks.
                let start_day =
                    add_months(0, rng.random_range(-600..600)) + rng.random_range(0..28);
                let start = start_day * MS_PER_DAY + rng.random_range(0..MS_PER_DAY);
                let time = start + rng.random_range(0..100 * 366 * MS_PER_DAY);
                let rest = i64::from(size.days) * MS_PER_DAY + size.nanos / NANOS_PER_MS;
                let multiple = |count: i64| {
                    let day = add_months(start_day, count * i64::from(months));
                    day * MS_PER_DAY + start.rem_euclid(MS_PER_DAY) + count * rest
                };
                let floor = if months == 0 {
                    start + (time - start) / rest * rest
                } else {
                    let later = (0..).find(|&count| multiple(count) > time).unwrap();
                    multiple(later - 1)
                };
                assert_eq!(floor_ms(time, size, start).unwrap(), floor, "{size}");
            }
        },
    );
}

#[test]
fn the_ends_of_the_range_do_not_overflow() {
    let floor = |time, size: &str, start| floor_ms(time, duration(size), start);
    assert_eq!(floor(i64::MAX, "1ms", i64::MIN).unwrap(), i64::MAX);
    // The ends are 2^64 - 1 milliseconds apart, 15 more than a multiple of 100.
    assert_eq!(floor(i64::MAX, "100ms", i64::MIN).unwrap(), i64::MAX - 15);
    assert!(floor(i64::MAX, "1mo", i64::MIN).is_ok());
    let late_in_its_month = ms("2016-01-31 23:59:59");
    let message = floor(i64::MAX, "1mo", late_in_its_month)
        .unwrap_err()
        .message;
    assert!(
        message.starts_with("The floor is out of range"),
        "{message}"
    );
    let longest = Duration {
        months: i32::MAX,
        days: i32::MAX,
        nanos: i64::MAX,
    };
    assert!(floor_ms(i64::MAX, longest, 0).is_ok());
    assert_eq!(floor_ms(ms("2016-01-31 23:59:59"), longest, 0).unwrap(), 0);
    assert_eq!(floor_ms(i64::MIN, longest, i64::MIN).unwrap(), i64::MIN);
}

#[test]
fn invalid_arguments_get_cassandras_errors() {
    let refusal = |time: &str, size: &str, start: &str| {
        let floor = floor_ms(ms(time), duration(size), ms(start));
        floor.unwrap_err().message
    };
    assert_eq!(
        refusal("2016-09-27 16:12:00", "2h", "2017-09-01 00:00:00"),
        "The floor function starting time is greater than the provided time"
    );
    let negative = "Negative durations are not supported by the floor function";
    for size in ["-2h", "-1d", "-1mo"] {
        let message = refusal("2016-09-27 16:12:00", size, "2016-09-27 00:00:00");
        assert_eq!(message, negative, "{size}");
    }
    let hour_ns = 3_600_000_000_000;
    let of_day = |size: &str| floor_of_day_ns(16 * hour_ns + 1, duration(size));
    assert_eq!(of_day("2h").unwrap(), 16 * hour_ns);
    assert_eq!(of_day("0h").unwrap(), 16 * hour_ns + 1);
    assert_eq!(of_day("24h").unwrap(), 0);
    for size in ["2d", "25h", "1mo"] {
        assert_eq!(
            of_day(size).unwrap_err().message,
            "For time values, the floor can only be computed for durations smaller that a day",
            "{size}"
        );
    }
    assert_eq!(of_day("-2h").unwrap_err().message, negative);
}

#[test]
fn each_type_of_time_has_a_floor() {
    let mut server = Server::with(&[
        "CREATE TABLE t (k int PRIMARY KEY, w timestamp, u timeuuid, d date, o time, s timestamp)",
        "INSERT INTO t (k, w, u, d, o, s) VALUES (1, '2016-09-27 16:12:00Z', \
         minTimeuuid('2016-09-27 16:12:00Z'), '2016-09-27', '16:12:00', '2016-09-27 00:30:00Z')",
        "INSERT INTO t (k, w) VALUES (2, '1969-12-31 23:59:59Z')",
    ]);
    let cases = [
        ("floor(w, 2h)", "2016-09-27 16:00:00.000Z"),
        ("floor(w, 2h, s)", "2016-09-27 14:30:00.000Z"),
        (
            "floor(w, 2h, '2016-09-27 00:30:00Z')",
            "2016-09-27 14:30:00.000Z",
        ),
        ("floor(u, 2h)", "2016-09-27 16:00:00.000Z"),
        ("floor(u, 2h, s)", "2016-09-27 14:30:00.000Z"),
        ("floor(toDate(w), 1mo)", "2016-09-01"),
        ("floor(d, 1mo)", "2016-09-01"),
        ("floor(d, 1w, '2016-09-26')", "2016-09-26"),
        ("floor(o, 1h)", "16:00:00.000000000"),
        ("floor(w, null)", "null"),
        ("floor(w, 1h, null)", "null"),
        ("floor(null, 1h)", "null"),
    ];
    for (call, floor) in cases {
        let select = format!("SELECT {call} FROM t WHERE k = 1");
        assert_eq!(server.rows(&select), floor, "{call}");
    }
    for call in [
        "floor(u, 1h)",
        "floor(d, 1d)",
        "floor(o, 1h)",
        "floor(w, 1h, s)",
    ] {
        let select = format!("SELECT {call} FROM t WHERE k = 2");
        assert_eq!(server.rows(&select), "null", "{call}");
    }
    let refused = "
        floor(w, 10us)
        => The floor cannot be computed for the 10us duration as precision is below 1 millisecond
        floor(d, 1h)
        => The floor on date values cannot be computed for the 1h duration as precision is below 1 \
           day
        floor(d, 1mo, '2017-01-01')
        => The floor function starting time is greater than the provided time
        floor(k, 1h)
        => Invalid call to function floor, none of its type signatures match (known type \
           signatures: system.floor : (timestamp, duration) -> timestamp, system.floor : \
           (timestamp, duration, timestamp) -> timestamp, system.floor : (timeuuid, duration) -> \
           timestamp, system.floor : (timeuuid, duration, timestamp) -> timestamp, system.floor : \
           (date, duration) -> date, system.floor : (date, duration, date) -> date, system.floor : \
           (time, duration) -> time)
    ";
    for [call, message] in parse_cases(refused) {
        let select = format!("SELECT {call} FROM t WHERE k = 1");
        assert_eq!(server.refused(&select), message, "{call}");
    }
    let steps = "
        // Before 1970 there is no floor without a start.
        SELECT floor(w, 1h) FROM t WHERE k = 2
        => The floor function starting time is greater than the provided time
        SELECT floor(w, 1h, '1960-01-01') FROM t WHERE k = 2 => 1969-12-31 23:00:00.000Z
    ";
    server.check(steps);
}

/// The literal start '2016-01-01' may be a timestamp or a date, so the type of the nested call alone
/// decides which of the functions `floor` is meant.
#[test]
fn the_type_of_a_nested_call_chooses_the_function() {
    let mut server = Server::with(&[
        "CREATE TABLE t (k int PRIMARY KEY, w timestamp, d date, o time)",
        "INSERT INTO t (k, w, d, o) VALUES (1, floor(currentTimestamp(), 1h, '2016-01-01'), \
         floor(currentDate(), 1mo, '2016-01-01'), floor(currentTime(), 1h))",
        "INSERT INTO t (k, d) VALUES (2, floor(floor(currentDate(), 1mo), 1y))",
    ]);
    assert_eq!(
        server.rows("SELECT w, d, o FROM t WHERE k = 1"),
        "2023-11-14 22:00:00.000Z 2023-11-01 22:00:00.000000000"
    );
    assert_eq!(server.rows("SELECT d FROM t WHERE k = 2"), "2023-01-01");
}
