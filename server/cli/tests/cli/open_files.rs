//! Commands whose process may have few files open.

use std::process::Command;

use crate::place::{Done, Place, UNPACED};

/// Runs `ebb` with the words of `line` after `ulimit`, whose arguments set a limit of open files. The
/// standard streams are three of the files, and the lock of the database is one.
#[track_caller]
fn limited(place: &Place, ulimit: &str, line: &str) -> Done {
    let ebb = env!("CARGO_BIN_EXE_ebb");
    // What runs the tests may have left files open.
    let close = "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-";
    let script = format!("{close}; ulimit {ulimit} && exec {ebb} {line}");
    let mut bash = Command::new("bash");
    bash.args(["-c", &script])
        .current_dir(place.dir.path())
        .env_remove("EBB_DATA")
        .env(UNPACED, "1");
    Done::of(&mut bash)
}

/// A backup of a database of 400 tables failed under a soft limit of 256 files.
#[test]
fn every_command_raises_the_limit_of_open_files() {
    let place = Place::with_corpus();
    for line in [
        "stats",
        "scan app.lines --limit 1",
        "verify",
        "snapshot list",
        "put --create app.pairs k v",
        "backup copy",
        "run grep --table app.lines --snapshot s --pattern Ebb --output x.tsv",
    ] {
        let done = limited(&place, "-Sn 4", line);
        assert_eq!(done.code, 0, "{line}: {}", done.stderr);
    }
}

#[test]
fn a_command_that_may_open_no_more_files_names_the_limit_to_raise() {
    let place = Place::with_corpus();
    let said = limited(&place, "-n 4", "scan app.lines").fails(1);
    assert!(said.contains("Too many open files"), "{said}");
    assert!(said.contains("ulimit -n"), "{said}");
}
