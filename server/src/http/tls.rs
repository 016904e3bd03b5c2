//! TLS of the port. The configuration is that of the CQL port, whose files are read again when they
//! change.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a handshake may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// A source of TLS configurations, which returns the current one for each connection.
#[derive(Clone)]
pub struct TlsSource(Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>);

impl TlsSource {
    /// Creates a source that calls `now` for each connection.
    pub fn new(now: impl Fn() -> Arc<ServerConfig> + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Does the server's part of the TLS handshake.
    ///
    /// # Errors
    /// When the client does not speak TLS, takes too long, or lacks a certificate that is required.
    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let handshake = TlsAcceptor::from((self.0)()).accept(stream);
        timeout(HANDSHAKE_MAX, handshake).await?
    }
}

impl fmt::Debug for TlsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsSource")
    }
}
