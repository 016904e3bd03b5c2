//! The outgoing bytes of a connection.

use std::io;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use ebb_cql::protocol::{PAYLOAD_BYTES_MAX, SEGMENT_BYTES_MORE_MAX, Sealer, Segments};
use tokio::io::AsyncWriteExt;

use super::response_memory::{InlineMemory, Waiting};
use super::stream::{Stream, within};
use crate::error::Result;

/// Once this many bytes are unsent, a connection sends responses before it serves more requests.
const FULL_BYTES: usize = 256 << 10;
/// The most bytes that are sent at once. Before the rest is sent, other connections are served on
/// this thread: sending a large page takes the kernel some hundred microseconds, and compressing a
/// segment takes as long.
const PIECE_BYTES: usize = 64 << 10;

/// The time after which a connection is closed if its client reads nothing while the memory for
/// results is used up.
const PATIENCE_SHORT: Duration = Duration::from_secs(5);

/// The unsent bytes for one client: whole frames.
#[derive(Default)]
pub(super) struct Outbox {
    frames: BytesMut,
    /// The encoder of segments, the units that carry frames from version 5 of the protocol on;
    /// `None` for bare frames.
    segments: Option<Segments>,
    /// The memory of the results in the buffer, which is freed when they are sent.
    unsent: Vec<Waiting<()>>,
}

impl Outbox {
    pub(super) fn frames(&mut self) -> &mut BytesMut {
        &mut self.frames
    }

    /// Sets whether frames that are appended later are packed into segments, the checksummed units
    /// of version 5 of the protocol; `None` for bare frames. There must be no unsent frame.
    pub(super) fn set_segments(&mut self, segments: Option<Segments>) {
        self.segments = segments;
    }

    /// Returns whether the frames should be sent before more are appended.
    pub(super) fn is_full(&self) -> bool {
        self.frames.len() >= FULL_BYTES
    }

    /// Reserves memory for the last response in the buffer, which begins at `start`, until that
    /// response is sent.
    ///
    /// # Errors
    /// OVERLOADED, if there is too little memory at the moment. The response stays in the buffer.
    pub(super) fn hold(&mut self, start: usize, memory: InlineMemory<'_>) -> Result<()> {
        if let Some(memory) = memory.finish(self.frames.len() - start)? {
            self.unsent.push(Waiting {
                value: (),
                _memory: Some(memory),
            });
        }
        Ok(())
    }

    /// Removes all bytes from `start` on. If they were many, frees their memory, because the bytes
    /// before them may wait long for the client.
    pub(super) fn truncate(&mut self, start: usize) {
        self.frames.truncate(start);
        if self.frames.capacity() - self.frames.len() > FULL_BYTES {
            self.frames = BytesMut::from(&self.frames[..]);
        }
    }

    /// Appends the response to a request that ran on another thread than that of the connection.
    /// The memory of the response stays reserved until the response is sent.
    pub(super) fn push(&mut self, Waiting { value, _memory }: Waiting<BytesMut>) {
        if self.frames.is_empty() {
            self.frames = value;
        } else {
            self.frames.extend_from_slice(&value);
        }
        self.unsent.push(Waiting { value: (), _memory });
    }

    /// Sends all frames. Fails if the client reads nothing for `patience`. Also fails if the client
    /// reads nothing for five seconds and `is_short` then returns true, which means that the memory
    /// for results is used up.
    ///
    /// # Errors
    /// If the connection broke, or the client did not read.
    pub(super) async fn flush(
        &mut self,
        stream: &mut Stream,
        patience: Duration,
        is_short: impl Fn() -> bool,
    ) -> io::Result<()> {
        if self.frames.is_empty() {
            return Ok(());
        }
        // A segment is sealed after the one before has been sent.
        let mut sealer = self.segments.map(Sealer::new);
        let mut sealed = BytesMut::new();
        loop {
            let unsent = match &mut sealer {
                None => &mut self.frames,
                Some(sealer) => {
                    if sealed.is_empty() {
                        let bytes = self.frames.len().min(PAYLOAD_BYTES_MAX);
                        sealed.reserve(bytes + SEGMENT_BYTES_MORE_MAX);
                        let taken = sealer.seal_next(&self.frames, &mut sealed);
                        self.frames.advance(taken);
                    }
                    &mut sealed
                }
            };
            let piece = &unsent[..unsent.len().min(PIECE_BYTES)];
            let patience = (patience, PATIENCE_SHORT);
            match write_some(stream, piece, patience, &is_short).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                sent => unsent.advance(sent),
            }
            if self.frames.is_empty() && sealed.is_empty() {
                break;
            }
            tokio::task::yield_now().await;
        }
        // Encrypted bytes may still wait for the socket.
        within(patience, stream.flush()).await?;
        // A kept buffer would be memory for each idle connection.
        self.frames = BytesMut::new();
        self.unsent.clear();
        Ok(())
    }
}

/// Writes at least one byte of `piece`, and returns how many. Fails if the client reads nothing for
/// longer than `patience`, or than `short` while memory is short.
async fn write_some(
    stream: &mut Stream,
    piece: &[u8],
    (patience, short): (Duration, Duration),
    is_short: &impl Fn() -> bool,
) -> io::Result<usize> {
    let mut left = patience;
    loop {
        let step = left.min(short);
        match within(step, stream.write(piece)).await {
            Err(error) if error.kind() == io::ErrorKind::TimedOut && !is_short() => {
                left -= step;
                if left.is_zero() {
                    return Err(error);
                }
            }
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::Read;
    use std::net;
    use std::thread;

    use ebb_cql::protocol::Compression;
    use ebb_test_support::wait::HANG;
    use tokio::net::TcpListener;

    use super::*;
    use crate::serve::ServeOptions;
    use crate::serve::lanes::Lanes;
    use crate::serve::replies::no_memory;
    use crate::serve::response_memory::SMALL_BYTES;

    async fn connected() -> (Stream, net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().await.unwrap();
        (Stream::Plain(server), client)
    }

    fn waiting(bytes: &[u8]) -> Waiting<BytesMut> {
        Waiting::small(bytes.into())
    }

    /// Returns bytes without repetitions, more than the sockets can buffer.
    fn pages() -> Vec<u8> {
        (0..4u32 << 20).flat_map(u32::to_be_bytes).collect()
    }

    #[tokio::test]
    async fn all_arrives_in_order() {
        let (mut stream, mut client) = connected().await;
        let mut outbox = Outbox::default();
        let pages = pages();
        outbox.frames().extend_from_slice(b"first");
        outbox.push(waiting(&pages));
        assert!(outbox.is_full());
        let mut received = vec![0; 5 + pages.len()];
        let reader = thread::spawn(move || client.read_exact(&mut received).map(|()| received));
        outbox.flush(&mut stream, HANG, || false).await.unwrap();
        let received = reader.join().unwrap().unwrap();
        assert!(received == [b"first".as_slice(), &pages].concat());
        assert!(!outbox.is_full() && outbox.unsent.is_empty());
    }

    /// A result may have any length. Encoding all its segments at once would take long, and need
    /// memory for a second copy.
    #[tokio::test]
    async fn segments_are_sealed_just_before_they_are_sent() {
        let (mut stream, _client) = connected().await;
        let mut outbox = Outbox::default();
        outbox.set_segments(Some(Segments::new(Compression::None)));
        let pages = pages();
        let mut frame = vec![0x85, 0, 0, 1, 8];
        frame.extend_from_slice(&(pages.len() as u32).to_be_bytes());
        frame.extend_from_slice(&pages);
        outbox.push(waiting(&frame));
        let patience = Duration::from_millis(50);
        let sent = outbox.flush(&mut stream, patience, || false).await;
        assert_eq!(sent.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(!outbox.frames.is_empty() && frame.ends_with(&outbox.frames));
    }

    #[test]
    fn a_large_response_takes_memory_and_frees_its_buffer_if_there_is_none() {
        let lanes = Lanes::new(&ServeOptions {
            idle_class: false,
            lane_result_bytes_max: 8 << 20,
            ..ServeOptions::default()
        });
        let lanes = lanes.unwrap();
        let mut outbox = Outbox::default();
        outbox.frames().extend_from_slice(b"first");
        outbox.frames().resize(5 + SMALL_BYTES - 1, 0);
        assert_eq!(outbox.hold(5, lanes.inline_memory(true)), Ok(()));
        assert!(outbox.unsent.is_empty());
        outbox.truncate(5);
        outbox.frames().resize(5 + (9 << 20), 0);
        let refused = outbox.hold(5, lanes.inline_memory(true));
        assert_eq!(refused, Err(no_memory(9 << 20)));
        assert!(outbox.unsent.is_empty());
        outbox.truncate(5);
        assert_eq!(outbox.frames[..], b"first"[..]);
        assert!(outbox.frames.capacity() <= 5 + FULL_BYTES);
        outbox.frames().resize(5 + SMALL_BYTES, 0);
        assert_eq!(outbox.hold(5, lanes.inline_memory(true)), Ok(()));
        assert_eq!(outbox.unsent.len(), 1);
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_is_disconnected() {
        let (mut stream, _client) = connected().await;
        let mut outbox = Outbox::default();
        outbox.push(waiting(&pages()));
        let patience = Duration::from_millis(50);
        let sent = outbox.flush(&mut stream, patience, || false).await;
        assert_eq!(sent.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_is_disconnected_sooner_if_memory_is_short() {
        let (mut stream, _client) = connected().await;
        let pages = pages();
        let patience = (Duration::from_secs(600), Duration::from_millis(20));
        let asked = Cell::new(0);
        let is_short = || {
            asked.set(asked.get() + 1);
            asked.get() > 3
        };
        let error = loop {
            match write_some(&mut stream, &pages, patience, &is_short).await {
                Ok(sent) => assert!(sent > 0),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(asked.get(), 4);
    }
}
