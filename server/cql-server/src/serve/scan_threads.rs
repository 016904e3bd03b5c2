//! The threads for scans: as many as the users of the scans need, by the rule of [`ScanQueue`].
//!
//! The threads that a single user may have exist from the start. Others are started for a scan, and
//! end after [some time](SPARE_FOR) without one.
//!
//! A thread that was lowered, or moved to the floor, for a scan (before it, or once it was long) ends after
//! this scan, even if others are queued: a process without privileges cannot raise the priority again,
//! and the next scan must not begin at the lower one. Threads inherit the priority of the thread that
//! starts them. So a single thread that runs no scan, the starter, starts all others.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ebb_colocate::FloorShare;
use ebb_threads::{SchedulingClass, current_class, thread_cpu};
use tokio::sync::oneshot;

use super::scan_queue::{Length, ScanQueue, ScanUser, Started};
use crate::floor;
use crate::interrupt::Interrupt;

/// The time without a scan after which a thread ends, unless it is one of those that always exist.
/// Starting a thread for each scan would cost more than many scans do. Besides, starting or ending
/// a thread changes the address space under a lock: requests that touch new memory wait for it,
/// even while the thread is in the lowest class and waits for a core.
pub(super) const SPARE_FOR: Duration = Duration::from_secs(10);

/// A queued scan, which does nothing if its caller has stopped waiting. Returns false if the caller
/// has stopped waiting by the end, or the scan's time is over: the CPU time then does not show
/// whether the scan is long or short.
type Work = Box<dyn FnOnce() -> bool + Send>;

/// The scheduling class of scans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScanClass {
    Normal,
    Low,
    /// The [floor](crate::floor), a CPU share of scans beside busy processes. The threads are on it
    /// from their start, not only once a scan is long.
    Floor,
    /// The normal class, or the lowest one for a user whose last scan used more than this CPU time.
    /// The code that executes a scan moves its thread to the lowest class once the scan has used
    /// this CPU time, too.
    LowAfter(Duration),
}

/// The functions by which a thread enters the lowest scheduling class (or the
/// [floor](crate::floor), if that is in use), and reads its class and its CPU time. Tests replace
/// them, because threads of that class make hardly any progress on busy cores.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClassControl {
    pub lower: fn(),
    pub current: fn() -> SchedulingClass,
    pub cpu: fn() -> Duration,
}

impl ClassControl {
    /// The functions of the real kernel, in contrast to those of tests.
    pub(super) const KERNEL: Self = Self {
        lower: floor::lower,
        current: current_class,
        cpu: thread_cpu,
    };
}

/// The threads for scans. When this is dropped, the threads finish the queued scans and end.
pub(super) struct ScanThreads(Arc<Inner>);

struct Inner {
    name: &'static str,
    base: usize,
    threads_max: usize,
    spare_for: Duration,
    scan_class: ScanClass,
    class: ClassControl,
    /// The CPU share of scans, the [floor](crate::floor), which the threads may enter; `None` if
    /// they never do.
    floor: Option<Arc<FloorShare>>,
    state: Mutex<State>,
    wake: Condvar,
    wake_starter: Condvar,
}

struct State {
    queue: ScanQueue<Work>,
    threads: usize,
    /// The number of threads that were started and have not looked for a scan yet.
    starting: usize,
    idle: usize,
    is_closed: bool,
}

impl ScanThreads {
    /// Starts `base` threads now, and later, when scans need them, up to `threads_max` in all.
    /// Threads beyond `base` end after `spare_for` without a scan.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub(super) fn start(
        name: &'static str,
        base: usize,
        threads_max: usize,
        spare_for: Duration,
        (scan_class, floor): (ScanClass, Option<Arc<FloorShare>>),
        class: ClassControl,
    ) -> io::Result<Self> {
        let state = State {
            queue: ScanQueue::new(base, threads_max),
            threads: 0,
            starting: 0,
            idle: 0,
            is_closed: false,
        };
        let threads = Self(Arc::new(Inner {
            name,
            base,
            threads_max: threads_max.max(base),
            spare_for,
            scan_class,
            class,
            floor,
            state: Mutex::new(state),
            wake: Condvar::new(),
            wake_starter: Condvar::new(),
        }));
        for _ in 0..base {
            threads.0.spawn(&mut threads.0.lock())?;
        }
        let inner = Arc::clone(&threads.0);
        std::thread::Builder::new()
            .name(format!("{name}-start"))
            .spawn(move || inner.start_threads())?;
        Ok(threads)
    }

    /// Runs `work` once the queue permits another scan of this user. If the request's `interrupt`
    /// is over when `work` ends, or the caller has stopped waiting, little CPU time does not mean
    /// that the scan is short: the next scan of the user may be long. Returns `None` if `work`
    /// panicked, or was dropped because no thread could be started. If the caller stops waiting
    /// before `work` has begun, `work` does not run.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        user: &ScanUser,
        interrupt: &Interrupt,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, result) = oneshot::channel();
        let interrupt = interrupt.clone();
        let work = move || {
            // The caller of a killed scan has stopped waiting, and receives nothing.
            let is_received = !sender.is_closed() && sender.send(work()).is_ok();
            is_received && !interrupt.is_over(Instant::now())
        };
        self.push(user, Box::new(work));
        result.await.ok()
    }

    fn push(&self, user: &ScanUser, work: Work) {
        let mut state = self.0.lock();
        state.queue.push(user, work);
        self.0.provide_thread(&state);
    }

    #[cfg(test)]
    fn count(&self) -> usize {
        self.0.lock().threads
    }
}

impl Drop for ScanThreads {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.wake.notify_all();
        self.0.wake_starter.notify_one();
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spawn(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        let inner = Arc::clone(self);
        std::thread::Builder::new()
            .name(self.name.into())
            .spawn(move || inner.serve())?;
        state.threads += 1;
        state.starting += 1;
        Ok(())
    }

    /// Wakes an idle thread if a scan may run or, if none is idle, the thread that starts others. A
    /// thread that has taken a scan calls this again for the next one.
    fn provide_thread(&self, state: &State) {
        if !state.queue.may_start() {
            return;
        }
        if state.idle > 0 {
            self.wake.notify_one();
        } else {
            self.wake_starter.notify_one();
        }
    }

    /// Returns whether a thread has to be started: because there are fewer than `base`, or for a
    /// scan that may run while no thread is idle.
    fn lacks_thread(&self, state: &State) -> bool {
        let is_below_base = !state.is_closed && state.threads < self.base;
        let is_for_scan = state.queue.may_start() && state.idle + state.starting == 0;
        is_below_base || (is_for_scan && state.threads < self.threads_max)
    }

    /// Starts threads as they are needed, until no more scans can arrive. Runs on a thread of its
    /// own.
    fn start_threads(self: &Arc<Self>) {
        let mut state = self.lock();
        while !state.is_closed || state.queue.has_waiting() {
            if self.lacks_thread(&state) {
                if self.spawn(&mut state).is_ok() {
                    continue;
                }
                // Any existing thread takes the scan later. Without one, the queued scans would
                // never run, so they are dropped.
                if state.threads == 0 {
                    let given_up = state.queue.take_waiting();
                    // A dropped scan may hold the last reference to the threads, whose drop takes
                    // the lock.
                    drop(state);
                    drop(given_up);
                    state = self.lock();
                    if state.is_closed || state.queue.has_waiting() {
                        continue;
                    }
                }
            }
            state = (self.wake_starter.wait(state)).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn run(&self, work: Work) -> Length {
        let before = (self.class.cpu)();
        // The caller sees that no result comes; this thread goes on.
        let is_whole = catch_unwind(AssertUnwindSafe(work)).unwrap_or(true);
        let cpu = (self.class.cpu)().saturating_sub(before);
        match self.scan_class {
            ScanClass::LowAfter(cpu_max) if cpu > cpu_max => Length::Long,
            _ if is_whole => Length::Short,
            _ => Length::Unknown,
        }
    }

    /// Waits for a scan, for at most `spare_for` while there are more threads than `base`. The
    /// returned bool is true if that time is over.
    fn wait<'s>(&'s self, mut state: MutexGuard<'s, State>) -> (MutexGuard<'s, State>, bool) {
        state.idle += 1;
        let (mut state, has_timed_out) = if state.threads > self.base {
            let waited = self.wake.wait_timeout(state, self.spare_for);
            let (state, result) = waited.unwrap_or_else(PoisonError::into_inner);
            (state, result.timed_out())
        } else {
            let waited = self.wake.wait(state);
            (waited.unwrap_or_else(PoisonError::into_inner), false)
        };
        state.idle -= 1;
        (state, has_timed_out)
    }

    /// Runs scans until the thread is no longer needed, or was moved to a lower scheduling class, or to
    /// the floor, for a scan.
    fn serve(&self) {
        if let Some(share) = &self.floor {
            floor::allow(share);
        }
        match self.scan_class {
            ScanClass::Low => (self.class.lower)(),
            ScanClass::Floor => floor::enter(),
            ScanClass::Normal | ScanClass::LowAfter(_) => {}
        }
        // The floor has no class of its own, and its nice value may be that of the process.
        let priority = || ((self.class.current)(), floor::is_entered());
        let before = priority();
        let mut state = self.lock();
        state.starting -= 1;
        loop {
            if let Some(Started { user, work, is_low }) = state.queue.start() {
                // Two scans may have arrived while this thread woke up.
                self.provide_thread(&state);
                drop(state);
                if is_low {
                    (self.class.lower)();
                }
                let length = self.run(work);
                let is_lowered = priority() != before;
                state = self.lock();
                state.queue.end(&user, length);
                if is_lowered {
                    break;
                }
            } else if state.is_closed {
                break;
            } else {
                let (waited, has_timed_out) = self.wait(state);
                state = waited;
                let is_spare = state.threads > self.base;
                if has_timed_out && is_spare && !state.queue.may_start() {
                    break;
                }
            }
        }
        state.threads -= 1;
        self.provide_thread(&state);
        // The starter replaces this thread, or ends with the last one.
        self.wake_starter.notify_one();
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use ebb_test_support::wait::{self, HANG};
    use ebb_threads::{current_nice, nice_current_thread};
    use tokio::task::JoinHandle;

    use super::*;

    thread_local! {
        static CLASS: Cell<SchedulingClass> = const { Cell::new(SchedulingClass::Normal) };
        static CPU: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }

    /// Simulated scheduling classes and CPU times, for tests.
    pub(in crate::serve) const SIMULATED: ClassControl = ClassControl {
        lower: || CLASS.set(SchedulingClass::Idle),
        current: || CLASS.get(),
        cpu: || CPU.get(),
    };

    const CPU_MAX: Duration = Duration::from_millis(20);

    pub(in crate::serve) fn role(name: &str) -> ScanUser {
        ScanUser::Role(name.into())
    }

    fn threads(base: usize, threads_max: usize) -> Arc<ScanThreads> {
        threads_with_spares(base, threads_max, Duration::ZERO)
    }

    fn threads_with_spares(
        base: usize,
        threads_max: usize,
        spare_for: Duration,
    ) -> Arc<ScanThreads> {
        let (name, class) = ("test-scan", ScanClass::LowAfter(CPU_MAX));
        let class = (class, None);
        let threads = ScanThreads::start(name, base, threads_max, spare_for, class, SIMULATED);
        Arc::new(threads.unwrap())
    }

    /// Returns the interrupt of a request whose deadline does not pass during a test.
    pub(in crate::serve) fn never() -> Interrupt {
        let now = Instant::now(); // clock: an interrupt begins at an instant
        Interrupt::new(now, HANG, Arc::default())
    }

    /// A scan that runs until the sender `end` is dropped.
    struct Endless {
        task: JoinHandle<Option<()>>,
        end: Sender<()>,
        begun: Receiver<()>,
    }

    fn begin(threads: &Arc<ScanThreads>, user: &str) -> Endless {
        let (threads, user) = (threads.clone(), role(user));
        let (end, until) = channel::<()>();
        let (begins, begun) = channel();
        let task = tokio::spawn(async move {
            let work = move || {
                begins.send(()).unwrap();
                until.recv().unwrap_err();
            };
            threads.run(&user, &never(), work).await
        });
        Endless { task, end, begun }
    }

    impl Endless {
        /// Waits until the scan runs.
        async fn running(self) -> Self {
            tokio::task::spawn_blocking(move || {
                self.begun.recv().unwrap();
                self
            })
            .await
            .unwrap()
        }

        async fn end(self) {
            drop(self.end);
            self.task.await.unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn scans_of_two_users_that_never_end_do_not_delay_a_third_user() {
        let threads = threads(2, 16);
        let bad = [
            begin(&threads, "bad").running().await,
            begin(&threads, "bad").running().await,
        ];
        let worse = begin(&threads, "worse").running().await;
        let waiting = [begin(&threads, "bad"), begin(&threads, "worse")];
        for number in 0..3 {
            let answer = threads.run(&role("good"), &never(), move || number).await;
            assert_eq!(answer, Some(number));
        }
        for scan in &waiting {
            assert!(scan.begun.try_recv().is_err(), "its user has one under way");
        }
        for scan in bad.into_iter().chain([worse]).chain(waiting) {
            scan.end().await;
        }
        wait::until("the threads that are not needed to end", || {
            threads.count() == 2
        });
    }

    /// Regression: beside scans that never ended, each scan of another user started a thread,
    /// hundreds per second.
    #[tokio::test]
    async fn a_thread_beyond_the_base_runs_the_next_scan_too() {
        let threads = threads_with_spares(1, 16, HANG);
        let bad = begin(&threads, "bad").running().await;
        let thread = || std::thread::current().id();
        let first = threads.run(&role("good"), &never(), thread).await;
        wait::until("the thread to have no scan", || threads.0.lock().idle == 1);
        assert_eq!(threads.run(&role("good"), &never(), thread).await, first);
        assert_eq!(threads.count(), 2);
        bad.end().await;
    }

    #[tokio::test]
    async fn a_scan_whose_caller_stops_waiting_before_it_began_does_not_run() {
        let threads = threads(1, 1);
        let first = begin(&threads, "ada").running().await;
        let given_up = begin(&threads, "ada");
        tokio::task::yield_now().await;
        given_up.task.abort();
        assert!(given_up.task.await.unwrap_err().is_cancelled());
        first.end().await;
        assert_eq!(threads.run(&role("ada"), &never(), || 7).await, Some(7));
        assert!(given_up.begun.try_recv().is_err(), "it was not run");
    }

    /// Regression: ten statements of a user reached their timeout together. Those in the queue
    /// ended at once, and counted as short scans.
    #[tokio::test]
    async fn abandoned_scans_do_not_hide_that_an_earlier_one_was_long() {
        let threads = threads(1, 1);
        let class_until = async |interrupt: &Interrupt| {
            let class = threads
                .run(&role("ada"), interrupt, SIMULATED.current)
                .await;
            class.unwrap()
        };
        let long = || {
            CPU.set(CPU.get() + 2 * CPU_MAX);
            true
        };
        threads.push(&role("ada"), Box::new(long));
        let now = Instant::now(); // clock: an interrupt begins at an instant
        let is_cancelled = Arc::new(AtomicBool::new(true));
        for (interrupt, class) in [
            (
                Interrupt::new(now, Duration::ZERO, Arc::default()),
                SchedulingClass::Idle,
            ),
            (
                Interrupt::new(now, HANG, is_cancelled),
                SchedulingClass::Idle,
            ),
            (never(), SchedulingClass::Idle),
            (never(), SchedulingClass::Normal),
        ] {
            assert_eq!(class_until(&interrupt).await, class);
        }
    }

    /// Regression: an operator killed a scan early, and the next scan of its user began in the
    /// normal class.
    #[tokio::test]
    async fn a_scan_abandoned_while_it_runs_does_not_count_as_short() {
        let threads = threads(1, 1);
        let long = || {
            CPU.set(CPU.get() + 2 * CPU_MAX);
            true
        };
        threads.push(&role("ada"), Box::new(long));
        let killed = begin(&threads, "ada").running().await;
        killed.task.abort();
        assert!(killed.task.await.unwrap_err().is_cancelled());
        drop(killed.end);
        let class = threads.run(&role("ada"), &never(), SIMULATED.current).await;
        assert_eq!(class, Some(SchedulingClass::Idle));
    }

    /// Regression: a long scan moved its thread to the idle class. If other scans were queued when
    /// the long one ended, this thread took the next of them, and executed it in the idle class.
    #[tokio::test]
    async fn scans_queued_behind_a_lowered_one_run_in_the_normal_class() {
        let threads = threads(1, 1);
        let (end, until) = channel::<()>();
        let (classes, received) = channel();
        let long = move || {
            (SIMULATED.lower)();
            let _ = until.recv();
            true
        };
        threads.push(&role("ada"), Box::new(long));
        for user in ["ada", "eve", "ada"] {
            let classes = classes.clone();
            let short = move || classes.send((SIMULATED.current)()).is_ok();
            threads.push(&role(user), Box::new(short));
        }
        drop((end, classes));
        let classes = tokio::task::spawn_blocking(move || received.iter().collect::<Vec<_>>());
        assert_eq!(classes.await.unwrap(), [SchedulingClass::Normal; 3]);
    }

    /// Regression: in a process with a high nice value, a thread that enters the floor has the same class
    /// and nice value as before. So it took the next scan, too, and paced it.
    #[tokio::test]
    async fn a_thread_on_the_floor_takes_no_further_scan_whatever_its_nice_value() {
        let share = Arc::new(FloorShare::new());
        share.set(Some(1.0));
        let start = move || {
            // Threads inherit the nice value of the one that starts them.
            nice_current_thread((10 - current_nice()).max(0));
            let class = (ScanClass::Normal, Some(share));
            ScanThreads::start("test-scan", 1, 1, SPARE_FOR, class, ClassControl::KERNEL)
        };
        let threads = std::thread::spawn(start).join().unwrap().unwrap();
        let (user, interrupt) = (role("ada"), never());
        let entered = threads.run(&user, &interrupt, floor::lower).await;
        assert_eq!(entered, Some(()));
        let is_entered = threads.run(&user, &interrupt, floor::is_entered).await;
        assert_eq!(is_entered, Some(false));
    }

    #[test]
    fn queued_work_still_runs_after_the_drop_and_then_all_threads_end() {
        let threads = threads(1, 1);
        let inner = Arc::downgrade(&threads.0);
        let (end, until) = channel::<()>();
        let (runs, has_run) = channel();
        let long = move || {
            (SIMULATED.lower)();
            let _ = until.recv();
            true
        };
        threads.push(&role("ada"), Box::new(long));
        threads.push(&role("ada"), Box::new(move || runs.send(()).is_ok()));
        drop(threads);
        drop(end);
        assert_eq!(has_run.recv(), Ok(()));
        wait::until("all threads to end", || inner.strong_count() == 0);
    }
}
