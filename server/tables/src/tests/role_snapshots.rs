//! The records of the snapshots that roles created.

use ebb_model::access::OwnedSnapshot;
use ebb_storage::{HoldOptions, Keyspace, Table};

use super::*;

const ADA: u64 = 17;

/// Returns a catalog with the keyspace `app`, and the role `ada`, which may have at most `max` snapshots;
/// any number if `max` is `None`.
fn with_role(disk: &MemDisk, max: Option<u32>) -> Catalog {
    let catalog = open(disk).unwrap();
    apply(&catalog, CHANGES[0]).unwrap();
    add_role(&catalog, ADA, max);
    catalog
}

fn add_role(catalog: &Catalog, id: u64, snapshots_max: Option<u32>) {
    let ada = Role {
        id,
        snapshots_max,
        ..Role::default()
    };
    let added = |roles: &Roles| roles.with_new("ada", ada).map(Some);
    assert!(catalog.roles().change(added).unwrap().unwrap());
}

fn app(catalog: &Catalog) -> Keyspace {
    catalog.db().existing_keyspace("app").unwrap()
}

fn own_table(catalog: &Catalog, name: &str) -> Table {
    let own = catalog.db().existing_keyspace("ebb_system").unwrap();
    own.existing_table(name).unwrap()
}

/// Creates a snapshot as the role `ada`.
fn create(catalog: &Catalog, name: &str) -> Result<()> {
    let room = catalog.roles().room_for_snapshot("ada").unwrap();
    app(catalog).create_snapshot(name)?;
    room.note("app", name)
}

fn delete(catalog: &Catalog, name: &str) -> Result<()> {
    let seq = app(catalog).snapshot_seq(name)?;
    app(catalog).delete_snapshot(name)?;
    catalog.roles().forget_snapshot(seq)?;
    Ok(catalog.db().sync()?)
}

/// Returns the stored records of snapshots that roles created, each with the id of the role.
fn records(catalog: &Catalog) -> Vec<(u64, OwnedSnapshot)> {
    let all = own_table(catalog, "role_snapshots");
    let decoded = all.range::<&[u8], _>(..).map(|entry| {
        let (key, value) = entry.unwrap();
        OwnedSnapshot::decode(&key, &value).unwrap()
    });
    decoded.collect()
}

fn may_create(catalog: &Catalog) -> bool {
    catalog.roles().room_for_snapshot("ada").is_ok()
}

/// Regression: the role's record listed its snapshots, so with 1,000 of them each new one wrote 60 kB.
#[test]
fn a_snapshot_of_a_role_costs_as_many_bytes_however_many_the_role_has() {
    let catalog = with_role(&MemDisk::new(), None);
    let written = |work: &dyn Fn()| {
        let before = catalog.db().stats().wal_bytes_written;
        work();
        catalog.db().stats().wal_bytes_written - before
    };
    let mut costs = Vec::new();
    for n in 1..=500 {
        let name = format!("s{n:04}");
        let created = written(&|| create(&catalog, &name).unwrap());
        let renewed = written(&|| {
            delete(&catalog, &name).unwrap();
            create(&catalog, &name).unwrap();
        });
        costs.push((created, renewed));
    }
    assert_eq!(records(&catalog).len(), 500);
    let ((first, first_renewed), (last, last_renewed)) = (costs[0], costs[499]);
    // Numbers have more digits later.
    assert!(last < first + 32, "{first} and {last} bytes");
    assert!(
        last_renewed < first_renewed + 64,
        "{first_renewed} and {last_renewed} bytes"
    );
}

#[test]
fn expired_snapshots_make_a_new_one_write_a_bounded_number_of_bytes() {
    let catalog = with_role(&MemDisk::new(), None);
    for n in 0..100 {
        create(&catalog, &format!("s{n}")).unwrap();
    }
    for n in 0..100 {
        // As an expiry does, without the catalog.
        app(&catalog).delete_snapshot(&format!("s{n}")).unwrap();
    }
    let before = catalog.db().stats().wal_bytes_written;
    create(&catalog, "new").unwrap();
    let written = catalog.db().stats().wal_bytes_written - before;
    assert!(written < 1000, "{written} bytes");
    let left = records(&catalog).len();
    assert!((2..100).contains(&left), "{left} records");
}

#[test]
fn a_deleted_snapshot_leaves_nothing_to_a_later_one_of_its_name() {
    for is_forgotten in [true, false] {
        let disk = MemDisk::new();
        let catalog = with_role(&disk, Some(1));
        create(&catalog, "s").unwrap();
        assert!(!may_create(&catalog));
        if is_forgotten {
            delete(&catalog, "s").unwrap();
            assert!(records(&catalog).is_empty());
        } else {
            // As a crash does between the two steps, and a command without a server.
            app(&catalog).delete_snapshot("s").unwrap();
        }
        app(&catalog).create_snapshot("s").unwrap();
        assert!(may_create(&catalog));
        drop(catalog);
        let catalog = open(&disk).unwrap();
        assert!(records(&catalog).is_empty());
        assert!(may_create(&catalog));
        // A snapshot without a record is deleted as any other.
        delete(&catalog, "s").unwrap();
    }
}

/// The record of a deleted snapshot is found by the snapshot's sequence number. A hold (a snapshot that
/// ebb keeps for itself) has the number of the snapshot that it was made from.
#[test]
fn a_deleted_hold_leaves_the_record_of_its_snapshot() {
    let catalog = with_role(&MemDisk::new(), Some(1));
    for change in &CHANGES[1..3] {
        apply(&catalog, *change).unwrap();
    }
    create(&catalog, "s").unwrap();
    let hold = HoldOptions {
        name: "copied".into(),
        table: "t".into(),
        held_for: "a copy".into(),
        expires_in: None,
    };
    app(&catalog).hold_snapshot("s", &hold).unwrap();
    delete(&catalog, "hold/copied").unwrap();
    assert_eq!(records(&catalog).len(), 1);
    assert!(!may_create(&catalog));
}

#[test]
fn a_power_loss_leaves_no_record_without_its_snapshot() {
    for nth_call in 1.. {
        let disk = MemDisk::new();
        let catalog = with_role(&disk, None);
        disk.crash_at(nth_call);
        let steps: [&dyn Fn() -> Result<()>; 4] = [
            &|| create(&catalog, "s"),
            &|| delete(&catalog, "s"),
            &|| Ok(app(&catalog).create_snapshot("s")?),
            &|| Ok(catalog.db().sync()?),
        ];
        let done = steps.iter().take_while(|step| step().is_ok()).count();
        let is_whole = done == steps.len() && disk.has_power();
        drop(catalog);
        disk.restart(nth_call);

        let catalog = open(&disk).unwrap();
        let there = app(&catalog).snapshot_seq("s").ok();
        let expected: Vec<_> = there.iter().map(|seq| (ADA, seq.0)).collect();
        let found = records(&catalog).into_iter();
        let found: Vec<_> = found.map(|(role, owned)| (role, owned.seq)).collect();
        match done {
            // The snapshot may be there without its record, not the other way round.
            0 => assert!(
                found.is_empty() || found == expected,
                "{nth_call}: {found:?}"
            ),
            1 => assert_eq!(found, expected, "{nth_call}"),
            _ => assert!(found.is_empty(), "{nth_call}: {found:?}"),
        }
        if there.is_some() {
            delete(&catalog, "s").unwrap();
        }
        assert!(records(&catalog).is_empty());
        create(&catalog, "s").unwrap();
        assert_eq!(records(&catalog).len(), 1);
        if is_whole {
            break;
        }
    }
}

#[test]
fn a_dropped_role_leaves_no_snapshots_to_a_later_role_of_its_name() {
    let catalog = with_role(&MemDisk::new(), Some(1));
    create(&catalog, "s").unwrap();
    let without = |roles: &Roles| roles.without("ada").map(Some);
    assert!(catalog.roles().change(without).unwrap().unwrap());
    assert!(records(&catalog).is_empty());
    add_role(&catalog, ADA + 1, Some(1));
    assert!(may_create(&catalog));
    app(&catalog).snapshot_seq("s").unwrap();
}

#[test]
fn a_snapshot_does_not_count_for_a_role_that_got_the_name_of_its_creator_meanwhile() {
    let catalog = with_role(&MemDisk::new(), Some(1));
    let room = catalog.roles().room_for_snapshot("ada").unwrap();
    app(&catalog).create_snapshot("s").unwrap();
    let without = |roles: &Roles| roles.without("ada").map(Some);
    assert!(catalog.roles().change(without).unwrap().unwrap());
    add_role(&catalog, ADA + 1, Some(1));
    room.note("app", "s").unwrap();
    assert!(records(&catalog).is_empty());
    assert!(may_create(&catalog));
}

#[test]
fn a_record_of_a_role_that_lists_its_snapshots_is_split_when_it_is_read() {
    for is_restored in [false, true] {
        is_split(is_restored);
    }
}

/// Checks that an old record of a role, which lists the role's snapshots, is replaced by one
/// without the list and a record for each existing snapshot. This happens when the database is
/// opened, or, with `is_restored`, once a record that was damaged at the opening is restored.
fn is_split(is_restored: bool) {
    let disk = MemDisk::new();
    let catalog = with_role(&disk, Some(2));
    let listed = |name: &str| {
        app(&catalog).create_snapshot(name).unwrap();
        let seq = app(&catalog).snapshot_seq(name).unwrap().0;
        format!(r#"{{"keyspace":"app","name":"{name}","seq":{seq}}}"#)
    };
    let list = ["a", "b", "gone"].map(listed).join(",");
    app(&catalog).delete_snapshot("gone").unwrap();
    let roles = own_table(&catalog, "roles");
    let new = roles.get(b"ada").unwrap().unwrap();
    let text = std::str::from_utf8(&new).unwrap();
    let old = format!("{},\"snapshots\":[{list}]}}", text.trim_end_matches('}'));
    let stored: &[u8] = if is_restored { b"{}" } else { old.as_bytes() };
    roles.put(b"ada", stored).unwrap();
    drop((roles, catalog));
    if is_restored {
        let catalog = open(&disk).unwrap();
        let roles = own_table(&catalog, "roles");
        roles.put(b"ada", old.as_bytes()).unwrap();
        catalog.reread().unwrap();
        assert_eq!(roles.get(b"ada").unwrap().unwrap(), new);
        assert!(!may_create(&catalog));
    }

    for _ in 0..2 {
        let catalog = open(&disk).unwrap();
        assert_eq!(
            own_table(&catalog, "roles").get(b"ada").unwrap().unwrap(),
            new
        );
        let names = records(&catalog).into_iter();
        let names: Vec<_> = names.map(|(role, owned)| (role, owned.name)).collect();
        assert_eq!(names, ["a", "b"].map(|name| (ADA, name.to_owned())));
        assert!(!may_create(&catalog));
    }
    let catalog = open(&disk).unwrap();
    delete(&catalog, "a").unwrap();
    assert!(may_create(&catalog));
}

#[test]
fn a_record_that_cannot_be_read_counts_for_no_role_and_stays() {
    let disk = MemDisk::new();
    let catalog = with_role(&disk, Some(1));
    let key = OwnedSnapshot::key(ADA, 1);
    let all = own_table(&catalog, "role_snapshots");
    all.put(&key, b"{\"format\":2}").unwrap();
    all.put(b"short", b"").unwrap();
    drop((all, catalog));
    let catalog = open(&disk).unwrap();
    assert!(may_create(&catalog));
    create(&catalog, "s").unwrap();
    let all = own_table(&catalog, "role_snapshots");
    assert_eq!(all.get(&key).unwrap().unwrap(), "{\"format\":2}");
    assert_eq!(all.range::<&[u8], _>(..).count(), 3);
}

/// Regression: a start was refused if a full disk had no space for the removal of records of snapshots that
/// were gone.
#[test]
fn records_of_snapshots_that_are_gone_stay_while_the_disk_is_full() {
    let disk = MemDisk::new();
    let catalog = with_role(&disk, Some(1));
    create(&catalog, "s").unwrap();
    app(&catalog).delete_snapshot("s").unwrap();
    drop(catalog);
    // No flush has held space back.
    disk.set_capacity_bytes(Some(disk.used_bytes()));
    let catalog = open(&disk).unwrap();
    assert_eq!(records(&catalog).len(), 1);
    assert!(may_create(&catalog));
    drop(catalog);
    disk.set_capacity_bytes(None);
    assert_eq!(records(&open(&disk).unwrap()).len(), 0);
}
