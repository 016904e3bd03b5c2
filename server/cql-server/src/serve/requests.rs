//! The memory of requests that are not served yet, and the turns of large ones.
//!
//! ```text
//!   bytes of an incomplete request ──> memory for received bytes
//!   a large, complete frame ─────────> turn ──> decoded and served beside the serving threads
//!   a request that waits for its lane ──> memory for waiting requests: frame and parsed statements
//! ```
//!
//! The two memories are separate, so that clients which send half of a request do not delay
//! complete requests. Small requests need no memory, and are never rejected for lack of it. The
//! statements count because a parsed statement may take a hundred times the memory of its text.

use std::sync::Arc;

use ebb_cql::protocol::ErrorResponse;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use super::replies::overloaded;

/// The uncompressed size from which a request is large: decompressing and parsing it takes longer
/// than other requests should wait. Connections with at most this many received bytes take no memory
/// from [`Requests`].
pub(super) const LARGE_BYTES: usize = 64 << 10;
/// The size from which the parsed statements of a waiting request take memory from [`Requests`].
const LARGE_STATEMENT_BYTES: usize = 64 << 10;
/// The unit in which memory is taken from [`Requests`]. Waiting frames with shorter bodies take none.
const UNIT_BYTES: usize = 4 << 10;

/// The memory for requests that are not served yet, and the permits to serve large requests, shared
/// by all connections.
pub(super) struct Requests {
    received: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    /// The number of permits of `waiting` in all, taken or free. Each stands for [`UNIT_BYTES`] of
    /// memory.
    waiting_units: u32,
    turns: Semaphore,
}

/// The memory that a request has taken. Dropping this frees the memory.
#[derive(Debug, Default)]
pub(super) struct RequestMemory(Option<OwnedSemaphorePermit>);

impl RequestMemory {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl Requests {
    /// Provides `bytes_max` of memory for received bytes and the same for waiting requests, but at
    /// least twice the longest body each. `threads` is the number of threads that serve
    /// connections.
    pub(super) fn new(bytes_max: usize, body_bytes_max: usize, threads: usize) -> Self {
        let bytes_max = bytes_max.max(body_bytes_max.saturating_mul(2));
        let units = (bytes_max / UNIT_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        Self {
            received: Arc::new(Semaphore::new(units)),
            waiting: Arc::new(Semaphore::new(units)),
            waiting_units: u32::try_from(units).unwrap_or(u32::MAX),
            // At least half of the threads go on serving.
            turns: Semaphore::new((threads / 2).max(1)),
        }
    }

    /// Takes memory for a request that waits for another thread (in a lane): for its frame, with a
    /// body of `body_bytes`, and for the `statement_bytes` of its parsed statements, if no cache
    /// has them. If they need more than all of the memory, it takes all.
    ///
    /// # Errors
    /// OVERLOADED, if other requests have taken the memory.
    pub(super) fn wait(
        &self,
        body_bytes: usize,
        statement_bytes: usize,
    ) -> Result<RequestMemory, ErrorResponse> {
        let counted = |bytes: usize, least: usize| if bytes < least { 0 } else { bytes };
        let bytes = counted(body_bytes, UNIT_BYTES)
            .saturating_add(counted(statement_bytes, LARGE_STATEMENT_BYTES));
        if bytes == 0 {
            return Ok(RequestMemory::default());
        }
        let wanted = units(bytes).min(self.waiting_units);
        match (self.waiting.clone()).try_acquire_many_owned(wanted) {
            Ok(permit) => Ok(RequestMemory(Some(permit))),
            Err(_) => Err(overloaded()),
        }
    }

    /// Adjusts `held` to the received bytes of an incomplete frame. Waits while other connections
    /// have taken all memory.
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

    /// Waits until the request, which is large, may be decoded and served. Only a few large
    /// requests run at once.
    pub(super) async fn turn(&self) -> SemaphorePermit<'_> {
        (self.turns.acquire().await).expect("the semaphore is not closed")
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ebb_cql::protocol::ErrorKind;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn memory_is_taken_as_bytes_arrive_and_freed_when_they_are_served() {
        let requests = Requests::new(1 << 20, 1 << 10, 2);
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

    #[test]
    fn a_waiting_frame_is_rejected_without_memory_unless_it_is_short() {
        let requests = Requests::new(1 << 20, 1 << 10, 2);
        let taken = requests.wait(1 << 20, 0).unwrap();
        let refused = requests.wait(UNIT_BYTES, 0).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Overloaded);
        assert!(requests.wait(UNIT_BYTES - 1, 0).unwrap().is_empty());
        drop(taken);
        assert!(requests.wait(UNIT_BYTES, 0).is_ok());
    }

    /// Regression: only the text of a waiting statement counted, which may be a hundredth of what
    /// its parsed form takes.
    #[test]
    fn parsed_statements_of_waiting_requests_take_memory_unless_they_are_small() {
        let requests = Requests::new(1 << 20, 1 << 10, 2);
        let small = LARGE_STATEMENT_BYTES - 1;
        assert!(requests.wait(0, small).unwrap().is_empty());
        let taken = requests.wait(0, 1 << 20).unwrap();
        assert!(requests.wait(0, small).is_ok());
        let refused = requests.wait(0, LARGE_STATEMENT_BYTES).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Overloaded);
        drop(taken);
        let of_all = requests.wait(UNIT_BYTES, 2 << 20).unwrap();
        assert!(requests.wait(UNIT_BYTES, 0).is_err());
        drop(of_all);
        assert!(requests.wait(UNIT_BYTES, LARGE_STATEMENT_BYTES).is_ok());
    }
}
