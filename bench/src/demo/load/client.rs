//! The client process of the load: follows the orders on its standard input, and sends the load
//! through CQL.

use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{LoadReport, Message, Order, VALUE_BYTES};
use crate::ycsb::cql::{Operations, Plan, RawClient};
use crate::ycsb::{Interval, Latencies, Pace};

/// The number of connections of the client, which has one thread.
const CONNECTIONS: usize = 32;
/// The interval at which an open loop sends the operations that are due and reads the responses. If
/// the client woke up for each request, the wake-ups of client and server would cost more than the
/// request.
const TICK: Duration = Duration::from_micros(500);
/// The client reports its measurements once in each interval of this length.
const INTERVAL: Duration = Duration::from_millis(100);

/// Sends the load to the server at `address`. Reads orders from standard input and executes them
/// until the input ends.
///
/// # Errors
/// When it cannot connect to the server, or standard output is closed. An order that fails is
/// reported on standard output, and the next one is executed.
pub fn run_client(address: SocketAddr) -> Result<()> {
    let (orders, ordered) = mpsc::channel();
    thread::spawn(move || read_orders(&orders));
    let mut client = RawClient::connect(address, None, CONNECTIONS, 1)?;
    // The channel closes when the input ends.
    for (order, stop) in ordered {
        let followed = follow(&mut client, order, stop);
        send(&match followed {
            Ok(report) => Message::Ended(report),
            Err(error) => Message::Failed(format!("{error:#}")),
        })?;
    }
    Ok(())
}

/// Reads orders from standard input, and sends each to the thread that executes orders, with a flag
/// that ends the order early. [`Order::Stop`] is not sent: it sets the flag of the order that was
/// sent last. The end of the input sets that flag, too.
fn read_orders(orders: &mpsc::Sender<(Order, Arc<AtomicBool>)>) {
    let mut stop = Arc::new(AtomicBool::new(false));
    for line in std::io::stdin().lock().lines() {
        let Some(order) = line.ok().and_then(|line| serde_json::from_str(&line).ok()) else {
            break;
        };
        if order == Order::Stop {
            stop.store(true, Ordering::Relaxed);
            continue;
        }
        stop = Arc::default();
        if orders.send((order, Arc::clone(&stop))).is_err() {
            return;
        }
    }
    stop.store(true, Ordering::Relaxed);
}

/// Executes one order from the demo's process. Returns the report of [`Order::Run`]; `None` after
/// [`Order::Load`], which loads records.
fn follow(
    client: &mut RawClient,
    order: Order,
    stop: Arc<AtomicBool>,
) -> Result<Option<LoadReport>> {
    match order {
        Order::Load { records } => {
            // The table may have records already. If it has all, the range is empty.
            let present = client.records();
            let plan = Plan {
                // Writes that the server rejects for overload are sent again.
                takes_refusals: true,
                value_bytes: VALUE_BYTES,
                stop,
                ..Plan::load(present..records.max(present))
            };
            // If the demo no longer reads, it has closed the input too, which ends this process.
            client.run(&plan, |done| drop(send(&Message::Loaded(done))))?;
            Ok(None)
        }
        Order::Run { pace, seconds } => {
            let (intervals, reported) = mpsc::channel();
            let plan = Plan {
                pace: pace.pace(),
                tick: TICK,
                duration: seconds.map(Duration::from_secs_f64),
                // The report shows how many operations the server rejects for overload. An error would
                // end the demo in the middle of its day.
                takes_refusals: true,
                value_bytes: VALUE_BYTES,
                stop,
                intervals: Some((INTERVAL, intervals)),
                // Workload A, half reads and half updates, as in a demo without a server.
                ..Plan::new(Operations::Run("a".parse().expect("it is known"), None))
            };
            // A closed loop has no operations that are due together, so it does not wait for ticks.
            let plan = match plan.pace {
                Pace::Closed => Plan {
                    tick: Duration::ZERO,
                    ..plan
                },
                Pace::Open(_) => plan,
            };
            // `client.run` takes this thread until the end, so another one sends the intervals meanwhile.
            let tally = thread::scope(|scope| {
                scope.spawn(move || {
                    for interval in reported {
                        // As for the messages of loading: a closed input ends this process.
                        let _ = send(&Message::Interval(interval));
                    }
                });
                let tally = client.run(&plan, |_| ());
                // Drops the channel's sender, so that the thread above ends.
                drop(plan);
                tally
            })?;
            tally.check_values()?;
            let all = Latencies::from(&tally.all());
            Ok(Some(LoadReport {
                ops_per_s: tally.throughput_ops_per_s(),
                p50_us: all.p50_us,
                p99_us: all.p99_us,
                p999_us: all.p999_us,
                refused: tally.refused,
                // The intervals were sent when they ended.
                timeline: Vec::<Interval>::new(),
            }))
        }
        // Does not come here: `read_orders` sets the flag of the running order instead.
        Order::Stop => Ok(None),
    }
}

fn send(message: &Message) -> Result<()> {
    let mut line = serde_json::to_string(message)?;
    line.push('\n');
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes())
        .context("the standard output of the load's client is closed")?;
    Ok(out.flush()?)
}
