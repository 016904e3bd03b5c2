//! Ctrl-C, SIGTERM and SIGHUP, for commands that clean up before they end, and SIGXFSZ for all.
//!
//! If the parent process ignores one of the first three, it stays ignored: otherwise `nohup` would have
//! no effect.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result};
use procfs::process::Process;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::{Handle, Signals};

/// The exit code of a command that a signal ended, less the number of the signal: the convention of shells.
const EXIT_SIGNAL: i32 = 128;

/// Makes a write beyond the limit of the size of files (`ulimit -f`, LimitFSIZE=) fail with an error that
/// names the file. By default, SIGXFSZ ends the process with no message. The signal gets a handler and is not
/// ignored, because child processes would inherit an ignored signal, but do not inherit a handler.
pub(super) fn survive_long_files() {
    // Nothing reads the flag. If it cannot be registered, the signal ends the process as before.
    let _ = flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

/// Returns a flag that becomes true at the first signal, so that work can end early. The second signal
/// ends the process. A process calls this, or [`cancelled_with`], once.
pub(super) fn cancelled() -> Result<Arc<AtomicBool>> {
    cancelled_with(|| ())
}

/// Returns the flag of [`cancelled`]. Before the second signal ends the process, a thread calls `before_exit`.
/// Further signals have no effect during that call, unless it has called [`end_at_next`].
pub(super) fn cancelled_with(before_exit: impl Fn() + Send + 'static) -> Result<Arc<AtomicBool>> {
    let signals = listen()?;
    let cancelled = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&cancelled);
    thread::Builder::new()
        .name("ebb-signals".to_owned())
        .spawn(move || wait(signals, &flag, &before_exit))
        .context("cannot listen for an interrupt")?;
    Ok(cancelled)
}

/// Makes the next signal end the process at once. A clean-up before the exit calls this if it may block: the
/// thread that waits for signals runs the clean-up then, so a signal handler has to end the process.
pub(super) fn end_at_next() {
    for signal in signals() {
        let always = Arc::new(AtomicBool::new(true));
        // If it cannot be registered, the process ends after the clean-up.
        let _ = flag::register_conditional_shutdown(signal, EXIT_SIGNAL + signal, always);
    }
}

/// A listener for the first signal, for a command that serves until it is stopped. After
/// [`wait`](Self::wait) has returned, the next signal ends the process. A process has one listener at most.
pub(super) struct StopSignal(Signals);

impl StopSignal {
    /// Listens for signals from now on.
    pub(super) fn listen() -> Result<Self> {
        listen().map(Self)
    }

    /// Returns a handle whose `close` ends [`wait`](Self::wait), as a signal does.
    pub(super) fn handle(&self) -> Handle {
        self.0.handle()
    }

    /// Waits for the first signal. With `on_hangup`, SIGHUP calls that function and does not end the wait, and
    /// after the wait it has no effect: a reload during a shutdown must not end the process.
    pub(super) fn wait(mut self, on_hangup: Option<&dyn Fn()>) -> Result<()> {
        for signal in self.0.forever() {
            match on_hangup {
                Some(on_hangup) if signal == SIGHUP => on_hangup(),
                _ => break,
            }
        }
        let hangup_ends = on_hangup.is_none();
        thread::Builder::new()
            .name("ebb-signals".to_owned())
            .spawn(move || {
                exit_at_signal(self.0, hangup_ends);
                // A handle closed the signals, before the first one came or afterwards.
                if let Ok(signals) = listen() {
                    exit_at_signal(signals, hangup_ends);
                }
            })
            .context("cannot listen for an interrupt")?;
        Ok(())
    }
}

fn listen() -> Result<Signals> {
    Signals::new(signals()).context("cannot listen for an interrupt")
}

/// Returns SIGINT, SIGTERM and SIGHUP, without those that this process ignores, as it does SIGHUP under
/// `nohup`.
fn signals() -> impl Iterator<Item = i32> {
    let all = [SIGINT, SIGTERM, SIGHUP].into_iter();
    all.filter(|&signal| !is_ignored(signal))
}

fn wait(mut signals: Signals, cancelled: &AtomicBool, before_exit: &dyn Fn()) {
    for signal in signals.forever() {
        if cancelled.swap(true, Ordering::Relaxed) {
            before_exit();
            std::process::exit(EXIT_SIGNAL + signal);
        }
    }
}

/// Ends the process at the next signal; SIGHUP counts only if `hangup_ends`. Returns if the signals are
/// closed.
fn exit_at_signal(mut signals: Signals, hangup_ends: bool) {
    for signal in signals.forever() {
        if signal != SIGHUP || hangup_ends {
            std::process::exit(EXIT_SIGNAL + signal);
        }
    }
}

/// Returns whether this process ignores `signal`. It inherits that from its parent, as SIGHUP under `nohup`.
fn is_ignored(signal: i32) -> bool {
    let status = Process::myself().and_then(|process| process.status());
    // `sigign` has a bit for each signal, from 1. If it cannot be read, no signal counts as ignored.
    status.is_ok_and(|status| status.sigign & 1 << (signal - 1) != 0)
}
