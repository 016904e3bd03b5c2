//! Damaged files that are rewritten without what cannot be read of them: all other keys read as
//! before, and merges of the table go on.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use crate::common::hooked_disk::{Call, HookedDisk};
use crate::common::*;
use ebb_storage::simulation::{FaultOp, MemDisk};
use ebb_storage::{
    Db, Error, Event, FileSystem, LossReport, SortedWriter, SortedWriterOptions, Value,
};

use super::{
    KEYS, Model, assert_other_is_whole, database, files_of_users, for_each_power_loss, key,
    options, paths, quarantine, rewrite, tables, write,
};

const TABLE: &str = "app.users";

fn lists(report: &LossReport, key: &[u8]) -> bool {
    let mut lost = report.files.iter().flat_map(|file| &file.lost);
    lost.any(|lost| lost.concerns(TABLE, key))
}

/// Checks that no read fails, and that all keys that are not listed as lost have the expected
/// values. Returns the number of keys that are not listed.
fn assert_rest_is_there(db: &Db, model: &Model, report: &LossReport) -> usize {
    let [users, other] = tables(db);
    let is_kept = |key: &[u8]| !lists(report, key);
    let check = |get: &dyn Fn(&[u8]) -> Option<Value>, all: Content, expected: &Content| {
        let kept = (0..KEYS + 9).map(key).filter(|key| is_kept(key));
        for key in kept {
            let expected = expected.get(&key).map(|value| &value[..]);
            assert_eq!(get(&key).as_deref(), expected, "{}", key.escape_ascii());
        }
        let rest = |content: Content| {
            let entries = content.into_iter();
            entries.filter(|(key, _)| is_kept(key)).collect::<Content>()
        };
        assert_eq!(rest(all), rest(expected.clone()));
    };
    check(
        &|key: &[u8]| users.get(key).unwrap(),
        content(users.range::<&[u8], _>(..)).unwrap(),
        &model.now,
    );
    let keyspace = db.existing_keyspace("app").unwrap();
    for (name, then) in &model.snapshots {
        let table = keyspace.snapshot(name).unwrap().table("users").unwrap();
        check(
            &|key: &[u8]| table.get(key).unwrap(),
            content(table.scan::<&[u8], _>(..)).unwrap(),
            then,
        );
    }
    assert_other_is_whole(&other);
    (0..KEYS).filter(|number| is_kept(&key(*number))).count()
}

/// Returns the path in the folder `damaged` to which the damaged file `path` is moved when its loss
/// is accepted.
fn aside(path: &Path) -> PathBuf {
    let name = format!("{}.damaged", path.file_name().unwrap().to_str().unwrap());
    Path::new(DIR).join("damaged").join(name)
}

fn delete_and_merge(db: &Db, model: &mut Model) {
    super::delete_snapshots(db);
    model.snapshots.clear();
    db.compact().unwrap();
}

/// Flips one bit in every 83rd byte of each file, one at a time. Over all files, the damage hits
/// data blocks, index, filter, range tombstones, top level of the index, properties, footer and
/// header.
#[test]
fn every_key_that_is_not_listed_as_lost_reads_as_before_whatever_block_is_damaged() {
    let test = "every_key_that_is_not_listed_as_lost_reads_as_before_whatever_block_is_damaged";
    let (mut kept, mut all, mut lossless, mut losses) = (0, 0, 0, 0);
    for_seeds(test, 2, |seed| {
        let (mem, model) = database(seed);
        for path in files_of_users(&mem.fork()) {
            for byte in (0..mem.file_len(&path).unwrap()).step_by(83) {
                let _place = FailedAt(format!("{byte} of {}", path.display()));
                let (fork, mut model) = (mem.fork(), model.clone());
                fork.flip_bit(&path, byte, (byte % 8) as u8).unwrap();
                let damaged = fork.read_all(&path).unwrap();
                let db = Db::open(DIR, options(&fork)).unwrap();

                let before = files(&fork, "");
                let listed = db.list_lost("app", "users").unwrap();
                assert_eq!(files(&fork, ""), before);
                let file = only(&listed.files);
                assert_eq!((&file.path, &*file.table), (&path, TABLE));
                assert!(!file.is_rewritten && file.kept_as.is_none());
                assert_eq!(file.lost.is_empty(), file.entries_lost == 0, "{file:?}");

                let done = rewrite(&db).unwrap();
                let rewritten = only(&done.files);
                assert!(rewritten.is_rewritten);
                assert_eq!(done.token, listed.token);
                assert_eq!(rewritten.lost, file.lost);
                assert_eq!(rewritten.entries_lost, file.entries_lost);
                assert!(!fork.exists(&path).unwrap(), "it is gone");
                assert_eq!(fork.read_all(aside(&path)).unwrap(), damaged);
                let kept_as = aside(&path).display().to_string();
                assert_eq!(rewritten.kept_as.as_ref(), Some(&kept_as));

                assert_eq!(quarantine(&db), []);
                assert_eq!(db.verify_all(|_| ()).unwrap().findings, []);
                assert_eq!(db.list_lost("app", "users").unwrap().files, []);
                kept += assert_rest_is_there(&db, &model, &done);
                all += usize::from(KEYS);
                match file.entries_lost {
                    0 => lossless += 1,
                    _ => losses += 1,
                }
                drop(db);
                let db = Db::open(DIR, options(&fork)).unwrap();
                assert_rest_is_there(&db, &model, &done);
                delete_and_merge(&db, &mut model);
                assert_rest_is_there(&db, &model, &done);
                assert_eq!(db.verify_all(|_| ()).unwrap().findings, []);
                assert!(fork.exists(&aside(&path)).unwrap());
            }
        }
    });
    println!("{kept} of {all} keys, {lossless} without a loss, {losses} with one");
    assert!(
        lossless > 20 && losses > 20 && 2 * kept > all,
        "{kept} of {all}, {lossless}, {losses}"
    );
}

#[test]
fn a_missing_file_can_be_given_up_and_its_keys_are_listed() {
    let (mem, model) = database(6);
    for path in files_of_users(&mem.fork()) {
        let _place = FailedAt(path.display().to_string());
        let (fork, mut model) = (mem.fork(), model.clone());
        fork.remove(&path).unwrap();
        let db = Db::open(DIR, options(&fork)).unwrap();
        let done = rewrite(&db).unwrap();
        let file = only(&done.files);
        assert!(file.is_rewritten && file.kept_as.is_none() && file.entries_lost > 0);
        assert_eq!(file.entries_read, 0);
        assert_rest_is_there(&db, &model, &done);
        assert_eq!(db.stats().maintenance_failure, None);
        assert_eq!(db.verify_all(|_| ()).unwrap().findings, []);
        delete_and_merge(&db, &mut model);
        assert_rest_is_there(&db, &model, &done);
        drop(db);
        let db = Db::open(DIR, options(&fork)).unwrap();
        assert_rest_is_there(&db, &model, &done);
    }
}

/// The damaged file has two versions of each key, because a snapshot was created between the two
/// writes.
#[test]
fn the_versions_that_snapshots_read_stay_in_a_rewritten_file() {
    let mem = MemDisk::new();
    let db = Db::open(DIR, options(&mem)).unwrap();
    let [users, other] = tables(&db);
    let mut model = Model::default();
    let put = |value: &str, model: &mut Model| {
        for number in 0..KEYS {
            users.put(&key(number), value.as_bytes()).unwrap();
            model.now.insert(key(number), value.as_bytes().to_vec());
        }
    };
    for number in 0..KEYS {
        other.put(&key(number), &key(number)).unwrap();
    }
    put("old", &mut model);
    let keyspace = db.existing_keyspace("app").unwrap();
    keyspace.create_snapshot("then").unwrap();
    model.snapshots.insert("then".into(), model.now.clone());
    put("new", &mut model);
    db.flush().unwrap();
    drop((users, other, keyspace, db));
    let path = files_of_users(&mem.fork()).remove(0);
    damage_file(&mem, &path, false);

    let db = Db::open(DIR, options(&mem)).unwrap();
    let done = rewrite(&db).unwrap();
    let file = only(&done.files);
    assert!(file.entries_read > 0 && file.entries_lost > 0, "{file:?}");
    assert_rest_is_there(&db, &model, &done);
}

/// The damaged file is the only file of its run, and its only data block is damaged.
#[test]
fn older_values_of_lost_keys_show_and_their_table_is_merged_again() {
    let mem = MemDisk::new();
    let db = Db::open(DIR, options(&mem)).unwrap();
    let [users, _] = tables(&db);
    for number in 0..KEYS {
        users.put(&key(number), b"old").unwrap();
    }
    db.flush().unwrap();
    let before = files(&mem, ".sst");
    users.put(&key(7), b"new").unwrap();
    users.delete(&key(8)).unwrap();
    users.merge(&key(9), b"more").unwrap();
    db.flush().unwrap();
    drop((users, db));
    let newest = files(&mem, ".sst");
    let path = only(&newest[before.len()..]);
    damage_file(&mem, path, false);

    let db = Db::open(DIR, options(&mem)).unwrap();
    let [users, _] = tables(&db);
    assert!(users.get(&key(8)).is_err());
    let (sender, events) = mpsc::channel();
    db.on_event(move |event| {
        if let Event::LossAccepted {
            entries_lost,
            kept_as,
            ..
        } = *event
        {
            sender.send((entries_lost, kept_as.is_some())).unwrap();
        }
    });
    let listed = rewrite(&db).unwrap();
    assert_eq!(listed.entries_lost(), 3);
    assert_eq!(Vec::from_iter(events.try_iter()), [(3, true)]);
    for number in 0..KEYS {
        assert_eq!(users.get(&key(number)).unwrap().unwrap(), "old");
        let is_lost = (7..10).contains(&number);
        assert_eq!(lists(&listed, &key(number)), is_lost, "{number}");
    }
    let merges = db.stats().compactions;
    for round in 0..8 {
        users.put(&key(round), b"above").unwrap();
        db.flush().unwrap();
    }
    db.compact().unwrap();
    assert!(db.stats().compactions > merges);
    assert_eq!(users.get(&key(8)).unwrap().unwrap(), "old");
}

#[test]
fn a_table_without_damage_loses_nothing_and_an_unknown_one_is_refused() {
    let (mem, model) = database(6);
    let db = Db::open(DIR, options(&mem)).unwrap();
    let before = files(&mem, "");
    assert_eq!(db.list_lost("app", "users").unwrap(), LossReport::default());
    let done = rewrite(&db).unwrap();
    assert_eq!(done, LossReport::default());
    assert_eq!(files(&mem, ""), before);
    assert_rest_is_there(&db, &model, &done);
    for (keyspace, table) in [("app", "none"), ("none", "users")] {
        let error = db.rewrite_damaged(keyspace, table, "").unwrap_err();
        assert!(matches!(error, Error::NotFound { .. }), "{error}");
    }
    drop(db);
    let read_only = Db::open_read_only(DIR, options(&mem)).unwrap();
    assert_eq!(read_only.list_lost("app", "users").unwrap(), done);
    let error = read_only.rewrite_damaged("app", "users", "").unwrap_err();
    assert!(matches!(error, Error::OpenedReadOnly), "{error}");
}

/// The damaged file was overwritten by a copy of another file of the database, whose blocks are
/// whole. A rewrite must take none of them.
#[test]
fn nothing_is_taken_from_another_file_in_the_place_of_a_damaged_one() {
    let (mem, model) = database(5);
    let of_users = files_of_users(&mem.fork());
    let mut of_other = files(&mem, ".sst");
    of_other.retain(|path| !of_users.contains(path));
    let bytes = mem.read_all(of_other.first().unwrap()).unwrap();
    for path in of_users {
        let _place = FailedAt(path.display().to_string());
        let fork = mem.fork();
        let mut file = fork.create(&path).unwrap();
        file.append(&bytes).unwrap();
        file.sync().unwrap();
        let db = Db::open(DIR, options(&fork)).unwrap();
        assert_eq!(paths(&quarantine(&db)), std::slice::from_ref(&path));
        let done = rewrite(&db).unwrap();
        assert_eq!(done.files.len(), 1);
        assert_eq!(done.files[0].entries_read, 0);
        assert_rest_is_there(&db, &model, &done);
    }
}

/// The first reads return damaged bytes, but the bytes on the disk are undamaged.
#[test]
fn what_a_second_reading_finds_is_not_lost() {
    let (mem, _) = database(7);
    let path = files_of_users(&mem.fork()).remove(0);
    damage_file(&mem, &path, false);
    let forgotten = Arc::new(AtomicU64::new(0));
    let (disk, damaged, calls) = (mem.clone(), path.clone(), forgotten.clone());
    let hook = move |call: Call, path: &Path| {
        // The file is verified, and read twice for its rest.
        let is_it = call == Call::ForgetCached && path == damaged;
        if is_it && calls.fetch_add(1, Ordering::Relaxed) == 2 {
            // The same bit once more.
            damage_file(&disk, path, false);
        }
        Ok(())
    };
    let options = on_disk(HookedDisk::new(&mem, hook), options(&mem));
    let db = Db::open(DIR, options).unwrap();
    let listed = db.list_lost("app", "users").unwrap();
    assert_eq!(forgotten.load(Ordering::Relaxed), 3);
    let file = only(&listed.files);
    assert!(file.lost.is_empty() && file.entries_lost == 0, "{file:?}");
}

#[test]
fn a_loss_that_was_not_listed_is_not_given_up() {
    let (mem, model) = database(6);
    let of_users = files_of_users(&mem.fork());
    let (first, second) = (&of_users[0], &of_users[1]);
    mem.flip_bit(first, 100, 3).unwrap();
    let db = Db::open(DIR, options(&mem)).unwrap();
    let accepted = db.list_lost("app", "users").unwrap().token.unwrap();
    let before = files(&mem, "");
    let refused = db.rewrite_damaged("app", "users", "").unwrap();
    assert_eq!(refused, None);
    mem.flip_bit(second, 100, 3).unwrap();
    let refused = db.rewrite_damaged("app", "users", &accepted).unwrap();
    assert_eq!(refused, None);
    assert_eq!(files(&mem, ""), before, "nothing is changed");
    let listed = db.list_lost("app", "users").unwrap();
    assert_eq!(listed.files.len(), 2);
    assert_ne!(listed.token.as_ref(), Some(&accepted));
    let done = rewrite(&db).unwrap();
    assert!(done.files.iter().all(|file| file.is_rewritten));
    // There is nothing to give up any more.
    let done_before = db.rewrite_damaged("app", "users", &accepted).unwrap();
    assert_eq!(done_before, Some(LossReport::default()));
    assert_rest_is_there(&db, &model, &done);
}

/// Listing and rewriting read the damaged file several times. Each round of this test damages one
/// more block, the one behind the lost block: the first round before the first of these reads, the
/// second round before the second read, and so on.
#[test]
fn a_file_that_loses_more_after_its_loss_was_accepted_is_not_rewritten() {
    let (mem, _) = database(7);
    let path = files_of_users(&mem.fork()).remove(0);
    damage_file(&mem, &path, false);
    let db = Db::open(DIR, options(&mem.fork())).unwrap();
    let listed = db.list_lost("app", "users").unwrap();
    let [lost, ..] = &listed.files[0].lost[..] else {
        panic!("a lost block expected: {listed:?}");
    };
    let next_block = lost.offset + lost.bytes;
    drop(db);
    let mut outcomes = BTreeSet::new();
    for worse_at in 0.. {
        let fork = mem.fork();
        let readings = Arc::new(AtomicU64::new(0));
        let (disk, damaged, counter) = (fork.clone(), path.clone(), readings.clone());
        let hook = move |call: Call, path: &Path| {
            // Each of these reads begins with a call that drops the file from the system's cache.
            let is_it = call == Call::ForgetCached && path == damaged;
            if is_it && counter.fetch_add(1, Ordering::Relaxed) == worse_at {
                disk.flip_bit(path, next_block, 0).unwrap();
            }
            Ok(())
        };
        let options = on_disk(HookedDisk::new(&fork, hook), options(&fork));
        let db = Db::open(DIR, options).unwrap();
        let listed = db.list_lost("app", "users").unwrap();
        let accepted = listed.token.as_deref().unwrap();
        outcomes.insert(match db.rewrite_damaged("app", "users", accepted) {
            Ok(None) => "the list is refused",
            Ok(Some(done)) if done.files[0].is_rewritten => {
                let (file, expected) = (&done.files[0], &listed.files[0]);
                assert_eq!(file.lost, expected.lost, "{worse_at}");
                assert_eq!(file.entries_lost, expected.entries_lost, "{worse_at}");
                "the file is rewritten"
            }
            Ok(Some(_)) => "the file is left",
            // Of two readings, the one with the smaller loss counts. So damage that only the last
            // reading finds is met again when the blocks are copied, and the file stays in place.
            Err(Error::Corruption { .. }) => "the rest cannot be copied",
            Err(error) => panic!("{worse_at}: {error}"),
        });
        if readings.load(Ordering::Relaxed) <= worse_at {
            break;
        }
    }
    for outcome in [
        "the list is refused",
        "the file is left",
        "the file is rewritten",
    ] {
        assert!(outcomes.contains(outcome), "{outcome}: {outcomes:?}");
    }
}

/// Regression: a rewrite makes a link to the damaged file in the folder `damaged`. If a later step
/// of the rewrite failed, so that the file stayed in its table, the link stayed, too, and kept the
/// space of the file from being freed.
#[test]
fn the_second_name_of_a_damaged_file_goes_unless_the_file_may_have_left_its_table() {
    let (mem, _) = database(7);
    let path = files_of_users(&mem.fork()).remove(0);
    damage_file(&mem, &path, false);
    let mut outcomes = BTreeSet::new();
    for (op, kind) in [
        (FaultOp::Create, ErrorKind::Other),
        (FaultOp::Append, ErrorKind::Other),
        (FaultOp::Append, ErrorKind::StorageFull),
        (FaultOp::Sync, ErrorKind::Other),
        (FaultOp::SyncDir, ErrorKind::StorageFull),
    ] {
        for nth in 1.. {
            let _place = FailedAt(format!("{op:?} {nth}, {kind:?}"));
            let fork = mem.fork();
            let db = Db::open(DIR, options(&fork)).unwrap();
            let accepted = db.list_lost("app", "users").unwrap().token.unwrap();
            fork.fail_next(op, nth, kind);
            let outcome = db.rewrite_damaged("app", "users", &accepted);
            let has_struck = fork.armed_faults() == 0;
            fork.clear_faults();
            let is_linked = fork.exists(&aside(&path)).unwrap();
            // Writes end if the failed call was one for the edit.
            let [users, _] = tables(&db);
            let may_be_edited = users.put(b"later", b"1").is_err();
            drop((users, db));

            let db = Db::open(DIR, options(&fork)).unwrap();
            let is_in_table = !db.list_lost("app", "users").unwrap().files.is_empty();
            match &outcome {
                Ok(done) => {
                    let file = only(&done.as_ref().unwrap().files);
                    assert!(!is_in_table && file.is_rewritten);
                    assert_eq!(is_linked, file.kept_as.is_some());
                }
                Err(_) => {
                    assert!(may_be_edited || !is_linked);
                    assert!(is_linked || is_in_table);
                }
            }
            outcomes.insert((outcome.is_ok(), is_linked));
            // A link that stayed is the name that the next attempt reports.
            if is_in_table {
                let again = rewrite(&db).unwrap();
                assert!(again.files[0].kept_as.is_some());
                assert!(fork.exists(&aside(&path)).unwrap());
            }
            if !has_struck {
                break;
            }
        }
    }
    for outcome in [(false, false), (false, true), (true, true)] {
        assert!(outcomes.contains(&outcome), "{outcome:?}: {outcomes:?}");
    }
}

/// An ingested file differs from others: the sequence number of its versions is that of the
/// ingestion, its properties name no table, and until the next flush only the log names the file.
#[test]
fn a_damaged_file_that_was_ingested_is_rewritten_at_its_commit() {
    let mem = MemDisk::new();
    let db = Db::open(DIR, options(&mem)).unwrap();
    let [users, other] = tables(&db);
    let mut model = Model::default();
    for number in 0..KEYS {
        users.put(&key(number), b"older").unwrap();
        other.put(&key(number), &key(number)).unwrap();
        model.now.insert(key(number), b"older".to_vec());
    }
    db.flush().unwrap();
    let keyspace = db.existing_keyspace("app").unwrap();
    keyspace.create_snapshot("before").unwrap();
    model.snapshots.insert("before".into(), model.now.clone());
    let writer = SortedWriterOptions {
        sstable: super::table_options().sstable,
        ..writer_options(&mem)
    };
    let mut writer = SortedWriter::create("/out", "ingested", writer).unwrap();
    for number in 10..50 {
        writer.put(&key(number), b"ingested").unwrap();
        model.now.insert(key(number), b"ingested".to_vec());
    }
    users.ingest(&writer.finish().unwrap()).unwrap();
    keyspace.create_snapshot("after").unwrap();
    model.snapshots.insert("after".into(), model.now.clone());
    users.put(&key(20), b"newer").unwrap();
    model.now.insert(key(20), b"newer".to_vec());
    drop((users, other, keyspace, db));
    let path = files(&mem, ".sst").pop().unwrap();
    damage_file(&mem, &path, false);

    let db = Db::open(DIR, options(&mem)).unwrap();
    let done = rewrite(&db).unwrap();
    assert_eq!(done.files.len(), 1);
    assert!(
        done.entries_lost() > 0 && done.entries_lost() < 40,
        "{done:?}"
    );
    assert!(lists(&done, &key(10)) && !lists(&done, &key(49)));
    assert_rest_is_there(&db, &model, &done);
    assert_eq!(db.verify_all(|_| ()).unwrap().findings, []);
    drop(db);
    let db = Db::open(DIR, options(&mem)).unwrap();
    assert_rest_is_there(&db, &model, &done);
    delete_and_merge(&db, &mut model);
    assert_rest_is_there(&db, &model, &done);
}

#[test]
fn power_lost_at_any_call_leaves_the_damaged_file_or_its_rest() {
    let (mem, mut model) = database(4);
    let db = Db::open(DIR, options(&mem)).unwrap();
    let [users, _] = tables(&db);
    let mut rng = rng(4);
    for _ in 0..3 {
        write(&mut rng, &users, &mut model.now, 25);
        db.flush().unwrap();
    }
    drop((users, db));
    let of_users = files_of_users(&mem.fork());
    let (damaged, missing) = (of_users[0].clone(), of_users[of_users.len() - 1].clone());
    mem.flip_bit(&damaged, 100, 3).unwrap();
    mem.remove(&missing).unwrap();
    mem.sync_dir(Path::new(DIR)).unwrap();
    let expected = {
        let db = Db::open(DIR, options(&mem.fork())).unwrap();
        db.list_lost("app", "users").unwrap()
    };
    assert_eq!(expected.files.len(), 2);

    let mut left = BTreeSet::new();
    let work = |mem: &MemDisk| rewrite(&Db::open(DIR, options(mem))?);
    for_each_power_loss(&mem, work, |mem| {
        let db = Db::open(DIR, options(mem)).unwrap();
        let listed = db.list_lost("app", "users").unwrap();
        let is_known = |file| expected.files.contains(file);
        assert!(listed.files.iter().all(is_known), "{listed:?}");
        left.insert(listed.files.len());
        rewrite(&db).unwrap();
        assert_rest_is_there(&db, &model, &expected);
        assert_eq!(db.verify_all(|_| ()).unwrap().findings, []);
        assert!(mem.exists(&aside(&damaged)).unwrap());
    });
    assert_eq!(left, BTreeSet::from([0, 1, 2]));
}
