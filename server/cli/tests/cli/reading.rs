//! Loading, and reading now and at snapshots.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::corpus::text_files;
use crate::place::{Place, Running};

#[test]
fn get_and_scan_read_now_and_at_a_snapshot() {
    let place = Place::new();
    place.write("a.txt", "one\ntwo\nthree\n");
    place.write("b.txt", "x\n");
    place.ebb("load --table app.t ./a.txt b.txt").ok();
    place.ebb("snapshot create --table app.t before").ok();
    place.write("a.txt", "ONE\n");
    place.ebb("load --table app.t a.txt").ok();

    let ebb = |line: &str| place.ebb(line).ok();
    assert_eq!(ebb("get app.t a.txt:000000000001"), "ONE\n");
    assert_eq!(
        ebb("get app.t a.txt:000000000001 --snapshot before"),
        "one\n"
    );
    assert_eq!(
        ebb("get app.t a.txt:000000000002 --json"),
        "{\"key\":\"a.txt:000000000002\",\"value\":\"two\"}\n"
    );
    assert_eq!(
        ebb("scan app.t --prefix a"),
        "a.txt:000000000001\tONE\na.txt:000000000002\ttwo\na.txt:000000000003\tthree\n"
    );
    assert_eq!(
        ebb("scan app.t --reverse --limit 2 --keys-only"),
        "b.txt:000000000001\na.txt:000000000003\n"
    );
    assert_eq!(
        ebb(
            "scan app.t --from a.txt:000000000001 --to a.txt:000000000002 --snapshot before --json"
        ),
        "{\"key\":\"a.txt:000000000001\",\"value\":\"one\"}\n"
    );
    let backwards = ebb("scan app.t --snapshot before --reverse");
    let mut lines: Vec<_> = backwards.lines().collect();
    lines.reverse();
    assert_eq!(lines[0], "a.txt:000000000001\tone");
    assert_eq!(lines.len(), 4);
}

#[test]
fn a_scan_whose_reader_has_seen_enough_ends_quietly() {
    let place = Place::with_corpus();
    let mut command = place.command("scan app.lines");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut scan = Running::start(&mut command);
    let mut first = String::new();
    let mut stdout = BufReader::new(scan.child().stdout.take().unwrap());
    stdout.read_line(&mut first).unwrap();
    assert!(
        first.starts_with("corpus/d0/00.txt:000000000001\t"),
        "{first}"
    );
    drop(stdout);
    let done = scan.output();
    assert_eq!(String::from_utf8(done.stderr).unwrap(), "");
    assert_eq!(done.status.code(), Some(0));
}

#[test]
fn skip_bad_leaves_out_files_that_are_no_text_and_names_them() {
    let place = Place::new();
    place.write_corpus();
    let done = place.ebb("load --table app.lines corpus --skip-bad");
    assert!(done.stderr.contains("left out 2 files"), "{}", done.stderr);
    assert!(done.stderr.contains("picture.png"), "{}", done.stderr);
    let said = done.ok();
    assert!(said.contains("rows/s") && said.contains("MB/s"), "{said}");

    let report = place
        .ebb("load --table app.again corpus --skip-bad --json")
        .json();
    assert_eq!(report["files"], 13);
    assert_eq!(report["rows"], 12 * 1601);
    assert_eq!(report["skipped"].as_array().unwrap().len(), 2);
    let bytes: u64 = text_files(&place.path("corpus"))
        .iter()
        .map(|file| file.metadata().unwrap().len())
        .sum();
    assert_eq!(report["bytes"], bytes);
}

#[test]
fn listings_are_json_on_request() {
    let place = Place::with_corpus();
    let snapshots = place.ebb("snapshot list --json").json();
    assert_eq!(snapshots[0]["name"], "s");
    assert_eq!(snapshots[0]["tables"][0], "lines");
    assert_eq!(snapshots[0]["single_table"], false);
    assert!(snapshots[0]["created_unix_ms"].as_u64().unwrap() > 0);
    assert!(snapshots[0]["read_bytes"].is_u64());
    assert!(snapshots[0]["expires_unix_ms"].is_null());
    assert!(snapshots[0]["pinned_exact_bytes"].is_null());

    let stats = place.ebb("stats --json").json();
    assert_eq!(stats["snapshots"], 1);
    // The command writes nothing.
    assert!(stats["write_amplification"].is_null());
    assert_eq!(stats["tables"][0]["keyspace"], "app");
    assert!(stats["tables"][0]["file_bytes"].as_u64().unwrap() > 0);
    assert!(place.ebb("stats").ok().contains("app.lines"));

    let policies = place.ebb("policies --json").json();
    for policy in policies.as_array().unwrap() {
        for field in ["name", "paper", "summary"] {
            assert!(policy[field].is_string(), "{policy}");
        }
    }
    assert_eq!(policies[0]["name"], "fifo");

    place.ebb("snapshot delete --keyspace app s").ok();
    assert_eq!(place.ebb("snapshot list --json").ok(), "[]\n");
}

#[test]
fn a_snapshot_with_an_expiry_is_listed_renewed_and_gone_in_time() {
    let place = Place::with_corpus();
    place
        .ebb("snapshot create --keyspace app --expires 2h soon")
        .ok();
    let listing = place.ebb("snapshot list --pinned").ok();
    assert!(listing.contains("pinned"), "{listing}");
    assert!(listing.contains("in 1h 59m"), "{listing}");
    assert!(listing.contains("never"), "{listing}");
    let json = place.ebb("snapshot list --pinned --json").json();
    // Two snapshots of the same content share all of it.
    assert_eq!(json[1]["pinned_exact_bytes"], 0);
    let at_ms = |field: &str| json[1][field].as_u64().unwrap();
    assert_eq!(
        at_ms("expires_unix_ms") - at_ms("created_unix_ms"),
        7_200_000
    );
    let said = place.ebb("snapshot renew --keyspace app soon").refused();
    assert!(said.contains("--expires <TIME>|--never"), "{said}");
    place.ebb("snapshot renew --keyspace app --never soon").ok();
    let json = place.ebb("snapshot list --json").json();
    assert!(json[1]["expires_unix_ms"].is_null());
    place
        .ebb("snapshot renew --keyspace app --expires 1ms soon")
        .ok();
    let json = place.ebb("snapshot list --json").json();
    assert_eq!(json.as_array().unwrap().len(), 1);
    place
        .ebb("snapshot renew --keyspace app --never soon")
        .fails(3);
}
