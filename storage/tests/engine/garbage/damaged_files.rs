//! Deletions beside a damaged file that may hold what they delete.

use super::{Bench, KNOWS};
use crate::common::{FailedAt, copy_dir, damage_file, files};

#[test]
fn a_deletion_stays_beside_a_damaged_file_that_may_have_what_it_deletes() {
    for deletion in ["a1", "a-"] {
        for is_older in [true, false] {
            for is_whole in [true, false] {
                let _place = FailedAt(format!("{deletion}, {is_older}, {is_whole}"));
                check(deletion, is_older, is_whole);
            }
        }
    }
}

/// Checks that a row whose file is damaged stays deleted. Its deletion, a write to the key
/// `deletion`, is in another run, which is merged after the grace period; then the damaged file is
/// restored. `is_older`: the damaged file is older than the deletion. `is_whole`: the whole file is
/// damaged, not just a block.
fn check(deletion: &str, is_older: bool, is_whole: bool) {
    let bench = Bench::new();
    let delete = || {
        bench.delete(deletion, 95);
        bench.flush();
    };
    if !is_older {
        delete();
    }
    bench.write("a1", 90);
    bench.flush();
    let path = files(&bench.mem, ".sst").pop().unwrap();
    if is_older {
        delete();
    }
    bench.db.backup("/linked").unwrap();
    copy_dir(&bench.mem, "/linked", "/copied");
    damage_file(&bench.mem, &path, is_whole);

    let bench = bench.reopened(KNOWS);
    // A bad block is not known until a merge meets it.
    bench.merge(0..2);
    assert_eq!(bench.db.stats().tables[0].quarantine.len(), 1);
    bench.wait_for_grace();
    let place = usize::from(!is_older);
    bench.merge(place..place + 1);
    assert_eq!(bench.db.restore("/copied").unwrap().restored.len(), 1);
    assert_eq!(bench.live("a"), 0);
    bench.merge(0..2);
    assert_eq!(bench.live("a"), 0);
}

/// Regression: a file that does not open counted as having the least of all timestamps, so the
/// deletions of its keys stayed for as long as it was damaged.
#[test]
fn a_deletion_goes_beside_a_damaged_file_of_later_writes() {
    let bench = Bench::new();
    bench.write("a1", 99);
    bench.flush();
    let path = files(&bench.mem, ".sst").pop().unwrap();
    bench.delete("a1", 95);
    bench.flush();
    bench.db.backup("/linked").unwrap();
    copy_dir(&bench.mem, "/linked", "/copied");
    damage_file(&bench.mem, &path, true);

    let bench = bench.reopened(KNOWS);
    bench.wait_for_grace();
    bench.merge(0..1);
    let stats = bench.db.stats();
    let table = &stats.tables[0];
    assert_eq!((table.runs.len(), table.quarantine.len()), (1, 1));
    assert_eq!(table.runs[0].damaged_files, 1);
    assert_eq!(bench.db.restore("/copied").unwrap().restored.len(), 1);
    assert_eq!(bench.live("a"), 1);
}
