//! The memory of requests that are not served yet.
//!
//! ```text
//!   bytes of an incomplete request ──> memory for received bytes
//!   a request that waits for its lane ──> memory for waiting requests: frame and parsed statements
//! ```
//!
//! The two memories are separate, so that clients which send half of a request do not delay
//! complete requests. Small requests need no memory, and are never rejected for lack of it. The
//! statements count because a parsed statement may take a hundred times the memory of its text. One
//! that several waiting requests have counts once. It counts even while the cache has it, because
//! the cache may drop it before they run.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::{mem, ptr};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::replies::overloaded;
use crate::error::Result;

/// The uncompressed size from which a request is large: decompressing and parsing it takes longer
/// than other requests should wait. Connections with at most this many received bytes take no
/// memory from [`Requests`].
pub(super) const LARGE_BYTES: usize = 64 << 10;
/// The size from which the parsed statements of a waiting request, together, take memory from
/// [`Requests`].
const LARGE_STATEMENT_BYTES: usize = 64 << 10;
/// The unit in which memory is taken from [`Requests`]. Waiting frames with shorter bodies take
/// none.
const UNIT_BYTES: usize = 4 << 10;

/// The memory for requests that are not served yet, shared by all connections.
pub(super) struct Requests {
    received: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    /// The number of permits of `waiting` in all, taken or free. Each stands for [`UNIT_BYTES`] of
    /// memory.
    waiting_units: u32,
}

/// The memory that a request has taken. Dropping this frees the memory.
#[derive(Debug, Default)]
pub(super) struct RequestMemory(Option<OwnedSemaphorePermit>);

impl RequestMemory {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

/// The memory that a request has taken while it waits for another thread. Dropping this frees the
/// memory, except for statements that other waiting requests have, too.
#[derive(Debug, Default)]
pub(super) struct WaitingMemory {
    _own: RequestMemory,
    _of_statements: Vec<Arc<RequestMemory>>,
}

/// The memory for a parsed statement that waiting requests may share: the first one takes it, and
/// the last one frees it.
#[derive(Debug, Default)]
pub(super) struct StatementMemory(Mutex<Weak<RequestMemory>>);

impl StatementMemory {
    /// Returns the memory that waiting requests have taken for the statement. If there are none,
    /// calls `take` to take it.
    fn share(&self, take: impl FnOnce() -> Result<RequestMemory>) -> Result<Arc<RequestMemory>> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(memory) = taken.upgrade() {
            return Ok(memory);
        }
        let memory = Arc::new(take()?);
        *taken = Arc::downgrade(&memory);
        Ok(memory)
    }
}

/// A parsed statement of a request that begins to wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaitingStatement<'s> {
    /// The approximate memory of the statement, in bytes.
    pub bytes: usize,
    /// The memory that requests with the statement share; `None` if no other request can have it.
    pub shared: Option<&'s StatementMemory>,
}

impl Requests {
    /// Provides `bytes_max` of memory for received bytes and the same for waiting requests, but at
    /// least twice the longest body each.
    pub(super) fn new(bytes_max: usize, body_bytes_max: usize) -> Self {
        let bytes_max = bytes_max.max(body_bytes_max.saturating_mul(2));
        let units = (bytes_max / UNIT_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        Self {
            received: Arc::new(Semaphore::new(units)),
            waiting: Arc::new(Semaphore::new(units)),
            waiting_units: u32::try_from(units).unwrap_or(u32::MAX),
        }
    }

    /// Takes memory for a request that waits for another thread (in a lane): for its frame, with a
    /// body of `body_bytes`, and for its parsed statements. A request that needs more than the
    /// whole memory for waiting requests takes all of that memory.
    ///
    /// # Errors
    /// OVERLOADED, if other requests have taken the memory.
    pub(super) fn wait<'s>(
        &self,
        body_bytes: usize,
        statements: impl Iterator<Item = WaitingStatement<'s>> + Clone,
    ) -> Result<WaitingMemory> {
        let mut own_bytes = if body_bytes < UNIT_BYTES {
            0
        } else {
            body_bytes
        };
        let statements = without_repetitions(statements);
        let mut units_left = self.waiting_units;
        let mut of_statements = Vec::new();
        let statement_bytes: usize = statements.clone().map(|statement| statement.bytes).sum();
        if statement_bytes >= LARGE_STATEMENT_BYTES {
            for WaitingStatement { bytes, shared } in statements {
                match shared {
                    None => own_bytes = own_bytes.saturating_add(bytes),
                    Some(shared) => {
                        let taken = shared.share(|| self.take_waiting(bytes, &mut units_left))?;
                        of_statements.push(taken);
                    }
                }
            }
        }
        Ok(WaitingMemory {
            _own: self.take_waiting(own_bytes, &mut units_left)?,
            _of_statements: of_statements,
        })
    }

    /// Takes memory for `bytes` bytes of a waiting request, but at most `units_left` units: the
    /// number of units that the request may still take. Subtracts the taken units from
    /// `units_left`.
    ///
    /// # Errors
    /// OVERLOADED, if other requests have taken the memory.
    fn take_waiting(&self, bytes: usize, units_left: &mut u32) -> Result<RequestMemory> {
        if bytes == 0 {
            return Ok(RequestMemory::default());
        }
        let taken = units(bytes).min(*units_left);
        match (self.waiting.clone()).try_acquire_many_owned(taken) {
            Ok(permit) => {
                *units_left -= taken;
                Ok(RequestMemory(Some(permit)))
            }
            Err(_) => Err(overloaded()),
        }
    }

    /// Adjusts the memory `held` to the received bytes of an incomplete frame. If it needs more,
    /// waits while other connections have taken all memory.
    pub(super) async fn hold(&self, held: &mut RequestMemory, received_bytes: usize) {
        let wanted = if received_bytes > LARGE_BYTES {
            units(received_bytes)
        } else {
            0
        };
        let permits = |held: &RequestMemory| {
            let permit = held.0.as_ref();
            permit.map_or(0, |permit| permit.num_permits() as u32)
        };
        let has = permits(held);
        if wanted == 0 {
            *held = RequestMemory::default();
        } else if wanted < has {
            let excess = (has - wanted) as usize;
            drop(held.0.as_mut().and_then(|permit| permit.split(excess)));
        } else if wanted > has {
            let more = self.received.clone().acquire_many_owned(wanted - has);
            let more = more.await.expect("the semaphore is not closed");
            match &mut held.0 {
                Some(permit) => permit.merge(more),
                none => *none = Some(more),
            }
        }
    }
}

/// Returns the body of a request that begins to wait. The body shares a buffer with everything that
/// arrived together with it, `buffer_bytes` in all. No limit counts the rest of that buffer, so the
/// body is copied if it is a small part of the buffer.
///
/// A request that arrived alone or beside few bytes is not copied, because most writes are of this
/// kind if they wait for the disk. A [large](LARGE_BYTES) one is a good part of its buffer.
pub(super) fn own_body(body: Bytes, buffer_bytes: usize) -> Bytes {
    let is_small_part = buffer_bytes > UNIT_BYTES && body.len() < buffer_bytes / 2;
    if is_small_part && body.len() < LARGE_BYTES {
        Bytes::copy_from_slice(&body)
    } else {
        body
    }
}

/// Leaves out each shared statement that directly follows the same statement. A batch often has one
/// statement for all of its rows: such a batch stays a small request, and does not lock the
/// statement for each row.
fn without_repetitions<'s>(
    statements: impl Iterator<Item = WaitingStatement<'s>> + Clone,
) -> impl Iterator<Item = WaitingStatement<'s>> + Clone {
    let mut last: Option<&'s StatementMemory> = None;
    statements.filter(move |statement| {
        match (mem::replace(&mut last, statement.shared), statement.shared) {
            (Some(before), Some(shared)) => !ptr::eq(before, shared),
            _ => true,
        }
    })
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::BytesMut;
    use ebb_cql::protocol::ErrorKind;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn memory_is_taken_as_bytes_arrive_and_freed_when_they_are_served() {
        let requests = Requests::new(1 << 20, 1 << 10);
        let free = || requests.received.available_permits() * UNIT_BYTES;
        let mut held = RequestMemory::default();
        requests.hold(&mut held, LARGE_BYTES).await;
        assert!(held.is_empty(), "little is free");
        requests.hold(&mut held, 100_000).await;
        requests.hold(&mut held, 900_000).await;
        assert_eq!(free(), (1 << 20) - 220 * UNIT_BYTES);
        let mut other = RequestMemory::default();
        let waits = requests.hold(&mut other, 200_000);
        assert!(timeout(Duration::from_millis(20), waits).await.is_err());
        requests.hold(&mut held, 500_000).await;
        requests.hold(&mut other, 200_000).await;
        requests.hold(&mut held, 10).await;
        drop(other);
        assert_eq!(free(), 1 << 20);
    }

    /// Returns an iterator over no statements, for a request that has none.
    fn none() -> impl Iterator<Item = WaitingStatement<'static>> + Clone {
        std::iter::empty()
    }

    /// Returns an iterator over the single statement of a request. The statement takes `bytes`
    /// bytes of memory, which the request shares with no other request.
    fn own(bytes: usize) -> impl Iterator<Item = WaitingStatement<'static>> + Clone {
        std::iter::once(WaitingStatement {
            bytes,
            shared: None,
        })
    }

    fn free_bytes(requests: &Requests) -> usize {
        requests.waiting.available_permits() * UNIT_BYTES
    }

    /// Regression: each waiting request kept the whole receive buffer in which it had arrived.
    #[test]
    fn a_short_waiting_body_keeps_no_bytes_that_arrived_with_it() {
        let mut buffer = BytesMut::zeroed(LARGE_BYTES);
        let body = own_body(buffer.split_to(100).freeze(), LARGE_BYTES);
        buffer.clear();
        // The buffer can use all its memory again only if no body shares it.
        assert!(buffer.try_reclaim(LARGE_BYTES));
        assert_eq!(body[..], [0; 100]);
    }

    #[test]
    fn a_waiting_body_is_not_copied_if_its_buffer_is_small_or_mostly_its_own() {
        for (body_bytes, buffer_bytes) in [
            (100, 109),
            (100, UNIT_BYTES),
            (32 << 10, LARGE_BYTES),
            (LARGE_BYTES, 4 * LARGE_BYTES),
        ] {
            let body = Bytes::from(vec![0; body_bytes]);
            let kept = own_body(body.clone(), buffer_bytes);
            assert_eq!(kept.as_ptr(), body.as_ptr(), "{body_bytes} bytes");
        }
    }

    #[test]
    fn a_waiting_frame_is_rejected_without_memory_unless_it_is_short() {
        let requests = Requests::new(1 << 20, 1 << 10);
        let taken = requests.wait(1 << 20, none()).unwrap();
        let refused = requests.wait(UNIT_BYTES, none()).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Overloaded);
        assert!(requests.wait(UNIT_BYTES - 1, none()).is_ok());
        drop(taken);
        assert!(requests.wait(UNIT_BYTES, none()).is_ok());
    }

    /// Regression: only the text of a waiting statement counted, which may be a hundredth of what
    /// its parsed form takes.
    #[test]
    fn parsed_statements_of_waiting_requests_take_memory_unless_they_are_small() {
        let requests = Requests::new(1 << 20, 1 << 10);
        let small = LARGE_STATEMENT_BYTES - 1;
        let taken = requests.wait(0, own(1 << 20)).unwrap();
        assert!(requests.wait(0, own(small)).is_ok());
        let refused = requests.wait(0, own(LARGE_STATEMENT_BYTES)).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Overloaded);
        drop(taken);
        let of_all = requests.wait(UNIT_BYTES, own(2 << 20)).unwrap();
        assert!(requests.wait(UNIT_BYTES, none()).is_err());
        drop(of_all);
        assert!(
            requests
                .wait(UNIT_BYTES, own(LARGE_STATEMENT_BYTES))
                .is_ok()
        );
    }

    /// Regression: the memory of a waiting request's statement was not counted if the statement was
    /// in the cache, and the cache dropped the statement while the request waited.
    #[test]
    fn a_statement_takes_memory_once_for_all_waiting_requests_that_have_it() {
        let requests = Requests::new(1 << 20, 1 << 10);
        let memories = [StatementMemory::default(), StatementMemory::default()];
        let wait = |memory: &[&StatementMemory], bytes: usize| {
            let statement = |shared| WaitingStatement {
                bytes,
                shared: Some(shared),
            };
            requests.wait(0, memory.iter().copied().map(statement))
        };
        let [a, b] = &memories;
        let first = wait(&[a, a], 512 << 10).unwrap();
        let second = wait(&[a], 512 << 10).unwrap();
        assert_eq!(free_bytes(&requests), 512 << 10);
        drop(first);
        assert_eq!(free_bytes(&requests), 512 << 10);
        let other = wait(&[b], 512 << 10).unwrap();
        assert_eq!(free_bytes(&requests), 0);
        // A small statement stays small, however often a batch has it.
        assert!(wait(&[&StatementMemory::default(); 10], 32 << 10).is_ok());
        drop(second);
        // Small statements count if they are large together, as in a batch.
        assert!(wait(&[a], 32 << 10).is_ok());
        let batch = wait(&[a, b], 32 << 10).unwrap();
        assert_eq!(free_bytes(&requests), (512 << 10) - (32 << 10));
        drop((other, batch));
        assert_eq!(free_bytes(&requests), 1 << 20);
        // More than all of the memory is all of it.
        let of_all = wait(&[a, b], 1 << 20).unwrap();
        assert_eq!(free_bytes(&requests), 0);
        assert!(wait(&[a], 1 << 20).is_ok());
        drop(of_all);
        assert_eq!(free_bytes(&requests), 1 << 20);
    }
}
