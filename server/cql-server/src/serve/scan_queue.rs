//! The queue of scans: the decision, without side effects, which user's scan runs next, and whether
//! it may run now.
//!
//! A user is a role or, on a server without authentication, the address of a client.
//!
//! - Up to `base` scans run at once, for any users. So a single user may have that many.
//! - Beyond that a scan runs only if its user has no running one, up to `threads_max` scans in all.
//!   So scans that never end take no thread from another user, up to that many users.
//! - Of the scans that may run, those of users with the fewest running scans come first, and among
//!   these the one that has waited longest.
//! - A scan begins in the low class if the last scan of its user was long. Otherwise each of a
//!   series of long scans would compete with reads of rows until it is found to be long.
//!
//! Once [`ScanQueue::start`] returns `None`, no queued scan may run now.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ScanUser {
    /// A role that has logged in.
    Role(Box<str>),
    /// A client of a server without authentication.
    Address(IpAddr),
}

/// The most users whose long scans are remembered. One more user makes the queue forget all of
/// them. Without authentication, users are addresses, and clients may have any number of them.
const LONG_USERS_MAX: usize = 1024;

/// The queued scans, and the numbers of running scans, by user. `W` is the work of a scan.
#[derive(Debug)]
pub(super) struct ScanQueue<W> {
    base: usize,
    threads_max: usize,
    running: usize,
    users: BTreeMap<ScanUser, OfUser<W>>,
    /// The users with a queued scan, in the order in which their next scans start.
    ready: BTreeSet<Ready>,
    /// The users whose last scan of [known length](Length) used much CPU time.
    long_users: BTreeSet<ScanUser>,
    next_number: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Started<W> {
    pub user: ScanUser,
    pub work: W,
    /// True if the scan begins in the low scheduling class.
    pub is_low: bool,
}

/// The length of a scan, by its CPU time. It decides whether the next scan of the same user begins
/// in the normal or in the low scheduling class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    /// The scan used little CPU time, but ended early: the user's next one may be long or short.
    Unknown,
    Short,
    /// The scan used so much CPU time that the user's next one begins in the low scheduling class.
    Long,
}

#[derive(Debug)]
struct OfUser<W> {
    running: usize,
    /// The queued scans with their numbers, in the order of arrival.
    waiting: VecDeque<(u64, W)>,
}

impl<W> Default for OfUser<W> {
    fn default() -> Self {
        Self {
            running: 0,
            waiting: VecDeque::new(),
        }
    }
}

/// A user with a queued scan. The derived order compares the fields one after the other; the first
/// user in this order starts the next scan.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Ready {
    running: usize,
    /// The number, in the order of arrival, of the user's scan that has waited longest.
    number: u64,
    user: ScanUser,
}

impl<W> OfUser<W> {
    fn ready(&self, user: &ScanUser) -> Option<Ready> {
        self.waiting.front().map(|(number, _)| Ready {
            running: self.running,
            number: *number,
            user: user.clone(),
        })
    }
}

impl<W> ScanQueue<W> {
    /// Creates an empty queue for at most `threads_max` scans at once, and at most `base` of a
    /// single user. `threads_max` is raised to `base` if it is less.
    pub(super) fn new(base: usize, threads_max: usize) -> Self {
        Self {
            base,
            threads_max: threads_max.max(base),
            running: 0,
            users: BTreeMap::new(),
            ready: BTreeSet::new(),
            long_users: BTreeSet::new(),
            next_number: 0,
        }
    }

    pub(super) fn push(&mut self, user: &ScanUser, work: W) {
        let number = self.next_number;
        self.next_number += 1;
        self.change(user, |of| of.waiting.push_back((number, work)));
    }

    /// Returns whether one of the queued scans may run now.
    pub(super) fn may_start(&self) -> bool {
        self.ready.first().is_some_and(|ready| {
            self.running < self.base || (ready.running == 0 && self.running < self.threads_max)
        })
    }

    /// Returns whether any scan is queued.
    pub(super) fn has_waiting(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Removes and returns the scan to run next; `None` if none may run now. The queue treats the
    /// scan as running until [`end`](Self::end) is called for its user.
    pub(super) fn start(&mut self) -> Option<Started<W>> {
        if !self.may_start() {
            return None;
        }
        let user = self.ready.first()?.user.clone();
        let (_, work) = self.change(&user, |of| {
            let first = of.waiting.pop_front()?;
            of.running += 1;
            Some(first)
        })?;
        self.running += 1;
        let is_low = self.long_users.contains(&user);
        Some(Started { user, work, is_low })
    }

    pub(super) fn end(&mut self, user: &ScanUser, length: Length) {
        self.change(user, |of| of.running -= 1);
        self.running -= 1;
        match length {
            Length::Unknown => {}
            Length::Short => {
                self.long_users.remove(user);
            }
            Length::Long => {
                // Removing a single user, for example the first by name, would always hit the same
                // users.
                if self.long_users.len() == LONG_USERS_MAX && !self.long_users.contains(user) {
                    self.long_users.clear();
                }
                self.long_users.insert(user.clone());
            }
        }
    }

    pub(super) fn take_waiting(&mut self) -> Vec<W> {
        self.ready.clear();
        let users = self.users.values_mut();
        let waiting = users.flat_map(|of| of.waiting.drain(..).map(|(_, work)| work));
        let waiting = waiting.collect();
        self.users.retain(|_, of| of.running > 0);
        waiting
    }

    /// Applies `change` to the scans of a user, and moves the user to the resulting position in
    /// `ready`, the order of the users' next scans.
    fn change<T>(&mut self, user: &ScanUser, change: impl FnOnce(&mut OfUser<W>) -> T) -> T {
        let of = self.users.entry(user.clone()).or_default();
        if let Some(ready) = of.ready(user) {
            self.ready.remove(&ready);
        }
        let changed = change(of);
        let is_gone = of.running == 0 && of.waiting.is_empty();
        self.ready.extend(of.ready(user));
        if is_gone {
            self.users.remove(user);
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use ebb_test_support::seed::for_seeds;
    use rand::{RngExt as _, SeedableRng as _};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn role(number: usize) -> ScanUser {
        ScanUser::Role(format!("role{number}").into())
    }

    /// Starts all scans that may run now, and returns their users in the order of the starts.
    fn started(queue: &mut ScanQueue<usize>) -> Vec<ScanUser> {
        std::iter::from_fn(|| queue.start())
            .map(|started| started.user)
            .collect()
    }

    #[test]
    fn one_user_has_the_base_and_further_users_get_a_thread_each() {
        let mut queue = ScanQueue::new(2, 16);
        let [bad, worse, good] = [0, 1, 2].map(role);
        (0..10).for_each(|number| queue.push(&bad, number));
        assert_eq!(started(&mut queue), [bad.clone(), bad.clone()]);
        (0..10).for_each(|number| queue.push(&worse, number));
        assert_eq!(started(&mut queue), slice::from_ref(&worse));
        // Two users whose scans never end do not delay a third one.
        for number in 0..3 {
            queue.push(&good, number);
            assert_eq!(started(&mut queue), slice::from_ref(&good));
            queue.end(&good, Length::Short);
        }
        // A scan that ends makes no room for scans of the same users, until fewer than the base are
        // running.
        queue.end(&bad, Length::Long);
        assert!(started(&mut queue).is_empty());
        queue.end(&worse, Length::Long);
        assert_eq!(started(&mut queue), [worse]);
    }

    #[test]
    fn seventeen_users_have_sixteen_threads() {
        let mut queue = ScanQueue::new(2, 16);
        (0..17).for_each(|user| queue.push(&role(user), user));
        assert_eq!(started(&mut queue).len(), 16);
        queue.end(&role(3), Length::Short);
        assert_eq!(started(&mut queue), [role(16)]);
    }

    #[test]
    fn queued_scans_can_be_taken_back() {
        let mut queue = ScanQueue::new(1, 1);
        (0..3).for_each(|number| queue.push(&role(0), number));
        queue.push(&role(1), 3);
        let user = queue.start().unwrap().user;
        assert!(queue.has_waiting());
        let mut waiting = queue.take_waiting();
        waiting.sort_unstable();
        assert_eq!(waiting, [1, 2, 3]);
        assert!(!queue.has_waiting());
        queue.end(&user, Length::Short);
        assert!(started(&mut queue).is_empty());
        assert!(queue.users.is_empty());
    }

    #[test]
    fn a_bounded_number_of_users_with_long_scans_is_remembered() {
        let mut queue = ScanQueue::new(1, 1);
        let mut is_low = |user: usize, length| {
            queue.push(&role(user), user);
            let started = queue.start().unwrap();
            queue.end(&started.user, length);
            started.is_low
        };
        assert!((0..LONG_USERS_MAX).all(|user| !is_low(user, Length::Long)));
        assert!((0..LONG_USERS_MAX).all(|user| is_low(user, Length::Long)));
        // With one more user, the others are removed.
        assert!(!is_low(LONG_USERS_MAX, Length::Long));
        for (length, expected) in [
            (Length::Unknown, vec![LONG_USERS_MAX]),
            (Length::Short, vec![LONG_USERS_MAX]),
            (Length::Unknown, vec![]),
        ] {
            let low = (0..=LONG_USERS_MAX).filter(|user| is_low(*user, length));
            assert_eq!(low.collect::<Vec<_>>(), expected);
        }
    }

    /// A simple model of the queue, which looks at all queued scans for each decision. The queue
    /// must make the same decisions.
    struct Model {
        base: usize,
        threads_max: usize,
        /// The queued scans, in the order of arrival: the user and the number of each.
        waiting: Vec<(ScanUser, usize)>,
        running: BTreeMap<ScanUser, usize>,
        /// The users and lengths of completed scans, in the order of their ends.
        ended: Vec<(ScanUser, Length)>,
    }

    impl Model {
        fn of(&self, user: &ScanUser) -> usize {
            self.running.get(user).copied().unwrap_or(0)
        }

        fn start(&mut self) -> Option<Started<usize>> {
            let total: usize = self.running.values().sum();
            let may = |user: &ScanUser| {
                total < self.base || (self.of(user) == 0 && total < self.threads_max)
            };
            let allowed = (0..self.waiting.len()).filter(|&at| may(&self.waiting[at].0));
            let best = allowed.min_by_key(|&at| (self.of(&self.waiting[at].0), at))?;
            let (user, work) = self.waiting.remove(best);
            *self.running.entry(user.clone()).or_default() += 1;
            let mut ran = (self.ended.iter().rev())
                .filter(|(of, length)| *of == user && *length != Length::Unknown);
            let is_low = ran.next().is_some_and(|(_, last)| *last == Length::Long);
            Some(Started { user, work, is_low })
        }
    }

    #[test]
    fn scans_start_in_the_order_of_a_simple_model() {
        let test = "scans_start_in_the_order_of_a_simple_model";
        for_seeds(test, 20, |seed| {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let (base, threads_max) = (random.random_range(1..4), random.random_range(1..8));
            let mut queue = ScanQueue::new(base, threads_max);
            let mut model = Model {
                base,
                threads_max: threads_max.max(base),
                waiting: Vec::new(),
                running: BTreeMap::new(),
                ended: Vec::new(),
            };
            for number in 0..400 {
                let user = role(random.random_range(0..6));
                if random.random_range(0..5) < 3 {
                    queue.push(&user, number);
                    model.waiting.push((user, number));
                } else if model.of(&user) > 0 {
                    let lengths = [Length::Unknown, Length::Short, Length::Long];
                    let length = lengths[random.random_range(0..3)];
                    queue.end(&user, length);
                    *model.running.get_mut(&user).unwrap() -= 1;
                    model.ended.push((user, length));
                }
                // Threads may look for work late.
                while random.random_range(0..4) > 0 {
                    let expected = model.start();
                    assert_eq!(queue.may_start(), expected.is_some());
                    assert_eq!(queue.start(), expected);
                    if expected.is_none() {
                        break;
                    }
                }
            }
        });
    }
}
