//! One connection of the built-in client: non-blocking requests and responses.

use std::io::{ErrorKind, Read, Write};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use bytes::BytesMut;
use ebb_cql::protocol::{BODY_BYTES_MAX_DEFAULT, Direction, Frame, FrameDecoder};

use super::records::Step;
use super::socket::Socket;
use crate::ycsb::Operation;

/// The size of the buffer for one read of a socket, in bytes.
pub(super) const READ_BYTES: usize = 64 << 10;

/// A request that waits for its response.
#[derive(Debug)]
pub(super) struct Pending {
    pub operation: Operation,
    pub step: Step,
    /// The start of the latency: the time at which the operation was due (open loop) or began
    /// (closed loop). The write of a read-modify-write has the start of its read.
    pub from: Instant,
    /// Whether the latency of the operation is recorded. It is false within the plan's lead: the
    /// time at the start of a run during which latencies do not count.
    pub counts: bool,
}

/// A connection after its handshake.
#[derive(Debug)]
pub(super) struct Connection {
    pub stream: Socket,
    decoder: FrameDecoder,
    received: BytesMut,
    /// The encoded frames of requests; the first `sent` bytes have been sent already.
    pub out: Vec<u8>,
    sent: usize,
    /// Requests under way, by stream.
    pending: Vec<Option<Pending>>,
}

impl Connection {
    /// Creates a connection over a non-blocking socket.
    pub(super) fn new(stream: Socket) -> Self {
        Self {
            stream,
            decoder: FrameDecoder::new(Direction::Response, BODY_BYTES_MAX_DEFAULT),
            received: BytesMut::new(),
            out: Vec::new(),
            sent: 0,
            pending: Vec::new(),
        }
    }

    /// Registers a request that is sent on this stream: its response is expected.
    pub(super) fn expect(&mut self, stream: u16, pending: Pending) {
        let position = usize::from(stream);
        if self.pending.len() <= position {
            self.pending.resize_with(position + 1, || None);
        }
        self.pending[position] = Some(pending);
    }

    /// Sends as much as the socket accepts. Returns true once everything is sent, false if the
    /// socket would block.
    pub(super) fn flush(&mut self) -> Result<bool> {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(0) => bail!("the server closed a connection"),
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("cannot send"),
            }
        }
        match self.stream.send_rest() {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error).context("cannot send"),
        }
        self.out.clear();
        self.sent = 0;
        Ok(true)
    }

    /// Reads once from the socket. If more has arrived, the next poll reports the socket again.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<()> {
        match self.stream.read(buffer) {
            Ok(0) => bail!("the server closed a connection"),
            Ok(read) => self.received.extend_from_slice(&buffer[..read]),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error).context("cannot receive"),
        }
        Ok(())
    }

    /// Returns the next complete response that was read, with its request; `None` if there is none
    /// yet.
    pub(super) fn next_answer(&mut self) -> Result<Option<(Frame, Pending)>> {
        let Some(frame) = self.decoder.decode(&mut self.received)? else {
            return Ok(None);
        };
        let stream = usize::try_from(frame.stream).unwrap_or(usize::MAX);
        let pending = self.pending.get_mut(stream).and_then(Option::take);
        let pending = pending.context("the server answered a stream without a request")?;
        Ok(Some((frame, pending)))
    }
}
