//! `ebb jobs`: what became of jobs, and those that a process left unfinished.

use std::collections::BTreeMap;

use ebb_server::jobs::history::{History, NotedState};
use ebb_storage::{Db, Options};
use serde_json::Value;

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
        .fails(6);
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
    let said = place.ebb("run wordcount --table app.lines --output app.next");
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
