//! `ebb run`: the output of jobs, and the cases in which they write none.

use std::collections::BTreeMap;

use crate::care::damage_table;
use crate::corpus::{count_words, text_files};
use crate::place::Place;

fn rows(text: &str) -> BTreeMap<String, u64> {
    let row = |line: &str| {
        let (word, count) = line.split_once('\t').unwrap();
        (word.to_string(), count.parse().unwrap())
    };
    text.lines().map(row).collect()
}

#[test]
fn words_of_a_snapshot_are_counted_as_they_stood_in_the_files() {
    let place = Place::with_corpus();
    let expected = count_words(&place.path("corpus"));
    assert!(expected.len() > 100);
    // Rows that are loaded after the snapshot must not count.
    place.write("corpus/d0/00.txt", "overwritten\n".repeat(1601));
    place.write("corpus/new.txt", "new\n");
    place.ebb("load --table app.lines corpus --skip-bad").ok();

    let run = "run wordcount --table app.lines --snapshot s --goal 1h";
    let said = place
        .ebb(&format!("{run} --output counts.tsv --splits 5 --reduces 3"))
        .ok();
    assert!(said.contains("goal of 1h met"), "{said}");
    assert_eq!(rows(&place.read("counts.tsv")), expected);

    // The output is a table, under several policies.
    for policy in [
        "fifo",
        "fair",
        "adaptive-data",
        "ras",
        "reverse-adaptive",
        "forecast-edf",
        "pandas",
    ] {
        let report = place
            .ebb(&format!(
                "{run} --output app.{policy} --policy {policy} --cores 2 --json"
            ))
            .json();
        assert_eq!(report["output"], format!("table app.{policy}"));
        assert_eq!(report["met"], true);
        assert_eq!(report["counters"]["output_records"], expected.len());
        let counts = place.ebb(&format!("scan app.{policy}")).ok();
        assert_eq!(rows(&counts), expected);
    }
    assert!(!place.path("ebb-data/spill").exists());
}

#[test]
fn grep_finds_the_lines_that_a_look_at_the_files_finds() {
    let place = Place::with_corpus();
    let find = |wanted: &dyn Fn(&str) -> bool| {
        let mut found = Vec::new();
        for file in text_files(&place.path("corpus")) {
            let name = file.strip_prefix(place.dir.path()).unwrap().display();
            for (n, line) in std::fs::read_to_string(&file).unwrap().lines().enumerate() {
                if wanted(line) {
                    found.push(format!("{name}:{:012}\t{line}", n + 1));
                }
            }
        }
        found
    };
    let run = "run grep --table app.lines --snapshot s --splits 7";
    place
        .ebb(&format!("{run} --pattern (run) --output text.tsv"))
        .ok();
    let text = place.read("text.tsv");
    let expected = find(&|line| line.contains("(run)"));
    assert!(expected.len() > 1000);
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);

    place
        .ebb(&format!(
            "{run} --regex --pattern ^(Ebb|TIDE) --output app.found"
        ))
        .ok();
    let found = place.ebb("scan app.found").ok();
    let expected = find(&|line| line.starts_with("Ebb") || line.starts_with("TIDE"));
    assert_eq!(found.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_job_without_a_snapshot_reads_one_of_its_own_that_goes_with_it() {
    let place = Place::with_corpus();
    place.ebb("snapshot create --keyspace app run-1").ok();
    let run = "run wordcount --table app.lines";
    let report = place.ebb(&format!("{run} --output app.own --json")).json();
    assert_eq!(report["snapshot"], "run-2");
    let given = format!("{run} --snapshot s --output app.given");
    place.ebb(&given).ok();
    assert_eq!(
        place.ebb("scan app.own").ok(),
        place.ebb("scan app.given").ok()
    );
    let left = place.ebb("snapshot list --json").json();
    let names: Vec<_> = left
        .as_array()
        .unwrap()
        .iter()
        .map(|s| &s["name"])
        .collect();
    assert_eq!(names, ["s", "run-1"]);
    let said = place
        .ebb("run wordcount --table app.none --output x.tsv")
        .fails(3);
    assert!(said.contains("app") && said.contains("lines"), "{said}");
}

#[test]
fn a_job_that_meets_a_damaged_block_fails_and_writes_nothing() {
    let place = Place::new();
    let mut state = 3_u64;
    let letter = |_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        char::from(b'0' + (state >> 58) as u8)
    };
    let text: String = (0..7 << 20).map(letter).collect();
    let lines: Vec<&str> = (0..text.len() / 512)
        .map(|n| &text[n * 512..(n + 1) * 512])
        .collect();
    place.write("noise.txt", lines.join("\n"));
    place.ebb("load --table app.t noise.txt").ok();
    place.ebb("snapshot create --keyspace app s").ok();
    let run = "run grep --pattern 00 --table app.t --snapshot s";
    let report = place.ebb(&format!("{run} --output all.tsv --splits 6 --json"));
    assert_eq!(report.json()["tasks"], 6);

    let name = damage_table(&place);
    for output in ["x.tsv", "app.x"] {
        let said = place.ebb(&format!("{run} --output {output}")).fails(6);
        assert!(said.contains(&name), "{said}");
        // The cause has no key or value: a user who sees it may have no permission to read the table.
        assert!(!said.contains("noise.txt:"), "{said}");
        assert!(said.contains("nothing was written"), "{said}");
        // Another attempt would meet the damage again.
        let counters = place.ebb("jobs last --json").json()["report"]["counters"].clone();
        assert_eq!(
            (&counters["attempts_failed"], &counters["tasks_retried"]),
            (&1.into(), &0.into()),
            "{output}: {counters}"
        );
    }
    assert!(!place.path("x.tsv").exists());
    place.ebb("scan app.x").fails(3);
}

#[test]
fn an_output_that_exists_is_kept() {
    let place = Place::with_corpus();
    place.write("mine.tsv", "mine");
    let run = "run grep --table app.lines --snapshot s --pattern Ebb";
    let said = place.ebb(&format!("{run} --output mine.tsv")).fails(1);
    assert!(said.contains("mine.tsv exists"), "{said}");
    assert_eq!(place.read("mine.tsv"), "mine");
    let said = place.ebb(&format!("{run} --output app.lines")).fails(1);
    assert!(said.contains("app.lines has rows"), "{said}");
}

#[test]
fn a_job_that_ends_after_its_goal_is_exit_code_7_and_leaves_its_output() {
    let place = Place::with_corpus();
    let run = "run wordcount --table app.lines --snapshot s --goal 1us --output x.tsv";
    let said = place.ebb(run).fails(7);
    assert!(said.contains("after its goal"), "{said}");
    assert_eq!(
        rows(&place.read("x.tsv")),
        count_words(&place.path("corpus"))
    );
}
