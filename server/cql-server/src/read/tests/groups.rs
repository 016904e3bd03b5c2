//! GROUP BY with functions of times, on the rows of Cassandra's `SelectGroupByTest`.

use ebb_test_support::cases::parse_cases;

use crate::executor::harness::Server;

/// The partition, the time on 2016-09-27 and the value of each row.
const ROWS: [(i32, &str, i32); 10] = [
    (1, "16:10:00", 1),
    (1, "16:12:00", 2),
    (1, "16:14:00", 3),
    (1, "16:15:00", 4),
    (1, "16:21:00", 5),
    (1, "16:22:00", 6),
    (1, "16:26:00", 7),
    (1, "16:26:20", 8),
    (2, "16:26:20", 10),
    (2, "16:30:00", 11),
];

/// Creates a table with [`ROWS`]. `ty` is the type of the times, `timestamp` or `timeuuid`, and
/// `order` their clustering order.
fn table(ty: &str, order: &str) -> Server {
    let create = format!(
        "CREATE TABLE t (pk int, time {ty}, s int STATIC, v int, PRIMARY KEY (pk, time)) WITH \
         CLUSTERING ORDER BY (time {order})"
    );
    let mut server = Server::with(&[&create]);
    for (pk, time, v) in ROWS {
        let time = format!("'2016-09-27 {time}Z'");
        let time = if ty == "timeuuid" {
            format!("minTimeuuid({time})")
        } else {
            time
        };
        server.run(&format!(
            "INSERT INTO t (pk, time, v) VALUES ({pk}, {time}, {v})"
        ));
    }
    server
}

/// Returns the expected result of a SELECT, with a row for each line. A line has a partition, a
/// time on 2016-09-27, and other columns.
fn groups(lines: &[&str]) -> String {
    let line = |line: &&str| {
        let mut parts = line.splitn(3, ' ');
        let mut part = || parts.next().unwrap();
        format!("{} 2016-09-27 {}.000Z {}", part(), part(), part())
    };
    lines.iter().map(line).collect::<Vec<_>>().join(" | ")
}

/// Asserts that a SELECT returns these rows, whole and page by page.
#[track_caller]
fn assert_rows(server: &mut Server, select: &str, expected: &str) {
    assert_eq!(server.rows(select), expected, "{select}");
    for size in 1..10 {
        let (rows, _) = server.read_in_pages(select, size);
        let rows: Vec<String> = rows.iter().map(|row| row.join(" ")).collect();
        assert_eq!(rows.join(" | "), expected, "{select} by {size}");
    }
}

#[test]
fn rows_are_grouped_by_the_floor_of_their_time() {
    let first = [
        "1 16:10:00 1 3 3",
        "1 16:15:00 4 4 1",
        "1 16:20:00 5 6 2",
        "1 16:25:00 7 8 2",
    ];
    let second = ["2 16:25:00 10 10 1", "2 16:30:00 11 11 1"];
    for (ty, floors) in [
        (
            "timestamp",
            &["floor(time, 5m)", "floor(time, 5m, '2016-09-27')"][..],
        ),
        (
            "timeuuid",
            &[
                "floor(time, 5m)",
                "floor(time, 5m, '2016-09-27')",
                "floor(toTimestamp(time), 5m)",
            ],
        ),
    ] {
        for order in ["ASC", "DESC"] {
            let mut server = table(ty, order);
            let ascending = [&first[..], &second].concat();
            let reverse = |lines: &[&'static str]| -> Vec<&'static str> {
                lines.iter().rev().copied().collect()
            };
            let descending = [reverse(&first), reverse(&second)].concat();
            let (natural, reversed, against) = if order == "ASC" {
                (&ascending, &descending, "DESC")
            } else {
                (&descending, &ascending, "ASC")
            };
            for floor in floors {
                let select = format!("SELECT pk, {floor}, min(v), max(v), count(v) FROM t");
                let by = format!("GROUP BY pk, {floor}");
                for (clauses, lines) in [
                    (by.clone(), &natural[..]),
                    (format!("{by} LIMIT 2"), &natural[..2]),
                    (format!("{by} LIMIT 5"), &natural[..5]),
                    (
                        format!("{by} PER PARTITION LIMIT 1"),
                        &[natural[0], natural[4]],
                    ),
                    (
                        format!("{by} PER PARTITION LIMIT 3 LIMIT 4"),
                        &[natural[0], natural[1], natural[2], natural[4]],
                    ),
                    (format!("WHERE pk IN (1, 2) {by}"), &natural[..]),
                    (format!("WHERE pk = 1 {by}"), &natural[..4]),
                    (
                        format!("WHERE pk = 1 {by} ORDER BY time {against}"),
                        &reversed[..4],
                    ),
                    (
                        format!("WHERE pk = 1 {by} ORDER BY time {against} LIMIT 2"),
                        &reversed[..2],
                    ),
                    // A partition key with a single value may be left out.
                    (format!("WHERE pk = 1 GROUP BY {floor}"), &natural[..4]),
                ] {
                    assert_rows(&mut server, &format!("{select} {clauses}"), &groups(lines));
                }
            }
        }
    }
}

/// Regression: a page that was full at the PER PARTITION LIMIT of the last partition had an empty page
/// after it, because that partition has further rows.
#[test]
fn no_page_follows_for_groups_beyond_the_limit_of_a_partition() {
    let mut server = table("timestamp", "ASC");
    for (clauses, size, pages) in [
        ("PER PARTITION LIMIT 1", 2, &["3 10"][..]),
        ("PER PARTITION LIMIT 1", 1, &["3", "10"]),
        ("PER PARTITION LIMIT 2", 2, &["3 4", "10 11"]),
        ("PER PARTITION LIMIT 2 LIMIT 3", 2, &["3 4", "10"]),
    ] {
        let select = format!("SELECT max(v) FROM t GROUP BY pk, floor(time, 5m) {clauses}");
        let (mut found, mut state) = (Vec::new(), None);
        loop {
            let page = server.page(&select, &[], Some(size), state.as_deref());
            let page = page.unwrap();
            found.push(page.rows.concat().join(" "));
            state = page.state;
            if state.is_none() {
                break;
            }
        }
        assert_eq!(found, pages, "{clauses} by {size}");
    }
}

#[test]
fn other_columns_are_those_of_the_first_row_of_a_group() {
    let mut server = table("timestamp", "ASC");
    let cases = [
        (
            "pk, time, v FROM t GROUP BY pk, floor(time, 5m) PER PARTITION LIMIT 2",
            &[
                "1 16:10:00 1",
                "1 16:15:00 4",
                "2 16:26:20 10",
                "2 16:30:00 11",
            ][..],
        ),
        (
            "* FROM t WHERE pk = 1 GROUP BY pk, floor(time, 5m) LIMIT 2",
            &["1 16:10:00 null 1", "1 16:15:00 null 4"],
        ),
        // Only rows that pass the filter form groups.
        (
            "pk, floor(time, 5m), count(v) FROM t WHERE pk = 1 AND v > 2 GROUP BY pk, \
             floor(time, 5m) ALLOW FILTERING",
            &[
                "1 16:10:00 1",
                "1 16:15:00 1",
                "1 16:20:00 2",
                "1 16:25:00 2",
            ],
        ),
    ];
    for (select, lines) in cases {
        assert_rows(&mut server, &format!("SELECT {select}"), &groups(lines));
    }
    assert_rows(
        &mut server,
        "SELECT max(v) FROM t GROUP BY pk, floor(time, 5m)",
        "3 | 4 | 6 | 8 | 10 | 11",
    );
    assert_rows(
        &mut server,
        "SELECT toDate(time), count(*) FROM t WHERE pk = 1 GROUP BY pk, toDate(time)",
        "2016-09-27 8",
    );
    // Sorted by the first rows that are read; groups of equal times in the order of their partitions.
    let sorted = "SELECT pk, max(v) FROM t WHERE pk IN (1, 2) GROUP BY pk, floor(time, 5m) \
                  ORDER BY time DESC";
    assert_eq!(server.rows(sorted), "2 11 | 1 8 | 2 10 | 1 6 | 1 4 | 1 3");
}

/// Regression: a column beside an aggregate in one expression was null, and with it the result.
#[test]
fn columns_beside_an_aggregate_are_those_of_the_first_row_of_a_group() {
    let mut server = Server::with(&[
        "CREATE TABLE t (k int, c int, s int STATIC, v int, m map<text, int>, \
         PRIMARY KEY (k, c))",
        "INSERT INTO t (k, s) VALUES (1, 10)",
        "INSERT INTO t (k, s) VALUES (2, 20)",
        "INSERT INTO t (k, c, v, m) VALUES (1, 1, 5, {'a': 7}) USING TIMESTAMP 3",
        "INSERT INTO t (k, c, v, m) VALUES (1, 2, 6, {'a': 9}) USING TIMESTAMP 4",
        "INSERT INTO t (k, c) VALUES (2, 1)",
        "INSERT INTO t (k, c, v) VALUES (2, 2, 8)",
    ]);
    let cases = "
        k, sum(v) * s, sum(v) * k FROM t GROUP BY k => 1 110 11 | 2 160 16
        // The first row of the second group has no value, and later ones do not replace it.
        max(v) - v FROM t GROUP BY k => 1 | null
        max(c) + writetime(v) FROM t GROUP BY k => 5 | null
        count(*) + m['a'] FROM t GROUP BY k => 9 | null
        (min(v) + c) * (s + max(v)) FROM t WHERE k = 1 => 96
        DISTINCT k, count(k) + s FROM t GROUP BY k => 1 11 | 2 21
        // Without rows all columns are null, but constants and the results of functions are not.
        k, 'x', (int) 7, count(*), sum(v) * 2, sum(v) * s, toJson(v) FROM t WHERE k = 9
        => null x 7 0 0 null null
        blobAsInt(intAsBlob(7)), count(*) FROM t WHERE k IN () => 7 0
    ";
    for [select, rows] in parse_cases(cases) {
        assert_rows(&mut server, &format!("SELECT {select}"), rows);
    }
    let sorted = "SELECT sum(v) * s FROM t WHERE k IN (1, 2) GROUP BY k, c ORDER BY c DESC";
    assert_eq!(server.rows(sorted), "60 | 160 | 50 | 0");
}

/// Regression: a page of groups never ended by its time. If few rows passed the filter, a page
/// whose last group was complete read on to the next such row, or until the request timed out.
#[test]
fn a_page_of_groups_ends_by_its_time_between_groups() {
    let create = "CREATE TABLE t (k int, c int, v int, PRIMARY KEY (k, c))";
    let mut server = Server::with(&[create, "CREATE INDEX ON t (v)"]);
    for k in 0..20 {
        for c in 0..20 {
            let v = c % 10;
            server.run(&format!("INSERT INTO t (k, c, v) VALUES ({k}, {c}, {v})"));
        }
    }
    let filter = "WHERE c IN (3, 13) AND v > 0";
    let selects = [
        "k, sum(c) FROM t GROUP BY k".to_owned(),
        "k, sum(c) FROM t GROUP BY k LIMIT 7".to_owned(),
        "k, c, sum(v) FROM t GROUP BY k, c PER PARTITION LIMIT 3".to_owned(),
        "k, sum(c) FROM t WHERE k IN (1, 2, 3, 4) GROUP BY k".to_owned(),
        "c, sum(v) FROM t WHERE k = 1 GROUP BY k, c ORDER BY c DESC".to_owned(),
        "k, sum(c) FROM t WHERE v = 3 GROUP BY k".to_owned(),
        format!("k, sum(c) FROM t {filter} GROUP BY k ALLOW FILTERING"),
        format!("k, c, sum(v) FROM t {filter} GROUP BY k, c ALLOW FILTERING"),
        "k, sum(c) FROM t WHERE v > 8 GROUP BY k ALLOW FILTERING".to_owned(),
        "k, sum(c) FROM t WHERE v > 100 GROUP BY k ALLOW FILTERING".to_owned(),
    ];
    let selects = selects.map(|select| format!("SELECT {select}"));
    let expected = selects.each_ref().map(|select| {
        let page = server.page(select, &[], None, None);
        page.unwrap().rows
    });
    server.end_pages_at_each_look();
    for (select, expected) in selects.iter().zip(expected) {
        for page_size_rows in [1, 3, 100] {
            let (rows, pages) = server.read_in_pages(select, page_size_rows);
            assert_eq!(rows, expected, "{select} by {page_size_rows}");
            assert!(pages > 1, "{select} by {page_size_rows}");
        }
    }
    // The last group that LIMIT permits ends with the page, and no page follows.
    let select = format!("SELECT k, sum(c) FROM t {filter} GROUP BY k LIMIT 1 ALLOW FILTERING");
    let expected = server.page(&select, &[], None, None).unwrap().rows;
    assert_eq!(expected.len(), 1);
    assert_eq!(server.read_in_pages(&select, 100), (expected, 1));
}

#[test]
fn static_columns_alone_are_a_group_without_a_time() {
    let mut server = table("timestamp", "ASC");
    server.run("INSERT INTO t (pk, s) VALUES (1, 7)");
    server.run("INSERT INTO t (pk, s) VALUES (3, 9)");
    assert_rows(
        &mut server,
        "SELECT pk, floor(time, 1h), count(time), s FROM t WHERE pk IN (1, 3) GROUP BY pk, \
         floor(time, 1h)",
        "1 2016-09-27 16:00:00.000Z 8 7 | 3 null 0 9",
    );
}

#[test]
fn markers_in_group_by_have_the_types_of_the_parameters() {
    let mut server = table("timestamp", "ASC");
    let select = "SELECT floor(time, 5m, ?), count(*) FROM t WHERE pk = 2 GROUP BY pk, \
                  floor(time, 5m, ?) LIMIT ?";
    // 2016-09-27 00:01, so the groups begin a minute later.
    let start = 1_474_934_460_000_i64.to_be_bytes();
    let limit = 1_i32.to_be_bytes();
    let values = [Some(&start[..]), Some(&start[..]), Some(&limit[..])];
    let page = server.page(select, &values, None, None).unwrap();
    assert_eq!(page.rows, [["2016-09-27 16:26:00.000Z", "2"]]);
    // Without a start all times are null.
    let values = [None, None, Some(&limit[..])];
    let page = server.page(select, &values, None, None).unwrap();
    assert_eq!(page.rows, [["null", "2"]]);
}

#[test]
fn dates_are_grouped_by_months() {
    let mut server =
        Server::with(&["CREATE TABLE t (pk int, time date, v int, PRIMARY KEY (pk, time))"]);
    for (pk, time, v) in [
        (1, "2016-09-27", 1),
        (1, "2016-09-28", 2),
        (1, "2016-09-29", 3),
        (1, "2016-09-30", 4),
        (1, "2016-10-01", 5),
        (1, "2016-10-04", 6),
        (1, "2016-10-20", 7),
        (1, "2016-11-27", 8),
        (2, "2016-11-01", 10),
        (2, "2016-11-02", 11),
    ] {
        server.run(&format!(
            "INSERT INTO t (pk, time, v) VALUES ({pk}, '{time}', {v})"
        ));
    }
    for start in ["", ", '2016-06-01'"] {
        let select = format!("SELECT pk, floor(time, 1mo{start}), min(v), max(v), count(v) FROM t");
        let by = format!("GROUP BY pk, floor(time, 1mo{start})");
        assert_rows(
            &mut server,
            &format!("{select} {by}"),
            "1 2016-09-01 1 4 4 | 1 2016-10-01 5 7 3 | 1 2016-11-01 8 8 1 | 2 2016-11-01 10 11 2",
        );
        assert_rows(
            &mut server,
            &format!("{select} WHERE pk = 1 {by} ORDER BY time DESC LIMIT 2"),
            "1 2016-11-01 8 8 1 | 1 2016-10-01 5 7 3",
        );
    }
}

#[test]
fn times_of_day_are_grouped_within_the_columns_before_them() {
    let mut server = Server::with(&[
        "CREATE TABLE t (pk int, date date, time time, v int, PRIMARY KEY (pk, date, time))",
    ]);
    let of_the_first_day = ROWS.iter().filter(|(pk, ..)| *pk == 1);
    let rows = of_the_first_day.map(|&(_, time, v)| ("2016-09-27", time, v));
    let rows = rows.chain([
        ("2016-09-28", "16:26:20", 9),
        ("2016-09-28", "16:26:30", 10),
    ]);
    for (date, time, v) in rows {
        server.run(&format!(
            "INSERT INTO t (pk, date, time, v) VALUES (1, '{date}', '{time}', {v})"
        ));
    }
    let groups = [
        "2016-09-27 16:10:00.000000000 1 3 3",
        "2016-09-27 16:15:00.000000000 4 4 1",
        "2016-09-27 16:20:00.000000000 5 6 2",
        "2016-09-27 16:25:00.000000000 7 8 2",
        "2016-09-28 16:25:00.000000000 9 10 2",
    ];
    let select = "SELECT date, floor(time, 5m), min(v), max(v), count(v) FROM t WHERE pk = 1";
    let by = "GROUP BY pk, date, floor(time, 5m)";
    let mut reversed = groups;
    reversed.reverse();
    for (clauses, groups) in [
        (by.to_owned(), &groups[..]),
        (format!("{by} LIMIT 2"), &groups[..2]),
        (format!("{by} ORDER BY date DESC, time DESC"), &reversed),
        (
            "AND date = '2016-09-28' GROUP BY floor(time, 5m)".to_owned(),
            &groups[4..],
        ),
    ] {
        let select = format!("{select} {clauses}");
        assert_rows(&mut server, &select, &groups.join(" | "));
    }
    assert_eq!(
        server.refused("SELECT pk FROM t GROUP BY pk, floor(date, 1w), time"),
        "Functions are only supported on the last element of the GROUP BY clause"
    );
}

#[test]
fn functions_in_group_by_are_monotonic_functions_of_a_clustering_column() {
    let mut server = table("timestamp", "ASC");
    let cases = "
        pk, floor(time, 2h, time)
        => Only monotonic functions are supported in the GROUP BY clause. Got: system.floor : \
           (timestamp, duration(constant), timestamp) -> timestamp
        pk, floor(time, 2h, currentTimestamp())
        => Only monotonic functions are supported in the GROUP BY clause. Got: system.floor : \
           (timestamp, duration(constant), timestamp) -> timestamp
        pk, CAST(time AS date)
        => Only monotonic functions are supported in the GROUP BY clause. Got: system.castAsDate : \
           (timestamp) -> date
        pk, floor(time + 1d, 2h)
        => Only monotonic functions are supported in the GROUP BY clause. Got: system._add : \
           (timestamp, duration(constant)) -> timestamp
        floor(time, 2h)
        => Group by currently only support groups of columns following their declared order in the \
           PRIMARY KEY
        pk, max(time)
        => Aggregate functions are not supported within the GROUP BY clause, got: system.max
        pk, floor(max(time), 2h)
        => Only column names and monotonic scalar functions are supported in the GROUP BY clause.
        pk, writetime(v)
        => Only column names and monotonic scalar functions are supported in the GROUP BY clause.
        pk, floor(currentTimestamp(), 2h)
        => GROUP BY functions must have one clustering column name as parameter
        pk, floor(time, 2h, blobAsTimestamp(intAsBlob(v)))
        => GROUP BY functions accept only one clustering column as parameter, got: time,v
        intAsBlob(pk) => Group by functions are only supported on clustering columns, got pk
        pk, v => Group by is currently only supported on the columns of the PRIMARY KEY, got v
        pk, x => Undefined column name x in table ks.t
        pk, floor(time, -5m) => Negative durations are not supported by the floor function
        pk, floor(time, 5m, '2016-10-27')
        => The floor function starting time is greater than the provided time
    ";
    for [by, message] in parse_cases(cases) {
        // The selected floor would be an error, too, at the first row. But GROUP BY is analysed earlier, and
        // the group of a row is computed before its outputs.
        let select = format!("SELECT pk, floor(time, 10us), min(v) FROM t GROUP BY {by}");
        assert_eq!(server.refused(&select), message, "{by}");
    }
    assert_eq!(
        server.refused("SELECT DISTINCT pk FROM t GROUP BY pk, floor(time, 5m)"),
        "Grouping on clustering columns is not allowed for SELECT DISTINCT queries"
    );
}
