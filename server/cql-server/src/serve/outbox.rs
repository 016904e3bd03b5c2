//! What a connection has to send.

use std::io;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::AsyncWriteExt;

use super::lanes::Waiting;
use super::stream::{Stream, within};

/// With so much to send, sending comes first.
const FULL_BYTES: usize = 256 << 10;
/// What is sent at once. Others get their turn on this thread before the rest: a large page
/// takes the kernel some hundred microseconds.
const PIECE_BYTES: usize = 64 << 10;

/// What is to be sent to one client: whole frames.
#[derive(Default)]
pub(super) struct Outbox {
    frames: BytesMut,
    /// Results that are among them: what they take is returned when they are sent.
    unsent: Vec<Waiting<()>>,
}

impl Outbox {
    /// Where frames are appended.
    pub(super) fn frames(&mut self) -> &mut BytesMut {
        &mut self.frames
    }

    /// Whether no more should be added before this is sent.
    pub(super) fn is_full(&self) -> bool {
        self.frames.len() >= FULL_BYTES
    }

    /// Appends the frame of what ran elsewhere.
    pub(super) fn push(&mut self, Waiting { value, _memory }: Waiting<BytesMut>) {
        match self.frames.is_empty() {
            true => self.frames = value,
            false => self.frames.extend_from_slice(&value),
        }
        self.unsent.push(Waiting { value: (), _memory });
    }

    /// Sends all. The client may read nothing for `patience` at most.
    ///
    /// # Errors
    /// The connection broke, or the client did not read.
    pub(super) async fn flush(
        &mut self,
        stream: &mut Stream,
        patience: Duration,
    ) -> io::Result<()> {
        if self.frames.is_empty() {
            return Ok(());
        }
        loop {
            let piece = &self.frames[..self.frames.len().min(PIECE_BYTES)];
            match within(patience, stream.write(piece)).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                sent => self.frames.advance(sent),
            }
            if self.frames.is_empty() {
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

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net;
    use std::thread;

    use tokio::net::TcpListener;

    use super::*;

    async fn connected() -> (Stream, net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().await.unwrap();
        (Stream::Plain(server), client)
    }

    fn waiting(bytes: &[u8]) -> Waiting<BytesMut> {
        Waiting {
            value: bytes.into(),
            _memory: None,
        }
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
        outbox
            .flush(&mut stream, Duration::from_secs(10))
            .await
            .unwrap();
        let received = reader.join().unwrap().unwrap();
        assert!(received == [b"first".as_slice(), &pages].concat());
        assert!(!outbox.is_full() && outbox.unsent.is_empty());
    }

    #[tokio::test]
    async fn who_reads_nothing_is_given_up() {
        let (mut stream, _client) = connected().await;
        let mut outbox = Outbox::default();
        outbox.push(waiting(&pages()));
        let sent = outbox.flush(&mut stream, Duration::from_millis(50)).await;
        assert_eq!(sent.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
