//! Tests of `ebb-bench experiments colocation` with short windows. They judge no figures, because
//! the machine may be busy.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// The most runs of a trial. A trial is run again if other processes leave the jobs no CPU in it.
const RUNS_MAX: u32 = 10;

/// Runs the trial. Repeats it while other processes leave the jobs no CPU, at most [`RUNS_MAX`]
/// times in all.
fn trial(json: &Path, figures: &Path) -> Output {
    for _ in 0..RUNS_MAX {
        let output = Command::new(env!("CARGO_BIN_EXE_ebb-bench"))
            .args([
                "experiments",
                "colocation",
                "--part=loads,cache",
                "--load=30,70",
            ])
            .args(["--window=0.3", "--rounds=2", "--json-file"])
            .arg(json)
            .arg("--figures")
            .arg(figures)
            .output()
            .expect("it starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        if !stderr.contains("other processes leave no CPU") {
            return output;
        }
        println!("waiting for an idle moment: {stderr}");
    }
    panic!("other processes left jobs no CPU in {RUNS_MAX} runs");
}

/// Checks the measured windows of a contender, a way to run jobs beside a load. In each window, the
/// threads of tasks were in the contender's scheduling class. The reported fraction of idle CPU
/// that jobs used is positive if jobs had CPU in every window, and 0 if jobs had CPU in no window.
/// Windows without CPU for jobs are no error, because other processes may use all CPU during a
/// short window.
fn has_cpu_of_jobs(against: &Value) {
    let classes = match against["name"].as_str().unwrap() {
        "unmanaged" => &["normal priority"][..],
        _ => &["SCHED_IDLE", "nice 19"],
    };
    let windows = against["windows"].as_array().unwrap();
    assert!(!windows.is_empty(), "{against:#}");
    let mut cores = Vec::new();
    for window in windows {
        let class = window["scheduling_class"].as_str().unwrap_or("none");
        assert!(classes.contains(&class), "{class} in {window:#}");
        cores.push(window["analytics_cores"].as_f64().unwrap());
    }
    let used = against["idle_cpu_used"].as_f64().unwrap();
    if cores.iter().all(|&cores| cores > 0.0) {
        assert!(used > 0.0, "{against:#}");
    }
    if cores.iter().all(|&cores| cores == 0.0) {
        assert_eq!(used, 0.0, "{against:#}");
    }
}

#[test]
#[ignore = "nightly: it measures, and needs a machine that is otherwise idle"]
fn a_trial_shows_jobs_beside_the_load_and_the_load_alone() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("colocation.json");
    let output = trial(&json, dir.path());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    let found: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();

    let loads = found["loads"].as_array().unwrap();
    let shares: Vec<_> = loads
        .iter()
        .map(|row| row["load"].as_f64().unwrap())
        .collect();
    assert_eq!(shares, [0.3, 0.7]);
    for row in loads {
        for figure in [
            "load_achieved",
            "managed_p99_over_alone",
            "managed_p99_over_alone_low",
            "managed_p99_over_alone_high",
            "unmanaged_p99_over_alone",
            "alone_again_p99_over_alone",
            "noise_p99",
            "managed_p999_over_alone",
        ] {
            let value = row[figure].as_f64().unwrap_or(-1.0);
            assert!(value > 0.0, "{figure} in {row:#}");
        }
        let trial = &row["trial"];
        for (figure, name) in [
            ("idle_cpu_used", "managed"),
            ("unmanaged_idle_cpu_used", "unmanaged"),
        ] {
            let contenders = trial["contenders"].as_array().unwrap();
            let jobs = contenders.iter().find(|against| against["name"] == name);
            let jobs = jobs.unwrap();
            assert_eq!(row[figure], jobs["idle_cpu_used"], "{figure} in {row:#}");
            has_cpu_of_jobs(jobs);
        }
        for window in trial["alone"].as_array().unwrap() {
            for window in window.as_array().unwrap() {
                assert!(window["scheduling_class"].is_null(), "{window:#}");
            }
        }
        let [low, high] = ["low", "high"].map(|end| {
            let name = format!("managed_p99_over_alone_{end}");
            row[name.as_str()].as_f64().unwrap()
        });
        assert!(low <= high, "{row:#}");
        // One window in each of the two rounds.
        assert_eq!(row["trial"]["alone"][1].as_array().unwrap().len(), 2);
    }
    for against in found["cache"]["contenders"].as_array().unwrap() {
        let hits = against["cache_hits_over_alone"].as_f64().unwrap_or(-1.0);
        assert!(hits > 0.0, "{against:#}");
        has_cpu_of_jobs(against);
    }
    assert!(found["step"].is_null() && found["guard"].is_null());
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(
        table.contains("alone again") && table.contains("70%, batches of 50:"),
        "{table}"
    );
    let picture = std::fs::read_to_string(dir.path().join("colocation-latency.svg")).unwrap();
    assert!(picture.contains("unmanaged"), "{picture}");
}
