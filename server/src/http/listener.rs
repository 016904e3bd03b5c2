//! The sources of connections: the Unix socket, and the TCP port with and without TLS.

use std::io;
use std::net::{SocketAddr, TcpListener as StdTcpListener};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_rustls::server::TlsStream;

use super::access::Peer;
use super::tls::TlsSource;

/// Listens at an address. The thread must be in a runtime.
///
/// # Errors
/// When the system refuses the address; the error names it.
pub(super) fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"));
    let listener = StdTcpListener::bind(address).map_err(named)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// A source of connections.
pub(super) trait Listener: Send + Sync + 'static {
    type Accepted: Send + 'static;
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn next(&self) -> impl Future<Output = io::Result<(Self::Accepted, Peer)>> + Send;

    /// Sets up the stream for an accepted connection, for example by a TLS handshake. The loop that accepts
    /// connections does not wait for this, so a slow client does not delay others.
    fn open(
        &self,
        accepted: Self::Accepted,
    ) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Listener for UnixListener {
    type Accepted = UnixStream;
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<(UnixStream, Peer)> {
        Ok((self.accept().await?.0, Peer { address: None }))
    }

    async fn open(&self, accepted: UnixStream) -> io::Result<UnixStream> {
        Ok(accepted)
    }
}

impl Listener for TcpListener {
    type Accepted = TcpStream;
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<(TcpStream, Peer)> {
        let (stream, from) = self.accept().await?;
        let peer = Peer {
            address: Some(from.ip()),
        };
        Ok((stream, peer))
    }

    async fn open(&self, accepted: TcpStream) -> io::Result<TcpStream> {
        Ok(accepted)
    }
}

/// A listener that accepts connections with TLS.
pub(super) struct Encrypted {
    pub port: TcpListener,
    pub tls: TlsSource,
}

impl Listener for Encrypted {
    type Accepted = TcpStream;
    type Stream = TlsStream<TcpStream>;

    async fn next(&self) -> io::Result<(TcpStream, Peer)> {
        self.port.next().await
    }

    async fn open(&self, accepted: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.tls.accept(accepted).await
    }
}
