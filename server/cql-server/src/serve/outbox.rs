//! What a connection has to send.

use std::io;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use ebb_cql::protocol::{PAYLOAD_BYTES_MAX, SEGMENT_BYTES_MORE_MAX, Sealer, Segments};
use tokio::io::AsyncWriteExt;

use super::lanes::Waiting;
use super::stream::{Stream, within};

/// With so much to send, sending comes first.
const FULL_BYTES: usize = 256 << 10;
/// What is sent at once. Others get their turn on this thread before the rest: a large page
/// takes the kernel some hundred microseconds, and a segment takes as long to compress.
const PIECE_BYTES: usize = 64 << 10;

/// How long a client may read nothing while results take all the memory that there is for them.
const PATIENCE_SHORT: Duration = Duration::from_secs(5);

/// What is to be sent to one client: whole frames.
#[derive(Default)]
pub(super) struct Outbox {
    frames: BytesMut,
    /// The segments that carry the frames, since version 5.
    segments: Option<Segments>,
    /// The memory of results among the frames, which is returned when they are sent.
    unsent: Vec<Waiting<()>>,
}

impl Outbox {
    pub(super) fn frames(&mut self) -> &mut BytesMut {
        &mut self.frames
    }

    /// Sends frames that are appended from now on in segments. No frame may be waiting.
    pub(super) fn set_segments(&mut self, segments: Option<Segments>) {
        self.segments = segments;
    }

    /// Whether no more should be added before this is sent.
    pub(super) fn is_full(&self) -> bool {
        self.frames.len() >= FULL_BYTES
    }

    /// Appends the response to a request that ran in a lane.
    pub(super) fn push(&mut self, Waiting { value, _memory }: Waiting<BytesMut>) {
        if self.frames.is_empty() {
            self.frames = value;
        } else {
            self.frames.extend_from_slice(&value);
        }
        self.unsent.push(Waiting { value: (), _memory });
    }

    /// Sends all frames. The client may read nothing for `patience` at most, or for five seconds
    /// while memory `is_short`.
    ///
    /// # Errors
    /// The connection broke, or the client did not read.
    pub(super) async fn flush(
        &mut self,
        stream: &mut Stream,
        patience: Duration,
        is_short: impl Fn() -> bool,
    ) -> io::Result<()> {
        if self.frames.is_empty() {
            return Ok(());
        }
        // One segment is sealed when the one before has been sent.
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
        // What is encrypted may wait for the socket still.
        within(patience, stream.flush()).await?;
        // A buffer that is kept would be one for each idle connection.
        self.frames = BytesMut::new();
        self.unsent.clear();
        Ok(())
    }
}

/// Writes a part of `piece`, at least a byte. The client may read nothing for `patience` at most,
/// or for `short` while memory is short.
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

    async fn connected() -> (Stream, net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().await.unwrap();
        (Stream::Plain(server), client)
    }

    fn waiting(bytes: &[u8]) -> Waiting<BytesMut> {
        Waiting::small(bytes.into())
    }

    /// More than sockets hold, and no two pieces of it alike.
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

    /// A result may have any length: sealing it at once would take long, and would hold it twice.
    #[tokio::test]
    async fn what_is_not_sent_yet_is_not_sealed() {
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

    #[tokio::test]
    async fn who_reads_nothing_is_given_up() {
        let (mut stream, _client) = connected().await;
        let mut outbox = Outbox::default();
        outbox.push(waiting(&pages()));
        let patience = Duration::from_millis(50);
        let sent = outbox.flush(&mut stream, patience, || false).await;
        assert_eq!(sent.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn who_reads_nothing_is_given_up_sooner_where_memory_is_short() {
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
