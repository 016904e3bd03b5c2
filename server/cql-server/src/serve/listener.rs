//! The server: accepts connections, and drains them when it stops.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use ebb_colocate::Latencies;
use ebb_cql::protocol::{Compression, ErrorResponse, Head, Response};
use rustix::net::sockopt;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{Semaphore, broadcast, watch};
use tokio::time::{sleep, timeout_at};

use super::addresses::Addresses;
use super::commit::CommitLane;
use super::connection::Connection;
use super::counts::Counters;
use super::failed_logins::FailedLogins;
use super::lanes::Lanes;
use super::options::ServeOptions;
use super::overload::{Overload, probe};
use super::requests::Requests;
use super::shared::Shared;
use super::statements::Statements;
use super::stream::{Stream, TLS_HANDSHAKE};
use super::tls::Tls;
use super::turns::Turns;
use crate::call::Service;
use crate::queries::Queries;

/// The number of schema events by which a connection may lag behind before it misses some.
const EVENTS_KEPT: usize = 256;
/// The time between an accept that failed, for example because too many files are open, and the
/// next one.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// The time after which the kernel probes a silent client. Load balancers and NAT gateways forget a
/// silent connection after some minutes.
const PROBE_AFTER: Duration = Duration::from_secs(60);
/// The time between two keepalive probes of a silent client.
const PROBE_EVERY: Duration = Duration::from_secs(10);
/// The number of keepalive probes without an answer after which the connection ends.
const PROBES_MAX: u32 = 6;
/// The most time that the threads that serve connections get to end after the server was drained.
/// They get a third of the `patience` of [`CqlServer::drain`] if that is less.
const THREADS_END_MAX: Duration = Duration::from_secs(1);

/// A server on a socket, with threads of its own. Dropping this stops the server.
#[derive(Debug)]
pub struct CqlServer {
    address: SocketAddr,
    runtime: Runtime,
    stop: watch::Sender<bool>,
    /// The receiver of a channel without messages. The task that accepts connections and each open
    /// connection have a sender, so the channel is closed once all of them have ended.
    open: Receiver<Infallible>,
    counters: Counters,
    queries: Arc<Queries>,
}

impl CqlServer {
    /// Starts a server. The latencies of writes, and of requests that run on the thread of their
    /// connection, are recorded in `latencies`: from the last byte received to the last byte sent.
    ///
    /// # Errors
    /// If the system cannot bind the address or start a thread.
    pub fn start<S: Service>(
        service: Arc<S>,
        latencies: Option<Latencies>,
        options: ServeOptions,
    ) -> io::Result<Self> {
        // While one thread waits in a write, another serves.
        let threads = options.threads.max(2);
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("cql")
            .enable_io()
            .enable_time()
            .build()?;
        let listener = runtime.block_on(TcpListener::bind(options.address))?;
        let address = listener.local_addr()?;
        let (stop, _) = watch::channel(false);
        let (events, _) = broadcast::channel(EVENTS_KEPT);
        // A semaphore cannot have more permits. With 0, no client could connect.
        let connections_max = options.connections_max.clamp(1, Semaphore::MAX_PERMITS);
        let connections = Arc::new(Semaphore::new(connections_max));
        let overload = Overload::new(options.overload_wait).telling(options.events.clone());
        let overload = Arc::new(overload);
        let shared = Arc::new(Shared {
            commits: CommitLane::start(&service, &overload, runtime.handle())?,
            service,
            turns: Turns::new(),
            overload,
            failed_logins: Arc::new(FailedLogins::new(
                options.login_failures_max,
                options.logins_max,
            )),
            connections_refused: Arc::default(),
            traffic: Arc::default(),
            // The other half of the threads goes on serving while keys are computed.
            handshakes: Semaphore::new(threads / 2),
            statements: Statements::new(options.statement_bytes_max),
            lanes: Lanes::new(&options)?,
            requests: Requests::new(options.request_bytes_max, options.body_bytes_max),
            events,
            stop: stop.clone(),
            latencies,
            stages: options.stage_latencies.then(Arc::default),
            options,
        });
        // A clone of the channel only: the callback must not keep the service alive.
        let events = shared.events.clone();
        shared.service.on_change(Box::new(move |change| {
            // An error means that no client has registered for events.
            drop(events.send(change));
        }));
        shared.overload.start_ticking()?;
        runtime.spawn(probe(shared.overload.clone(), stop.subscribe()));
        let counters = Counters {
            connections: connections.clone(),
            connections_max,
            connections_refused: shared.connections_refused.clone(),
            overload: shared.overload.clone(),
            failed_logins: shared.failed_logins.clone(),
            traffic: shared.traffic.clone(),
            stages: shared.stages.clone(),
        };
        let queries = shared.options.activity.queries.clone();
        // Last, when the server is complete. Clients that connected since the bind have waited in the
        // socket's backlog.
        let (sender, open) = channel(1);
        runtime.spawn(accept(listener, shared, connections, sender));
        Ok(Self {
            address,
            runtime,
            stop,
            open,
            counters,
            queries,
        })
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the counters of the server. They stay readable after the server has stopped.
    pub fn counters(&self) -> Counters {
        self.counters.clone()
    }

    /// Returns the queries that wait for, or run on, other threads than that of their connection
    /// (in a lane). Writes that wait for the disk are not listed.
    pub fn queries(&self) -> Arc<Queries> {
        self.queries.clone()
    }

    /// Stops accepting connections and requests, and waits for at most `patience` until all clients
    /// have their responses. Then cancels requests, and drops results that their clients have not
    /// read. Returns false if any request was cancelled or any result dropped.
    ///
    /// Reads that run on other threads than that of their connection, and received requests that
    /// have not begun, get at once the error that the server is stopping. Writes that have begun
    /// get their results.
    ///
    /// Returns after at most four thirds of `patience`. If threads that serve connections are
    /// stuck, it does not wait for them any longer. A change of the schema or a large request that
    /// was begun and not answered goes on, and keeps the database open.
    pub fn drain(self, patience: Duration) -> bool {
        self.stop.send_replace(true);
        // Not by acquiring all permits for connections: permits that are acquired count as open
        // connections in the metrics.
        let mut open = self.open;
        let (sender, closed) = mpsc::channel();
        self.runtime.spawn(async move {
            open.recv().await;
            // The receiver is gone once patience is over.
            let _ = sender.send(());
        });
        let closed = closed.recv_timeout(patience).is_ok();
        // Ends the connections, and so cancels their running requests.
        let threads_end = THREADS_END_MAX.min(patience / 3);
        self.runtime.shutdown_timeout(threads_end);
        closed
    }
}

/// Accepts connections until the server stops. Each connection gets a clone of `open`, which it
/// drops last.
async fn accept<S: Service>(
    listener: TcpListener,
    shared: Arc<Shared<S>>,
    connections: Arc<Semaphore>,
    open: Sender<Infallible>,
) {
    let mut stop = shared.stop.subscribe();
    let addresses = Addresses::new(shared.options.connections_per_address_max);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stops| *stops) => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                // A connection above the limit is closed at once, and its driver tries another
                // node.
                let permit = connections.clone().try_acquire_owned();
                let place = addresses.enter(peer.ip());
                if permit.is_err() || place.is_none() {
                    (shared.connections_refused).fetch_add(1, Ordering::Relaxed);
                }
                if let (Ok(permit), Some(place)) = (permit, place) {
                    let (shared, open) = (shared.clone(), open.clone());
                    tokio::spawn(async move {
                        serve(stream, peer, shared).await;
                        drop((permit, place, open));
                    });
                }
            }
            // The client was gone before the accept, or there are too many open files. The next
            // accept may succeed.
            Err(_) => tokio::select! {
                () = sleep(ACCEPT_RETRY) => {}
                _ = stop.wait_for(|stops| *stops) => return,
            },
        }
    }
}

async fn serve<S: Service>(socket: TcpStream, peer: SocketAddr, shared: Arc<Shared<S>>) {
    // Responses are written as a whole, so a delay would gain nothing.
    if socket.set_nodelay(true).is_err() || probe_when_silent(&socket).is_err() {
        return;
    }
    let start_by = Instant::now() + shared.options.startup_timeout;
    let stream = match &shared.options.tls {
        None => Stream::Plain(socket),
        Some(tls) => {
            // Boxed, so that the memory is freed after the handshake.
            let handshake = Box::pin(shake_hands(socket, tls, &shared.handshakes));
            let mut stop = shared.stop.subscribe();
            let ended = tokio::select! {
                ended = timeout_at(start_by.into(), handshake) => ended,
                _ = stop.wait_for(|stops| *stops) => return,
            };
            // On failure the client has got a TLS alert, as far as the handshake came.
            let Ok(Ok(stream)) = ended else {
                return;
            };
            stream
        }
    };
    let connection = Box::new(Connection::new(stream, peer, start_by, shared));
    connection.run().await;
}

/// Lets the kernel probe a client that is silent, and end the connection if nothing answers. A
/// client that lost its power or its network cannot end its connection, which would count towards
/// the limits on connections for ever.
fn probe_when_silent(socket: &TcpStream) -> io::Result<()> {
    sockopt::set_tcp_keepidle(socket, PROBE_AFTER)?;
    sockopt::set_tcp_keepintvl(socket, PROBE_EVERY)?;
    sockopt::set_tcp_keepcnt(socket, PROBES_MAX)?;
    sockopt::set_socket_keepalive(socket, true)?;
    Ok(())
}

/// Makes the stream of a connection: with TLS if the client's first byte begins a TLS handshake,
/// otherwise plain. Rejects a plain connection if the server requires TLS. `turns` limits how many
/// handshakes compute keys at once.
async fn shake_hands(mut socket: TcpStream, tls: &Tls, turns: &Semaphore) -> io::Result<Stream> {
    let Some(first) = Stream::first_byte(&socket).await? else {
        return Err(io::ErrorKind::UnexpectedEof.into());
    };
    if first == TLS_HANDSHAKE {
        return Stream::encrypted(socket, tls.config(), turns).await;
    }
    if tls.is_optional() {
        return Ok(Stream::Plain(socket));
    }
    let refusal = ErrorResponse::protocol("this port speaks TLS only");
    let mut frame = BytesMut::new();
    Response::Error(refusal).encode(&mut frame, 0, &Head::default(), Compression::None);
    socket.write_all(&frame).await?;
    Err(io::ErrorKind::InvalidData.into())
}
