//! Where the slowest requests were, from when they were due to their end.

use serde::Serialize;

use super::replay::{Replayed, Span, State};
use crate::ycsb::SlowOperation;

/// The slowest requests, and where their time went: microseconds of each on average.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Slowest {
    /// How many were looked at.
    pub requests: usize,
    /// The latency of the quickest of them.
    pub from_us: u64,
    /// Their mean latency.
    pub mean_us: f64,
    /// Due, and the thread that took it later slept.
    pub due_asleep_us: f64,
    /// Due, and that thread was ready to run and had no core.
    pub due_no_core_us: f64,
    /// Due, and that thread was busy with requests before.
    pub due_busy_us: f64,
    /// Taken, and its thread had no core.
    pub no_core_us: f64,
    /// Taken, and its thread waited for a lock or a disk.
    pub asleep_us: f64,
    /// In a system call, on a core.
    pub in_call_us: f64,
    /// On a core, faults included: the trace does not show where a fault ends.
    pub on_core_us: f64,
    /// Outside of what the trace shows.
    pub unknown_us: f64,
    /// Page faults while it was taken.
    pub faults: f64,
}

impl Slowest {
    /// Of several windows, each with its slow operations, as many of the slowest of them as
    /// are to be looked at, and what the trace says.
    pub fn of(windows: &[(Vec<SlowOperation>, usize, &Replayed)]) -> Self {
        let mut sum = Self::default();
        for (slow, requests_max, replayed) in windows {
            let mut slow = slow.clone();
            slow.sort_by_key(|it| std::cmp::Reverse(it.ended_us.saturating_sub(it.due_us)));
            slow.truncate(*requests_max);
            for request in &slow {
                sum.add(request, replayed);
            }
        }
        sum.divided_by(sum.requests.max(1) as f64)
    }

    fn add(&mut self, request: &SlowOperation, replayed: &Replayed) {
        let SlowOperation {
            thread,
            due_us,
            taken_us,
            ended_us,
        } = *request;
        let latency_us = ended_us.saturating_sub(due_us);
        self.from_us = match self.requests {
            0 => latency_us,
            _ => self.from_us.min(latency_us),
        };
        self.requests += 1;
        self.mean_us += latency_us as f64;
        let life = replayed.lives.get(&thread).map_or(&[][..], Vec::as_slice);
        let due = Parts::of(life, due_us, taken_us);
        self.due_asleep_us += due.asleep_us;
        self.due_no_core_us += due.no_core_us;
        self.due_busy_us += due.in_call_us + due.on_core_us;
        let taken = Parts::of(life, taken_us, ended_us);
        self.no_core_us += taken.no_core_us;
        self.asleep_us += taken.asleep_us;
        self.in_call_us += taken.in_call_us;
        self.on_core_us += taken.on_core_us;
        self.unknown_us += due.unknown_us + taken.unknown_us;
        if let Some(faults) = replayed.faults.get(&thread) {
            let before = |at_us: u64| faults.partition_point(|fault| *fault < at_us);
            self.faults += (before(ended_us) - before(taken_us)) as f64;
        }
    }

    fn divided_by(self, requests: f64) -> Self {
        Self {
            requests: self.requests,
            from_us: self.from_us,
            mean_us: self.mean_us / requests,
            due_asleep_us: self.due_asleep_us / requests,
            due_no_core_us: self.due_no_core_us / requests,
            due_busy_us: self.due_busy_us / requests,
            no_core_us: self.no_core_us / requests,
            asleep_us: self.asleep_us / requests,
            in_call_us: self.in_call_us / requests,
            on_core_us: self.on_core_us / requests,
            unknown_us: self.unknown_us / requests,
            faults: self.faults / requests,
        }
    }
}

/// What a thread did in a time, in microseconds.
#[derive(Debug, Default)]
struct Parts {
    on_core_us: f64,
    in_call_us: f64,
    no_core_us: f64,
    asleep_us: f64,
    unknown_us: f64,
}

impl Parts {
    fn of(life: &[Span], from_us: u64, to_us: u64) -> Self {
        let mut parts = Self {
            unknown_us: to_us.saturating_sub(from_us) as f64,
            ..Self::default()
        };
        let first = life.partition_point(|span| span.to_us <= from_us);
        for span in life[first..].iter().take_while(|span| span.from_us < to_us) {
            let us = span.to_us.min(to_us) - span.from_us.max(from_us);
            parts.unknown_us -= us as f64;
            *match span.state {
                State::OnCore => &mut parts.on_core_us,
                State::InCall => &mut parts.in_call_us,
                State::NoCore => &mut parts.no_core_us,
                State::Asleep => &mut parts.asleep_us,
            } += us as f64;
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_s_time_is_split_where_its_thread_was() {
        let states = [
            (0, 110, State::Asleep),
            (110, 150, State::NoCore),
            (150, 170, State::OnCore),
            (170, 180, State::InCall),
            (180, 220, State::Asleep),
            (220, 230, State::NoCore),
            (230, 260, State::OnCore),
        ];
        let life = states.map(|(from_us, to_us, state)| Span {
            from_us,
            to_us,
            state,
        });
        let replayed = Replayed {
            lives: [(7, life.to_vec())].into(),
            faults: [(7, vec![90, 165, 240, 300])].into(),
            ..Replayed::default()
        };
        let slow = |due_us, taken_us, ended_us| SlowOperation {
            thread: 7,
            due_us,
            taken_us,
            ended_us,
        };
        let quick = slow(150, 150, 151);
        let all = vec![quick, slow(100, 160, 270)];
        let slowest = Slowest::of(&[(all.clone(), 1, &replayed)]);
        let expected = Slowest {
            requests: 1,
            from_us: 170,
            mean_us: 170.0,
            due_asleep_us: 10.0,
            due_no_core_us: 40.0,
            due_busy_us: 10.0,
            no_core_us: 10.0,
            asleep_us: 40.0,
            in_call_us: 10.0,
            on_core_us: 40.0,
            unknown_us: 10.0,
            faults: 2.0,
        };
        assert_eq!(slowest, expected);
        let both = Slowest::of(&[(all, 9, &replayed), (Vec::new(), 9, &replayed)]);
        assert_eq!((both.requests, both.from_us), (2, 1));
        assert_eq!(both.mean_us, 85.5);
        assert_eq!(Slowest::of(&[]), Slowest::default());
    }
}
