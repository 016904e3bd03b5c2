//! Tasks that wait at several nodes at once, until one of the nodes takes them.

use super::task::Task;
use crate::model::NodeId;

/// The waiting tasks, each at all of its local nodes: those that hold its data.
///
/// The cheapest of a task's local nodes are its *homes* (the caller chooses them); at the others
/// the task is a *guest*. Each node has a list for either role. If a node takes a task, the task
/// stays in the lists of the other nodes, which skip it later, because finding and removing it at
/// once would cost more.
#[derive(Debug)]
pub(super) struct WaitingTasks {
    places: Places,
    /// For each node, two lists, indexed by [`Role`]: the tasks that have the node as a home,
    /// and the other tasks whose data is on the node (guests).
    lists: Vec<[List; 2]>,
}

/// The numbers of the waiting tasks, called places. The entries of a task in the lists contain its
/// place. When a node takes a task, its place becomes free for another one. So each place counts
/// the tasks that had it: the count distinguishes the present task from earlier ones.
#[derive(Debug, Default)]
struct Places {
    /// For each place, the number of tasks that had it and were taken. A list's entry is
    /// stale if this number has grown since the entry was made.
    uses: Vec<u32>,
    /// The places that are free, because no waiting task has them.
    free: Vec<u32>,
}

/// The tasks that wait at one node in one [`Role`]: at home there, or as guests.
#[derive(Debug, Default)]
struct List {
    /// Tasks in order of arrival, so the tasks of a job are next to each other.
    entries: Vec<Entry>,
    /// For each job, the range of its tasks in `entries`; oldest job first.
    parts: Vec<Part>,
    /// If the list has this many entries, the next push first removes the entries of tasks that
    /// were taken.
    entries_max: usize,
}

/// A waiting task in the list of one node. If another node takes the task, this entry stays as a
/// stale one, to be skipped. `uses` is the number of tasks that had the same `place` before this
/// task. The entry is stale if the number for this place in [`Places`] has grown since.
#[derive(Clone, Copy, Debug)]
struct Entry {
    task: Task,
    homes: Homes,
    place: u32,
    uses: u32,
}

/// The entries of one job in a [`List`], as a range of indices. Some of these tasks may have
/// been taken from the list of another node.
#[derive(Clone, Copy, Debug)]
struct Part {
    job: u32,
    from: u32,
    until: u32,
}

/// The role of a waiting task at one of its local nodes: the node is one of its homes (its
/// cheapest local nodes), or the task is a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Home,
    Guest,
}

/// The homes of a task, the cheapest of its local nodes when it arrived: a bit for each local node,
/// in the order of [`Task::local_nodes`], which is set if the node is a home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Homes(u8);

impl Homes {
    /// Makes homes of those local nodes of `task` for which `is_home` returns true.
    pub fn of(task: &Task, is_home: impl Fn(NodeId) -> bool) -> Self {
        let bits = task.local_nodes().enumerate();
        Self(bits.fold(0, |bits, (at, node)| bits | u8::from(is_home(node)) << at))
    }

    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Returns the local nodes of `task`, each paired with true if it is in this set of
    /// homes.
    fn marked(self, task: &Task) -> impl Iterator<Item = (NodeId, bool)> {
        (task.local_nodes().enumerate()).map(move |(at, node)| (node, self.0 & 1 << at != 0))
    }

    pub fn nodes(self, task: &Task) -> impl Iterator<Item = NodeId> {
        let homes = self.marked(task).filter(|&(_, home)| home);
        homes.map(|(node, _)| node)
    }
}

impl Places {
    /// Takes a free place for a task. Returns the place and the number of tasks that had it
    /// before. This number shows later whether an entry of a list is stale.
    fn take(&mut self) -> (u32, u32) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.uses.push(0);
            self.uses.len() as u32 - 1
        });
        (place, self.uses[place as usize])
    }

    fn give_back(&mut self, place: u32) {
        let uses = &mut self.uses[place as usize];
        *uses = uses.wrapping_add(1);
        self.free.push(place);
    }

    fn waits(&self, entry: &Entry) -> bool {
        self.uses[entry.place as usize] == entry.uses
    }
}

impl List {
    fn push(&mut self, entry: Entry, places: &Places) {
        if self.entries.len() >= self.entries_max {
            self.compact(places);
        }
        self.entries.push(entry);
        let until = self.entries.len() as u32;
        let job = entry.task.job;
        match self.parts.last_mut() {
            // A part whose tasks were all taken may belong to an earlier job in the same
            // place.
            Some(part) if part.job == job && part.from < part.until => part.until = until,
            _ => self.parts.push(Part {
                job,
                from: until - 1,
                until,
            }),
        }
    }

    /// Removes the entries of tasks that were taken, and the ranges of jobs that have no
    /// entries left.
    fn compact(&mut self, places: &Places) {
        let mut left = 0;
        let entries = &mut self.entries;
        self.parts.retain_mut(|part| {
            let from = left;
            for at in part.from..part.until {
                let entry = entries[at as usize];
                if places.waits(&entry) {
                    entries[left as usize] = entry;
                    left += 1;
                }
            }
            (part.from, part.until) = (from, left);
            from < left
        });
        entries.truncate(left as usize);
        self.entries_max = 2 * entries.len() + 64;
    }

    /// Moves the start of a job's range, `parts[part]`, past tasks that no longer wait.
    /// Returns whether a task of the range still waits.
    fn advance(&mut self, part: usize, places: &Places) -> bool {
        let part = &mut self.parts[part];
        let entries = &self.entries[part.from as usize..part.until as usize];
        let taken = entries.iter().take_while(|entry| !places.waits(entry));
        part.from += taken.count() as u32;
        part.from < part.until
    }

    /// Returns the index in `parts` of the job with the fewest running tasks among the jobs with
    /// waiting tasks in this list; of several, the oldest. `None` if no task of the list waits.
    /// `running[j]` is the number of running tasks of job j.
    fn fewest(&mut self, running: &[u32], places: &Places) -> Option<usize> {
        let mut best = (u32::MAX, None);
        let mut at = 0;
        while at < self.parts.len() && best.0 > 0 {
            let runs = running[self.parts[at].job as usize];
            if runs >= best.0 {
                at += 1;
            } else if self.advance(at, places) {
                best = (runs, Some(at));
                at += 1;
            } else {
                self.parts.remove(at);
            }
        }
        best.1
    }
}

impl WaitingTasks {
    pub fn new(nodes: u32) -> Self {
        Self {
            places: Places::default(),
            lists: (0..nodes).map(|_| Default::default()).collect(),
        }
    }

    /// Adds a waiting task. All tasks of a job must arrive together.
    pub fn push(&mut self, task: Task, homes: Homes) {
        let (place, uses) = self.places.take();
        let entry = Entry {
            task,
            homes,
            place,
            uses,
        };
        for (node, home) in homes.marked(&task) {
            let list = &mut self.lists[node.0 as usize][usize::from(!home)];
            list.push(entry, &self.places);
        }
    }

    /// Returns the guest at `node` (a task with data there, whose homes are other nodes) that has
    /// waited longest, and its homes; `None` if no guest waits at `node`. The task remains in the
    /// lists.
    pub fn oldest_guest(&mut self, node: NodeId) -> Option<(Task, Homes)> {
        let list = &mut self.lists[node.0 as usize][Role::Guest as usize];
        while !list.parts.is_empty() {
            if list.advance(0, &self.places) {
                let entry = list.entries[list.parts[0].from as usize];
                return Some((entry.task, entry.homes));
            }
            list.parts.remove(0);
        }
        None
    }

    /// Takes a task that waits at `node` in the role `waits` (home or guest): the oldest task of
    /// the job with the fewest running tasks; of several such jobs, of the oldest. `running[j]` is
    /// the number of running tasks of job j. Returns the task and its homes; `None` if no such task
    /// waits. The lists of other nodes skip the task later.
    pub fn take(&mut self, node: NodeId, waits: Role, running: &[u32]) -> Option<(Task, Homes)> {
        let list = &mut self.lists[node.0 as usize][waits as usize];
        let at = list.fewest(running, &self.places)?;
        let part = &mut list.parts[at];
        let entry = list.entries[part.from as usize];
        part.from += 1;
        if part.from == part.until {
            list.parts.remove(at);
        }
        self.places.give_back(entry.place);
        Some((entry.task, entry.homes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Task 0 waits at its home, node 0, and as a guest at node 1. Task 1 of the same job and
    /// task 2 of another job wait only at node 1, their home.
    #[test]
    fn a_task_that_one_node_took_is_skipped_by_the_others() {
        let mut waiting = WaitingTasks::new(2);
        let first = Task::new(0, 0, &[0, 1]);
        waiting.push(first, Homes::of(&first, |node| node == NodeId(0)));
        for task in [Task::new(0, 1, &[1]), Task::new(1, 0, &[1])] {
            waiting.push(task, Homes::of(&task, |_| true));
        }
        let (guest, homes) = waiting.oldest_guest(NodeId(1)).unwrap();
        assert_eq!(guest, first);
        assert_eq!(homes.nodes(&guest).collect::<Vec<_>>(), [NodeId(0)]);
        let mut take = |node, waits, running: &[u32]| {
            let taken = waiting.take(NodeId(node), waits, running);
            taken.map(|(task, _)| (task.job, task.index))
        };
        assert_eq!(take(0, Role::Home, &[0, 0]), Some((0, 0)));
        assert_eq!(take(1, Role::Guest, &[1, 0]), None);
        assert_eq!(take(1, Role::Home, &[1, 0]), Some((1, 0)));
        assert_eq!(take(1, Role::Home, &[1, 1]), Some((0, 1)));
        assert_eq!(take(1, Role::Home, &[2, 1]), None);
        assert_eq!(waiting.places.free.len(), 3, "places are used again");
    }
}
