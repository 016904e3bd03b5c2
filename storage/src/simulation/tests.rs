//! Tests of the rules that only the simulated disk has: the state after a power
//! loss, and the controls for tests. The rules of every disk are tested beside
//! the trait.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

use super::*;

const SEEDS: std::ops::Range<u64> = 0..200;

fn path(name: &str) -> &Path {
    Path::new(name)
}

/// Creates a file and appends, syncing nothing.
fn append_new(disk: &MemDisk, name: &str, bytes: &[u8]) -> Box<dyn WriteFile> {
    let mut file = disk.create(path(name)).unwrap();
    file.append(bytes).unwrap();
    file
}

/// Creates a file whose bytes and name are durable.
fn durable(disk: &MemDisk, name: &str, bytes: &[u8]) -> Box<dyn WriteFile> {
    let mut file = append_new(disk, name, bytes);
    file.sync().unwrap();
    disk.sync_dir(path(name).parent().unwrap()).unwrap();
    file
}

fn kind<T>(result: io::Result<T>) -> ErrorKind {
    result.err().expect("an error").kind()
}

/// Returns the different results of `look` after `history` and a power loss, over 200 seeds of the power
/// loss.
fn outcomes<T: Ord>(history: impl Fn(&MemDisk), look: impl Fn(&MemDisk) -> T) -> BTreeSet<T> {
    SEEDS
        .map(|seed| {
            let disk = MemDisk::new();
            history(&disk);
            disk.restart(seed);
            look(&disk)
        })
        .collect()
}

/// Returns `history` with a sync of the directory `dir` at its end.
fn synced(history: impl Fn(&MemDisk), dir: &str) -> impl Fn(&MemDisk) {
    move |disk| {
        history(disk);
        disk.sync_dir(path(dir)).unwrap();
    }
}

fn content(name: &str) -> impl Fn(&MemDisk) -> Option<Vec<u8>> {
    move |disk| disk.read_all(name).ok()
}

#[test]
fn unsynced_bytes_may_vanish_synced_bytes_never() {
    let found = outcomes(
        |disk| {
            let mut file = durable(disk, "/a", &[1; 700]);
            file.append(&[2; 2000]).unwrap();
        },
        |disk| disk.read_all("/a").unwrap(),
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
        |disk| {
            let mut file = durable(disk, "/a", &[1; 100]);
            file.append(&[2; 1948]).unwrap();
        },
        |disk| disk.read_all("/a").unwrap(),
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
        |disk| {
            let mut file = durable(disk, "/a", b"");
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
        |disk| append_new(disk, "/a", b"abc").sync().unwrap(),
        content("/a"),
    );
    assert_eq!(found, BTreeSet::from([None, Some(b"abc".to_vec())]));
}

#[test]
fn rename_is_atomic_and_not_durable_before_sync_dir() {
    let history = |disk: &MemDisk| {
        durable(disk, "/CURRENT", b"old");
        durable(disk, "/tmp", b"new");
        disk.rename(path("/tmp"), path("/CURRENT")).unwrap();
    };
    let look = |disk: &MemDisk| (content("/CURRENT")(disk), content("/tmp")(disk));
    let (old, new) = (Some(b"old".to_vec()), Some(b"new".to_vec()));
    assert_eq!(
        outcomes(history, look),
        BTreeSet::from([(old, new.clone()), (new.clone(), None)])
    );

    let synced = outcomes(synced(history, "/"), look);
    assert_eq!(synced, BTreeSet::from([(new, None)]));
}

#[test]
fn removed_file_may_be_back_until_its_directory_is_synced() {
    let history = |disk: &MemDisk| {
        durable(disk, "/a", b"abc");
        disk.remove(path("/a")).unwrap();
    };
    let back = Some(b"abc".to_vec());
    assert_eq!(
        outcomes(history, content("/a")),
        BTreeSet::from([None, back])
    );
    let synced = outcomes(synced(history, "/"), content("/a"));
    assert_eq!(synced, BTreeSet::from([None]));
}

#[test]
fn a_linked_name_may_be_lost_until_its_directory_is_synced_and_its_bytes_stay() {
    let history = |sync: bool| {
        move |disk: &MemDisk| {
            disk.create_dir_all(path("/b")).unwrap();
            durable(disk, "/a", b"x");
            disk.link(path("/a"), path("/b/a")).unwrap();
            if sync {
                disk.sync_dir(path("/b")).unwrap();
            }
            disk.remove(path("/a")).unwrap();
            disk.sync_dir(path("/")).unwrap();
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
    let disk = MemDisk::new();
    drop(durable(&disk, "/a", &[1; 100]));
    disk.link(path("/a"), path("/b")).unwrap();
    assert_eq!(disk.used_bytes(), 100);
    disk.remove(path("/a")).unwrap();
    assert_eq!(disk.used_bytes(), 100);
    disk.remove(path("/b")).unwrap();
    assert_eq!(disk.used_bytes(), 0);
}

#[test]
fn names_of_one_directory_survive_in_their_order() {
    let found = outcomes(
        |disk| {
            for name in ["/1", "/2", "/3"] {
                append_new(disk, name, b"");
            }
            disk.remove(path("/1")).unwrap();
        },
        |disk| ["/1", "/2", "/3"].map(|name| disk.exists(path(name)).unwrap()),
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
    let history = |disk: &MemDisk| {
        disk.create_dir_all(path("/x")).unwrap();
        disk.create_dir_all(path("/y")).unwrap();
        append_new(disk, "/x/a", b"");
        append_new(disk, "/y/a", b"");
    };
    let look = |disk: &MemDisk| ["/x/a", "/y/a"].map(|name| disk.exists(path(name)).unwrap());
    assert_eq!(outcomes(history, look).len(), 4);

    let synced = outcomes(synced(history, "/y"), look);
    assert_eq!(synced, BTreeSet::from([[false, true], [true, true]]));
}

#[test]
fn rename_between_directories_is_never_half_done() {
    let history = |disk: &MemDisk| {
        disk.create_dir_all(path("/x")).unwrap();
        disk.create_dir_all(path("/y")).unwrap();
        durable(disk, "/x/a", b"");
        append_new(disk, "/x/before", b"");
        disk.rename(path("/x/a"), path("/y/a")).unwrap();
        append_new(disk, "/x/after", b"");
    };
    let look = |disk: &MemDisk| {
        ["/x/a", "/y/a", "/x/before", "/x/after"].map(|name| disk.exists(path(name)).unwrap())
    };
    for [at_x, at_y, before, after] in outcomes(history, look) {
        assert!(at_x != at_y);
        assert!(before || at_x);
        assert!(at_y || !after);
    }
    // Syncing the one directory commits the rename in both, and no more.
    assert_eq!(
        outcomes(synced(history, "/y"), look),
        BTreeSet::from([[false, true, true, false], [false, true, true, true]])
    );
}

#[test]
fn create_over_a_file_may_be_undone_until_the_file_is_synced() {
    let history = |disk: &MemDisk| {
        durable(disk, "/a", b"old");
        append_new(disk, "/a", b"new");
    };
    let found = outcomes(history, content("/a"));
    for wanted in ["old", "new", ""] {
        assert!(found.contains(&Some(wanted.into())), "{wanted:?}");
    }
    let synced = |disk: &MemDisk| {
        durable(disk, "/a", b"old");
        append_new(disk, "/a", b"new").sync().unwrap();
    };
    assert_eq!(
        outcomes(synced, content("/a")),
        BTreeSet::from([Some(b"new".to_vec())])
    );
}

#[test]
fn truncate_is_durable_when_it_returns() {
    let found = outcomes(
        |disk| {
            durable(disk, "/a", b"abc").append(b"def").unwrap();
            disk.truncate(path("/a"), 4).unwrap();
        },
        content("/a"),
    );
    assert_eq!(found, BTreeSet::from([Some(b"abcd".to_vec())]));
}

#[test]
fn truncate_cut_short_by_a_crash_happened_or_did_not() {
    let found = outcomes(
        |disk| {
            durable(disk, "/a", b"abcdef");
            disk.crash_at(1);
            disk.truncate(path("/a"), 2).unwrap_err();
        },
        content("/a"),
    );
    let (cut, whole) = (b"ab".to_vec(), b"abcdef".to_vec());
    assert_eq!(found, BTreeSet::from([Some(cut), Some(whole)]));
}

#[test]
fn create_dir_all_is_durable_at_once_and_a_crash_in_it_leaves_a_prefix() {
    let dirs = ["/x", "/x/y", "/x/y/z"];
    let look = |disk: &MemDisk| dirs.map(|dir| disk.exists(path(dir)).unwrap());
    assert_eq!(
        outcomes(|disk| disk.create_dir_all(path("/x/y/z")).unwrap(), look),
        BTreeSet::from([[true; 3]])
    );
    let crashed = |disk: &MemDisk| {
        disk.crash_at(1);
        disk.create_dir_all(path("/x/y/z")).unwrap_err();
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
fn data_that_survived_one_power_loss_survives_the_next() {
    for seed in SEEDS {
        let disk = MemDisk::new();
        append_new(&disk, "/a", &[7; 3000]);
        durable(&disk, "/b", b"").append(&[7; 3000]).unwrap();
        let look = || (content("/a")(&disk), content("/b")(&disk));
        disk.restart(seed);
        let first = look();
        disk.restart(seed + 1);
        assert_eq!(look(), first, "seed {seed}");
    }
}

#[test]
fn equal_seeds_leave_equal_disks() {
    let disk = |seed| {
        let disk = MemDisk::new();
        for i in 0..20 {
            append_new(&disk, &format!("/{i}"), &[i; 5000]);
        }
        disk.restart(seed);
        (0..20)
            .map(|i| disk.read_all(format!("/{i}")).ok())
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
    let disk = MemDisk::new();
    let mut file = durable(&disk, "/a", b"abc");
    let reader = disk.open_read(path("/a")).unwrap();
    disk.crash_at(2);
    assert_eq!(reader.len().unwrap(), 3);
    assert!(disk.has_power());
    let error = file.append(b"d").unwrap_err();
    assert_eq!(error.to_string(), "simulated power loss");
    assert!(!disk.has_power());

    let calls = disk.io_calls();
    assert_eq!(kind(file.sync()), ErrorKind::Other);
    assert_eq!(kind(file.syncer()), ErrorKind::Other);
    assert_eq!(kind(reader.read_exact_at(&mut [0], 0)), ErrorKind::Other);
    assert_eq!(kind(disk.open_read(path("/a"))), ErrorKind::Other);
    assert_eq!(kind(disk.list(path("/"))), ErrorKind::Other);
    assert_eq!(kind(disk.create_dir_all(path("/x"))), ErrorKind::Other);
    assert_eq!(disk.io_calls(), calls);

    disk.restart(0);
    assert!(disk.exists(path("/a")).unwrap());
}

#[test]
fn an_event_runs_before_each_call_and_not_before_its_own_calls() {
    let disk = MemDisk::new();
    let (other, mut events) = (disk.clone(), 0_u8);
    disk.before_each_call(move || {
        events += 1;
        drop(append_new(&other, "/events", &[events; 3]));
    });
    let mut file = disk.create(path("/a")).unwrap();
    assert_eq!(disk.read_all("/events").unwrap(), [1; 3]);
    file.append(b"abc").unwrap();
    disk.link(path("/a"), path("/b")).unwrap();
    assert_eq!(disk.read_all("/events").unwrap(), [3; 3]);
    assert_eq!(disk.io_calls(), 3 + 3 * 2);

    assert_eq!(disk.fork().list(path("/")).unwrap().len(), 3);
    disk.end_event();
    file.sync().unwrap();
    assert_eq!(disk.read_all("/events").unwrap(), [3; 3]);
}

#[test]
fn crashing_call_hides_its_own_error() {
    let disk = MemDisk::new();
    let calls: [fn(&MemDisk) -> io::Result<()>; 4] = [
        |disk| disk.truncate(path("/none"), 0),
        |disk| disk.remove(path("/none")),
        |disk| disk.sync_dir(path("/none")),
        |disk| disk.create(path("/none/a")).map(drop),
    ];
    for call in calls {
        disk.crash_at(1);
        assert_eq!(kind(call(&disk)), ErrorKind::Other);
        disk.restart(0);
    }
}

#[test]
fn old_handles_fail_after_restart() {
    let disk = MemDisk::new();
    let mut writer = durable(&disk, "/a", b"abc");
    let syncer = writer.syncer().unwrap();
    let reader = disk.open_read(path("/a")).unwrap();
    disk.restart(0);

    assert_eq!(kind(writer.append(b"x")), ErrorKind::Other);
    assert_eq!(kind(writer.sync()), ErrorKind::Other);
    assert_eq!(kind(syncer.sync()), ErrorKind::Other);
    assert_eq!(kind(reader.read_exact_at(&mut [0], 0)), ErrorKind::Other);
    assert_eq!(kind(reader.len()), ErrorKind::Other);
    assert_eq!(disk.read_all("/a").unwrap(), b"abc");

    // Nor do they let go of what is open or held since.
    let new_reader = disk.open_read(path("/a")).unwrap();
    disk.remove(path("/a")).unwrap();
    disk.sync_dir(path("/")).unwrap();
    drop((writer, syncer, reader));
    assert_eq!(new_reader.len().unwrap(), 3);
}

#[test]
fn restart_frees_locks_and_a_guard_of_before_frees_nothing() {
    let disk = MemDisk::new();
    let old = disk.lock(path("/LOCK")).unwrap();
    disk.restart(0);
    let _new = disk.lock(path("/LOCK")).unwrap();
    drop(old);
    assert_eq!(kind(disk.lock(path("/LOCK"))), ErrorKind::WouldBlock);
}

/// Writes records 1, 2, ... to a log, which is replaced as a whole at every fourth record. Calls
/// `acknowledge` with the number of each record that is durable.
fn run_log(disk: &MemDisk, mut acknowledge: impl FnMut(u8)) -> io::Result<()> {
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
                let mut new = disk.create(tmp)?;
                new.append(&all)?;
                new.sync()?;
                disk.rename(tmp, log)?;
                disk.sync_dir(root)?;
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
            let disk = MemDisk::new();
            disk.crash_at(nth);
            let mut acknowledged = 0;
            crashed = run_log(&disk, |record| acknowledged = record).is_err();
            disk.restart(seed);

            let log = disk.read_all("/log").unwrap_or_default();
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
        |disk| {
            let mut file = durable(disk, "/a", b"");
            disk.crash_at(1);
            file.append(&[1; 2000]).unwrap_err();
        },
        |disk| disk.file_len("/a").unwrap(),
    );
    assert!(found.contains(&0) && found.contains(&2000) && found.len() > 10);
}

#[test]
fn nth_call_of_a_kind_fails_once() {
    let disk = MemDisk::new();
    let mut file = durable(&disk, "/a", b"");
    disk.fail_next(FaultOp::Append, 2, ErrorKind::TimedOut);
    disk.fail_next(FaultOp::Append, 3, ErrorKind::Interrupted);
    file.append(b"1").unwrap();
    file.sync().unwrap();
    assert_eq!(kind(file.append(b"2")), ErrorKind::TimedOut);
    assert_eq!(kind(file.append(b"3")), ErrorKind::Interrupted);
    file.append(b"4").unwrap();
}

#[test]
fn each_kind_of_fault_strikes_its_call() {
    type Call = fn(&MemDisk) -> io::Result<()>;
    let calls: [(FaultOp, Call); 8] = [
        (FaultOp::Append, |disk| {
            disk.create(path("/b"))?.append(b"x")
        }),
        (FaultOp::Sync, |disk| disk.create(path("/b"))?.sync()),
        (FaultOp::SyncDir, |disk| disk.sync_dir(path("/"))),
        (FaultOp::Create, |disk| disk.create(path("/b")).map(drop)),
        (FaultOp::Rename, |disk| disk.rename(path("/a"), path("/b"))),
        (FaultOp::Remove, |disk| disk.remove(path("/a"))),
        (FaultOp::Read, |disk| {
            disk.open_read(path("/a"))?.read_exact_at(&mut [0], 0)
        }),
        (FaultOp::Truncate, |disk| disk.truncate(path("/a"), 0)),
    ];
    for (op, call) in calls {
        let disk = MemDisk::new();
        durable(&disk, "/a", b"abc");
        disk.fail_next(op, 1, ErrorKind::PermissionDenied);
        assert_eq!(kind(call(&disk)), ErrorKind::PermissionDenied, "{op:?}");
        assert_eq!(disk.read_all("/a").unwrap(), b"abc", "{op:?}");
        call(&disk).unwrap();
    }
}

#[test]
fn a_fault_of_any_kind_counts_every_call() {
    let disk = MemDisk::new();
    durable(&disk, "/a", b"abc");
    disk.fail_next(FaultOp::Any, 2, ErrorKind::TimedOut);
    assert!(disk.exists(path("/a")).unwrap());
    assert_eq!(disk.armed_faults(), 1);
    assert_eq!(kind(disk.list(path("/"))), ErrorKind::TimedOut);
    assert_eq!(disk.armed_faults(), 0);
    disk.fail_next(FaultOp::Any, 1, ErrorKind::TimedOut);
    disk.clear_faults();
    disk.list(path("/")).unwrap();
}

#[test]
fn a_fork_has_all_that_was_seen_and_goes_its_own_way() {
    let disk = MemDisk::new();
    append_new(&disk, "/a", b"abc");
    disk.crash_at(1);
    disk.exists(path("/a")).unwrap_err();
    let fork = disk.fork();
    let mut file = fork.create(path("/b")).unwrap();
    file.append(b"new").unwrap();
    for seed in SEEDS.take(20) {
        let copy = disk.fork();
        copy.restart(seed);
        assert_eq!(copy.read_all("/a").unwrap(), b"abc");
    }
    disk.restart(0);
    assert_eq!(kind(disk.read_all("/b")), ErrorKind::NotFound);
    fork.flip_bit("/a", 0, 0).unwrap();
    assert_eq!(fork.read_all("/a").unwrap()[0], b'a' ^ 1);
}

#[test]
fn a_slow_disk_does_the_same_in_its_own_time() {
    let disk = MemDisk::new();
    disk.set_slow(10, 1);
    std::thread::scope(|scope| {
        for i in 0..4 {
            let disk = disk.clone();
            scope.spawn(move || {
                append_new(&disk, &format!("/{i}"), &[i; 100])
                    .sync()
                    .unwrap()
            });
        }
    });
    for i in 0..4 {
        assert_eq!(disk.read_all(format!("/{i}")).unwrap(), [i; 100]);
    }
    assert_eq!(disk.io_calls(), 4 * 3);
}

#[test]
fn sync_after_a_failed_sync_does_not_save_the_bytes() {
    let found = outcomes(
        |disk| {
            let mut file = durable(disk, "/a", b"");
            file.append(&[1; 600]).unwrap();
            disk.fail_next(FaultOp::Sync, 1, ErrorKind::Other);
            file.sync().unwrap_err();
            file.append(&[2; 600]).unwrap();
            file.sync().unwrap();
            assert_eq!(disk.read_all("/a").unwrap()[..600], [1; 600]);
        },
        |disk| disk.read_all("/a").unwrap(),
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
    let disk = MemDisk::new();
    disk.set_capacity_bytes(Some(10));
    let mut file = append_new(&disk, "/a", b"12345678");
    assert_eq!(kind(file.append(b"9abc")), ErrorKind::StorageFull);
    assert_eq!(disk.read_all("/a").unwrap(), b"123456789a");
    disk.set_capacity_bytes(None);
    file.append(b"b").unwrap();
}

#[test]
fn removed_file_takes_space_until_its_last_handle_drops() {
    let disk = MemDisk::new();
    let file = append_new(&disk, "/a", b"12345678");
    let reader = disk.open_read(path("/a")).unwrap();
    drop(file);
    disk.remove(path("/a")).unwrap();
    assert_eq!(disk.used_bytes(), 8);
    drop(reader);
    assert_eq!(disk.used_bytes(), 0);
}

#[test]
fn damage_is_durable_and_costs_no_call() {
    let disk = MemDisk::new();
    durable(&disk, "/a", b"abc");
    let calls = disk.io_calls();
    disk.flip_bit("/a", 1, 0).unwrap();
    disk.cut("/a", 2).unwrap();
    assert_eq!(disk.io_calls(), calls);
    disk.restart(0);
    assert_eq!(disk.read_all("/a").unwrap(), b"ac");
    assert_eq!(disk.file_len("/a").unwrap(), 2);
    assert_eq!(kind(disk.flip_bit("/a", 2, 0)), ErrorKind::UnexpectedEof);
    assert_eq!(kind(disk.read_all("/b")), ErrorKind::NotFound);
}

#[test]
fn spellings_of_a_path_name_one_file() {
    let disk = MemDisk::new();
    disk.create_dir_all(path("db/")).unwrap();
    append_new(&disk, "./db/x/../a", b"abc");
    assert_eq!(disk.read_all("/db/a").unwrap(), b"abc");
    assert_eq!(disk.list(path("db")).unwrap(), [path("db/a")]);
}
