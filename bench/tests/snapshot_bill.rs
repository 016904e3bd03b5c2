//! Tests of `ebb-bench experiments snapshot-bill` with tiny sizes.

use std::process::{Command, Output};

use serde_json::Value;

fn snapshot_bill(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebb-bench"));
    command.args(["experiments", "snapshot-bill"]).args(args);
    command.output().expect("it starts")
}

#[test]
fn a_bill_has_both_cases_of_each_round_and_their_ratios() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("bill.json");
    let output = snapshot_bill(&[
        "--entries=4000",
        "--overwrites=32000",
        "--memtable-mb=1",
        "--wait=0.05",
        "--idle=0.05",
        "--rounds=2",
        "--json-file",
        json.to_str().unwrap(),
    ]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    assert!(
        stderr.is_empty(),
        "no progress without a terminal: {stderr}"
    );
    let bill: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{bill:#}"));
    // 4000 incompressible entries of 116 bytes.
    let live_bytes = number(&bill["live_bytes"]);
    assert!((400e3..600e3).contains(&live_bytes), "{live_bytes}");
    // The snapshot's entries and the live ones; the log may add to these.
    assert!(number(&bill["disk_over_live"]) > 1.5, "{bill:#}");
    assert!(number(&bill["memory_over_none"]) > 0.0, "{bill:#}");
    for (ratio, peak) in [
        ("disk_over_live", "disk_over_live_peak"),
        ("disk_over_live_without", "disk_over_live_without_peak"),
    ] {
        assert!(number(&bill[ratio]) <= number(&bill[peak]), "{bill:#}");
    }
    assert!(
        number(&bill["disk_over_live_after_drop"]) >= 0.9,
        "{bill:#}"
    );
    let rounds = bill["rounds"].as_array().unwrap();
    assert_eq!(rounds.len(), 2);
    for round in rounds {
        assert!(round["with"]["space_after_drop"]["memory_bytes"].as_u64() > Some(0));
        assert!(round["without"]["space_after_drop"].is_null());
    }
    assert_eq!(bill["settings"]["overwrites"], 32_000);
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("disk over live after drop"), "{table}");
}

#[test]
fn help_has_examples_and_a_wrong_scale_is_explained() {
    let help = snapshot_bill(&["--help"]);
    let help = String::from_utf8(help.stdout).unwrap();
    for part in ["--entries", "Examples:", "--json-file bill.json"] {
        assert!(help.contains(part), "{part}: {help}");
    }
    for wrong in ["--entries=0", "--rounds=0", "--wait=-1"] {
        let output = snapshot_bill(&[wrong]);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
    }
}
