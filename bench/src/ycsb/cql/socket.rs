//! The socket of one connection, plain or with TLS.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use anyhow::{Result, bail};
use bytes::BytesMut;
use ebb_cql::protocol::{Answer, Compression, Direction, FrameDecoder, Request, Response, Startup};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

/// The largest response to STARTUP or to a login that is accepted, in bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// The credentials of a client.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    /// The name of a role.
    pub name: String,
    pub password: String,
    /// The configuration of TLS for the connections of the runs. `None` for plain connections.
    pub tls: Option<Arc<ClientConfig>>,
}

/// A TCP connection, with or without TLS.
#[derive(Debug)]
pub(super) enum Socket {
    Plain(TcpStream),
    Encrypted(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Socket {
    /// Starts TLS on a connection, sends STARTUP and logs in. The socket is then non-blocking.
    ///
    /// # Errors
    /// When the handshake fails, or the server refuses the login or does not require one.
    pub(super) fn encrypted(
        stream: TcpStream,
        config: &Arc<ClientConfig>,
        account: &Account,
    ) -> Result<Self> {
        stream.set_nodelay(true)?;
        let name = ServerName::from(stream.peer_addr()?.ip());
        let connection = ClientConnection::new(Arc::clone(config), name)?;
        let mut socket = Self::Encrypted(Box::new(StreamOwned::new(connection, stream)));
        let options = vec![("CQL_VERSION", "3.0.0")];
        let started = socket.exchange(&Request::Startup(Startup { options }))?;
        if !matches!(started, Response::Authenticate { .. }) {
            bail!("the server requires no login: {started:?}");
        }
        let token = format!("\0{}\0{}", account.name, account.password);
        let token = Some(token.as_bytes());
        let answer = socket.exchange(&Request::AuthResponse { token })?;
        if !matches!(answer, Response::AuthSuccess { .. }) {
            bail!("the server refuses the login: {answer:?}");
        }
        socket.tcp().set_nonblocking(true)?;
        Ok(socket)
    }

    /// Returns the TCP socket, for polling.
    pub(super) fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Encrypted(stream) => stream.get_ref(),
        }
    }

    /// Sends the encrypted bytes that TLS has buffered. Does nothing on a connection without TLS.
    ///
    /// # Errors
    /// The errors of a write to the socket; `WouldBlock` if bytes are left.
    pub(super) fn send_rest(&mut self) -> io::Result<()> {
        if let Self::Encrypted(stream) = self {
            let (connection, tcp) = (&mut stream.conn, &mut stream.sock);
            while connection.wants_write() {
                connection.write_tls(tcp)?;
            }
        }
        Ok(())
    }

    /// Sends a request, and waits for the response. The socket has to be blocking.
    fn exchange(&mut self, request: &Request<'_>) -> Result<Response> {
        let mut out = BytesMut::new();
        request.encode(&mut out, 0, Compression::None);
        self.write_all(&out)?;
        self.send_rest()?;
        let decoder = FrameDecoder::new(Direction::Response, ANSWER_BYTES_MAX);
        let (mut received, mut buffer) = (BytesMut::new(), [0; 4096]);
        loop {
            if let Some(frame) = decoder.decode(&mut received)? {
                return Ok(Answer::decode(&frame)?.response);
            }
            match self.read(&mut buffer)? {
                0 => bail!("the server closed a connection"),
                read => received.extend_from_slice(&buffer[..read]),
            }
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Encrypted(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Encrypted(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send_rest()
    }
}
