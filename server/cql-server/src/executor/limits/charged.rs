//! The units of work (about a microsecond each) that statements are charged for.

use super::*;
use crate::functions::digits_units;

/// Executes a statement with the bound values `bound`, and returns the units of work (about a
/// microsecond each) that the statement was charged for.
fn units_of(server: &mut Server, text: &str, bound: &[&[u8]]) -> u64 {
    let prepared = server.prepare(text).unwrap();
    let values: Vec<_> = bound.iter().map(|value| Value::Bytes(value)).collect();
    let (ended, units) = charged(|| server.bind(&prepared, &values));
    ended.unwrap_or_else(|error| panic!("{text}: {error}"));
    units
}

/// Asserts that the second number of units is greater than the first one by at least `by`.
#[track_caller]
fn assert_costs_more(what: &str, [less, more]: [u64; 2], by: u64) {
    assert!(more >= less + by, "{what}: {less}, {more}");
}

/// Regression: DESCRIBE of one table or index computed the statements of all tables of the
/// keyspace.
#[test]
fn a_description_of_one_object_is_charged_for_no_other_object() {
    let mut server = server();
    for number in 0..40 {
        server.run(&format!("CREATE TABLE t{number} (k int PRIMARY KEY)"));
    }
    for text in ["DESCRIBE TABLE wide", "DESCRIBE INDEX found_v_idx"] {
        let units = units_of(&mut server, text, &[]);
        assert!((1..20).contains(&units), "{text}: {units}");
    }
}

/// Regression: each of a million elements was compared with each of two million values to remove.
#[test]
fn removing_values_from_a_list_takes_few_comparisons() {
    let mut server = Server::with(&["CREATE TABLE t (k int PRIMARY KEY, l list<int>)"]);
    server.run(&format!(
        "INSERT INTO t (k, l) VALUES (1, [{}])",
        numbers(2000)
    ));
    let remove = format!("UPDATE t SET l = l - [{}] WHERE k = 1", numbers(1999));
    let ((), units) = charged(|| server.run(&remove));
    assert!((20_000..100_000).contains(&units), "{units}");
    assert_eq!(server.rows("SELECT toJson(l) FROM t"), "[1999]");
}

/// The type of a nested call chooses the function around it, so the analysis of each level looks at
/// all levels inside of it. If it did so twice, each further level would double the work.
#[test]
fn the_analysis_of_nested_calls_is_quadratic_in_their_depth() {
    let server = Server::with(&["CREATE TABLE t (k int PRIMARY KEY, d date)"]);
    let levels = 90;
    let floor = |of: String, _| format!("floor({of}, 1d)");
    let nested = (0..levels).fold("currentDate()".to_owned(), floor);
    let insert = format!("INSERT INTO t (k, d) VALUES (1, {nested})");
    let (prepared, units) = charged(|| server.prepare(&insert));
    assert!(prepared.is_ok());
    assert!(units <= levels * levels, "{units}");
}

/// Regression: the analysis checked all parts of a literal again at each level of its nesting.
#[test]
fn the_parts_of_a_nested_literal_are_checked_once() {
    let (server, literal) = nested_fields(100, 20);
    let insert = format!("INSERT INTO t (k, c, u) VALUES (?, ?, {literal})");
    let (prepared, units) = charged(|| server.prepare(&insert));
    assert!(prepared.is_ok());
    assert!((120..200).contains(&units), "{units}");
}

/// Regression: selecting a field passes all fields before it, and was charged for none of them.
/// Statements with hundreds of thousands of such selectors ran past their time-outs.
#[test]
fn a_selected_field_is_charged_for_the_fields_before_it() {
    let (mut server, literal) = nested_fields(1000, 0);
    server.run(&format!("INSERT INTO t (k, c, u) VALUES (1, 1, {literal})"));
    let select =
        |field: &str| format!("SELECT {} FROM t WHERE k = 1 AND c = 1", times(1000, field));
    let of_last = units_of(&mut server, &select("u.f999"), &[]);
    assert!(of_last >= 1000 * 1000 / 512, "{of_last}");
    let of_first = units_of(&mut server, &select("u.f0"), &[]);
    assert!(of_last >= of_first + 900, "{of_last} and {of_first}");
    let prepared = server.prepare(&select("u.f999")).unwrap();
    server.interrupt = cancelled();
    let (ended, units) = charged(|| server.execute(&prepared, QueryParameters::default()));
    let error = ended.unwrap_err();
    assert!(
        matches!(error.kind, ErrorKind::ReadTimeout { .. }),
        "{error:?}"
    );
    assert!(units < 100, "{units}");
}

/// Returns a decimal whose digits take a quarter of a millisecond to write out.
fn long_decimal(scale: i32) -> Vec<u8> {
    [&scale.to_be_bytes()[..], &[7; 1000]].concat()
}

/// Regression: filters, elements and aggregates computed a power of ten for each comparison of
/// decimals with different scales, but only the time to copy the decimals counted towards the
/// statement's timeout.
#[test]
fn a_read_is_charged_for_the_power_of_ten_of_each_comparison() {
    let mut server = Server::with(&[
        "CREATE TABLE t (k int PRIMARY KEY, d decimal, l list<decimal>, s set<decimal>, \
         m map<int, decimal>, f map<decimal, int>)",
    ]);
    let (same, other) = (long_decimal(0), long_decimal(1));
    let list = elements::build([&same[..]]);
    let int = 1_i32.to_be_bytes();
    let of_ints = elements::build_map([(&int[..], &same[..])]);
    let of_decimals = elements::build_map([(&same[..], &int[..])]);
    units_of(
        &mut server,
        "INSERT INTO t (k, d, l, s, m, f) VALUES (1, ?, ?, ?, ?, ?)",
        &[&same, &list, &list, &of_ints, &of_decimals],
    );
    // The charge for a comparison between scales. Otherwise the two executions of a statement
    // hardly differ.
    let power_units = 100;
    for text in [
        "SELECT k FROM t WHERE d > ? ALLOW FILTERING",
        "SELECT k FROM t WHERE l CONTAINS ? ALLOW FILTERING",
        "SELECT k FROM t WHERE s CONTAINS ? ALLOW FILTERING",
        "SELECT k FROM t WHERE m CONTAINS ? ALLOW FILTERING",
        "SELECT k FROM t WHERE m[1] = ? ALLOW FILTERING",
        "SELECT k FROM t WHERE f CONTAINS KEY ? ALLOW FILTERING",
        "SELECT f[?] FROM t WHERE k = 1",
        "SELECT f[?..] FROM t WHERE k = 1",
    ] {
        let units = [&same, &other].map(|value| units_of(&mut server, text, &[value]));
        assert_costs_more(text, units, power_units);
    }
    let insert = "INSERT INTO t (k, d) VALUES (?, ?)";
    for (k, decimal) in [(2_i32, &same), (3, &other)] {
        units_of(&mut server, insert, &[&k.to_be_bytes(), decimal]);
    }
    for function in ["min", "max"] {
        let of = |k: i32| format!("SELECT {function}(d) FROM t WHERE k IN (1, {k})");
        let units = [2, 3].map(|k| units_of(&mut server, &of(k), &[]));
        assert_costs_more(function, units, power_units);
    }
}

/// Regression: elements and slices of collections were copied without a charge. The statements count
/// the values, so that the response is the same for long and short ones.
#[test]
fn a_copy_of_an_element_or_a_slice_is_charged_for_its_bytes() {
    let mut server = Server::with(&[
        "CREATE TABLE t (k int PRIMARY KEY, m map<int, text>, f frozen<map<int, text>>, \
         s set<text>)",
    ]);
    let (one, two) = (1_i32.to_be_bytes(), 2_i32.to_be_bytes());
    let (long, short) = (vec![b'a'; 60 << 10], b"b");
    let map = elements::build_map([(&one[..], &long[..]), (&two[..], &short[..])]);
    let set = elements::build([&long[..], &short[..]]);
    units_of(
        &mut server,
        "INSERT INTO t (k, m, f, s) VALUES (1, ?, ?, ?)",
        &[&map, &map, &set],
    );
    for (long, short) in [
        ("m[1]", "m[2]"),
        ("f[1]", "f[2]"),
        ("m[..1]", "m[2..]"),
        ("f[..1]", "f[2..]"),
        ("s[..'ab']", "s['b'..]"),
    ] {
        let units = [short, long].map(|part| {
            let text = format!("SELECT count({part}) FROM t WHERE k = 1");
            units_of(&mut server, &text, &[])
        });
        // Each charge for the bytes of the long value is 61 units: one for the copy, one in `count`.
        assert_costs_more(long, units, 100);
    }
}

/// Regression: the decimals of a set, of a map's keys and of clustering columns were computed from their
/// stored digits without a charge, so reads of them outlasted their timeout.
#[test]
fn decoding_decimals_is_charged_for_their_digits() {
    let mut server = Server::with(&[
        "CREATE TABLE t (k int PRIMARY KEY, v int, s set<decimal>, m map<decimal, int>)",
        "CREATE TABLE c (k int, d decimal, PRIMARY KEY (k, d))",
        "CREATE TABLE i (k int PRIMARY KEY, s set<decimal>)",
        "CREATE INDEX ON i (s)",
    ]);
    // The numbers are odd, so none of them ends with a zero, and their paths alone are stored.
    let decimal = |first: u8| [&[0, 0, 0, 0, first][..], &[7; 999]].concat();
    let decimals: Vec<Vec<u8>> = (1..=10).map(decimal).collect();
    let set = elements::build(decimals.iter().map(Vec::as_slice));
    let int = 1_i32.to_be_bytes();
    let map = elements::build_map(decimals.iter().map(|key| (&key[..], &int[..])));
    let insert = "INSERT INTO t (k, v, s, m) VALUES (1, 1, ?, ?)";
    units_of(&mut server, insert, &[&set, &map]);
    for key in &decimals {
        let insert = "INSERT INTO c (k, d) VALUES (1, ?)";
        units_of(&mut server, insert, &[key]);
    }
    let least = 10 * digits_units(decimals[0].len());
    for text in [
        "SELECT s FROM t WHERE k = 1",
        "SELECT m FROM t WHERE k = 1",
        "SELECT s FROM t",
        "SELECT k FROM t WHERE s CONTAINS 1 ALLOW FILTERING",
        "UPDATE t SET v = 2 WHERE k = 1 IF m = {1: 1}",
        "UPDATE t SET v = 2 WHERE k = 1 IF v = 3 AND s = {1}",
        "INSERT INTO t (k) VALUES (1) IF NOT EXISTS",
        "SELECT d FROM c WHERE k = 1",
        "SELECT d FROM c",
    ] {
        let units = units_of(&mut server, text, &[]);
        assert!(units >= least, "{text}: {units}, at least {least}");
    }
    // Each member is encoded, and then decoded for the limit on the length of an indexed value.
    let update = "UPDATE i SET s = s + ? WHERE k = 1";
    let units = units_of(&mut server, update, &[&set]);
    assert!(units >= 2 * least, "{update}: {units}");
}

/// Regression: a million rows of several partitions were sorted after the walk, and no timeout
/// interrupted the sort.
#[test]
fn a_read_is_charged_for_each_comparison_of_its_sort() {
    let mut server = Server::with(&["CREATE TABLE t (a int, b int, PRIMARY KEY (a, b))"]);
    // The rows of 1 and 2 alternate, those of 4 come after those of 3.
    for b in 100..140 {
        let (mixed, ascending) = (1 + b % 2, 3 + i32::from(b >= 120));
        for a in [mixed, ascending] {
            server.run(&format!("INSERT INTO t (a, b) VALUES ({a}, {b})"));
        }
    }
    let sorted = |a: &str| format!("SELECT b FROM t WHERE a IN ({a}) ORDER BY b");
    let units = ["3, 4", "1, 2"].map(|a| units_of(&mut server, &sorted(a), &[]));
    assert_costs_more("a sort", units, 10);
    let expected: Vec<String> = (100..140).map(|b| b.to_string()).collect();
    assert_eq!(server.rows(&sorted("1, 2")), expected.join(" | "));
}

/// Encoding a key is charged to the statement. Regression: a text in a set was charged as if its
/// bytes were the digits of a number, which take longer. Decimals in a key were charged only after
/// all of them had been encoded.
#[test]
fn a_key_of_a_collection_is_charged_for_the_decimals_in_it() {
    let mut server = Server::with(&[
        "CREATE TABLE t (k int PRIMARY KEY, s set<text>, m map<text, int>, \
         ds set<frozen<list<decimal>>>, dm map<frozen<list<decimal>>, int>)",
    ]);
    let text = vec![b'x'; 50_000];
    let decimals = vec![long_decimal(0); 50];
    let list = elements::build(decimals.iter().map(Vec::as_slice));
    let digits_units = 50 * 246;
    let (texts, lists) = (elements::build([&text]), elements::build([&list]));
    for [of_text, of_decimals] in [
        [
            ("UPDATE t SET m[?] = 1 WHERE k = 1", &text),
            ("UPDATE t SET dm[?] = 1 WHERE k = 1", &list),
        ],
        [
            ("INSERT INTO t (k, s) VALUES (1, ?)", &texts),
            ("INSERT INTO t (k, ds) VALUES (1, ?)", &lists),
        ],
    ] {
        let mut units = |(write, value): (&str, &Vec<u8>)| units_of(&mut server, write, &[value]);
        let units = [units(of_text), units(of_decimals)];
        assert!(units[0] < 5_000, "{}: {units:?}", of_text.0);
        assert!(units[1] >= digits_units, "{}: {units:?}", of_decimals.0);
    }
}

/// Each step of an average divides a number with all digits of the average, even if the number of
/// the row has one digit.
#[test]
fn each_step_of_an_average_is_charged_for_the_digits_of_the_average() {
    let mut server =
        Server::with(&["CREATE TABLE t (k int, c int, d decimal, PRIMARY KEY (k, c))"]);
    let insert = "INSERT INTO t (k, c, d) VALUES (1, 0, ?)";
    units_of(&mut server, insert, &[&long_decimal(0)]);
    for c in 1..=20 {
        server.run(&format!("INSERT INTO t (k, c, d) VALUES (1, {c}, 1)"));
    }
    let units = ["c > 0", "c >= 0"].map(|rows| {
        let select = format!("SELECT avg(d) FROM t WHERE k = 1 AND {rows}");
        units_of(&mut server, &select, &[])
    });
    // A number of a thousand bytes has 249 units.
    assert_costs_more("an average", units, 20 * 240);
}

/// Regression: the bytes that a read copies into its response were not charged. A statement that
/// selects a long value 255 times copied 255 MiB between two looks at the clock.
#[test]
fn a_read_is_charged_for_each_copy_of_a_value() {
    let mut server = Server::with(&["CREATE TABLE t (k int PRIMARY KEY, v text)"]);
    let text = "x".repeat(64 << 10);
    server.run(&format!("INSERT INTO t (k, v) VALUES (1, '{text}')"));
    let select = |count: usize| format!("SELECT {} FROM t WHERE k = 1", times(count, "v"));
    let units = [1, 16].map(|count| units_of(&mut server, &select(count), &[]));
    assert_costs_more("copies", units, 15 * 64);
}
