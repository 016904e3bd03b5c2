//! Loom models of the [`SkipList`]: see `loom_models`.

use super::super::node::height_of;
use super::*;
use crate::loom_models::{explore, spawn};

/// A function that inserts a version into the list: the real one, or one with a deliberate fault.
/// The key is also the value.
type Insert = fn(&SkipList, &[u8], SeqNo);

fn insert(list: &SkipList, key: &[u8], seq: SeqNo) {
    list.insert(key, seq, Kind::Put, key, Bytes::copy_from_slice);
}

fn write<'a>(list: &'a SkipList, key: &[u8], seq: SeqNo) -> Unlinked<'a> {
    let header = Header::new(key, seq, Kind::Put, key, false);
    let piece = list.arena.allocate(header.node_bytes());
    list.write(piece, header, key, key, None)
}

/// Returns, for each level of the list, the two neighbours of the place at which the version
/// belongs: the node before it (or the head), and the entry after it, if there is one.
fn places<'a>(
    list: &'a SkipList,
    key: &[u8],
    seq: SeqNo,
) -> [(Tower<'a>, Option<Entry<'a>>); HEIGHT_MAX] {
    let target = Target::new(key, seq);
    let mut places = [(list.head(), None); HEIGHT_MAX];
    list.descend(
        |other| target.is_after(other),
        |level, before, after| places[level] = (before, after),
    );
    places
}

/// Returns, ascending and without end, the sequence numbers whose nodes are linked on all levels of
/// the list. (Under loom, a list has two levels.)
fn tall() -> impl Iterator<Item = SeqNo> {
    (1..).map(SeqNo).filter(|seq| height_of(*seq) == HEIGHT_MAX)
}

/// Returns the keys in the list, and asserts that they are in order and each version is complete.
fn keys(list: &SkipList) -> Vec<&[u8]> {
    let keys: Vec<_> = list
        .iter()
        .map(|entry| (entry.key(), entry.value()))
        .collect();
    assert!(keys.is_sorted(), "out of order");
    assert!(
        keys.iter().all(|(key, value)| key == value),
        "half a version"
    );
    keys.into_iter().map(|(key, _)| key).collect()
}

/// Model: two threads insert the neighbouring keys `a` and `b` before `c`, which is in the list
/// already, while a third thread reads. All nodes have all levels. Panics if the reader finds an
/// incomplete version, or if a node is not linked on one of the levels in the end. `insert_one` is
/// the function under test.
fn neighbours(insert_one: Insert) {
    explore(move || {
        let list = Arc::new(SkipList::default());
        let mut seqs = tall();
        insert(&list, b"c", seqs.next().unwrap());
        let writers = [b"a", b"b"].map(|key| {
            let seq = seqs.next().unwrap();
            spawn(&list, move |list| insert_one(list, key, seq))
        });
        // From the top, then along the lowest level.
        let behind = list.seek(b"c", SeqNo::MAX).expect("c is there");
        assert_eq!(behind.key(), b"c");
        let found = list.seek_before(b"c", SeqNo::MAX);
        let seen = keys(&list);
        if let Some(found) = found {
            assert_eq!(found.value(), found.key(), "half a version");
            assert!(seen.contains(&found.key()), "what was seen is gone");
        }
        for writer in writers {
            writer.join().unwrap();
        }
        assert_eq!(keys(&list), [b"a", b"b", b"c"], "a version is lost");
        for level in 0..HEIGHT_MAX {
            let on_level =
                std::iter::successors(list.head().next(level), |entry| entry.tower().next(level));
            assert_eq!(on_level.count(), 3, "a version is not on its level");
        }
    });
}

/// A version that a reader finds is complete; no version is lost, and all are in order.
#[test]
fn loom_neighbours_are_inserted_beside_a_reader() {
    neighbours(insert);
}

/// Deliberate fault: the link to a new version is stored without Release, so that a reader may find
/// a node that is not written yet.
#[test]
#[should_panic(expected = "Causality violation")]
fn loom_a_version_linked_without_release_is_caught() {
    neighbours(|list, key, seq| list.link(write(list, key, seq), Ordering::Relaxed));
}

/// Deliberate fault: a link is set without a check that it has not changed since it was read.
#[test]
#[should_panic(expected = "a version is")]
fn loom_a_link_set_without_comparing_is_caught() {
    neighbours(|list, key, seq| {
        let entry = write(list, key, seq).entry;
        for (level, (before, after)) in places(list, key, seq).into_iter().enumerate() {
            let link = entry.tower().link(level);
            link.store(pointer(after), Ordering::Relaxed);
            let pointer = entry.node.as_ptr();
            before.link(level).store(pointer, Ordering::Release);
        }
    });
}

/// Deliberate fault: a version is linked from the top level down. Another writer that finds it on
/// the upper level descends from there. On the lowest level, on which the first version is not
/// linked yet, that writer links its own version behind the first one, and this link is then lost.
#[test]
#[should_panic(expected = "a version is lost")]
fn loom_a_version_linked_from_the_top_is_caught() {
    neighbours(|list, key, seq| {
        let entry = write(list, key, seq).entry;
        for level in (0..HEIGHT_MAX).rev() {
            while {
                let (before, after) = places(list, key, seq)[level];
                let (expected, pointer) = (pointer(after), entry.node.as_ptr());
                entry.tower().link(level).store(expected, Ordering::Relaxed);
                let link = before.link(level);
                let (done, failed) = (Ordering::Release, Ordering::Relaxed);
                link.compare_exchange(expected, pointer, done, failed)
                    .is_err()
            } {}
        }
    });
}

/// Model: two readers of one operand use its fold (the stored result of merging the operand with
/// all older versions), or store the fold if there is none. Meanwhile a writer inserts the next
/// operand. `publish` is the memory order with which the fold is linked.
fn folds(publish: Ordering) {
    explore(move || {
        let list = Arc::new(SkipList::default());
        list.insert(b"k", SeqNo(1), Kind::Merge, b"1", Bytes::copy_from_slice);
        let read = move |list: &SkipList| {
            let operand = list.seek(b"k", SeqNo(1)).expect("it is there");
            match operand.fold() {
                Some(fold) => assert_eq!((fold.seq(), fold.value()), (SeqNo(1), &b"all"[..])),
                None => {
                    list.publish_fold(operand, Kind::Put, b"all", publish);
                }
            }
        };
        let other = spawn(&list, read);
        let writer = spawn(&list, |list| {
            list.insert(b"k", SeqNo(2), Kind::Merge, b"2", Bytes::copy_from_slice);
        });
        read(&list);
        other.join().unwrap();
        writer.join().unwrap();
        let seqs: Vec<_> = list.iter().map(|entry| entry.seq().0).collect();
        assert_eq!(seqs, [2, 1], "a fold is no version");
        let folds: Vec<_> = list.iter().map(|entry| entry.fold().is_some()).collect();
        assert_eq!(folds, [false, true], "a fold is with its operand");
    });
}

/// While one reader stores a fold (the merged value of an operand and older versions), another
/// reader finds no fold or a complete one.
#[test]
fn loom_a_fold_is_left_beside_readers_and_a_writer() {
    folds(Ordering::Release);
}

/// Deliberate fault: the link to a fold (the stored result of merging operands) is set without
/// Release, so that a reader may find a fold that is not written yet.
#[test]
#[should_panic(expected = "Causality violation")]
fn loom_a_fold_left_without_release_is_caught() {
    folds(Ordering::Relaxed);
}
