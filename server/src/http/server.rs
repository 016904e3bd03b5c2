//! Connections: how many, how long, and their end.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::routes::routes;
use super::socket;
use crate::node::Node;

/// Connections at once. A command holds one while it asks.
const CONNECTIONS_MAX: u32 = 256;
/// How long a client may take to say what it wants.
const HEADERS_MAX: Duration = Duration::from_secs(10);
/// What an accept waits when the system is out of something, such as open files.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Threads for requests that wait for the disk.
const BLOCKING_THREADS_MAX: usize = 16;

/// Answers at the socket of a database's directory, on threads of its own, until it is
/// dropped.
#[derive(Debug)]
pub struct JobsServer {
    runtime: Runtime,
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

impl JobsServer {
    /// Listens in `data`, the directory of the node's database.
    ///
    /// # Errors
    /// When the system refuses the socket or a thread.
    pub fn start(data: &Path, node: Arc<Node>) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .thread_name("ebb-http")
            .enable_io()
            .enable_time()
            .build()?;
        let listener = socket::listen_in(data)?;
        let file = SocketFile {
            data: data.to_path_buf(),
        };
        let (stop, stopped) = watch::channel(false);
        let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX as usize));
        let in_runtime = runtime.enter();
        let listener = UnixListener::from_std(listener)?;
        runtime.spawn(accept(listener, routes(node), connections.clone(), stopped));
        drop(in_runtime);
        Ok(Self {
            runtime,
            stop,
            connections,
            _file: file,
        })
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

async fn accept(
    listener: UnixListener,
    routes: Router,
    connections: Arc<Semaphore>,
    mut stopped: watch::Receiver<bool>,
) {
    loop {
        let accepted = async {
            let permit = connections.clone().acquire_owned().await;
            (listener.accept().await, permit)
        };
        let (accepted, permit) = tokio::select! {
            accepted = accepted => accepted,
            _ = stopped.wait_for(|stopped| *stopped) => return,
        };
        match accepted {
            Ok((stream, _)) => {
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
async fn serve(stream: UnixStream, routes: Router, mut stopped: watch::Receiver<bool>) {
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
