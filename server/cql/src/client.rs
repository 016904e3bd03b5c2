//! A small blocking client of the native protocol, for tests, and for load generators that must
//! cost less than the measured server.
//!
//! Frames are encoded in advance and sent unchanged, except for the stream ([`set_stream`]).
//! Several requests may be in flight: the stream pairs a response with its request.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};

use bytes::BytesMut;

use crate::protocol::{
    Answer, BODY_BYTES_MAX_DEFAULT, Compression, Direction, ErrorResponse, Frame, FrameDecoder,
    FrameError, ProtocolError, Request, Response, Startup,
};

/// The maximal number of bytes per read of the socket.
const READ_BYTES: usize = 64 << 10;

/// The reason why the client has no connection, or no valid response.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The connection failed, or the server closed it.
    #[error("the connection to the server failed: {0}")]
    Io(#[from] io::Error),
    /// The server sent bytes that are not a frame.
    #[error("the server sent an invalid frame: {0}")]
    Frame(#[from] FrameError),
    /// The server sent a frame whose body is not a valid response.
    #[error("the server sent an invalid message: {0}")]
    Protocol(#[from] ProtocolError),
    /// The server returned an error.
    #[error("the server returned an error: {0}")]
    Refused(#[from] ErrorResponse),
    /// The server returned a response that does not match the request.
    #[error("the server sent a response that does not match the request: {0:?}")]
    Unexpected(Box<Response>),
}

/// A client with one connection to a server, on which STARTUP is complete.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    decoder: FrameDecoder,
    compression: Compression,
    received: BytesMut,
    // Frames of other streams that arrived while a request was waiting for its response.
    waiting: VecDeque<Frame>,
}

/// Writes the id of a stream into the header of an encoded frame.
///
/// # Panics
/// If the frame is shorter than a header.
pub fn set_stream(frame: &mut [u8], stream: i16) {
    frame[2..4].copy_from_slice(&stream.to_be_bytes());
}

impl Client {
    /// Connects and sends STARTUP, without authentication.
    ///
    /// # Errors
    /// If the server cannot be reached, or responds with anything but READY.
    pub fn connect(
        address: impl ToSocketAddrs,
        compression: Compression,
    ) -> Result<Self, ClientError> {
        Self::connect_as(address, compression, None)
    }

    /// Connects like [`connect`](Self::connect), and sends the name and the password of
    /// `credentials` if the server requires authentication.
    ///
    /// # Errors
    /// If the server cannot be reached, rejects the client, or requires authentication and
    /// `credentials` is `None`.
    pub fn connect_as(
        address: impl ToSocketAddrs,
        compression: Compression,
        credentials: Option<(&str, &str)>,
    ) -> Result<Self, ClientError> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut decoder = FrameDecoder::new(Direction::Response, BODY_BYTES_MAX_DEFAULT);
        // The response to STARTUP may already be compressed.
        decoder.set_compression(compression);
        let mut client = Self {
            stream,
            decoder,
            compression: Compression::None,
            received: BytesMut::new(),
            waiting: VecDeque::new(),
        };
        let mut options = vec![("CQL_VERSION", "3.0.0")];
        if compression == Compression::Lz4 {
            options.push(("COMPRESSION", "lz4"));
        }
        match client.request(&Request::Startup(Startup { options }))? {
            Response::Ready => client.compression = compression,
            authenticate @ Response::Authenticate { .. } => {
                client.compression = compression;
                let Some((name, password)) = credentials else {
                    return Err(ClientError::Unexpected(Box::new(authenticate)));
                };
                let token = format!("\0{name}\0{password}");
                let token = Some(token.as_bytes());
                match client.request(&Request::AuthResponse { token })? {
                    Response::AuthSuccess { .. } => {}
                    other => return Err(ClientError::Unexpected(Box::new(other))),
                }
            }
            other => return Err(ClientError::Unexpected(Box::new(other))),
        }
        Ok(client)
    }

    /// Returns the socket, to set timeouts and for polling.
    pub fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// Returns the socket and drops the client, for a caller that reads and writes frames itself. No
    /// request may be in flight: bytes of responses that the client has already read are lost.
    pub fn into_socket(self) -> TcpStream {
        self.stream
    }

    /// Sends encoded frames, one or many.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn send(&mut self, frames: &[u8]) -> io::Result<()> {
        self.stream.write_all(frames)
    }

    /// Returns the next frame of any stream. Frames that [`request`](Self::request) kept come
    /// first.
    ///
    /// # Errors
    /// If the connection fails or ends, or the bytes are not a frame.
    pub fn receive(&mut self) -> Result<Frame, ClientError> {
        if let Some(frame) = self.waiting.pop_front() {
            return Ok(frame);
        }
        self.receive_new(&mut || ())
    }

    fn receive_new(&mut self, after_read: &mut dyn FnMut()) -> Result<Frame, ClientError> {
        loop {
            if let Some(frame) = self.decoder.decode(&mut self.received)? {
                return Ok(frame);
            }
            let start = self.received.len();
            self.received.resize(start + READ_BYTES, 0);
            let read = self.stream.read(&mut self.received[start..]);
            let read_bytes = *read.as_ref().unwrap_or(&0);
            self.received.truncate(start + read_bytes);
            match read {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(_) => after_read(),
                // A read with a time-out returns this error if the process is stopped and
                // continued.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends one request in stream 0 and waits for its response. Frames of other streams that
    /// arrive before it are kept for [`receive`](Self::receive).
    ///
    /// # Errors
    /// The errors of [`receive`](Self::receive), an invalid body, and every ERROR of the server.
    pub fn request(&mut self, request: &Request<'_>) -> Result<Response, ClientError> {
        self.request_with(request, &mut || ())
    }

    /// Sends a request like [`request`](Self::request). Calls `after_read` after each read of the
    /// socket, which returns at most 64 KiB, so that the thread can yield its core regularly.
    ///
    /// # Errors
    /// The errors of `request`.
    pub fn request_with(
        &mut self,
        request: &Request<'_>,
        after_read: &mut dyn FnMut(),
    ) -> Result<Response, ClientError> {
        let mut out = BytesMut::new();
        request.encode(&mut out, 0, self.compression);
        self.send(&out)?;
        loop {
            let frame = self.receive_new(after_read)?;
            if frame.stream != 0 {
                self.waiting.push_back(frame);
                continue;
            }
            return match Answer::decode(&frame)?.response {
                Response::Error(error) => Err(error.into()),
                response => Ok(response),
            };
        }
    }
}
