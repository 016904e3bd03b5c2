//! Ctrl-C, SIGTERM and SIGHUP, for commands that clean up before they end, and SIGXFSZ for all.
//!
//! If the parent process ignores one of the first three, it stays ignored: otherwise `nohup` would have
//! no effect.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use anyhow::{Context, Result};
use nix::sys::signal::{SigSet, Signal};
use procfs::process::Process;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;

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

/// Makes the next signal end the process at once. A clean-up before the exit calls this if it may
/// block. The clean-up runs on the thread that waits for signals, so this thread cannot react to
/// the next one; a signal handler ends the process instead.
pub(super) fn end_at_next() {
    end_process_at(signals());
}

/// Makes each of these signals end the process in its handler.
fn end_process_at(signals: impl Iterator<Item = i32>) {
    for signal in signals {
        let always = Arc::new(AtomicBool::new(true));
        // If it cannot be registered, the thread that reads signals ends the process, once it can.
        let _ = flag::register_conditional_shutdown(signal, EXIT_SIGNAL + signal, always);
    }
}

/// A listener for signals, for a command such as `ebb serve`, which runs until a signal stops it.
/// The first signal begins the shutdown of the command, and the second one ends the process at
/// once. A thread of the listener reads the signals, because the command may be busy with its start
/// or its shutdown. A process has one listener at most.
pub(super) struct StopSignal {
    handle: StopHandle,
    events: Receiver<Event>,
    /// True until the command calls [`wait`](Self::wait).
    is_starting: Arc<AtomicBool>,
    signals: StoppingSignals,
}

/// The signals that stop a command, for a command that replaces its own process. A signal counts from the
/// moment that its handler runs. The thread of [`StopSignal`] reads it later, or never if the process is
/// replaced before.
#[derive(Clone)]
pub(super) struct StoppingSignals {
    signals: Vec<i32>,
    have_come: Arc<AtomicBool>,
}

impl StoppingSignals {
    /// Notes from now on that one of the signals has come. If `hangup_stops` is false, SIGHUP is none
    /// of them.
    fn note(hangup_stops: bool) -> Result<Self> {
        let stops = |signal: &i32| hangup_stops || *signal != SIGHUP;
        let signals: Vec<i32> = signals().filter(stops).collect();
        let have_come = Arc::<AtomicBool>::default();
        for &signal in &signals {
            flag::register(signal, Arc::clone(&have_come))
                .context("cannot listen for an interrupt")?;
        }
        Ok(Self { signals, have_come })
    }

    /// Returns whether one of the signals has come.
    pub(super) fn have_come(&self) -> bool {
        self.have_come.load(Ordering::SeqCst)
    }

    /// Makes the next of the signals end the process at once, in its handler. When this method returns, no
    /// handler that began before is still running.
    pub(super) fn end_process_at_next(&self) {
        end_process_at(self.signals.iter().copied());
    }

    /// Makes a SIGHUP that does not stop the command wait for a program that replaces this process. The new
    /// program inherits the block from the calling thread, and would otherwise end at a SIGHUP until it
    /// listens. [`StopSignal::listen`] in the new program ends the block.
    pub(super) fn keep_hangup(&self) {
        if !self.signals.contains(&SIGHUP) {
            // It fails for an unknown kind of change only.
            let _ = SigSet::from(Signal::SIGHUP).thread_block();
        }
    }
}

/// A handle that begins the stop as the first signal does. The next signal then ends the process.
#[derive(Clone)]
pub(super) struct StopHandle {
    is_stopping: Arc<AtomicBool>,
    events: Sender<Event>,
}

/// An event for the thread that waits in [`StopSignal::wait`].
enum Event {
    Stop,
    /// A SIGHUP that does not stop the command.
    Hangup,
}

impl StopHandle {
    /// Begins the stop. Returns false if it had begun before.
    pub(super) fn stop(&self) -> bool {
        let is_first = !self.is_stopping.swap(true, Ordering::Relaxed);
        // The receiver is gone once the command has begun to stop.
        let _ = self.events.send(Event::Stop);
        is_first
    }
}

impl StopSignal {
    /// Listens for signals from now on. Calls `on_early_stop` at a first signal that comes before
    /// [`wait`](Self::wait). If `hangup_stops` is false, SIGHUP counts neither as the first signal nor
    /// as the second. Ends a block of SIGHUP: see [`StoppingSignals::keep_hangup`]. The calling thread
    /// must not have started other threads that start child processes, because these inherit the block.
    pub(super) fn listen(
        hangup_stops: bool,
        on_early_stop: impl Fn() + Send + 'static,
    ) -> Result<Self> {
        let mut signals = listen()?;
        let stopping = StoppingSignals::note(hangup_stops)?;
        // It fails for an unknown kind of change only.
        let _ = SigSet::from(Signal::SIGHUP).thread_unblock();
        let (sender, events) = mpsc::channel();
        let handle = StopHandle {
            is_stopping: Arc::default(),
            events: sender,
        };
        let is_starting = Arc::new(AtomicBool::new(true));
        let (stop, starts) = (handle.clone(), Arc::clone(&is_starting));
        let have_come = Arc::clone(&stopping.have_come);
        let read = move || {
            for signal in signals.forever() {
                if signal == SIGHUP && !hangup_stops {
                    // A reload during a shutdown has no effect: the receiver is gone then.
                    let _ = stop.events.send(Event::Hangup);
                    continue;
                }
                // Mostly its handler has noted this. The handlers that read signals are registered
                // before those that note them, and the signal may have come in between.
                have_come.store(true, Ordering::SeqCst);
                if !stop.stop() {
                    std::process::exit(EXIT_SIGNAL + signal);
                } else if starts.load(Ordering::Relaxed) {
                    on_early_stop();
                }
            }
        };
        thread::Builder::new()
            .name("ebb-signals".to_owned())
            .spawn(read)
            .context("cannot listen for an interrupt")?;
        Ok(Self {
            handle,
            events,
            is_starting,
            signals: stopping,
        })
    }

    /// Returns the signals that stop the command.
    pub(super) fn signals(&self) -> StoppingSignals {
        self.signals.clone()
    }

    /// Returns a handle that ends [`wait`](Self::wait), as a signal does.
    pub(super) fn handle(&self) -> StopHandle {
        self.handle.clone()
    }

    /// Returns whether the first signal has come, or a handle has begun the stop.
    pub(super) fn has_come(&self) -> bool {
        self.handle.is_stopping.load(Ordering::Relaxed)
    }

    /// Waits for the first signal. Until then, calls `on_hangup` for each SIGHUP that does not stop the
    /// command, also for those that came before the wait.
    pub(super) fn wait(self, on_hangup: impl Fn()) {
        self.is_starting.store(false, Ordering::Relaxed);
        for event in &self.events {
            match event {
                Event::Hangup => on_hangup(),
                Event::Stop => break,
            }
        }
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

/// Returns whether this process ignores `signal`. A process inherits this setting from its parent,
/// for example for SIGHUP under `nohup`.
fn is_ignored(signal: i32) -> bool {
    let status = Process::myself().and_then(|process| process.status());
    // `sigign` has a bit for each signal, from 1. If it cannot be read, no signal counts as ignored.
    status.is_ok_and(|status| status.sigign & 1 << (signal - 1) != 0)
}
