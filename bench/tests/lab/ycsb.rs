//! Tests of `ebb-bench ycsb`: small runs of every workload.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn ebb_bench(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebb-bench"));
    command.arg("ycsb").args(args).output().expect("it starts")
}

/// Runs the command successfully, and returns its JSON.
#[track_caller]
fn measure(dir: &Path, args: &[&str]) -> Value {
    let json = dir.join("outcome.json");
    let mut all = vec!["--json-file", json.to_str().unwrap()];
    all.extend(args);
    let output = ebb_bench(&all);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    assert!(
        stderr.is_empty(),
        "no progress without a terminal: {stderr}"
    );
    serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap()
}

#[track_caller]
fn fails_with(args: &[&str], code: i32, expected: &str) {
    let output = ebb_bench(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
    assert!(stderr.contains(expected), "{args:?}: {stderr}");
}

#[test]
fn every_workload_reads_what_it_wrote_and_reports_it() {
    let workloads = [
        ("a", "update"),
        ("b", "update"),
        ("c", "read"),
        ("d", "insert"),
        ("e", "scan"),
        ("f", "read_modify_write"),
        ("thesis-a", "update"),
        ("thesis-b", "update"),
        ("thesis-c", "read_modify_write"),
        ("thesis-d", "read"),
        ("thesis-e", "insert"),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (name, operation) in workloads {
        // The records take 3 MB, three times the memtable, so that each run has flushes.
        let sizes = ["--records", "3000", "--ops", "4000", "--memtable-mb", "1"];
        let mut args = vec!["--workload", name];
        args.extend(sizes);
        let outcome = measure(dir.path(), &args);
        assert_eq!(outcome["workload"], name);
        assert_eq!(outcome["operations"], 4000, "{name}");
        assert_eq!(outcome["mismatches"], 0, "{name}");
        assert_eq!(outcome["not_found"], 0, "{name}");
        assert_eq!(outcome["load"]["records"], 3000, "{name}");
        for positive in [
            &outcome["throughput_ops_per_s"],
            &outcome["ops_per_cpu_s"],
            &outcome["load"]["mb_per_s"],
            &outcome["directory_bytes"],
            &outcome["memory_peak_bytes"],
            &outcome["usage"]["cpu_s"],
            &outcome["written_with_load"]["wal_bytes"],
            &outcome["written_with_load"]["wal_syncs"],
            &outcome["written_with_load"]["flush_bytes"],
            &outcome["written_with_load"]["amplification"],
            &outcome["latencies"][operation]["count"],
            &outcome["latencies"][operation]["throughput_ops_per_s"],
            &outcome["latencies"][operation]["p50_us"],
            &outcome["latencies"][operation]["p999_us"],
            &outcome["latencies_all"]["max_us"],
            &outcome["timeline"][0]["length_s"],
        ] {
            assert!(positive.as_f64() > Some(0.0), "{name}: {outcome:#}");
        }
        for field in [
            "stalls",
            "stall_s",
            "throttles",
            "throttle_s",
            "wait_us_max",
        ] {
            assert!(
                outcome["write_stalls"][field].is_number(),
                "{name}: {outcome:#}"
            );
        }
        let percentiles = &outcome["latencies"][operation];
        let us = |field: &str| percentiles[field].as_f64().unwrap();
        assert!(us("p50_us") <= us("p95_us") && us("p95_us") <= us("p99_us"));
        assert!(us("p99_us") <= us("p999_us") && us("p999_us") <= us("max_us"));
        // Workload e has no point reads. In the others about half of the 4000 operations or more read
        // one record, so that 1000 is a safe bound.
        if name != "e" {
            assert!(outcome["reads"]["runs_touched_per_read"].is_number());
            assert!(outcome["reads"]["point_reads"].as_u64() > Some(1000));
        }
    }
}

/// Three runs on one directory. Every value has the version of its write, so the largest version
/// that a run read shows whether it read writes of earlier runs.
#[test]
fn a_snapshot_keeps_its_values_after_later_writes() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let data = data.to_str().unwrap();
    let run = |more: &[&str]| {
        let mut args = vec!["--data", data, "--records", "2000", "--ops", "6000"];
        args.extend(["--memtable-mb", "1", "--value-bytes", "500"]);
        args.extend(more);
        let outcome = measure(dir.path(), &args);
        assert_eq!(outcome["mismatches"], 0);
        assert_eq!(outcome["not_found"], 0);
        outcome
    };
    let first = run(&["--workload", "a", "--read-from", "snapshot:before"]);
    assert_eq!(first["version_read_max"], 0, "as loaded");
    assert!(first["latencies"]["update"]["count"].as_u64() > Some(0));

    let live = run(&["--workload", "d", "--distribution", "uniform"]);
    assert!(live["load"].is_null(), "the records were there");
    assert!(
        live["version_read_max"].as_u64() > Some(0),
        "updates are seen"
    );
    assert!(live["latencies"]["insert"]["count"].as_u64() > Some(0));

    let again = run(&["--workload", "e", "--read-from", "snapshot:before"]);
    assert!(
        again["records"].as_u64() > Some(2000),
        "the live table grew"
    );
    assert_eq!(again["version_read_max"], 0, "still as loaded");
    let after = run(&["--workload", "c", "--read-from", "snapshot:after"]);
    assert!(after["version_read_max"].as_u64() > Some(0));
}

/// Runs an open loop of a second with five snapshots, and returns its JSON. `end` is the option
/// that ends the run, and its value.
fn open_loop_with_snapshots(end: [&str; 2]) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let args = [
        ["--workload", "a"],
        ["--records", "2000"],
        ["--target", "2000"],
        ["--snapshots", "5"],
        end,
    ];
    measure(dir.path(), &args.concat())
}

#[test]
fn snapshots_during_an_open_loop_are_reported_beside_the_writers() {
    let outcome = open_loop_with_snapshots(["--ops", "2000"]);
    assert_eq!(outcome["operations"], 2000);
    assert_eq!(outcome["open_loop"], true);
    assert_eq!(outcome["timeline"][0]["target_ops_per_s"], 2000.0);
    let snapshots = &outcome["snapshots"];
    assert_eq!(snapshots["requested"], 5);
    // If the machine stalls, the run may end before the last windows.
    let taken = snapshots["taken"].as_u64().unwrap();
    assert!(taken <= 5, "{snapshots:#}");
    let count = |array: &Value| array.as_array().unwrap().len() as u64;
    assert_eq!(count(&snapshots["creation_us"]), taken);
    assert_eq!(count(&snapshots["writes_around"]["windows"]), taken);
    assert!(count(&snapshots["writes_between"]["windows"]) <= taken);
    for kind in ["writes_around", "writes_between"] {
        let windows = snapshots[kind]["windows"].as_array().unwrap();
        let writes = |of: &Value| of["writes"]["count"].as_u64().unwrap();
        let in_windows: u64 = windows.iter().map(writes).sum();
        assert_eq!(writes(&snapshots[kind]), in_windows, "{snapshots:#}");
    }
}

#[test]
#[ignore = "nightly: it measures a rate, and a stall of the machine leaves snapshots out"]
fn an_open_loop_of_a_second_has_room_for_five_snapshots() {
    let outcome = open_loop_with_snapshots(["--duration", "1"]);
    let rate = outcome["throughput_ops_per_s"].as_f64().unwrap();
    assert!((1000.0..2100.0).contains(&rate), "{rate}");
    let snapshots = &outcome["snapshots"];
    assert_eq!(snapshots["taken"], 5, "{snapshots:#}");
    assert!(snapshots["creation_max_us"].as_f64() > Some(0.0));
    for kind in ["writes_around", "writes_between"] {
        assert_eq!(snapshots[kind]["windows"].as_array().unwrap().len(), 5);
        assert!(snapshots[kind]["writes"]["count"].as_u64() > Some(0));
    }
}

#[test]
fn the_error_for_a_wrong_command_line_has_the_right_values() {
    fails_with(&["--workload", "g"], 2, "thesis-e");
    fails_with(&["--workload", "a", "--target", "0"], 2, "above 0");
    fails_with(&["--workload", "a", "--records", "0"], 2, "1..");
    fails_with(&["--workload", "a", "--duration", "-1"], 2, "above 0");
    fails_with(&["--workload", "a", "--value-bytes", "10"], 2, "24");
    fails_with(
        &["--workload", "a", "--read-from", "yesterday"],
        2,
        "snapshot:NAME",
    );
    fails_with(&["--workload", "a", "--distribution", "flat"], 2, "uniform");
    fails_with(&["--workload", "a", "--connections", "3"], 2, "--cql");
    let served = |more: [&str; 2], code, expected| {
        let args = ["--workload", "a", "--cql", "127.0.0.1:1", more[0], more[1]];
        fails_with(&args, code, expected);
    };
    served(["--data", "x"], 2, "cannot be used with");
    served(["--durability", "sync"], 2, "cannot be used with");
    served(["--in-flight", "1"], 1, "cannot connect to 127.0.0.1:1");
}

#[test]
fn an_error_of_the_disk_ends_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let args = ["--workload", "c", "--data", file.to_str().unwrap()];
    fails_with(&args, 1, "error: ");
}

#[test]
fn help_shows_examples_and_workloads() {
    let output = ebb_bench(&["--help"]);
    let help = String::from_utf8_lossy(&output.stdout);
    for part in [
        "Examples:",
        "thesis-c",
        "50% read, 50% update",
        "--read-from",
    ] {
        assert!(help.contains(part), "{part}: {help}");
    }
}
