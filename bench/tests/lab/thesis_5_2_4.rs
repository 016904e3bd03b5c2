//! Tests of `ebb-bench experiments thesis-5.2.4` with tiny sizes.

use std::process::{Command, Output};

use serde_json::Value;

fn thesis(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebb-bench"));
    command.args(["experiments", "thesis-5.2.4"]).args(args);
    command.output().expect("it starts")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value:#}"))
}

#[test]
fn every_table_and_figure_of_the_section_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    let [json, markdown, figures] = ["t.json", "t.md", "figures"].map(|name| dir.path().join(name));
    let output = thesis(&[
        "--records=1000",
        "--ops=300",
        "--seconds=0.01",
        "--rounds=1",
        "--iterations=3",
        "--memtable-kb=64",
        "--json-file",
        json.to_str().unwrap(),
        "--markdown",
        markdown.to_str().unwrap(),
        "--figures",
        figures.to_str().unwrap(),
    ]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    assert!(
        stderr.is_empty(),
        "no progress without a terminal: {stderr}"
    );

    let report: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    assert_eq!(report["settings"]["records"], 1000);
    let comparisons = report["comparisons"].as_array().unwrap();
    // Tables 5.3 and 5.4 have 5 and 6 rows, with three columns beside Original. Table 5.5 has 5 rows.
    assert_eq!(comparisons.len(), 5 * 3 + 6 * 3 + 5);
    for comparison in comparisons {
        assert!(number(&comparison["here"]["mean"]) > 0.0, "{comparison:#}");
    }
    let runs = report["runs"].as_array().unwrap();
    // Runs at full speed, runs at target rates (all rows but the last of both tables, four columns),
    // and series of executions; the tests of the plan count them part by part.
    assert_eq!(runs.len(), 30 + 36 + 3);
    for run in runs {
        let executions = run["executions"].as_array().unwrap();
        let expected = run["iterations"].as_u64().unwrap() as usize;
        assert_eq!(executions.len(), expected, "{run:#}");
        for execution in executions {
            assert!(number(&execution["reads"]["mean_us"]) > 0.0, "{run:#}");
            let searched = execution["reads_by_sstables"].as_array().unwrap();
            let searched: f64 = searched.iter().map(number).sum();
            // The reads of read-modify-writes search SSTables, too, but are not among the counted reads.
            assert!(searched >= number(&execution["reads"]["count"]), "{run:#}");
        }
    }
    // 450 updates of 1 KiB fill several memtables of 64 KiB.
    let snapshots = runs.iter().find(|run| run["reads"] == "newest_snapshot");
    let last = &snapshots.unwrap()["executions"][2];
    assert!(number(&last["runs_of_snapshot"]) >= 2.0, "{last:#}");

    let text = String::from_utf8(output.stdout).unwrap();
    let markdown = std::fs::read_to_string(markdown).unwrap();
    for part in [
        "Table 5.3",
        "Table 5.4",
        "Figure 5.9",
        "Figure 5.10",
        "Table 5.5",
        "Figure 5.12",
        "Figure 5.13",
    ] {
        assert!(
            text.contains(part) && markdown.contains(part),
            "{part}: {text}"
        );
    }
    let drawn = std::fs::read_dir(figures).unwrap();
    for figure in drawn.map(|entry| entry.unwrap().path()) {
        let svg = std::fs::read_to_string(&figure).unwrap();
        assert!(
            svg.starts_with("<svg") && svg.ends_with("</svg>\n"),
            "{svg}"
        );
        assert!(!svg.contains("NaN"), "{}: {svg}", figure.display());
    }
}

#[test]
fn help_has_examples_and_a_wrong_size_is_explained() {
    let help = thesis(&["--help"]);
    let help = String::from_utf8(help.stdout).unwrap();
    for part in ["--quick", "Examples:", "--figures figures"] {
        assert!(help.contains(part), "{part}: {help}");
    }
    for wrong in ["--records=0", "--memory-percent=0", "--seconds=-1"] {
        let output = thesis(&[wrong]);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
    }
}
