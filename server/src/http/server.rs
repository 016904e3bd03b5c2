//! Connections: the limits on their number, their timeouts, and the shutdown.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::{Extension, Router};
use ebb_threads::nice_current_thread;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::access::{Access, Peer, check};
use super::addresses::{Addresses, Admission};
use super::audit::{Audit, log};
use super::bodies::check_body;
use super::deadline::{BodyDeadline, ResponseDeadline, WriteDeadline};
use super::headers::harden;
use super::idempotency::{Answers, once};
use super::listener::{Encrypted, Listener, listen_at};
use super::queries::Queries;
use super::response_memory::{ResponseMemory, bound};
use super::roots::Roots;
use super::routes::{Served, StreamPermits, routes};
use super::session::SessionCookie;
use super::slow::{SlowRequests, measure};
use super::socket;
use super::tls::TlsSource;
use super::wire::Configuration;
use super::work_limits::{BLOCKING_THREADS_MAX, WorkLimits};
use crate::audit::AuditLog;
use crate::live::Live;
use crate::memory::MemoryLimits;
use crate::metrics::Metrics;
use crate::node::Node;
use crate::tokens::{Principal, TokenFile, WatchedTokens};

/// The most connections over TCP at once.
const CONNECTIONS_MAX: u32 = 512;
/// The most connections over the Unix socket at once. They have a limit of their own, so that
/// clients of the TCP port cannot keep out commands of this machine.
const SOCKET_CONNECTIONS_MAX: u32 = 128;
/// The most bytes that a connection buffers of a request, and so the greatest length of the request's headers
/// (431 if longer). Clients without a token may send headers over all connections at once, so a higher limit would
/// let them fill the memory.
const BUFFERED_BYTES_MAX: usize = 64 << 10;
/// How long a client may take to send the headers of a request.
const HEADERS_MAX: Duration = Duration::from_secs(10);
/// The pause after an accept that failed because the system lacks a resource, such as open files.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// The niceness of the thread that serves requests. On a busy core it gets a tenth of the CPU time of a
/// thread that serves the load: clients that watch the node barely slow the load down, and are still
/// served. The threads for blocking work have the same niceness, because this thread starts them. This has a
/// cost: on busy cores, a request that changes the database holds the locks of the store for longer.
pub(super) const NICE: i32 = 10;

/// The options of a server, such as the port on which it listens in addition to the socket.
#[derive(Debug, Clone, Default)]
pub struct HttpOptions {
    /// The TCP address for requests with a token; port 0 takes any free port. `None`: the socket
    /// only.
    pub address: Option<SocketAddr>,
    /// Names of the server that `Host` headers may contain, in addition to `localhost` and IP addresses.
    pub hosts: Vec<String>,
    /// True if each token must belong to a CQL role, as where clients of CQL log in as roles. False if a token
    /// may have no role: it then permits everything in its scope.
    pub requires_roles: bool,
    /// The TLS configuration of the port; `None` for connections in the clear.
    pub tls: Option<TlsSource>,
    /// The folders below which requests over TCP may make the server write files.
    pub roots: Roots,
    /// The threshold and the observer of slow requests; `None` if no request is measured.
    pub slow: Option<SlowRequests>,
    /// The queries of CQL, if the program serves CQL.
    pub queries: Option<Arc<dyn Queries>>,
    /// The configuration of the program, which `GET /v1/config` shows.
    pub configuration: Configuration,
    /// The most connections over TCP that are open at once, and also the most over the Unix socket
    /// in the database's directory: the two kinds are counted separately. The fixed limits, 512
    /// over TCP and 128 over the Unix socket, apply where they are lower. With `None`, only the
    /// fixed limits apply.
    pub connections_max: Option<u32>,
    /// The audit log of the program; `None`: the server opens the log of the database's directory itself.
    pub audit: Option<Arc<AuditLog>>,
    /// The limits on the memory of the process, which `GET /v1/stats` shows; `None` if the process
    /// has none.
    pub memory: Option<MemoryLimits>,
}

/// A running server. It serves the socket in the database's directory, and a port if there is one, on
/// threads of its own until it is dropped.
#[derive(Debug)]
pub struct HttpServer {
    runtime: Runtime,
    address: Option<SocketAddr>,
    stop: watch::Sender<bool>,
    connections: Connections,
    live: Arc<Live>,
    _file: SocketFile,
}

/// The permits for connections over the TCP port and over the Unix socket, with the total number of
/// each.
#[derive(Debug, Clone)]
struct Connections {
    port: Arc<Semaphore>,
    port_max: u32,
    socket: Arc<Semaphore>,
    socket_max: u32,
}

impl Connections {
    fn new(bound: Option<u32>) -> Self {
        let of = |max: u32| Arc::new(Semaphore::new(max as usize));
        let max = |max: u32| bound.map_or(max, |bound| max.min(bound));
        let (port_max, socket_max) = (max(CONNECTIONS_MAX), max(SOCKET_CONNECTIONS_MAX));
        Self {
            port: of(port_max),
            port_max,
            socket: of(socket_max),
            socket_max,
        }
    }

    /// Waits until all connections have ended, which is when all permits are free.
    async fn ended(&self) {
        let ended = async |connections: &Semaphore, max| {
            // An error means that the semaphore is closed, so there are no connections.
            let _all = connections.acquire_many(max).await;
        };
        ended(&self.port, self.port_max).await;
        ended(&self.socket, self.socket_max).await;
    }
}

/// The file of the socket, which is removed when this is dropped. If that fails, the next server removes it.
#[derive(Debug)]
struct SocketFile {
    data: PathBuf,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = socket::remove(&self.data);
    }
}

impl HttpServer {
    /// Listens on the socket in `data`, the directory of the node's database, and on the address in
    /// `options`, if there is one.
    ///
    /// # Errors
    /// When the system refuses the socket, the address or a thread.
    pub fn start(
        data: &Path,
        node: Arc<Node>,
        metrics: Metrics,
        options: HttpOptions,
    ) -> io::Result<Self> {
        // One worker is enough for requests that do not wait for the disk. A runtime without workers would
        // need a thread that drives it.
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .thread_name("ebb-http")
            .enable_io()
            .enable_time()
            .build()?;
        // There is one such thread, and it does this first.
        runtime.spawn(async { nice_current_thread(NICE) });
        let named = |error: io::Error| {
            let socket = data.join(socket::SOCKET);
            io::Error::new(error.kind(), format!("{}: {error}", socket.display()))
        };
        let listener = socket::listen_in(data).map_err(named)?;
        // Made at once, so that an error below removes the socket.
        let file = SocketFile {
            data: data.to_path_buf(),
        };
        let (stop, stopped) = watch::channel(false);
        let connections = Connections::new(options.connections_max);
        let live = Arc::new(Live::start(Arc::clone(&node))?);
        // The listeners below register with the runtime that this thread is in.
        let in_runtime = runtime.enter();
        let port = options.address.map(listen_at).transpose()?;
        let address = port.as_ref().map(TcpListener::local_addr).transpose()?;
        let number = address.map(|address| address.port());
        let cookie = SessionCookie::of(number, options.tls.is_some());
        let limits = WorkLimits::default();
        let served = Served {
            node: Arc::clone(&node),
            metrics: Arc::new(metrics),
            live: Arc::clone(&live),
            roots: Arc::new(options.roots),
            queries: options.queries,
            configuration: Arc::new(options.configuration),
            memory: options.memory,
            limits: limits.clone(),
            job_views: Arc::default(),
        };
        let routes = routes(served, cookie.name());
        let routes = match options.slow {
            Some(slow) => routes.layer(from_fn_with_state(slow, measure)),
            None => routes,
        };
        let audit = match options.audit {
            Some(audit) => audit,
            None => AuditLog::start(data)?,
        };
        let audited = Audit {
            log: Arc::clone(&audit),
            limits: limits.clone(),
        };
        // Layers run from the last one to the first. So the audit log also has the changes that `once`
        // answers with a stored response, and `measure` times the work without both. `check_body` refuses
        // long bodies before `once`, which reads the whole body. `bound` counts the responses of `once`, too.
        let answers = Arc::new(Answers::open(node.db(), limits.clone()));
        let routes = routes
            .layer(from_fn_with_state(answers, once))
            .layer(from_fn_with_state(ResponseMemory::default(), bound))
            .layer(from_fn(check_body))
            .layer(from_fn_with_state(audited, log));
        // Only the server's own user can open the socket, and may do everything.
        let owner = Principal::owner();
        let trusted = (routes.clone())
            .layer(Extension(owner))
            .layer(Extension(StreamPermits::of(connections.socket_max)));
        let listener = UnixListener::from_std(listener)?;
        runtime.spawn(accept(
            listener,
            trusted,
            connections.socket.clone(),
            None,
            stopped.clone(),
        ));
        if let Some(port) = port {
            let tokens = WatchedTokens::new(TokenFile::of(data));
            let access = Access::new(
                node,
                tokens,
                options.hosts,
                options.requires_roles,
                cookie,
                audit,
                limits,
            );
            let access = Arc::new(access);
            // `harden` is the last layer, so that the refusals of `check` have its headers, too.
            let checked = routes
                .layer(Extension(Arc::clone(&access)))
                .layer(Extension(StreamPermits::of(connections.port_max)))
                .layer(from_fn_with_state(access, check))
                .layer(map_response(harden));
            let addresses = Some(Addresses::of(connections.port_max));
            let connections = connections.port.clone();
            match options.tls {
                Some(tls) => {
                    let port = Encrypted { port, tls };
                    runtime.spawn(accept(port, checked, connections, addresses, stopped))
                }
                None => runtime.spawn(accept(port, checked, connections, addresses, stopped)),
            };
        }
        drop(in_runtime);
        Ok(Self {
            runtime,
            address,
            stop,
            connections,
            live,
            _file: file,
        })
    }

    /// Returns the TCP address that the server listens on; `None` if it has the socket only.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Accepts no more connections or requests, ends the event streams, and waits for at most `time` until
    /// all running requests have their responses. Returns whether all had them in time.
    pub fn drain(self, time: Duration) -> bool {
        // An error means that the server has already stopped listening.
        let _ = self.stop.send(true);
        self.live.close();
        let ended = self.connections.ended();
        let in_time = (self.runtime).block_on(async { timeout(time, ended).await.is_ok() });
        self.runtime.shutdown_background();
        in_time
    }
}

/// Accepts connections of a listener and serves them, each in a task of its own, until `stopped` is true.
/// While `connections` has no permit left, further clients wait to be accepted. A connection that `addresses`
/// refuses is closed at once; one that it displaces is closed, too.
pub(super) async fn accept<L: Listener>(
    listener: L,
    routes: Router,
    connections: Arc<Semaphore>,
    addresses: Option<Addresses>,
    mut stopped: watch::Receiver<bool>,
) {
    let listener = Arc::new(listener);
    loop {
        let accepted = async {
            let permit = connections.clone().acquire_owned().await;
            (listener.next().await, permit)
        };
        let (accepted, permit) = tokio::select! {
            accepted = accepted => accepted,
            _ = stopped.wait_for(|stopped| *stopped) => return,
        };
        let Ok((stream, peer)) = accepted else {
            sleep(ACCEPT_RETRY).await;
            continue;
        };
        let place = match (&addresses, peer.address) {
            (Some(addresses), Some(address)) => match addresses.enter(address) {
                None => continue,
                entered => entered,
            },
            _ => None,
        };
        let (routes, stopped) = (routes.clone(), stopped.clone());
        let listener = Arc::clone(&listener);
        tokio::spawn(async move {
            let admission = place.as_ref().map(|place| place.admission().clone());
            let served = async {
                // A failed handshake has sent its alert to the client.
                if let Ok(stream) = listener.open(stream).await {
                    serve(stream, peer, admission, routes, stopped).await;
                }
            };
            match &place {
                Some(place) => tokio::select! {
                    () = served => {}
                    () = place.displaced() => {}
                },
                None => served.await,
            }
            // In this order, so that no connection that has ended counts beside the next one.
            drop(place);
            drop(permit);
        });
    }
}

/// Serves the requests of a connection until the client leaves, or does not read a long response in time.
/// When the server stops, ends the connection after the running request.
async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    admission: Option<Admission>,
    routes: Router,
    mut stopped: watch::Receiver<bool>,
) {
    let routes = TowerToHyperService::new(routes);
    let deadline = ResponseDeadline::default();
    let of_responses = deadline.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        let extensions = request.extensions_mut();
        extensions.insert(peer);
        extensions.insert(of_responses.clone());
        if let Some(admission) = &admission {
            extensions.insert(admission.clone());
        }
        routes.call(request.map(BodyDeadline::new))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_MAX)
        .max_buf_size(BUFFERED_BYTES_MAX)
        .serve_connection(TokioIo::new(WriteDeadline::new(stream)), service);
    let mut connection = pin!(connection);
    // Errors of a connection concern its client alone, which has left.
    tokio::select! {
        _gone = connection.as_mut() => return,
        () = deadline.passed() => return,
        _ = stopped.wait_for(|stopped| *stopped) => {}
    }
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        _gone = connection => {}
        () = deadline.passed() => {}
    }
}
