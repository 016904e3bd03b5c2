//! The limit of files that the process may have open: raised at the start, and named where it does not
//! suffice.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of open files as far as the system allows. Each SSTable and each connection is
/// an open file. If the system refuses, the limit stays as it is.
pub(super) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let _fewer = setrlimit(Resource::Nofile, raised);
}

/// Returns the number of files that the process may have open, `u32::MAX` at most.
pub(super) fn limit() -> u32 {
    let limit = getrlimit(Resource::Nofile).current;
    limit.map_or(u32::MAX, |limit| u32::try_from(limit).unwrap_or(u32::MAX))
}

/// The advice for a process that needs more open files than its limit.
pub(super) const RAISE_LIMIT: &str =
    "raise the limit of open files, with `ulimit -n` or LimitNOFILE= of a systemd unit";

/// Returns the remedy if an error with this message is that no more files can be opened; `None` for other
/// errors, and if the message names a remedy already.
pub(super) fn advice(message: &str) -> Option<&'static str> {
    // The numbers of the errors EMFILE and ENFILE, as the standard library shows them. The error of
    // a job or of a server has no more than its message.
    if message.contains("ulimit -n") || message.contains("fs.file-max") {
        None
    } else if message.contains("(os error 24)") {
        Some(RAISE_LIMIT)
    } else if message.contains("(os error 23)") {
        Some("the machine can open no more files: end other processes, or raise fs.file-max")
    } else {
        None
    }
}
