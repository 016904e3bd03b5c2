//! Connections: how many, how long, and their end.

use std::io;
use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::middleware::from_fn_with_state;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::access::{Access, check};
use super::routes::routes;
use super::socket;
use crate::metrics::Metrics;
use crate::node::Node;
use crate::tokens::{Scope, TokenFile, WatchedTokens};

/// Connections at once. A command holds one while it asks.
const CONNECTIONS_MAX: u32 = 256;
/// How long a client may take to say what it wants.
const HEADERS_MAX: Duration = Duration::from_secs(10);
/// What an accept waits when the system is out of something, such as open files.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Threads for requests that wait for the disk.
const BLOCKING_THREADS_MAX: usize = 16;

/// How a server listens beside the socket.
#[derive(Debug, Clone, Default)]
pub struct HttpOptions {
    /// Where, over TCP, for those that show a token; port 0 is any free one. `None`: nowhere.
    pub address: Option<SocketAddr>,
    /// Names by which the server may be asked, beside `localhost` and addresses.
    pub hosts: Vec<String>,
}

/// Answers at the socket of a database's directory, and at a port, on threads of its own,
/// until it is dropped.
#[derive(Debug)]
pub struct HttpServer {
    runtime: Runtime,
    address: Option<SocketAddr>,
    stop: watch::Sender<bool>,
    connections: Arc<Semaphore>,
    _file: SocketFile,
}

/// Removes the socket when it is dropped. Where that fails, the next server does.
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
    /// Listens in `data`, the directory of the node's database, and where `options` say.
    ///
    /// # Errors
    /// When the system refuses the socket, the port or a thread.
    pub fn start(
        data: &Path,
        node: Arc<Node>,
        metrics: Metrics,
        options: HttpOptions,
    ) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .thread_name("ebb-http")
            .enable_io()
            .enable_time()
            .build()?;
        let named = |error: io::Error| {
            let socket = data.join(socket::SOCKET);
            io::Error::new(error.kind(), format!("{}: {error}", socket.display()))
        };
        let listener = socket::listen_in(data).map_err(named)?;
        let file = SocketFile {
            data: data.to_path_buf(),
        };
        let (stop, stopped) = watch::channel(false);
        let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX as usize));
        let in_runtime = runtime.enter();
        let routes = routes(node, Arc::new(metrics));
        // The server's own user may do everything.
        let trusted = routes.clone().layer(Extension(Scope::Admin));
        let listener = UnixListener::from_std(listener)?;
        runtime.spawn(accept(
            listener,
            trusted,
            connections.clone(),
            stopped.clone(),
        ));
        let port = options.address.map(listen_at).transpose()?;
        let address = port.as_ref().map(TcpListener::local_addr).transpose()?;
        if let Some(port) = port {
            let access = Arc::new(Access {
                tokens: WatchedTokens::new(TokenFile::of(data)),
                hosts: options.hosts,
            });
            let checked = routes.layer(from_fn_with_state(access, check));
            runtime.spawn(accept(port, checked, connections.clone(), stopped));
        }
        drop(in_runtime);
        Ok(Self {
            runtime,
            address,
            stop,
            connections,
            _file: file,
        })
    }

    /// Where it listens over TCP.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Takes no more requests, and waits until those that run are answered, for at most
    /// `time`. Whether they were in time.
    pub fn drain(self, time: Duration) -> bool {
        // An error says that it listens no more.
        let _ = self.stop.send(true);
        let all = self.connections.acquire_many(CONNECTIONS_MAX);
        let in_time = (self.runtime).block_on(async { timeout(time, all).await.is_ok() });
        self.runtime.shutdown_background();
        in_time
    }
}

fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"));
    let listener = StdTcpListener::bind(address).map_err(named)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Where connections come from.
trait Listener: Send + 'static {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn next(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<UnixStream> {
        Ok(self.accept().await?.0)
    }
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<TcpStream> {
        Ok(self.accept().await?.0)
    }
}

async fn accept<L: Listener>(
    listener: L,
    routes: Router,
    connections: Arc<Semaphore>,
    mut stopped: watch::Receiver<bool>,
) {
    loop {
        let accepted = async {
            let permit = connections.clone().acquire_owned().await;
            (listener.next().await, permit)
        };
        let (accepted, permit) = tokio::select! {
            accepted = accepted => accepted,
            _ = stopped.wait_for(|stopped| *stopped) => return,
        };
        match accepted {
            Ok(stream) => {
                let (routes, stopped) = (routes.clone(), stopped.clone());
                tokio::spawn(async move {
                    serve(stream, routes, stopped).await;
                    drop(permit);
                });
            }
            Err(_) => sleep(ACCEPT_RETRY).await,
        }
    }
}

/// Answers the requests of a connection, until the client leaves or the server stops.
async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    routes: Router,
    mut stopped: watch::Receiver<bool>,
) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    let mut connection = pin!(connection);
    // What goes wrong with a connection is told to its client, who has left.
    tokio::select! {
        _gone = connection.as_mut() => return,
        _ = stopped.wait_for(|stopped| *stopped) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _gone = connection.await;
}
