//! The soak tool as a process: its report, its exit code, and the processes that
//! it kills.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ebb_test_support::seed::{for_seeds, number};
use ebb_tests::kills;
use ebb_tests::report::{Budget, Counter};

const SOAK: &str = env!("CARGO_BIN_EXE_soak");
/// The number of kills unless `EBB_KILLS` is set: one for each durability that the killed processes
/// use in turn.
const KILLS: u64 = 3;

/// Lets only one of these tests run at a time, until the guard is dropped. Between fork and exec, a
/// child process holds the lock files that this process has open. So a store that another test
/// closes meanwhile would stay locked for a moment.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn soak(arguments: &[&str]) -> Output {
    Command::new(SOAK).args(arguments).output().unwrap()
}

/// The environment variable `EBB_KILLS` is the number of kills. Each seed has at most
/// [`kills::KILLS`] of them, so a larger number is rounded up to a multiple of that.
#[test]
fn what_was_acknowledged_before_a_sigkill_is_there_after_it() {
    let _turn = alone();
    let per_seed_max = u64::from(kills::KILLS);
    let total = number("EBB_KILLS").unwrap_or(KILLS);
    let per_seed = total.min(per_seed_max);
    let test = "what_was_acknowledged_before_a_sigkill_is_there_after_it";
    for_seeds(test, total.div_ceil(per_seed_max), |seed| {
        let report = kills::run(seed, &Budget::cases(per_seed), Path::new(SOAK));
        assert_eq!(report.failures, []);
        assert_eq!(report.counted(Counter::Kills), per_seed);
    });
}

#[test]
fn a_short_soak_counts_everything_and_finds_nothing() {
    let _turn = alone();
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
    // Where file systems cannot be mounted, the report has the reason.
    let full_disks = report["full_disks"].as_u64().unwrap();
    assert!(full_disks > 0 || report["skipped"]["space"].is_string());
}

#[test]
fn one_case_is_replayed_and_an_unknown_one_is_refused() {
    let _turn = alone();
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
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("metamorphic"),
        "it names the parts: {stderr}"
    );
}
