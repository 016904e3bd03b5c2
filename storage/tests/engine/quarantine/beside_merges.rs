//! Damaged files are rewritten while writers, flushes and merges go on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::common::*;
use ebb_storage::simulation::MemDisk;
use ebb_storage::{CompactionOptions, Db, LossReport, Maintenance, Options};
use rand::RngExt;

use super::{options, rewrite, tables};

/// The number of keys. All are written again and again, in the same order.
const ROWS: u32 = 5000;

/// Returns the key of the write `number`. The keys are scattered, so neighbouring keys are written
/// at different times.
fn row(number: u32) -> [u8; 4] {
    (number % ROWS).wrapping_mul(0x9E37_79B1).to_be_bytes()
}

fn lists(reports: &[LossReport], key: &[u8]) -> bool {
    let files = reports.iter().flat_map(|report| &report.files);
    let mut lost = files.flat_map(|file| &file.lost);
    lost.any(|lost| lost.concerns("app.users", key))
}

/// Merges go on while damage is listed and rewritten. They merge a part of a run at a time, so they
/// also change which keys belong to a run with a damaged file.
#[test]
fn each_key_that_is_not_listed_as_lost_has_the_value_of_its_last_write() {
    must_end(|| {
        let mem = MemDisk::new();
        let options = Options {
            maintenance: Maintenance::Background,
            memtable_bytes: 64 << 10,
            file_bytes: 8 << 10,
            compaction: CompactionOptions {
                part_bytes: 16 << 10,
                ..manual(&mem).compaction
            },
            ..options(&mem)
        };
        let db = Db::open(DIR, options).unwrap();
        let [users, _] = tables(&db);
        let (mut rng, mut reports) = (rng(1), Vec::new());
        let done = AtomicBool::new(false);
        let written = thread::scope(|scope| {
            let end = SetOnDrop(&done);
            let writer = scope.spawn(|| {
                let mut written = 0_u32;
                while !done.load(Ordering::Relaxed) {
                    users.put(&row(written), &written.to_be_bytes()).unwrap();
                    written += 1;
                }
                written
            });
            let mut rewritten = 0;
            while rewritten < 10 {
                let files = files(&mem, ".sst");
                let path = files.get(rng.random_range(0..files.len().max(1)));
                // Byte 24 is in the first data block, behind the header of 20 bytes. The file may be gone by
                // now, or not yet be so long.
                if path.is_some_and(|path| mem.flip_bit(path, 24, 0).is_ok()) {
                    let report = rewrite(&db).unwrap();
                    let is_rewritten = report.files.iter().filter(|file| file.is_rewritten);
                    rewritten += is_rewritten.count();
                    reports.push(report);
                }
            }
            drop(end);
            writer.join().unwrap()
        });
        loop {
            let report = rewrite(&db).unwrap();
            if report.files.is_empty() {
                break;
            }
            reports.push(report);
        }
        let last = written.saturating_sub(ROWS)..written;
        let is_kept = |number: &u32| !lists(&reports, &row(*number));
        let kept: Vec<_> = last.clone().filter(is_kept).collect();
        for &number in &kept {
            let found = users.get(&row(number)).unwrap().unwrap();
            assert_eq!(found, number.to_be_bytes()[..]);
        }
        assert!(2 * kept.len() > last.len(), "{} of {last:?}", kept.len());
        assert_eq!(db.verify_all(|_| ()).unwrap().findings, []);
        assert_eq!(db.stats().read_only_cause, None);
    });
}
