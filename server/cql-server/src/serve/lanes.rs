//! Where requests run that are not for the thread that received them.
//!
//! What reads ranges of a table may read all of it, page after page, for hours. It runs in
//! the kernel's idle class: on what requests leave, and what it reads in a page's time. Whoever
//! walks over the rows yields now and then, as tasks of jobs do.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use ebb_colocate::runtime::lower_current_thread;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::spawn_blocking;

use super::options::ServeOptions;
use crate::call::Lane;

/// What a scan may leave for its reader: a page is cut at this size.
pub(super) const PAGE_BYTES: usize = 1 << 20;

/// The lanes of a server.
pub(super) struct Lanes {
    scans: Semaphore,
    schema: Semaphore,
    logins: Semaphore,
    results: Arc<Semaphore>,
    ranges: IdleThreads,
}

/// What a request left for its reader. The memory counts until this is dropped.
pub(super) struct Waiting<T> {
    pub value: T,
    /// None for what is small.
    pub _memory: Option<OwnedSemaphorePermit>,
}

impl Lanes {
    /// # Errors
    /// When the system refuses a thread.
    pub(super) fn new(options: &ServeOptions) -> io::Result<Self> {
        let results = options.lane_result_bytes_max.div_ceil(PAGE_BYTES);
        Ok(Self {
            scans: Semaphore::new(options.scans_max.max(1)),
            schema: Semaphore::new(1),
            logins: Semaphore::new(options.logins_max.max(1)),
            results: Arc::new(Semaphore::new(results.clamp(1, Semaphore::MAX_PERMITS))),
            ranges: IdleThreads::start(options.scans_max.max(1))?,
        })
    }

    /// Runs something when it is its turn; `None` when it panicked.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        lane: Lane,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<Waiting<T>> {
        let never = "the semaphores of the lanes are not closed";
        // Memory first: whoever waits for it keeps nobody from running.
        let memory = match lane {
            // It leaves a few bytes, and must not wait for those who read slowly.
            Lane::Login => None,
            _ => Some(self.results.clone().acquire_owned().await.expect(never)),
        };
        let turn = match lane {
            Lane::Inline | Lane::Write | Lane::Range => None,
            Lane::Scan => Some(self.scans.acquire().await.expect(never)),
            Lane::Schema => Some(self.schema.acquire().await.expect(never)),
            Lane::Login => Some(self.logins.acquire().await.expect(never)),
        };
        let value = match lane {
            Lane::Range => self.ranges.run(work).await?,
            _ => spawn_blocking(work).await.ok()?,
        };
        drop(turn);
        Some(Waiting {
            value,
            _memory: memory,
        })
    }
}

type Work = Box<dyn FnOnce() + Send>;

/// Threads of the kernel's idle class, or of what is nearest to it of what the system grants.
/// They end when this is dropped and what waits is done.
struct IdleThreads {
    works: Sender<Work>,
}

impl IdleThreads {
    fn start(threads: usize) -> io::Result<Self> {
        let (works, waiting) = channel::<Work>();
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..threads {
            let waiting = Arc::clone(&waiting);
            std::thread::Builder::new()
                .name("cql-range".into())
                .spawn(move || work_in_idle_class(&waiting))?;
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

fn work_in_idle_class(waiting: &Mutex<Receiver<Work>>) {
    lower_current_thread();
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
    use ebb_colocate::runtime::{SchedulingClass, current_class};

    use super::*;

    #[tokio::test]
    async fn ranges_run_beneath_requests_and_survive_a_panic() {
        let lanes = Lanes::new(&ServeOptions::default()).unwrap();
        let class_in = async |lane| lanes.run(lane, current_class).await.unwrap().value;
        assert_eq!(class_in(Lane::Scan).await, SchedulingClass::Normal);
        assert_ne!(class_in(Lane::Range).await, SchedulingClass::Normal);
        for _ in 0..8 {
            let panicked = lanes.run(Lane::Range, || panic!("on purpose")).await;
            assert!(panicked.is_none_or(|_: Waiting<()>| false));
        }
        assert_eq!(lanes.run(Lane::Range, || 7).await.unwrap().value, 7);
    }
}
