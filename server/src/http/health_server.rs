//! Health checks at an address of their own, for supervisors and load balancers on other machines:
//! without a token, and without anything else. They are answered also while the database is being
//! opened, which may take long.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::thread;

use axum::http::HeaderValue;
use axum::http::header::CONNECTION;
use axum::middleware::map_response;
use axum::response::Response;
use ebb_threads::nice_current_thread;
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, watch};

use super::headers::harden;
use super::listener::listen_at;
use super::readiness::Readiness;
use super::routes::health_routes;
use super::server::{NICE, accept};
use crate::node::Node;

/// The most connections at once. Each of them is closed after one response.
const CONNECTIONS_MAX: usize = 16;

/// A server that answers health checks, on threads of its own, until it is dropped.
#[derive(Debug)]
pub struct HealthServer {
    address: SocketAddr,
    node: Arc<OnceLock<Weak<Node>>>,
    /// The server stops when this is dropped.
    _stop: watch::Sender<bool>,
}

impl HealthServer {
    /// Starts a server at an address; port 0 takes any free port. Until [`ready`](Self::ready) is
    /// called, health checks return that the process is alive, but not ready.
    ///
    /// # Errors
    /// When the system refuses the port or a thread.
    pub fn start(address: SocketAddr) -> io::Result<Self> {
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.enable_all().max_blocking_threads(1).build()?;
        let in_runtime = runtime.enter();
        let listener = listen_at(address)?;
        drop(in_runtime);
        let address = listener.local_addr()?;
        let node = Arc::<OnceLock<Weak<Node>>>::default();
        let of_checks = Arc::clone(&node);
        let routes = health_routes(move || readiness(&of_checks))
            .layer(map_response(close))
            .layer(map_response(harden));
        let (stop, stopped) = watch::channel(false);
        let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let serve = accept(listener, routes, connections, None, stopped);
        // The thread is not joined, because a check may wait for the database.
        let thread = thread::Builder::new().name("ebb-health".to_owned());
        thread.spawn(move || {
            // Any client that reaches the port may send checks: they must barely slow the load down.
            nice_current_thread(NICE);
            runtime.block_on(serve)
        })?;
        Ok(Self {
            address,
            node,
            _stop: stop,
        })
    }

    /// Returns the address at which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes health checks return the readiness of `node` from now on. Calls after the first one
    /// have no effect.
    pub fn ready(&self, node: &Arc<Node>) {
        self.node.get_or_init(|| Arc::downgrade(node));
    }
}

fn readiness(node: &OnceLock<Weak<Node>>) -> Readiness {
    match node.get() {
        None => Readiness::opening(),
        Some(node) => Readiness::of(node.upgrade().as_deref()),
    }
}

/// Adds the header that closes the connection after the response, so that idle clients do not use
/// up the limit on connections.
async fn close(mut response: Response) -> Response {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    response
}
