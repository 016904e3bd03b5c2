//! Counts of requests by opcode and of errors by code, and latencies of scans.
//!
//! Counting is one relaxed addition, in a shard of the thread, so that two threads seldom write to
//! the same cache line.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use ebb_colocate::Latencies;
use ebb_cql::protocol::{ErrorKind, Opcode};

/// The opcodes of requests.
const OPCODES: [u8; 8] = [0x01, 0x05, 0x07, 0x09, 0x0A, 0x0B, 0x0D, 0x0F];
/// The codes of errors.
const CODES: [i32; 14] = [
    0x0000, 0x000A, 0x0100, 0x1001, 0x1100, 0x1200, 0x1300, 0x1400, 0x2000, 0x2100, 0x2200, 0x2300,
    0x2400, 0x2500,
];
const SHARDS: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Traffic {
    shards: [Shard; SHARDS],
    /// The latencies of requests in [`Lane::Scan`](crate::call::Lane::Scan), until the response is
    /// ready.
    pub scans: Latencies,
    /// The latencies of requests in [`Lane::Range`](crate::call::Lane::Range), until the response
    /// is ready.
    pub ranges: Latencies,
}

/// Counts of the requests and errors of some threads. Each shard has cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    /// The number of requests by opcode. No request has opcode 0, so its counter counts all opcodes
    /// beyond the array.
    requests: [AtomicU64; 16],
    /// The number of errors by code, in the order of [`CODES`].
    errors: [AtomicU64; CODES.len()],
}

impl Traffic {
    /// Counts a received request.
    pub(super) fn request(&self, opcode: u8) {
        let requests = &self.shards[shard_of_thread()].requests;
        let count = requests.get(usize::from(opcode)).unwrap_or(&requests[0]);
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an error that is sent to a client.
    pub(super) fn error(&self, kind: &ErrorKind) {
        let code = kind.code();
        let place = CODES.iter().position(|known| *known == code);
        let count = &self.shards[shard_of_thread()].errors[place.unwrap_or(0)];
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of requests for each opcode that requests can have, with the opcode's
    /// name.
    pub(super) fn requests(&self) -> Vec<(&'static str, u64)> {
        let count = |opcode: &u8| {
            let name = Opcode::from_code(*opcode).map_or("OTHER", Opcode::name);
            let place = usize::from(*opcode);
            (name, self.sum(|shard| &shard.requests[place]))
        };
        OPCODES.iter().map(count).collect()
    }

    /// Returns the number of errors for each error code.
    pub(super) fn errors(&self) -> Vec<(i32, u64)> {
        let count = |place: usize| self.sum(|shard| &shard.errors[place]);
        (0..CODES.len())
            .map(|place| (CODES[place], count(place)))
            .collect()
    }

    fn sum(&self, count: impl Fn(&Shard) -> &AtomicU64) -> u64 {
        let counts = self.shards.iter().map(count);
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

fn shard_of_thread() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static SHARD: usize = THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS);
    SHARD.with(|shard| *shard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_errors_are_counted_by_kind_on_every_thread() {
        let traffic = Traffic::default();
        std::thread::scope(|scope| {
            for _ in 0..SHARDS + 1 {
                scope.spawn(|| {
                    for opcode in [0x07, 0x07, 0x0A, 0x02, 0xFF] {
                        traffic.request(opcode);
                    }
                    traffic.error(&ErrorKind::Overloaded);
                });
            }
        });
        let threads = SHARDS as u64 + 1;
        let requests = traffic.requests();
        for (name, count) in [("QUERY", 2), ("EXECUTE", 1), ("BATCH", 0)] {
            assert!(requests.contains(&(name, count * threads)), "{requests:?}");
        }
        let errors = traffic.errors();
        assert!(errors.contains(&(0x1001, threads)) && errors.contains(&(0x0000, 0)));
    }
}
