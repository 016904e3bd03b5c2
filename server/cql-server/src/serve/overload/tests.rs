//! A model of one serving thread: connections in turns, as in `connection`, with the server's own
//! arrivals, clock and rule. The behaviour of real servers is measured by `ebb-bench experiments
//! serving --part overload`.

use std::collections::VecDeque;
use std::sync::mpsc;

use super::super::arrivals::Arrivals;
use super::*;

const LIMIT: Duration = Duration::from_millis(20);
/// The time that the simulated thread takes to serve a request, in tests in which all requests take
/// the same time.
const SERVE: Duration = Duration::from_micros(50);
/// The time that the simulated thread takes to reject a request.
const REJECT: Duration = Duration::from_nanos(700);
const REQUEST_BYTES: usize = 100;
/// The most bytes of one read, as in `connection`.
const READ_BYTES: usize = 64 << 10;
/// The most frames of one burst, as in `connection`.
const BURST_FRAMES: usize = 64;
/// The time after which a burst ends, as in `connection`.
const BURST_TIME: Duration = Duration::from_micros(500);
/// The number of requests that fit into a socket before its client has to wait.
const SOCKET: usize = 1500;

/// The times at which a client sends its requests.
enum Source {
    /// One request in each period, independent of the responses.
    Open { period: Duration, next: Duration },
    /// A new request after each response.
    Closed,
}

/// A client, its connection, and its results. Times are durations in real time since the start of
/// the run.
struct Client {
    source: Source,
    unsent: VecDeque<Duration>,
    socket: VecDeque<Duration>,
    read: VecDeque<Duration>,
    arrivals: Arrivals,
    is_small: bool,
    latencies_us: Vec<u64>,
    rejected: usize,
}

impl Client {
    fn new(source: Source, overload: &Overload) -> Self {
        Self {
            unsent: VecDeque::new(),
            socket: VecDeque::new(),
            read: VecDeque::new(),
            arrivals: Arrivals::new(overload.clock.at(Instant::now())), // clock: as in a connection
            is_small: false,
            latencies_us: Vec::new(),
            rejected: 0,
            source,
        }
    }

    fn is_idle(&self) -> bool {
        self.unsent.is_empty() && self.socket.is_empty() && self.read.is_empty()
    }
}

/// Creates clients that together send `load` times as many requests as the thread can serve. The
/// order in which they send does not depend on the order in which the thread serves them.
fn open(overload: &Overload, serve: Duration, load: f64, connections: u32) -> Vec<Client> {
    let period = serve.div_f64(load) * connections;
    (0..connections)
        .map(|nth| {
            let next = period.mul_f64(f64::from(nth.wrapping_mul(2654435761) >> 8) / 2f64.powi(24));
            Client::new(Source::Open { period, next }, overload)
        })
        .collect()
}

fn p99<'a>(clients: impl IntoIterator<Item = &'a Client>) -> Duration {
    let latencies = clients.into_iter().flat_map(|client| &client.latencies_us);
    let mut latencies_us: Vec<u64> = latencies.copied().collect();
    latencies_us.sort_unstable();
    Duration::from_micros(latencies_us[latencies_us.len() * 99 / 100])
}

fn rejected(clients: &[Client]) -> usize {
    clients.iter().map(|client| client.rejected).sum()
}

/// Runs the model for `span`. Requests that are sent before `lead` are not part of the results.
/// `pauses` has the times at which the machine stops, each with the duration.
fn run(
    overload: &Overload,
    clients: &mut [Client],
    serve: Duration,
    (lead, span): (Duration, Duration),
    pauses: &[(Duration, Duration)],
) {
    let epoch = overload.clock.epoch();
    let measured = |now: Duration| overload.clock.at(epoch + now);
    let mut now = Duration::ZERO;
    let (mut ticked, mut round_began) = (now, measured(now));
    let mut probe: Option<Probe> = None;
    let mut pauses = pauses.iter().peekable();
    let mut place = 0;
    while now < span {
        if let Some((_, length)) = pauses.next_if(|(at, _)| *at <= now) {
            now += *length;
        }
        if probe.is_some() && now - ticked >= TICK_EVERY {
            overload.clock.tick(epoch + now);
            ticked = now;
        }
        for client in &mut *clients {
            if let Source::Open { period, next } = &mut client.source {
                while *next <= now {
                    client.unsent.push_back(*next);
                    *next += *period;
                }
            }
        }
        // As on a server, the probe waits for one round of the connections, like a connection whose
        // bytes arrive now. Here it does not sleep between two rounds.
        if place == 0 {
            let measured_now = measured(now);
            if let Some(steps) = &mut probe {
                let goes_on = steps.step(overload, round_began, measured_now);
                if !goes_on {
                    overload.calm();
                    probe = None;
                }
            } else if overload.wakeup.take_requests() {
                overload.clock.tick(epoch + now);
                ticked = now;
                probe = Some(Probe::begin(measured(now)));
            }
            round_began = measured(now);
            if clients.iter().all(Client::is_idle) {
                let next = clients.iter().filter_map(|client| match client.source {
                    Source::Open { next, .. } => Some(next),
                    Source::Closed => None,
                });
                now = next.min().expect("somebody sends");
            }
        }
        serve_one(overload, &mut clients[place], serve, &mut now, lead);
        place = (place + 1) % clients.len();
    }
}

/// Simulates that the thread serves one connection until its burst (the requests that it may serve
/// in one go) ends. Serving a request takes the time `serve`. Requests that were sent before `lead`
/// are not part of the results.
fn serve_one(
    overload: &Overload,
    client: &mut Client,
    serve: Duration,
    now: &mut Duration,
    lead: Duration,
) {
    let epoch = overload.clock.epoch();
    let measured = |now: Duration| overload.clock.at(epoch + now);
    let free = SOCKET.saturating_sub(client.socket.len());
    let sends = client.unsent.len().min(free);
    client.socket.extend(client.unsent.drain(..sends));
    if client.read.is_empty() && !client.socket.is_empty() {
        let takes = client.socket.len().min(READ_BYTES / REQUEST_BYTES);
        client.read.extend(client.socket.drain(..takes));
        let left = client.socket.len() * REQUEST_BYTES;
        let bytes = (0, takes * REQUEST_BYTES);
        (client.arrivals).read(measured(*now), bytes, left, overload.turn());
        client.is_small = overload.is_small(takes * REQUEST_BYTES + left);
    }
    let burst_began = *now;
    let target = overload.target().filter(|_| !client.is_small);
    let (mut served, mut rejected, mut first_waited) = (0, 0, None);
    for _ in 0..BURST_FRAMES {
        if *now - burst_began > BURST_TIME {
            break;
        }
        let Some(sent_at) = client.read.pop_front() else {
            break;
        };
        // As in `connection`, the wait of a request begins with its last byte.
        let unserved = client.read.len() * REQUEST_BYTES + 1;
        let waited = match target {
            Some(_) => (client.arrivals).waited_at_most(measured(*now), unserved),
            None => client.arrivals.waited(measured(*now), unserved),
        };
        if target.is_some_and(|target| waited > target) {
            rejected += 1;
            *now += REJECT;
            client.rejected += usize::from(sent_at >= lead);
        } else {
            first_waited.get_or_insert(waited);
            served += 1;
            *now += serve;
            if sent_at >= lead {
                let latency = *now - sent_at;
                client.latencies_us.push(latency.as_micros() as u64);
            }
        }
        if let Source::Closed = client.source {
            client.socket.push_back(*now);
        }
    }
    if let Some(waited) = first_waited {
        overload.served(served, waited);
    }
    if rejected > 0 {
        overload.rejected(rejected);
    }
}

const SPAN: Duration = Duration::from_secs(4);
/// The time at the start of a run whose requests are not part of the results: until then the server
/// has not decided whether there is an overload.
const LEAD: Duration = Duration::from_secs(1);

#[test]
fn at_three_times_the_capacity_served_requests_have_low_latencies() {
    for serve_us in [15, 50, 200] {
        for connections in [1, 4, 16, 64] {
            let serve = Duration::from_micros(serve_us);
            let at = |load: f64, limit: Duration| {
                let overload = Overload::new(limit);
                let mut clients = open(&overload, serve, load, connections);
                run(&overload, &mut clients, serve, (LEAD, SPAN), &[]);
                clients
            };
            let case = format!("{connections} connections, {serve_us} us");
            let clients = at(3.0, LIMIT);
            let (p99, half) = (p99(&clients), p99(&at(0.5, LIMIT)));
            println!("{case}: p99 {p99:?}, at half load {half:?}");
            assert!(p99 < Duration::from_millis(10), "{case}: {p99:?}");
            assert!(rejected(&clients) > 0, "{case}");
            // Rejecting costs little of the capacity.
            let served: usize = clients.iter().map(|one| one.latencies_us.len()).sum();
            let part = served as f64 / (SPAN - LEAD).div_duration_f64(serve);
            assert!(part > 0.8, "{case}: {part} of the capacity");
            // Without overload control the queue grows.
            assert!(self::p99(&at(3.0, Duration::ZERO)) > Duration::from_secs(1));
        }
    }
}

#[test]
fn below_the_capacity_no_request_is_rejected() {
    for connections in [1, 4, 64] {
        for load in [0.3, 0.5, 0.9] {
            let overload = Overload::new(LIMIT);
            let mut clients = open(&overload, SERVE, load, connections);
            run(&overload, &mut clients, SERVE, (Duration::ZERO, SPAN), &[]);
            assert_eq!(rejected(&clients), 0, "{connections} connections, {load}");
        }
    }
}

#[test]
fn rejecting_starts_after_three_late_intervals_and_ends_without_requests() {
    for (intervals, target) in [(2, None), (6, Some(LIMIT / LIMIT_OVER_TARGET))] {
        let overload = Overload::new(LIMIT);
        let mut clients = open(&overload, SERVE, 3.0, 16);
        let span = (Duration::ZERO, INTERVAL * intervals);
        run(&overload, &mut clients, SERVE, span, &[]);
        assert_eq!(overload.target(), target, "after {intervals} intervals");
        overload.calm();
        assert_eq!(overload.target(), None);
    }
}

#[test]
fn a_queue_that_stays_below_the_limit_is_no_overload() {
    // A standing queue of 300 requests takes 15 ms. It is long, but no overload.
    let overload = Overload::new(LIMIT);
    for _ in 0..5 {
        overload.served(300, SERVE * 300);
        overload.end_interval();
        assert!(overload.target().is_none());
    }
    for _ in 0..3 {
        overload.served(300, SERVE * 600);
        overload.end_interval();
    }
    assert!(overload.target().is_some());
}

#[test]
fn the_start_and_the_end_of_an_overload_are_reported_once() {
    let (sender, events) = mpsc::channel();
    let report = move |event: ServerEvent<'_>| drop(sender.send(format!("{event:?}")));
    let overload = Overload::new(LIMIT).telling(ServerEvents::new(report));
    let reported = || events.try_iter().collect::<Vec<_>>();
    let late = || {
        overload.served(300, SERVE * 600);
        overload.end_interval();
    };
    (0..3).for_each(|_| late());
    assert_eq!(reported(), ["OverloadBegan"]);
    overload.rejected(7);
    overload.end_interval();
    // Rejecting ends, and starts again with the next late interval.
    overload.end_interval();
    late();
    assert_eq!(reported(), [""; 0]);
    (0..30).for_each(|_| overload.end_interval());
    assert_eq!(reported(), ["OverloadEnded { refused: 7 }"]);
    (0..3).for_each(|_| late());
    overload.calm();
    let again = ["OverloadBegan", "OverloadEnded { refused: 0 }"];
    assert_eq!(reported(), again);
    // The requests end before the late interval does, so no overload begins.
    overload.served(300, SERVE * 600);
    overload.calm();
    assert_eq!(reported(), [""; 0]);
}

/// Returns `count` pauses as (begin, duration), of 0.1 to 2 s each and often close together, and
/// the end of the last one.
fn pauses(count: u32) -> (Vec<(Duration, Duration)>, Duration) {
    let mut random = 1_u32;
    let mut draw = |from_ms: u32, to_ms: u32| {
        random = random.wrapping_mul(1664525).wrapping_add(1013904223);
        Duration::from_millis((from_ms + (random >> 8) % (to_ms - from_ms)).into())
    };
    let mut at = Duration::ZERO;
    let pauses = (0..count).map(|_| {
        at += draw(5, 300);
        let pause = (at, draw(100, 2000));
        at += pause.1;
        pause
    });
    (pauses.collect(), at)
}

#[test]
fn a_hundred_pauses_of_the_machine_cause_no_rejections() {
    // 256 requests are in progress, from 16 clients. One late interval suffices all the time, as
    // after an overload, so that only the clock distinguishes a pause from an overload.
    let overload = Overload::new(LIMIT);
    *overload.rule() = Rule::always_alert();
    let mut clients: Vec<Client> = (0..16)
        .map(|_| Client::new(Source::Closed, &overload))
        .collect();
    for client in &mut clients {
        client.socket.extend([Duration::ZERO; 16]);
    }
    let (pauses, span) = pauses(100);
    run(
        &overload,
        &mut clients,
        SERVE,
        (Duration::ZERO, span),
        &pauses,
    );
    assert_eq!(rejected(&clients), 0);
}

/// The bursts of the 16 flooding clients take longer to serve than the target. So every request of
/// the polite client waits longer than the requests of other clients may.
#[test]
fn a_polite_client_beside_floods_is_served() {
    for floods in [1, 3, 16, 64] {
        let overload = Overload::new(LIMIT);
        let mut clients = open(&overload, SERVE, 4.0, floods);
        let (period, next) = (Duration::from_millis(50), Duration::ZERO);
        clients.push(Client::new(Source::Open { period, next }, &overload));
        run(&overload, &mut clients, SERVE, (LEAD, SPAN), &[]);
        let (polite, flood) = clients.split_last().unwrap();
        assert!(rejected(flood) > 1000, "{floods}: it is an overload");
        assert_eq!(polite.rejected, 0, "{floods}");
        let p99 = p99([polite]);
        let turns = Duration::from_millis(1) + BURST_TIME * 2 * floods;
        assert!(p99 < turns, "{floods}: {p99:?}");
    }
}
