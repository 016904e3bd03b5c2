//! The `ebb` binary as a user meets it: arguments in; stdout, stderr, files and
//! an exit code out.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use ebb_storage::{Db, Options};
use serde_json::Value;

/// A working directory of its own; the database is in `ebb-data`.
struct Place {
    dir: tempfile::TempDir,
}

/// What a command did.
struct Done {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Done {
    #[track_caller]
    fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}", self.stderr);
        self.stdout
    }

    /// Failed with this code; gives what was said.
    #[track_caller]
    fn fails(self, code: i32) -> String {
        assert_eq!(self.code, code, "{}{}", self.stdout, self.stderr);
        assert!(self.stderr.starts_with("ebb: "), "{}", self.stderr);
        self.stderr
    }

    #[track_caller]
    fn json(self) -> Value {
        let text = self.ok();
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e} in {text}"))
    }
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
        command
            .args(line.split_whitespace())
            .current_dir(self.dir.path())
            .env_remove("EBB_DATA");
        command
    }

    /// Runs `ebb` with the words of `line`.
    fn ebb(&self, line: &str) -> Done {
        let Output {
            status,
            stdout,
            stderr,
        } = self.command(line).output().unwrap();
        Done {
            code: status.code().expect("not killed"),
            stdout: String::from_utf8(stdout).unwrap(),
            stderr: String::from_utf8(stderr).unwrap(),
        }
    }

    /// With the corpus loaded into `app.lines` and snapshot `s`.
    fn with_corpus() -> Self {
        let place = Self::new();
        place.write_corpus();
        place
            .ebb("load --keyspace app --table lines corpus --threads 3")
            .ok();
        place.ebb("snapshot create --keyspace app s").ok();
        place
    }

    /// About a MiB of text in files of all sorts.
    fn write_corpus(&self) {
        const WORDS: [&str; 12] = [
            "Ebb",
            "flow",
            "TIDE",
            "don't",
            "x86_64",
            "größe",
            "naïve",
            "42",
            "--",
            "snapshot,",
            "(run)",
            "日本",
        ];
        let mut state = 7_u64;
        let mut pick = move || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(99);
            (state >> 33) as usize
        };
        for file in 0..12 {
            let mut text = String::new();
            for line in 0..1600 {
                for _ in 0..pick() % 14 {
                    text.push_str(WORDS[pick() % WORDS.len()]);
                    text.push_str(["", " ", " ", "\t", "w", "Z "][pick() % 6]);
                }
                text.push_str(if (file + line) % 9 == 0 { "\r\n" } else { "\n" });
            }
            text.push_str("the last line has no end");
            self.write(&format!("corpus/d{}/{file:02}.txt", file % 3), text);
        }
        self.write("corpus/empty.txt", "");
        self.write("corpus/picture.png", b"\x89PNG\0\0\0\x01");
        self.write("corpus/latin1.txt", b"caf\xe9\n");
        self.write("corpus/.hidden.txt", "hidden words\n");
    }
}

fn text_files(root: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = walkdir::WalkDir::new(root)
        .into_iter()
        .map(|entry| entry.unwrap().into_path())
        .filter(|path| path.is_file() && path.extension() == Some(OsStr::new("txt")))
        .filter(|path| !path.ends_with(".hidden.txt") && !path.ends_with("latin1.txt"))
        .collect();
    files.sort();
    files
}

/// Words and counts straight from the files, character by character.
fn count_words(root: &Path) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for file in text_files(root) {
        let mut word = String::new();
        for c in std::fs::read_to_string(file).unwrap().chars().chain([' ']) {
            if c.is_ascii_alphanumeric() || !c.is_ascii() {
                word.push(c.to_ascii_lowercase());
            } else if !word.is_empty() {
                *counts.entry(std::mem::take(&mut word)).or_default() += 1;
            }
        }
    }
    counts
}

fn rows(text: &str) -> BTreeMap<String, u64> {
    let row = |line: &str| {
        let (word, count) = line.split_once('\t').unwrap();
        (word.to_string(), count.parse().unwrap())
    };
    text.lines().map(row).collect()
}

#[test]
fn words_of_a_snapshot_are_counted_as_they_stood_in_the_files() {
    let place = Place::with_corpus();
    let expected = count_words(&place.path("corpus"));
    assert!(expected.len() > 100);
    // What is loaded after the snapshot must not count.
    place.write("corpus/d0/00.txt", "overwritten\n".repeat(1601));
    place.write("corpus/new.txt", "new\n");
    place.ebb("load --keyspace app --table lines corpus").ok();

    let run = "run wordcount --table app.lines --snapshot s --goal 60s";
    let said = place
        .ebb(&format!("{run} --output counts.tsv --splits 5 --reduces 3"))
        .ok();
    assert!(said.contains("goal of 1m met"), "{said}");
    assert_eq!(rows(&place.read("counts.tsv")), expected);

    // Into a table, under every policy.
    for policy in ["fifo", "resource-aware", "reverse-adaptive"] {
        let report = place
            .ebb(&format!(
                "{run} --output app.{policy} --policy {policy} --cores 2 --json"
            ))
            .json();
        assert_eq!(report["output"], format!("table app.{policy}"));
        assert_eq!(report["met"], true);
        assert_eq!(report["counters"]["output_records"], expected.len());
        let counts = place.ebb(&format!("scan app.{policy}")).ok();
        assert_eq!(rows(&counts), expected);
    }
    assert!(!place.path("ebb-data/spill").exists());
}

#[test]
fn grep_finds_the_lines_that_a_look_at_the_files_finds() {
    let place = Place::with_corpus();
    let find = |wanted: &dyn Fn(&str) -> bool| {
        let mut found = Vec::new();
        for file in text_files(&place.path("corpus")) {
            let name = file.strip_prefix(place.dir.path()).unwrap().display();
            for (n, line) in std::fs::read_to_string(&file).unwrap().lines().enumerate() {
                if wanted(line) {
                    found.push(format!("{name}:{:06}\t{line}", n + 1));
                }
            }
        }
        found
    };
    let run = "run grep --table app.lines --snapshot s --splits 7";
    place
        .ebb(&format!("{run} --pattern (run) --output text.tsv"))
        .ok();
    let text = place.read("text.tsv");
    let expected = find(&|line| line.contains("(run)"));
    assert!(expected.len() > 1000);
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);

    place
        .ebb(&format!(
            "{run} --regex --pattern ^(Ebb|TIDE) --output app.found"
        ))
        .ok();
    let found = place.ebb("scan app.found").ok();
    let expected = find(&|line| line.starts_with("Ebb") || line.starts_with("TIDE"));
    assert_eq!(found.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_job_without_a_snapshot_reads_one_of_its_own_that_goes_with_it() {
    let place = Place::with_corpus();
    place.ebb("snapshot create --keyspace app run-1").ok();
    let run = "run wordcount --table app.lines";
    let report = place.ebb(&format!("{run} --output app.own --json")).json();
    assert_eq!(report["snapshot"], "run-2");
    let given = format!("{run} --snapshot s --output app.given");
    place.ebb(&given).ok();
    assert_eq!(
        place.ebb("scan app.own").ok(),
        place.ebb("scan app.given").ok()
    );
    let left = place.ebb("snapshot list --json").json();
    let names: Vec<_> = left
        .as_array()
        .unwrap()
        .iter()
        .map(|s| &s["name"])
        .collect();
    assert_eq!(names, ["s", "run-1"]);
    let said = place
        .ebb("run wordcount --table app.none --output x.tsv")
        .fails(3);
    assert!(said.contains("app") && said.contains("lines"), "{said}");
}

#[test]
fn a_database_that_another_process_has_open_is_locked() {
    let place = Place::with_corpus();
    let db = Db::open(place.path("ebb-data"), Options::default()).unwrap();
    for line in ["stats", "scan app.lines", "verify ebb-data"] {
        let said = place.ebb(line).fails(4);
        assert!(said.contains("ebb-data"), "{said}");
    }
    // From here, too, and it is not in the way of whoever has it.
    assert!(Db::open(place.path("ebb-data"), Options::default()).is_err());
    db.sync().unwrap();
    drop(db);
    place.ebb("stats").ok();
}

#[test]
fn get_and_scan_read_now_and_at_a_snapshot() {
    let place = Place::new();
    place.write("a.txt", "one\ntwo\nthree\n");
    place.write("b.txt", "x\n");
    place
        .ebb("load --keyspace app --table t ./a.txt b.txt")
        .ok();
    place
        .ebb("snapshot create --keyspace app --table t before")
        .ok();
    place.write("a.txt", "ONE\n");
    place.ebb("load --keyspace app --table t a.txt").ok();

    let ebb = |line: &str| place.ebb(line).ok();
    assert_eq!(ebb("get app.t a.txt:000001"), "ONE\n");
    assert_eq!(ebb("get app.t a.txt:000001 --snapshot before"), "one\n");
    assert_eq!(
        ebb("get app.t a.txt:000002 --json"),
        "{\"key\":\"a.txt:000002\",\"value\":\"two\"}\n"
    );
    assert_eq!(
        ebb("scan app.t --prefix a"),
        "a.txt:000001\tONE\na.txt:000002\ttwo\na.txt:000003\tthree\n"
    );
    assert_eq!(
        ebb("scan app.t --reverse --limit 2 --keys-only"),
        "b.txt:000001\na.txt:000003\n"
    );
    assert_eq!(
        ebb("scan app.t --from a.txt:000001 --to a.txt:000002 --snapshot before --json"),
        "{\"key\":\"a.txt:000001\",\"value\":\"one\"}\n"
    );
    let backwards = ebb("scan app.t --snapshot before --reverse");
    let mut lines: Vec<_> = backwards.lines().collect();
    lines.reverse();
    assert_eq!(lines[0], "a.txt:000001\tone");
    assert_eq!(lines.len(), 4);
}

#[test]
fn listings_are_json_on_request() {
    let place = Place::with_corpus();
    let snapshots = place.ebb("snapshot list --json").json();
    assert_eq!(snapshots[0]["name"], "s");
    assert_eq!(snapshots[0]["tables"][0], "lines");
    assert_eq!(snapshots[0]["single_table"], false);
    let created = snapshots[0]["created"].as_str().unwrap();
    humantime::parse_rfc3339(created).unwrap();
    assert!(snapshots[0]["expires"].is_null());
    assert!(snapshots[0]["pinned_bytes"].is_null());

    let stats = place.ebb("stats --json").json();
    assert_eq!(stats["snapshots"], 1);
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
    assert_eq!(json[1]["pinned_bytes"], 0);
    humantime::parse_rfc3339(json[1]["expires"].as_str().unwrap()).unwrap();
    place.ebb("snapshot renew --keyspace app --never soon").ok();
    let json = place.ebb("snapshot list --json").json();
    assert!(json[1]["expires"].is_null());
    place
        .ebb("snapshot renew --keyspace app --expires 0s soon")
        .ok();
    let json = place.ebb("snapshot list --json").json();
    assert_eq!(json.as_array().unwrap().len(), 1);
    place
        .ebb("snapshot renew --keyspace app --never soon")
        .fails(3);
}

#[test]
fn files_that_are_no_text_are_skipped_and_said() {
    let place = Place::new();
    place.write_corpus();
    let done = place.ebb("load --keyspace app --table lines corpus");
    assert!(done.stderr.contains("skipped 2 files"), "{}", done.stderr);
    assert!(done.stderr.contains("picture.png"), "{}", done.stderr);
    let said = done.ok();
    assert!(said.contains("rows/s") && said.contains("MB/s"), "{said}");

    let report = place
        .ebb("load --keyspace app --table again corpus --json")
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
fn commands_that_read_make_no_database_and_neither_does_a_load_of_nothing() {
    let place = Place::new();
    for line in [
        "get app.t k",
        "scan app.t",
        "stats",
        "snapshot list",
        "snapshot create --keyspace app s",
        "snapshot delete --keyspace app s",
        "run wordcount --table app.t --snapshot s --output x.tsv",
    ] {
        let said = place.ebb(line).fails(3);
        assert!(said.contains("no database in ./ebb-data"), "{said}");
    }
    let said = place.ebb("load --keyspace app --table t missing").fails(1);
    assert!(said.contains("missing"), "{said}");
    place.write("binary", b"\0\0");
    place.ebb("load --keyspace app --table t binary").fails(1);
    assert!(!place.path("ebb-data").exists());
}

#[test]
fn what_is_not_there_is_exit_code_3_and_what_is_there_is_told() {
    let place = Place::with_corpus();
    let fails = |line: &str| place.ebb(line).fails(3);
    let run = "run wordcount --output x.tsv";
    let said = fails(&format!("{run} --table app.lines --snapshot t"));
    assert!(
        said.contains("\"t\"") && said.contains("there are: s"),
        "{said}"
    );
    let said = fails(&format!("{run} --table app.rows --snapshot s"));
    assert!(said.contains("there are: lines"), "{said}");
    let said = fails("scan web.lines");
    assert!(said.contains("there are: app"), "{said}");
    let said = fails("get app.lines nothing --snapshot s");
    assert!(said.contains("app.lines at snapshot s"), "{said}");
    fails("snapshot delete --keyspace app t");
    fails("snapshot create --keyspace app --table rows t");
    fails("snapshot list --keyspace web");
    assert!(!place.path("x.tsv").exists());
}

#[test]
fn requests_that_make_no_sense_are_exit_code_2() {
    let place = Place::with_corpus();
    let run = "run grep --table app.lines --snapshot s --output x.tsv";
    for line in [
        "scan lines",
        "scan app.lines --prefix a --from b",
        "load --keyspace a/b --table t corpus",
        "snapshot create --keyspace app a.b",
        &format!("{run} --pattern x --policy lottery"),
        &format!("{run} --pattern x --goal soon"),
        &format!("{run} --pattern x --goal 0s"),
        &format!("{run} --pattern x --splits 0"),
        &format!("{run} --pattern ( --regex"),
    ] {
        let done = place.ebb(line);
        assert_eq!(done.code, 2, "{line}: {}", done.stderr);
        assert!(!done.stderr.is_empty());
    }
    place.ebb("snapshot create --keyspace app s").fails(1);
}

#[test]
fn a_directory_that_another_process_has_open_is_exit_code_4() {
    let place = Place::with_corpus();
    let db = Db::open(place.path("ebb-data"), Options::default()).unwrap();
    let said = place.ebb("stats").fails(4);
    assert!(said.contains("in use"), "{said}");
    drop(db);
    place.ebb("stats").ok();
}

/// Flips a bit in the middle of the only SSTable; returns the file's name.
fn damage_table(place: &Place) -> String {
    let files = std::fs::read_dir(place.path("ebb-data")).unwrap();
    let tables: Vec<PathBuf> = files
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension() == Some(OsStr::new("sst")))
        .collect();
    let [table] = &tables[..] else {
        panic!("one SSTable expected: {tables:?}");
    };
    let mut bytes = std::fs::read(table).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(table, bytes).unwrap();
    table.file_name().unwrap().to_str().unwrap().to_string()
}

#[test]
fn a_flipped_bit_is_found_and_its_file_named() {
    let place = Place::with_corpus();
    let name = damage_table(&place);
    let said = place.ebb("scan app.lines").fails(5);
    assert!(said.contains(&name) && said.contains("offset"), "{said}");
    // So small a table is read to be split: the job does not start.
    let run = "run wordcount --table app.lines --snapshot s --output x.tsv";
    let said = place.ebb(run).fails(5);
    assert!(said.contains(&name), "{said}");
    assert!(!place.path("x.tsv").exists());
}

#[test]
fn a_backup_holds_what_the_database_held_and_a_used_directory_is_refused() {
    let place = Place::with_corpus();
    let info = place.ebb("backup ebb-data copy --json").json();
    assert!(info["linked_bytes"].as_u64().unwrap() > 0);
    let before = place.ebb("scan app.lines").ok();
    place.ebb("snapshot delete --keyspace app s").ok();
    assert_eq!(
        place.ebb("scan --data copy app.lines --snapshot s").ok(),
        before
    );
    let said = place.ebb("backup ebb-data copy").fails(2);
    assert!(said.contains("copy has something in it"), "{said}");
    let said = place.ebb("backup ebb-data other").ok();
    assert!(said.contains("linked"), "{said}");
    place.ebb("backup missing third").fails(3);
    assert!(!place.path("missing").exists());
}

#[test]
fn verify_names_what_is_damaged_and_repair_saves_the_rest() {
    let place = Place::with_corpus();
    let sound = place.ebb("verify ebb-data").ok();
    assert!(sound.contains("nothing is wrong"), "{sound}");
    let before = place.ebb("scan app.lines").ok();
    let name = damage_table(&place);

    let done = place.ebb("verify ebb-data --json");
    assert_eq!(done.code, 5, "{}", done.stderr);
    assert!(
        done.stderr.contains("ebb repair ebb-data"),
        "{}",
        done.stderr
    );
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    let path = report["findings"][0]["path"].as_str().unwrap();
    assert!(path.ends_with(&name), "{path}");

    let done = place.ebb("repair ebb-data whole");
    assert_eq!(done.code, 5, "{}", done.stderr);
    assert!(done.stdout.contains(&name), "{}", done.stdout);
    place.ebb("verify whole").ok();
    let after = place.ebb("scan --data whole app.lines").ok();
    assert!(after.lines().count() > before.lines().count() / 2);
    assert!(after.lines().all(|line| before.contains(line)));
    let done = place.ebb("repair ebb-data again --json");
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(report["lost"][0]["table"], "app.lines");
    assert!(report["lost"][0]["to_key"].is_string());

    // A manifest that does not read keeps it from opening, not from repair.
    let current = place.read("ebb-data/CURRENT");
    let manifest = format!("ebb-data/{}", current.trim());
    let mut bytes = std::fs::read(place.path(&manifest)).unwrap();
    bytes[20] ^= 1;
    std::fs::write(place.path(&manifest), bytes).unwrap();
    place.ebb("stats").fails(5);
    let said = place.ebb("verify ebb-data");
    assert_eq!(said.code, 5);
    assert!(said.stdout.contains("MANIFEST"), "{}", said.stdout);
    let said = place.ebb("repair ebb-data named");
    assert!(said.stdout.contains("versions of"), "{}", said.stdout);
}

#[test]
fn a_job_that_meets_a_damaged_block_fails_and_writes_nothing() {
    let place = Place::new();
    let mut state = 3_u64;
    let letter = |_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        char::from(b'0' + (state >> 58) as u8)
    };
    let text: String = (0..7 << 20).map(letter).collect();
    let lines: Vec<&str> = (0..text.len() / 512)
        .map(|n| &text[n * 512..(n + 1) * 512])
        .collect();
    place.write("noise.txt", lines.join("\n"));
    place.ebb("load --keyspace app --table t noise.txt").ok();
    place.ebb("snapshot create --keyspace app s").ok();
    let run = "run grep --pattern 00 --table app.t --snapshot s";
    let report = place.ebb(&format!("{run} --output all.tsv --splits 6 --json"));
    assert_eq!(report.json()["tasks"], 6);

    let name = damage_table(&place);
    for output in ["x.tsv", "app.x"] {
        let said = place.ebb(&format!("{run} --output {output}")).fails(6);
        assert!(said.contains(&name), "{said}");
        assert!(said.contains("nothing was written"), "{said}");
    }
    assert!(!place.path("x.tsv").exists());
    place.ebb("scan app.x").fails(3);
}

#[test]
fn an_output_that_exists_is_kept() {
    let place = Place::with_corpus();
    place.write("mine.tsv", "mine");
    let run = "run grep --table app.lines --snapshot s --pattern Ebb";
    let said = place.ebb(&format!("{run} --output mine.tsv")).fails(1);
    assert!(said.contains("mine.tsv exists"), "{said}");
    assert_eq!(place.read("mine.tsv"), "mine");
    let said = place.ebb(&format!("{run} --output app.lines")).fails(1);
    assert!(said.contains("app.lines has rows"), "{said}");
}

#[test]
fn a_job_that_ends_after_its_goal_is_exit_code_7_and_leaves_its_output() {
    let place = Place::with_corpus();
    let run = "run wordcount --table app.lines --snapshot s --goal 1us --output x.tsv";
    let said = place.ebb(run).fails(7);
    assert!(said.contains("after its goal"), "{said}");
    assert_eq!(
        rows(&place.read("x.tsv")),
        count_words(&place.path("corpus"))
    );
}

#[test]
fn a_scan_whose_reader_has_seen_enough_ends_quietly() {
    let place = Place::with_corpus();
    let mut scan = place
        .command("scan app.lines")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    let mut stdout = BufReader::new(scan.stdout.take().unwrap());
    stdout.read_line(&mut first).unwrap();
    assert!(first.starts_with("corpus/d0/00.txt:000001\t"), "{first}");
    drop(stdout);
    let mut said = String::new();
    scan.stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(said, "");
    assert_eq!(scan.wait().unwrap().code(), Some(0));
}

#[test]
fn the_data_directory_comes_from_the_flag_or_the_environment() {
    let place = Place::new();
    place.write("a.txt", "one\n");
    place
        .ebb("load --data here/db --keyspace app --table t a.txt")
        .ok();
    let from_environment = place
        .command("scan app.t")
        .env("EBB_DATA", "here/db")
        .output();
    assert_eq!(from_environment.unwrap().stdout, b"a.txt:000001\tone\n");
    place.ebb("scan app.t").fails(3);
}

#[test]
fn help_tells_the_exit_codes_and_every_command() {
    let help = Place::new().ebb("--help").ok();
    for word in ["Exit codes", "demo", "load", "snapshot", "run", "policies"] {
        assert!(help.contains(word), "{word} in {help}");
    }
}
