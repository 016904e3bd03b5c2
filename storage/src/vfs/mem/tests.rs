//! The simulated disk's own rules: what a power loss leaves, and what the
//! controls do. What it shares with a real disk is tested beside the trait.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

use super::*;

const SEEDS: std::ops::Range<u64> = 0..200;

fn path(name: &str) -> &Path {
    Path::new(name)
}

/// Creates a file and appends, syncing nothing.
fn append_new(vfs: &MemVfs, name: &str, bytes: &[u8]) -> Box<dyn WriteFile> {
    let mut file = vfs.create(path(name)).unwrap();
    file.append(bytes).unwrap();
    file
}

/// A file whose bytes and name are durable.
fn durable(vfs: &MemVfs, name: &str, bytes: &[u8]) -> Box<dyn WriteFile> {
    let mut file = append_new(vfs, name, bytes);
    file.sync().unwrap();
    vfs.sync_dir(path(name).parent().unwrap()).unwrap();
    file
}

fn kind<T>(result: io::Result<T>) -> ErrorKind {
    result.err().expect("an error").kind()
}

/// Every outcome some seed draws for `look`, after `history` and a crash.
fn outcomes<T: Ord>(history: impl Fn(&MemVfs), look: impl Fn(&MemVfs) -> T) -> BTreeSet<T> {
    SEEDS
        .map(|seed| {
            let vfs = MemVfs::new();
            history(&vfs);
            vfs.restart(seed);
            look(&vfs)
        })
        .collect()
}

fn content(name: &str) -> impl Fn(&MemVfs) -> Option<Vec<u8>> {
    move |vfs| vfs.read_all(name).ok()
}

#[test]
fn unsynced_bytes_may_vanish_synced_bytes_never() {
    let found = outcomes(
        |vfs| {
            let mut file = durable(vfs, "/a", &[1; 700]);
            file.append(&[2; 2000]).unwrap();
        },
        |vfs| vfs.read_all("/a").unwrap(),
    );
    for bytes in &found {
        assert!((700..=2700).contains(&bytes.len()));
        assert_eq!(bytes[..700], [1; 700]);
    }
    assert!(found.iter().any(|bytes| bytes.len() == 700));
    assert!(found.iter().any(|bytes| bytes[700..] == [2; 2000]));
}

#[test]
fn unsynced_sectors_survive_one_by_one_and_lost_ones_read_as_zeros() {
    let found = outcomes(
        |vfs| {
            let mut file = durable(vfs, "/a", &[1; 100]);
            file.append(&[2; 1948]).unwrap();
        },
        |vfs| vfs.read_all("/a").unwrap(),
    );
    for bytes in &found {
        for sector in bytes[100..].chunk_by(|a, b| a == b) {
            assert!(sector[0] == 0 || sector[0] == 2);
        }
        // Only at a sector's edge does kept turn into lost.
        for at in 101..bytes.len() {
            assert!(bytes[at - 1] == bytes[at] || at % 512 == 0, "torn at {at}");
        }
    }
    let lost_before_kept =
        |bytes: &&Vec<u8>| bytes.len() > 512 && bytes[511] == 0 && bytes[512] == 2;
    assert!(found.iter().any(|bytes| lost_before_kept(&bytes)));
}

#[test]
fn sync_through_a_syncer_covers_the_writer() {
    let found = outcomes(
        |vfs| {
            let mut file = durable(vfs, "/a", b"");
            let syncer = file.syncer().unwrap();
            file.append(b"abc").unwrap();
            syncer.sync().unwrap();
        },
        content("/a"),
    );
    assert_eq!(found, BTreeSet::from([Some(b"abc".to_vec())]));
}

#[test]
fn synced_file_may_be_lost_whole_until_its_directory_is_synced() {
    let found = outcomes(
        |vfs| append_new(vfs, "/a", b"abc").sync().unwrap(),
        content("/a"),
    );
    assert_eq!(found, BTreeSet::from([None, Some(b"abc".to_vec())]));
}

#[test]
fn rename_is_atomic_and_not_durable_before_sync_dir() {
    let history = |vfs: &MemVfs| {
        durable(vfs, "/CURRENT", b"old");
        durable(vfs, "/tmp", b"new");
        vfs.rename(path("/tmp"), path("/CURRENT")).unwrap();
    };
    let look = |vfs: &MemVfs| (content("/CURRENT")(vfs), content("/tmp")(vfs));
    let (old, new) = (Some(b"old".to_vec()), Some(b"new".to_vec()));
    assert_eq!(
        outcomes(history, look),
        BTreeSet::from([(old, new.clone()), (new.clone(), None)])
    );

    let synced = |vfs: &MemVfs| {
        history(vfs);
        vfs.sync_dir(path("/")).unwrap();
    };
    assert_eq!(outcomes(synced, look), BTreeSet::from([(new, None)]));
}

#[test]
fn removed_file_may_be_back_until_its_directory_is_synced() {
    let history = |vfs: &MemVfs| {
        durable(vfs, "/a", b"abc");
        vfs.remove(path("/a")).unwrap();
    };
    let back = Some(b"abc".to_vec());
    assert_eq!(
        outcomes(history, content("/a")),
        BTreeSet::from([None, back])
    );
    let synced = |vfs: &MemVfs| {
        history(vfs);
        vfs.sync_dir(path("/")).unwrap();
    };
    assert_eq!(outcomes(synced, content("/a")), BTreeSet::from([None]));
}

#[test]
fn a_linked_name_may_be_lost_until_its_directory_is_synced_and_its_bytes_stay() {
    let history = |sync: bool| {
        move |vfs: &MemVfs| {
            vfs.create_dir_all(path("/b")).unwrap();
            durable(vfs, "/a", b"x");
            vfs.link(path("/a"), path("/b/a")).unwrap();
            if sync {
                vfs.sync_dir(path("/b")).unwrap();
            }
            vfs.remove(path("/a")).unwrap();
            vfs.sync_dir(path("/")).unwrap();
        }
    };
    let bytes = Some(b"x".to_vec());
    let unsynced = outcomes(history(false), content("/b/a"));
    assert_eq!(unsynced, BTreeSet::from([None, bytes.clone()]));
    assert_eq!(outcomes(history(true), content("/b/a")), [bytes].into());
    assert_eq!(outcomes(history(true), content("/a")), [None].into());
}

#[test]
fn a_linked_file_takes_space_once_and_until_its_last_name_goes() {
    let vfs = MemVfs::new();
    drop(durable(&vfs, "/a", &[1; 100]));
    vfs.link(path("/a"), path("/b")).unwrap();
    assert_eq!(vfs.used_bytes(), 100);
    vfs.remove(path("/a")).unwrap();
    assert_eq!(vfs.used_bytes(), 100);
    vfs.remove(path("/b")).unwrap();
    assert_eq!(vfs.used_bytes(), 0);
}

#[test]
fn names_of_one_directory_survive_in_their_order() {
    let found = outcomes(
        |vfs| {
            for name in ["/1", "/2", "/3"] {
                append_new(vfs, name, b"");
            }
            vfs.remove(path("/1")).unwrap();
        },
        |vfs| ["/1", "/2", "/3"].map(|name| vfs.exists(path(name)).unwrap()),
    );
    let prefixes = [
        [false, false, false],
        [true, false, false],
        [true, true, false],
        [true, true, true],
        [false, true, true],
    ];
    assert_eq!(found, BTreeSet::from(prefixes));
}

#[test]
fn directories_lose_and_sync_their_names_independently() {
    let history = |vfs: &MemVfs| {
        vfs.create_dir_all(path("/x")).unwrap();
        vfs.create_dir_all(path("/y")).unwrap();
        append_new(vfs, "/x/a", b"");
        append_new(vfs, "/y/a", b"");
    };
    let look = |vfs: &MemVfs| ["/x/a", "/y/a"].map(|name| vfs.exists(path(name)).unwrap());
    assert_eq!(outcomes(history, look).len(), 4);

    let synced = |vfs: &MemVfs| {
        history(vfs);
        vfs.sync_dir(path("/y")).unwrap();
    };
    assert_eq!(
        outcomes(synced, look),
        BTreeSet::from([[false, true], [true, true]])
    );
}

#[test]
fn rename_between_directories_is_never_half_done() {
    let history = |vfs: &MemVfs| {
        vfs.create_dir_all(path("/x")).unwrap();
        vfs.create_dir_all(path("/y")).unwrap();
        durable(vfs, "/x/a", b"");
        append_new(vfs, "/x/before", b"");
        vfs.rename(path("/x/a"), path("/y/a")).unwrap();
        append_new(vfs, "/x/after", b"");
    };
    let look = |vfs: &MemVfs| {
        ["/x/a", "/y/a", "/x/before", "/x/after"].map(|name| vfs.exists(path(name)).unwrap())
    };
    for [at_x, at_y, before, after] in outcomes(history, look) {
        assert!(at_x != at_y);
        assert!(before || at_x);
        assert!(at_y || !after);
    }
    // Syncing the one directory commits the rename in both, and no more.
    let synced = |vfs: &MemVfs| {
        history(vfs);
        vfs.sync_dir(path("/y")).unwrap();
    };
    assert_eq!(
        outcomes(synced, look),
        BTreeSet::from([[false, true, true, false], [false, true, true, true]])
    );
}

#[test]
fn create_over_a_file_may_be_undone_until_the_file_is_synced() {
    let history = |vfs: &MemVfs| {
        durable(vfs, "/a", b"old");
        append_new(vfs, "/a", b"new");
    };
    let found = outcomes(history, content("/a"));
    for wanted in ["old", "new", ""] {
        assert!(found.contains(&Some(wanted.into())), "{wanted:?}");
    }
    let synced = |vfs: &MemVfs| {
        durable(vfs, "/a", b"old");
        append_new(vfs, "/a", b"new").sync().unwrap();
    };
    assert_eq!(
        outcomes(synced, content("/a")),
        BTreeSet::from([Some(b"new".to_vec())])
    );
}

#[test]
fn truncate_is_durable_when_it_returns() {
    let found = outcomes(
        |vfs| {
            durable(vfs, "/a", b"abc").append(b"def").unwrap();
            vfs.truncate(path("/a"), 4).unwrap();
        },
        content("/a"),
    );
    assert_eq!(found, BTreeSet::from([Some(b"abcd".to_vec())]));
}

#[test]
fn truncate_cut_short_by_a_crash_happened_or_did_not() {
    let found = outcomes(
        |vfs| {
            durable(vfs, "/a", b"abcdef");
            vfs.crash_at(1);
            vfs.truncate(path("/a"), 2).unwrap_err();
        },
        content("/a"),
    );
    let (cut, whole) = (b"ab".to_vec(), b"abcdef".to_vec());
    assert_eq!(found, BTreeSet::from([Some(cut), Some(whole)]));
}

#[test]
fn create_dir_all_is_durable_at_once_and_a_crash_in_it_leaves_a_prefix() {
    let dirs = ["/x", "/x/y", "/x/y/z"];
    let look = |vfs: &MemVfs| dirs.map(|dir| vfs.exists(path(dir)).unwrap());
    assert_eq!(
        outcomes(|vfs| vfs.create_dir_all(path("/x/y/z")).unwrap(), look),
        BTreeSet::from([[true; 3]])
    );
    let crashed = |vfs: &MemVfs| {
        vfs.crash_at(1);
        vfs.create_dir_all(path("/x/y/z")).unwrap_err();
    };
    let prefixes = [
        [false, false, false],
        [true, false, false],
        [true, true, false],
        [true, true, true],
    ];
    assert_eq!(outcomes(crashed, look), BTreeSet::from(prefixes));
}

#[test]
fn what_survived_one_power_loss_survives_the_next() {
    for seed in SEEDS {
        let vfs = MemVfs::new();
        append_new(&vfs, "/a", &[7; 3000]);
        durable(&vfs, "/b", b"").append(&[7; 3000]).unwrap();
        let look = || (content("/a")(&vfs), content("/b")(&vfs));
        vfs.restart(seed);
        let first = look();
        vfs.restart(seed + 1);
        assert_eq!(look(), first, "seed {seed}");
    }
}

#[test]
fn equal_seeds_leave_equal_disks() {
    let disk = |seed| {
        let vfs = MemVfs::new();
        for i in 0..20 {
            append_new(&vfs, &format!("/{i}"), &[i; 5000]);
        }
        vfs.restart(seed);
        (0..20)
            .map(|i| vfs.read_all(format!("/{i}")).ok())
            .collect()
    };
    let disks: BTreeSet<Vec<Option<Vec<u8>>>> = SEEDS.map(disk).collect();
    assert!(disks.len() > 100);
    for seed in SEEDS {
        assert_eq!(disk(seed), disk(seed), "seed {seed}");
    }
}

#[test]
fn crash_at_fails_the_nth_call_and_all_later_ones_until_restart() {
    let vfs = MemVfs::new();
    let mut file = durable(&vfs, "/a", b"abc");
    let reader = vfs.open_read(path("/a")).unwrap();
    vfs.crash_at(2);
    assert_eq!(reader.len().unwrap(), 3);
    assert!(vfs.has_power());
    let error = file.append(b"d").unwrap_err();
    assert_eq!(error.to_string(), "simulated power loss");
    assert!(!vfs.has_power());

    let calls = vfs.io_calls();
    assert_eq!(kind(file.sync()), ErrorKind::Other);
    assert_eq!(kind(file.syncer()), ErrorKind::Other);
    assert_eq!(kind(reader.read_exact_at(&mut [0], 0)), ErrorKind::Other);
    assert_eq!(kind(vfs.open_read(path("/a"))), ErrorKind::Other);
    assert_eq!(kind(vfs.list(path("/"))), ErrorKind::Other);
    assert_eq!(kind(vfs.create_dir_all(path("/x"))), ErrorKind::Other);
    assert_eq!(vfs.io_calls(), calls);

    vfs.restart(0);
    assert!(vfs.exists(path("/a")).unwrap());
}

#[test]
fn crashing_call_hides_its_own_error() {
    let vfs = MemVfs::new();
    let calls: [fn(&MemVfs) -> io::Result<()>; 4] = [
        |vfs| vfs.truncate(path("/none"), 0),
        |vfs| vfs.remove(path("/none")),
        |vfs| vfs.sync_dir(path("/none")),
        |vfs| vfs.create(path("/none/a")).map(drop),
    ];
    for call in calls {
        vfs.crash_at(1);
        assert_eq!(kind(call(&vfs)), ErrorKind::Other);
        vfs.restart(0);
    }
}

#[test]
fn old_handles_fail_after_restart() {
    let vfs = MemVfs::new();
    let mut writer = durable(&vfs, "/a", b"abc");
    let syncer = writer.syncer().unwrap();
    let reader = vfs.open_read(path("/a")).unwrap();
    vfs.restart(0);

    assert_eq!(kind(writer.append(b"x")), ErrorKind::Other);
    assert_eq!(kind(writer.sync()), ErrorKind::Other);
    assert_eq!(kind(syncer.sync()), ErrorKind::Other);
    assert_eq!(kind(reader.read_exact_at(&mut [0], 0)), ErrorKind::Other);
    assert_eq!(kind(reader.len()), ErrorKind::Other);
    assert_eq!(vfs.read_all("/a").unwrap(), b"abc");

    // Nor do they let go of what is open or held since.
    let new_reader = vfs.open_read(path("/a")).unwrap();
    vfs.remove(path("/a")).unwrap();
    vfs.sync_dir(path("/")).unwrap();
    drop((writer, syncer, reader));
    assert_eq!(new_reader.len().unwrap(), 3);
}

#[test]
fn restart_frees_locks_and_a_guard_of_before_frees_nothing() {
    let vfs = MemVfs::new();
    let old = vfs.lock(path("/LOCK")).unwrap();
    vfs.restart(0);
    let _new = vfs.lock(path("/LOCK")).unwrap();
    drop(old);
    assert_eq!(kind(vfs.lock(path("/LOCK"))), ErrorKind::WouldBlock);
}

/// Writes records 1, 2, ... to a log that is replaced, whole, at every fourth;
/// calls `acknowledge` with each record that is safe.
fn run_log(vfs: &MemVfs, mut acknowledge: impl FnMut(u8)) -> io::Result<()> {
    let (log, tmp, root) = (path("/log"), path("/tmp"), path("/"));
    let mut all = Vec::new();
    let mut file = None;
    for record in 1..=10_u8 {
        let bytes = [record; 300];
        all.extend_from_slice(&bytes);
        match &mut file {
            Some(file) if record % 4 != 0 => {
                let file: &mut Box<dyn WriteFile> = file;
                file.append(&bytes)?;
                file.sync()?;
            }
            _ => {
                let mut new = vfs.create(tmp)?;
                new.append(&all)?;
                new.sync()?;
                vfs.rename(tmp, log)?;
                vfs.sync_dir(root)?;
                file = Some(new);
            }
        }
        acknowledge(record);
    }
    Ok(())
}

#[test]
fn crash_at_every_call_keeps_every_acknowledged_record() {
    for nth in 1.. {
        let mut crashed = false;
        for seed in 0..20 {
            let vfs = MemVfs::new();
            vfs.crash_at(nth);
            let mut acknowledged = 0;
            crashed = run_log(&vfs, |record| acknowledged = record).is_err();
            vfs.restart(seed);

            let log = vfs.read_all("/log").unwrap_or_default();
            let records: Vec<&[u8]> = log.chunks(300).collect();
            let story = format!("crash at call {nth}, seed {seed}");
            assert!(records.len() >= usize::from(acknowledged), "{story}");
            for record in 1..=acknowledged {
                assert_eq!(records[usize::from(record) - 1], [record; 300], "{story}");
            }
        }
        if !crashed {
            assert!(nth > 20, "the log makes more calls than {nth}");
            break;
        }
    }
}

#[test]
fn unacknowledged_append_may_survive_a_crash_whole_in_part_or_not() {
    let found = outcomes(
        |vfs| {
            let mut file = durable(vfs, "/a", b"");
            vfs.crash_at(1);
            file.append(&[1; 2000]).unwrap_err();
        },
        |vfs| vfs.file_len("/a").unwrap(),
    );
    assert!(found.contains(&0) && found.contains(&2000) && found.len() > 10);
}

#[test]
fn nth_call_of_a_kind_fails_once() {
    let vfs = MemVfs::new();
    let mut file = durable(&vfs, "/a", b"");
    vfs.fail_next(FaultOp::Append, 2, ErrorKind::TimedOut);
    vfs.fail_next(FaultOp::Append, 3, ErrorKind::Interrupted);
    file.append(b"1").unwrap();
    file.sync().unwrap();
    assert_eq!(kind(file.append(b"2")), ErrorKind::TimedOut);
    assert_eq!(kind(file.append(b"3")), ErrorKind::Interrupted);
    file.append(b"4").unwrap();
}

#[test]
fn each_kind_of_fault_strikes_its_call() {
    type Call = fn(&MemVfs) -> io::Result<()>;
    let calls: [(FaultOp, Call); 8] = [
        (FaultOp::Append, |vfs| vfs.create(path("/b"))?.append(b"x")),
        (FaultOp::Sync, |vfs| vfs.create(path("/b"))?.sync()),
        (FaultOp::SyncDir, |vfs| vfs.sync_dir(path("/"))),
        (FaultOp::Create, |vfs| vfs.create(path("/b")).map(drop)),
        (FaultOp::Rename, |vfs| vfs.rename(path("/a"), path("/b"))),
        (FaultOp::Remove, |vfs| vfs.remove(path("/a"))),
        (FaultOp::Read, |vfs| {
            vfs.open_read(path("/a"))?.read_exact_at(&mut [0], 0)
        }),
        (FaultOp::Truncate, |vfs| vfs.truncate(path("/a"), 0)),
    ];
    for (op, call) in calls {
        let vfs = MemVfs::new();
        durable(&vfs, "/a", b"abc");
        vfs.fail_next(op, 1, ErrorKind::PermissionDenied);
        assert_eq!(kind(call(&vfs)), ErrorKind::PermissionDenied, "{op:?}");
        assert_eq!(vfs.read_all("/a").unwrap(), b"abc", "{op:?}");
        call(&vfs).unwrap();
    }
}

#[test]
fn a_fault_of_any_kind_counts_every_call() {
    let vfs = MemVfs::new();
    durable(&vfs, "/a", b"abc");
    vfs.fail_next(FaultOp::Any, 2, ErrorKind::TimedOut);
    assert!(vfs.exists(path("/a")).unwrap());
    assert_eq!(vfs.armed_faults(), 1);
    assert_eq!(kind(vfs.list(path("/"))), ErrorKind::TimedOut);
    assert_eq!(vfs.armed_faults(), 0);
    vfs.fail_next(FaultOp::Any, 1, ErrorKind::TimedOut);
    vfs.clear_faults();
    vfs.list(path("/")).unwrap();
}

#[test]
fn a_fork_has_all_that_was_seen_and_goes_its_own_way() {
    let vfs = MemVfs::new();
    append_new(&vfs, "/a", b"abc");
    vfs.crash_at(1);
    vfs.exists(path("/a")).unwrap_err();
    let fork = vfs.fork();
    let mut file = fork.create(path("/b")).unwrap();
    file.append(b"new").unwrap();
    for seed in SEEDS.take(20) {
        let copy = vfs.fork();
        copy.restart(seed);
        assert_eq!(copy.read_all("/a").unwrap(), b"abc");
    }
    vfs.restart(0);
    assert_eq!(kind(vfs.read_all("/b")), ErrorKind::NotFound);
    fork.flip_bit("/a", 0, 0).unwrap();
    assert_eq!(fork.read_all("/a").unwrap()[0], b'a' ^ 1);
}

#[test]
fn a_slow_disk_does_the_same_in_its_own_time() {
    let vfs = MemVfs::new();
    vfs.set_slow(10, 1);
    std::thread::scope(|scope| {
        for i in 0..4 {
            let vfs = vfs.clone();
            scope.spawn(move || {
                append_new(&vfs, &format!("/{i}"), &[i; 100])
                    .sync()
                    .unwrap()
            });
        }
    });
    for i in 0..4 {
        assert_eq!(vfs.read_all(format!("/{i}")).unwrap(), [i; 100]);
    }
    assert_eq!(vfs.io_calls(), 4 * 3);
}

#[test]
fn sync_after_a_failed_sync_does_not_save_the_bytes() {
    let found = outcomes(
        |vfs| {
            let mut file = durable(vfs, "/a", b"");
            file.append(&[1; 600]).unwrap();
            vfs.fail_next(FaultOp::Sync, 1, ErrorKind::Other);
            file.sync().unwrap_err();
            file.append(&[2; 600]).unwrap();
            file.sync().unwrap();
            assert_eq!(vfs.read_all("/a").unwrap()[..600], [1; 600]);
        },
        |vfs| vfs.read_all("/a").unwrap(),
    );
    for bytes in &found {
        assert_eq!(bytes.len(), 1200);
        assert_eq!(bytes[600..], [2; 600]);
    }
    assert!(found.iter().any(|bytes| bytes[..600] == [0; 600]));
    assert!(found.iter().any(|bytes| bytes[..600] == [1; 600]));
}

#[test]
fn append_beyond_the_capacity_writes_what_fits() {
    let vfs = MemVfs::new();
    vfs.set_capacity_bytes(Some(10));
    let mut file = append_new(&vfs, "/a", b"12345678");
    assert_eq!(kind(file.append(b"9abc")), ErrorKind::StorageFull);
    assert_eq!(vfs.read_all("/a").unwrap(), b"123456789a");
    vfs.set_capacity_bytes(None);
    file.append(b"b").unwrap();
}

#[test]
fn removed_file_takes_space_until_its_last_handle_drops() {
    let vfs = MemVfs::new();
    let file = append_new(&vfs, "/a", b"12345678");
    let reader = vfs.open_read(path("/a")).unwrap();
    drop(file);
    vfs.remove(path("/a")).unwrap();
    assert_eq!(vfs.used_bytes(), 8);
    drop(reader);
    assert_eq!(vfs.used_bytes(), 0);
}

#[test]
fn damage_is_durable_and_costs_no_call() {
    let vfs = MemVfs::new();
    durable(&vfs, "/a", b"abc");
    let calls = vfs.io_calls();
    vfs.flip_bit("/a", 1, 0).unwrap();
    vfs.cut("/a", 2).unwrap();
    assert_eq!(vfs.io_calls(), calls);
    vfs.restart(0);
    assert_eq!(vfs.read_all("/a").unwrap(), b"ac");
    assert_eq!(vfs.file_len("/a").unwrap(), 2);
    assert_eq!(kind(vfs.flip_bit("/a", 2, 0)), ErrorKind::UnexpectedEof);
    assert_eq!(kind(vfs.read_all("/b")), ErrorKind::NotFound);
}

#[test]
fn spellings_of_a_path_name_one_file() {
    let vfs = MemVfs::new();
    vfs.create_dir_all(path("db/")).unwrap();
    append_new(&vfs, "./db/x/../a", b"abc");
    assert_eq!(vfs.read_all("/db/a").unwrap(), b"abc");
    assert_eq!(vfs.list(path("db")).unwrap(), [path("db/a")]);
}

#[test]
fn threads_share_one_disk() {
    let vfs = MemVfs::new();
    std::thread::scope(|scope| {
        for i in 0..4 {
            let vfs = vfs.clone();
            scope.spawn(move || {
                let mut file = vfs.create(path(&format!("/{i}"))).unwrap();
                for _ in 0..100 {
                    file.append(&[i]).unwrap();
                    file.sync().unwrap();
                }
            });
        }
    });
    for i in 0..4 {
        assert_eq!(vfs.read_all(format!("/{i}")).unwrap(), [i; 100]);
    }
    assert_eq!(vfs.io_calls(), 4 * 201);
}
