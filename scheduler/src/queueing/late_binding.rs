//! Late binding: a task waits at all of its local nodes at once. No publication.

use super::cluster::{Cluster, Locality};
use super::discipline::Discipline;
use super::longest::Longest;
use super::task::{REPLICAS_MAX, Task};
use crate::model::NodeId;
use rand_chacha::ChaCha8Rng;

/// Tasks are not routed: each waits at every node that holds its data, and the first of
/// them that is free serves it. So no task waits at a busy node while another with its
/// data is idle, as it may where it joined the shortest queue and the lengths turned out
/// otherwise.
///
/// The *share* S(n) of a node is the sum, over the tasks that wait at it, of one over the
/// number of their local nodes: what it has to expect to serve itself. An idle node serves
/// the largest of alpha (S(m) + [`OWN_FIRST`]) where a task waits at it, beta S(n) in its
/// rack and gamma S(n) anywhere. The constant keeps nodes at their own tasks while queues
/// are short, which is where work would be wasted; when they are long, it is MaxWeight.
///
/// It helps another node only where S(n) is at least 1 and S(n) + 1 >= alpha / rate. The
/// last of the tasks that wait there ends after (S(n) + 1) / alpha slots by its own nodes
/// and after 1 / rate by the helper.
#[derive(Debug)]
pub(super) struct LateBinding {
    cluster: Cluster,
    tickets: Tickets,
    /// Per node: the jobs with tasks there, oldest first.
    parts: Vec<Vec<Part>>,
    /// In units of 1 / [`UNITS`].
    shares: Longest,
}

/// Tasks by which a node prefers its own.
const OWN_FIRST: f64 = 4.0;
/// Divisible by any number of local nodes.
const UNITS: u64 = 6;
const NONE: u32 = u32::MAX;

/// A task, chained at each of its local nodes.
#[derive(Clone, Copy, Debug)]
struct Ticket {
    task: Task,
    /// What follows it in the part of its job, per local node.
    next: [u32; REPLICAS_MAX],
    /// Nodes at which it is chained.
    chained: u8,
    taken: bool,
}

/// Tickets; the place of one that is chained nowhere is used again.
#[derive(Debug, Default)]
struct Tickets {
    places: Vec<Ticket>,
    free: Vec<u32>,
}

/// The tasks of one job at one node, first come first; those taken elsewhere too.
#[derive(Clone, Copy, Debug)]
struct Part {
    job: u32,
    head: u32,
    tail: u32,
}

/// Which of a task's local nodes `node` is.
fn position(task: &Task, node: NodeId) -> usize {
    task.local_nodes()
        .position(|at| at == node)
        .expect("a task is chained at its local nodes only")
}

/// What a task that waits adds to the share of each of its local nodes.
fn share(task: &Task) -> u64 {
    UNITS / task.local_nodes().count() as u64
}

impl Tickets {
    fn insert(&mut self, task: Task) -> u32 {
        let ticket = Ticket {
            task,
            next: [NONE; REPLICAS_MAX],
            chained: task.local_nodes().count() as u8,
            taken: false,
        };
        match self.free.pop() {
            Some(at) => {
                self.places[at as usize] = ticket;
                at
            }
            None => {
                self.places.push(ticket);
                self.places.len() as u32 - 1
            }
        }
    }

    /// Takes the first of the part off its chain at `node`.
    fn unchain(&mut self, part: &mut Part, node: NodeId) {
        let ticket = &mut self.places[part.head as usize];
        let next = ticket.next[position(&ticket.task, node)];
        ticket.chained -= 1;
        if ticket.chained == 0 {
            self.free.push(part.head);
        }
        part.head = next;
    }

    /// Whether a task of the part waits; its head is one then.
    fn advance(&mut self, part: &mut Part, node: NodeId) -> bool {
        while part.head != NONE && self.places[part.head as usize].taken {
            self.unchain(part, node);
        }
        part.head != NONE
    }
}

impl LateBinding {
    pub fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            tickets: Tickets::default(),
            parts: vec![Vec::new(); cluster.nodes as usize],
            shares: Longest::new(cluster),
        }
    }

    /// Where `node` takes its next task from.
    fn source(&mut self, node: NodeId, ties: &mut ChaCha8Rng) -> Option<NodeId> {
        let weight = |level, units: u64| {
            let share = units as f64 / UNITS as f64;
            let rate = self.cluster.rate(level);
            let helps = share >= 1.0 && share + 1.0 >= self.cluster.local / rate;
            match level {
                Locality::Local if units > 0 => (share + OWN_FIRST) * rate,
                Locality::Rack | Locality::Remote if helps => share * rate,
                _ => 0.0,
            }
        };
        self.shares.heaviest(node, weight, ties)
    }

    /// Takes a task that waits at `node`: of the job with the fewest running tasks, of
    /// those the oldest.
    fn take(&mut self, node: NodeId, running: &[u32]) -> Option<Task> {
        let parts = &mut self.parts[node.0 as usize];
        let mut best = (u32::MAX, 0);
        let mut at = 0;
        while at < parts.len() && best.0 > 0 {
            let runs = running[parts[at].job as usize];
            if runs >= best.0 {
                at += 1;
            } else if self.tickets.advance(&mut parts[at], node) {
                best = (runs, at);
                at += 1;
            } else {
                parts.remove(at);
            }
        }
        let part = parts.get_mut(best.1).filter(|_| best.0 < u32::MAX)?;
        let ticket = &mut self.tickets.places[part.head as usize];
        ticket.taken = true;
        let task = ticket.task;
        self.tickets.unchain(part, node);
        if part.head == NONE {
            parts.remove(best.1);
        }
        for local in task.local_nodes() {
            self.shares
                .set(local, self.shares.get(local) - share(&task));
        }
        Some(task)
    }
}

impl Discipline for LateBinding {
    fn route(&mut self, task: Task, _: &mut ChaCha8Rng) {
        let at = self.tickets.insert(task);
        for node in task.local_nodes() {
            let parts = &mut self.parts[node.0 as usize];
            match parts.last_mut() {
                // One whose tasks were all taken may be of an earlier job.
                Some(part) if part.job == task.job && part.head != NONE => {
                    let last = &mut self.tickets.places[part.tail as usize];
                    last.next[position(&last.task, node)] = at;
                    part.tail = at;
                }
                _ => parts.push(Part {
                    job: task.job,
                    head: at,
                    tail: at,
                }),
            }
            self.shares.set(node, self.shares.get(node) + share(&task));
        }
    }

    fn choose(&mut self, node: NodeId, running: &[u32], ties: &mut ChaCha8Rng) -> Option<Task> {
        let source = self.source(node, ties)?;
        self.take(source, running)
    }

    fn finished(&mut self, _: NodeId, _: &Task, _: &[u32]) {}
}
