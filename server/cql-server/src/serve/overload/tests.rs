use std::collections::VecDeque;

use super::super::arrivals::Arrivals;
use super::*;

/// What serving and refusing a request cost the one thread of the model.
const SERVE: Duration = Duration::from_micros(15);
const REFUSE: Duration = Duration::from_nanos(700);
const REQUEST_BYTES: usize = 100;
/// As of a real connection.
const READ_BYTES: usize = 64 << 10;
/// Requests that a socket takes before its client cannot send.
const SOCKET: usize = 1500;
const BURST: usize = 64;

/// What a client saw.
#[derive(Debug, Default)]
struct Seen {
    /// Of those that were served, in microseconds.
    latencies_us: Vec<u64>,
    refused: usize,
}

impl Seen {
    fn p99(&mut self) -> Duration {
        self.latencies_us.sort_unstable();
        Duration::from_micros(self.latencies_us[self.latencies_us.len() * 99 / 100])
    }
}

/// One connection of the model: when each of its requests was sent.
struct Connection {
    client: VecDeque<Duration>,
    socket: VecDeque<Duration>,
    read: VecDeque<Duration>,
    arrivals: Arrivals,
}

/// A thread that serves connections in turns, as `connection` does, while clients send `load`
/// times what it can serve; what came in the first part of `span` does not count.
fn run(overload: &Overload, load: f64, connections: usize, span: Duration, lead: Duration) -> Seen {
    let epoch = Instant::now();
    let gap = SERVE.div_f64(load);
    let mut all: Vec<Connection> = (0..connections)
        .map(|_| Connection {
            client: VecDeque::new(),
            socket: VecDeque::new(),
            read: VecDeque::new(),
            arrivals: Arrivals::new(epoch),
        })
        .collect();
    let mut seen = Seen::default();
    let (mut now, mut sent) = (Duration::ZERO, Duration::ZERO);
    let (mut round_began, mut interval_began) = (now, now);
    let mut place = 0;
    while now < span {
        while sent <= now {
            // Requests come to connections in no order that their turns have.
            let which = (sent.as_nanos() as usize).wrapping_mul(2654435761) >> 7;
            all[which % connections].client.push_back(sent);
            sent += gap;
        }
        if place == 0 {
            overload.note_turn(now - round_began);
            round_began = now;
            if all
                .iter()
                .all(|one| one.client.is_empty() && one.socket.is_empty() && one.read.is_empty())
            {
                now = sent;
            }
        }
        if now - interval_began >= INTERVAL {
            overload.end_interval();
            interval_began = now;
        }
        let one = &mut all[place];
        let sends = one
            .client
            .len()
            .min(SOCKET.saturating_sub(one.socket.len()));
        one.socket.extend(one.client.drain(..sends));
        place = (place + 1) % connections;
        if one.read.is_empty() && !one.socket.is_empty() {
            let takes = one.socket.len().min(READ_BYTES / REQUEST_BYTES);
            one.read.extend(one.socket.drain(..takes));
            let left = one.socket.len() * REQUEST_BYTES;
            let bytes = (0, takes * REQUEST_BYTES);
            (one.arrivals).read(epoch + now, bytes, left, overload.turn());
        }
        for _ in 0..BURST {
            let Some(sent_at) = one.read.pop_front() else {
                break;
            };
            let unserved = one.read.len() * REQUEST_BYTES + 1;
            let waited = match overload.target() {
                Some(_) => one.arrivals.waited_at_most(epoch + now, unserved),
                None => one.arrivals.waited(epoch + now, unserved),
            };
            if overload.target().is_some_and(|target| waited > target) {
                overload.refused(1);
                now += REFUSE;
                seen.refused += usize::from(sent_at >= lead);
                continue;
            }
            overload.served(1, waited);
            now += SERVE;
            if sent_at >= lead {
                seen.latencies_us.push((now - sent_at).as_micros() as u64);
            }
        }
    }
    seen
}

const LIMIT: Duration = Duration::from_millis(20);
const SPAN: Duration = Duration::from_secs(3);
const LEAD: Duration = Duration::from_millis(500);

/// What the thread can serve in the time that counts.
fn capacity() -> usize {
    (SPAN - LEAD).div_duration_f64(SERVE) as usize
}

#[test]
fn what_is_served_at_three_times_the_capacity_is_served_soon() {
    for connections in [1, 4, 64] {
        let seen = &mut run(&Overload::new(LIMIT), 3.0, connections, SPAN, LEAD);
        let p99 = seen.p99();
        assert!(p99 < Duration::from_micros(1500), "{connections}: {p99:?}");
        // Refusing costs little of what serving could have.
        let part = seen.latencies_us.len() as f64 / capacity() as f64;
        assert!(part > 0.85, "{connections}: {part} of what could be");
        // Without the rule it is not so.
        let p99 = run(&Overload::new(Duration::ZERO), 3.0, connections, SPAN, LEAD).p99();
        assert!(p99 > Duration::from_secs(1), "{p99:?}");
    }
}

#[test]
fn nothing_is_refused_that_can_be_served() {
    for connections in [1, 4, 64] {
        for load in [0.3, 0.5, 0.9] {
            let seen = run(&Overload::new(LIMIT), load, connections, SPAN, LEAD);
            assert_eq!(seen.refused, 0, "{connections} connections, {load}");
        }
    }
}

#[test]
fn refusing_begins_after_an_interval_and_ends_with_the_overload() {
    let overload = Overload::new(LIMIT);
    run(&overload, 3.0, 16, INTERVAL / 2, Duration::ZERO);
    assert!(overload.target().is_none(), "a burst is no overload");
    run(&overload, 3.0, 16, 4 * INTERVAL, Duration::ZERO);
    assert_eq!(overload.target(), Some(LIMIT / LIMIT_OVER_TARGET));
    let seen = run(&overload, 0.5, 16, SPAN, LEAD);
    assert_eq!(seen.refused, 0);
    assert!(overload.target().is_none());
}

#[test]
fn clients_that_wait_for_their_answers_are_not_refused_while_they_wait_less_than_the_limit() {
    // A standing queue of 1,000 requests takes 15 ms: that is how many there are, not an
    // overload.
    let overload = Overload::new(LIMIT);
    for _ in 0..5 {
        overload.served(1000, SERVE * 1000);
        overload.end_interval();
        assert!(overload.target().is_none());
    }
    overload.served(1000, SERVE * 2000);
    overload.end_interval();
    assert!(overload.target().is_some());
}

#[test]
fn a_pause_of_the_machine_is_no_overload() {
    let overload = Overload::new(LIMIT);
    for late in [1, LATE_MIN - 1] {
        overload.served(late, 3 * LIMIT);
        overload.end_interval();
        assert!(overload.target().is_none(), "{late}");
    }
    overload.served(LATE_MIN, 3 * LIMIT);
    overload.end_interval();
    assert!(overload.target().is_some());
}
