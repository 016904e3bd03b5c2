//! One thread of hostile clients: its connections, some of which it keeps open.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use ebb_cql::protocol::{Compression, Request, Startup};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustls::ClientConfig;

/// The time for which a client waits for a response, or until it can send, before its attack ends.
const PATIENCE: Duration = Duration::from_millis(200);
/// The most connections that a thread keeps open.
const HELD_MAX: usize = 100;

/// The server under attack, and the credentials of the attackers.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) address: SocketAddr,
    /// The name of a role with permission to read and write all tables.
    pub(super) name: String,
    pub(super) password: String,
    pub(super) tls: Arc<ClientConfig>,
}

/// One thread of hostile clients.
#[derive(Debug)]
pub(super) struct Attacker<'t> {
    pub(super) target: &'t Target,
    pub(super) rng: ChaCha8Rng,
    /// The source address of the attacks. The well-behaved client has another one.
    from: Ipv4Addr,
    /// Connections that are kept open, the oldest first.
    held: VecDeque<TcpStream>,
}

impl<'t> Attacker<'t> {
    pub(super) fn new(target: &'t Target, seed: u64, number: u8) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(number.into());
        Self {
            target,
            rng,
            from: Ipv4Addr::new(127, 0, 1, number.saturating_add(1)),
            held: VecDeque::new(),
        }
    }

    /// Opens a connection, and sends nothing.
    pub(super) fn connect(&self) -> io::Result<TcpStream> {
        let own = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        bind(&own, &SocketAddr::from((self.from, 0)))?;
        connect(&own, &self.target.address)?;
        let stream = TcpStream::from(own);
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    /// Opens a connection, sends STARTUP and reads the response.
    pub(super) fn started(&self, compression: Option<&str>) -> io::Result<TcpStream> {
        let mut stream = self.connect()?;
        let mut options = vec![("CQL_VERSION", "3.0.0")];
        options.extend(compression.map(|name| ("COMPRESSION", name)));
        stream.write_all(&encoded(&Request::Startup(Startup { options })))?;
        answer(&mut stream)?;
        Ok(stream)
    }

    /// Opens a connection and logs in.
    pub(super) fn logged_in(&self, compression: Option<&str>) -> io::Result<TcpStream> {
        let mut stream = self.started(compression)?;
        let token = format!("\0{}\0{}", self.target.name, self.target.password);
        stream.write_all(&encoded(&Request::AuthResponse {
            token: Some(token.as_bytes()),
        }))?;
        answer(&mut stream)?;
        Ok(stream)
    }

    /// Keeps a connection open. Closes the oldest one if there are more than [`HELD_MAX`].
    pub(super) fn hold(&mut self, stream: TcpStream) {
        self.held.push_back(stream);
        if self.held.len() > HELD_MAX {
            self.held.pop_front();
        }
    }

    /// Takes the connection that has been kept open for the longest time.
    pub(super) fn oldest(&mut self) -> Option<TcpStream> {
        self.held.pop_front()
    }

    pub(super) fn bytes(&mut self, most: usize) -> Vec<u8> {
        let length = self.rng.random_range(1..=most);
        (0..length).map(|_| self.rng.random()).collect()
    }
}

/// Encodes a request as a frame of stream 0.
pub(super) fn encoded(request: &Request<'_>) -> BytesMut {
    let mut out = BytesMut::new();
    request.encode(&mut out, 0, Compression::None);
    out
}

/// Reads one frame and discards it.
pub(super) fn answer(stream: &mut TcpStream) -> io::Result<()> {
    let mut head = [0; 9];
    stream.read_exact(&mut head)?;
    let length = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    io::copy(&mut stream.take(length.into()), &mut io::sink())?;
    Ok(())
}
