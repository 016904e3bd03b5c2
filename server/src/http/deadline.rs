//! Time limits for a client: to read the bytes that are written to its connection, to read a long
//! response, and to send a request's body.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::BoxError;
use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// How long a client may read nothing while the buffers of its connection are full.
const UNREAD_MAX: Duration = Duration::from_secs(30);

/// How long a client may take to send the body of a request.
const BODY_MAX: Duration = Duration::from_secs(30);

/// A connection whose writes fail when the client reads nothing for [`UNREAD_MAX`]. Without this, a
/// stream of events would wait for ever for a client that does not read.
pub(super) struct WriteDeadline<S> {
    stream: S,
    waited: Option<Pin<Box<Sleep>>>,
    unread_max: Duration,
}

impl<S> WriteDeadline<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            waited: None,
            unread_max: UNREAD_MAX,
        }
    }

    /// Passes on the result of a write, and fails one that has been pending for `unread_max`.
    fn bounded<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waited = None;
            return written;
        }
        let unread_max = self.unread_max;
        let waited = self
            .waited
            .get_or_insert_with(|| Box::pin(sleep(unread_max)));
        ready!(waited.as_mut().poll(context));
        let text = "the client does not read what it is sent";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, text)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteDeadline<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteDeadline<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bounded(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.bounded(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.bounded(context, shut)
    }
}

/// A request body that fails when it is not complete [`BODY_MAX`] after the headers. Without this, a client
/// that has shown no token, such as one that logs in, could keep the server waiting.
pub(super) struct BodyDeadline<B> {
    body: B,
    end: Pin<Box<Sleep>>,
}

impl<B> BodyDeadline<B> {
    pub(super) fn new(body: B) -> Self {
        Self::within(body, BODY_MAX)
    }

    fn within(body: B, time: Duration) -> Self {
        let end = Box::pin(sleep(time));
        Self { body, end }
    }
}

impl<B: Body<Error: Into<BoxError>> + Unpin> Body for BodyDeadline<B> {
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        ready!(self.end.as_mut().poll(context));
        let text = "the request does not end";
        let error = io::Error::new(io::ErrorKind::TimedOut, text);
        Poll::Ready(Some(Err(error.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The deadline of a connection by which its client must have read the long response that the server sends;
/// no deadline while it sends none. Clones stand for the same connection.
///
/// [`WriteDeadline`] does not suffice for a long response: a client that reads one byte in each half minute
/// would keep the response in memory for weeks.
#[derive(Debug, Clone, Default)]
pub(super) struct ResponseDeadline(Arc<watch::Sender<Option<Instant>>>);

impl ResponseDeadline {
    /// Starts a deadline `time` from now. It ends when the returned value is dropped. A connection sends its
    /// responses one after the other, so there is one deadline at a time.
    pub(super) fn start(&self, time: Duration) -> RunningDeadline {
        self.0.send_replace(Some(Instant::now() + time));
        RunningDeadline(self.clone())
    }

    /// Waits until a deadline has passed.
    pub(super) async fn passed(&self) {
        let mut deadline = self.0.subscribe();
        loop {
            let at = *deadline.borrow_and_update();
            // There is no error, because `self` has the sender.
            let changed = deadline.changed();
            match at {
                None => {
                    let _ = changed.await;
                }
                Some(at) => tokio::select! {
                    () = sleep_until(at) => return,
                    _ = changed => {}
                },
            }
        }
    }
}

#[cfg(test)]
impl ResponseDeadline {
    pub(super) fn is_running(&self) -> bool {
        self.0.borrow().is_some()
    }
}

/// A running deadline. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct RunningDeadline(ResponseDeadline);

impl Drop for RunningDeadline {
    fn drop(&mut self) {
        let ResponseDeadline(deadline) = &self.0;
        deadline.send_replace(None);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures_util::FutureExt;
    use tokio::net::UnixStream;

    use super::*;

    /// A body of which no byte arrives.
    struct Stalled;

    impl Body for Stalled {
        type Data = &'static [u8];
        type Error = io::Error;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<&'static [u8]>, io::Error>>> {
            Poll::Pending
        }
    }

    #[tokio::test]
    async fn a_body_that_does_not_end_fails() {
        let mut body = BodyDeadline::within(Stalled, Duration::from_millis(20));
        let frame = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
        let error = frame.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "the request does not end");
    }

    #[tokio::test]
    async fn a_write_to_a_client_that_does_not_read_fails() {
        let (_client, server) = UnixStream::pair().unwrap();
        let mut server = WriteDeadline {
            unread_max: Duration::from_millis(20),
            ..WriteDeadline::new(server)
        };
        let mut written = 0;
        let error = loop {
            let write =
                |context: &mut Context<'_>| Pin::new(&mut server).poll_write(context, &[0; 65_536]);
            match poll_fn(write).await {
                Ok(bytes) => written += bytes,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(written > 0, "the system has some room");
    }

    #[tokio::test]
    async fn a_deadline_passes_while_it_runs_and_not_after_its_end() {
        let deadline = ResponseDeadline::default();
        assert_eq!(deadline.passed().now_or_never(), None);
        let long = deadline.start(Duration::from_secs(86_400));
        assert_eq!(deadline.passed().now_or_never(), None);
        drop(long);
        let _short = deadline.start(Duration::ZERO);
        deadline.passed().await;
        drop(deadline.start(Duration::ZERO));
        assert_eq!(deadline.passed().now_or_never(), None);
    }
}
