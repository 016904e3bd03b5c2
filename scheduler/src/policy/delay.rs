//! Fair sharing with delay scheduling (Zaharia et al., EuroSys 2010, section 4). Thesis section
//! 3.4.2 describes the limits of this policy.

use super::fair::{Share, fair_draft};
use super::local::Local;
use super::places::Places;
use super::view::{ClusterView, Wait};
use super::{Decision, Policy, Refill};
use crate::model::{NodeId, TaskKind};
use std::collections::BTreeSet;

/// The longest time that a job waits for a slot on a node with its input, in seconds. A task of a
/// minute or more loses little by this wait.
pub const DELAY_S: f64 = 15.0;

/// Like [`Fair`](super::Fair), but a job whose turn it is declines a slot on a node without its
/// input. It takes any slot once [`DELAY_S`] has passed since it first declined one; a local slot
/// ends the wait, and the next declined slot starts it anew.
///
/// The wait is the same for all jobs, with or without a goal. A slot that all jobs decline stays
/// idle in the cycle.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delay;

impl Policy for Delay {
    fn name(&self) -> &'static str {
        "delay"
    }

    fn decide(&self, view: &ClusterView) -> Decision {
        let mut queue = Queue::new(view);
        let places = Places::keeping(fair_draft(view));
        let placement = places.offer(|places, node| queue.choose(places, node));
        Decision {
            placement,
            refill: Refill::LocalTask,
            waits: view.changed_waits(queue.waits),
        }
    }
}

/// The jobs with pending maps in fair order, and how long each has waited for a slot on a node with
/// its input.
struct Queue<'a> {
    view: &'a ClusterView,
    waits: Vec<Wait>,
    turns: BTreeSet<(Share, usize)>,
    local: Local<'a>,
}

impl<'a> Queue<'a> {
    fn new(view: &'a ClusterView) -> Self {
        let turn = |job: usize| {
            let running = view.jobs[job].running_of(TaskKind::Map);
            (Share::of(view, job, running.count() as u32), job)
        };
        Self {
            view,
            waits: view.jobs.iter().map(|job| job.wait).collect(),
            turns: (0..view.jobs.len())
                .filter(|&job| view.jobs[job].pending_maps > 0)
                .map(turn)
                .collect(),
            local: Local::new(view),
        }
    }

    fn choose(&mut self, places: &Places<'_>, node: NodeId) -> Option<usize> {
        let now_s = self.view.now_s;
        let mut chosen = None;
        for &(share, job) in &self.turns {
            if !places.can_start(job, node) {
                continue;
            }
            let wait = &mut self.waits[job];
            let waited = |since_s: f64| now_s - since_s >= DELAY_S;
            if self.local.take_on(job, node) {
                *wait = Wait::default();
            } else if wait.since_s.is_some_and(waited) {
                self.local.take_any(job);
            } else {
                wait.skips += 1;
                wait.since_s.get_or_insert(now_s);
                continue;
            }
            chosen = Some((share, job));
            break;
        }
        let (share, job) = chosen?;
        self.turns.remove(&(share, job));
        let slots = places.active_maps(job) + 1;
        self.turns.insert((Share::of(self.view, job, slots), job));
        Some(job)
    }
}
