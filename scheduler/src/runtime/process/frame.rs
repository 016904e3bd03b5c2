//! Frames on the socket between parent and child.
//!
//! ```text
//!   length of the payload, u32 LE | kind, 1 byte | payload
//! ```

use crate::runtime::error::TaskError;
use std::io::{self, ErrorKind, Read, Write};
use thiserror::Error;

const HEADER_BYTES: usize = 5;

/// The longest order or job description. An order for a reduce lists each run of each map, in some
/// 40 bytes for each one.
const ORDER_BYTES_MAX: usize = 32 << 20;

/// The longest report. The report of a map has up to 16 runs with a segment per reduce, each in
/// some 30 bytes. In memory it may take twenty times as much, so the limit is low.
const REPORT_BYTES_MAX: usize = 8 << 20;

/// The longest payload of rows, and so of one row: twice the longest line that a job reads.
pub(super) const ROWS_BYTES_MAX: usize = 128 << 20;

/// The largest size of a payload's buffer before the first byte of the payload has arrived, so that
/// a false length causes no large allocation. Later the buffer at most doubles at a time.
const GROW_BYTES: usize = 64 << 10;

/// The kind of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The memory limit of the child and the description of the job: the first frame of the parent.
    Hello = 0,
    /// An order or an answer of the parent.
    Order = 1,
    /// A message of the child ([`ToParent`](super::message::ToParent)), other than rows.
    Report = 2,
    /// Rows of the output, from the child.
    Rows = 3,
}

impl Kind {
    fn of(byte: u8) -> Option<Self> {
        [Self::Hello, Self::Order, Self::Report, Self::Rows]
            .into_iter()
            .find(|&kind| kind as u8 == byte)
    }

    fn bytes_max(self) -> usize {
        match self {
            Self::Hello | Self::Order => ORDER_BYTES_MAX,
            Self::Report => REPORT_BYTES_MAX,
            Self::Rows => ROWS_BYTES_MAX,
        }
    }
}

/// The failure to send or receive a frame.
#[derive(Debug, Error)]
pub(super) enum FrameError {
    /// The other side has closed its end, between frames or within one.
    #[error("the other side has closed the connection")]
    Closed,
    /// The socket's timeout passed, and the caller did not want to wait longer: see
    /// [`KeepWaiting`].
    #[error("the wait was given up")]
    GivenUp,
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The bytes are no valid message.
    #[error("invalid message: {0}")]
    Damaged(String),
    #[error("{bytes} bytes are more than the {bytes_max} that a message may have")]
    TooLong { bytes: usize, bytes_max: usize },
}

/// A callback for a read or write on a socket with a timeout. It is called each time that the
/// timeout has passed, and returns false to give up.
pub(super) type KeepWaiting<'a> = &'a mut dyn FnMut() -> bool;

/// Sends a whole frame, unless the caller gives up.
pub(super) fn send(
    to: &mut impl Write,
    kind: Kind,
    payload: &[u8],
    keep_waiting: KeepWaiting<'_>,
) -> Result<(), FrameError> {
    let (bytes, bytes_max) = (payload.len(), kind.bytes_max());
    if bytes > bytes_max {
        return Err(FrameError::TooLong { bytes, bytes_max });
    }
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&(bytes as u32).to_le_bytes());
    header[4] = kind as u8;
    write_all(to, &header, keep_waiting)?;
    write_all(to, payload, keep_waiting)
}

/// Receives the next frame. Returns its kind, and replaces the bytes in `payload` by those of the
/// frame.
pub(super) fn receive(
    from: &mut impl Read,
    payload: &mut Vec<u8>,
    keep_waiting: KeepWaiting<'_>,
) -> Result<Kind, FrameError> {
    let mut header = [0; HEADER_BYTES];
    read_exact(from, &mut header, keep_waiting)?;
    let [a, b, c, d, kind] = header;
    let bytes = u32::from_le_bytes([a, b, c, d]) as usize;
    let kind = Kind::of(kind).ok_or_else(|| FrameError::Damaged(format!("kind {kind}")))?;
    if bytes > kind.bytes_max() {
        return Err(FrameError::Damaged(format!("a length of {bytes} bytes")));
    }
    // A false length must not cause a large allocation.
    payload.clear();
    while payload.len() < bytes {
        let filled = payload.len();
        payload.resize(bytes.min(filled + GROW_BYTES.max(filled)), 0);
        read_exact(from, &mut payload[filled..], keep_waiting)?;
    }
    Ok(kind)
}

fn write_all(
    to: &mut impl Write,
    mut bytes: &[u8],
    keep_waiting: KeepWaiting<'_>,
) -> Result<(), FrameError> {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(0) => return Err(FrameError::Closed),
            Ok(written) => bytes = &bytes[written..],
            Err(error) => wait_after(error, keep_waiting)?,
        }
    }
    Ok(())
}

fn read_exact(
    from: &mut impl Read,
    mut into: &mut [u8],
    keep_waiting: KeepWaiting<'_>,
) -> Result<(), FrameError> {
    while !into.is_empty() {
        match from.read(into) {
            Ok(0) => return Err(FrameError::Closed),
            Ok(read) => into = &mut into[read..],
            Err(error) => wait_after(error, keep_waiting)?,
        }
    }
    Ok(())
}

/// Returns `Ok` if the read or write should be tried again after `error`: it was interrupted, or
/// timed out and `keep_waiting` returned true. Otherwise returns the error to report.
fn wait_after(error: io::Error, keep_waiting: KeepWaiting<'_>) -> Result<(), FrameError> {
    match error.kind() {
        ErrorKind::Interrupted => Ok(()),
        ErrorKind::WouldBlock | ErrorKind::TimedOut if keep_waiting() => Ok(()),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Err(FrameError::GivenUp),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Err(FrameError::Closed),
        _ => Err(FrameError::Io(error)),
    }
}

/// Appends a row to a payload:
///
/// ```text
///   key length, u32 LE | value length, u32 LE | key | value
/// ```
///
/// # Errors
/// If the row is too long to be sent.
pub(super) fn push_row(rows: &mut Vec<u8>, key: &[u8], value: &[u8]) -> Result<(), TaskError> {
    let bytes = key.len() + value.len();
    if bytes > ROWS_BYTES_MAX - 8 {
        return Err(TaskError::failed(format!(
            "a row of {bytes} bytes is too long for a task in a process of its own, whose rows \
             may have {}: run the job on threads",
            ROWS_BYTES_MAX - 8
        )));
    }
    for part in [key, value] {
        rows.extend_from_slice(&(part.len() as u32).to_le_bytes());
    }
    rows.extend_from_slice(key);
    rows.extend_from_slice(value);
    Ok(())
}

/// Passes the rows of a payload to `row`.
///
/// # Errors
/// A task error with [`FrameError::Damaged`] if the payload is invalid, and any error of `row`.
pub(super) fn for_each_row(
    mut rows: &[u8],
    mut row: impl FnMut(&[u8], &[u8]) -> Result<(), TaskError>,
) -> Result<(), TaskError> {
    while !rows.is_empty() {
        let (key, value, rest) = first_row(rows)
            .ok_or_else(|| TaskError::failed(FrameError::Damaged("half a row".to_owned())))?;
        row(key, value)?;
        rows = rest;
    }
    Ok(())
}

/// Returns the key and the value of the first row, and the bytes behind it; `None` if `rows` does
/// not contain a whole row.
fn first_row(rows: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (key_len, rest) = rows.split_first_chunk::<4>()?;
    let (value_len, rest) = rest.split_first_chunk::<4>()?;
    let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*key_len) as usize)?;
    let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*value_len) as usize)?;
    Some((key, value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_test_support::seed::for_seeds;
    use rand::{Rng, RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn received(mut bytes: &[u8]) -> Result<(Kind, Vec<u8>), FrameError> {
        let mut payload = vec![1, 2, 3];
        let kind = receive(&mut bytes, &mut payload, &mut || true)?;
        assert!(
            payload.capacity() <= 2 * (payload.len() + GROW_BYTES),
            "the buffer grows only as bytes arrive"
        );
        Ok((kind, payload))
    }

    #[test]
    fn a_frame_reads_back() {
        for (kind, length) in [
            (Kind::Hello, 0),
            (Kind::Order, 5),
            (Kind::Rows, 3 * GROW_BYTES + 1),
        ] {
            let payload: Vec<u8> = (0..length).map(|n| n as u8).collect();
            let mut wire = Vec::new();
            send(&mut wire, kind, &payload, &mut || true).unwrap();
            assert_eq!(received(&wire).unwrap(), (kind, payload));
            for cut in [0, 4, wire.len() - 1] {
                assert!(matches!(received(&wire[..cut]), Err(FrameError::Closed)));
            }
        }
    }

    #[test]
    fn a_false_length_allocates_little() {
        let claimed = (ORDER_BYTES_MAX as u32).to_le_bytes();
        let mut wire = claimed.to_vec();
        wire.push(Kind::Order as u8);
        wire.extend_from_slice(&[7; 100]);
        let mut payload = Vec::new();
        let result = receive(&mut &wire[..], &mut payload, &mut || true);
        assert!(matches!(result, Err(FrameError::Closed)));
        assert!(payload.capacity() <= 2 * GROW_BYTES);

        let claimed = (ORDER_BYTES_MAX as u32 + 1).to_le_bytes();
        wire[..4].copy_from_slice(&claimed);
        assert!(matches!(received(&wire), Err(FrameError::Damaged(_))));
        let long = vec![0; ORDER_BYTES_MAX + 1];
        let sent = send(&mut Vec::new(), Kind::Order, &long, &mut || true);
        assert!(matches!(sent, Err(FrameError::TooLong { .. })));
    }

    #[test]
    fn rows_read_back_and_no_bytes_panic() {
        let test = "rows_read_back_and_no_bytes_panic";
        for_seeds(test, 1, |seed| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut random_bytes = || {
                let mut bytes = vec![0; rng.random_range(0..20)];
                rng.fill_bytes(&mut bytes);
                bytes
            };
            let sent: Vec<_> = (0..50).map(|_| (random_bytes(), random_bytes())).collect();
            let mut rows = Vec::new();
            for (key, value) in &sent {
                push_row(&mut rows, key, value).unwrap();
            }
            let read = |rows: &[u8]| {
                let mut came = Vec::new();
                for_each_row(rows, |key, value| {
                    came.push((key.to_vec(), value.to_vec()));
                    Ok(())
                })
                .map(|()| came)
            };
            assert_eq!(read(&rows).unwrap(), sent);
            for _ in 0..1000 {
                let mut bad = rows.clone();
                let at = rng.random_range(0..bad.len());
                bad[at] = rng.random();
                bad.truncate(rng.random_range(at..=bad.len()));
                // Success or an error, but no panic and no endless loop.
                let _ = read(&bad);
                let _ = received(&bad);
            }
            assert!(read(&rows[..rows.len() - 1]).is_err());
        });
    }

    #[test]
    fn a_wait_ends_when_its_result_is_no_longer_needed() {
        struct Silent;
        impl Read for Silent {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(ErrorKind::WouldBlock.into())
            }
        }
        let mut calls = 0;
        let mut keep_waiting = || {
            calls += 1;
            calls < 3
        };
        let result = receive(&mut Silent, &mut Vec::new(), &mut keep_waiting);
        assert!(matches!(result, Err(FrameError::GivenUp)));
        assert_eq!(calls, 3);
    }
}
