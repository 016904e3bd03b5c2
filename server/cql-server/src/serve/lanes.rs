//! The lanes: queues and threads for requests that must not run on the thread that received them.
//!
//! Scans and reads of ranges have threads of their own, which users share ([`ScanThreads`]). So one
//! user's statements that run until their timeout do not delay other users.
//!
//! A read of ranges may read a whole table, page after page, for hours. It runs in the kernel's
//! idle class, on the CPU time that requests leave, within the time of a page, and yields now and
//! then, as tasks of jobs do. If [`ServeOptions::idle_class`] is off, it runs in the normal class,
//! and does not yield.
//!
//! Beside busy processes a thread of the idle class makes hardly any progress. Reads of ranges that
//! begin while [`ServeOptions::floor`] is in use run on threads that are on the floor from their
//! start; long scans enter the floor at the moment at which they would have entered the idle class.
//! A scan that is in the idle class by then enters the floor if the kernel lets its thread, and
//! otherwise begins anew on another thread.
//!
//! A statement that takes long on a thread on which others wait moves to other threads, which users
//! share in the same way. It waits neither for scans of its user nor for memory for its result,
//! because most such statements are writes and reads of one row. Large requests, and those that take
//! long to analyse, have further threads that users share.
//!
//! Passwords are verified on threads of lower priority than those that serve, but not in the idle
//! class: even on a busy machine some clients can log in.
//!
//! No request runs in tokio's pool for blocking work, which starts a thread when a request needs one.
//! If the system refuses the thread, tokio panics, or queues the request for a thread that may never
//! come, and the client gets no response. So changes of the schema, KILL QUERY, logins and large
//! requests have threads of their own, which exist from the start of the server. Further threads for
//! large requests are started for users who would wait for others.

use std::cell::OnceCell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ebb_colocate::FloorShare;
use ebb_threads::nice_current_thread;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::options::ServeOptions;
use super::replies::no_memory;
use super::result_memory::{PAGE_UNITS, ResultPages, ResultPool, UNIT_BYTES};
use super::scan_queue::ScanUser;
use super::scan_threads::{ClassControl, SPARE_FOR, ScanClass, ScanThreads};
use crate::call::{Interrupt, Lane, ResponseMemory};
use crate::error::Result;
use crate::queries::Progress;

/// The size, in bytes, at which a page of a scan ends.
pub(super) const PAGE_BYTES: usize = PAGE_UNITS * UNIT_BYTES;

/// The CPU time that a scan may use in the normal scheduling class. It is twice the time of a page
/// of 5,000 rows. After that the scan's thread enters the idle class; reads of ranges run in that
/// class from their start. Further scans of the same user begin in the idle class, too, until one
/// of them is short.
pub(super) const NORMAL_CLASS_CPU_MAX: Duration = Duration::from_millis(20);

/// The threads and queues of all lanes of a server (a lane is for one kind of request, such as
/// scans), and the memory for results.
pub(super) struct Lanes {
    scans: ScanThreads,
    ranges: ScanThreads,
    /// The threads for reads of ranges while the [floor](crate::floor), the CPU share of scans, is
    /// in use. `None` if the server has no floor.
    floor: Option<FloorLane>,
    moved: ScanThreads,
    /// A single thread, so that changes of the schema run one at a time.
    schema: LaneThreads,
    /// The thread for KILL QUERY, which must not wait for a change of the schema.
    control: LaneThreads,
    logins: LaneThreads,
    /// The threads that parse requests which are large or take long to analyse, and begin to
    /// execute them.
    large: ScanThreads,
    results: Arc<ResultPool>,
}

/// The threads for reads of ranges that begin while the [floor](crate::floor), the CPU share of
/// scans, is in use.
struct FloorLane {
    share: Arc<FloorShare>,
    threads: ScanThreads,
}

/// The number of slots that a connection has for scans and reads of ranges together, and also the
/// number for statements that were moved because they ran for long. A statement keeps its slot
/// while it is queued, while it runs, and until the client has read the result.
///
/// This bounds the memory of results that a client does not read. Clients that do read hardly
/// notice the limit: by default a user has no more such statements running at once.
const SHARE_RESULTS: usize = 4;

/// Results smaller than this are not counted against the pool of results: other buffers of a
/// connection are as large, too. A scan takes one page of the pool before it runs, however small
/// its result is.
pub(super) const SMALL_BYTES: usize = UNIT_BYTES;

/// The slots of one connection for results that wait until its client reads them. Statements that
/// moved to other threads because they ran for long have separate slots, because they must not wait
/// for scans.
#[derive(Clone)]
pub(super) struct Share {
    scans: Arc<Semaphore>,
    moved: Arc<Semaphore>,
}

impl Default for Share {
    fn default() -> Self {
        let results = || Arc::new(Semaphore::new(SHARE_RESULTS));
        Self {
            scans: results(),
            moved: results(),
        }
    }
}

/// The memory that a result takes from the pool of all connections, and the slot that it has
/// taken from its connection.
#[derive(Debug)]
pub(super) struct ResultMemory {
    _of_share: Option<OwnedSemaphorePermit>,
    pages: ResultPages,
}

/// Returns the units of memory that a result of `bytes` bytes takes. A result of a page or more
/// takes whole pages, rounded down, because a page of a scan ends only after the row that fills it.
fn units(bytes: usize) -> usize {
    if bytes < PAGE_BYTES {
        bytes / UNIT_BYTES
    } else {
        bytes / PAGE_BYTES * PAGE_UNITS
    }
}

impl ResultMemory {
    /// Takes the memory of a finished result of `bytes` bytes. The result may need less than it
    /// took while it grew, for example because it was compressed or became an error; then this
    /// frees the excess, except for the first page. Returns false if there is too little memory at
    /// the moment; the caller then has to drop the result.
    pub(super) fn try_hold(&self, bytes: usize) -> bool {
        let units = units(bytes);
        self.pages.shrink(units.max(PAGE_UNITS));
        self.pages.try_grow(units)
    }
}

impl ResponseMemory for ResultMemory {
    fn grow(&self, bytes: usize) -> Result<()> {
        if self.pages.try_grow(units(bytes)) {
            Ok(())
        } else {
            Err(no_memory(bytes))
        }
    }
}

/// The memory of a response that the thread of a connection writes. A small response takes none,
/// and does not touch the pool of all connections.
#[derive(Debug)]
pub(super) struct InlineMemory<'l> {
    pool: &'l Arc<ResultPool>,
    memory: OnceCell<ResultMemory>,
    /// True if overload control may reject the request. If false, for example for a driver's read
    /// of the schema, a response of at most a page is sent even if there is no memory for it.
    may_refuse: bool,
}

impl InlineMemory<'_> {
    fn memory(&self) -> &ResultMemory {
        self.memory.get_or_init(|| ResultMemory {
            _of_share: None,
            pages: ResultPages::none(self.pool),
        })
    }

    /// Returns whether a response of this many bytes is sent although there is no memory for it.
    fn is_exempt(&self, bytes: usize) -> bool {
        // A page ends with the row that makes it full.
        !self.may_refuse && bytes < 2 * PAGE_BYTES
    }

    /// Returns the memory of the finished response, which has `bytes` bytes; `None` if the response
    /// is small, or sent without memory.
    ///
    /// # Errors
    /// OVERLOADED, if there is too little memory at the moment.
    pub(super) fn finish(self, bytes: usize) -> Result<Option<ResultMemory>> {
        if bytes < SMALL_BYTES {
            return Ok(None);
        }
        if self.memory().try_hold(bytes) {
            Ok(self.memory.into_inner())
        } else if self.is_exempt(bytes) {
            Ok(None)
        } else {
            Err(no_memory(bytes))
        }
    }
}

impl ResponseMemory for InlineMemory<'_> {
    fn grow(&self, bytes: usize) -> Result<()> {
        if bytes < PAGE_BYTES {
            return Ok(());
        }
        let grown = self.memory().grow(bytes);
        if self.is_exempt(bytes) {
            return Ok(());
        }
        grown
    }
}

/// A result that waits until its client reads it. Dropping this frees the memory of the result.
pub(super) struct Waiting<T> {
    pub value: T,
    /// The memory of the result; `None` for results that take no memory from the pool.
    pub _memory: Option<ResultMemory>,
}

impl<T> Waiting<T> {
    /// Wraps a small result, which takes no memory from the pool of results.
    pub(super) fn small(value: T) -> Self {
        Self {
            value,
            _memory: None,
        }
    }
}

impl Lanes {
    /// Starts the threads that execute requests in place of the connections' threads.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub(super) fn new(options: &ServeOptions) -> io::Result<Self> {
        Self::with_class(options, ClassControl::KERNEL)
    }

    fn with_class(options: &ServeOptions, class: ClassControl) -> io::Result<Self> {
        let (base, threads_max) = (options.scans_max.max(1), options.scan_threads_max);
        let threads = |name, scan_class, floor| {
            let scan_class = (scan_class, floor);
            ScanThreads::start(name, base, threads_max, SPARE_FOR, scan_class, class)
        };
        let share = options.floor.clone().filter(|_| options.idle_class);
        let floor = |share: &Arc<FloorShare>| -> io::Result<FloorLane> {
            let (share, of_threads) = (share.clone(), Some(share.clone()));
            let threads = threads("cql-floor", ScanClass::Floor, of_threads)?;
            Ok(FloorLane { share, threads })
        };
        let (scans, ranges) = if options.idle_class {
            (ScanClass::LowAfter(NORMAL_CLASS_CPU_MAX), ScanClass::Low)
        } else {
            (ScanClass::Normal, ScanClass::Normal)
        };
        // Half as many as serve connections, so that large requests leave CPU time to small ones. As
        // many more for other users may start: an analysis may take until the deadline.
        let large = (options.threads / 2).max(1);
        let of_large = (ScanClass::Normal, None);
        let large = ScanThreads::start("cql-large", large, 2 * large, SPARE_FOR, of_large, class)?;
        let results = options.lane_result_bytes_max.div_ceil(PAGE_BYTES);
        Ok(Self {
            floor: share.as_ref().map(floor).transpose()?,
            scans: threads("cql-scan", scans, share.clone())?,
            ranges: threads("cql-range", ranges, share)?,
            moved: threads("cql-moved", ScanClass::Normal, None)?,
            schema: LaneThreads::start("cql-schema", 1, || ())?,
            control: LaneThreads::start("cql-control", 1, || ())?,
            logins: LaneThreads::start("cql-login", options.logins_max.max(1), || {
                nice_current_thread(LOGIN_NICE)
            })?,
            large,
            results: ResultPool::new(results.max(1)),
        })
    }

    /// Returns whether results that wait for their clients have taken all the memory for large
    /// results.
    pub(super) fn is_short(&self) -> bool {
        self.results.is_short()
    }

    /// Returns the memory of a response that the thread of a connection is about to write.
    /// `may_refuse` is true if overload control may reject the request.
    pub(super) fn inline_memory(&self, may_refuse: bool) -> InlineMemory<'_> {
        InlineMemory {
            pool: &self.results,
            memory: OnceCell::new(),
            may_refuse,
        }
    }

    /// Parses and begins a request of a user, which is large or takes long to analyse, on a thread
    /// on which no other connection waits. Returns `None` if `work` panicked, or was dropped
    /// because no thread could be started.
    pub(super) async fn run_large<T: Send + 'static>(
        &self,
        user: &ScanUser,
        interrupt: &Interrupt,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        self.large.run(user, interrupt, work).await
    }

    /// Runs `work`, a request of `user`, on a thread of `lane`, once the queue of the lane permits
    /// it. Notes in `progress` what the request waits for. Returns `None` if `work` panicked, or
    /// was dropped because no thread could be started.
    ///
    /// Scans, and statements that were moved because they ran for long, first take one of the few
    /// slots for unread results in the connection's `share`. A scan also waits for memory for its
    /// result, but not longer than until `interrupt` is over. Memory and slot are free again when
    /// the result is dropped or, if the caller stopped waiting, when `work` has ended.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        lane: Lane,
        user: &ScanUser,
        share: &Share,
        interrupt: &Interrupt,
        progress: &Arc<Progress>,
        work: impl FnOnce(&mut ResultMemory) -> T + Send + 'static,
    ) -> Option<Waiting<T>> {
        let never = "the semaphores of the lanes are not closed";
        let is_scan = matches!(lane, Lane::Scan | Lane::Range);
        // Acquired before the turn: a request that waits for its client must not hold a turn. The caller
        // stops waiting at the deadline of the request.
        let of_share = match lane {
            Lane::Scan | Lane::Range => Some(&share.scans),
            Lane::Moved => Some(&share.moved),
            // The results of writes, changes of the schema, KILL QUERY and logins have a few bytes, and must not
            // wait for clients that read slowly. `Inline` does not come here.
            Lane::Inline | Lane::Write | Lane::Schema | Lane::Control | Lane::Login => None,
        };
        let of_share = match of_share {
            Some(share) => Some(share.clone().acquire_owned().await.expect(never)),
            None => None,
        };
        progress.has_place.store(true, Ordering::Relaxed);
        let mut memory = ResultMemory {
            _of_share: of_share,
            pages: ResultPages::none(&self.results),
        };
        let (of_memory, progress) = (interrupt.clone(), progress.clone());
        let work = move || {
            progress.has_turn.store(true, Ordering::Relaxed);
            // Acquired during the turn: scans of one user that only wait must not take the memory
            // from scans of others. Without memory no other scan could run on this thread either.
            if is_scan {
                memory.pages.wait_for_page(&of_memory);
            }
            let value = work(&mut memory);
            Waiting {
                value,
                _memory: Some(memory),
            }
        };
        match lane {
            Lane::Scan => self.scans.run(user, interrupt, work).await,
            Lane::Range => {
                let floor = self.floor.as_ref().filter(|floor| floor.share.is_on());
                let threads = floor.map_or(&self.ranges, |floor| &floor.threads);
                threads.run(user, interrupt, work).await
            }
            // No request of `Inline` or `Write` comes here: the thread of the connection answers point
            // reads, and writes go to the commit lane or to `run_in_turn`.
            Lane::Moved | Lane::Inline | Lane::Write => self.moved.run(user, interrupt, work).await,
            Lane::Schema => self.schema.run(work).await,
            Lane::Control => self.control.run(work).await,
            Lane::Login => self.logins.run(work).await,
        }
    }
}

type Work = Box<dyn FnOnce() + Send>;

/// The nice value of the threads for logins, relative to those for requests. On a busy core a
/// thread for logins gets a third of the time of a thread for requests.
const LOGIN_NICE: i32 = 5;

/// A queue with a fixed number of threads. When this is dropped, the threads finish the work that
/// they have begun, drop what is queued, and end.
struct LaneThreads {
    works: Sender<Work>,
}

impl LaneThreads {
    /// Starts the threads. Each calls `begin` first, for example to lower its priority.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    fn start(name: &str, threads: usize, begin: fn()) -> io::Result<Self> {
        let (works, waiting) = channel::<Work>();
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..threads {
            let waiting = Arc::clone(&waiting);
            std::thread::Builder::new()
                .name(name.into())
                .spawn(move || {
                    begin();
                    work_through(&waiting);
                })?;
        }
        Ok(Self { works })
    }

    /// Runs `work` on one of the threads, unless the caller stops waiting before a thread begins
    /// it. Returns `None` if `work` panicked.
    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (sender, result) = oneshot::channel();
        let work = move || {
            // The receiver is gone if the connection has ended.
            if !sender.is_closed() {
                drop(sender.send(work()));
            }
        };
        self.works.send(Box::new(work)).ok()?;
        result.await.ok()
    }
}

fn work_through(waiting: &Mutex<Receiver<Work>>) {
    loop {
        let work = waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv();
        let Ok(work) = work else {
            return;
        };
        // The caller sees that no result comes; this thread goes on.
        drop(catch_unwind(AssertUnwindSafe(work)));
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::{JoinHandle, spawn_blocking};
    use tokio::time::timeout;

    use ebb_test_support::wait::{self, HANG};
    use ebb_threads::{FLOOR_NICE, SchedulingClass, current_nice};

    use super::*;
    use crate::serve::scan_threads::tests::{SIMULATED, never, role};

    fn lanes(options: &ServeOptions) -> Lanes {
        Lanes::with_class(options, SIMULATED).unwrap()
    }

    async fn run_as<T: Send + 'static>(
        lanes: &Lanes,
        lane: Lane,
        user: &str,
        share: &Share,
        work: impl FnOnce(&mut ResultMemory) -> T + Send + 'static,
    ) -> Option<Waiting<T>> {
        let progress = Arc::default();
        let (user, interrupt) = (role(user), never());
        (lanes.run(lane, &user, share, &interrupt, &progress, work)).await
    }

    async fn run<T: Send + 'static>(
        lanes: &Lanes,
        lane: Lane,
        share: &Share,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<Waiting<T>> {
        let work = |_: &mut ResultMemory| work();
        run_as(lanes, lane, "ada", share, work).await
    }

    /// A request that runs until the sender `end` is dropped.
    struct Endless {
        task: JoinHandle<bool>,
        end: Sender<()>,
    }

    /// Starts an endless request, and waits until it runs.
    async fn begin(lanes: &Arc<Lanes>, lane: Lane, share: &Share) -> Endless {
        let (lanes, share) = (lanes.clone(), share.clone());
        let (begins, begun) = channel();
        let (end, until) = channel::<()>();
        let task = tokio::spawn(async move {
            let work = move || {
                begins.send(()).unwrap();
                until.recv().is_err()
            };
            run(&lanes, lane, &share, work).await.is_some()
        });
        let begun = spawn_blocking(move || begun.recv());
        begun.await.unwrap().unwrap();
        Endless { task, end }
    }

    #[tokio::test]
    async fn ranges_run_beneath_requests_and_survive_a_panic() {
        let lanes = lanes(&ServeOptions::default());
        let share = Share::default();
        let class_in = async |lane| {
            let class = run(&lanes, lane, &share, SIMULATED.current).await;
            class.unwrap().value
        };
        assert_eq!(class_in(Lane::Scan).await, SchedulingClass::Normal);
        assert_eq!(class_in(Lane::Moved).await, SchedulingClass::Normal);
        assert_eq!(class_in(Lane::Range).await, SchedulingClass::Idle);
        assert_eq!(class_in(Lane::Login).await, SchedulingClass::Normal);
        let nice = || rustix::process::getpriority_process(Some(rustix::thread::gettid())).unwrap();
        let of_logins = run(&lanes, Lane::Login, &share, nice).await;
        assert_eq!(of_logins.unwrap().value, (nice() + LOGIN_NICE).min(19));
        for _ in 0..8 {
            let panicked = run(&lanes, Lane::Range, &share, || panic!("on purpose")).await;
            assert!(panicked.is_none_or(|_: Waiting<()>| false));
        }
        let ran = run(&lanes, Lane::Range, &share, || 7).await;
        assert_eq!(ran.unwrap().value, 7);
    }

    #[tokio::test]
    async fn ranges_run_in_the_normal_class_if_the_idle_class_is_off() {
        let options = ServeOptions {
            idle_class: false,
            ..ServeOptions::default()
        };
        let lanes = lanes(&options);
        let share = Share::default();
        let class = run(&lanes, Lane::Range, &share, SIMULATED.current).await;
        assert_eq!(class.unwrap().value, SchedulingClass::Normal);
    }

    #[tokio::test]
    async fn ranges_run_on_the_floor_while_that_is_in_use() {
        let share = Arc::new(FloorShare::new());
        let lanes = lanes(&ServeOptions {
            floor: Some(Arc::clone(&share)),
            ..ServeOptions::default()
        });
        let results = Share::default();
        let run_in = async |cores| {
            share.set(cores);
            let thread = || (current_nice(), (SIMULATED.current)());
            let ran = run(&lanes, Lane::Range, &results, thread).await;
            ran.unwrap().value
        };
        assert_eq!(run_in(None).await.1, SchedulingClass::Idle);
        let (nice, class) = run_in(Some(0.5)).await;
        assert!(nice >= FLOOR_NICE);
        assert_eq!(class, SchedulingClass::Normal);
        assert_eq!(run_in(None).await.1, SchedulingClass::Idle);
    }

    /// Regression: changes of the schema, KILL QUERY and large requests ran in the runtime's pool
    /// for blocking work. If the system refused the pool another thread, they got no response.
    #[test]
    fn requests_run_although_the_runtime_gets_no_more_threads() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().max_blocking_threads(1);
        runtime.build().unwrap().block_on(async {
            let lanes = lanes(&ServeOptions::default());
            let (end, until) = channel::<()>();
            let busy = spawn_blocking(move || until.recv().is_err());
            let share = Share::default();
            for lane in [Lane::Schema, Lane::Control] {
                let ran = timeout(HANG, run(&lanes, lane, &share, || 7)).await;
                assert_eq!(ran.unwrap().unwrap().value, 7, "{lane:?}");
            }
            let large = timeout(HANG, lanes.run_large(&role("ada"), &never(), || 7)).await;
            assert_eq!(large.unwrap(), Some(7));
            drop(end);
            assert!(busy.await.unwrap());
        });
    }

    /// Regression: the large requests of all users had one queue, and the long analyses of one user
    /// delayed those of others until the deadline.
    #[tokio::test]
    async fn large_requests_of_one_user_do_not_delay_those_of_others() {
        let lanes = Arc::new(lanes(&ServeOptions {
            threads: 2,
            ..ServeOptions::default()
        }));
        let (begins, begun) = channel();
        let (end, until) = channel::<()>();
        let busy = tokio::spawn({
            let lanes = lanes.clone();
            async move {
                let work = move || {
                    begins.send(()).unwrap();
                    until.recv().is_err()
                };
                lanes.run_large(&role("ada"), &never(), work).await
            }
        });
        let begun = spawn_blocking(move || begun.recv());
        begun.await.unwrap().unwrap();
        let other = timeout(HANG, lanes.run_large(&role("eve"), &never(), || 7)).await;
        assert_eq!(other.unwrap(), Some(7));
        drop(end);
        assert_eq!(busy.await.unwrap(), Some(true));
    }

    #[tokio::test]
    async fn changes_of_the_schema_run_one_at_a_time_and_do_not_delay_kills() {
        let lanes = Arc::new(lanes(&ServeOptions::default()));
        let share = Share::default();
        let first = begin(&lanes, Lane::Schema, &share).await;
        let mut second = Box::pin(run(&lanes, Lane::Schema, &share, || 7));
        // The second change is queued before the kill, which ends all the same.
        assert!(timeout(Duration::ZERO, &mut second).await.is_err());
        assert!(run(&lanes, Lane::Control, &share, || ()).await.is_some());
        assert!(timeout(Duration::ZERO, &mut second).await.is_err());
        drop(first.end);
        assert!(first.task.await.unwrap());
        assert_eq!(second.await.unwrap().value, 7);
    }

    /// Regression: queued work was executed although its connection had ended, even after the
    /// server had stopped.
    #[tokio::test]
    async fn queued_work_is_not_executed_once_its_caller_has_stopped_waiting() {
        let lanes = Arc::new(lanes(&ServeOptions::default()));
        let share = Share::default();
        let first = begin(&lanes, Lane::Schema, &share).await;
        let (ran, runs) = channel();
        let mut second = Box::pin(run(&lanes, Lane::Schema, &share, move || ran.send(())));
        assert!(timeout(Duration::ZERO, &mut second).await.is_err());
        drop(second);
        drop(first.end);
        assert!(first.task.await.unwrap());
        assert!(run(&lanes, Lane::Schema, &share, || ()).await.is_some());
        assert!(runs.try_recv().is_err());
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_holds_no_more_than_its_share() {
        let lanes = lanes(&ServeOptions::default());
        let (deaf, other) = (Share::default(), Share::default());
        let mut unread = Vec::new();
        for _ in 0..SHARE_RESULTS {
            unread.push(run(&lanes, Lane::Scan, &deaf, || ()).await);
        }
        let more = run(&lanes, Lane::Scan, &deaf, || ());
        assert!(timeout(Duration::from_millis(20), more).await.is_err());
        assert!(run(&lanes, Lane::Scan, &other, || ()).await.is_some());
        unread.pop();
        assert!(run(&lanes, Lane::Scan, &deaf, || ()).await.is_some());
    }

    #[tokio::test]
    async fn the_memory_of_a_result_is_taken_until_its_work_ends() {
        let lanes = Arc::new(lanes(&ServeOptions::default()));
        let share = Share::default();
        let scan = begin(&lanes, Lane::Scan, &share).await;
        scan.task.abort();
        assert!(scan.task.await.unwrap_err().is_cancelled());
        // The caller has stopped waiting, but the work still fills its result.
        assert_eq!(share.scans.available_permits(), SHARE_RESULTS - 1);
        drop(scan.end);
        let is_free = || share.scans.available_permits() == SHARE_RESULTS;
        wait::until("the memory to be free", is_free);
    }

    /// Regression: the scans of one user took all memory for results before they waited for a
    /// thread, and no scan of another user began.
    #[tokio::test]
    async fn scans_that_wait_for_their_turn_take_no_memory_from_those_of_others() {
        let lanes = Arc::new(lanes(&ServeOptions {
            scans_max: 1,
            lane_result_bytes_max: 2 * PAGE_BYTES,
            ..ServeOptions::default()
        }));
        let bad = begin(&lanes, Lane::Scan, &Share::default()).await;
        let waiting: Vec<_> = (0..8)
            .map(|_| {
                let lanes = lanes.clone();
                tokio::spawn(async move {
                    let ran = run(&lanes, Lane::Scan, &Share::default(), || ()).await;
                    ran.is_some()
                })
            })
            .collect();
        tokio::task::yield_now().await;
        assert!(!lanes.is_short());
        let share = Share::default();
        let work = |_: &mut ResultMemory| 7;
        let good = run_as(&lanes, Lane::Scan, "eve", &share, work).await;
        assert_eq!(good.unwrap().value, 7);
        drop(bad.end);
        assert!(bad.task.await.unwrap());
        for scan in waiting {
            assert!(scan.await.unwrap());
        }
    }

    /// Regression: a batch that computed for more than 5 ms waited behind ten scans of its client,
    /// and for memory that their results held, until its timeout.
    #[tokio::test]
    async fn moved_statements_wait_neither_for_scans_nor_for_memory() {
        let lanes = Arc::new(lanes(&ServeOptions {
            scans_max: 1,
            lane_result_bytes_max: PAGE_BYTES,
            ..ServeOptions::default()
        }));
        let share = Share::default();
        let bad = begin(&lanes, Lane::Scan, &share).await;
        assert!(lanes.is_short());
        let mut unread = Vec::new();
        for number in 0..SHARE_RESULTS {
            let moved = run(&lanes, Lane::Moved, &share, move || number)
                .await
                .unwrap();
            assert_eq!(moved.value, number);
            unread.push(moved);
        }
        drop(bad.end);
        assert!(bad.task.await.unwrap());
    }

    #[tokio::test]
    async fn results_count_with_their_size_and_fail_without_room() {
        let lanes = lanes(&ServeOptions {
            lane_result_bytes_max: 8 * PAGE_BYTES,
            ..ServeOptions::default()
        });
        let share = Share::default();
        let hold = async |bytes: usize| {
            let work = move |memory: &mut ResultMemory| memory.try_hold(bytes);
            let ran = run_as(&lanes, Lane::Scan, "ada", &share, work).await;
            ran.unwrap()
        };
        let large = hold(5 * PAGE_BYTES).await;
        assert!(large.value && !lanes.is_short());
        assert!(!hold(2 * PAGE_BYTES).await.value);
        let page = hold(PAGE_BYTES).await;
        assert!(page.value && lanes.is_short());
        drop((large, page));
        assert!(!hold(7 * PAGE_BYTES).await.value);
        let most = hold(6 * PAGE_BYTES).await;
        let reserved = [hold(PAGE_BYTES).await, hold(PAGE_BYTES).await];
        assert!(most.value && reserved.iter().all(|page| page.value));
        // A moved statement has no memory before its result is ready.
        let moved = async |bytes: usize| {
            let work = move |memory: &mut ResultMemory| memory.try_hold(bytes);
            let ran = run_as(&lanes, Lane::Moved, "ada", &share, work).await;
            ran.unwrap().value
        };
        assert!(moved(SMALL_BYTES - 1).await);
        assert!(!moved(SMALL_BYTES).await);
    }

    /// Regression: a result took its memory when it was finished. Until then each of many scans at
    /// once wrote up to 256 MiB.
    #[tokio::test]
    async fn a_result_takes_memory_while_it_grows_and_frees_what_it_does_not_need() {
        let lanes = Arc::new(lanes(&ServeOptions {
            lane_result_bytes_max: 8 * PAGE_BYTES,
            ..ServeOptions::default()
        }));
        let others = lanes.clone();
        let work = move |memory: &mut ResultMemory| {
            // Two of the eight pages are reserved, and a scan has one from its start.
            assert!(memory.grow(2 * PAGE_BYTES - 1).is_ok());
            assert!(memory.grow(5 * PAGE_BYTES).is_ok());
            assert!(memory.grow(7 * PAGE_BYTES).is_err());
            let other = others.inline_memory(true);
            assert!(other.grow(PAGE_BYTES - 1).is_ok() && other.memory.get().is_none());
            assert_eq!(other.grow(2 * PAGE_BYTES), Err(no_memory(2 * PAGE_BYTES)));
            // The finished result is compressed.
            assert!(memory.try_hold(2 * PAGE_BYTES));
            assert!(other.grow(2 * PAGE_BYTES).is_ok());
            let other = other.finish(SMALL_BYTES).unwrap();
            other.is_some_and(|other| other.grow(3 * PAGE_BYTES).is_ok())
        };
        let ran = run_as(&lanes, Lane::Scan, "ada", &Share::default(), work).await;
        assert!(ran.unwrap().value);
        assert!(!lanes.is_short());
    }

    /// Regression: while clients that did not read held all memory, a driver did not get the
    /// schema, and dropped the node.
    #[tokio::test]
    async fn a_page_of_a_request_that_must_not_be_rejected_needs_no_memory() {
        let lanes = lanes(&ServeOptions {
            lane_result_bytes_max: PAGE_BYTES,
            ..ServeOptions::default()
        });
        let held = lanes.inline_memory(true).finish(PAGE_BYTES);
        assert!(held.is_ok() && lanes.is_short());
        let page = |may_refuse| lanes.inline_memory(may_refuse).finish(PAGE_BYTES);
        assert!(page(true).is_err());
        assert!(page(false).unwrap().is_none());
        let memory = lanes.inline_memory(false);
        assert!(memory.grow(2 * PAGE_BYTES - 1).is_ok());
        assert!(memory.grow(2 * PAGE_BYTES).is_err());
        drop(held);
    }
}
