//! Loom models of the [`Arena`]: see `loom_models`.

use loom::thread;

use super::*;
use crate::loom_models::explore;

/// The size of each allocation, in bytes. The first chunk has room for one and a half of them, so the
/// second allocation needs a new chunk.
const PIECE_BYTES: usize = 2 * (FIRST_CHUNK_BYTES - HEAD_BYTES) / 3 / ALIGN_BYTES * ALIGN_BYTES;

/// Makes three threads allocate a piece each, at the same time.
fn three_pieces(allocate: fn(&Arena) -> NonNull<u8>) {
    explore(move || {
        let arena = Arc::new(Arena::default());
        let others = [(); 2].map(|()| {
            let arena = arena.clone();
            thread::spawn(move || allocate(&arena).addr().get())
        });
        let mut starts = vec![allocate(&arena).addr().get()];
        starts.extend(others.map(|other| other.join().unwrap()));
        starts.sort_unstable();
        let apart = |pair: &[usize]| pair[1] - pair[0] >= PIECE_BYTES;
        assert!(starts.windows(2).all(apart), "two pieces share bytes");
        let chunks = arena.chunks.lock().unwrap();
        assert_eq!(chunks.len(), 2, "as many chunks as are needed");
        let within = |&start: &usize| {
            chunks.iter().any(|chunk| {
                let first = chunk.start().addr().get();
                first + HEAD_BYTES <= start && start + PIECE_BYTES <= first + chunk.bytes()
            })
        };
        assert!(starts.iter().all(within), "a piece is not in a chunk");
    });
}

/// No byte is allocated twice while several threads take pieces and add chunks.
#[test]
fn loom_pieces_of_memory_share_no_byte() {
    three_pieces(|arena| arena.allocate(PIECE_BYTES));
}

/// Deliberate fault: an allocation reads and sets the number of used bytes in
/// two steps.
#[test]
#[should_panic(expected = "two pieces share bytes")]
fn loom_a_piece_taken_in_two_steps_is_caught() {
    three_pieces(|arena| {
        loop {
            let newest = arena.newest.load(Ordering::Acquire);
            if let Some(head) = NonNull::new(newest) {
                // SAFETY: as in `take`.
                let (bytes, used) = unsafe { (head.as_ref().bytes, &head.as_ref().used) };
                let at = used.load(Ordering::Relaxed);
                if at + PIECE_BYTES <= bytes {
                    used.store(at + PIECE_BYTES, Ordering::Relaxed);
                    // SAFETY: within the chunk.
                    return unsafe { head.cast::<u8>().add(at) };
                }
            }
            arena.add_chunk(newest, PIECE_BYTES);
        }
    });
}
