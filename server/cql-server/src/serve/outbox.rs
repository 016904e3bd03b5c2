//! What a connection has to send, and which thread sends it.
//!
//! ```text
//!   responses ─> urgent ─> the thread that serves the connection
//!   pages of ranges ─> pages ─> a thread of the idle class
//! ```
//!
//! Copying pages into sockets is most of what a client costs that pages a whole table. On the
//! threads that serve connections, requests would wait for it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use ebb_colocate::runtime::{YIELD_EVERY, Yielding};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::lanes::{Lanes, Waiting};
use crate::call::Lane;

/// With so much to send, sending comes first.
const FULL_BYTES: usize = 256 << 10;
/// What a thread that serves connections sends at once. Others get their turn on it before
/// the rest: a large page takes the kernel some hundred microseconds.
const URGENT_PIECE_BYTES: usize = 64 << 10;
/// What a thread of the idle class sends at once. One that wakes up beside it waits until it
/// leaves the kernel. A page that is no larger is not worth another thread.
const PAGE_PIECE_BYTES: usize = 16 << 10;
/// How long pages may wait for a core that nobody wants. Then they are sent as other responses
/// are: requests of the same connection wait behind them.
const PAGE_PATIENCE: Duration = Duration::from_millis(20);

/// What is to be sent to one client.
pub(super) struct Outbox {
    stream: Arc<TcpStream>,
    urgent: BytesMut,
    pages: BytesMut,
    /// Results that are in either: what they take is returned when it is sent.
    unsent: Vec<Waiting<()>>,
}

impl Outbox {
    pub(super) fn new(stream: Arc<TcpStream>) -> Self {
        Self {
            stream,
            urgent: BytesMut::new(),
            pages: BytesMut::new(),
            unsent: Vec::new(),
        }
    }

    /// Where whole frames are appended that shall go as soon as possible.
    pub(super) fn urgent(&mut self) -> &mut BytesMut {
        &mut self.urgent
    }

    /// Whether no more should be added before this is sent.
    pub(super) fn is_full(&self) -> bool {
        self.urgent.len() + self.pages.len() >= FULL_BYTES
    }

    /// Appends the frame of what ran in `lane`.
    pub(super) fn push(&mut self, lane: Lane, Waiting { value, _memory }: Waiting<BytesMut>) {
        let is_page = lane == Lane::Range && value.len() > PAGE_PIECE_BYTES;
        let out = match is_page {
            true => &mut self.pages,
            false => &mut self.urgent,
        };
        match out.is_empty() {
            true => *out = value,
            false => out.extend_from_slice(&value),
        }
        self.unsent.push(Waiting { value: (), _memory });
    }

    /// Sends all. The client may read nothing for `patience` at most.
    ///
    /// # Errors
    /// The connection broke, or the client did not read.
    pub(super) async fn flush(&mut self, lanes: &Lanes, patience: Duration) -> io::Result<()> {
        self.send_urgent(patience).await?;
        if !self.pages.is_empty() {
            self.send_pages(lanes, patience).await?;
        }
        self.unsent.clear();
        Ok(())
    }

    async fn send_urgent(&mut self, patience: Duration) -> io::Result<()> {
        while !self.urgent.is_empty() {
            // Mostly there is room in the socket, and no timer is needed.
            match send(&self.stream, &mut self.urgent, URGENT_PIECE_BYTES)? {
                true if !self.urgent.is_empty() => tokio::task::yield_now().await,
                true => {}
                false => writable(&self.stream, patience).await?,
            }
        }
        // An empty buffer that is kept would be one for each idle connection.
        self.urgent = BytesMut::new();
        Ok(())
    }

    async fn send_pages(&mut self, lanes: &Lanes, patience: Duration) -> io::Result<()> {
        let is_recalled = Arc::new(AtomicBool::new(false));
        while !self.pages.is_empty() && !is_recalled.load(Ordering::Relaxed) {
            let (stream, pages) = (self.stream.clone(), std::mem::take(&mut self.pages));
            let stops = is_recalled.clone();
            let sent = lanes.send(move || send_until(&stream, pages, &stops));
            tokio::pin!(sent);
            let left = match timeout(PAGE_PATIENCE, &mut sent).await {
                Ok(left) => left,
                Err(_) => {
                    is_recalled.store(true, Ordering::Relaxed);
                    sent.await
                }
            };
            let (left, has_room) = left.ok_or(io::ErrorKind::BrokenPipe)??;
            self.pages = left;
            if !has_room {
                writable(&self.stream, patience).await?;
            }
        }
        self.urgent = std::mem::take(&mut self.pages);
        self.send_urgent(patience).await
    }
}

/// Sends `out` from a thread of the idle class, until the socket is full or somebody else is
/// to go on. Gives what is left, and whether the socket has room.
fn send_until(
    stream: &TcpStream,
    mut out: BytesMut,
    stops: &AtomicBool,
) -> io::Result<(BytesMut, bool)> {
    let yielding = Yielding::of_current_thread(YIELD_EVERY);
    while !out.is_empty() && !stops.load(Ordering::Relaxed) {
        if !send(stream, &mut out, PAGE_PIECE_BYTES)? {
            return Ok((out, false));
        }
        yielding.offer_core(Instant::now());
    }
    Ok((out, true))
}

/// Sends a piece of `out` and takes it off. False where the socket is full.
fn send(stream: &TcpStream, out: &mut BytesMut, piece_bytes: usize) -> io::Result<bool> {
    let piece = &out[..out.len().min(piece_bytes)];
    match stream.try_write(piece) {
        Ok(0) => Err(io::ErrorKind::WriteZero.into()),
        Ok(sent) => {
            out.advance(sent);
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

async fn writable(stream: &TcpStream, patience: Duration) -> io::Result<()> {
    timeout(patience, stream.writable()).await?
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net;
    use std::sync::mpsc::channel;
    use std::thread;

    use tokio::net::TcpListener;

    use super::super::options::ServeOptions;
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    async fn connected() -> (Arc<TcpStream>, net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().await.unwrap();
        (Arc::new(server), client)
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

    /// What a client receives to which `outbox` sends all.
    async fn received(outbox: &mut Outbox, mut client: net::TcpStream, lanes: &Lanes) -> Vec<u8> {
        let mut received = vec![0; outbox.urgent.len() + outbox.pages.len()];
        let reader = thread::spawn(move || client.read_exact(&mut received).map(|()| received));
        outbox.flush(lanes, PATIENCE).await.unwrap();
        reader.join().unwrap().unwrap()
    }

    #[tokio::test]
    async fn responses_go_before_pages_and_all_of_both_arrives() {
        let lanes = Lanes::new(&ServeOptions::default()).unwrap();
        let (stream, client) = connected().await;
        let mut outbox = Outbox::new(stream);
        let pages = pages();
        outbox.push(Lane::Range, waiting(&pages));
        outbox.push(Lane::Write, waiting(b"written"));
        outbox.push(Lane::Range, waiting(b"short"));
        assert!(outbox.is_full());
        let received = received(&mut outbox, client, &lanes).await;
        assert!(received == [b"writtenshort".as_slice(), &pages].concat());
        assert!(!outbox.is_full() && outbox.unsent.is_empty());
    }

    #[tokio::test]
    async fn pages_that_get_no_core_are_sent_as_other_responses_are() {
        let options = ServeOptions {
            threads: 1,
            ..ServeOptions::default()
        };
        let lanes = Lanes::new(&options).unwrap();
        // The thread that sends pages is busy until it is told to go on.
        let (go_on, told) = channel::<()>();
        let busy = lanes.send(move || told.recv());
        let (stream, client) = connected().await;
        let mut outbox = Outbox::new(stream);
        let pages = pages();
        outbox.push(Lane::Range, waiting(&pages));
        let release = async {
            tokio::time::sleep(PAGE_PATIENCE * 2).await;
            drop(go_on);
        };
        let received = received(&mut outbox, client, &lanes);
        let (_, received, ()) = tokio::join!(busy, received, release);
        assert!(received == pages);
    }

    #[tokio::test]
    async fn a_thread_that_is_told_to_stop_gives_back_what_is_left() {
        let (stream, _client) = connected().await;
        let stops = AtomicBool::new(true);
        let (left, has_room) = send_until(&stream, b"page".as_slice().into(), &stops).unwrap();
        assert_eq!((&left[..], has_room), (b"page".as_slice(), true));
    }

    #[tokio::test]
    async fn who_reads_nothing_is_given_up() {
        let lanes = Lanes::new(&ServeOptions::default()).unwrap();
        let (stream, _client) = connected().await;
        let mut outbox = Outbox::new(stream);
        outbox.push(Lane::Range, waiting(&pages()));
        let sent = outbox.flush(&lanes, Duration::from_millis(50)).await;
        assert_eq!(sent.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
