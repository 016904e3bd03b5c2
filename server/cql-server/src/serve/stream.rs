//! The byte stream of one client: plain, or through TLS.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use super::identity::identity;
use crate::activity::Encryption;

/// The first byte of every TLS connection: the type of a handshake record. No version of the CQL
/// protocol begins with it.
pub(super) const TLS_HANDSHAKE: u8 = 0x16;

#[derive(Debug)]
pub(super) enum Stream {
    Plain(TcpStream),
    /// A TLS connection. The stream is boxed, so that plain connections do not take its memory.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Performs the TLS handshake. A handshake takes one permit of `turns` while it computes keys,
    /// which limits how many do so at once. It takes none while it waits for bytes of its client.
    ///
    /// # Errors
    /// If the client does not use TLS, or no version or certificate that the server accepts.
    pub(super) async fn encrypted(
        socket: TcpStream,
        config: Arc<ServerConfig>,
        turns: &Semaphore,
    ) -> io::Result<Self> {
        let hello = LazyConfigAcceptor::new(Acceptor::default(), socket).await?;
        let turn = turns.acquire().await.map_err(io::Error::other)?;
        let mut keys = pin!(hello.into_stream(config));
        let first = poll_fn(|context| Poll::Ready(keys.as_mut().poll(context))).await;
        drop(turn);
        let stream = match first {
            Poll::Ready(stream) => stream,
            Poll::Pending => keys.await,
        };
        Ok(Self::Tls(Box::new(stream?)))
    }

    /// Returns the first byte of a client, which stays in the socket; `None` if the client ends the
    /// connection without one.
    pub(super) async fn first_byte(socket: &TcpStream) -> io::Result<Option<u8>> {
        let mut byte = [0];
        let read = socket.peek(&mut byte).await?;
        Ok((read > 0).then_some(byte[0]))
    }

    /// Returns the number of received bytes that are still in the socket (for TLS, encrypted ones);
    /// 0 if the system does not report it.
    pub(super) fn unread_bytes(&self) -> usize {
        let socket = match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => stream.get_ref().0,
        };
        let bytes = rustix::io::ioctl_fionread(socket);
        bytes.map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// Sends the end of the TLS stream, as far as the socket accepts the bytes without waiting.
    pub(super) async fn end(mut self) {
        if let Self::Tls(stream) = &mut self {
            let mut stream = Pin::new(&mut **stream);
            let ended = poll_fn(|context| Poll::Ready(stream.as_mut().poll_shutdown(context)));
            drop(ended.await);
        }
    }

    /// Ends the stream after an error: sends nothing more, and discards the client's bytes until
    /// the client ends the stream, too, for at most `patience`. A socket that is closed with unread
    /// bytes is reset, and the client loses an error that it has not read yet.
    pub(super) async fn end_after_error(mut self, patience: Duration) {
        let ended = async {
            poll_fn(|context| Pin::new(&mut self).poll_shutdown(context)).await?;
            while poll_fn(|context| self.poll_discard(context)).await? > 0 {}
            Ok::<_, io::Error>(())
        };
        drop(timeout(patience, ended).await);
    }

    /// Reads and discards bytes of the socket, encrypted or not, and returns their number; 0 at the
    /// end.
    fn poll_discard(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let socket = match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => stream.get_mut().0,
        };
        // A local buffer, so that the task does not hold it.
        let mut discarded = [0; 16 << 10];
        let mut buffer = ReadBuf::new(&mut discarded);
        let read = Pin::new(socket).poll_read(context, &mut buffer);
        read.map_ok(|()| buffer.filled().len())
    }

    /// Returns the identity in the client's certificate, which the handshake has verified; `None`
    /// without a certificate, or if it does not have exactly one SPIFFE ID.
    pub(super) fn identity(&self) -> Option<String> {
        let Self::Tls(stream) = self else {
            return None;
        };
        let (_, connection) = stream.get_ref();
        identity(connection.peer_certificates()?.first()?)
    }

    pub(super) fn encryption(&self) -> Option<Encryption> {
        let Self::Tls(stream) = self else {
            return None;
        };
        let (_, connection) = stream.get_ref();
        let protocol = connection.protocol_version()?.as_str()?;
        let suite = connection.negotiated_cipher_suite()?.suite().as_str()?;
        Some(Encryption {
            // The usual names, for example `TLSv1.3` and `TLS_AES_256_GCM_SHA384`.
            protocol: protocol.replace('_', "."),
            cipher_suite: suite.replace("TLS13_", "TLS_"),
        })
    }
}

/// Waits for `future`, for at most `patience`. Creates a timer only if the future is not ready at
/// once, which is rare.
///
/// # Errors
/// The errors of `future`, or a timeout.
pub(super) async fn within<T>(
    patience: Duration,
    future: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let mut future = pin!(future);
    match poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => timeout(patience, future).await?,
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, into),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_read(context, into),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(context),
        }
    }
}
