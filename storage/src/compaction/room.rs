//! Decides which merge fits on the disk. Its input and its output take space together until it is
//! done, and writers, flushes and other merges need space meanwhile.
//!
//! Pure: numbers in, a number out.

use super::estimate::merged;
use super::shape::RunShape;

/// A merge leaves 1 / `LEFT_FRACTION` of the free space to the log and to flushes.
const LEFT_FRACTION: u64 = 8;

/// Below the low-water mark a merge must free at least 1 / `GAIN_FRACTION` of the bytes that
/// it reads.
const GAIN_FRACTION: u64 = 8;

/// Returns the bytes that a new merge may write, if `free_bytes` are free and merges under way
/// may still need `reserved_bytes`.
pub(crate) fn room_bytes(free_bytes: u64, reserved_bytes: u64) -> u64 {
    let free_bytes = free_bytes.saturating_sub(reserved_bytes);
    free_bytes - free_bytes.div_ceil(LEFT_FRACTION)
}

/// Returns whether a merge of these runs frees so much that it may run although the free space is
/// below the low-water mark. If no merge could run there, the deletion of snapshots or rows would
/// free nothing.
///
/// # Panics
/// If there is no run.
pub(crate) fn gives_space_back(runs: &[RunShape]) -> bool {
    let bytes: u64 = runs.iter().map(|run| run.bytes).sum();
    let gain_bytes = bytes.saturating_sub(output_bytes(runs));
    gain_bytes >= bytes.div_ceil(GAIN_FRACTION)
}

/// Estimates the bytes that a merge of these runs writes: the bytes of the runs without their known
/// garbage and the versions that newer runs overwrite, which the merge drops.
pub(crate) fn output_bytes(runs: &[RunShape]) -> u64 {
    merged(runs).bytes
}

/// Returns the bytes that the next part of a merge of these runs needs on the disk, if a part ends
/// after `part_bytes`. The result is at most the whole output of the merge. Otherwise it is the sum
/// of:
///
/// - the output of the part;
/// - the input files in which the part ends, because they stay until a later part has read the rest
///   of them;
/// - the output of one more part: the space of merged files does not come back while readers hold
///   the files, and the next parts must not take all of the free space.
pub(crate) fn part_room_bytes(runs: &[RunShape], part_bytes: u64) -> u64 {
    let files = runs.iter().map(|run| run.largest_file_bytes);
    let cut = files.fold(0, u64::saturating_add);
    let with_cut = part_bytes.saturating_mul(2).saturating_add(cut);
    output_bytes(runs).min(with_cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{RunId, SeqNo};

    fn run(files: &[u64]) -> RunShape {
        RunShape {
            id: RunId(1),
            bytes: files.iter().sum(),
            largest_file_bytes: files.iter().copied().max().unwrap_or(0),
            entries: 10,
            keys: 10,
            tombstones: 0,
            overwrites: None,
            garbage_bytes: 0,
            smallest_seq: SeqNo(1),
            largest_seq: SeqNo(2),
            is_busy: false,
        }
    }

    #[test]
    fn a_merge_gives_space_back_if_an_eighth_of_what_it_reads_is_garbage() {
        let with_garbage = |garbage_bytes: u64| RunShape {
            garbage_bytes,
            ..run(&[400])
        };
        for (garbage, gives) in [([0, 0], false), ([0, 99], false), ([50, 50], true)] {
            let runs = garbage.map(with_garbage);
            assert_eq!(gives_space_back(&runs), gives, "{garbage:?}");
        }
    }

    #[test]
    fn a_merge_in_parts_needs_space_for_two_and_the_files_that_it_cuts() {
        let runs = [run(&[60, 70]), run(&[900, 20]), run(&[])];
        for (part_bytes, expected) in [
            (10, 2 * 10 + 70 + 900),
            (100, 1050),
            (u64::MAX, 1050),
            (0, 970),
        ] {
            assert_eq!(part_room_bytes(&runs, part_bytes), expected, "{part_bytes}");
        }
    }

    #[test]
    fn a_part_of_what_others_leave_is_there_for_a_merge() {
        for (free, reserved, room) in [
            (0, 0, 0),
            (1, 0, 0),
            (800, 0, 700),
            (800, 400, 350),
            (800, 800, 0),
            (800, 900, 0),
            (u64::MAX, 0, u64::MAX - (1 << 61)),
        ] {
            assert_eq!(room_bytes(free, reserved), room, "{free} and {reserved}");
        }
    }
}
