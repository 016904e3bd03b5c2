//! Damage, backup, verification and repair.

use std::ffi::OsStr;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::place::Place;

/// Flips a bit in the middle of the only SSTable; returns the file's name.
pub fn damage_table(place: &Place) -> String {
    flip_bit(place, |bytes| bytes / 2)
}

/// Returns the command by which a user accepts the loss that `listed`, the output of
/// `ebb repair --online`, describes.
pub fn accepting(listed: &str) -> String {
    let mut lines = listed.lines();
    let token = lines.find_map(|line| line.strip_prefix("the token of this list: "));
    let token = token.expect("a list of what is lost");
    format!("repair --online app.lines --accept-loss {token}")
}

/// Returns the path of the database's only SSTable.
fn only_table(place: &Place) -> PathBuf {
    let files = std::fs::read_dir(place.path("ebb-data")).unwrap();
    let tables: Vec<PathBuf> = files
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension() == Some(OsStr::new("sst")))
        .collect();
    let [table] = &tables[..] else {
        panic!("one SSTable expected: {tables:?}");
    };
    table.clone()
}

/// Flips a bit of the only SSTable. `at` computes the offset of the byte from the length of the
/// file. Returns the file's name.
fn flip_bit(place: &Place, at: impl Fn(usize) -> usize) -> String {
    let table = only_table(place);
    let mut bytes = std::fs::read(&table).unwrap();
    let at = at(bytes.len());
    bytes[at] ^= 1;
    std::fs::write(&table, bytes).unwrap();
    table.file_name().unwrap().to_str().unwrap().to_string()
}

/// Makes the backup `linked`, which shares files with the database through hard links, and a copy
/// of it, `copied`, which shares none.
pub fn back_up_and_copy(place: &Place) {
    place.ebb("backup linked").ok();
    std::fs::create_dir(place.path("copied")).unwrap();
    for entry in std::fs::read_dir(place.path("linked")).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), place.path("copied"));
        std::fs::copy(from, to.join(entry.unwrap().file_name())).unwrap();
    }
}

#[test]
fn a_flipped_bit_is_found_and_its_file_named() {
    let place = Place::with_corpus();
    let name = damage_table(&place);
    let said = place.ebb("scan app.lines").fails(5);
    assert!(said.contains(&name) && said.contains("offset"), "{said}");
    // A table this small is read when the job is split into tasks, so the job does not start.
    let run = "run wordcount --table app.lines --snapshot s --output x.tsv";
    let said = place.ebb(run).fails(5);
    assert!(said.contains(&name), "{said}");
    assert!(!place.path("x.tsv").exists());
}

#[test]
fn a_backup_holds_what_the_database_held_and_a_used_directory_is_refused() {
    let place = Place::with_corpus();
    let info = place.ebb("backup copy --json").json();
    assert!(info["linked_bytes"].as_u64().unwrap() > 0);
    let before = place.ebb("scan app.lines").ok();
    place.ebb("snapshot delete --keyspace app s").ok();
    assert_eq!(
        place.ebb("scan --data copy app.lines --snapshot s").ok(),
        before
    );
    place.write("used/mine", "mine");
    let said = place.ebb("backup used").fails(2);
    assert!(said.contains("used has something in it"), "{said}");
    let said = place.ebb("backup other").ok();
    assert!(said.contains("linked"), "{said}");
    let again = place.ebb("backup copy --json").json();
    assert_eq!(again["kept_bytes"], info["linked_bytes"]);
    // A row in it makes it a database of its own.
    place.ebb("put --data copy app.lines k v").ok();
    let said = place.ebb("backup copy").fails(2);
    assert!(said.contains("opened for writing"), "{said}");
    let said = place.ebb("restore used").fails(2);
    assert!(said.contains("used is no backup"), "{said}");
    place.ebb("backup --data missing third").fails(3);
    assert!(!place.path("missing").exists());
}

#[test]
fn backups_and_outputs_of_jobs_do_not_go_into_the_directory_of_the_database() {
    let place = Place::with_corpus();
    std::os::unix::fs::symlink("ebb-data", place.path("linked")).unwrap();
    let of_table = "run wordcount --table app.lines --snapshot s --output";
    for command in [
        "backup ebb-data/copy",
        "backup linked/copy",
        &format!("{of_table} ebb-data/counts.tsv"),
        &format!("{of_table} linked/counts/"),
        "run wordcount --text corpus --output ./ebb-data/counts",
    ] {
        let said = place.ebb(command).fails(2);
        assert!(
            said.contains("in the directory of the database, ./ebb-data"),
            "{command}: {said}"
        );
    }
    for left in ["copy", "counts.tsv", "counts"] {
        assert!(!place.path("ebb-data").join(left).exists(), "{left}");
    }
    let roots = "--backup-root ebb-data --cql 127.0.0.1:0";
    let said = place.ebb(&format!("serve {roots}")).fails(2);
    assert!(said.contains("in the directory of the database"), "{said}");
}

#[test]
fn the_history_of_jobs_has_backups() {
    let place = Place::with_corpus();
    let run = "run wordcount --table app.lines --snapshot s --output words.tsv";
    place.ebb(run).ok();
    place.ebb("backup copy --rate 1GiB").ok();
    let job = place.ebb("jobs last --json").json();
    assert_eq!(job["application"], "backup");
    assert_eq!(job["state"], "succeeded");
    let target = job["request"]["output"]["to"]["folder"].as_str().unwrap();
    assert!(target.ends_with("/copy"), "{target}");
    assert!(job["report"]["backup"]["bytes"].as_u64().unwrap() > 0);
    assert!(place.ebb("jobs last").ok().contains("  by       uid "));
    // The copy has the job before it, and not its own backup.
    let copied = place.ebb("jobs --data copy --json").json();
    assert_eq!(copied.as_array().unwrap().len(), 1, "{copied}");
    let said = place.ebb("backup other --rate 0").refused();
    assert!(said.contains("at least 1 byte per second"), "{said}");
}

#[test]
fn restore_takes_a_damaged_file_from_a_backup_that_has_it_whole() {
    let place = Place::with_corpus();
    let before = place.ebb("scan app.lines").ok();
    back_up_and_copy(&place);
    let name = damage_table(&place);
    let made = place.ebb("backup damaged");
    assert!(made.stdout.contains(&name), "{}", made.stdout);
    assert!(made.fails(5).contains("1 damaged or missing file"));
    assert!(place.path("damaged/CURRENT").exists());
    let said = place.ebb("restore linked");
    assert_eq!(said.code, 5, "{}", said.stderr);
    assert!(
        said.stdout.contains("still damaged") && said.stdout.contains(&name),
        "{}",
        said.stdout
    );
    // The command that failed is no advice.
    let advice = said.fails(5);
    assert!(
        advice.contains("1 file still damaged: name another backup"),
        "{advice}"
    );
    assert!(!advice.contains("ebb restore"), "{advice}");
    let report = place.ebb("restore copied --json").json();
    assert_eq!(report["left"], json!([]));
    assert_eq!(report["restored"][0]["table"], "app.lines");
    let path = report["restored"][0]["path"].as_str().unwrap();
    assert!(path.ends_with(&name), "{path}");
    assert_eq!(place.ebb("scan app.lines").ok(), before);

    // A file that cannot be opened counts as damaged before any read.
    let name = flip_bit(&place, |bytes| bytes - 20);
    let said = place.ebb("stats").ok();
    let is_told = |line: &str| line.starts_with("damaged    app.lines: ") && line.contains(&name);
    assert!(said.lines().any(is_told), "{said}");
    let said = place.ebb("restore copied").ok();
    assert!(said.contains("restored 1 file; 0 still damaged"), "{said}");
    assert!(!place.ebb("stats").ok().contains("damaged"));
    place.ebb("verify").ok();
    assert_eq!(place.ebb("scan app.lines").ok(), before);
    let said = place.ebb("restore missing").fails(3);
    assert!(said.contains("no backup named"), "{said}");
}

#[test]
fn a_database_without_one_of_its_files_is_read_and_backed_up_as_far_as_it_goes() {
    let place = Place::with_corpus();
    let before = place.ebb("scan app.lines").ok();
    let (table, elsewhere) = (only_table(&place), place.path("elsewhere"));
    let name = table.file_name().unwrap().to_str().unwrap();
    std::fs::rename(&table, &elsewhere).unwrap();
    let said = place.ebb("scan app.lines").fails(5);
    assert!(said.contains(name), "{said}");
    let said = place.ebb("stats").ok();
    let is_told = |line: &str| line.starts_with("left out   app.lines: ") && line.contains(name);
    assert!(said.lines().any(is_told), "{said}");
    place.ebb("verify").fails(5);
    let done = place.ebb("backup copy");
    assert!(done.stdout.contains(name), "{}", done.stdout);
    assert!(done.fails(5).contains("1 damaged or missing file"));
    let made = place.ebb("backup other --json");
    assert_eq!(made.code, 5, "{}", made.stderr);
    let info: Value = serde_json::from_str(&made.stdout).unwrap();
    assert_eq!(info["damaged"][0]["detail"], "it is missing");
    std::fs::rename(&elsewhere, &table).unwrap();
    assert_eq!(place.ebb("scan app.lines").ok(), before);
}

#[test]
fn verify_names_what_is_damaged_and_repair_saves_the_rest() {
    let place = Place::with_corpus();
    let sound = place.ebb("verify").ok();
    assert!(sound.contains("nothing is wrong"), "{sound}");
    let before = place.ebb("scan app.lines").ok();
    let name = damage_table(&place);

    let done = place.ebb("verify --json");
    assert_eq!(done.code, 5, "{}", done.stderr);
    assert!(
        done.stderr.contains("ebb repair --data ./ebb-data"),
        "{}",
        done.stderr
    );
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    let path = report["findings"][0]["path"].as_str().unwrap();
    assert!(path.ends_with(&name), "{path}");

    let done = place.ebb("repair whole");
    assert_eq!(done.code, 5, "{}", done.stderr);
    assert!(done.stdout.contains(&name), "{}", done.stdout);
    place.ebb("verify --data whole").ok();
    let after = place.ebb("scan --data whole app.lines").ok();
    assert!(after.lines().count() > before.lines().count() / 2);
    assert!(after.lines().all(|line| before.contains(line)));
    let done = place.ebb("repair again --json");
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(report["lost"][0]["table"], "app.lines");
    assert!(report["lost"][0]["to_key"].is_string());

    // If both copies of the manifest are damaged, the database cannot be opened, but repair works.
    let current = place.read("ebb-data/CURRENT");
    for copy in ["", ".copy"] {
        let manifest = format!("ebb-data/{}{copy}", current.trim());
        let mut bytes = std::fs::read(place.path(&manifest)).unwrap();
        bytes[20] ^= 1;
        std::fs::write(place.path(&manifest), bytes).unwrap();
    }
    let said = place.ebb("stats").fails(5);
    assert!(said.contains("`ebb repair`"), "{said}");
    let said = place.ebb("verify");
    assert_eq!(said.code, 5);
    assert!(said.stdout.contains("MANIFEST"), "{}", said.stdout);
    let said = place.ebb("repair named");
    assert!(said.stdout.contains("versions of"), "{}", said.stdout);
}

#[test]
fn an_online_repair_lists_what_is_lost_and_rewrites_the_file_once_that_is_accepted() {
    let place = Place::with_corpus();
    let before = place.ebb("scan app.lines").ok();
    let name = damage_table(&place);
    let listed = place.ebb("repair --online app.lines");
    let is_told = |line: &str| line.starts_with("  lost: ") && line.contains("keys of app.lines");
    assert!(listed.stdout.contains(&name), "{}", listed.stdout);
    assert!(listed.stdout.lines().any(is_told), "{}", listed.stdout);
    let accept = accepting(&listed.stdout);
    assert!(listed.fails(5).contains("--accept-loss"));
    let listed = place.ebb("repair --online app.lines --json");
    assert_eq!(listed.code, 5, "{}", listed.stderr);
    let report: Value = serde_json::from_str(&listed.stdout).unwrap();
    let file = &report["files"][0];
    assert!(file["entries_lost"].as_u64().unwrap() > 0, "{report}");
    assert!(file["lost"][0]["to_key"].is_string(), "{report}");
    assert!(accept.ends_with(report["token"].as_str().unwrap()));
    let refused = place.ebb("repair --online app.lines --accept-loss 0123456789abcdef");
    assert_eq!(accepting(&refused.stdout), accept, "the list comes again");
    assert!(refused.fails(5).contains("nothing was changed"));
    place.ebb("scan app.lines").fails(5);

    let done = place.ebb(&accept).ok();
    assert!(done.contains("rewritten without them"), "{done}");
    let after = place.ebb("scan app.lines").ok();
    assert!(after.lines().count() > before.lines().count() / 2);
    assert!(after.lines().all(|line| before.contains(line)));
    place.ebb("verify").ok();
    let aside = format!("ebb-data/damaged/{name}.damaged");
    assert!(place.path(&aside).exists());
    let listed = place.ebb("repair --online app.lines").ok();
    assert!(
        listed.contains("no file of app.lines is damaged"),
        "{listed}"
    );
    assert!(place.ebb(&accept).ok().contains("no file"), "once more");
    place.ebb("repair --online app.none").fails(3);
    place.ebb("repair whole --online app.lines").refused();
    place.ebb("repair whole --accept-loss").refused();
}

#[test]
fn a_database_that_lost_its_current_is_damaged_and_not_absent() {
    // `ebb stats` once reported that there is no database, with exit code 3.
    let place = Place::with_corpus();
    let before = place.ebb("scan app.lines").ok();
    let remove = |name| std::fs::remove_file(place.path(name)).unwrap();
    remove("ebb-data/CURRENT");
    assert_eq!(place.ebb("scan app.lines").ok(), before);
    place.ebb("put --create app.t a b").ok();
    remove("ebb-data/CURRENT");
    remove("ebb-data/CURRENT.copy");
    for line in [
        "stats",
        "scan app.lines",
        "snapshot list",
        "put --create app.t a b",
    ] {
        let said = place.ebb(line).fails(5);
        assert!(
            said.contains("CURRENT") && said.contains("it is missing"),
            "{said}"
        );
    }
    place.ebb("repair whole").ok();
    assert_eq!(place.ebb("scan --data whole app.lines").ok(), before);
}
