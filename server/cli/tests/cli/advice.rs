//! `ebb run --goal` and `--dry-run`: the estimate before a job starts.

use crate::place::Place;

/// The job whose estimates are tested, without its output and its goal.
pub const RUN: &str = "run wordcount --table app.lines --snapshot s --splits 4";

#[test]
fn without_a_profile_the_estimate_only_explains_how_to_get_one() {
    let place = Place::with_corpus();
    let told = place
        .ebb(&format!("{RUN} --output app.a --goal 1h --dry-run"))
        .ok();
    assert!(told.contains("leaves a profile"), "{told}");
    let told = place.ebb(&format!("{RUN} --output app.a --goal 1h --dry-run --json"));
    let told = told.json();
    assert_eq!(
        (&told["goal_s"], &told["advice"]),
        (&3600.0.into(), &serde_json::Value::Null)
    );
    let ran = place.ebb(&format!("{RUN} --output app.a --goal 1h --json"));
    assert!(ran.stderr.contains("leaves a profile"), "{}", ran.stderr);
    assert!(ran.json()["advice"].is_null());
    // A job that reads and writes files only has no database to keep a profile in.
    place.write("words.txt", "a b c\n");
    let files = "run wordcount --text words.txt --output ./x.tsv --dry-run";
    let told = place.ebb(files).ok();
    assert!(told.contains("this job uses none"), "{told}");
    assert!(!place.path("x.tsv").exists());
}

#[test]
fn a_job_is_believed_to_take_what_its_last_run_took() {
    let place = Place::with_corpus();
    place.ebb(&format!("{RUN} --output app.first")).ok();
    let profiles = place.ebb("jobs --profiles --json").json();
    let measured = &profiles[0]["measured"][0][1];
    let jobs = place.ebb("jobs --json").json();

    let dry = |goal: &str| {
        let run = format!("{RUN} --output app.second --dry-run --json --goal {goal}");
        place.ebb(&run).json()["advice"].clone()
    };
    let told = dry("1h");
    assert_eq!(told["is_same_work"], true);
    assert_eq!(told["profile_of"], jobs[0]["id"]);
    let splits = told["maps"].as_f64().unwrap();
    for (kind, tasks) in [("map", splits), ("reduce", 1.0)] {
        let cpu_s = measured[kind]["cpu_s"].as_f64().unwrap() / tasks;
        let estimate_s = told[format!("{kind}_task_cpu_s")].as_f64().unwrap();
        // The bytes on the disk differ a little from those that were read.
        assert!(
            (estimate_s / cpu_s - 1.0).abs() < 0.2,
            "{estimate_s} for {cpu_s}: {told}"
        );
    }
    assert!(told["met_probability"].as_f64().unwrap() > 0.95, "{told}");
    assert!(told["lateness"].is_null(), "{told}");
    let late = dry("1us");
    assert!(late["met_probability"].as_f64().unwrap() < 0.05);
    assert!(
        late["lateness"]["late_by_s"].as_f64().unwrap() > 0.0,
        "{late}"
    );
    assert!(late["lateness"]["publication"].is_null(), "{late}");
    let safe_s = told["safe_goal_s"].as_f64().unwrap();
    assert!(safe_s >= told["median_s"].as_f64().unwrap(), "{told}");

    // The dry run has run no job.
    place.ebb("scan app.second").fails(3);
    assert_eq!(place.ebb("jobs --json").json(), jobs);
    let told = place
        .ebb(&format!("{RUN} --output app.second --dry-run --goal 1h"))
        .ok();
    for part in [
        "4 maps",
        "1 reduce",
        "met with 95%",
        "of 1h is met with probability over 0.99",
    ] {
        assert!(told.contains(part), "{part} in {told}");
    }

    // The run adds the ratio of its time to its estimate to the profile. The first run had no estimate.
    let ran = place.ebb(&format!("{RUN} --output app.second --goal 1h --json"));
    assert!(
        ran.stderr.contains("met with probability"),
        "{}",
        ran.stderr
    );
    assert!(ran.json()["advice"]["met_probability"].as_f64().unwrap() > 0.95);
    let profiles = place.ebb("jobs --profiles --json").json();
    assert_eq!(
        profiles[0]["took_over_estimate"].as_array().unwrap().len(),
        1
    );
}

#[test]
fn a_chain_has_an_estimate_once_it_has_run_also_for_another_number_of_iterations() {
    let place = Place::new();
    place.write("links.txt", "a b\nb a\nb c\n");
    place.ebb("load --table app.links links.txt").ok();
    let run = |iterations: u32, rest: &str| {
        let run =
            format!("run pagerank --table app.links --iterations {iterations} --goal 1h {rest}");
        place.ebb(&run)
    };
    let first = run(2, "--output app.first");
    assert!(
        first.stderr.contains("leaves a profile"),
        "{}",
        first.stderr
    );
    first.ok();
    for (iterations, is_same_work) in [(2, true), (5, false)] {
        let told = run(iterations, "--output app.ranks --dry-run --json").json();
        let advice = &told["advice"];
        assert_eq!(advice["is_same_work"], is_same_work, "{told}");
        // A job for the links, one for each iteration, and one for the ranks, which has no reduce.
        assert_eq!(advice["jobs"], iterations + 2, "{told}");
        assert_eq!(advice["maps"], iterations + 2, "{told}");
        assert_eq!(advice["reduces"], iterations + 1, "{told}");
    }
    let told = run(2, "--output app.ranks --dry-run").ok();
    assert!(
        told.starts_with("pagerank of 4 jobs, 4 maps, 3 reduces: "),
        "{told}"
    );
    assert!(told.contains("is met with probability"), "{told}");
    let again = run(2, "--output app.second");
    assert!(
        again.stderr.contains("is met with probability"),
        "{}",
        again.stderr
    );
    again.ok();
}

#[test]
fn other_work_of_the_application_is_a_hint() {
    let place = Place::with_corpus();
    place
        .ebb("run wordcount --table app.lines --output app.first --prefix corpus/d0")
        .ok();
    let told = place
        .ebb(&format!("{RUN} --output app.a --dry-run --json"))
        .json();
    assert_eq!(told["advice"]["is_same_work"], false);
    assert!(told["advice"]["met_probability"].is_null());
    let told = place.ebb(&format!("{RUN} --output app.a --dry-run")).ok();
    assert!(told.contains("other work of the application"), "{told}");
}

/// Regression: the estimate for a job of 178,000 rows, made from a profile of 4 rows, was off by a
/// factor of 100.
#[test]
fn a_profile_of_a_few_rows_gives_no_estimate_for_many() {
    let place = Place::with_corpus();
    place.write("few.txt", "a b\nb c\nc d\nd e\n");
    place.write("many.txt", "some words in a line\n".repeat(178_000));
    for table in ["few", "many"] {
        let load = format!("load --table app.{table} {table}.txt");
        place.ebb(&load).ok();
    }
    place
        .ebb("run wordcount --table app.few --output app.a")
        .ok();
    let run = "run wordcount --table app.many --output app.b --goal 1h";
    let told = place.ebb(&format!("{run} --dry-run")).ok();
    assert!(told.contains("is not known: it reads"), "{told}");
    let told = place.ebb(&format!("{run} --dry-run --json")).json();
    assert!(told["advice"].is_null(), "{told}");
    let why = told["unknown_because"].as_str().unwrap();
    assert!(why.contains("which was measured"), "{why}");
    let ran = place.ebb(&format!("{run} --json"));
    assert!(ran.stderr.contains("is not known"), "{}", ran.stderr);
    assert_eq!(ran.json()["met"], true);
    // With a profile of its own, the job has an estimate.
    let again = "run wordcount --table app.many --output app.c --goal 1h --dry-run --json";
    let told = place.ebb(again).json();
    assert!(
        told["advice"]["median_s"].as_f64().unwrap() < 3600.0,
        "{told}"
    );
}

#[test]
fn a_dry_run_refuses_what_a_run_refuses() {
    let place = Place::with_corpus();
    place.write("mine.tsv", "mine");
    let said = place
        .ebb(&format!("{RUN} --output mine.tsv --dry-run"))
        .fails(1);
    assert!(said.contains("mine.tsv exists"), "{said}");
}

#[test]
fn tasks_together_get_the_memory_of_the_option() {
    let place = Place::new();
    let lines: String = (0..60_000)
        .map(|n| format!("{:07} {}\n", n * 7919 % 60_000, "x".repeat(90)))
        .collect();
    place.write("lines.txt", &lines);
    let sort = "run sort --text lines.txt --cores 2 --splits 2 --json";
    let counters = |memory: &str, output: &str| {
        let report = place
            .ebb(&format!("{sort} --memory {memory} --output {output}"))
            .json();
        report["counters"].clone()
    };
    let little = counters("1MiB", "little.txt");
    let much = counters("64MiB", "much.txt");
    assert!(
        little["spills"].as_u64() > much["spills"].as_u64(),
        "{little} {much}"
    );
    assert!(
        little["memory_bytes_max"].as_u64().unwrap() <= 512 << 10,
        "{little}"
    );
    assert!(
        much["memory_bytes_max"].as_u64().unwrap() > 512 << 10,
        "{much}"
    );
    assert_eq!(place.read("little.txt"), place.read("much.txt"));
    let said = place
        .ebb(&format!("{sort} --memory 1KiB --output x.txt"))
        .fails(2);
    assert!(said.contains("at least 32.0 KiB"), "{said}");
    let said = place
        .ebb(&format!("{sort} --memory 1EiB --output x.txt"))
        .fails(2);
    assert!(said.contains("more than the machine has"), "{said}");
    place
        .ebb(&format!("{sort} --memory much --output x.txt"))
        .refused();
}
