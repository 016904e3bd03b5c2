//! Tests of `ebb-bench experiments idle-memory` with few entries.

use std::process::Command;

use serde_json::Value;

/// Runs the experiment, and returns its JSON and its table.
#[track_caller]
fn idle_memory(entries: u64) -> (Value, String) {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("idle.json");
    let output = Command::new(env!("CARGO_BIN_EXE_ebb-bench"))
        .args([
            "experiments",
            "idle-memory",
            &format!("--entries={entries}"),
            "--json-file",
        ])
        .arg(&json)
        .output()
        .expect("it starts");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    let found = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    (found, String::from_utf8(output.stdout).unwrap())
}

#[test]
fn the_figure_is_the_memory_divided_by_the_entries() {
    let (found, table) = idle_memory(20_000);
    let number = |name: &str| found[name].as_f64().unwrap();
    let more = number("memory_bytes") - number("memory_empty_bytes");
    let per_entry = number("bytes_per_entry");
    assert!((per_entry - more / 20_000.0).abs() < 1e-6, "{found:#}");
    assert_eq!(found["settings"]["entries"], 20_000);
    assert!(table.contains("bytes for each entry"), "{table}");
}

#[test]
#[ignore = "nightly: resident memory depends on the allocator and on the kernel's reclaim"]
fn entries_cost_less_than_their_filter() {
    let (found, _) = idle_memory(200_000);
    let per_entry = found["bytes_per_entry"].as_f64().unwrap();
    // Filter (1.25 bytes for each entry) and index are cached only when reads need them. The rest
    // is what malloc keeps, which varies.
    assert!((-1.0..1.0).contains(&per_entry), "{found:#}");
    assert!(
        found["memory_bytes"].as_u64().unwrap() > 500_000,
        "{found:#}"
    );
}
