//! The threads that scans run on: as many as the users of the scans need, by the rule of
//! [`ScanQueue`].
//!
//! The threads that one user may have alone are there from the start. Others are started for a scan, and
//! end when nothing is left for them. So does a thread whose scan took long and lowered its
//! priority, as a process without privileges cannot raise it again: the next scan gets a new thread.
//! Threads inherit the priority of the one that starts them, so a lowered thread starts none.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use ebb_colocate::runtime::current_class;
use tokio::sync::oneshot;

use super::scan_queue::{ScanQueue, ScanUser};

/// A scan that waits. It does nothing if its caller has given up waiting.
type Work = Box<dyn FnOnce() + Send>;

/// The threads. They end when this is dropped, after the work that waits.
pub(super) struct ScanThreads(Arc<Inner>);

struct Inner {
    name: &'static str,
    /// The threads that are always there.
    base: usize,
    threads_max: usize,
    /// Called first by each thread, to lower its priority.
    lower: fn(),
    state: Mutex<State>,
    /// Wakes an idle thread.
    wake: Condvar,
}

struct State {
    queue: ScanQueue<Work>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

impl ScanThreads {
    /// Starts `base` threads, which become up to `threads_max`.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(super) fn start(
        name: &'static str,
        base: usize,
        threads_max: usize,
        lower: fn(),
    ) -> io::Result<Self> {
        let state = State {
            queue: ScanQueue::new(base, threads_max),
            threads: 0,
            idle: 0,
            is_closed: false,
        };
        let threads = Self(Arc::new(Inner {
            name,
            base,
            threads_max: threads_max.max(base),
            lower,
            state: Mutex::new(state),
            wake: Condvar::new(),
        }));
        for _ in 0..base {
            let mut state = threads.0.lock();
            threads.0.spawn(&mut state)?;
        }
        Ok(threads)
    }

    /// Runs `work` when it is the turn of its user. Returns `None` if it panicked. If the caller gives
    /// up waiting before it began, it does not run.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        user: &ScanUser,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, result) = oneshot::channel();
        let work = move || {
            if !sender.is_closed() {
                drop(sender.send(work()));
            }
        };
        self.push(user, Box::new(work));
        result.await.ok()
    }

    fn push(&self, user: &ScanUser, work: Work) {
        let mut state = self.0.lock();
        state.queue.push(user, work);
        let given_up = self.0.provide_thread(&mut state);
        // What is dropped may hold the last reference to the threads, whose drop locks.
        drop(state);
        drop(given_up);
    }

    /// The number of threads.
    #[cfg(test)]
    fn count(&self) -> usize {
        self.0.lock().threads
    }
}

impl Drop for ScanThreads {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.wake.notify_all();
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
        Ok(())
    }

    /// Wakes or starts a thread if a scan may run. Without any thread, nothing that waits would ever
    /// run: it is returned, to be dropped.
    fn provide_thread(self: &Arc<Self>, state: &mut State) -> Vec<Work> {
        if !state.queue.may_start() {
            return Vec::new();
        }
        if state.idle > 0 {
            self.wake.notify_one();
        } else if state.threads < self.threads_max
            && self.spawn(state).is_err()
            // If there is one, it takes the scan later.
            && state.threads == 0
        {
            return state.queue.take_waiting();
        }
        Vec::new()
    }

    /// Runs scans until the thread is not needed any more.
    fn serve(self: &Arc<Self>) {
        (self.lower)();
        let class = current_class();
        let mut is_lowered = false;
        let mut state = self.lock();
        loop {
            if is_lowered && state.idle > 0 {
                // A thread of the usual priority takes what waits.
                if state.queue.may_start() {
                    self.wake.notify_one();
                }
                break;
            }
            if let Some((user, work)) = state.queue.start() {
                // Two scans may have come while this thread woke up.
                let given_up = if is_lowered {
                    Vec::new()
                } else {
                    self.provide_thread(&mut state)
                };
                drop(state);
                drop(given_up);
                // The caller sees that no result comes; this thread goes on.
                drop(catch_unwind(AssertUnwindSafe(work)));
                is_lowered |= current_class() != class;
                state = self.lock();
                state.queue.end(&user);
            } else if is_lowered || state.is_closed || state.threads > self.base {
                break;
            } else {
                state.idle += 1;
                state = (self.wake.wait(state)).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
        state.threads -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use ebb_colocate::runtime::{SchedulingClass, lower_current_thread};
    use ebb_test_support::wait;
    use tokio::task::JoinHandle;

    use super::*;

    fn role(name: &str) -> ScanUser {
        ScanUser::Role(name.into())
    }

    fn threads(base: usize, threads_max: usize) -> Arc<ScanThreads> {
        Arc::new(ScanThreads::start("test-scan", base, threads_max, || ()).unwrap())
    }

    /// A scan that runs until its sender is dropped.
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
            threads.run(&user, work).await
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
    async fn two_users_whose_scans_never_end_leave_a_third_its_own() {
        let threads = threads(2, 16);
        let bad = [
            begin(&threads, "bad").running().await,
            begin(&threads, "bad").running().await,
        ];
        let worse = begin(&threads, "worse").running().await;
        let waiting = [begin(&threads, "bad"), begin(&threads, "worse")];
        for number in 0..3 {
            let answer = threads.run(&role("good"), move || number).await;
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

    #[tokio::test]
    async fn a_scan_whose_caller_gives_up_before_it_began_does_not_run() {
        let threads = threads(1, 1);
        let first = begin(&threads, "ada").running().await;
        let given_up = begin(&threads, "ada");
        tokio::task::yield_now().await;
        given_up.task.abort();
        assert!(given_up.task.await.unwrap_err().is_cancelled());
        first.end().await;
        assert_eq!(threads.run(&role("ada"), || 7).await, Some(7));
        assert!(given_up.begun.try_recv().is_err(), "it was not run");
    }

    #[tokio::test]
    async fn a_thread_that_was_lowered_ends_and_one_that_panicked_goes_on() {
        let threads = threads(1, 1);
        for _ in 0..3 {
            let lowered = threads.run(&role("ada"), lower_current_thread).await;
            assert_ne!(lowered, Some(SchedulingClass::Normal));
            wait::until("the lowered thread to end", || threads.count() == 0);
            let class = threads.run(&role("ada"), current_class).await;
            assert_eq!(class, Some(SchedulingClass::Normal));
            let panicked: Option<()> = threads.run(&role("ada"), || panic!("on purpose")).await;
            assert_eq!((panicked, threads.count()), (None, 1));
        }
    }
}
