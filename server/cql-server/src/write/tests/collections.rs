//! Collections and user-defined types that are not frozen.

use ebb_cql::protocol::Value;

use super::harness::session;
use crate::testing::Session;

fn lists() -> Session {
    session(&["CREATE TABLE t (k int PRIMARY KEY, l list<int>, f frozen<list<int>>)"])
}

#[track_caller]
fn is(session: &Session, column: &str) {
    assert_eq!(session.show("t"), [format!("k 1, {column}")]);
}

#[test]
fn lists_are_appended_and_prepended() {
    let session = lists();
    session.write("UPDATE t SET l = [3, 4] WHERE k = 1");
    session.write("UPDATE t SET l = l + [5, 6] WHERE k = 1");
    session.write("UPDATE t SET l = [1, 2] + l WHERE k = 1");
    session.write("UPDATE t SET l += [7] WHERE k = 1");
    session.write("UPDATE t SET l = [0] + l WHERE k = 1");
    is(&session, "l [0, 1, 2, 3, 4, 5, 6, 7]");
    session.write("UPDATE t SET l = [9, 9] WHERE k = 1");
    is(&session, "l [9, 9]");
    session.write("UPDATE t SET l = [] WHERE k = 1");
    assert!(session.show("t").is_empty());
    session.write("UPDATE t SET f = [] WHERE k = 1");
    is(&session, "f []");
}

#[test]
fn each_change_of_a_list_sees_the_changes_before_it() {
    let session = lists();
    let steps = "
        INSERT INTO t (k, l) VALUES (1, [1, 2, 3, 4]) => done
        DELETE l[2], l[2] FROM t WHERE k = 1 => k 1, l [1, 2]
        UPDATE t SET l = l + [3, 4], l[3] = 7 WHERE k = 1 => k 1, l [1, 2, 3, 7]
        UPDATE t SET l[2] = 8, l = l - [8] WHERE k = 1 => k 1, l [1, 2, 7]
        UPDATE t SET l = l - [1], l[0] = 5 WHERE k = 1 => k 1, l [5, 7]
        UPDATE t SET l = l - [5], l[1] = 4 WHERE k = 1 => List index 1 out of bound, list has size 1
        // Elements that are newer than the write stay, and are counted.
        UPDATE t USING TIMESTAMP 1 SET l = l - [5], l[1] = 4 WHERE k = 1 => k 1, l [5, 7]
    ";
    session.check(steps);
}

#[test]
fn a_map_may_be_changed_as_a_whole_and_by_key_at_once() {
    let session = session(&["CREATE TABLE t (k int PRIMARY KEY, m map<int, int>)"]);
    session.write("UPDATE t SET m = m + {4: 5}, m[4] = 7 WHERE k = 1");
    is(&session, "m {4: 7}");
    session.write("UPDATE t SET m[5] = 9, m = m - {4} WHERE k = 1");
    is(&session, "m {5: 9}");
    // Of equal timestamps the deletion wins.
    session.write("UPDATE t SET m = m - {5}, m[5] = 1, m[6] = 1 WHERE k = 1");
    is(&session, "m {6: 1}");
}

#[test]
fn a_list_is_changed_by_index_and_by_value() {
    let session = lists();
    let steps = "
        INSERT INTO t (k, l) VALUES (1, [1, 2, 1, 3]) => done
        UPDATE t SET l[1] = 9 WHERE k = 1 => k 1, l [1, 9, 1, 3]
        UPDATE t SET l = l - [1, 8] WHERE k = 1 => k 1, l [9, 3]
        DELETE l[0] FROM t WHERE k = 1 => k 1, l [3]
        UPDATE t SET l[1] = 9 WHERE k = 1 => List index 1 out of bound, list has size 1
        UPDATE t SET l[-1] = 9 WHERE k = 1 => List index -1 out of bound, list has size 1
        DELETE l[4] FROM t WHERE k = 1 => List index 4 out of bound, list has size 1
        UPDATE t SET l[0] = 9 WHERE k = 2 => Attempted to set an element on a list which is null
        DELETE l[0] FROM t WHERE k = 2 => Attempted to delete an element from a list which is null
        UPDATE t SET l[null] = 9 WHERE k = 1 => Invalid null value for list index
    ";
    session.check(steps);
    // An unset value leaves the element as it is, but the element must exist.
    let set = |index: i32, k: i32| format!("UPDATE t SET l[{index}] = ? WHERE k = {k}");
    session.bind(&set(0, 1), &[Value::Unset]);
    is(&session, "l [3]");
    for (index, k, message) in [
        (1, 1, "List index 1 out of bound, list has size 1"),
        (0, 2, "Attempted to set an element on a list which is null"),
    ] {
        let refusal = session.refusal_of(&set(index, k), &[Value::Unset]);
        assert_eq!(refusal, message);
    }
    session.write("UPDATE t SET l[0] = null WHERE k = 1");
    assert_eq!(session.show("t"), ["k 1"]);
    // Removing from a missing list changes nothing.
    session.write("UPDATE t SET l = l - [1] WHERE k = 2");
    assert_eq!(session.show("t"), ["k 1"]);
}

#[test]
fn list_operations_read_static_lists_and_respect_range_deletions() {
    let session = session(&[
        "CREATE TABLE t (k int, c int, s list<int> STATIC, l list<int>, PRIMARY KEY (k, c))",
    ]);
    session.write("INSERT INTO t (k, c, s, l) VALUES (1, 1, [1, 2], [3, 4])");
    session.write("UPDATE t SET s[0] = 8 WHERE k = 1");
    session.write("UPDATE t SET l = l - [3], s = s - [2] WHERE k = 1 AND c = 1");
    assert_eq!(session.show("t"), ["k 1, s [8]", "k 1, c 1, l [4]"]);
    session.write("DELETE FROM t WHERE k = 1 AND c > 0");
    let message = session.refusal("UPDATE t SET l[0] = 1 WHERE k = 1 AND c = 1");
    assert_eq!(
        message,
        "Attempted to set an element on a list which is null"
    );
}

#[test]
fn a_repeated_list_write_adds_nothing() {
    let session = lists();
    session.write_at(10, "UPDATE t SET l = [2] WHERE k = 1");
    for _ in 0..2 {
        session.write_at(20, "UPDATE t SET l = l + [3, 3] WHERE k = 1");
        session.write_at(30, "UPDATE t SET l = [1, 1] + l WHERE k = 1");
    }
    is(&session, "l [1, 1, 2, 3, 3]");
    // A write with the same timestamp and other values is not lost.
    session.write_at(20, "UPDATE t SET l = l + [4] WHERE k = 1");
    assert_eq!(session.show("t")[0].matches(", ").count(), 6);
}

/// Regression: elements were sorted by the timestamps of their writes, so that an element that was
/// appended with USING TIMESTAMP and a small timestamp came before all others.
#[test]
fn new_elements_are_sorted_by_the_time_of_their_requests() {
    let session = lists();
    session.write("UPDATE t USING TIMESTAMP 500 SET l = l + [1, 2] WHERE k = 1");
    session.write("UPDATE t USING TIMESTAMP 100 SET l = l + [3] WHERE k = 1");
    session.write("UPDATE t USING TIMESTAMP 100 SET l = [0] + l WHERE k = 1");
    is(&session, "l [0, 1, 2, 3]");
    let appended = [
        "UPDATE t USING TIMESTAMP 900 SET l = l + [4] WHERE k = 1",
        "UPDATE t USING TIMESTAMP 800 SET l = l + [5] WHERE k = 1",
        "UPDATE t USING TIMESTAMP 900 SET l = [9] + l WHERE k = 1",
        "UPDATE t USING TIMESTAMP 800 SET l = [8] + l WHERE k = 1",
    ];
    session.batch(&appended).unwrap();
    is(&session, "l [8, 9, 0, 1, 2, 3, 4, 5]");
    let text = "BEGIN BATCH USING TIMESTAMP 200 UPDATE t SET l = l + [6] WHERE k = 1; \
                UPDATE t SET l = l + [7] WHERE k = 1; APPLY BATCH";
    session.write(text);
    is(&session, "l [8, 9, 0, 1, 2, 3, 4, 5, 6, 7]");
    // Deletions do go by the timestamps.
    session.write("UPDATE t USING TIMESTAMP 801 SET l = [] WHERE k = 1");
    is(&session, "l [9, 4]");
}

#[test]
fn a_list_does_not_depend_on_the_order_in_which_requests_arrive() {
    let (one, two) = (lists(), lists());
    let writes = [
        (10, "UPDATE t SET l = [1] WHERE k = 1"),
        (20, "UPDATE t SET l = l + [2] WHERE k = 1"),
        (30, "UPDATE t SET l = l + [3] WHERE k = 1"),
        (40, "UPDATE t SET l = [0] + l WHERE k = 1"),
    ];
    writes.iter().for_each(|(at, text)| one.write_at(*at, text));
    writes
        .iter()
        .rev()
        .for_each(|(at, text)| two.write_at(*at, text));
    is(&one, "l [0, 1, 2, 3]");
    is(&two, "l [0, 1, 2, 3]");
}

#[test]
fn sets_and_maps_change_part_by_part() {
    let session = session(&["CREATE TABLE t (k int PRIMARY KEY, s set<text>, m map<text, int>)"]);
    let steps = "
        UPDATE t SET s = {'b'}, m = {'x': 1, 'y': 2} WHERE k = 1 => done
        UPDATE t SET s = s + {'c', 'a'}, m = m + {'z': 3} WHERE k = 1 => done
        UPDATE t SET m['q'] = 5, m['x'] = 9, m['q'] = 6 WHERE k = 1
        => k 1, m {'q': 6, 'x': 9, 'y': 2, 'z': 3}, s {'a', 'b', 'c'}
        UPDATE t SET s = s - {'b', 'q'}, m = m - {'y', 'q'} WHERE k = 1 => done
        UPDATE t SET m['z'] = null WHERE k = 1 => k 1, m {'x': 9}, s {'a', 'c'}
        DELETE s['a'], m['x'] FROM t WHERE k = 1 => k 1, s {'c'}
        UPDATE t SET s = {'n'} WHERE k = 1 => k 1, s {'n'}
        DELETE s FROM t WHERE k = 1 => no rows
        // A member can be added again after its deletion.
        UPDATE t SET s += {'n'} WHERE k = 1 => k 1, s {'n'}
    ";
    session.check(steps);
}

#[test]
fn replacing_a_collection_keeps_newer_elements() {
    let session = session(&["CREATE TABLE t (k int PRIMARY KEY, s set<int>)"]);
    session.write_at(30, "UPDATE t SET s = s + {3} WHERE k = 1");
    session.write_at(10, "UPDATE t SET s = s + {1} WHERE k = 1");
    session.write_at(20, "UPDATE t SET s = {2} WHERE k = 1");
    is(&session, "s {2, 3}");
    // Two replacements with equal timestamps are joined: each deletes only older elements.
    session.write_at(20, "UPDATE t SET s = {4} WHERE k = 1");
    is(&session, "s {2, 3, 4}");
    session.write_at(20, "DELETE s FROM t WHERE k = 1");
    is(&session, "s {3}");
    session.write_at(i64::MIN + 1, "UPDATE t SET s = {5} WHERE k = 2");
    assert_eq!(session.show("t").len(), 2);
}

#[test]
fn an_element_lives_for_its_ttl() {
    let session = session(&["CREATE TABLE t (k int PRIMARY KEY, m map<int, int>)"]);
    session.write("UPDATE t SET m = {1: 1} WHERE k = 1");
    session.write("UPDATE t USING TTL 5 SET m[2] = 2 WHERE k = 1");
    is(&session, "m {1: 1, 2: 2}");
    session.clock.advance_ms(5_000);
    is(&session, "m {1: 1}");
}

#[test]
fn equal_keys_with_different_bytes_are_one_key() {
    let session = session(&["CREATE TABLE t (k int PRIMARY KEY, m map<decimal, int>)"]);
    session.write("UPDATE t SET m = {1.0: 1} WHERE k = 1");
    session.write("UPDATE t SET m[1.00] = 2 WHERE k = 1");
    is(&session, "m {1.00: 2}");
    session.write("UPDATE t SET m = m - {1} WHERE k = 1");
    assert!(session.show("t").is_empty());
}

#[test]
fn fields_of_a_user_type_change_one_by_one() {
    let mut session = session(&[]);
    session.run("CREATE TYPE point (x int, y int, z int)");
    session.run("CREATE TABLE t (k int PRIMARY KEY, p point, f frozen<point>)");
    let steps = "
        UPDATE t SET p = {x: 1, y: 2} WHERE k = 1 => done
        UPDATE t SET p.z = 3, p.x = null WHERE k = 1 => k 1, p {x: null, y: 2, z: 3}
        DELETE p.y FROM t WHERE k = 1 => k 1, p {x: null, y: null, z: 3}
        UPDATE t SET p = {x: 7} WHERE k = 1 => k 1, p {x: 7, y: null, z: null}
        UPDATE t SET p = null, f = {x: 1} WHERE k = 1 => k 1, f {x: 1, y: null, z: null}
        UPDATE t SET f.x = 1 WHERE k = 1 => Invalid operation (f.x = 1) for frozen UDT column f
        UPDATE t SET p.q = 1 WHERE k = 1 => UDT column p does not have a field named q
        DELETE f.x FROM t WHERE k = 1 => Frozen UDT column f does not support field deletions
    ";
    session.check(steps);
}

#[test]
fn collections_are_bound_as_values() {
    let session = lists();
    let list = [0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 5];
    session.bind("UPDATE t SET l = ? WHERE k = 1", &[Value::Bytes(&list)]);
    session.bind("UPDATE t SET l = l + ? WHERE k = 1", &[Value::Bytes(&list)]);
    is(&session, "l [5, 5]");
    session.bind("UPDATE t SET l = ? WHERE k = 1", &[Value::Unset]);
    session.bind("UPDATE t SET l = l + ? WHERE k = 1", &[Value::Null]);
    is(&session, "l [5, 5]");
    session.bind("UPDATE t SET l = ? WHERE k = 1", &[Value::Null]);
    assert!(session.show("t").is_empty());
}
