//! Tables of other databases, of copies of a database, and of databases that were restored.

use super::*;

#[test]
fn a_table_of_another_database_is_refused() {
    let (_dir, target) = monday();
    let mut other = publication("tuesday", 20);
    other.origin.database_id = "d2".into();
    let error = commit(&target, &other, 2).unwrap_err().to_string();
    assert!(
        error.starts_with("ks/t: ") && error.contains("database d1"),
        "{error}"
    );
    let mut other = publication("tuesday", 20);
    other.origin.table_id = "t2".into();
    assert!(commit(&target, &other, 2).is_err());
    assert!(commit(&target, &publication("main", 20), 2).is_err());
    assert_eq!(newest(&target).snapshots.len(), 1);
}

/// Two copies of a database have one id, but only one of them has recorded the epoch of a commit.
#[test]
fn a_publisher_stops_at_an_epoch_that_its_database_has_not_written() {
    let (_dir, target) = monday();
    let mut copy = publication("tuesday", 20);
    copy.rights.own_epochs.retain(|own| *own != epoch(1));
    let error = commit(&target, &copy, 2).unwrap_err().to_string();
    assert!(error.starts_with("ks/t: another copy"), "{error}");
    assert!(error.contains("--take-over"), "{error}");
    // Nor does it accept what the other one has published of the same snapshot.
    let mut same = publication("monday", 10);
    same.rights = copy.rights.clone();
    assert!(commit(&target, &same, 2).is_err());
    assert!(move_main(&target, &same, 2).is_err());

    copy.rights.takes_over = true;
    assert!(commit(&target, &copy, 2).unwrap());
    let mut first = publication("wednesday", 30);
    first.rights.own_epochs.retain(|own| *own != epoch(2));
    assert!(commit(&target, &first, 3).is_err());
    assert_eq!(newest(&target).snapshots.len(), 2);
}

#[test]
fn a_move_of_main_has_an_epoch_too() {
    let (_dir, target) = place();
    let mut monday = publication("monday", 10);
    monday.moves_main = false;
    commit(&target, &monday, 1).unwrap();
    move_main(&target, &monday, 2).unwrap();
    let table = PublishedTable::open(&target, "ks/t").unwrap();
    assert_eq!(table.epoch(), Some(&epoch(2)[..]));
}

/// The database was restored: its id is another one, and its sequence numbers begin again below those that are
/// published.
#[test]
fn a_table_that_is_taken_over_keeps_its_tags_and_main_follows_the_new_owner() {
    let (_dir, target) = monday();
    commit(&target, &publication("tuesday", 20), 2).unwrap();
    let restored = |snapshot: &str, sequence_number| {
        let mut publication = publication(snapshot, sequence_number);
        publication.origin.database_id = "d2".into();
        publication
    };
    let mut wednesday = restored("wednesday", 15);
    let error = commit(&target, &wednesday, 3).unwrap_err().to_string();
    assert!(error.contains("--take-over"), "{error}");
    wednesday.rights.takes_over = true;
    wednesday.moves_main = false;
    let at = || PublishedTable::open(&target, "ks/t").unwrap();
    let takes_over = |of: &Publication| at().is_taken_over(&of.origin, &of.rights).unwrap();
    assert!(takes_over(&wednesday));
    assert!(commit(&target, &wednesday, 3).unwrap());
    // Until `main` has moved, it names no publication of the new owner.
    assert!(!takes_over(&wednesday));
    assert_eq!((main_of(&target), at().origin()), (Some(2), None));
    assert!(move_main(&target, &wednesday, 4).unwrap());
    assert_eq!(at().origin(), Some(wednesday.origin.clone()));
    let tags = [MAIN, "monday", "tuesday", "wednesday"];
    assert!(newest(&target).refs.keys().eq(tags));

    // The next one needs no option, and the database before is refused.
    assert!(commit(&target, &restored("thursday", 16), 5).unwrap());
    assert_eq!(main_of(&target), Some(5));
    assert!(commit(&target, &publication("friday", 30), 6).is_err());
}

/// The rows of the restored database may differ from those that were published under the same name.
#[test]
fn a_snapshot_with_the_tag_of_the_owner_before_is_published_again_when_the_table_is_taken_over() {
    let (_dir, target) = monday();
    let mut again = publication("monday", 10);
    again.origin.database_id = "d2".into();
    again.rights.takes_over = true;
    assert!(commit(&target, &again, 2).unwrap());
    assert_eq!(newest(&target).refs["monday"].snapshot_id, 2);
    assert_eq!(main_of(&target), Some(2));
    assert!(!commit(&target, &again, 3).unwrap());
}

/// Earlier builds of ebb wrote no epochs.
#[test]
fn a_table_without_an_epoch_is_continued() {
    let (_dir, target) = monday();
    change(&target, 2, |metadata| {
        metadata.properties.remove("ebb.epoch").unwrap();
    });
    let mut tuesday = publication("tuesday", 20);
    tuesday.rights.own_epochs.clear();
    assert!(commit(&target, &tuesday, 2).unwrap());
}
