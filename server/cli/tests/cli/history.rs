//! `ebb jobs`: the history of jobs, and jobs that a process left unfinished.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use ebb_jobs::history::{History, JobRecord, JobTables, OwnSnapshot, RecordState};
use ebb_jobs::request::OutputPlace;
use ebb_storage::{Db, Options};
use ebb_test_support::wait::until;
use procfs::process::Process;
use rustix::process::Signal;
use serde_json::Value;
use walkdir::WalkDir;

use crate::corpus::count_words;
use crate::place::{Place, Running, UNPACED, output};
use crate::signals;

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
fn names_of_files_stay_in_their_lines_of_the_list_of_jobs() {
    let place = Place::new();
    place.ebb("put --create app.t k v").ok();
    let mut run = place.command("run wordcount --table app.t --output");
    let ran = output(run.arg("./two\nlines\x1b[31m.tsv"));
    assert!(ran.status.success(), "{ran:?}");
    let listed = place.ebb("jobs").ok();
    assert_eq!(listed.lines().count(), 2, "{listed}");
    // Regression: the name changed the colour of the terminal, and began another line.
    for told in [listed, place.ebb("jobs last").ok()] {
        assert!(told.contains("\\u001b[31m.tsv"), "{told}");
        assert!(!told.contains('\x1b'), "{told}");
    }
}

#[test]
fn every_job_is_recorded_with_its_report_and_one_that_never_started_is_not() {
    let place = Place::with_corpus();
    assert_eq!(place.ebb("jobs --json").json(), serde_json::json!([]));
    assert_eq!(place.ebb("jobs").ok(), "there are no jobs to list\n");
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

/// Adds an unfinished job to the history, with a request that this build does not understand: the request has
/// the version `version`, and an unknown field.
fn leave_strange(place: &Place, id: &str, version: u64) {
    {
        let db = Db::open(place.path("ebb-data"), Options::default()).unwrap();
        let history = History::open(&db).unwrap();
        let mut record = history.jobs().unwrap().pop().unwrap();
        record.id = id.to_string();
        record.state = RecordState::Started;
        record.request["version"] = version.into();
        record.request["colour"] = "blue".into();
        let jobs = db.existing_keyspace("ebb_system").unwrap();
        let jobs = jobs.existing_table("jobs").unwrap();
        let row = serde_json::to_vec(&record).unwrap();
        jobs.put(id.as_bytes(), &row).unwrap();
    }
    place.until_unlocked();
}

#[test]
fn a_job_that_its_process_left_starts_again_over_its_own_snapshot() {
    let place = Place::with_corpus();
    let counts: BTreeMap<String, u64> = count_words(&place.path("corpus"));
    // What a killed process leaves: a record without an end, and the snapshot that it
    // made. The request is that of a job that ran.
    place
        .ebb("run wordcount --table app.lines --output app.first")
        .ok();
    place.ebb("snapshot create --table app.lines run-7").ok();
    {
        let db = Db::open(place.path("ebb-data"), Options::default()).unwrap();
        let history = History::open(&db).unwrap();
        let ended = history.jobs().unwrap().pop().unwrap();
        assert_eq!(ended.state, RecordState::Succeeded);
        assert_eq!(ended.own_snapshots[0].name, "run-1");
        let mut request = ended.request().unwrap();
        request.output.to = OutputPlace::File("again.tsv".into());
        let own = OwnSnapshot {
            input: 0,
            keyspace: "app".to_string(),
            name: "run-7".to_string(),
            seq: None,
        };
        history.begin(&request, vec![own], None).unwrap();
    }
    place.until_unlocked();
    // This row is written after the snapshot, so it must not be in the result.
    place.write("later.txt", "later\n");
    place.ebb("load --table app.lines later.txt").ok();
    assert!(place.ebb("jobs").ok().contains("unfinished"));
    place.ebb("jobs restart").ok();
    assert_eq!(self::counts(&place.read("again.tsv")), counts);
    let wordcount = |end| state("wordcount", end);
    assert_eq!(states(&place), ["succeeded", "succeeded"].map(wordcount));
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
fn a_job_of_another_version_is_refused_and_left_as_it_is() {
    let place = Place::with_corpus();
    let run = "run wordcount --table app.lines --snapshot s";
    place.ebb(&format!("{run} --output app.first")).ok();
    leave_strange(&place, "7000000000000", 2);
    leave_strange(&place, "7000000000001", 1);
    let said = place.ebb("jobs restart").fails(2);
    assert!(said.contains("has version 2"), "{said}");
    assert!(said.contains("unknown field `colour`"), "{said}");
    let wordcount = |end| state("wordcount", end);
    let left = ["succeeded", "started", "started"].map(wordcount);
    assert_eq!(states(&place), left);
    // The job is shown, and can be discarded.
    let shown = place.ebb("jobs 7000000000000").ok();
    assert!(shown.contains("unfinished"), "{shown}");
    place.ebb("jobs discard 7000000000000 7000000000001").ok();
    let cancelled = ["succeeded", "cancelled", "cancelled"].map(wordcount);
    assert_eq!(states(&place), cancelled);
}

/// Runs `ebb` with the words of `line`, which start a job that writes to the file `output`. Kills
/// the process after the job's first maps. Tries again if the job ended before the kill.
fn kill_in_the_middle(place: &Place, line: &str, output: &str) {
    let has_run = || {
        let spill = WalkDir::new(place.path("ebb-data/spill")).into_iter();
        let mut files = spill.flatten().filter(|entry| entry.file_type().is_file());
        files.any(|file| file.path().to_string_lossy().contains("/ebb-job-"))
    };
    for _ in 0..100 {
        let mut command = place.command(line);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = Running::start(&mut command);
        until("the first maps", || has_run() || child.has_ended());
        child.kill();
        let (_, state) = states(place).pop().unwrap();
        if state == "started" {
            assert!(!place.path(output).exists());
            return;
        }
        // The job ended before the kill.
        std::fs::remove_file(place.path(output)).unwrap();
    }
    panic!("every job ended before it was killed");
}

/// Loads 20,000 lines into the table `app.many`; returns the count of each word in them.
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
    place.ebb("load --table app.many many.txt").ok();
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

/// Regression: the next `ebb run` after a killed process executed the unfinished jobs before its
/// own.
#[test]
fn a_job_whose_process_was_killed_waits_for_ebb_jobs_restart() {
    let place = Place::new();
    let expected = many_lines(&place);
    let job = "run wordcount --table app.many --splits 30 --output killed.tsv --json";
    kill_in_the_middle(&place, job, "killed.tsv");
    place.write("later.txt", "later\n");
    place.ebb("load --table app.many later.txt").ok();
    place.write("ebb-data/spill/mine.txt", "of somebody else");

    let next = place.ebb("run grep --table app.many --pattern later --output next.tsv --json");
    assert!(next.stderr.contains("1 job unfinished"), "{}", next.stderr);
    assert_eq!(next.json()["name"], "grep");
    assert!(!place.path("killed.tsv").exists());
    let left = std::fs::read_dir(place.path("ebb-data/spill")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(
        left,
        ["mine.txt"],
        "what the killed process spilled is gone"
    );

    let again = place.ebb("jobs restart --json");
    assert!(
        again.stderr.contains("starting wordcount"),
        "{}",
        again.stderr
    );
    assert_eq!(again.json()["name"], "wordcount");
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
    // No unfinished jobs are left to restart.
    place.ebb("jobs restart").ok();
    assert_eq!(states(&place).len(), jobs.len());
}

#[test]
fn a_discarded_job_is_cancelled_and_its_snapshot_goes() {
    let place = Place::new();
    many_lines(&place);
    let job = "run wordcount --table app.many --splits 30 --output killed.tsv";
    kill_in_the_middle(&place, job, "killed.tsv");
    let said = place.ebb("jobs discard last").ok();
    assert!(said.starts_with("discarded wordcount"), "{said}");
    assert_eq!(
        states(&place).pop().unwrap(),
        state("wordcount", "cancelled")
    );
    let snapshots = place.ebb("snapshot list --json").json();
    assert_eq!(snapshots, serde_json::json!([]));
    place.ebb("jobs restart").ok();
    assert!(!place.path("killed.tsv").exists());
    let said = place.ebb("jobs discard last").fails(2);
    assert!(
        said.contains("was cancelled: there is nothing to discard"),
        "{said}"
    );
    let said = place.ebb("jobs discard 17").fails(3);
    assert!(said.contains("no job named \"17\""), "{said}");
}

/// Starts a job that does not end by itself, and waits until its first tasks run.
fn start_endless(place: &Place, mut command: Command) -> Running {
    let mut child = Running::start(command.stdout(Stdio::null()).stderr(Stdio::piped()));
    let spill = || WalkDir::new(place.path("ebb-data/spill")).into_iter();
    let is_at_work = || {
        let mut folders = spill().flatten();
        folders.any(|entry| entry.file_name().to_string_lossy().starts_with("ebb-job-"))
    };
    until("the first tasks", || is_at_work() || child.has_ended());
    child
}

/// Starts a job that does not end by itself, and sends its process a signal when its first tasks run.
/// Returns the exit code of the process (`None` if the signal ended it) and its standard error.
fn signal_in_the_middle(place: &Place, command: Command, signal: &str) -> (Option<i32>, String) {
    let child = start_endless(place, command);
    let mut kill = Command::new("kill");
    let kill = kill.arg(signal).arg(child.id().to_string()).status();
    assert!(kill.unwrap().success());
    let done = child.output();
    (done.status.code(), String::from_utf8(done.stderr).unwrap())
}

/// SIGTERM and SIGHUP once left a job unfinished, and the next `ebb run` executed it first.
#[test]
fn sigterm_and_sighup_cancel_a_job_as_ctrl_c_does() {
    let place = Place::with_corpus();
    let job = "run pi --points 100000000000000 --output app.pi";
    let heard = signals::heard();
    for signal in &heard {
        let (code, said) = signal_in_the_middle(&place, place.command(job), signal);
        assert_eq!(code, Some(6), "{signal}: {said}");
        assert!(said.contains("was cancelled"), "{said}");
        assert_eq!(states(&place).pop().unwrap(), state("pi", "cancelled"));
    }
    let next = place.ebb("run pi --points 1 --output app.pi");
    assert!(!next.stderr.contains("unfinished"), "{}", next.stderr);
    next.ok();
    assert_eq!(states(&place).len(), heard.len() + 1);
}

/// A job under `nohup` was once cancelled when the terminal was closed.
#[test]
fn a_signal_that_is_ignored_stays_ignored() {
    let place = Place::with_corpus();
    let ebb = env!("CARGO_BIN_EXE_ebb");
    let line = format!("trap '' HUP; exec {ebb} run pi --points 100000000000000 --output app.pi");
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &line])
        .current_dir(place.dir.path())
        .env_remove("EBB_DATA")
        .env(UNPACED, "1");
    let mut child = start_endless(&place, shell);
    // The first bit is SIGHUP's. A process that listens for a signal does not ignore it.
    let status = Process::new(child.id() as i32).unwrap().status().unwrap();
    assert_eq!(status.sigign & 1, 1, "{:#x}", status.sigign);
    child.signal(Signal::HUP);
    assert!(!child.has_ended());
    child.signal(Signal::TERM);
    let done = child.output();
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(6), "{said}");
    assert_eq!(states(&place).pop().unwrap(), state("pi", "cancelled"));
}

#[test]
fn a_job_that_ended_its_process_three_times_is_not_started_again() {
    let place = Place::with_corpus();
    place.ebb("run pi --points 1 --output app.pi").ok();
    {
        let db = Db::open(place.path("ebb-data"), Options::default()).unwrap();
        let history = History::open(&db).unwrap();
        let request = history.jobs().unwrap().pop().unwrap().request().unwrap();
        let deadly = history.begin(&request, Vec::new(), None).unwrap();
        let again = |job: &JobRecord| history.begin_again(job, Vec::new(), JobTables::default());
        again(&again(&deadly).unwrap()).unwrap();
    }
    place.until_unlocked();
    let said = place.ebb("jobs restart").fails(2);
    assert!(said.contains("was started 3 times"), "{said}");
    assert_eq!(states(&place)[1], state("pi", "failed"));
    let cause = place.ebb("jobs --json").json()[1]["report"]["outcome"]["cause"].clone();
    assert!(
        cause.as_str().unwrap().contains("not started again"),
        "{cause}"
    );
}

#[test]
fn a_job_for_a_terminal_that_is_gone_is_not_started_again() {
    let place = Place::with_corpus();
    let job = "run wordcount --table app.lines --snapshot s --output -";
    place.ebb(job).ok();
    {
        let db = Db::open(place.path("ebb-data"), Options::default()).unwrap();
        let history = History::open(&db).unwrap();
        let request = history.jobs().unwrap().pop().unwrap().request().unwrap();
        history.begin(&request, Vec::new(), None).unwrap();
    }
    place.until_unlocked();
    let said = place.ebb("jobs restart").fails(2);
    assert!(said.contains("for the terminal"), "{said}");
    let again = place.ebb(job);
    assert_eq!(counts(&again.rows()), count_words(&place.path("corpus")));
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
    // A slow task gets a second attempt, and the result of one of the two counts.
    let attempts = shown["attempts"].as_array().unwrap().iter();
    let attempts: Vec<_> = attempts
        .filter(|attempt| attempt["outcome"]["kind"] == "done")
        .collect();
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
        "the same work has one, of its last execution"
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
        told.contains("3 maps ") && told.contains("1 reduce "),
        "{told}"
    );
}

#[test]
fn the_systems_own_keyspace_is_not_for_others() {
    let place = Place::with_corpus();
    place.write("a.txt", "a\n");
    place.ebb("load --table ebb_system.t a.txt").fails(2);
    place
        .ebb("run wordcount --table app.lines --output app.counts")
        .ok();
    let said = place
        .ebb("run wordcount --table app.lines --output ebb_system.counts")
        .fails(2);
    assert!(said.contains("ebb's own"), "{said}");
}
