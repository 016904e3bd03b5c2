//! Pauses: times at which a core of the machine ran no thread of this process, because the host or
//! the kernel used it.
//!
//! A virtual machine stands still while its host does something else, and some kernel threads keep
//! a core for milliseconds (a memory monitor that scans all memory twice a second takes ten). If
//! such pauses take 2% of the time, they determine the 99th percentile of a load, with jobs and
//! without. So operations can be left out that were due in a pause, or before its backlog was
//! worked off. The rule is fixed beforehand, and depends neither on latencies nor on the condition.
//!
//! On each core a *sentinel* repeatedly sleeps for half a millisecond under `SCHED_FIFO`. Threads
//! of the ordinary class and of the idle class never keep it from running; the host, the kernel
//! itself, and a long system call of another thread do. So results have the fraction of the time
//! that was left out, by condition. The sentinels also check whether a kernel thread ran that is
//! busy even while this process is idle.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use procfs::process::all_processes;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use thread_priority::ThreadPriority;
use thread_priority::unix::{
    RealtimeThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

use crate::threads::value_of;

/// The time for which a sentinel sleeps at a time. Sentinels are real-time threads, so one that
/// wakes up late has observed a pause of the machine.
const EVERY: Duration = Duration::from_micros(500);
/// The least delay of a sentinel's wake-up that counts as a pause of the machine.
const LATE: Duration = Duration::from_micros(500);
/// The time over which kernel threads are measured to find busy ones.
const LOOK: Duration = Duration::from_secs(1);
/// The least CPU time within [`LOOK`] that makes a kernel thread a busy one.
const BUSY: Duration = Duration::from_millis(1);
/// If a busy kernel thread uses at least this CPU time between two wake-ups of a sentinel, the time
/// between the wake-ups counts as a pause of the machine. Sentinels are the threads that detect
/// pauses.
const RAN: Duration = Duration::from_micros(100);
/// Pauses with at most this time between them count as one pause.
const BETWEEN: Duration = Duration::from_millis(2);
/// The flag in `/proc/PID/stat` that marks a kernel thread.
pub(crate) const PF_KTHREAD: u32 = 0x0020_0000;
/// The length of the time before each pause whose operations are left out of the results, too:
/// operations that were due in that time may still have been under way when the pause began.
const BEFORE: Duration = Duration::from_millis(1);
/// The length of the time after each pause whose operations are left out of the results, too, as a
/// multiple of the pause. At a load of two thirds of the machine, working off the backlog of a
/// pause takes twice the length of the pause.
const AFTER: u32 = 2;

/// The sentinels: a real-time thread on each core that this process may use. Each sleeps again and
/// again, and records late wake-ups as pauses of its core.
#[derive(Debug)]
pub(crate) struct Sentinels {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Span>>>,
}

/// The start and the end of a span of time.
type Span = (Instant, Instant);

impl Sentinels {
    /// Starts the sentinels, real-time threads that detect pauses of the machine. The first call
    /// measures for a second which kernel threads are busy, and this process should be idle
    /// meanwhile. Returns `None` if the system does not grant the real-time class, which requires
    /// CAP_SYS_NICE.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub(crate) fn post() -> io::Result<Option<Self>> {
        if !is_granted()? {
            return Ok(None);
        }
        let kernel_threads = kernel_threads();
        let over = Arc::new(AtomicBool::new(false));
        let allowed = sched_getaffinity(None)?;
        let cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
        let post = |core| {
            let over = Arc::clone(&over);
            thread::Builder::new()
                .name("sentinel".into())
                .spawn(move || stand(core, kernel_threads, &over))
        };
        let threads = cores.map(post).collect::<io::Result<_>>()?;
        Ok(Some(Self { over, threads }))
    }

    /// Ends the sentinels, the threads that detect pauses of the machine, and returns the pauses
    /// that they observed.
    pub(crate) fn end(mut self) -> Pauses {
        self.over.store(true, Ordering::Relaxed);
        let mut pauses = Vec::new();
        for thread in self.threads.drain(..) {
            pauses.extend(value_of(thread.join()));
        }
        Pauses::of(pauses)
    }
}

impl Drop for Sentinels {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Returns whether the system grants the real-time class, which a short-lived thread tries.
fn is_granted() -> io::Result<bool> {
    let tried = thread::Builder::new().spawn(enter_real_time_class)?;
    Ok(tried.join().unwrap_or(false))
}

/// Puts the calling thread into the real-time class, at the highest priority: it runs before all
/// ordinary threads. Returns whether the system granted it.
pub(crate) fn enter_real_time_class() -> bool {
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let thread = thread_native_id();
    set_thread_priority_and_policy(thread, ThreadPriority::Max, policy).is_ok()
}

/// A kernel thread, represented by the open file from which its CPU time is read.
#[derive(Debug)]
struct KernelThread(File);

impl KernelThread {
    /// Returns the thread's CPU time; `None` once it has ended.
    fn used(&self) -> Option<Duration> {
        let mut text = [0; 64];
        let length = self.0.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..length]).ok()?;
        let nanos = text.split_ascii_whitespace().next()?.parse().ok()?;
        Some(Duration::from_nanos(nanos))
    }
}

/// Returns the kernel threads that are busy while this process is idle. The first call measures for
/// [`LOOK`]; later calls return the same threads.
fn kernel_threads() -> &'static [KernelThread] {
    static KERNEL_THREADS: OnceLock<Vec<KernelThread>> = OnceLock::new();
    KERNEL_THREADS.get_or_init(|| {
        let Ok(processes) = all_processes() else {
            return Vec::new();
        };
        let stats = processes.filter_map(|process| process.and_then(|it| it.stat()).ok());
        let of_kernel = stats.filter(|stat| stat.flags & PF_KTHREAD != 0);
        let open = |pid: i32| File::open(format!("/proc/{pid}/schedstat")).ok();
        let threads = of_kernel.filter_map(|stat| Some(KernelThread(open(stat.pid)?)));
        let before: Vec<_> = threads
            .filter_map(|thread| Some((thread.used()?, thread)))
            .collect();
        let until = Instant::now() + LOOK;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            thread::park_timeout(left);
        }
        let is_busy = |(used, thread): &(Duration, KernelThread)| {
            (thread.used()).is_some_and(|now| now.saturating_sub(*used) >= BUSY)
        };
        let busy = before.into_iter().filter(is_busy);
        busy.map(|(_, thread)| thread).collect()
    })
}

/// Runs the sentinel of one core, a real-time thread that sleeps again and again, until `over`.
/// Returns the pauses of the core: the spans of time after which it woke up late, or in which a
/// busy kernel thread ran.
fn stand(core: usize, kernel_threads: &[KernelThread], over: &AtomicBool) -> Vec<Span> {
    let mut only = CpuSet::new();
    only.set(core);
    // A core that was removed from this process meanwhile has no pauses.
    if sched_setaffinity(None, &only).is_err() || !enter_real_time_class() {
        return Vec::new();
    }
    let mut pauses = Vec::new();
    let mut before = Instant::now();
    let mut used: Vec<_> = kernel_threads.iter().map(KernelThread::used).collect();
    while !over.load(Ordering::Relaxed) {
        thread::park_timeout(EVERY);
        let now = Instant::now();
        let mut paused = now - before > EVERY + LATE;
        for (thread, used) in kernel_threads.iter().zip(&mut used) {
            let before = std::mem::replace(used, thread.used());
            let ran = |(now, before): (Duration, Duration)| now.saturating_sub(before) >= RAN;
            paused |= used.zip(before).is_some_and(ran);
        }
        if paused {
            pauses.push((before, now));
        }
        before = now;
    }
    pauses
}

/// The largest fraction of a span of time that may be left out because of pauses. If pauses hide
/// more, all operations of the span count, because those outside of the pauses would not be
/// representative.
pub(crate) const HIDDEN_MAX: f64 = 0.5;

/// Hidden spans of time: operations that were due in one are left out of the results. By default
/// there are none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pauses {
    /// The spans of time that pauses of the machine hide: operations due in them are left out of the
    /// results. Ascending, without overlaps.
    shadows: Vec<Span>,
}

impl Pauses {
    /// Computes, from the pauses on all cores in any order, the spans of time in which operations
    /// are left out of the results.
    pub(super) fn of(mut pauses: Vec<Span>) -> Self {
        pauses.sort_unstable();
        let pauses = merge(pauses, BETWEEN);
        let shadow = |(from, until): Span| {
            let after = (until - from) * AFTER;
            (from.checked_sub(BEFORE).unwrap_or(from), until + after)
        };
        let shadows = pauses.into_iter().map(shadow).collect();
        Self {
            shadows: merge(shadows, Duration::ZERO),
        }
    }

    /// Returns whether an operation that was due at this time is left out of the results.
    pub(crate) fn hide(&self, due: Instant) -> bool {
        let next = self.shadows.partition_point(|(_, until)| *until <= due);
        self.shadows.get(next).is_some_and(|(from, _)| *from <= due)
    }

    /// Returns whether pauses hide more than [`HIDDEN_MAX`] of the time from `from` to `until`. The
    /// caller should then leave out no operation that was due in this time.
    pub(crate) fn hide_most(&self, from: Instant, until: Instant) -> bool {
        let all = until.saturating_duration_since(from);
        self.hidden(from, until) > all.mul_f64(HIDDEN_MAX)
    }

    /// Returns for how much of the time from `from` to `until` operations are left out because of
    /// pauses.
    pub(crate) fn hidden(&self, from: Instant, until: Instant) -> Duration {
        let within = |shadow: &Span| {
            let (from, until) = (shadow.0.max(from), shadow.1.min(until));
            until.saturating_duration_since(from)
        };
        self.shadows.iter().map(within).sum()
    }
}

/// Merges spans with at most `between` between them. Spans are ascending, before and after.
fn merge(spans: Vec<Span>, between: Duration) -> Vec<Span> {
    let mut merged: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.0 <= last.1 + between => last.1 = last.1.max(span.1),
            _ => merged.push(span),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_hides_operations_due_in_it_and_twice_as_long_afterwards() {
        let start = Instant::now() + Duration::from_secs(1); // clock: the origin of made-up times
        let at = |ms: u64| start + Duration::from_millis(ms);
        let pauses = Pauses::of(vec![(at(50), at(60)), (at(10), at(12)), (at(12), at(13))]);
        let hidden: Vec<u64> = (0..100).filter(|ms| pauses.hide(at(*ms))).collect();
        let expected: Vec<u64> = (9..19).chain(49..80).collect();
        assert_eq!(hidden, expected);
        assert_eq!(pauses.hidden(at(0), at(100)), Duration::from_millis(41));
        assert_eq!(pauses.hidden(at(60), at(70)), Duration::from_millis(10));
        assert_eq!(pauses.hidden(at(90), at(100)), Duration::ZERO);
        assert!(pauses.hide_most(at(50), at(100)) && !pauses.hide_most(at(0), at(100)));
        assert!(!Pauses::default().hide(at(50)));
    }

    #[test]
    #[ignore = "nightly: as root it runs threads of the highest real-time priority on all cores"]
    fn sentinels_run_until_they_are_ended() {
        let begun = Instant::now(); // clock: the sentinels record real times
        // Without the permission there are no sentinels.
        let own = kernel_threads().iter().map(KernelThread::used);
        assert!(own.flatten().all(|used| used >= BUSY));
        if let Some(sentinels) = Sentinels::post().unwrap() {
            thread::park_timeout(Duration::from_millis(20));
            let pauses = sentinels.end();
            assert!(pauses.shadows.is_sorted());
            assert!(!pauses.hide(begun - Duration::from_secs(3600)));
        }
    }
}
