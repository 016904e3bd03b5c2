//! The new start of a server after a failed write, in the same process.
//!
//! ```text
//!   failed write ─> shutdown without a flush ─> exec of the same program ─> start, as after a crash
//! ```
//!
//! The program replaces itself (`exec`) and does not only open the database again: threads that the shutdown
//! left behind, their locks and their open files end with the old program, so none of them can hold the
//! database. The process keeps its id, so a supervisor, a container and a shell still have their child.
//!
//! Invariant: a signal that stops the server wins over the new start, whenever it comes. A SIGHUP does not stop
//! a server with TLS or with a supervisor: from the `exec` until the new program listens for signals, SIGHUP is
//! blocked, and one that comes meanwhile is handled then.
//!
//! The database is not locked between the two programs. A command that comes in this moment, such as `ebb stats`,
//! finds no server, and opens the database itself. The new program waits for the end of such a command.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow};
use rustix::process::{Pid, WaitOptions, waitpid};
use rustix::time::{ClockId, clock_gettime};
use tracing::{error, warn};

use super::log_levels::SERVER;
use super::reopenings::{Decision, REOPENINGS_MAX, Reopenings};
use super::settings::OnFailedWrite;
use crate::interrupt::StoppingSignals;
use crate::lock_holder::is_locked;

/// The environment variable that passes the times of the reopenings to the program that replaces this one. It
/// is no setting. Its text begins with the id of the process, so child processes that inherit the
/// variable ignore it. Malformed text is ignored, too.
const VARIABLE: &str = "EBB_REOPENINGS";

/// The kernel's link to the program of this process.
const PROGRAM: &str = "/proc/self/exe";

/// The number of times that a new start tries to open a database that another process has open. With the pauses
/// this takes half a minute.
const OPENINGS_MAX: u32 = 300;
/// The pause between two of these tries.
const OPEN_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Opens the database by `open`, for a new start after a failed write. While another process has the database
/// open, tries again, as long as `goes_on` returns true. Returns `None` once `goes_on` returns false.
///
/// # Errors
/// The error of the last call of `open`.
pub(super) fn open_when_unlocked<T>(
    open: impl Fn() -> Result<T>,
    goes_on: impl Fn() -> bool,
) -> Result<Option<T>> {
    for tried in 1..OPENINGS_MAX {
        match open() {
            Err(error) if is_locked(&error) => {
                if tried == 1 {
                    warn!(target: SERVER, "waiting for the end of another process: {error:#}");
                }
                if !goes_on() {
                    return Ok(None);
                }
            }
            opened => return opened.map(Some),
        }
    }
    open().map(Some)
}

/// Pauses before the next try to open a database that another process has open.
pub(super) fn pause_before_opening() {
    thread::park_timeout(OPEN_AGAIN_AFTER);
}

/// Returns the reopenings of this process so far; none if no failed write has led to its start.
pub(super) fn earlier() -> Reopenings {
    let text = env::var(VARIABLE).ok();
    let reopenings = text.and_then(|text| Reopenings::parse(&text, process::id()));
    reopenings.unwrap_or_default()
}

/// Collects the exit statuses of the child processes that the old program has left behind. The process of a task
/// that did not end within the shutdown ends when its socket to the old program is closed, and would then stay as
/// a zombie. This program must not have started a child yet: another thread would wait for that one.
///
/// # Errors
/// When the system refuses a thread.
pub(super) fn collect_children() -> Result<()> {
    let children = children();
    if children.is_empty() {
        return Ok(());
    }
    let collect = move || {
        for child in children {
            // An error means that the process is no child any more.
            let _ = waitpid(Some(child), WaitOptions::empty());
        }
    };
    let thread = thread::Builder::new().name("ebb-children".to_owned());
    thread.spawn(collect).context("cannot start a thread")?;
    Ok(())
}

/// Returns the child processes of this process; none if the system does not list processes.
fn children() -> Vec<Pid> {
    let Ok(processes) = procfs::process::all_processes() else {
        return Vec::new();
    };
    let is_child = |process: &procfs::process::Process| {
        let stat = process.stat();
        stat.is_ok_and(|stat| u32::try_from(stat.ppid) == Ok(process::id()))
    };
    (processes.flatten().filter(is_child))
        .filter_map(|process| Pid::from_raw(process.pid))
        .collect()
}

/// Returns the reaction to a failed write of a server whose file of settings `config` cannot be read again. A new
/// start would have the default settings, and serve another directory, so the server exits instead.
pub(super) fn without_config(reaction: OnFailedWrite, config: &Path) -> OnFailedWrite {
    if reaction != OnFailedWrite::Reopen {
        return reaction;
    }
    warn!(
        target: SERVER,
        "{} is no regular file, so no later start can read these settings: after a failed write the server \
         exits",
        config.display()
    );
    OnFailedWrite::Exit
}

/// Decides what a server does after its shutdown, which begins now. Returns `None` if the server ends with the
/// result of the shutdown: no write failed, the setting is another one, or a signal stops the server.
pub(super) fn decide(
    reaction: OnFailedWrite,
    failed_write: &OnceLock<String>,
    signals: &StoppingSignals,
    earlier: &Reopenings,
) -> Option<Decision> {
    let has_failed = failed_write.get().is_some() && !signals.have_come();
    (has_failed && reaction == OnFailedWrite::Reopen).then(|| earlier.decide(since_boot_s()))
}

/// Logs that the server starts again after its shutdown, because of a failed write with this cause.
pub(super) fn log(reopenings: &Reopenings, cause: &str) {
    error!(
        target: SERVER,
        "the server stops and starts again, to open its database: {cause}; reopenings within an hour: {} of \
         at most {REOPENINGS_MAX}",
        reopenings.count()
    );
}

/// Replaces this process by a new start of the server. The caller has shut the server down, with the result
/// `stopped`, and has written the lines of the log.
///
/// Returns only if the process is not replaced: `stopped` if a signal has come since the failed write, and
/// otherwise the error of the system, beside that of `stopped`.
pub(super) fn start_again(
    reopenings: &Reopenings,
    signals: &StoppingSignals,
    stopped: Result<()>,
) -> Result<()> {
    // In this order: a signal that comes before the first line is found by the second, and one that comes
    // later ends the process in its handler. The thread that reads signals ends with the old program, so
    // the signals that it has not read yet would be lost.
    signals.end_process_at_next();
    if signals.have_come() {
        return stopped;
    }
    signals.keep_hangup();
    let failed = replace_process(reopenings);
    // Without the error of the system as a cause, because the exit code is that of the failed write.
    stopped.map_err(|stopped| {
        anyhow!("{stopped:#}; the process cannot start the server again: {failed}")
    })
}

/// Returns the error of a server that gives up: `stopped`, the error of its shutdown, and the number of
/// reopenings.
pub(super) fn given_up(stopped: &Error) -> Error {
    anyhow!("{stopped:#}; it was opened again {REOPENINGS_MAX} times within the last hour")
}

/// Executes the program of this process again, with the same name, arguments and environment, except for
/// [`VARIABLE`]. Returns only if that fails. Files and sockets are closed by the kernel: the standard
/// library and all others open them with the flag `CLOEXEC`.
fn replace_process(reopenings: &Reopenings) -> io::Error {
    let mut words = env::args_os();
    let mut command = Command::new(program());
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    command.args(words);
    command.env(VARIABLE, reopenings.text(process::id()));
    command.exec()
}

/// Returns a path to the program of this process: its own path, or the kernel's link if another file has that
/// path now, as after an upgrade. A failed write is no reason to run another version, and the link always leads
/// to the running one. The link gives the process the name `exe`, under which an operator does not look for
/// it, so it is not used where the path suffices.
fn program() -> PathBuf {
    let file = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    let link = Path::new(PROGRAM);
    let own = env::current_exe().ok();
    let own = own.filter(|own| file(own).is_some_and(|own| Some(own) == file(link)));
    own.unwrap_or_else(|| link.to_path_buf())
}

/// Returns the time since the boot of the machine, in seconds, also of those in which it was suspended. A new
/// program in the same process reads the same clock.
fn since_boot_s() -> u64 {
    u64::try_from(clock_gettime(ClockId::Boottime).tv_sec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Returns a function that opens a database which another process has open at the first `locked` tries,
    /// and then calls `then`.
    fn opening(locked: u32, then: fn() -> Result<u32>) -> impl Fn() -> Result<u32> {
        let tries = Cell::new(0);
        move || {
            tries.set(tries.get() + 1);
            if tries.get() > locked {
                return then();
            }
            Err(ebb_storage::Error::Locked { path: "db".into() }.into())
        }
    }

    /// Regression: a command that had the database open for a moment ended the server.
    #[test]
    fn a_new_start_waits_for_a_command_that_has_the_database_open() {
        let opened = open_when_unlocked(opening(OPENINGS_MAX - 1, || Ok(7)), || true);
        assert_eq!(opened.unwrap(), Some(7));
        let locked = opening(OPENINGS_MAX, || Ok(7));
        let error = open_when_unlocked(locked, || true).unwrap_err();
        assert!(is_locked(&error), "{error}");
        let damaged = opening(1, || Err(anyhow!("damage")));
        let error = open_when_unlocked(damaged, || true).unwrap_err();
        assert_eq!(error.to_string(), "damage");
    }

    /// Regression: a signal in this wait ended the server with the error of a locked database.
    #[test]
    fn a_signal_ends_the_wait_for_another_process_without_an_error() {
        let opened = open_when_unlocked(opening(1, || Ok(7)), || false);
        assert_eq!(opened.unwrap(), None);
        let opened = open_when_unlocked(opening(0, || Ok(7)), || false);
        assert_eq!(opened.unwrap(), Some(7));
    }

    #[test]
    fn the_program_is_found_by_its_own_path() {
        assert_eq!(program(), env::current_exe().unwrap());
    }
}
