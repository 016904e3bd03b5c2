//! The permissions on the files of a database: users other than its owner have none.

use std::fs::{Permissions, set_permissions, symlink_metadata};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::place::{Done, Place};
use crate::serving::Server;

/// Returns a shell command that sets the umask, and then executes `ebb` with the words of `line`.
fn with_umask(place: &Place, umask: &str, line: &str) -> Command {
    let ebb = place.command(line);
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("umask {umask}; exec \"$0\" \"$@\"")]);
    shell.arg(ebb.get_program()).args(ebb.get_args());
    for (name, value) in ebb.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.current_dir(place.dir.path());
    shell
}

fn mode(path: impl AsRef<Path>) -> u32 {
    symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn only_the_owner_may_open_what_ebb_creates_in_a_database_or_a_backup() {
    let place = Place::new();
    place.write_corpus();
    for line in [
        "load --table app.lines corpus --skip-bad",
        "run wordcount --table app.lines --output words.tsv",
        "token create --name test --scope read",
        "backup copy",
    ] {
        Done::of(&mut with_umask(&place, "0", line)).ok();
    }
    assert_eq!(Server::start(&place, "--auth").stop(), Some(0));
    for path in [place.files("ebb-data"), place.files("copy")].concat() {
        let mode = mode(&path);
        assert_eq!(mode & 0o077, 0, "{path} has mode {mode:04o}");
    }
    // The umask holds for a file that the user named.
    assert_eq!(mode(place.path("words.tsv")), 0o666);
}

#[test]
fn the_setting_gives_the_group_read_access_to_databases_and_backups() {
    let place = Place::new();
    place.write_corpus();
    for line in [
        "load --group-readable --table app.lines corpus --skip-bad",
        "run wordcount --group-readable --table app.lines --output app.counts",
        "backup --group-readable copy",
        "token create --group-readable --name test --scope read",
    ] {
        Done::of(&mut with_umask(&place, "077", line)).ok();
    }
    let server = Server::start(&place, "--group-readable");
    assert_eq!(server.stop(), Some(0));
    for path in [place.files("ebb-data"), place.files("copy")].concat() {
        let mode = mode(&path);
        let name = Path::new(&path).file_name().unwrap().to_str().unwrap();
        let expected = match name {
            "ebb-data" | "copy" => 0o750,
            // Secrets stay with the owner.
            _ if name.starts_with("tokens") || name.starts_with("audit") => 0o600,
            _ => 0o640,
        };
        assert_eq!(mode, expected, "{path} has mode {mode:04o}");
    }
    let names_any = |line: &str| place.ebb(line).stderr.contains("permissions");
    assert!(!names_any("stats --group-readable"));
    assert!(names_any("stats"));
    // Regression: 1 was refused.
    let stats = Done::of(place.command("stats").env("EBB_GROUP_READABLE", "1"));
    assert!(!stats.stderr.contains("permissions"), "{}", stats.stderr);
    stats.ok();
}

#[test]
fn stats_and_serve_name_what_others_may_open_and_leave_it_as_it_is() {
    let place = Place::with_corpus();
    let (data, lock) = (place.path("ebb-data"), place.path("ebb-data/LOCK"));
    assert!(!place.ebb("stats").stderr.contains("permissions"));
    for (path, mode) in [(&data, 0o755), (&lock, 0o644)] {
        set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let expected = "users other than the owner have permissions on ./ebb-data (mode 0755), \
                    ./ebb-data/LOCK (mode 0644); to take them away: chmod -R go= ./ebb-data";
    let stats = place.ebb("stats --json");
    assert_eq!(stats.stderr, format!("ebb: {expected}\n"));
    stats.json();
    let mut server = Server::start(&place, "");
    server.error_line_with(expected);
    assert_eq!(server.stop(), Some(0));
    assert_eq!((mode(data), mode(lock)), (0o755, 0o644));
}
