//! The `ebb` binary as a user meets it: arguments in; stdout, stderr, files and
//! an exit code out.

mod advice;
mod applications;
mod attached;
mod audit;
mod bad_input;
mod care;
mod corpus;
mod cql_jobs;
mod cql_tables;
mod exit_codes;
mod failed_write;
mod files;
mod forecast;
mod history;
mod hostile;
mod http;
mod https;
mod indexes;
mod isolation;
mod jobs;
mod killed_jobs;
mod killing;
#[cfg(feature = "publish")]
mod lateness;
mod loading;
mod log;
mod open_files;
mod options;
mod permissions;
mod place;
#[cfg(feature = "publish")]
mod publishing;
mod reading;
mod restarts;
mod rows;
mod served_jobs;
mod serving;
mod signals;
mod simulating;
mod supervised;
mod top;
#[cfg(feature = "publish")]
mod typed_loads;
mod unreadable;
#[cfg(not(feature = "publish"))]
mod without_publish;
mod writing;

use place::{Place, output};

#[test]
fn the_data_directory_comes_from_the_flag_or_the_environment() {
    let place = Place::new();
    place.write("a.txt", "one\n");
    place.ebb("load --data here/db --table app.t a.txt").ok();
    let from_environment = output(place.command("scan app.t").env("EBB_DATA", "here/db"));
    assert_eq!(from_environment.stdout, b"a.txt:000000000001\tone\n");
    place.ebb("scan app.t").fails(3);
}

#[test]
fn help_lists_the_exit_codes_and_every_command() {
    let help = Place::new().ebb("--help").ok();
    for word in [
        "Exit codes",
        "demo",
        "load",
        "snapshot",
        "run",
        "policies",
        "sim",
    ] {
        assert!(help.contains(word), "{word} in {help}");
    }
}
