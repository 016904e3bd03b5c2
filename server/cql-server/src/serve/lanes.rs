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

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ebb_colocate::FloorShare;
use ebb_threads::nice_current_thread;
use tokio::sync::Semaphore;

use super::lane_threads::LaneThreads;
use super::options::ServeOptions;
use super::response_memory::{InlineMemory, PAGE_BYTES, ResultMemory, Waiting};
use super::result_memory::ResultPool;
use super::scan_queue::ScanUser;
use super::scan_threads::{ClassControl, SPARE_FOR, ScanClass, ScanThreads};
use crate::call::{Interrupt, Lane};
use crate::queries::Progress;

/// The CPU time that a scan may use in the normal scheduling class. It is twice the time of a page
/// of 5,000 rows. After that the scan's thread enters the idle class; reads of ranges run in that
/// class from their start. Further scans of the same user begin in the idle class, too, until one
/// of them is short.
pub(super) const NORMAL_CLASS_CPU_MAX: Duration = Duration::from_millis(20);

/// The nice value of the threads for logins, relative to those for requests. On a busy core a
/// thread for logins gets a third of the time of a thread for requests.
const LOGIN_NICE: i32 = 5;

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
        InlineMemory::new(&self.results, may_refuse)
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
        let slots = match lane {
            Lane::Scan | Lane::Range => Some(&share.scans),
            Lane::Moved => Some(&share.moved),
            // The results of writes, changes of the schema, KILL QUERY and logins have a few bytes, and must not
            // wait for clients that read slowly. `Inline` does not come here.
            Lane::Inline | Lane::Write | Lane::Schema | Lane::Control | Lane::Login => None,
        };
        let slot = match slots {
            Some(slots) => Some(slots.clone().acquire_owned().await.expect(never)),
            None => None,
        };
        progress.has_place.store(true, Ordering::Relaxed);
        let mut memory = ResultMemory::new(&self.results, slot);
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

#[cfg(test)]
mod tests;
