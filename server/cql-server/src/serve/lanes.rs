//! Where requests run that are not for the thread that received them.
//!
//! Scans and reads of ranges have threads of their own, and each user has its share of these
//! ([`ScanThreads`]): statements that run until their time is over keep no other user waiting.
//!
//! What reads ranges of a table may read all of it, page after page, for hours. It runs in
//! the kernel's idle class: on what requests leave, and what it reads in a page's time. Its statement
//! yields now and then, as tasks of jobs do. If [`ServeOptions::idle_class`] is off, it runs in
//! the normal class, and does not yield.
//!
//! Passwords are verified on threads below those that serve, too, but not in that class: on a
//! busy machine some can still log in.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use ebb_colocate::runtime::{lower_current_thread, nice_current_thread};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::spawn_blocking;

use super::options::ServeOptions;
use super::scan_queue::ScanUser;
use super::scan_threads::ScanThreads;
use crate::call::Lane;

/// What a scan may leave for its reader: a page is cut at this size.
pub(super) const PAGE_BYTES: usize = 1 << 20;

/// The lanes of a server.
pub(super) struct Lanes {
    scans: ScanThreads,
    ranges: ScanThreads,
    schema: Semaphore,
    results: Arc<Semaphore>,
    logins: LowThreads,
}

/// The results of one connection that may wait for its client at once. These are more than requests
/// of a connection run at once, so that clients which read are not slowed down. A client that does
/// not read holds no more memory than this.
const SHARE_RESULTS: usize = 4;

/// The share of one connection in the memory for results.
#[derive(Clone)]
pub(super) struct Share(Arc<Semaphore>);

impl Default for Share {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(SHARE_RESULTS)))
    }
}

/// The memory of a result, taken from its connection's share and from that of all connections.
#[derive(Debug)]
pub(super) struct ResultMemory {
    _of_share: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

/// A result that waits for its client. Its memory is taken until this is dropped.
pub(super) struct Waiting<T> {
    pub value: T,
    /// `None` for small results.
    pub _memory: Option<ResultMemory>,
}

impl Lanes {
    /// # Errors
    /// When the system refuses a thread.
    pub(super) fn new(options: &ServeOptions) -> io::Result<Self> {
        let results = options.lane_result_bytes_max.div_ceil(PAGE_BYTES);
        let lower_for_ranges: fn() = if options.idle_class {
            || {
                lower_current_thread();
            }
        } else {
            || {}
        };
        let (base, threads_max) = (options.scans_max.max(1), options.scan_threads_max);
        Ok(Self {
            scans: ScanThreads::start("cql-scan", base, threads_max, || {})?,
            ranges: ScanThreads::start("cql-range", base, threads_max, lower_for_ranges)?,
            schema: Semaphore::new(1),
            results: Arc::new(Semaphore::new(results.clamp(1, Semaphore::MAX_PERMITS))),
            logins: LowThreads::start("cql-login", options.logins_max.max(1), || {
                nice_current_thread(LOGIN_NICE)
            })?,
        })
    }

    /// Returns whether waiting results take all memory for results.
    pub(super) fn is_short(&self) -> bool {
        self.results.available_permits() == 0
    }

    /// Runs `work` of a user when it is its turn. Its result takes memory of the connection's `share`,
    /// until `work` has ended even if the caller gives up waiting. Returns `None` if `work` panicked.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        lane: Lane,
        user: &ScanUser,
        share: &Share,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<Waiting<T>> {
        let never = "the semaphores of the lanes are not closed";
        // Memory first: a request that waits for memory must not hold a turn.
        let memory = match lane {
            // The result has a few bytes, and must not wait for clients that read slowly.
            Lane::Login => None,
            _ => Some(ResultMemory {
                _of_share: share.0.clone().acquire_owned().await.expect(never),
                _of_all: self.results.clone().acquire_owned().await.expect(never),
            }),
        };
        let work = move || Waiting {
            value: work(),
            _memory: memory,
        };
        match lane {
            Lane::Scan => self.scans.run(user, work).await,
            Lane::Range => self.ranges.run(user, work).await,
            Lane::Login => self.logins.run(work).await,
            Lane::Schema => {
                let _turn = self.schema.acquire().await.expect(never);
                spawn_blocking(work).await.ok()
            }
            Lane::Inline | Lane::Write => spawn_blocking(work).await.ok(),
        }
    }
}

type Work = Box<dyn FnOnce() + Send>;

/// The niceness of the threads for logins, relative to those for requests: on a busy core they get
/// a third of the time of a request's thread.
const LOGIN_NICE: i32 = 5;

/// Threads with a lower priority than those that serve requests. They end when this is dropped,
/// after the work that waits.
struct LowThreads {
    works: Sender<Work>,
}

impl LowThreads {
    /// Starts threads. Each calls `lower` first, to lower its priority.
    fn start(name: &str, threads: usize, lower: fn()) -> io::Result<Self> {
        let (works, waiting) = channel::<Work>();
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..threads {
            let waiting = Arc::clone(&waiting);
            std::thread::Builder::new()
                .name(name.into())
                .spawn(move || {
                    lower();
                    work_through(&waiting);
                })?;
        }
        Ok(Self { works })
    }

    /// `None` when it panicked.
    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (sender, result) = oneshot::channel();
        let work = move || {
            // Nobody waits where the connection has ended.
            drop(sender.send(work()));
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
    use std::time::Duration;

    use tokio::time::timeout;

    use ebb_colocate::runtime::{SchedulingClass, current_class};

    use super::*;

    /// Runs work of the one user of a test.
    async fn run<T: Send + 'static>(
        lanes: &Lanes,
        lane: Lane,
        share: &Share,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<Waiting<T>> {
        lanes
            .run(lane, &ScanUser::Role("ada".into()), share, work)
            .await
    }

    #[tokio::test]
    async fn ranges_run_beneath_requests_and_survive_a_panic() {
        let lanes = Lanes::new(&ServeOptions::default()).unwrap();
        let share = Share::default();
        let class_in = async |lane| {
            let class = run(&lanes, lane, &share, current_class).await;
            class.unwrap().value
        };
        assert_eq!(class_in(Lane::Scan).await, SchedulingClass::Normal);
        assert_ne!(class_in(Lane::Range).await, SchedulingClass::Normal);
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
        let lanes = Lanes::new(&options).unwrap();
        let share = Share::default();
        let class = run(&lanes, Lane::Range, &share, current_class).await;
        assert_eq!(class.unwrap().value, SchedulingClass::Normal);
    }

    #[tokio::test]
    async fn who_does_not_read_holds_no_more_than_its_share() {
        let lanes = Lanes::new(&ServeOptions::default()).unwrap();
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
        let lanes = Arc::new(Lanes::new(&ServeOptions::default()).unwrap());
        let share = Share::default();
        let (begins, begun) = channel();
        let (end, until) = channel::<()>();
        let scan = tokio::spawn({
            let share = share.clone();
            async move {
                let work = move || {
                    begins.send(()).unwrap();
                    until.recv().is_err()
                };
                run(&lanes, Lane::Scan, &share, work).await.is_some()
            }
        });
        let begun = spawn_blocking(move || begun.recv());
        begun.await.unwrap().unwrap();
        scan.abort();
        assert!(scan.await.unwrap_err().is_cancelled());
        // The caller has given up, but the work still fills its result.
        assert_eq!(share.0.available_permits(), SHARE_RESULTS - 1);
        drop(end);
        let is_free = || share.0.available_permits() == SHARE_RESULTS;
        ebb_test_support::wait::until("the memory to be free", is_free);
    }
}
