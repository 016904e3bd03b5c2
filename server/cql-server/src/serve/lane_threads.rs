//! A queue of work with a fixed number of threads.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

type Work = Box<dyn FnOnce() + Send>;

/// A queue with a fixed number of threads. When this is dropped, the threads finish the work that
/// they have begun, drop what is queued, and end.
pub(super) struct LaneThreads {
    works: Sender<Work>,
}

impl LaneThreads {
    /// Starts the threads. Each calls `begin` first, for example to lower its priority.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub(super) fn start(name: &str, threads: usize, begin: fn()) -> io::Result<Self> {
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
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
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
