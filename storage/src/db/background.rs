//! The threads that flush, compact and sync, and the signal that wakes them.

#[cfg(all(test, loom))]
mod loom_models;

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::idle::{Activity, IdleWatch};
use super::{Engine, priority};
use crate::disk::LOOK_EVERY;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Durability, Maintenance};
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{AtomicU64, Condvar, Mutex, Ordering};
use crate::table_store::Stage;

/// The pause between two attempts to free replaced versions and files that readers still hold.
const RELEASE_EVERY: Duration = Duration::from_millis(100);

/// The shortest pause before the next deletion of expired snapshots. A snapshot that could not be
/// deleted is tried again after this pause.
const EXPIRY_WAIT_MIN: Duration = Duration::from_millis(100);
/// The flush thread reads the wall clock at least this often while a snapshot is to expire. Its waits
/// end by another clock, which does not show that the wall clock was set, or that the machine slept.
const CLOCK_WAIT_MAX: Duration = Duration::from_secs(60);

/// The first pause before a retry of work that found no space, file descriptor or memory. It doubles with
/// each failure, up to [`RETRY_MAX`]. A new request for this work ends the pause at once.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(3);

/// A kind of background work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Flush,
    Compaction,
}

/// The error of the last try of each kind of [`Work`]; `None` if it succeeded, or there was no try
/// yet.
#[derive(Debug, Default)]
pub(crate) struct Failures([Option<Error>; 2]);

impl Failures {
    pub(super) fn note(&mut self, work: Work, failed: Option<&Error>) {
        self.0[work as usize] = failed.cloned();
    }

    pub(super) fn of(&self, work: Work) -> Option<&Error> {
        self.0[work as usize].as_ref()
    }
}

/// The pause before background work is repeated because it found no space, descriptor or memory;
/// `None` if the last attempt needs no retry. Flushes are repeated also while writes are refused
/// below the low-water mark, because each flush looks whether there is space again.
#[derive(Debug, Default)]
struct Retry {
    after: Option<Duration>,
}

impl Retry {
    fn note(&mut self, is_to_retry: bool) {
        let doubled = |after: Duration| (after * 2).min(RETRY_MAX);
        self.after = is_to_retry.then(|| self.after.map_or(RETRY_MIN, doubled));
    }
}

/// Requests to the background threads. The requests are flags, not messages in a channel: several
/// requests of a kind become one, and a thread can wait with a timeout. Tested with loom.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    requests: Mutex<Requests>,
    changed: Condvar,
    merges_asked: AtomicU64,
}

#[derive(Debug, Default)]
struct Requests {
    flush: bool,
    help_flush: bool,
    compact: bool,
    /// A request to look at the clock again: a snapshot has another expiry, or holds must be
    /// released.
    time: bool,
    stop: bool,
}

impl Signal {
    pub(super) fn flush(&self) {
        let mut requests = self.requests.lock().unwrap();
        // A thread that was notified and has not woken yet serves this request too: while the log
        // is too large, every commit makes one.
        if !std::mem::replace(&mut requests.flush, true) {
            self.changed.notify_all();
        }
    }

    /// Requests another thread to join the round of flushes.
    pub(super) fn help_flush(&self) {
        self.request(|requests| requests.help_flush = true);
    }

    pub(super) fn compact(&self) {
        self.merges_asked.fetch_add(1, Ordering::AcqRel);
        self.request(|requests| requests.compact = true);
    }

    /// Returns the number of requests to look for merges so far. While the number stays the same, the
    /// engine assumes that a table that needed no merge still needs none.
    pub(super) fn merges_asked(&self) -> u64 {
        self.merges_asked.load(Ordering::Acquire)
    }

    pub(super) fn look_at_the_time(&self) {
        self.request(|requests| requests.time = true);
    }

    fn stop(&self) {
        self.request(|requests| requests.stop = true);
    }

    fn request(&self, what: impl FnOnce(&mut Requests)) {
        what(&mut self.requests.lock().unwrap());
        self.changed.notify_all();
    }

    /// Waits until `take` finds a request, at most for `time` (`None`: without limit). Returns false
    /// if the thread is to stop; otherwise true, also if no request came in time.
    fn wait(&self, take: impl Fn(&mut Requests) -> bool, time: Option<Duration>) -> bool {
        let mut requests = self.requests.lock().unwrap();
        let nothing = |requests: &mut Requests| !requests.stop && !take(requests);
        requests = match time {
            Some(time) => {
                self.changed
                    .wait_timeout_while(requests, time, nothing)
                    .unwrap()
                    .0
            }
            None => self.changed.wait_while(requests, nothing).unwrap(),
        };
        !requests.stop
    }

    /// Waits for `time`. Returns false if the thread is to stop.
    fn pause(&self, time: Duration) -> bool {
        self.wait(|_| false, Some(time))
    }
}

#[derive(Debug)]
pub(crate) struct Threads(Vec<JoinHandle<()>>);

impl Threads {
    pub(super) fn start(engine: &Arc<Engine>) -> Result<Self> {
        let mut threads = Self(Vec::new());
        match threads.start_all(engine) {
            Ok(()) => Ok(threads),
            Err(e) => {
                // Running threads would keep the directory locked.
                threads.stop(engine);
                Err(e)
            }
        }
    }

    fn start_all(&mut self, engine: &Arc<Engine>) -> Result<()> {
        let dir = engine.dir.clone();
        let mut start = |name: &str, work: fn(&Engine)| -> Result<()> {
            let engine = engine.clone();
            let thread = thread::Builder::new()
                .name(name.to_string())
                .spawn(move || work(&engine));
            self.0
                .push(thread.map_err(Error::io("start a thread for", &dir))?);
            Ok(())
        };
        if engine.options.maintenance == Maintenance::Background {
            start("ebb-disk-watch", watch_disk_loop)?;
            start("ebb-flush", flush_loop)?;
            for _ in 1..engine.options.flush_threads {
                start("ebb-flush-2", help_flush_loop)?;
            }
            for _ in 0..engine.options.compaction.threads.max(1) {
                start("ebb-compact", compact_loop)?;
            }
            // For the work that the last process left unfinished.
            engine
                .signal
                .request(|requests| (requests.flush, requests.compact) = (true, true));
        }
        if let Durability::Interval(_) = engine.options.durability
            && engine.options.maintenance == Maintenance::Background
        {
            start("ebb-wal-sync", sync_loop)?;
        }
        Ok(())
    }

    /// Stops the threads and waits for them.
    pub(super) fn stop(&mut self, engine: &Engine) {
        engine.stopping.store(true, Ordering::Relaxed);
        engine.signal.stop();
        engine.open_files.enter(Stage::Closing);
        for thread in self.0.drain(..) {
            // Each thread ends by itself; one that panicked has printed that on stderr.
            let _ = thread.join();
        }
    }
}

fn flush_loop(engine: &Engine) {
    priority::lower();
    let mut held = 0;
    let mut retry = Retry::default();
    let activity = || Activity {
        last: engine.queue.visible(),
        reads: engine.counters.point_reads(),
    };
    let idle_after = engine.options.idle_after;
    let mut watch = idle_after.map(|after| IdleWatch::new(after, activity(), Instant::now()));
    while engine.signal.wait(
        |requests| std::mem::take(&mut requests.flush) | std::mem::take(&mut requests.time),
        retry
            .after
            .or((held > 0).then_some(RELEASE_EVERY))
            .into_iter()
            .chain(time_to_expiry(engine))
            .chain(watch.as_ref().map(|watch| watch.pause(Instant::now())))
            .min(),
    ) {
        let look = |watch: &mut IdleWatch| watch.look(activity(), Instant::now());
        let idle = watch.as_mut().is_some_and(look);
        let is_starved = guard(engine, "flush", || {
            let rolled = engine.set_idle(idle);
            // If one of the two finds no space, the other one may find some.
            let deleted = engine.delete_expired_snapshots();
            engine.flush_frozen().and(deleted.map(drop)).and(rolled)
        });
        // While writes are refused, each flush looks whether there is space again.
        retry.note(is_starved || engine.is_low_on_space());
        held = engine.release_retired();
    }
}

fn help_flush_loop(engine: &Engine) {
    priority::lower();
    let help = |requests: &mut Requests| std::mem::take(&mut requests.help_flush);
    while engine.signal.wait(help, None) {
        guard(engine, "flush", || {
            engine.help_flush();
            Ok(())
        });
    }
}

/// Returns the time until the next snapshot expires, at least [`EXPIRY_WAIT_MIN`] and at most
/// [`CLOCK_WAIT_MAX`]; `None` if no snapshot expires, or writes have stopped.
fn time_to_expiry(engine: &Engine) -> Option<Duration> {
    let expires_ms = engine.snapshots.next_expiry_ms()?;
    // A snapshot cannot be deleted once writes have stopped.
    if engine.wal.failure().is_some() {
        return None;
    }
    let wait = Duration::from_millis(expires_ms.saturating_sub(engine.now_ms()));
    Some(wait.clamp(EXPIRY_WAIT_MIN, CLOCK_WAIT_MAX))
}

fn compact_loop(engine: &Engine) {
    priority::lower();
    let mut retry = Retry::default();
    let mut looked_ms = 0;
    while engine.signal.wait(
        |requests| std::mem::take(&mut requests.compact),
        retry
            .after
            .into_iter()
            .chain(time_to_retry(engine, looked_ms))
            .min(),
    ) {
        looked_ms = engine.elapsed_ms();
        retry.note(guard(engine, "compaction", || engine.compact_more()));
        // The flush loop frees replaced files that readers still hold now.
        engine.signal.flush();
    }
}

/// Returns the time until merges may read a run again that they leave out because it could not be
/// read; `None` if there is no such run. Ignores runs whose time had come at `looked_ms` (by
/// [`Engine::elapsed_ms`]), because merges were looked for then.
fn time_to_retry(engine: &Engine, looked_ms: u64) -> Option<Duration> {
    let retry_ms = engine.next_retry_ms(looked_ms)?;
    let wait_ms = retry_ms.saturating_sub(engine.elapsed_ms());
    Some(Duration::from_millis(wait_ms))
}

fn sync_loop(engine: &Engine) {
    let Durability::Interval(interval) = engine.options.durability else {
        return;
    };
    while engine.signal.pause(interval) {
        guard(engine, "sync", || engine.wal.sync_all());
    }
}

/// Looks for calls to the disk that hang. This thread makes none itself, so it does not hang.
fn watch_disk_loop(engine: &Engine) {
    let begun = Instant::now();
    while engine.signal.pause(LOOK_EVERY) {
        engine.look_at_disk_calls(begun.elapsed());
    }
}

/// Runs background work; `what` names it in errors. Returns true if the work found no space, no file
/// descriptor or no memory, and is to be tried again. Any other failure, and a panic, stops writes (memtables
/// could grow without bound, and the content of the disk is uncertain), but never reads. While the
/// engine closes, failures are ignored, but not panics.
fn guard(engine: &Engine, what: &str, work: impl FnOnce() -> Result<()>) -> bool {
    struct Panicked<'a>(&'a Engine, &'a str);
    impl Drop for Panicked<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                self.0.stop_writes(&format!("{} panicked", self.1));
            }
        }
    }
    let _panicked = Panicked(engine, what);
    match work() {
        Err(e) if e.kind() == ErrorKind::DiskFull || e.is_out_of_resources() => return true,
        Err(e) if !engine.stopping.load(Ordering::Relaxed) => {
            engine.stop_writes(&format!("{what} failed: {e}"));
        }
        _ => {}
    }
    false
}
