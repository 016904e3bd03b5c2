//! Pauses: when a core of the machine ran none of this process's threads, for something
//! else had it.
//!
//! A virtual machine stands still while its host does something else, and some threads of
//! the kernel keep a core for milliseconds (a monitor of memory that looks at all of it
//! twice a second takes ten). With such pauses in 2% of the time, the 99th percentile of a
//! load is what the pauses make of it, alone as beside jobs. So operations that were due in
//! one, or while what had gathered in it was worked off, can be left out: by a rule that is
//! fixed before, and that looks neither at latencies nor at who runs beside the load.
//!
//! On each core a *sentinel* sleeps for half a millisecond, again and again, under
//! `SCHED_FIFO`, so threads of the ordinary and of the idle class never keep it from
//! running. What does: the host, the kernel itself, and a system call of another thread
//! that takes that long. So each condition tells how much of its time was left out. The
//! sentinels also look whether a thread of the kernel ran that is busy even while this
//! process does nothing.

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

/// How long a sentinel sleeps.
const EVERY: Duration = Duration::from_micros(500);
/// How much later than it asked for it wakes up after a pause.
const LATE: Duration = Duration::from_micros(500);
/// Threads of the kernel are looked for so long, once ...
const LOOK: Duration = Duration::from_secs(1);
/// ... and are those that use so much meanwhile, of one core.
const BUSY: Duration = Duration::from_millis(1);
/// Such a thread runs when it used so much since a sentinel last looked.
const RAN: Duration = Duration::from_micros(100);
/// Pauses with less between them are one.
const BETWEEN: Duration = Duration::from_millis(2);
/// In the flags of a process: it is a thread of the kernel.
pub(crate) const PF_KTHREAD: u32 = 0x0020_0000;
/// What came shortly before a pause may not have been done when it began.
const BEFORE: Duration = Duration::from_millis(1);
/// What gathers in a pause is worked off in twice its length: a load of two thirds of the
/// machine needs that long.
const AFTER: u32 = 2;

/// A sentinel on each core that this process may use.
#[derive(Debug)]
pub(crate) struct Sentinels {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Span>>>,
}

/// From one moment to another.
type Span = (Instant, Instant);

impl Sentinels {
    /// Posts them. The first time it first looks for a second which threads of the kernel are
    /// busy: this process should do nothing then. `None` where the system does not grant the real-time class, which takes
    /// CAP_SYS_NICE.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(crate) fn post() -> io::Result<Option<Self>> {
        if !is_granted()? {
            return Ok(None);
        }
        let watched = watched();
        let over = Arc::new(AtomicBool::new(false));
        let allowed = sched_getaffinity(None)?;
        let cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
        let post = |core| {
            let over = Arc::clone(&over);
            thread::Builder::new()
                .name("sentinel".into())
                .spawn(move || stand(core, watched, &over))
        };
        let threads = cores.map(post).collect::<io::Result<_>>()?;
        Ok(Some(Self { over, threads }))
    }

    /// What they saw until now.
    pub(crate) fn end(mut self) -> Pauses {
        self.over.store(true, Ordering::Relaxed);
        let mut seen = Vec::new();
        for thread in self.threads.drain(..) {
            seen.extend(value_of(thread.join()));
        }
        Pauses::of(seen)
    }
}

impl Drop for Sentinels {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Whether a thread may enter the real-time class: one that ends at once tries it.
fn is_granted() -> io::Result<bool> {
    let tried = thread::Builder::new().spawn(enter_real_time_class)?;
    Ok(tried.join().unwrap_or(false))
}

/// Lets the calling thread run before all of the ordinary class; whether the system does.
pub(crate) fn enter_real_time_class() -> bool {
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let thread = thread_native_id();
    set_thread_priority_and_policy(thread, ThreadPriority::Max, policy).is_ok()
}

/// A thread of the kernel, by the file that says what it used.
#[derive(Debug)]
struct KernelThread(File);

impl KernelThread {
    /// Processor time since it began; none once it has ended.
    fn used(&self) -> Option<Duration> {
        let mut text = [0; 64];
        let length = self.0.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..length]).ok()?;
        let nanos = text.split_ascii_whitespace().next()?.parse().ok()?;
        Some(Duration::from_nanos(nanos))
    }
}

/// The threads of the kernel that are busy while this process does nothing.
fn watched() -> &'static [KernelThread] {
    static WATCHED: OnceLock<Vec<KernelThread>> = OnceLock::new();
    WATCHED.get_or_init(|| {
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

/// Gives the pauses of one core.
fn stand(core: usize, watched: &[KernelThread], over: &AtomicBool) -> Vec<Span> {
    let mut only = CpuSet::new();
    only.set(core);
    // A core that was taken away meanwhile has no pauses.
    if sched_setaffinity(None, &only).is_err() || !enter_real_time_class() {
        return Vec::new();
    }
    let mut pauses = Vec::new();
    let mut before = Instant::now();
    let mut used: Vec<_> = watched.iter().map(KernelThread::used).collect();
    while !over.load(Ordering::Relaxed) {
        thread::park_timeout(EVERY);
        let now = Instant::now();
        let mut paused = now - before > EVERY + LATE;
        for (thread, used) in watched.iter().zip(&mut used) {
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

/// Of a time of which pauses hide more than this part, all counts: what is left says little.
pub(crate) const HIDDEN_MAX: f64 = 0.5;

/// When operations that are due do not count. By default they always do.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pauses {
    /// Ascending, without overlaps.
    shadows: Vec<Span>,
}

impl Pauses {
    /// What is hidden by these, on any cores, in any order.
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

    /// Whether an operation that was due then does not count.
    pub(crate) fn hide(&self, due: Instant) -> bool {
        let next = self.shadows.partition_point(|(_, until)| *until <= due);
        self.shadows.get(next).is_some_and(|(from, _)| *from <= due)
    }

    /// Whether these hide so much of a time that all of it is to count.
    pub(crate) fn hide_most(&self, from: Instant, until: Instant) -> bool {
        let all = until.saturating_duration_since(from);
        self.hidden(from, until) > all.mul_f64(HIDDEN_MAX)
    }

    /// How much of a time does not count.
    pub(crate) fn hidden(&self, from: Instant, until: Instant) -> Duration {
        let within = |shadow: &Span| {
            let (from, until) = (shadow.0.max(from), shadow.1.min(until));
            until.saturating_duration_since(from)
        };
        self.shadows.iter().map(within).sum()
    }
}

/// Makes one of those that have less than `between` between them; both ascending.
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
    fn a_pause_hides_what_was_due_in_it_and_twice_as_long_after() {
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
    fn sentinels_stand_until_they_are_relieved() {
        let begun = Instant::now(); // clock: the sentinels record real times
        // Without the right to post them there are none.
        let own = watched().iter().map(KernelThread::used);
        assert!(own.flatten().all(|used| used >= BUSY));
        if let Some(sentinels) = Sentinels::post().unwrap() {
            thread::park_timeout(Duration::from_millis(20));
            let pauses = sentinels.end();
            assert!(pauses.shadows.is_sorted());
            assert!(!pauses.hide(begun - Duration::from_secs(3600)));
        }
    }
}
