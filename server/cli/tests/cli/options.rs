//! Options that mean the same in every command, and values that make no sense.

use crate::forecast::trace;
use crate::place::{Place, output};

#[test]
fn json_is_a_flag_everywhere_and_a_file_has_another_name() {
    // `--json -` once wrote a file called `-` in some commands, and printed the result in others.
    let place = Place::new();
    place.write("load.csv", trace());
    let forecast = "forecast load.csv --days 2";
    let printed = place
        .ebb(&format!("{forecast} --json --json-file out.json"))
        .json();
    assert!(printed["next"]["point"].is_array());
    let written: serde_json::Value = serde_json::from_str(&place.read("out.json")).unwrap();
    assert_eq!(written, printed);
    let help = |command: &str| place.ebb(&format!("{command} --help")).ok();
    for command in ["demo", "forecast", "sim run"] {
        assert!(help(command).contains("--json-file <FILE>"), "{command}");
    }
    for command in [
        "load", "get", "scan", "stats", "demo", "forecast", "sim run",
    ] {
        assert!(!help(command).contains("--json <"), "{command}");
    }
    for line in [
        "stats --json -",
        "demo --json -",
        "forecast load.csv --json -",
    ] {
        assert!(place.ebb(line).refused().contains("unexpected argument"));
    }
    assert!(!place.path("-").exists());
}

#[test]
fn every_command_on_a_database_goes_by_the_environment() {
    // backup, verify and repair once required the directory as an argument.
    let place = Place::new();
    place.write("a", "a\n");
    place.ebb("load --data here --table app.t a").ok();
    for line in [
        "stats",
        "verify",
        "backup copy",
        "repair whole",
        "put app.t b b",
    ] {
        let done = output(place.command(line).env("EBB_DATA", "here"));
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{line}: {said}");
    }
    place.ebb("verify --data copy").ok();
    assert_eq!(
        place.ebb("get --data whole app.t a:000000000001").ok(),
        "a\n"
    );
    assert!(!place.path("ebb-data").exists());
}

#[test]
fn shells_complete_commands_and_options() {
    let place = Place::new();
    for (shell, form) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef ebb"),
        ("fish", "complete -c"),
    ] {
        let script = place.ebb(&format!("completions {shell}")).ok();
        assert!(script.contains(form), "{shell}");
        for word in ["snapshot", "truncate", "skip-bad", "json-file"] {
            assert!(script.contains(word), "{word} for {shell}");
        }
    }
    place.ebb("completions tcl").refused();
}

#[test]
fn lengths_of_time_that_make_no_sense_are_refused() {
    // `--expires 0s` once reported success for a snapshot that expired at once; `demo --seconds 0` was
    // exit code 1.
    let place = Place::new();
    for line in [
        "snapshot create --keyspace app --expires 0s s",
        "snapshot renew --keyspace app --expires 0s s",
        "snapshot create --keyspace app --expires 99999years s",
        "demo --seconds 0",
        "demo --seconds NaN",
        "demo --seconds 4.9",
        "demo --seconds a-day",
    ] {
        let said = place.ebb(line).refused();
        assert!(said.contains("invalid value"), "{said}");
    }
    assert!(!place.path("ebb-demo").exists());
}

#[test]
fn an_output_in_a_keyspace_that_is_not_there_is_no_file() {
    // `--output newks.t` once wrote a file, where the user meant a table.
    let place = Place::new();
    place.write("a.txt", "x\n");
    place.ebb("load --table app.t a.txt").ok();
    for input in ["--table app.t", "--text a.txt"] {
        let run = format!("run wordcount {input}");
        let said = place.ebb(&format!("{run} --output newks.t")).fails(2);
        assert!(
            said.contains("no keyspace newks") && said.contains("./newks.t"),
            "{said}"
        );
    }
    assert!(!place.path("newks.t").exists());
    place
        .ebb("run wordcount --text a.txt --output ./newks.t")
        .ok();
    assert_eq!(place.read("newks.t"), "x\t1\n");
}
