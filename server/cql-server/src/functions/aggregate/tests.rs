//! Sums and averages, whose digits are those of Cassandra.

use crate::executor::harness::Server;

/// Creates a table with a partition for each element of `partitions`: the numbers in it, their sum
/// and their average. Asserts that SELECT returns this sum and average.
#[track_caller]
fn assert_totals(ty: &str, partitions: &[(&[&str], &str, &str)]) {
    let create = format!("CREATE TABLE t (k int, c int, n {ty}, PRIMARY KEY (k, c))");
    let mut server = Server::with(&[&create]);
    for (k, (numbers, sum, average)) in partitions.iter().enumerate() {
        for (c, number) in numbers.iter().enumerate() {
            server.run(&format!(
                "INSERT INTO t (k, c, n) VALUES ({k}, {c}, {number})"
            ));
        }
        let select =
            format!("SELECT CAST(sum(n) AS text), CAST(avg(n) AS text) FROM t WHERE k = {k}");
        assert_eq!(
            server.rows(&select),
            format!("{sum} {average}"),
            "{numbers:?}"
        );
    }
}

/// Regression: the sum of ten times 0.1 was 0.9999999999999999, and an average was infinite if the
/// sum of its numbers was. Cassandra compensates rounding errors, and averages decimals after an overflow.
#[test]
fn sums_and_averages_of_doubles_are_those_of_cassandra() {
    assert_totals(
        "double",
        &[
            (&[], "0.0", "0.0"),
            (&["0.1"; 10], "1.0", "0.1"),
            (
                &["1e16", "1", "1"],
                "1.0000000000000002E16",
                "3.333333333333334E15",
            ),
            (&["1.7e308", "1.7e308"], "Infinity", "1.7E308"),
            (&["-1.7e308", "-1.7e308"], "-Infinity", "-1.7E308"),
            // The average of decimals with two digits has two digits.
            (&["1.7e308", "1.6e308", "1.6e308"], "Infinity", "1.6E308"),
            (&["1.7e308", "1.7e308", "-1.7e308"], "Infinity", "6.0E307"),
            (&["Infinity", "1"], "Infinity", "Infinity"),
            (&["1", "-Infinity", "2"], "-Infinity", "-Infinity"),
            (&["Infinity", "-Infinity"], "NaN", "NaN"),
            (&["1", "NaN"], "NaN", "NaN"),
        ],
    );
}

#[test]
fn an_average_fails_for_an_infinite_number_after_an_overflow() {
    let mut server = Server::with(&["CREATE TABLE t (k int, c int, n double, PRIMARY KEY (k, c))"]);
    for (c, number) in ["1.7e308", "1.7e308", "Infinity"].iter().enumerate() {
        server.run(&format!(
            "INSERT INTO t (k, c, n) VALUES (1, {c}, {number})"
        ));
    }
    let steps = "
        SELECT avg(n) FROM t
        => the function 'avg(double)' failed: An infinite number cannot be converted into a decimal
        SELECT CAST(sum(n) AS text) FROM t => Infinity
    ";
    server.check(steps);
}

/// Regression: the average was the rounded quotient of sum and count. Cassandra rounds after each
/// number, so 0.5 and 0 have the average 0.3.
#[test]
fn sums_and_averages_of_decimals_have_the_digits_that_java_gives_them() {
    let long = format!("0.{}", "3".repeat(200));
    assert_totals(
        "decimal",
        &[
            (&[], "0", "0"),
            (&["1", "0.00", "2.5"], "3.50", "1.17"),
            (&["0.5", "0"], "0.5", "0.3"),
            (&["-0.5", "-1.0"], "-1.5", "-0.7"),
            (&["0.5", "0.25", "0.25"], "1.00", "0.34"),
            (&["1e5", "2e5"], "300000", "150000"),
            (&["7"], "7", "7"),
            (&[&long], &long, &long),
        ],
    );
}
