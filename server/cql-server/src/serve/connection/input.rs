//! Reads of the bytes that a client sends.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

use crate::serve::received::Received;
use crate::serve::skip::Progress;
use crate::serve::stream::Stream;

/// The most bytes of one read.
pub(super) const READ_BYTES: usize = 64 << 10;

thread_local! {
    /// The read buffer of a thread. All connections of the thread share it: they keep only
    /// incomplete frames, in buffers of their own.
    static READ_BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// Reads bytes from a client, and returns their number; `None` if the client is too slow with a
/// request that is being skipped. Cancel-safe: dropping the future loses no bytes.
///
/// # Errors
/// If the client has closed the connection, or the connection broke.
pub(super) async fn read(
    stream: &mut Stream,
    received: &mut Received,
    skipping: &mut Progress,
) -> io::Result<Option<usize>> {
    poll_fn(|context| match poll_read(stream, received, context) {
        Poll::Ready(read) => Poll::Ready(read.map(Some)),
        // The deadline is checked after the read: after a pause of the server the bytes may have
        // arrived.
        Poll::Pending => skipping.poll_over(context).map(|()| Ok(None)),
    })
    .await
}

/// Reads the bytes that have arrived, without waiting, and returns their number.
///
/// # Errors
/// If the client has closed the connection, or the connection broke.
pub(super) async fn read_arrived(
    stream: &mut Stream,
    received: &mut Received,
) -> io::Result<usize> {
    poll_fn(|context| match poll_read(stream, received, context) {
        Poll::Pending => Poll::Ready(Ok(0)),
        ready => ready,
    })
    .await
}

fn poll_read(
    stream: &mut Stream,
    received: &mut Received,
    context: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    READ_BUFFER.with_borrow_mut(|buffer| {
        let mut buffer = ReadBuf::new(buffer);
        match Pin::new(stream).poll_read(context, &mut buffer) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(())) if buffer.filled().is_empty() => {
                Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()))
            }
            Poll::Ready(Ok(())) => {
                received.push(buffer.filled());
                Poll::Ready(Ok(buffer.filled().len()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
        }
    })
}
