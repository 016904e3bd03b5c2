//! `ebb jobs`: what became of jobs, and those that a process left unfinished.

use std::collections::BTreeMap;
use std::process::Stdio;

use ebb_server::jobs::history::{History, NotedState};
use ebb_storage::{Db, Options};
use serde_json::Value;
use walkdir::WalkDir;

use crate::corpus::count_words;
use crate::place::Place;

fn states(place: &Place) -> Vec<(String, String)> {
    let jobs = place.ebb("jobs --json").json();
    let text = |job: &Value, name: &str| job[name].as_str().unwrap().to_string();
    let jobs = jobs.as_array().unwrap().iter();
    jobs.map(|job| (text(job, "application"), text(job, "state")))
        .collect()
}

fn state(application: &str, state: &str) -> (String, String) {
    (application.to_string(), state.to_string())
}

#[test]
fn every_job_is_noted_with_its_report_and_one_that_never_started_is_not() {
    let place = Place::with_corpus();
    assert_eq!(place.ebb("jobs --json").json(), serde_json::json!([]));
    let table = "--table app.lines --snapshot s";
    place
        .ebb(&format!("run wordcount {table} --output app.counts"))
        .ok();
    place
        .ebb(&format!("run wordcount {table} --output app.counts"))
        .fails(1);
    place
        .ebb(&format!("run sort {table} --numeric --output x.txt"))
        .fails(2);
    assert_eq!(
        states(&place),
        [state("wordcount", "succeeded"), state("sort", "failed")]
    );
    let jobs = place.ebb("jobs --json").json();
    let rows = count_words(&place.path("corpus")).len();
    assert_eq!(jobs[0]["report"]["counters"]["output_records"], rows);
    let cause = jobs[1]["report"]["outcome"]["cause"].as_str().unwrap();
    assert!(cause.contains("no number"), "{cause}");
    let listed = place.ebb("jobs").ok();
    assert!(
        listed.contains("wordcount") && listed.contains("failed"),
        "{listed}"
    );
}

#[test]
fn a_job_that_its_process_left_starts_again_over_its_own_snapshot() {
    let place = Place::with_corpus();
    let counts: BTreeMap<String, u64> = count_words(&place.path("corpus"));
    // What a killed process leaves: a note without an end, and the snapshot that it
    // made. The arguments are those of a job that ran.
    place
        .ebb("run wordcount --table app.lines --output app.first")
        .ok();
    place
        .ebb("snapshot create --keyspace app --table lines run-7")
        .ok();
    {
        let db = Db::open(place.path("ebb-data"), Options::default()).unwrap();
        let history = History::open(&db).unwrap();
        let ended = history.jobs().unwrap().pop().unwrap();
        assert_eq!(ended.state, NotedState::Succeeded);
        let mut arguments = ended.arguments.clone();
        let args = &mut arguments["arguments"];
        assert_eq!(args["input"]["owns_snapshot"], true);
        args["input"]["snapshot"] = "run-7".into();
        args["common"]["output"] = "again.tsv".into();
        history
            .begin("wordcount", arguments, place.dir.path())
            .unwrap();
        history
            .begin("wordcount", Value::Null, place.dir.path())
            .unwrap();
    }
    place.until_unlocked();
    // Written after the snapshot: not in the result.
    place.write("later.txt", "later\n");
    place
        .ebb("load --keyspace app --table lines later.txt")
        .ok();
    assert!(place.ebb("jobs").ok().contains("unfinished"));
    let said = place.ebb("run wordcount --table app.lines --output app.next --no-restart");
    assert!(said.stderr.contains("2 jobs unfinished"), "{}", said.stderr);

    let restarted = place.ebb("jobs --restart");
    assert!(
        restarted.stderr.contains("another version"),
        "{}",
        restarted.stderr
    );
    assert_eq!(restarted.code, 2);
    let found = place.read("again.tsv");
    let found: BTreeMap<String, u64> = found
        .lines()
        .map(|line| line.split_once('\t').unwrap())
        .map(|(word, count)| (word.to_string(), count.parse().unwrap()))
        .collect();
    assert_eq!(found, counts);
    let last: Vec<_> = states(&place).into_iter().rev().take(3).collect();
    let wordcount = |end| state("wordcount", end);
    let expected = ["succeeded", "failed", "succeeded"].map(wordcount);
    assert_eq!(last, expected);
    let left = place.ebb("snapshot list --json").json();
    let names: Vec<_> = left
        .as_array()
        .unwrap()
        .iter()
        .map(|s| &s["name"])
        .collect();
    assert_eq!(names, ["s"]);
}

/// Starts a job with an output file, and kills its process when its first maps are
/// done.
fn kill_in_the_middle(place: &Place, line: &str, output: &str) {
    let has_run = || {
        let spill = WalkDir::new(place.path("ebb-data/spill")).into_iter();
        let mut files = spill.flatten().filter(|entry| entry.file_type().is_file());
        files.any(|file| file.path().to_string_lossy().contains("/ebb-job-"))
    };
    for _ in 0..100 {
        let mut child = place.command(line).stderr(Stdio::null()).spawn().unwrap();
        while !has_run() && child.try_wait().unwrap().is_none() {}
        child.kill().unwrap();
        child.wait().unwrap();
        let (_, state) = states(place).pop().unwrap();
        if state == "started" {
            assert!(!place.path(output).exists());
            return;
        }
        // It was faster than we are.
        std::fs::remove_file(place.path(output)).unwrap();
    }
    panic!("every job ended before it was killed");
}

/// 20,000 lines in table `app.many`, and how often each word is in them.
fn many_lines(place: &Place) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    let mut text = String::new();
    for line in 0..20_000 {
        for word in [line % 7, line % 997, line % 10_007] {
            let word = format!("word{word}");
            text += &word;
            text.push(' ');
            *counts.entry(word).or_default() += 1;
        }
        text += &format!("{}\n", "-".repeat(100));
    }
    place.write("many.txt", text);
    place.ebb("load --keyspace app --table many many.txt").ok();
    counts
}

fn counts(text: &str) -> BTreeMap<String, u64> {
    let counts = text.lines().map(|line| line.split_once('\t').unwrap());
    let counts = counts.map(|(word, count)| (word.to_string(), count.parse().unwrap()));
    let mut all = BTreeMap::new();
    for (word, count) in counts {
        assert_eq!(all.insert(word, count), None, "every row once");
    }
    all
}

#[test]
fn a_job_whose_process_was_killed_is_done_by_the_next_run_over_its_own_snapshot() {
    let place = Place::new();
    let expected = many_lines(&place);
    let job = "run wordcount --table app.many --splits 30 --output killed.tsv --json";
    kill_in_the_middle(&place, job, "killed.tsv");
    place.write("later.txt", "later\n");
    place.ebb("load --keyspace app --table many later.txt").ok();
    place.write("ebb-data/spill/mine.txt", "of somebody else");

    let next = place.ebb("run grep --table app.many --pattern later --output next.tsv --json");
    assert!(
        next.stderr.contains("starting wordcount"),
        "{}",
        next.stderr
    );
    // One object: that of the job that was asked for.
    assert_eq!(next.json()["name"], "grep");
    assert_eq!(counts(&place.read("killed.tsv")), expected);
    assert_eq!(place.read("next.tsv").lines().count(), 1);
    let last: Vec<_> = states(&place).into_iter().rev().take(2).collect();
    assert_eq!(
        last,
        [state("grep", "succeeded"), state("wordcount", "succeeded")]
    );
    let jobs = place.ebb("jobs --json").json();
    let jobs = jobs.as_array().unwrap();
    assert_eq!(jobs[jobs.len() - 2]["starts"], 2);
    let snapshots = place.ebb("snapshot list --json").json();
    assert_eq!(snapshots, serde_json::json!([]), "its own went with it");
    let left = std::fs::read_dir(place.path("ebb-data/spill")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(
        left,
        ["mine.txt"],
        "what the killed process spilled is gone"
    );
}

#[test]
fn the_same_command_again_is_the_job_that_was_killed() {
    let place = Place::new();
    let expected = many_lines(&place);
    let job = "run wordcount --table app.many --splits 30 --output killed.tsv";
    kill_in_the_middle(&place, job, "killed.tsv");
    let before = states(&place).len();
    let again = place.ebb(job);
    assert!(
        again.stderr.contains("starting wordcount"),
        "{}",
        again.stderr
    );
    assert!(again.ok().starts_with("wordcount succeeded"));
    assert_eq!(counts(&place.read("killed.tsv")), expected);
    assert_eq!(states(&place).len(), before, "no job beside");
}

#[test]
fn a_job_that_ended_its_process_three_times_is_not_started_again() {
    let place = Place::with_corpus();
    {
        let db = Db::open(place.path("ebb-data"), Options::default()).unwrap();
        let history = History::open(&db).unwrap();
        let deadly = history.begin("pi", Value::Null, place.dir.path()).unwrap();
        let deadly = history.begin_again(&deadly).unwrap();
        history.begin_again(&deadly).unwrap();
    }
    place.until_unlocked();
    let done = place.ebb("run grep --table app.lines --pattern x --output ./x.tsv");
    assert!(
        done.stderr.contains("was started 3 times"),
        "{}",
        done.stderr
    );
    done.ok();
    assert_eq!(states(&place)[0], state("pi", "failed"));
    let cause = place.ebb("jobs --json").json()[0]["report"]["outcome"]["cause"].clone();
    assert!(
        cause.as_str().unwrap().contains("not started again"),
        "{cause}"
    );
}

#[test]
fn what_was_for_a_terminal_that_is_gone_is_not_started_again() {
    let place = Place::with_corpus();
    let job = "run wordcount --table app.lines --snapshot s --output -";
    place.ebb(job).ok();
    {
        let db = Db::open(place.path("ebb-data"), Options::default()).unwrap();
        let history = History::open(&db).unwrap();
        let ended = history.jobs().unwrap().pop().unwrap();
        let arguments = ended.arguments.clone();
        history
            .begin("wordcount", arguments, &ended.directory)
            .unwrap();
    }
    place.until_unlocked();
    let again = place.ebb(job);
    assert!(
        again.stderr.contains("for the terminal"),
        "{}",
        again.stderr
    );
    assert_eq!(counts(&again.ok()), count_words(&place.path("corpus")));
    let wordcount = |end| state("wordcount", end);
    assert_eq!(
        states(&place),
        ["succeeded", "failed", "succeeded"].map(wordcount)
    );
}

#[test]
fn a_job_is_shown_with_its_counters_and_the_attempts_at_its_tasks() {
    let place = Place::with_corpus();
    let run = "run wordcount --table app.lines --snapshot s --splits 5 --reduces 2";
    let report = place
        .ebb(&format!("{run} --output app.counts --json"))
        .json();
    let shown = place.ebb("jobs last --json").json();
    assert_eq!(shown["report"]["counters"], report["counters"]);
    let attempts = shown["attempts"].as_array().unwrap();
    assert_eq!(attempts.len() as u64, report["tasks"].as_u64().unwrap());
    let of = |kind: &str, field: &str| -> u64 {
        let of_kind = attempts.iter().filter(|attempt| attempt["kind"] == kind);
        of_kind
            .map(|attempt| attempt[field].as_u64().unwrap())
            .sum()
    };
    let counters = &report["counters"];
    assert_eq!(
        of("map", "bytes_in"),
        counters["map_input_bytes"].as_u64().unwrap()
    );
    assert_eq!(
        of("reduce", "bytes_in"),
        counters["reduce_input_bytes"].as_u64().unwrap()
    );
    let told = place.ebb("jobs last").ok();
    for part in [
        "wordcount",
        "succeeded",
        "map input records",
        "slowest",
        "reduces",
    ] {
        assert!(told.contains(part), "{part} in {told}");
    }

    place
        .ebb("run sort --table app.lines --snapshot s --numeric --output x.txt")
        .fails(2);
    let failed = place.ebb("jobs last --json").json();
    let causes = failed["attempts"].as_array().unwrap().iter();
    let causes = causes.filter(|attempt| attempt["outcome"]["kind"] == "failed");
    let causes: Vec<_> = causes
        .map(|attempt| attempt["outcome"]["cause"].to_string())
        .collect();
    assert!(!causes.is_empty(), "{failed}");
    assert!(
        causes.iter().all(|cause| cause.contains("no number")),
        "{causes:?}"
    );
    assert!(place.ebb("jobs last").ok().contains("no number"));
    let said = place.ebb("jobs 17").fails(3);
    assert!(said.contains("no job named \"17\""), "{said}");
}

#[test]
fn what_tasks_took_is_kept_by_application_and_work() {
    let place = Place::with_corpus();
    assert_eq!(
        place.ebb("jobs --profiles --json").json(),
        serde_json::json!([])
    );
    let run = "run wordcount --table app.lines --snapshot s";
    let first = place
        .ebb(&format!("{run} --output app.first --json"))
        .json();
    place
        .ebb(&format!("{run} --output app.second --splits 3"))
        .ok();
    place.ebb("run pi --points 1000000 --output app.pi").ok();
    let profiles = place.ebb("jobs --profiles --json").json();
    let profiles = profiles.as_array().unwrap();
    let names: Vec<_> = profiles
        .iter()
        .map(|p| p["application"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["pi", "wordcount"],
        "the same work has one, of its last run"
    );
    let (name, measured) = (
        &profiles[1]["measured"][0][0],
        &profiles[1]["measured"][0][1],
    );
    assert_eq!(
        (name.as_str(), profiles[1]["input"].as_str()),
        (Some("wordcount"), Some("app.lines"))
    );
    assert_eq!(
        measured["map"]["bytes_in"],
        first["counters"]["map_input_bytes"]
    );
    assert_eq!(measured["map"]["tasks"], 3);
    let told = place.ebb("jobs --profiles").ok();
    assert!(
        told.contains("3 maps") && told.contains("1 reduces"),
        "{told}"
    );
}

#[test]
fn the_systems_own_keyspace_is_not_for_others() {
    let place = Place::with_corpus();
    place.write("a.txt", "a\n");
    place.ebb("load --keyspace system --table t a.txt").fails(2);
    place
        .ebb("run wordcount --table app.lines --output app.counts")
        .ok();
    let said = place
        .ebb("run wordcount --table app.lines --output system.counts")
        .fails(2);
    assert!(said.contains("ebb's own"), "{said}");
}
