//! The signals that a command receives when a test starts it.

use procfs::process::Process;

/// Returns those of SIGINT, SIGTERM and SIGHUP that this process does not ignore, by the names that
/// `kill` takes. An ignored signal has no effect on `ebb`, which inherits the setting as a child and
/// keeps it. Under `nohup` SIGHUP is ignored, and in the background of a script SIGINT.
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
