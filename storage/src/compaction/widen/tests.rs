use std::sync::Arc;

use super::*;
use crate::compaction::Reason;
use crate::key::{KeyRange, RunId, SeqNo};
use crate::runs::FileShape;

fn range(text: &str) -> KeyRange {
    let (from, to) = text.split_once('-').unwrap();
    KeyRange::spanning(from.as_bytes(), to.as_bytes())
}

/// "9:a-c,f-k" is run 9 with files of a to c and f to k; "9*" is busy; "9:x-z!" has
/// range tombstones over x to z.
fn run(text: &str) -> RunShape {
    let (id, pieces) = text.split_once(':').unwrap();
    let is_tombstone = |piece: &&str| piece.ends_with('!');
    let pieces = || pieces.split(',').filter(|piece| !piece.is_empty());
    let files = pieces().filter(|piece| !is_tombstone(piece));
    let files = files.map(|piece| FileShape {
        keys: range(piece),
        bytes: 10,
    });
    RunShape {
        id: RunId(id.trim_end_matches('*').parse().unwrap()),
        is_busy: id.ends_with('*'),
        files: files.collect(),
        range_tombstones: (pieces().find(is_tombstone)).map(|p| range(p.trim_end_matches('!'))),
        bytes: 10,
        entries: 1,
        keys: 1,
        tombstones: 0,
        overwrites: None,
        garbage_bytes: 0,
        smallest_seq: SeqNo(1),
        largest_seq: SeqNo(1),
    }
}

fn widened(table: &str, pick: &Pick) -> Result<Option<Widened>, Refusal> {
    let runs: Vec<_> = table.split_whitespace().map(run).collect();
    widen(
        pick,
        &TableShape {
            keyspace: "app",
            name: "users",
            runs: &runs,
            bookmarks: &[],
            is_idle: false,
        },
    )
}

fn pick(action: Action, runs: &[u64], keys: &str) -> Pick {
    Pick {
        action,
        runs: runs.iter().map(|&id| RunId(id)).collect(),
        keys: match keys {
            "all" => KeyRange::all(),
            "none" => KeyRange::new::<&[u8], _>(&b"m"[..]..&b"b"[..]),
            keys => range(keys),
        },
        reason: Reason::Count,
    }
}

fn neighbours(runs: Range<usize>) -> Result<Option<Widened>, Refusal> {
    Ok(Some(Widened {
        runs,
        drops: false,
        has_output: false,
    }))
}

#[test]
fn a_merge_is_widened_to_whole_neighbours() {
    let table = "9:a-c,f-k 7:n-q 4:a-z 2:a-z";
    for (runs, keys, places) in [
        (&[9][..], "all", 0..1),
        (&[4, 2], "all", 2..4),
        (&[2, 9, 4, 7], "all", 0..4),
        // 7 has nothing there, and comes along as long as runs are merged whole.
        (&[9, 4], "f-m", 0..3),
        (&[4, 9], "d-e", 0..3),
        (&[4], "p-q", 2..3),
    ] {
        let pick = pick(Action::Merge, runs, keys);
        assert_eq!(widened(table, &pick), neighbours(places), "{pick:?}");
    }
}

#[test]
fn what_cannot_be_right_is_refused() {
    use Action::*;
    use Refusal::*;
    let table = "9:a-c,f-k 7:n-q 6:,t-u! 4:a-z 3*:d-e 2:a-z";
    for (action, runs, keys, refusal) in [
        (Merge, &[][..], "all", NoRuns),
        (Merge, &[9, 4], "none", NoKeys),
        (Merge, &[9, 5], "all", Unknown(RunId(5))),
        (Merge, &[9, 4, 9], "all", Twice(RunId(9))),
        (Merge, &[4, 3], "all", Busy(RunId(3))),
        (Merge, &[9], "d-e", NothingThere),
        (Merge, &[9, 4], "all", Between(RunId(7))),
        (Merge, &[9, 7, 4], "s-v", Between(RunId(6))),
        (Move, &[9], "all", OneRunToMove),
        (Move, &[9, 7, 6, 4], "all", Overlap(RunId(9), RunId(4))),
        (Move, &[6, 4], "all", Overlap(RunId(6), RunId(4))),
        (Drop, &[9], "a-c", DropOfPart(RunId(9))),
        (Drop, &[6], "t-t", DropOfPart(RunId(6))),
        (Drop, &[3], "all", Busy(RunId(3))),
    ] {
        let pick = pick(action, runs, keys);
        assert_eq!(widened(table, &pick), Err(refusal), "{pick:?}");
        assert!(!refusal.to_string().is_empty());
    }
}

#[test]
fn a_pick_waits_for_a_merge_in_between_that_it_leaves_alone() {
    let pick = pick(Action::Merge, &[4, 2], "a-c");
    assert_eq!(widened("4:a-z 3*:d-e 2:a-z", &pick), Ok(None));
    assert_eq!(widened("4:a-z 3:d-e 2:a-z", &pick), neighbours(0..3));
}

#[test]
fn a_move_of_what_lies_beside_each_other_is_carried_out_by_merging() {
    for (table, runs, keys, places) in [
        ("9:a-c 7:d-e 4:f-g", &[9, 7][..], "all", 0..2),
        ("9:a-c 7:a-b 4:f-g", &[9, 4], "c-f", 0..3),
        ("9:a-c,m-p 4:b-d,q-z", &[4, 9], "e-z", 0..2),
    ] {
        let pick = pick(Action::Move, runs, keys);
        assert_eq!(widened(table, &pick), neighbours(places), "{pick:?}");
    }
}

#[test]
fn of_runs_to_drop_the_oldest_goes_first_and_nothing_beside_it() {
    let pick = pick(Action::Drop, &[9, 4], "a-p");
    let dropped = Widened {
        runs: 2..3,
        drops: true,
        has_output: false,
    };
    assert_eq!(
        widened("9:a-c 7:a-z 4:b-c,n-p 2:a-z", &pick),
        Ok(Some(dropped))
    );
}

/// A range of a file ends right behind its last key, and ranges are cut anywhere.
#[test]
fn a_run_has_something_where_its_files_and_range_tombstones_lie() {
    let run = run("9:c-e,h-k,p-p!");
    for (keys, overlaps, bytes) in [
        ("a-b", false, 0),
        ("a-c", true, 10),
        ("e-g", true, 10),
        ("f-g", false, 0),
        ("d-i", true, 20),
        ("l-o", false, 0),
        ("o-q", true, 0),
        ("q-z", false, 0),
    ] {
        let range = range(keys);
        assert_eq!(run.overlaps(&range), overlaps, "{keys}");
        assert_eq!(run.bytes_in(&range), bytes, "{keys}");
    }
    assert_eq!(run.bounds(), Some(range("c-p")));
    let none = Arc::from([]);
    let empty = RunShape {
        files: none,
        range_tombstones: None,
        ..run
    };
    assert_eq!(empty.bounds(), None);
}
