//! Unreadable roles.

use ebb_model::key::SCHEMA_KEY;

use super::*;

/// Regression: a role could get an identity that an unreadable role had. Once that role was restored, both
/// had it.
#[test]
fn a_role_gets_no_identity_while_another_role_is_unreadable() {
    let disk = MemDisk::new();
    let catalog = open(&disk).unwrap();
    add_role(&catalog, "a");
    add_role(&catalog, "b");
    let give = |catalog: &Catalog, role: &str| {
        change_roles(catalog, |roles| roles.with_identity("spiffe://x", role))
    };
    assert!(give(&catalog, "b").unwrap());
    role_records(&catalog).put(b"b", b"{}").unwrap();
    drop(catalog);
    let catalog = open(&disk).unwrap();
    assert!(is_refused(give(&catalog, "a")));
    assert!(catalog.roles().drop_unreadable("b").unwrap());
    assert!(give(&catalog, "a").unwrap());
}

#[test]
fn permissions_on_a_table_that_cannot_be_read_stay() {
    let (disk, catalog) = with_rows();
    let on = Resource::table("app", "t");
    add_role(&catalog, "ada");
    grant_all(&catalog, "ada", &on);
    t(&catalog).put(SCHEMA_KEY, b"{}").unwrap();
    drop(catalog);
    let catalog = open(&disk).unwrap();
    let held = |catalog: &Catalog| {
        let state = catalog.roles().state();
        let ada = state.roles().get("ada").unwrap();
        ada.permissions.contains_key(&on)
    };
    assert!(held(&catalog));
    apply(&catalog, DROP_T).unwrap();
    assert!(!held(&catalog));
}

/// Bytes that are not UTF-8 are replaced in a displayed name, which may then equal the name of another
/// role.
#[test]
fn a_role_whose_name_is_not_utf_8_is_dropped_and_no_other_one() {
    let disk = MemDisk::new();
    let catalog = open(&disk).unwrap();
    let healthy = "b\u{fffd}d";
    add_role(&catalog, healthy);
    add_role(&catalog, "ada");
    let records = role_records(&catalog);
    for key in [&b"b\xffd"[..], b"x\xff", b"x\xfe"] {
        records.put(key, b"{}").unwrap();
    }
    drop((records, catalog));

    let catalog = open(&disk).unwrap();
    assert_eq!(unreadable(&catalog).len(), 2);
    let state = catalog.roles().state();
    assert!(state.unreadable(healthy).is_none() && !state.hides(healthy));
    assert!(state.hides("x\u{fffd}") && state.may_be_superuser("x\u{fffd}"));
    assert!(!catalog.roles().drop_unreadable(healthy).unwrap());
    assert!(catalog.roles().drop_unreadable("x\u{fffd}").unwrap());
    drop(catalog);
    let catalog = open(&disk).unwrap();
    assert_eq!(unreadable(&catalog).len(), 1);
    assert!(catalog.roles().state().roles().get(healthy).is_some());
}

/// While a role is unreadable, its members are treated as possible superusers, because they may be
/// superusers again once the role is restored.
#[test]
fn a_member_of_a_role_that_cannot_be_read_may_be_a_superuser() {
    let disk = MemDisk::new();
    let catalog = open(&disk).unwrap();
    for name in ["root2", "eve", "ada"] {
        add_role(&catalog, name);
    }
    change_roles(&catalog, |roles| roles.with_member("root2", "ada")).unwrap();
    let state = catalog.roles().state();
    assert!(!state.may_be_superuser("ada"));
    role_records(&catalog).put(b"root2", b"{}").unwrap();
    drop((state, catalog));
    let state = open(&disk).unwrap().roles().state();
    assert!(state.may_be_superuser("ada") && !state.may_be_superuser("eve"));
}

#[test]
fn a_role_is_in_service_again_without_a_start_once_its_record_is_readable() {
    let disk = MemDisk::new();
    let catalog = open(&disk).unwrap();
    add_role(&catalog, "bad");
    add_role(&catalog, "ada");
    let records = role_records(&catalog);
    let record = records.get(b"bad").unwrap().unwrap();
    records.put(b"bad", b"{}").unwrap();
    drop((records, catalog));

    let catalog = open(&disk).unwrap();
    assert_eq!(catalog.unreadable().len(), 1);
    let generation = catalog.roles().generation();
    catalog.reread().unwrap();
    assert_eq!(catalog.roles().generation(), generation);
    role_records(&catalog).put(b"bad", &record).unwrap();
    catalog.reread().unwrap();
    assert_eq!(catalog.unreadable(), []);
    // Holders of cached decisions look again.
    assert_ne!(catalog.roles().generation(), generation);
    let state = catalog.roles().state();
    assert!(state.roles().get("bad").is_some() && state.roles().get("ada").is_some());
}

/// Regression: if the record of one role was unreadable, nothing in the database was served.
#[test]
fn a_role_that_cannot_be_read_is_out_of_service_alone_until_it_is_dropped() {
    let disk = MemDisk::new();
    let catalog = open(&disk).unwrap();
    let on_it = Resource::role("bad");
    add_role(&catalog, "ada");
    add_role(&catalog, "bad");
    change_roles(&catalog, |roles| roles.with_member("bad", "ada")).unwrap();
    grant_all(&catalog, "ada", &on_it);
    role_records(&catalog).put(b"bad", b"{}").unwrap();
    drop(catalog);

    for life in 0..2 {
        let catalog = open(&disk).unwrap();
        let found = only_unreadable(&catalog);
        assert!(found.starts_with("role bad cannot be read: "), "{found}");
        let state = catalog.roles().state();
        assert!(state.granted("bad").is_none());
        assert_eq!(state.unreadable("bad").unwrap().to_string(), found);
        let ada = state.roles().get("ada").unwrap();
        assert!(ada.member_of.contains("bad") && ada.permissions.contains_key(&on_it));
        // Its name stays reserved, and other changes preserve its record.
        let add_again = |roles: &Roles| roles.with_new("bad", Role::default());
        assert!(is_refused(change_roles(&catalog, add_again)));
        add_role(&catalog, &format!("other{life}"));
        assert_eq!(role_records(&catalog).get(b"bad").unwrap().unwrap(), "{}");
    }
    let catalog = open(&disk).unwrap();
    assert!(!catalog.roles().drop_unreadable("ada").unwrap());
    assert!(catalog.roles().drop_unreadable("bad").unwrap());
    assert_eq!(unreadable(&catalog), [""; 0]);
    drop(catalog);
    let catalog = open_whole(&disk);
    let state = catalog.roles().state();
    let ada = state.roles().get("ada").unwrap();
    assert!(ada.member_of.is_empty() && ada.permissions.is_empty());
    add_role(&catalog, "bad");
}
