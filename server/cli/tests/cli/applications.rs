//! `ebb run` with every kind of input, output and application. Test code computes each expected result
//! from the files independently.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::place::{Done, Place, UNPACED, output};

/// A directory with files of trips, in CSV and in JSON, and the rows of these files: city, fare, and a text
/// with commas.
struct Trips {
    place: Place,
    rows: Vec<(String, i64, String)>,
}

fn trips() -> Trips {
    let place = Place::new();
    let mut state = 11_u64;
    let mut pick = |count: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(99);
        (state >> 33) % count
    };
    let rows: Vec<_> = (0..6000)
        .map(|n| {
            let city = ["Bonn", "Cork", "Aarhus, DK"][pick(3) as usize].to_string();
            (
                city,
                pick(2000) as i64 - 500,
                format!("trip {n}, {}", pick(9)),
            )
        })
        .collect();
    let mut csv = "city,fare,note\n".to_string();
    let mut json = String::new();
    for (city, fare, note) in &rows {
        csv += &format!("\"{city}\",{fare},\"{note}\"\n");
        json += &format!("{{\"city\":\"{city}\",\"fare\":{fare},\"note\":\"{note}\"}}\n");
    }
    // The two files are parts of one, which is cut between two lines.
    let half = csv.len() / 2 + csv[csv.len() / 2..].find('\n').unwrap() + 1;
    place.write("trips/1.csv", &csv[..half]);
    place.write("trips/2.csv", format!("city,fare,note\n{}", &csv[half..]));
    place.write("trips.jsonl", json);
    Trips { place, rows }
}

fn json_lines(text: &str) -> Vec<Value> {
    let line = |line| serde_json::from_str(line).unwrap();
    text.lines().map(line).collect()
}

#[test]
fn groups_of_csv_and_of_json_have_the_numbers_of_their_rows() {
    let Trips { place, rows } = trips();
    let mut expected: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for (city, fare, _) in &rows {
        expected.entry(city).or_default().push(*fare);
    }
    for input in ["--csv trips", "--json-lines trips.jsonl"] {
        let run = format!("run aggregate {input} --by city --of fare --quantiles 0.5 --splits 5");
        let said = place.ebb(&format!("{run} --output - --format json-lines"));
        let found = json_lines(&said.ok());
        assert_eq!(found.len(), expected.len());
        for (row, (city, fares)) in found.iter().zip(&mut expected) {
            fares.sort();
            assert_eq!(row["city"], *city);
            assert_eq!(row["rows"], fares.len());
            assert_eq!(row["fare_sum"], fares.iter().sum::<i64>());
            assert_eq!(row["fare_min"], fares[0]);
            assert_eq!(row["fare_max"], fares[fares.len() - 1]);
            let median = fares[fares.len().div_ceil(2) - 1] as f64;
            let told = row["fare_p50"].as_f64().unwrap();
            assert!(
                (told - median).abs() <= median.abs() * 0.0051,
                "{told} {median}"
            );
        }
    }
    let said = place
        .ebb("run aggregate --csv trips --by town --output -")
        .fails(2);
    assert!(said.contains("city, fare, note"), "{said}");
    let said = place
        .ebb("run aggregate --csv trips --of note --output -")
        .fails(2);
    assert!(
        said.contains("no number") && said.contains("trips/"),
        "{said}"
    );
}

#[test]
fn selected_rows_and_columns_are_those_that_a_look_at_the_file_selects() {
    let Trips { place, rows } = trips();
    let mut command = place.command("run select --csv trips --columns fare,note --output dear.csv");
    command.args(["--where", "fare >= 1490", "--where", "city != Bonn"]);
    assert!(output(&mut command).status.success());
    let found = place.read("dear.csv");
    let dear = rows
        .iter()
        .filter(|(city, fare, _)| *fare >= 1490 && city != "Bonn");
    let expected: Vec<_> = dear
        .map(|(_, fare, note)| format!("{fare},\"{note}\""))
        .collect();
    assert!(!expected.is_empty());
    let mut lines = found.lines();
    assert_eq!(lines.next(), Some("fare,note"));
    assert_eq!(lines.collect::<Vec<_>>(), expected);
}

#[test]
fn sorted_lines_are_valid_and_are_the_lines_that_there_were() {
    let Trips { place, mut rows } = trips();
    let sort = "run sort --json-lines trips.jsonl --by fare --numeric --splits 7";
    place.ebb(&format!("{sort} --output sorted/")).ok();
    assert!(place.path("sorted/_SUCCESS").exists());
    let found: Vec<i64> = json_lines(&place.read("sorted/part-00000.tsv"))
        .iter()
        .map(|row| row["fare"].as_i64().unwrap())
        .collect();
    rows.sort_by_key(|(_, fare, _)| *fare);
    let fares: Vec<i64> = rows.iter().map(|(_, fare, _)| *fare).collect();
    assert_eq!(found, fares);

    let validate = |input: &str| -> BTreeMap<String, String> {
        let run = format!("run validate --json-lines {input} --by fare --numeric --output -");
        let rows = place.ebb(&run).ok();
        let row = |line: &str| {
            let (name, value) = line.split_once('\t').unwrap();
            (name.to_string(), value.to_string())
        };
        rows.lines().map(row).collect()
    };
    let (before, after) = (validate("trips.jsonl"), validate("sorted"));
    assert_eq!(after["misplaced"], "0");
    assert_ne!(before["misplaced"], "0");
    assert_eq!(after["records"], rows.len().to_string());
    assert_eq!(after["checksum"], before["checksum"]);
    let said = place.ebb(&format!("{sort} --output sorted/")).fails(1);
    assert!(said.contains("sorted exists"), "{said}");
}

#[test]
fn a_join_pairs_rows_of_files() {
    let Trips { place, rows } = trips();
    place.write(
        "cities.csv",
        "name,land\n\"Aarhus, DK\",Denmark\nBonn,Germany\nRome,Italy\n",
    );
    let join = "run join --csv cities.csv --on name --with trips.jsonl --with-on city --left";
    let said = place
        .ebb(&format!("{join} --reduces 2 --output joined.jsonl"))
        .ok();
    assert!(said.contains("cities.csv and trips.jsonl"), "{said}");
    let found = json_lines(&place.read("joined.jsonl"));
    let count = |city: &str| found.iter().filter(|row| row["name"] == city).count();
    let trips = |city: &str| rows.iter().filter(|row| row.0 == city).count();
    assert_eq!(count("Bonn"), trips("Bonn"));
    assert_eq!(count("Aarhus, DK"), trips("Aarhus, DK"));
    assert_eq!((count("Rome"), count("Cork")), (1, 0));
    for row in &found {
        if row["name"] == "Rome" {
            assert_eq!(
                (&row["value"], &row["land"]),
                (&Value::Null, &json!("Italy"))
            );
        } else {
            assert_eq!(row["value"]["city"], row["name"]);
        }
    }
}

#[test]
fn a_range_or_a_prefix_of_a_table_is_all_that_is_read() {
    let place = Place::with_corpus();
    let all = place.ebb("scan app.lines --snapshot s --keys-only").ok();
    let keys = |args: &str| -> Vec<String> {
        let run = "run select --table app.lines --snapshot s --splits 6 --output -";
        let rows = place.ebb(&format!("{run} {args}")).rows();
        rows.lines()
            .map(|row| row.split('\t').next().unwrap().to_string())
            .collect()
    };
    let expected = |wanted: &dyn Fn(&str) -> bool| -> Vec<&str> {
        all.lines().filter(|key| wanted(key)).collect()
    };
    assert_eq!(keys(""), expected(&|_| true));
    let (from, to) = ("corpus/d0/03.txt:000000000700", "corpus/d1/");
    assert_eq!(
        keys(&format!("--range {from}..{to}")),
        expected(&|key| (from..to).contains(&key))
    );
    assert_eq!(
        keys(&format!("--range {from}..")),
        expected(&|key| key >= from)
    );
    let prefix = "corpus/d2/02.txt:0000000001";
    let found = keys(&format!("--prefix {prefix}"));
    assert_eq!(found.len(), 100);
    assert_eq!(found, expected(&|key| key.starts_with(prefix)));
    place
        .ebb("run select --table app.lines --range b..a --output -")
        .refused();
    place
        .ebb("run select --text corpus --prefix a --output -")
        .fails(2);
}

#[test]
fn generated_records_are_the_same_for_a_seed_and_words_are_indexed() {
    let place = Place::new();
    let run = "run index --generate 3000 --seed 5 --output";
    place.ebb(&format!("{run} a.csv --splits 1")).ok();
    place.ebb(&format!("{run} b.csv --splits 9")).ok();
    let index = place.read("a.csv");
    assert_eq!(index, place.read("b.csv"));
    assert!(index.lines().count() > 500);
    place
        .ebb("run select --generate 3000 --seed 5 --output rows.tsv")
        .ok();
    let rows = place.read("rows.tsv");
    let (key, value) = rows.lines().next().unwrap().split_once('\t').unwrap();
    assert_eq!(key.len() + value.len(), 100);
    let (first, _) = value.split_once(' ').unwrap();
    let quoted = [key.to_string(), key.replace('"', "\"\"")];
    let lists = index
        .lines()
        .filter(|line| line.starts_with(&format!("{first},")));
    let lists: Vec<_> = lists.collect();
    assert_eq!(lists.len(), 1);
    assert!(quoted.iter().any(|key| lists[0].contains(key)), "{key}");
}

#[test]
fn ranks_add_up_to_one_and_pi_is_near() {
    let place = Place::new();
    place.write("links.txt", "# a small web\na b\nb c\nc a\nd a\n");
    place
        .ebb("run pagerank --text links.txt --iterations 40 --output ranks.csv")
        .ok();
    let ranks: BTreeMap<String, f64> = place
        .read("ranks.csv")
        .lines()
        .skip(1)
        .map(|line| line.split_once(',').unwrap())
        .map(|(node, rank)| (node.to_string(), rank.parse().unwrap()))
        .collect();
    assert_eq!(ranks.len(), 4);
    assert!((ranks.values().sum::<f64>() - 1.0).abs() < 1e-9);
    // No page links to d, so it has the base rank only: (1 - 0.85) / 4.
    assert!((ranks["d"] - 0.0375).abs() < 1e-9);
    let report = place
        .ebb("run pagerank --text links.txt --iterations 3 --output again.csv --json")
        .json();
    assert_eq!(report["name"], "pagerank");
    assert_eq!(report["counters"]["output_records"], 4);
    // Every iteration reads the ranks of the one before. These records once counted as rows of the input.
    assert_eq!(report["counters"]["map_input_records"], 5);
    assert_eq!(report["counters"]["map_input_bytes"], report["bytes_in"]);
    for variant in ["plain", "simd"] {
        let run = format!("run pi --points 3000000 --variant {variant} --output {variant}.tsv");
        place.ebb(&run).ok();
    }
    let pi = place.read("plain.tsv");
    assert_eq!(pi, place.read("simd.tsv"));
    let told = pi.lines().find_map(|line| line.strip_prefix("pi\t"));
    let told: f64 = told.unwrap().parse().unwrap();
    assert!((told - std::f64::consts::PI).abs() < 0.01, "{told}");
}

#[test]
fn a_job_over_files_needs_no_database_and_leaves_nothing_but_its_output() {
    let place = Place::new();
    place.write("a.txt", "one two two\n");
    let rows = place.ebb("run wordcount --text a.txt --output -").ok();
    assert_eq!(rows, "word\tcount\none\t1\ntwo\t2\n");
    let said = place.ebb("run wordcount --text b.txt --output -").fails(1);
    assert!(said.contains("b.txt"), "{said}");
    place
        .ebb("run wordcount --text a.txt --csv a.csv --output -")
        .refused();
    place.ebb("run wordcount --output -").refused();
    let files = std::fs::read_dir(place.dir.path()).unwrap();
    assert_eq!(files.count(), 1);
    // The next job removes the folder that a killed job left beside its target.
    place.write(".ebb-job-killed/lock", "");
    place.write(".ebb-job-killed/part-00000-1-x", "half\t1\n");
    place
        .ebb("run wordcount --text a.txt --output counts.csv")
        .ok();
    assert_eq!(place.read("counts.csv"), "word,count\none,1\ntwo,2\n");
    assert!(!place.path(".ebb-job-killed").exists());
}

#[test]
fn rows_with_equal_keys_are_refused_for_a_table() {
    let place = Place::with_corpus();
    let said = place
        .ebb("run sort --table app.lines --snapshot s --output app.sorted")
        .fails(2);
    assert!(said.contains("write to a file"), "{said}");
    let said = place
        .ebb("run combine --table app.lines --snapshot s --output app.files --reduces 2")
        .ok();
    assert!(said.contains("table app.files: 12 rows"), "{said}");
    // The rows of one job are CSV values for the next.
    let run = "run aggregate --table app.files --values csv --names rows,bytes --of rows";
    let rows = place.ebb(&format!("{run} --output - --format csv")).ok();
    let lines: Vec<&str> = rows.lines().collect();
    assert_eq!(
        lines[0],
        "group,rows,rows_count,rows_sum,rows_min,rows_max,rows_avg"
    );
    assert!(lines[1].starts_with("all,12,12,"), "{rows}");
}

/// This job runs in the idle scheduling class, the default. The jobs of all other tests do not, because
/// these tests set `EBB_TEST_UNPACED`.
#[test]
fn a_job_succeeds_in_the_default_scheduling_class() {
    let place = Place::new();
    let mut command = place.command("run pi --points 1 --output pi.tsv");
    Done::of(command.env_remove(UNPACED)).ok();
    assert!(place.read("pi.tsv").contains("pi\t"));
}

#[test]
fn the_applications_are_listed() {
    let place = Place::new();
    let apps = place.ebb("apps --json").json();
    assert!(
        apps.as_array()
            .unwrap()
            .iter()
            .any(|app| app["name"] == "sort")
    );
    assert!(place.ebb("apps").ok().contains("pagerank"));
}
