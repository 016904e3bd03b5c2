//! Which signals a command that a test starts hears.

use procfs::process::Process;

/// SIGINT, SIGTERM and SIGHUP as `kill` takes them, less those that this process ignores:
/// its children inherit that, and `ebb` leaves it so. Under `nohup` SIGHUP is one, and
/// SIGINT in the background of a script.
pub(crate) fn heard() -> Vec<&'static str> {
    let ignored = Process::myself().unwrap().status().unwrap().sigign;
    let all = [("-INT", 2), ("-TERM", 15), ("-HUP", 1)];
    let is_heard = |(name, number): (&'static str, u32)| {
        let is_heard = ignored & 1 << (number - 1) == 0;
        if !is_heard {
            println!("{name} is not tested: whoever started the tests ignores it");
        }
        is_heard.then_some(name)
    };
    all.into_iter().filter_map(is_heard).collect()
}
