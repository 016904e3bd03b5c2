use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use serde_json::json;

use super::super::model::{Deed, ServerState};
use super::*;

/// Returns a running job, as in a response of the server.
fn job(id: &str, maps_done: u32, slack_s: f64) -> JobView {
    let record = json!({
        "id": id, "application": "wordcount", "request": {}, "own_snapshots": [],
        "state": "started", "started_unix_ms": 0, "starts": 1, "commits": false,
        "ended_unix_ms": null, "report": null, "attempts_dropped": 0,
    });
    let status = json!({
        "id": 1, "name": "wordcount", "is_lease": false, "state": "running", "follows": [],
        "submitted_s": 0.0, "goal_s": 100.0, "finished_s": null, "share_hundredths": 95,
        "tasks_running": 1, "maps_done": maps_done, "maps_total": 8, "reduces_done": 0,
        "reduces_total": 2, "attempts_failed": 0, "cpu_s": 1.0, "cause": null,
    });
    let finish_unix_ms = (100.0 - slack_s) as u64 * 1000;
    serde_json::from_value(json!({
        "record": record,
        "run": {"inputs": [], "policy": "forecast-edf", "estimate": null,
                "progress": {"step": 1, "steps": 1, "status": status}},
        "prediction": {
            "finish_unix_ms": finish_unix_ms, "low_unix_ms": finish_unix_ms - 2000,
            "high_unix_ms": finish_unix_ms + 2000, "goal_unix_ms": 100_000,
            "slack_s": slack_s, "method": "lookahead/forecast-edf",
        },
        "end": null,
    }))
    .unwrap()
}

/// Returns a running backup that has copied a quarter of its bytes.
fn backup(id: &str) -> JobView {
    let mut backup = serde_json::to_value(job(id, 0, 0.0)).unwrap();
    backup["record"]["application"] = json!("backup");
    backup["record"]["request"] = json!({
        "application": {"backup": {"by": "cron"}}, "output": {"to": {"folder": "nightly"}},
    });
    backup["run"]["progress"]["bytes"] = json!({
        "bytes_done": 1_u64 << 30, "bytes_total": 4_u64 << 30, "bytes_per_s": 64 << 20,
    });
    backup["prediction"] = json!(null);
    serde_json::from_value(backup).unwrap()
}

fn state() -> ServerState {
    let sample = |second: u32| {
        json!({
            "at_unix_ms": second * 1000, "load_cores": f64::from(second % 2) + 0.5,
            "others_cores": 0.0, "analytics_cores": 0.95, "capacity_cores": 1.2,
            "requests_per_s": 12_000.4, "p50_us": 80.0, "p99_us": 1234.0, "p999_us": 9000.0,
            "bound_us": 2000.0,
        })
    };
    let load = json!({
        "now_unix_ms": 20_000, "cores": 2,
        "objective": {"quantile": "p99", "bound_us": 2000.0, "ratio": null},
        "samples": (1..=20).map(sample).collect::<Vec<_>>(),
        "guard": [{"at_unix_ms": 7, "action": "hold", "allowed_ratio": 0.8, "slack_ratio": -0.5}],
        "shares": [],
    });
    let table = json!({
        "keyspace": "app", "table": "users", "memtable_bytes": 0, "frozen_memtables": 0,
        "file_bytes": 3_146_752_u64, "files": 5, "runs": 5, "bookmarks": 1, "versions": 9,
        "live_bytes": 3_145_728_u64, "pinned_bytes": 1024, "garbage_bytes": 0,
        "compaction_debt_bytes": 0, "merges": 0, "pressure_ratio": 0.0,
    });
    ServerState {
        load: serde_json::from_value(load).unwrap(),
        jobs: vec![job("1002", 3, -12.0), job("1001", 8, 30.0)],
        tables: vec![serde_json::from_value(table).unwrap()],
    }
}

fn model() -> Model {
    let mut model = Model::new("./ebb-data".to_string());
    model.show(state());
    model
}

fn screen(model: &Model) -> String {
    let mut terminal = Terminal::new(TestBackend::new(96, 22)).unwrap();
    terminal.draw(|frame| draw(frame, model)).unwrap();
    let screen = terminal.backend().to_string();
    let lines = screen.lines().map(|line| line.trim_matches('"').trim_end());
    lines.collect::<Vec<_>>().join("\n")
}

const SCREEN: &str = include_str!("screen.txt");

#[test]
fn a_server_is_shown_whole() {
    let shown = screen(&model());
    assert_eq!(shown, SCREEN.trim_end(), "\n{shown}");
}

/// Regression: the slack was that of the guard's last change of its action, which may be hours old.
#[test]
fn the_slack_is_that_of_the_last_sample() {
    let line = |p99_us: Option<f64>, bound_us: Option<f64>| {
        let mut state = state();
        let last = state.load.samples.last_mut().unwrap();
        (last.p99_us, last.bound_us) = (p99_us, bound_us);
        let mut model = Model::new("./ebb-data".to_string());
        model.show(state);
        screen(&model).lines().nth(2).unwrap().to_string()
    };
    let guard = "guard: hold, allows 80%";
    let expected = format!("objective p99 2.00 ms, slack -50%   {guard}");
    assert_eq!(line(Some(3000.0), Some(2000.0)), expected);
    let unknown = format!("objective p99 2.00 ms   {guard}");
    assert_eq!(line(Some(3000.0), None), unknown);
    // An older server sends 0 for a second without requests.
    for p99_us in [None, Some(0.0)] {
        assert_eq!(line(p99_us, Some(2000.0)), unknown);
    }
}

/// Regression: before the first sample all cores were 0.00, and a second without requests had latencies of 0 us.
#[test]
fn numbers_that_are_not_known_are_not_shown_as_0() {
    let head = |state: ServerState| {
        let mut model = Model::new("./ebb-data".to_string());
        model.show(state);
        let shown = screen(&model);
        let lines = shown.lines().take(2).map(str::to_string);
        lines.collect::<Vec<_>>()
    };
    let mut quiet = state();
    let last = quiet.load.samples.last_mut().unwrap();
    (last.requests_per_s, last.p50_us) = (0.0, None);
    (last.p99_us, last.p999_us) = (None, Some(0.0));
    assert_eq!(head(quiet)[1], "0 requests/s   p50 -  p99 -  p99.9 -");
    let mut young = state();
    young.load.samples.clear();
    assert_eq!(head(young), ["./ebb-data   2 cores: not measured yet", ""]);
}

/// Regression: the goal was shown only with a prediction, and a job that was predicted not to end within a week
/// looked like one without a prediction.
#[test]
fn a_job_without_a_predicted_end_has_its_goal_and_is_late_if_it_misses_that() {
    // The time of the response is 20 s.
    let shown = |goal_s: Option<f64>, beyond_unix_ms: Option<u64>| {
        let mut job = serde_json::to_value(job("1001", 3, 0.0)).unwrap();
        job["prediction"] = json!(null);
        job["record"]["request"] = json!({"goal_s": goal_s});
        job["beyond_horizon"] =
            json!(beyond_unix_ms.map(|horizon_unix_ms| {
            let goal_unix_ms = goal_s.map(|goal_s| goal_s * 1e3).map(|goal_ms| goal_ms as u64);
            json!({"horizon_unix_ms": horizon_unix_ms, "goal_unix_ms": goal_unix_ms, "method": ""})
        }));
        let mut state = state();
        state.jobs = vec![serde_json::from_value(job).unwrap()];
        let mut model = Model::new("./ebb-data".to_string());
        model.show(state);
        let shown = screen(&model);
        let row = shown.lines().find(|line| line.contains("1001")).unwrap();
        let (_, end) = row.trim_matches('│').split_once("0.95").unwrap();
        let cells = end
            .split("  ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty());
        cells.collect::<Vec<_>>().join(", ")
    };
    let week = Some(604_820_000);
    for (goal_s, beyond_unix_ms, expected) in [
        (None, None, ""),
        (Some(100.0), None, "80.0 s"),
        (Some(14.0), None, "-6.0 s, -6.0 s"),
        (None, week, "> 1 week"),
        (Some(100.0), week, "> 1 week, 80.0 s, late"),
        (Some(14.0), week, "> 1 week, -6.0 s, -6.0 s"),
        // A goal after the horizon may still be met.
        (Some(720_020.0), week, "> 1 week, 200.0 h"),
    ] {
        assert_eq!(shown(goal_s, beyond_unix_ms), expected, "{goal_s:?}");
    }
}

#[test]
fn the_silence_of_the_server_is_shown_until_it_responds() {
    let mut model = model();
    let first_line = |model: &Model| screen(model).lines().next().unwrap().to_string();
    let cores = first_line(&model);
    model.note_silence(Some(Duration::from_millis(1999)));
    assert_eq!(first_line(&model), cores);
    model.note_silence(Some(Duration::from_millis(3900)));
    let silent = "./ebb-data   the server has not responded for 3 seconds: this is its last state";
    assert_eq!(first_line(&model), silent);
    model.note_silence(None);
    assert_eq!(first_line(&model), cores);
}

#[test]
fn the_reason_why_a_job_waits_is_shown_below_the_jobs() {
    let mut state = state();
    let run = state.jobs[0].run.as_mut().unwrap();
    let wait = json!({"kind": "others", "used_cores": 1.95, "cores": 2.0});
    run.progress.waits = Some(serde_json::from_value(wait).unwrap());
    let mut model = Model::new("./ebb-data".to_string());
    model.show(state);
    let shown = screen(&model);
    let line = "└1002 waits: other processes use 1.95 of 2 cores─";
    assert!(shown.contains(line), "\n{shown}");
}

#[test]
fn a_job_is_chosen_and_cancelled_once_that_is_confirmed() {
    let mut model = model();
    let press = |model: &mut Model, code| model.press(KeyEvent::from(code));
    assert_eq!(model.chosen_of(&model.jobs), Some(0));
    assert_eq!(press(&mut model, KeyCode::Down), Deed::Nothing);
    assert_eq!(press(&mut model, KeyCode::Down), Deed::Nothing);
    assert_eq!(model.chosen_of(&model.jobs), Some(1));
    assert_eq!(press(&mut model, KeyCode::Char('c')), Deed::Nothing);
    assert!(screen(&model).contains("cancel 1002?"));
    assert_eq!(press(&mut model, KeyCode::Char('n')), Deed::Nothing);
    assert_eq!(press(&mut model, KeyCode::Char('y')), Deed::Nothing);
    press(&mut model, KeyCode::Char('c'));
    assert_eq!(
        press(&mut model, KeyCode::Char('y')),
        Deed::Cancel("1002".to_string())
    );
    assert_eq!(press(&mut model, KeyCode::Char(' ')), Deed::Nothing);
    assert!(model.is_held() && screen(&model).contains("held"));
    assert_eq!(press(&mut model, KeyCode::Char('q')), Deed::End);
}

#[test]
fn backups_are_shown_below_the_jobs_with_their_rate_and_can_be_cancelled() {
    let mut state = state();
    // It is older than the jobs.
    state.jobs.push(backup("1000"));
    let mut model = Model::new("./ebb-data".to_string());
    model.show(state);
    let shown = screen(&model);
    assert!(shown.contains("2 jobs run"), "\n{shown}");
    let row = shown.lines().find(|line| line.contains("1000")).unwrap();
    let cells = row.trim_matches('│').split("  ").map(str::trim);
    let cells: Vec<_> = cells.filter(|cell| !cell.is_empty()).collect();
    let expected = [
        "1000",
        "backup",
        "1.00 GiB of 4.00 GiB",
        "64.00 MiB",
        "48.0 s",
        "nightly",
    ];
    assert_eq!(cells, expected, "\n{shown}");
    for code in [KeyCode::Down, KeyCode::Down, KeyCode::Down] {
        model.press(KeyEvent::from(code));
    }
    assert_eq!(model.chosen_of(&model.jobs), None);
    assert_eq!(model.chosen_of(&model.maintenance), Some(0));
    model.press(KeyEvent::from(KeyCode::Char('c')));
    let confirmed = model.press(KeyEvent::from(KeyCode::Char('y')));
    assert_eq!(confirmed, Deed::Cancel("1000".to_string()));
}

#[test]
fn the_choice_stays_with_its_job_and_goes_when_that_ends() {
    let mut model = model();
    model.press(KeyEvent::from(KeyCode::Down));
    let mut next = state();
    next.jobs.push(job("1000", 0, 1.0));
    model.show(next);
    assert_eq!(
        model.chosen_of(&model.jobs),
        Some(2),
        "1002 is the third now"
    );
    let mut last = state();
    last.jobs.remove(0);
    model.show(last);
    assert_eq!(model.chosen_of(&model.jobs), Some(0));
    let mut none = state();
    none.jobs.clear();
    model.show(none);
    assert_eq!(model.chosen_of(&model.jobs), None);
    assert_eq!(
        model.press(KeyEvent::from(KeyCode::Char('c'))),
        Deed::Nothing
    );
    assert!(
        !screen(&model).contains("cancel "),
        "there is nothing to cancel"
    );
}
