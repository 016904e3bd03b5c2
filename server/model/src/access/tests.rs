//! Graphs of roles, permissions along resources, and stored records.

use super::*;

/// Returns roles with these names; each role is granted to the members listed after it.
fn graph(edges: &[(&str, &[&str])]) -> Roles {
    let mut roles = Roles::default();
    for (name, _) in edges {
        roles = roles.with_new(name, Role::default()).unwrap();
    }
    for (role, members) in edges {
        for member in *members {
            roles = roles.with_member(role, member).unwrap();
        }
    }
    roles
}

fn may(roles: &Roles, role: &str, permission: Permission, on: &Resource) -> bool {
    let need = Need {
        permission,
        on: on.clone(),
    };
    roles.granted(role).unwrap().permits(&need)
}

#[test]
fn grants_reach_members_of_members() {
    let roles = graph(&[("reader", &["team"]), ("team", &["ada"]), ("ada", &[])]);
    assert_eq!(
        Vec::from_iter(roles.of("ada", false)),
        ["ada", "reader", "team"]
    );
    assert_eq!(Vec::from_iter(roles.of("ada", true)), ["ada", "team"]);
    let table = Resource::table("ks", "t");
    let select = PermissionSet::of(&[Permission::Select]);
    let (roles, new) = roles.with_permissions("reader", &table, select).unwrap();
    assert_eq!(new, select);
    assert!(may(&roles, "ada", Permission::Select, &table));
    assert!(!may(&roles, "ada", Permission::Modify, &table));
    let roles = roles.without_member("reader", "team").unwrap();
    assert!(!may(&roles, "ada", Permission::Select, &table));
}

#[test]
fn a_grant_that_would_close_a_cycle_is_refused() {
    let roles = graph(&[("a", &["b"]), ("b", &["c"]), ("c", &[])]);
    let message = |role, member| roles.with_member(role, member).unwrap_err().to_string();
    assert_eq!(message("c", "a"), "c is a member of a");
    assert_eq!(message("a", "c"), "c is a member of a");
    assert_eq!(message("a", "a"), "a is a member of a");
    assert_eq!(message("a", "x"), "x doesn't exist");
    assert_eq!(message("x", "a"), "x doesn't exist");
    let not_one = roles.without_member("a", "c").unwrap_err();
    assert_eq!(not_one.to_string(), "c is not a member of a");
}

#[test]
fn a_role_in_a_diamond_counts_once_and_ends() {
    let roles = graph(&[
        ("top", &["left", "right"]),
        ("left", &["bottom"]),
        ("right", &["bottom"]),
        ("bottom", &[]),
    ]);
    assert_eq!(roles.of("bottom", false).len(), 4);
}

#[test]
fn a_member_of_a_superuser_is_a_superuser() {
    let roles = graph(&[("root", &["ada"]), ("ada", &[]), ("bob", &[])]);
    let roles = roles
        .with_changed("root", |role| role.is_superuser = true)
        .unwrap();
    assert!(roles.is_superuser("ada") && !roles.is_superuser("bob"));
    assert!(may(&roles, "ada", Permission::Drop, &Resource::AllRoles));
    assert!(!may(&roles, "bob", Permission::Drop, &Resource::AllRoles));
}

#[test]
fn a_permission_applies_to_its_resource_and_those_within_it_only() {
    let table = Resource::table("ks", "t");
    let chain = [
        table.clone(),
        Resource::AllTables("ks".into()),
        Resource::keyspace("ks"),
        Resource::AllKeyspaces,
    ];
    assert!(table.chain().eq(chain.iter().cloned()));
    let others = [
        Resource::table("ks", "u"),
        Resource::table("other", "t"),
        Resource::AllTables("other".into()),
        Resource::keyspace("other"),
        Resource::AllRoles,
        Resource::role("r"),
    ];
    let permits = |on: &Resource| {
        let roles = graph(&[("r", &[])]);
        let (roles, _) = roles.with_permissions("r", on, PermissionSet::ALL).unwrap();
        may(&roles, "r", Permission::Select, &table)
    };
    assert!(chain.iter().all(permits));
    assert!(!others.iter().any(permits));
}

#[test]
fn a_dropped_role_leaves_no_grants_or_permissions_behind() {
    let roles = graph(&[("a", &["b"]), ("b", &[])]);
    let on_it = Resource::role("a");
    let (roles, _) = roles
        .with_permissions("b", &on_it, PermissionSet::ALL)
        .unwrap();
    let roles = roles.without("a").unwrap();
    let left = roles.get("b").unwrap();
    assert!(left.member_of.is_empty() && left.permissions.is_empty());
    assert_eq!(
        roles.without("a").unwrap_err().to_string(),
        "a doesn't exist"
    );
}

#[test]
fn an_identity_belongs_to_one_role_and_is_dropped_with_it() {
    let roles = graph(&[("a", &[]), ("b", &[])]);
    let roles = roles.with_identity("spiffe://x/1", "a").unwrap();
    let of = |roles: &Roles, identity| roles.of_identity(identity).map(|(name, _)| name.clone());
    assert_eq!(of(&roles, "spiffe://x/1"), Some("a".into()));
    assert_eq!(of(&roles, "spiffe://x"), None);
    let message = |changed: Result<Roles, RoleError>| changed.unwrap_err().to_string();
    assert_eq!(
        message(roles.with_identity("spiffe://x/1", "b")),
        "spiffe://x/1 already exists"
    );
    assert_eq!(
        message(roles.with_identity("spiffe://x/2", "c")),
        "c doesn't exist"
    );
    let changed = roles.without_identity("spiffe://x/1").unwrap();
    assert_eq!(of(&changed, "spiffe://x/1"), None);
    assert_eq!(
        message(changed.without_identity("spiffe://x/1")),
        "identity 'spiffe://x/1' doesn't exist"
    );
    let changed = roles.without("a").unwrap();
    assert_eq!(of(&changed, "spiffe://x/1"), None);
    let changed = changed.with_identity("spiffe://x/1", "b").unwrap();
    assert_eq!(of(&changed, "spiffe://x/1"), Some("b".into()));
}

#[test]
fn only_changed_permissions_are_returned_as_granted_or_revoked() {
    let table = Resource::table("ks", "t");
    let [select, both] = [
        &[Permission::Select][..],
        &[Permission::Select, Permission::Modify],
    ]
    .map(PermissionSet::of);
    let roles = graph(&[("r", &[])]);
    let (roles, _) = roles.with_permissions("r", &table, select).unwrap();
    let (roles, new) = roles.with_permissions("r", &table, both).unwrap();
    assert_eq!(new, PermissionSet::of(&[Permission::Modify]));
    let (roles, gone) = roles
        .without_permissions("r", &table, PermissionSet::ALL)
        .unwrap();
    assert_eq!(gone, both);
    assert!(roles.get("r").unwrap().permissions.is_empty());
}

#[test]
fn permissions_on_dropped_resources_are_not_kept() {
    let roles = graph(&[("r", &[])]);
    let (roles, _) =
        (roles.with_permissions("r", &Resource::table("ks", "t"), PermissionSet::ALL)).unwrap();
    let (roles, _) =
        (roles.with_permissions("r", &Resource::keyspace("ks"), PermissionSet::ALL)).unwrap();
    assert_eq!(roles.retained(|_| true), None);
    let next = roles
        .retained(|on| *on != Resource::table("ks", "t"))
        .unwrap();
    assert_eq!(next.get("r").unwrap().permissions.len(), 1);
    let changed: Vec<_> = roles
        .difference(&next)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(changed, ["r".into()]);
}

/// Regression: a permission that an earlier role of the name had left behind applied to the new role.
#[test]
fn a_new_role_inherits_no_grants_of_an_earlier_one_of_its_name() {
    let on_it = Resource::role("team");
    let roles = graph(&[("ada", &[])]);
    let (roles, _) = (roles.with_permissions("ada", &on_it, PermissionSet::ALL)).unwrap();
    let member = |role: &mut Role| {
        role.member_of.insert("team".to_owned());
    };
    let roles = roles.with_changed("ada", member).unwrap();
    let roles = roles.with_new("team", Role::default()).unwrap();
    let ada = roles.get("ada").unwrap();
    assert!(ada.permissions.is_empty() && ada.member_of.is_empty());
}

#[test]
fn a_role_is_decoded_from_its_record() {
    let mut role = Role {
        id: u64::MAX,
        is_superuser: true,
        can_login: true,
        password_hash: Some("$argon2id$".into()),
        member_of: ["é/x".into()].into(),
        snapshots_max: Some(3),
        ..Role::default()
    };
    let resources = [
        Resource::AllKeyspaces,
        Resource::keyspace("ks"),
        Resource::AllTables("ks".into()),
        Resource::table("ks", "T"),
        Resource::AllRoles,
        Resource::role("a/b"),
    ];
    for resource in resources {
        role.permissions
            .insert(resource.clone(), resource.applicable());
    }
    assert_eq!(Role::decode(&role.encode()), Ok((role.clone(), vec![])));
    assert!(!format!("{role:?}").contains("argon2"));
    for damaged in [&b"{}"[..], b"{\"format\":2}", b"", b"{\"format\":1}"] {
        assert!(Role::decode(damaged).is_err());
    }
}

fn monday() -> OwnedSnapshot {
    OwnedSnapshot {
        keyspace: "shop".into(),
        name: "monday".into(),
        seq: 42,
    }
}

/// Regression: the record of a role contained its snapshots, so each new snapshot wrote all of them
/// again.
#[test]
fn the_record_of_a_role_that_lists_its_snapshots_is_read_and_written_without_them() {
    let old = br#"{"format":1,"id":17,"superuser":false,"login":true,"password_hash":null,
        "member_of":[],"permissions":{},"snapshots_max":10,
        "snapshots":[{"keyspace":"shop","name":"monday","seq":42}]}"#;
    let (role, listed) = Role::decode(old).unwrap();
    assert_eq!((role.id, role.snapshots_max), (17, Some(10)));
    assert_eq!(listed, [monday()]);
    let new = role.encode();
    assert!(!String::from_utf8_lossy(&new).contains("monday"));
    assert_eq!(Role::decode(&new), Ok((role, vec![])));
}

#[test]
fn a_snapshot_of_a_role_has_a_record_of_its_own() {
    let (key, value) = (OwnedSnapshot::key(17, 42), monday().encode());
    let expected = *b"\0\0\0\0\0\0\0\x11\0\0\0\0\0\0\0\x2a";
    assert_eq!(key, expected);
    let expected = br#"{"format":1,"keyspace":"shop","name":"monday"}"#;
    assert_eq!(value, expected);
    assert_eq!(OwnedSnapshot::decode(&key, &value), Ok((17, monday())));
    for (key, value) in [
        (&key[1..], &value[..]),
        (&key, b"{}"),
        (&key, br#"{"format":2,"keyspace":"shop","name":"monday"}"#),
        (&key, br#"{"format":1,"keyspace":"shop"}"#),
    ] {
        assert!(OwnedSnapshot::decode(key, value).is_err(), "{value:?}");
    }
    for (role, seq, is_of_it) in [
        (17, 0, true),
        (17, u64::MAX, true),
        (16, u64::MAX, false),
        (18, 0, false),
    ] {
        let key = OwnedSnapshot::key(role, seq).to_vec();
        assert_eq!(
            OwnedSnapshot::keys_of(17).contains(&key),
            is_of_it,
            "{role} {seq}"
        );
    }
    let all = OwnedSnapshot::keys_of(u64::MAX);
    assert!(all.contains(&OwnedSnapshot::key(u64::MAX, u64::MAX).to_vec()));
}

#[test]
fn a_permission_on_a_table_does_not_reach_dropped_tables_of_its_name() {
    let (live, dropped) = (true, false);
    for (on, reaches_live, reaches_dropped) in [
        (Resource::table("ks", "t"), true, false),
        (Resource::AllTables("ks".into()), true, true),
        (Resource::keyspace("ks"), true, true),
        (Resource::AllKeyspaces, true, true),
        (Resource::keyspace("other"), false, false),
    ] {
        let select = PermissionSet::of(&[Permission::Select]);
        let roles = graph(&[("ada", &[])]);
        let (roles, _) = roles.with_permissions("ada", &on, select).unwrap();
        let reaches = |is_live| {
            let table = Resource::table_at_snapshot("ks", "t", is_live);
            may(&roles, "ada", Permission::Select, &table)
        };
        let found = (reaches(live), reaches(dropped));
        assert_eq!(found, (reaches_live, reaches_dropped), "{on}");
    }
}
