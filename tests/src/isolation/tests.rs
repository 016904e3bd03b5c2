//! Histories made by hand. Each anomaly is caught, by both checkers if both can see it, and
//! histories that snapshot isolation allows are accepted.

use super::history::{Content, History, Key, LISTS, Outcome, Step, Transaction};
use super::{black_box, numbers};

const X: Key = 0;
const Y: Key = 1;
/// The key of a register.
const R: Key = LISTS;

fn read(key: Key, list: &[u32]) -> Step {
    let content: Content = (!list.is_empty()).then(|| list.to_vec());
    Step::Read { key, content }
}

fn append(key: Key, element: u32) -> Step {
    Step::Append { key, element }
}

/// Returns the steps that read a list which does not exist yet, and append to it.
fn first(key: Key, element: u32) -> [Step; 2] {
    [read(key, &[]), append(key, element)]
}

fn committed(number: u64) -> Outcome {
    Outcome::Committed {
        number: Some(number),
    }
}

/// Makes a history of transactions. Each is given by the sequence number at which it reads, its
/// outcome and its steps. All transactions overlap in real time, unless `in_turn` is true: then
/// each begins after the end of the one before.
fn history<const N: usize>(transactions: [(u64, Outcome, Vec<Step>); N], in_turn: bool) -> History {
    let transactions = (0..).zip(transactions);
    let transactions = transactions.map(|(at, (start, outcome, steps))| {
        let (began, ended) = if in_turn {
            (2 * at, 2 * at + 1)
        } else {
            (at, 1000 + at)
        };
        Transaction {
            process: at as u32,
            began,
            ended,
            start,
            steps,
            outcome,
        }
    });
    History {
        transactions: transactions.collect(),
        ..History::default()
    }
}

/// Asserts that both checkers find a violation: the checker that sees only the results of
/// transactions (`black_box`) one of `anomalies`, and the checker that has the order of commits
/// (`numbers`) one with the text `exact`.
#[track_caller]
fn assert_caught(history: &History, anomalies: &[&str], exact: &str) {
    let found = black_box::check(history);
    let named = |what: &String| {
        let kind = what.split(':').next().unwrap_or_default();
        anomalies.contains(&kind)
    };
    assert!(found.iter().any(named), "black box: {found:#?}");
    assert_exact(history, exact);
}

#[track_caller]
fn assert_exact(history: &History, exact: &str) {
    let found = numbers::check(history);
    let is_exact = |what: &String| what.contains(exact);
    assert!(found.iter().any(is_exact), "numbers: {found:#?}");
}

#[track_caller]
fn assert_allowed(history: &History) {
    assert_eq!(black_box::check(history), [""; 0]);
    assert_eq!(numbers::check(history), [""; 0]);
}

#[test]
fn a_serial_history_is_allowed() {
    let transactions = [
        (0, committed(1), [first(X, 1), first(Y, 1)].concat()),
        (1, committed(2), vec![read(X, &[1]), append(X, 2)]),
        (2, committed(2), vec![read(X, &[1, 2]), read(Y, &[1])]),
    ];
    assert_allowed(&history(transactions, true));
}

#[test]
fn write_skew_is_allowed() {
    let transactions = [
        (
            0,
            committed(1),
            [vec![read(Y, &[])], first(X, 1).into()].concat(),
        ),
        (
            0,
            committed(2),
            [vec![read(X, &[])], first(Y, 2).into()].concat(),
        ),
        (2, committed(2), vec![read(X, &[1]), read(Y, &[2])]),
    ];
    assert_allowed(&history(transactions, false));
}

#[test]
fn an_old_snapshot_is_allowed_to_readers_that_began_early() {
    let transactions = [
        (0, committed(1), first(X, 1).into()),
        (0, committed(0), vec![read(X, &[])]),
        (1, committed(1), vec![read(X, &[1])]),
    ];
    assert_allowed(&history(transactions, false));
}

/// A transaction reads a value whose writer commits only later.
#[test]
fn a_dirty_read_is_caught() {
    let transactions = [
        (0, committed(2), [first(X, 1), first(Y, 1)].concat()),
        (1, committed(1), vec![read(X, &[1]), read(Y, &[])]),
    ];
    let history = history(transactions, false);
    assert_caught(&history, &["G-single-item"], "read of key 0 at 1");
}

#[test]
fn an_aborted_read_is_caught() {
    let transactions = [
        (0, Outcome::RolledBack, first(X, 1).into()),
        (0, committed(0), vec![read(X, &[1])]),
    ];
    assert_caught(&history(transactions, false), &["G1a"], "read of key 0");
}

#[test]
fn an_intermediate_read_is_caught() {
    let writer = [first(X, 1).to_vec(), vec![append(X, 2)]].concat();
    let transactions = [
        (0, committed(1), writer),
        (1, committed(1), vec![read(X, &[1])]),
    ];
    assert_caught(&history(transactions, false), &["G1b"], "read of key 0");
}

#[test]
fn circular_information_flow_is_caught() {
    let transactions = [
        (
            0,
            committed(1),
            [first(X, 1).to_vec(), vec![read(Y, &[2])]].concat(),
        ),
        (
            0,
            committed(2),
            [first(Y, 2).to_vec(), vec![read(X, &[1])]].concat(),
        ),
    ];
    assert_caught(
        &history(transactions, false),
        &["G1c"],
        "read of key 1 at 0",
    );
}

#[test]
fn a_dirty_write_is_caught() {
    let transactions = [
        (0, committed(1), vec![append(X, 1), append(Y, 1)]),
        (0, committed(2), vec![append(X, 2), append(Y, 2)]),
        (2, committed(2), vec![read(X, &[1, 2]), read(Y, &[2, 1])]),
    ];
    assert_caught(&history(transactions, false), &["G0"], "lost update");
}

#[test]
fn a_lost_update_is_caught() {
    let transactions = [
        (0, committed(1), first(X, 1).into()),
        (0, committed(2), first(X, 2).into()),
        (2, committed(2), vec![read(X, &[2])]),
    ];
    let history = history(transactions, false);
    assert_caught(&history, &["lost-update"], "lost update");
}

#[test]
fn a_fuzzy_read_is_caught() {
    let transactions = [
        (0, committed(1), first(X, 1).into()),
        (0, committed(0), vec![read(X, &[]), read(X, &[1])]),
    ];
    assert_caught(
        &history(transactions, false),
        &["internal"],
        "read of key 0 at 0",
    );
}

#[test]
fn read_skew_is_caught() {
    let transactions = [
        (0, committed(1), [first(X, 1), first(Y, 1)].concat()),
        (0, committed(0), vec![read(X, &[]), read(Y, &[1])]),
    ];
    let history = history(transactions, false);
    assert_caught(&history, &["G-single-item"], "read of key 1 at 0");
}

/// Two readers see two writers in different orders.
#[test]
fn a_long_fork_is_caught() {
    let transactions = [
        (0, committed(1), vec![append(X, 1)]),
        (0, committed(2), vec![append(Y, 2)]),
        (1, committed(1), vec![read(X, &[1]), read(Y, &[])]),
        (1, committed(1), vec![read(X, &[]), read(Y, &[2])]),
    ];
    let history = history(transactions, false);
    assert_caught(&history, &["G-nonadjacent-item"], "read of key 0 at 1");
}

/// The fault: a transaction that begins after a commit has returned does not see that commit.
#[test]
fn a_stale_read_is_caught() {
    let transactions = [
        (0, committed(1), first(X, 1).into()),
        (0, committed(0), vec![read(X, &[])]),
    ];
    let history = history(transactions, true);
    let anomalies = ["G-single-item-realtime"];
    assert_caught(&history, &anomalies, "which does not see it");
}

#[test]
fn a_transaction_that_does_not_see_its_own_write_is_caught() {
    let steps = [first(X, 1).to_vec(), vec![read(X, &[])]].concat();
    let transactions = [(0, committed(1), steps)];
    let history = history(transactions, false);
    assert_caught(&history, &["internal"], "read of key 0 at 0");
}

/// The fault: a commit has a smaller number than its transaction's start. Regression: on such a
/// history, `numbers::check` panicked before it compared the two.
#[test]
fn a_commit_before_the_start_of_its_transaction_is_caught() {
    let transactions = [
        (0, committed(3), vec![append(X, 1)]),
        (3, committed(2), vec![append(X, 2)]),
    ];
    let history = history(transactions, false);
    assert_exact(&history, "commit 2 before its start");
}

#[test]
fn a_broken_guard_is_caught() {
    let guard = Step::Guard { key: X };
    let transactions = [
        (0, committed(1), first(X, 1).into()),
        (0, committed(2), [vec![guard], first(Y, 2).into()].concat()),
    ];
    assert_exact(&history(transactions, false), "lost update");
}

#[test]
fn a_refusal_without_a_cause_is_caught() {
    let transactions = [
        (0, committed(1), first(X, 1).into()),
        (
            1,
            Outcome::Conflict { key: X },
            vec![read(X, &[1]), append(X, 2)],
        ),
    ];
    assert_exact(&history(transactions, false), "refused for key 0");
}

/// Merges into the same key do not conflict with each other, and apply in the order of their
/// commits. They conflict with other writes and with guards.
#[test]
fn merges_stand_beside_merges_and_nothing_else() {
    let merge = |element| Step::Merge { key: X, element };
    let two = |start, steps, list: &[u32], in_turn| {
        let last = vec![read(X, list)];
        let transactions = [
            (0, committed(1), vec![merge(1)]),
            (start, committed(2), steps),
            (2, committed(2), last),
        ];
        history(transactions, in_turn)
    };
    assert_allowed(&two(0, vec![merge(2)], &[1, 2], false));
    assert_exact(&two(0, vec![append(X, 2)], &[2], false), "lost update");
    let guarded = vec![Step::Guard { key: X }, merge(2)];
    assert_exact(&two(0, guarded, &[1, 2], false), "lost update");

    assert_allowed(&two(1, vec![merge(2)], &[1, 2], true));
    let lost = two(1, vec![merge(2)], &[2], true);
    assert_caught(&lost, &["G-single-item-realtime"], "read of key 0 at 2");
}

/// Regression: the check accepted a merge by another transaction as the cause of any refused
/// commit, although two merges do not conflict.
#[test]
fn a_refusal_of_a_merge_beside_merges_is_caught() {
    let merge = |element| Step::Merge { key: X, element };
    let guard = Step::Guard { key: X };
    for outcome in [committed(1), Outcome::Unknown] {
        let refused = |other: Step, steps| {
            let transactions = [
                (0, outcome.clone(), vec![other]),
                (0, Outcome::Conflict { key: X }, steps),
            ];
            history(transactions, false)
        };
        let beside_merge = refused(merge(1), vec![merge(2)]);
        assert_exact(&beside_merge, "refused for key 0");
        for with_cause in [
            refused(append(X, 1), vec![merge(2)]),
            refused(merge(1), vec![append(X, 2)]),
            refused(merge(1), vec![append(X, 2), merge(3)]),
            refused(merge(1), vec![guard.clone(), merge(2)]),
        ] {
            assert_eq!(numbers::check(&with_cause), [""; 0], "{with_cause:?}");
        }
    }
}

#[test]
fn a_wrong_register_is_caught() {
    let put = |element| Step::Put { key: R, element };
    let deleted = vec![Step::Delete { key: R }];
    let reads = |list| vec![read(R, list)];
    for (seen, at, allowed) in [
        (&[1][..], 1, true),
        (&[], 1, false),
        (&[], 2, true),
        (&[1], 2, false),
    ] {
        let transactions = [
            (0, committed(1), vec![put(1)]),
            (1, committed(2), deleted.clone()),
            (at, committed(at), reads(seen)),
        ];
        let found = numbers::check(&history(transactions, false));
        assert_eq!(found.is_empty(), allowed, "{seen:?} at {at}: {found:?}");
    }
}

/// The faults: after a power loss, an acknowledged commit is missing, the write of a transaction
/// that was rolled back is there, or a commit with an unknown outcome is there in part. Such a
/// commit may be there entirely or not at all.
#[test]
fn a_recovery_that_loses_or_tears_is_caught() {
    let acknowledged = (0, committed(1), [first(X, 1), first(Y, 1)].concat());
    let steps = vec![read(X, &[1]), append(X, 2), read(Y, &[1]), append(Y, 2)];
    let unknown = (1, Outcome::Unknown, steps);
    let rolled_back = (1, Outcome::RolledBack, vec![append(X, 3)]);
    let after = |x: &[u32], y: &[u32]| {
        let transactions = [acknowledged.clone(), unknown.clone(), rolled_back.clone()];
        let content = |list: &[u32]| (!list.is_empty()).then(|| list.to_vec());
        History {
            recovered: Some(vec![content(x), content(y)]),
            ..history(transactions, false)
        }
    };
    assert_allowed(&after(&[1], &[1]));
    assert_allowed(&after(&[1, 2], &[1, 2]));
    assert_caught(
        &after(&[], &[]),
        &["G-single-item-realtime"],
        "after the restart",
    );
    assert_caught(&after(&[1, 3], &[1]), &["G1a"], "after the restart");
    let torn = black_box::check(&after(&[1, 2], &[1]));
    assert!(!torn.is_empty(), "half of a commit");
}
