//! Too large requests: their bytes are received and discarded, and the client gets the error after
//! it has sent them all.
//!
//! An earlier error, followed by the end of the connection, would be lost: a client that is still
//! sending does not read, and a socket that is closed with unread bytes is reset. Discarding costs
//! less than serving requests of the same length, and takes no memory. So it is limited only where
//! a length is more likely due to damage than to a request.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use ebb_cql::protocol::{FrameError, HEADER_BYTES};
use tokio::time::{Sleep, sleep_until};

/// The longest body, in bytes, that is received and discarded. The protocol permits no longer body.
pub(super) const SKIPPED_BYTES_MAX: usize = 256 << 20;
/// The bytes of a skipped body (or the rest of it) that a client has to send within the time limit
/// of a request. So skipping the longest body takes at most 256 times that limit.
const STEP_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct Skip {
    left_bytes: usize,
    error: FrameError,
}

impl Skip {
    /// Begins to skip the frame at the start of the received bytes, which could not be decoded
    /// because of `error`.
    ///
    /// # Errors
    /// `error`, if it is not about the length of a body, or if the body is longer than
    /// `body_bytes_max`.
    pub(super) fn begin(error: FrameError, body_bytes_max: usize) -> Result<Self, FrameError> {
        match error {
            FrameError::TooLong { body_bytes, .. } if body_bytes as usize <= body_bytes_max => {
                Ok(Self {
                    left_bytes: HEADER_BYTES + body_bytes as usize,
                    error,
                })
            }
            _ => Err(error),
        }
    }

    /// Removes bytes of the skipped frame from the start of `frames`, the received bytes, and
    /// returns their number.
    pub(super) fn discard(&mut self, frames: &mut BytesMut) -> usize {
        let bytes = self.left_bytes.min(frames.len());
        frames.advance(bytes);
        self.left_bytes -= bytes;
        bytes
    }

    pub(super) fn is_over(&self) -> bool {
        self.left_bytes == 0
    }

    pub(super) fn stream(&self) -> i16 {
        self.error.stream()
    }

    pub(super) fn into_error(self) -> FrameError {
        self.error
    }
}

/// The deadline by which a client must have sent the next part of a too large frame, whose bytes
/// are discarded (skipped); `None` while no frame is skipped.
#[derive(Debug, Default)]
pub(super) struct Progress(Option<Step>);

#[derive(Debug)]
struct Step {
    by: Pin<Box<Sleep>>,
    /// The number of discarded bytes, since the start of the connection, that the client must have
    /// sent by the deadline.
    bytes: u64,
}

impl Progress {
    /// Notes the number of skipped bytes on the connection from its start; `None` if no frame is
    /// being skipped. The client has to send each [`STEP_BYTES`] within `patience`.
    pub(super) fn note(&mut self, skipped_bytes: Option<u64>, patience: Duration) {
        let Some(skipped_bytes) = skipped_bytes else {
            self.0 = None;
            return;
        };
        if (self.0.as_ref()).is_none_or(|step| skipped_bytes >= step.bytes) {
            self.0 = Some(Step {
                by: Box::pin(sleep_until((Instant::now() + patience).into())),
                bytes: skipped_bytes + STEP_BYTES,
            });
        }
    }

    /// Becomes ready when the client is too slow: when the deadline passes and the client has sent
    /// fewer than [`STEP_BYTES`] of the skipped frame since the last step.
    pub(super) fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Some(step) => step.by.as_mut().poll(context),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Waker;

    use ebb_test_support::wait::HANG;
    use tokio::time::timeout;

    use super::*;

    fn too_long(body_bytes: u32) -> FrameError {
        FrameError::TooLong {
            body_bytes,
            body_bytes_max: 10,
            stream: 7,
        }
    }

    #[test]
    fn the_bytes_after_a_skipped_frame_stay() {
        let mut skip = Skip::begin(too_long(20), 20).unwrap();
        let mut frames = BytesMut::from(&[0; HEADER_BYTES + 5][..]);
        assert_eq!(skip.discard(&mut frames), HEADER_BYTES + 5);
        assert!(frames.is_empty() && !skip.is_over());
        frames.extend_from_slice(&[0; 15]);
        frames.extend_from_slice(b"next");
        assert_eq!(skip.discard(&mut frames), 15);
        assert!(skip.is_over());
        assert_eq!(frames, "next");
        assert_eq!(skip.into_error(), too_long(20));
    }

    #[test]
    fn only_bodies_up_to_the_limit_are_skipped() {
        assert_eq!(Skip::begin(too_long(21), 20).unwrap_err(), too_long(21));
        let length = FrameError::Length {
            length: -1,
            stream: 7,
        };
        assert_eq!(Skip::begin(length.clone(), 20).unwrap_err(), length);
    }

    #[tokio::test]
    async fn a_client_has_the_time_limit_of_a_request_for_each_step() {
        async fn until_over(progress: &mut Progress) {
            let over = poll_fn(|context| progress.poll_over(context));
            timeout(HANG, over)
                .await
                .expect("the time of the step ends");
        }
        fn is_over(progress: &mut Progress) -> bool {
            let mut context = Context::from_waker(Waker::noop());
            progress.poll_over(&mut context).is_ready()
        }
        let mut progress = Progress::default();
        progress.note(Some(5), Duration::ZERO);
        // Fewer bytes than a step do not move the deadline.
        progress.note(Some(4 + STEP_BYTES), 2 * HANG);
        until_over(&mut progress).await;
        progress.note(Some(5 + STEP_BYTES), 2 * HANG);
        assert!(!is_over(&mut progress));
        // A connection that is not skipping has no deadline.
        progress.note(Some(6 + 2 * STEP_BYTES), Duration::ZERO);
        until_over(&mut progress).await;
        progress.note(None, Duration::ZERO);
        assert!(!is_over(&mut progress));
    }
}
