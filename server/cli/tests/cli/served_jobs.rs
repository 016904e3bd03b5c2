//! Jobs of a database that a server holds.

use std::process::Stdio;

use ebb_test_support::wait::until_some;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::place::{Place, Running, closed};
use crate::serving::Server;

/// The argument of a job that does not end by itself: more points than any machine draws in the
/// time of a test.
const ENDLESS: &str = "--points 1000000000000000";

/// Starts a server in a working directory whose database has the corpus.
fn served() -> (Place, Server) {
    let place = Place::with_corpus();
    place.until_unlocked();
    let server = Server::start(&place, "");
    (place, server)
}

/// A command that waits for a job.
struct Waiting(Running);

impl Waiting {
    /// Sends SIGTERM, which `ebb` handles like SIGINT. SIGINT itself would have no effect if the
    /// tests run in the background of a script, where processes ignore it.
    fn interrupt(&self) {
        self.0.signal(Signal::TERM);
    }

    /// Waits until the command ends; returns its exit code and its messages.
    #[track_caller]
    fn ends(self) -> (Option<i32>, String) {
        let output = self.0.output();
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), said)
    }
}

/// Starts a command that submits an endless job and waits for it. Returns it and the job's id,
/// once the job runs.
fn endless(place: &Place, output: &str) -> (Waiting, String) {
    let known = jobs(place).len();
    let mut command = place.command(&format!("run pi {ENDLESS} --output {output}"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let waiting = Waiting(Running::start(&mut command));
    // The server records a job before it runs.
    let id = until_some("the job to run", || {
        let id = jobs(place).get(known)?["id"].as_str()?.to_string();
        let shown = place.ebb(&format!("jobs {id}")).ok();
        shown.contains(": running").then_some(id)
    });
    (waiting, id)
}

fn jobs(place: &Place) -> Vec<Value> {
    let jobs = place.ebb("jobs --json").json();
    jobs.as_array().unwrap().clone()
}

#[test]
fn a_job_runs_in_the_server_and_is_reported_as_without_one() {
    let (place, server) = served();
    let job = "run wordcount --table app.lines --snapshot s";
    let said = place.ebb(&format!("{job} --output app.counts")).ok();
    assert!(said.contains("wordcount succeeded in"), "{said}");
    assert!(said.contains("input   app.lines at s: "), "{said}");
    assert!(said.contains("output  table app.counts: "), "{said}");
    let report = place
        .ebb(&format!("{job} --output served.tsv --json"))
        .json();
    assert_eq!(report["outcome"], json!({"kind": "succeeded"}));
    assert_eq!(report["input"], "app.lines");
    assert_eq!(report["policy"], "forecast-edf");
    assert_eq!(report["output"], "file served.tsv");
    // The rows come to the terminal of this command, without the report among them.
    let done = place.ebb(&format!("{job} --output -"));
    assert!(
        done.stderr.contains("output  the terminal"),
        "{}",
        done.stderr
    );
    assert_eq!(done.rows(), place.read("served.tsv"));
    let late = format!("{job} --output late.tsv --goal 1us");
    place.ebb(&late).fails(7);
    assert!(place.path("late.tsv").exists());
    let told = place
        .ebb(&format!("{job} --output x.tsv --goal 30s --dry-run"))
        .ok();
    assert!(told.contains("as probably as not"), "{told}");
    let told = place.ebb(&format!("{job} --output - --dry-run")).ok();
    assert!(told.contains("as probably as not"), "{told}");

    let listed = jobs(&place);
    assert_eq!(listed.len(), 4);
    assert_eq!(report["job"], listed[1]["id"]);
    assert!(place.ebb("jobs last").ok().contains("wordcount"));
    assert!(place.ebb("jobs --profiles").ok().contains("wordcount"));
    assert_eq!(server.stop(), Some(0));
    place.ebb(&format!("{job} --output own.tsv")).ok();
    assert_eq!(place.read("own.tsv"), place.read("served.tsv"));
    assert!(!place.path("ebb-data/jobs.sock").exists());
}

/// Regression: with a server, the report was missing and the exit code was 0.
#[test]
fn a_job_whose_rows_have_no_reader_is_reported_as_without_a_server() {
    let (place, _server) = served();
    let mut command = place.command("run wordcount --table app.lines --goal 1us --output -");
    command.stdout(closed()).stderr(Stdio::piped());
    let done = Running::start(&mut command).output();
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(7), "{said}");
    assert!(said.contains("output  the terminal"), "{said}");
}

/// Regression: a job over files ran in the process of its command, not in the server, unless the
/// name of its output had a dot.
#[test]
fn a_job_over_files_runs_in_the_server_whatever_its_output_is() {
    let (place, _server) = served();
    place.write("a.txt", "one two two\n");
    let job = "run wordcount --text a.txt --output";
    place.ebb(&format!("{job} words")).ok();
    place.ebb(&format!("{job} words.tsv")).ok();
    assert_eq!(place.read("words"), place.read("words.tsv"));
    let shown = place.ebb(&format!("{job} -")).ok();
    assert_eq!(shown, format!("word\tcount\n{}", place.read("words")));
    let listed = place.ebb("jobs list --limit 1").ok();
    assert!(listed.trim_end().ends_with("  a.txt  -"), "{listed}");
    let json = place.ebb(&format!("{job} - --format json-lines")).ok();
    assert_eq!(json.lines().next(), Some(r#"{"word":"one","count":1}"#));
    assert_eq!(jobs(&place).len(), 4);
    let said = place.ebb(&format!("{job} more --memory 64MiB")).fails(2);
    assert!(
        said.contains("--memory is for jobs of this process"),
        "{said}"
    );
}

#[test]
fn what_a_server_refuses_exits_as_without_one() {
    let (place, _server) = served();
    let job = "run wordcount --table app.lines";
    place
        .ebb(&format!("{job} --snapshot none --output x.tsv"))
        .fails(3);
    place
        .ebb("run wordcount --table app.none --output x.tsv")
        .fails(3);
    place.ebb(&format!("{job} --output none.t")).fails(2);
    place
        .ebb("run aggregate --table app.lines --by no --output x.tsv")
        .fails(2);
    place.write("there.tsv", "");
    let said = place.ebb(&format!("{job} --output there.tsv")).fails(1);
    assert!(said.contains("there.tsv exists"), "{said}");
    for option in [
        "--policy fifo",
        "--priority normal",
        "--memory 64MiB",
        "--spill-dir .",
    ] {
        let said = place
            .ebb(&format!("{job} --output x.tsv {option}"))
            .fails(2);
        assert!(said.contains("runs in the server"), "{said}");
    }
    place.ebb("jobs 17").fails(3);
    place.ebb("jobs discard 17").fails(3);
    place.ebb("jobs restart 17").fails(3);
    assert_eq!(jobs(&place), Vec::<Value>::new());
}

/// Regression: with a server the exit code was 1, not 2.
#[test]
fn a_malformed_scenario_is_exit_code_2_with_a_server_and_without() {
    let (place, server) = served();
    place.write("bad.toml", "seed = \n");
    let fails = || {
        let run = "run simulate --scenario bad.toml --output x.csv";
        let said = place.ebb(run).fails(2);
        assert!(said.contains("bad.toml"), "{said}");
    };
    fails();
    assert_eq!(jobs(&place), Vec::<Value>::new());
    assert_eq!(server.stop(), Some(0));
    fails();
    assert!(!place.path("x.csv").exists());
}

#[test]
fn a_signal_cancels_the_job_in_the_server_and_so_does_another_command() {
    let (place, _server) = served();
    let (waiting, id) = endless(&place, "app.pi");
    let shown = place.ebb(&format!("jobs {id}")).ok();
    assert!(shown.contains(": running"), "{shown}");
    assert!(shown.contains("maps"), "{shown}");
    place.ebb(&format!("jobs discard {id}")).fails(2);
    waiting.interrupt();
    let (code, said) = waiting.ends();
    assert_eq!(code, Some(6), "{said}");
    assert!(said.contains(&format!("cancelling {id}")), "{said}");
    let (waiting, id) = endless(&place, "app.pi");
    let told = place.ebb(&format!("jobs cancel {id}")).ok();
    assert_eq!(told, format!("cancelling pi {id}\n"));
    assert_eq!(waiting.ends().0, Some(6));
    let states: Vec<_> = jobs(&place)
        .iter()
        .map(|job| job["state"].clone())
        .collect();
    assert_eq!(states, ["cancelled", "cancelled"]);
    let ended = format!("pi {id} was cancelled: there is nothing to cancel");
    let told = place.ebb(&format!("jobs cancel 17 {id}")).fails(2);
    assert!(told.contains("no job named \"17\""), "{told}");
    assert!(told.ends_with(&format!("ebb: {ended}\n")), "{told}");
}

#[test]
fn a_cancelled_job_is_listed_by_its_state_and_retried_as_another_job() {
    let (place, _server) = served();
    let (waiting, id) = endless(&place, "app.pi");
    place.ebb(&format!("jobs cancel {id}")).ok();
    assert_eq!(waiting.ends().0, Some(6));
    let job = "run wordcount --table app.lines --snapshot s --output x.tsv";
    place.ebb(job).ok();
    let ids = |options: &str| -> Vec<Value> {
        let listed = place.ebb(&format!("jobs list --json {options}")).json();
        let jobs = listed.as_array().unwrap().iter();
        jobs.map(|job| job["id"].clone()).collect()
    };
    assert_eq!(ids("--state cancelled"), [json!(id)]);
    assert_eq!(ids("--limit 1"), ids("--state succeeded"));
    assert_eq!(ids("--application wordcount").len(), 1);
    assert_eq!(ids("--application pi --state failed"), Vec::<Value>::new());
    let shown = place.ebb(&format!("jobs show {id}")).ok();
    assert_eq!(shown, place.ebb(&format!("jobs {id}")).ok());
    let said = place.ebb("jobs retry last").fails(2);
    assert!(said.contains("nothing to retry"), "{said}");
    let again = place.ebb(&format!("jobs retry --detach {id}")).ok();
    let again = again.trim();
    assert_ne!(again, id);
    place.ebb(&format!("jobs cancel {again}")).ok();
}

#[test]
fn a_server_puts_no_output_of_a_job_into_its_directory() {
    let (place, _server) = served();
    std::os::unix::fs::symlink("ebb-data", place.path("linked")).unwrap();
    let request = json!({
        "application": {"pi": {"points": 1, "seed": 1, "variant": "plain"}},
        "output": {"to": {"file": "linked/pi.tsv"}},
        "directory": place.path(""),
    });
    place.write("job.json", request.to_string());
    let said = place.ebb("jobs submit job.json").fails(2);
    assert!(said.contains("in the directory of the database"), "{said}");
    assert!(!place.path("ebb-data/pi.tsv").exists());
    assert_eq!(jobs(&place).len(), 0);
}

#[test]
fn a_request_with_a_key_is_submitted_once() {
    let (place, _server) = served();
    let request = json!({
        "application": {"pi": {"points": 1, "seed": 1, "variant": "plain"}},
        "output": {"to": {"file": "pi.tsv"}},
        "directory": place.path(""),
    });
    place.write("job.json", request.to_string());
    let submit = |key: &str| place.ebb(&format!("jobs submit --key {key} job.json"));
    let id = submit("nightly").ok();
    place.until_succeeded(id.trim());
    assert_eq!(submit("nightly").ok(), id);
    assert_eq!(jobs(&place).len(), 1);
}

#[test]
fn the_settings_of_a_server_are_printed_with_their_origins() {
    let place = Place::with_corpus();
    place.until_unlocked();
    let _server = Server::start(&place, "--cluster-name shop");
    let shown = place.ebb("config running").ok();
    let is_there = |line: &str| shown.lines().any(|shown| shown == line);
    assert!(is_there("cluster-name = \"shop\" # flag"), "{shown}");
    assert!(is_there("durability = \"100ms\""), "{shown}");
    assert!(is_there("# health is not set"), "{shown}");
    let json = place.ebb("config running --json").json();
    let settings = json["settings"].as_array().unwrap();
    let cql = settings.iter().find(|setting| setting["name"] == "cql");
    let cql = cql.unwrap()["value"].as_str().unwrap();
    assert!(
        !cql.ends_with(":0"),
        "the port is the one that the system chose: {cql}"
    );
}

#[test]
fn a_detached_job_goes_on_without_its_command_and_over_a_stop_of_the_server() {
    let (place, server) = served();
    let job = format!("run pi {ENDLESS} --output app.pi --detach");
    let id = place.ebb(&job).ok();
    let id = id.trim();
    let (waiting, waited) = endless(&place, "app.other");
    assert_eq!(server.stop(), Some(0));
    let (code, said) = waiting.ends();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("is unfinished"), "{said}");
    let said = place.ebb(&job).fails(2);
    assert!(said.contains("ebb serve"), "{said}");
    place.ebb(&format!("jobs cancel {id}")).fails(2);
    let _server = Server::start(&place, "");
    for id in [id, &waited] {
        let shown = place.ebb(&format!("jobs {id}")).ok();
        assert!(shown.contains(": running"), "{shown}");
        assert!(shown.contains(", 2 times"), "{shown}");
        place.ebb(&format!("jobs cancel {id}")).ok();
    }
}

#[test]
fn a_job_of_a_server_that_is_killed_starts_again_with_the_next_and_its_result_is_right() {
    let (place, server) = served();
    let job = "run wordcount --table app.lines --reduces 2";
    place.ebb(&format!("{job} --output expected.tsv")).ok();
    // Killed at several moments: before, while and after the job runs.
    let mut server = Some(server);
    for (attempt, looks) in [0, 2, 6].into_iter().enumerate() {
        let output = format!("app.counts{attempt}");
        // Another job is submitted first, so that this one waits for a while.
        let (first, _) = endless(&place, &format!("app.pi{attempt}"));
        let id = place.ebb(&format!("{job} --output {output} --detach")).ok();
        let id = id.trim();
        (0..looks).for_each(|_| drop(jobs(&place)));
        server.take().unwrap().kill();
        let (code, said) = first.ends();
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("does not answer"), "{said}");
        assert!(place.path("ebb-data/jobs.sock").exists(), "it was left");
        let next = Server::start(&place, "");
        let pi = jobs(&place);
        let pi = pi
            .iter()
            .rev()
            .find(|job| job["application"] == "pi")
            .unwrap();
        place
            .ebb(&format!("jobs cancel {}", pi["id"].as_str().unwrap()))
            .ok();
        place.until_succeeded(id);
        assert_eq!(next.stop(), Some(0));
        let counted = place.ebb(&format!("scan {output}")).ok();
        assert_eq!(sorted(&counted), sorted(&place.read("expected.tsv")));
        let snapshots = place.ebb("snapshot list --json").json();
        assert_eq!(snapshots.as_array().unwrap().len(), 1, "{snapshots}");
        server = Some(Server::start(&place, ""));
    }
}

fn sorted(lines: &str) -> Vec<&str> {
    let mut lines: Vec<_> = lines.lines().collect();
    lines.sort_unstable();
    lines
}
