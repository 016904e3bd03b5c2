//! `ebb-bench experiments idle-memory` as a user meets it, with few entries.

use std::process::Command;

use serde_json::Value;

#[test]
fn entries_cost_a_filter_and_little_more() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("idle.json");
    let output = Command::new(env!("CARGO_BIN_EXE_ebb-bench"))
        .args([
            "experiments",
            "idle-memory",
            "--entries=200000",
            "--json-file",
        ])
        .arg(&json)
        .output()
        .expect("it starts");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    let found: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let per_entry = found["bytes_per_entry"].as_f64().unwrap();
    // 1.25 bytes are the filter's; the rest varies with what malloc keeps.
    assert!((1.0..20.0).contains(&per_entry), "{found:#}");
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("bytes for each entry"), "{table}");
}
