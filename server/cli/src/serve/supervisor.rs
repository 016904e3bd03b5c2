//! Notifications to systemd: that the server is ready, that it stops or starts again and, if the unit has a
//! watchdog, periodically that it answers. Without systemd nothing is sent.

use std::env;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use sd_notify::NotifyState;

use super::log_levels::SERVER;

/// The environment variable by which systemd passes the socket for notifications.
const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";
/// The environment variable by which systemd, from version 248 on, passes the id of the process that it started.
const EXEC_PID: &str = "SYSTEMD_EXEC_PID";
/// The request `OPTIONS` in version 4 of CQL's protocol: a header without a body.
const OPTIONS: [u8; 9] = [4, 0, 0, 0, 5, 0, 0, 0, 0];

/// A server that has notified systemd of its start.
pub(super) struct Supervised {
    stops: Arc<AtomicBool>,
}

impl Supervised {
    /// Notifies systemd that the server accepts requests. If the unit has a watchdog, starts the
    /// thread that feeds it.
    ///
    /// # Errors
    /// When the system refuses the thread.
    pub(super) fn ready(cql: SocketAddr) -> Result<Self> {
        let status = format!("answers CQL on {cql}");
        tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
        let stops = Arc::new(AtomicBool::new(false));
        if let Some(timeout) = sd_notify::watchdog_enabled() {
            let stops = Arc::clone(&stops);
            thread::Builder::new()
                .name("ebb-watchdog".to_owned())
                .spawn(move || feed(reachable(cql), timeout, &stops))
                .context("cannot start the thread that feeds the watchdog")?;
        }
        Ok(Self { stops })
    }

    /// Notifies systemd that the server accepts no new requests. The watchdog is fed from now on even if the
    /// server does not answer, because the sync of the log may need longer than the watchdog's timeout. The
    /// stop timeout of the unit bounds the sync.
    pub(super) fn stopping(&self) {
        self.stops.store(true, Ordering::Relaxed);
        tell(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
    }

    /// Notifies systemd that the server stops and starts again in the same process. For systemd this is a
    /// reload, which lasts until the new start calls [`ready`](Self::ready): after a message that the
    /// service stops, systemd would end the process when the stop timeout is over. The watchdog is fed as
    /// during a stop.
    pub(super) fn reopening(&self) {
        self.stops.store(true, Ordering::Relaxed);
        let mut states = vec![NotifyState::Reloading];
        // systemd requires the time of a reload from version 253 on. No system lacks this clock.
        states.extend(NotifyState::monotonic_usec_now());
        states.push(NotifyState::Status("starting again after a failed write"));
        tell(&states);
    }
}

/// Feeds the watchdog until it is dropped.
pub(super) struct FedWatchdog {
    /// The thread that feeds ends when this end of its channel is gone.
    _end: Sender<()>,
}

impl FedWatchdog {
    /// Feeds the watchdog of a server that starts again in the same process, until it is ready. systemd's
    /// watchdog begins with the first message that the service is ready, so it runs through this start,
    /// though opening the database may take longer than its timeout. Returns `None` if the unit has no
    /// watchdog.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(super) fn of_new_start() -> Result<Option<Self>> {
        let Some(timeout) = sd_notify::watchdog_enabled() else {
            return Ok(None);
        };
        tell(&[NotifyState::Watchdog]);
        let (end, ended) = channel();
        let feed = move || {
            while ended.recv_timeout(timeout / 2) == Err(RecvTimeoutError::Timeout) {
                tell(&[NotifyState::Watchdog]);
            }
        };
        thread::Builder::new()
            .name("ebb-watchdog".to_owned())
            .spawn(feed)
            .context("cannot start the thread that feeds the watchdog")?;
        Ok(Some(Self { _end: end }))
    }
}

/// Returns whether systemd, or another supervisor with its protocol, started this process: [`EXEC_PID`] is
/// the id of the process, or there is a socket for notifications. A unit with `Type=simple` has no such
/// socket. Child processes inherit the variable [`EXEC_PID`], but have other ids.
pub(super) fn is_present() -> bool {
    let started = env::var(EXEC_PID).is_ok_and(|id| id == process::id().to_string());
    started || env::var_os(NOTIFY_SOCKET).is_some()
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(target: SERVER, "cannot notify systemd: {error}");
    }
}

/// Sends the server a request twice in each timeout of the watchdog, and feeds the watchdog after
/// each answer. Once `stops` is true, feeds the watchdog without an answer, too.
fn feed(cql: SocketAddr, timeout: Duration, stops: &AtomicBool) {
    let pause = timeout / 2;
    let mut last_error = None;
    loop {
        let asked = Instant::now();
        let answer = ask(cql, pause);
        match answer {
            Err(error) if !stops.load(Ordering::Relaxed) => {
                if last_error != Some(error.kind()) {
                    tracing::error!(
                        target: SERVER,
                        "the server does not answer the watchdog thread: {error}"
                    );
                    last_error = Some(error.kind());
                }
            }
            _ => {
                tell(&[NotifyState::Watchdog]);
                last_error = None;
            }
        }
        let until = asked + pause;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            thread::park_timeout(left);
        }
    }
}

/// Checks that a thread of the server accepts a connection and reads from it. Any answer counts,
/// such as the error for too many connections, or a TLS alert. So does a connection that the server
/// closes.
fn ask(cql: SocketAddr, timeout: Duration) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&cql, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let answered = (stream.write_all(&OPTIONS)).and_then(|()| stream.read_exact(&mut [0; 1]));
    match answered {
        // The server closed the connection because it has too many.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof
            ) =>
        {
            Ok(())
        }
        answered => answered,
    }
}

/// Returns an address at which this machine reaches a server that listens on `address`.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        });
    }
    address
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use ebb_test_support::wait::HANG;

    use super::*;

    #[test]
    fn a_server_that_reads_nothing_does_not_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let error = ask(address, Duration::from_millis(50)).unwrap_err();
        assert!(
            matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
            ),
            "{error}"
        );
        drop(listener);
        assert!(ask(address, Duration::from_millis(50)).is_err());
    }

    #[test]
    fn a_server_that_refuses_answers() {
        let listener = TcpListener::bind("[::]:0").unwrap();
        let address = listener.local_addr().unwrap();
        let refuse = thread::spawn(move || drop(listener.accept().unwrap()));
        ask(reachable(address), HANG).unwrap();
        refuse.join().unwrap();
    }
}
