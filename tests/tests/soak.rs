//! The soak tool as a process: its report, its exit code, and the processes that
//! it kills.

use std::path::Path;
use std::process::{Command, Output};

use ebb_tests::kills;
use ebb_tests::report::{Budget, Counter};

const SOAK: &str = env!("CARGO_BIN_EXE_soak");

fn soak(arguments: &[&str]) -> Output {
    Command::new(SOAK).args(arguments).output().unwrap()
}

/// How often is said by `EBB_KILLS`, in runs of eight kills; one without it.
#[test]
fn what_was_acknowledged_before_a_sigkill_is_there_after_it() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seed = number("EBB_SEED").unwrap_or_else(rand::random::<u32>);
    println!("replay with EBB_SEED={seed}");
    for run in 0..number("EBB_KILLS").unwrap_or(8).div_ceil(8) {
        let seed = u64::from(seed + run);
        let report = kills::run(seed, &Budget::UNLIMITED, Path::new(SOAK));
        assert_eq!(report.failures, []);
        assert_eq!(report.counted(Counter::Kills), 8);
    }
}

#[test]
fn a_short_soak_counts_everything_and_finds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("soak.json");
    let output = soak(&[
        "--quick",
        "--seed",
        "1",
        "--json-file",
        json.to_str().unwrap(),
    ]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["seed"], 1);
    assert_eq!(report["failures"], serde_json::json!([]));
    for counter in [
        "crash_points",
        "faults",
        "bits_flipped",
        "metamorphic_ops",
        "configurations",
        "transactions_checked",
        "kills",
    ] {
        assert!(report[counter].as_u64().unwrap() > 0, "{counter}");
        assert!(text.contains(counter), "{text}");
    }
    assert_eq!(report["schedules"], 0);
    let why = report["skipped"]["schedules"].as_str().unwrap();
    assert!(why.contains("--schedules"), "{why}");
    // Where file systems cannot be mounted, it says so.
    let full_disks = report["full_disks"].as_u64().unwrap();
    assert!(full_disks > 0 || report["skipped"]["space"].is_string());
}

#[test]
fn one_case_runs_again_and_a_wrong_word_is_explained() {
    for case in [
        "crash:3:20",
        "crash:3:20:5",
        "faults:3:call:0:9",
        "faults:3:full:900",
    ] {
        let output = soak(&["--replay", case]);
        assert!(output.status.success(), "{case}: {output:?}");
    }
    for wrong in [
        "crash:x",
        "fire:1",
        "faults:3:call:0",
        "metamorphic:1:nothing",
    ] {
        let output = soak(&["--replay", wrong]);
        assert_eq!(output.status.code(), Some(2), "{wrong}: {output:?}");
    }
    let output = soak(&["--only", "crash,fire"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("metamorphic"), "it names the parts: {said}");
}
