//! Joins of a few rows by the runtime.

use super::*;
use crate::records::{RecordFormat, ValueFormat};
use crate::testing::{input, report, run};
use ebb_scheduler::runtime::{Emit, HashPartitioner, Outcome, Partitioner, TaskError, VecOutput};
use ebb_test_support::seed::for_seeds;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeSet;

fn csv(names: &[&str]) -> RecordFormat {
    let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
    RecordFormat::file(ValueFormat::csv(Some(&names)).unwrap())
}

/// Lines of an input without records.
const NO_LINES: [&str; 0] = [];

/// Returns one side of a join: `lines` in two splits, with the column `on` as the join key.
fn side<S: AsRef<str>>(lines: &[S], format: &RecordFormat, on: Option<&str>) -> JoinSide {
    JoinSide::new(input(lines, 2), format, on).unwrap()
}

/// Returns the rows of a join in `reduces` reduce tasks.
fn joined(left: JoinSide, right: JoinSide, kind: JoinKind, reduces: u32) -> Vec<(String, String)> {
    run(&NO_LINES, 1, |_, output| {
        spec("join", left, right, output, kind, reduces)
    })
}

#[test]
fn every_pair_with_the_same_key_is_there_once() {
    for_seeds("every_pair_with_the_same_key_is_there_once", 1, |seed| {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let mut rows = |count| -> Vec<(u32, u32)> {
            (0..count).map(|n| (rng.random_range(0..60), n)).collect()
        };
        let (left, right) = (rows(80), rows(150));
        let lines = |rows: &[(u32, u32)], line: fn(u32, u32) -> String| -> Vec<String> {
            rows.iter().map(|&(key, n)| line(key, n)).collect()
        };
        let left_lines = lines(&left, |key, n| format!("k{key},l{n}"));
        let right_lines = lines(&right, |key, n| format!("r{n},k{key}"));
        for kind in [JoinKind::Inner, JoinKind::Left] {
            // Computed by nested loops over the rows.
            let mut expected = Vec::new();
            for (key, l) in &left {
                let matches = right.iter().filter(|(other, _)| other == key);
                let before = expected.len();
                for (_, r) in matches {
                    expected.push((format!("k{key}"), format!("l{l},r{r}")));
                }
                if kind == JoinKind::Left && expected.len() == before {
                    expected.push((format!("k{key}"), format!("l{l},")));
                }
            }
            let left = side(&left_lines, &csv(&["k", "n"]), Some("1"));
            let right = side(&right_lines, &csv(&["n", "k"]), Some("2"));
            let mut found = joined(left, right, kind, 3);
            found.sort();
            expected.sort();
            assert_eq!(found, expected);
        }
    });
}

/// Regression: a row without columns besides the key counted as no memory, and each row took tens
/// of bytes beyond its columns. Here each of the 100 left rows of the key takes four bytes.
#[test]
fn a_key_with_too_many_left_rows_fails_the_job_and_is_named_however_short_they_are() {
    for (left_bytes_max, is_enough) in [(400, true), (399, false)] {
        let side = |lines: &[&str]| side(lines, &RecordFormat::text(), Some("value"));
        let (left, right) = (side(&["hub"; 100]), side(&["hub", "x"]));
        let reducer = PairReducer::new(JoinKind::Inner, (0, 0), left_bytes_max);
        let output = VecOutput::new();
        let ended = report(input(&NO_LINES, 1), output.clone(), |_, output| {
            spec("join", left, right, output, JoinKind::Inner, 1).reducer(Arc::new(reducer), 1)
        });
        match ended.outcome {
            Outcome::Failed { cause } if !is_enough => {
                assert!(cause.contains("the rows of key \"hub\""), "{cause}");
            }
            outcome => assert!(is_enough && outcome == Outcome::Succeeded, "{outcome:?}"),
        }
        let rows = output.rows().map(|rows| rows.len());
        assert_eq!(rows, is_enough.then_some(100));
    }
}

#[test]
fn rows_are_joined_by_their_own_keys_where_no_column_is_named() {
    let side = |lines: &[&str]| side(lines, &RecordFormat::text(), None);
    let (left, right) = (side(&["a", "b"]), side(&["c", "d", "e"]));
    let rows = joined(left, right, JoinKind::Inner, 1);
    let rows: Vec<_> = rows.iter().map(|(k, v)| format!("{k} {v}")).collect();
    assert_eq!(rows, ["0000 a,c", "0001 b,d"]);
}

#[test]
fn rows_without_a_key_are_in_no_pair_and_a_left_join_keeps_the_left_ones() {
    // Nulls and empty fields once were pairs, and a left join lost rows without the column.
    let left_lines = [
        r#"{"k": null, "n": 1}"#,
        r#"{"n": 2}"#,
        r#"{"k": "", "n": 3}"#,
        r#"{"k": "a", "n": 4}"#,
        r#"{"k": "b", "n": 5}"#,
    ];
    let json = RecordFormat::file(ValueFormat::Json);
    for (kind, expected) in [
        (JoinKind::Inner, &["a|r2"][..]),
        (JoinKind::Left, &["a|r2", "b|", "|", "|", "|"][..]),
    ] {
        let left = side(&left_lines, &json, Some("k"));
        let right = side(&[",r1", "a,r2", ",r3"], &csv(&["k", "n"]), Some("k"));
        let rows = joined(left, right, kind, 2);
        // The last column is that of the right side.
        let shown = rows.iter().map(|(key, row)| {
            let (_, right) = row.rsplit_once(',').unwrap();
            format!("{key}|{right}")
        });
        let mut found: Vec<String> = shown.collect();
        found.sort();
        assert_eq!(found, expected, "{kind:?}");
    }
}

/// An emitter that collects the numbers of the tasks that would reduce the emitted records, if there were
/// four reduce tasks.
#[derive(Default)]
struct ReduceTasks(BTreeSet<u32>);

impl Emit for ReduceTasks {
    fn emit(&mut self, key: &[u8], _: &[u8]) -> Result<(), TaskError> {
        self.0.insert(HashPartitioner.partition(key, 4));
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), TaskError> {
        Ok(())
    }
}

/// Regression: all left rows without a key went to one reduce task.
#[test]
fn left_rows_without_a_key_are_spread_over_the_reduce_tasks() {
    let side = || side(&NO_LINES, &csv(&["k", "n"]), Some("k"));
    // For a single reduce task they all have one key, and so stay in the order of the input.
    for (reduces, expected) in [(4, 4), (1, 1)] {
        let output = Arc::new(VecOutput::new());
        let job = spec("join", side(), side(), output, JoinKind::Left, reduces);
        let mut tasks = ReduceTasks::default();
        for number in 0..100 {
            // The key of a record of the left side begins with a zero.
            let key = format!("\0{number:04}");
            job.mapper.map(key.as_bytes(), b",7", &mut tasks).unwrap();
        }
        assert_eq!(tasks.0.len(), expected, "{:?}", tasks.0);
    }
}

#[test]
fn columns_have_the_names_of_their_sides_and_those_of_the_right_are_set_apart() {
    let side = |schema: &RecordFormat, on| side(&NO_LINES, schema, on);
    let names = |left: &JoinSide, right: &JoinSide| {
        let columns = rows(left, right).columns().into_iter();
        columns
            .map(|column| column.name)
            .collect::<Vec<_>>()
            .join(",")
    };
    let cities = side(&csv(&["id", "name", "size"]), Some("name"));
    let trips = side(&csv(&["id", "city", "name"]), Some("city"));
    assert_eq!(names(&cities, &trips), "name,id,size,right_id,right_name");
    let json = RecordFormat::file(ValueFormat::Json);
    let lines = side(&json, Some("user.city"));
    assert_eq!(names(&cities, &lines), "name,id,size,value");
    assert_eq!(names(&lines, &cities), "user.city,value,id,size");
    let table = side(&RecordFormat::table(ValueFormat::text()).unwrap(), None);
    assert_eq!(names(&table, &table), "key,value,right_value");
    let of_value = side(&RecordFormat::text(), Some("value"));
    assert_eq!(names(&of_value, &table), "value,right_value");
}

#[test]
fn a_side_without_other_columns_adds_none() {
    let text = RecordFormat::text();
    let table = RecordFormat::table(ValueFormat::text()).unwrap();
    for (left_line, schema, right_line, right_on, expected) in [
        ("0000", &table, "x, y", None, "0000 x, y"),
        ("a", &table, "a", Some("value"), "a 0000"),
        ("a", &text, "a", Some("value"), "a "),
        ("b", &table, "a", None, "b "),
    ] {
        let left = side(&[left_line], &text, Some("value"));
        let right = side(&[right_line], schema, right_on);
        let found = joined(left, right, JoinKind::Left, 1);
        let found: Vec<_> = found.iter().map(|(k, v)| format!("{k} {v}")).collect();
        assert_eq!(found, [expected]);
    }
}
