//! Commands that send requests to a server: to the one that has the directory open, or to an address, as
//! from another machine.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::thread;

use ebb_cql::protocol::ErrorKind;
use ebb_test_support::wait::{until, until_some};
use serde_json::{Value, json};

use crate::care::{accepting, back_up_and_copy, damage_table};
use crate::place::{Done, Place};
use crate::serving::{KEYSPACE, Server, query};

/// A user on another machine: a working directory without a database, the URL of a server and a
/// token.
struct Remote {
    place: Place,
    url: String,
    token: String,
}

impl Remote {
    fn ebb(&self, line: &str) -> Done {
        let mut command = self.place.command(line);
        Done::of(
            command
                .env("EBB_SERVER", &self.url)
                .env("EBB_TOKEN", &self.token),
        )
    }
}

/// Starts a server whose database has the corpus in the table `app.lines`. Returns the server with
/// its working directory and a remote user, whose token has the scope `scope`.
fn served(scope: &str) -> (Place, Server, Remote) {
    let place = Place::with_corpus();
    place.until_unlocked();
    for root in ["outputs", "backups"] {
        std::fs::create_dir(place.path(root)).unwrap();
    }
    let roots = "--output-root outputs --backup-root backups";
    let server = Server::start(&place, &format!("--http 127.0.0.1:0 {roots}"));
    let token = place
        .ebb(&format!("token create --name test --scope {scope}"))
        .ok();
    let remote = Remote {
        place: Place::new(),
        url: format!("http://{}", server.http()),
        token: token.trim().to_owned(),
    };
    (place, server, remote)
}

fn wordcount(to: &Value) -> String {
    let input = json!({"table": {"table": "app.lines", "snapshot": "s"}});
    json!({
        "application": {"wordcount": {}},
        "inputs": [input],
        "output": {"to": to},
        "directory": "/",
    })
    .to_string()
}

#[test]
fn a_remote_user_submits_watches_and_lists_jobs() {
    let (place, server, remote) = served("admin");
    place
        .ebb("run wordcount --table app.lines --snapshot s --output expected.tsv")
        .ok();
    let output = place.path("outputs/words.tsv");
    remote
        .place
        .write("words.json", wordcount(&json!({"file": output})));
    let id = remote.ebb("jobs submit words.json").ok();
    let said = remote.ebb(&format!("jobs watch {id}")).ok();
    assert!(said.contains("wordcount succeeded in"), "{said}");
    assert_eq!(place.read("outputs/words.tsv"), place.read("expected.tsv"));
    let watched = remote.ebb("jobs watch last --json").json();
    assert_eq!(watched["outcome"], json!({"kind": "succeeded"}));
    let listed = remote.ebb("jobs --json").json();
    assert_eq!(listed.as_array().unwrap().len(), 2);
    assert_eq!(listed[1]["id"], id.trim());
    assert!(remote.ebb("jobs last").ok().contains("wordcount"));
    assert!(remote.ebb("jobs --profiles").ok().contains("wordcount"));

    // Errors have the same exit codes as those of commands on the machine of the database.
    let told = remote.ebb("jobs submit words.json").fails(1);
    assert!(told.contains("words.tsv exists"), "{told}");
    remote.ebb("jobs watch 17").fails(3);
    let outside = wordcount(&json!({"file": place.path("words.tsv")}));
    remote.place.write("outside.json", outside);
    let told = remote.ebb("jobs submit outside.json").fails(2);
    assert!(told.contains("the root for outputs"), "{told}");
    remote.place.write("odd.json", "{");
    remote.ebb("jobs submit odd.json").fails(2);
    assert_eq!(server.stop(), Some(0));
    let told = remote.ebb("jobs").fails(1);
    assert!(told.contains("does not answer"), "{told}");
}

#[test]
fn a_remote_user_cancels_a_job_and_its_watcher_exits_with_code_6() {
    let (_place, _server, remote) = served("jobs");
    let endless = json!({
        "application": {"pi": {"points": 1_u64 << 50, "seed": 1, "variant": "plain"}},
        "output": {"to": {"table": "app.pi"}},
        "directory": "/",
    });
    remote.place.write("pi.json", endless.to_string());
    let id = remote.ebb("jobs submit pi.json").ok();
    remote.ebb(&format!("jobs cancel {id}")).ok();
    let told = remote.ebb(&format!("jobs watch {id}")).fails(6);
    assert!(told.contains("cancelled"), "{told}");
}

#[test]
fn a_remote_user_makes_lists_and_deletes_snapshots() {
    let (place, server, remote) = served("jobs");
    let said = remote
        .ebb("snapshot create --table app.lines monday --expires 2h")
        .ok();
    assert_eq!(
        said.trim(),
        "created snapshot monday of table app.lines, to expire in 2h"
    );
    remote.ebb("snapshot create --keyspace app s").fails(1);
    remote.ebb("snapshot create --keyspace none t").fails(3);
    let without_ages = |mut list: Value| {
        for snapshot in list.as_array_mut().unwrap() {
            snapshot.as_object_mut().unwrap().remove("age_s").unwrap();
        }
        list
    };
    let there = without_ages(remote.ebb("snapshot list --pinned --json").json());
    let here = without_ages(place.ebb("snapshot list --pinned --json").json());
    assert_eq!(there, here);
    assert_eq!(there[0]["name"], "s");
    assert_eq!(there[1]["name"], "monday");
    assert_eq!(there[1]["single_table"], true);
    let said = (remote.ebb("snapshot renew --keyspace app --never monday")).ok();
    assert!(said.contains("stays until it is deleted"), "{said}");
    let renewed = remote.ebb("snapshot list --json").json();
    assert!(renewed[1]["expires_unix_ms"].is_null(), "{renewed}");
    (remote.ebb("snapshot renew --keyspace app --never none")).fails(3);
    remote.ebb("snapshot delete --keyspace app monday").ok();
    remote.ebb("snapshot delete --keyspace app monday").fails(3);
    assert_eq!(server.stop(), Some(0));
    // The database has the same snapshots after the server has stopped.
    let left = place.ebb("snapshot list --json").json();
    assert_eq!(left.as_array().unwrap().len(), 1, "{left}");
}

#[test]
fn a_token_without_the_scope_or_the_right_secret_is_refused() {
    let (_place, _server, remote) = served("read");
    remote.ebb("jobs --json").ok();
    let told = remote.ebb("snapshot create --keyspace app t").fails(2);
    assert!(told.contains("the request needs scope jobs"), "{told}");
    let unknown = Remote {
        token: format!("ebb_00000000_{}", "0".repeat(64)),
        ..remote
    };
    let told = unknown.ebb("jobs").fails(2);
    assert!(told.contains("there is no such token"), "{told}");
    let cut_off = Remote {
        token: "ebb_none".to_owned(),
        ..unknown
    };
    let told = cut_off.ebb("jobs").fails(2);
    assert!(told.contains("copy the whole line"), "{told}");
    let none = Remote {
        token: String::new(),
        ..cut_off
    };
    let told = none.ebb("jobs").fails(2);
    assert!(told.contains("EBB_TOKEN"), "{told}");
}

#[test]
fn rows_are_the_same_beside_a_server() {
    let place = Place::with_corpus();
    let raw = OsStr::from_bytes(b"\xff\n");
    let mut put = place.command("put --create app.raw");
    Done::of(put.args([OsStr::new("k"), raw])).ok();
    let lines = [
        "get app.lines corpus/d0/00.txt:000000000003",
        "get app.lines corpus/d0/00.txt:000000000003 --snapshot s --json",
        "get app.raw k --json",
        "get app.lines none",
        "get app.lines none --snapshot s",
        "get app.lines k --snapshot none",
        "scan app.none",
        "scan app.none --limit 0",
        "scan app.lines --limit 0",
        // This scan takes about twenty pages.
        "scan app.lines",
        "scan app.lines --reverse --snapshot s --keys-only",
        "scan app.lines --prefix corpus/d1 --limit 1001 --json",
        "scan app.lines --from corpus/d1 --to corpus/d1/05 --reverse",
        "scan app.raw --json",
    ];
    let all = || lines.map(|line| place.ebb(line));
    let alone = all();
    let server = Server::start(&place, "");
    for (line, (alone, served)) in lines.iter().zip(alone.into_iter().zip(all())) {
        assert_eq!(served.stderr, alone.stderr, "{line}");
        assert_eq!(served.code, alone.code, "{line}");
        assert!(served.stdout == alone.stdout, "{line}");
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_server_is_looked_at_backed_up_and_verified_while_it_runs() {
    let place = Place::with_corpus();
    let rows = place.ebb("scan app.lines --snapshot s").ok();
    let verified = |report: &Value| {
        assert_eq!(report["findings"], json!([]), "{report}");
        assert_eq!(report["unreadable"], json!([]), "{report}");
        report["bookmarks"].clone()
    };
    let alone = verified(&place.ebb("verify --json").json());
    let server = Server::start(&place, "");
    assert_eq!(verified(&place.ebb("verify --json").json()), alone);
    assert!(place.ebb("verify").ok().contains("nothing is wrong"));
    let job = place.ebb("jobs last --json").json();
    assert_eq!(job["application"], "verify", "{job}");
    assert_eq!(job["report"]["verify"]["findings"], json!([]), "{job}");
    let shown = place.ebb("jobs last").ok();
    assert!(shown.contains("  files    "), "{shown}");
    let stats = place.ebb("stats --json").json();
    let mut tables = stats["tables"].as_array().unwrap().iter();
    assert!(tables.any(|table| table["name"] == "lines"));
    assert_eq!(stats["snapshots"], 1);
    assert!(place.ebb("stats").ok().contains("app.lines"));
    // The path is that of the command, not of the server.
    let other = Place::new();
    let data = place.path("ebb-data");
    let back_up = format!("backup copy --data {}", data.display());
    assert!(other.ebb(&back_up).ok().contains("linked"));
    let again = other.ebb(&format!("{back_up} --rate 1GiB --json")).json();
    assert!(again["kept_bytes"].as_u64().unwrap() > 0, "{again}");
    let job = place.ebb("jobs last --json").json();
    assert_eq!(job["application"], "backup", "{job}");
    assert_eq!(job["state"], "succeeded", "{job}");
    other
        .ebb(&format!("verify --rate 1GiB --data {}", data.display()))
        .ok();
    let copied = other.ebb("scan --data copy app.lines --snapshot s").ok();
    assert!(copied == rows);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_running_server_takes_damaged_files_from_a_backup() {
    let place = Place::with_corpus();
    let rows = place.ebb("scan app.lines").ok();
    back_up_and_copy(&place);
    let name = damage_table(&place);
    let server = Server::start(&place, "");
    place.ebb("scan app.lines").fails(5);
    let found = place.ebb("verify");
    assert!(found.stdout.contains(&name), "{}", found.stdout);
    assert!(found.fails(5).contains("ebb restore"));
    place.ebb("backup damaged").fails(5);
    assert_eq!(place.ebb("restore linked").code, 5);
    let restored = place.ebb("restore copied").ok();
    assert!(restored.contains("restored 1 file; 0 still damaged"));
    place.ebb("verify").ok();
    assert!(place.ebb("scan app.lines").ok() == rows);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_running_server_rewrites_damaged_files_once_their_loss_is_accepted() {
    let place = Place::with_corpus();
    let before = place.ebb("scan app.lines").ok();
    let name = damage_table(&place);
    let server = Server::start(&place, "");
    let listed = place.ebb("repair --online app.lines");
    assert!(listed.stdout.contains(&name), "{}", listed.stdout);
    let accept = accepting(&listed.stdout);
    assert!(listed.fails(5).contains("--accept-loss"));
    let refused = place.ebb("repair --online app.lines --accept-loss 0123456789abcdef");
    assert_eq!(accepting(&refused.stdout), accept, "the list comes again");
    assert!(refused.fails(5).contains("nothing was changed"));
    place.ebb("scan app.lines").fails(5);
    let done = place.ebb(&format!("{accept} --json")).json();
    assert_eq!(done["files"][0]["is_rewritten"], true, "{done}");
    place.ebb("verify").ok();
    let after = place.ebb("scan app.lines").ok();
    assert!(after.lines().count() > before.lines().count() / 2);
    assert!(after.lines().all(|line| before.contains(line)));
    place.ebb("repair --online app.none").fails(3);
    assert_eq!(server.stop(), Some(0));
    let audit = place.read("ebb-data/audit.log");
    assert!(audit.contains("POST /v1/tables/app/lines/accept-loss"));
    assert!(!audit.contains("/lines/loss"), "a list changes nothing");
}

#[test]
fn an_administrator_backs_up_and_reads_rows_from_another_machine() {
    let (place, _server, remote) = served("admin");
    assert!(remote.ebb("stats").ok().contains("app.lines"));
    remote.ebb("verify").ok();
    let key = "corpus/d0/00.txt:000000000003";
    let row = remote.ebb(&format!("get app.lines {key}")).ok();
    assert_eq!(row, place.ebb(&format!("get app.lines {key}")).ok());
    remote.ebb("backup monday").ok();
    assert!(place.path("backups/monday/CURRENT").exists());
    remote.ebb("restore monday").ok();
    let listed = remote.ebb("repair --online app.lines").ok();
    assert!(listed.contains("no file of app.lines is damaged"));
    let elsewhere = remote.place.path("tuesday");
    let told = remote.ebb(&format!("backup {}", elsewhere.display()));
    assert!(told.fails(2).contains("the root for backups"));
}

#[test]
fn an_administrator_lists_and_kills_queries() {
    let (place, server, remote) = served("admin");
    let mut client = server.client();
    query(&mut client, KEYSPACE).unwrap();
    let columns = "a int, b int, c int, d int, PRIMARY KEY ((a, b), c, d)";
    query(&mut client, &format!("CREATE TABLE shop.wide ({columns})")).unwrap();
    // The query looks up four billion rows that do not exist, so it runs until it is killed.
    let all: Vec<String> = (0..256).map(|number| number.to_string()).collect();
    let conditions = ["a", "b", "c", "d"].map(|of| format!("{of} IN ({})", all.join(", ")));
    let select = "SELECT count(*) FROM shop.wide";
    let endless = format!("{select} WHERE {}", conditions.join(" AND "));
    let scan = thread::spawn(move || query(&mut client, &endless));
    let listed = until_some("the query to run", || {
        let listed = place.ebb("queries --json").json();
        (listed[0]["state"] == "running").then_some(listed)
    });
    let id = &listed[0]["id"];
    let shown = remote.ebb("queries").ok();
    assert!(shown.contains(select), "{shown}");
    let killed = remote.ebb(&format!("queries kill {id} 999"));
    assert_eq!(killed.stdout, format!("killed query {id}\n"));
    let told = killed.fails(3);
    assert!(told.contains("no query 999"), "{told}");
    let error = scan.join().unwrap().unwrap_err();
    assert!(matches!(error, ErrorKind::ReadFailure { .. }), "{error:?}");
    until("the query to end", || {
        place.ebb("queries").ok() == "no query waits or runs\n"
    });
    assert_eq!(server.stop(), Some(0));
    let told = place.ebb("queries").fails(2);
    assert!(told.contains("no server has"), "{told}");
}

#[test]
fn a_token_for_jobs_reads_no_rows_and_changes_no_files() {
    let (_place, _server, remote) = served("jobs");
    for line in [
        "get app.lines k",
        "scan app.lines",
        "stats",
        "verify",
        "backup b",
        "restore b",
        "queries",
        "queries kill 1",
        "repair --online app.lines",
        "repair --online app.lines --accept-loss 0123456789abcdef",
    ] {
        let told = remote.ebb(line).fails(2);
        assert!(
            told.contains("the request needs scope admin"),
            "{line}: {told}"
        );
    }
}
