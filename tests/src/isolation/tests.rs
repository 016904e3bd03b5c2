//! Histories made by hand. Each anomaly is caught, by both checkers if both can see it, and
//! histories that snapshot isolation allows are accepted.

use ebb_test_support::cases::parse_cases;

use super::history::{Content, History, Key, LISTS, Outcome, Step, Transaction};
use super::{black_box, numbers};

/// Parses a step. The first letter is the key: the lists `x` and `y`, or the register `r`. `x[1,2]`
/// reads the elements 1 and 2, and `x[]` finds that the list does not exist. `x+1` appends, `x*1`
/// appends by a merge, and `x?` guards. `r=1` puts, and `r-` deletes.
fn step(word: &str) -> Step {
    let (key, rest) = word.split_at(1);
    let key: Key = match key {
        "x" => 0,
        "y" => 1,
        "r" => LISTS,
        _ => panic!("{word} has no key"),
    };
    let (verb, rest) = rest.split_at(1);
    let element = || rest.parse().unwrap();
    match verb {
        "[" => {
            let content = content(rest.strip_suffix(']').unwrap());
            Step::Read { key, content }
        }
        "+" => Step::Append {
            key,
            element: element(),
        },
        "*" => Step::Merge {
            key,
            element: element(),
        },
        "=" => Step::Put {
            key,
            element: element(),
        },
        "-" => Step::Delete { key },
        "?" => Step::Guard { key },
        _ => panic!("{word} is no step"),
    }
}

/// Parses elements, separated by commas; there is no content without an element.
fn content(elements: &str) -> Content {
    let elements = elements.split_terminator(',');
    let elements: Vec<_> = elements.map(|element| element.parse().unwrap()).collect();
    (!elements.is_empty()).then_some(elements)
}

/// Parses a history. All transactions overlap in real time if `|` separates them; if `;` does, each
/// begins after the end of the one before. A transaction is `START..OUTCOME` and its steps. It reads
/// at the number `START`. Its outcome is the number of its commit, `rolled-back`, `unknown`, or
/// `conflict` for a commit that is refused for the key `x`.
fn history(text: &str) -> History {
    let is_in_turn = text.contains(';');
    let transactions = (0..).zip(text.split(['|', ';']));
    let transactions = transactions.map(|(at, transaction)| {
        let mut words = transaction.split_whitespace();
        let (start, outcome) = words.next().unwrap().split_once("..").unwrap();
        let (began, ended) = if is_in_turn {
            (2 * at, 2 * at + 1)
        } else {
            (at, 1000 + at)
        };
        Transaction {
            process: at as u32,
            began,
            ended,
            start: start.parse().unwrap(),
            steps: words.map(step).collect(),
            outcome: match outcome {
                "rolled-back" => Outcome::RolledBack,
                "unknown" => Outcome::Unknown,
                "conflict" => Outcome::Conflict { key: 0 },
                number => Outcome::Committed {
                    number: Some(number.parse().unwrap()),
                },
            },
        }
    });
    History {
        transactions: transactions.collect(),
        ..History::default()
    }
}

/// Asserts that both checkers find a violation: the checker that sees only the results of
/// transactions (`black_box`) the `anomaly`, and the checker that has the order of commits
/// (`numbers`) one with the text `exact`.
#[track_caller]
fn assert_caught(history: &History, anomaly: &str, exact: &str) {
    let found = black_box::check(history);
    let is_it = |what: &String| what.split(':').next() == Some(anomaly);
    assert!(found.iter().any(is_it), "{anomaly}: {found:#?}");
    assert_exact(history, exact);
}

#[track_caller]
fn assert_exact(history: &History, exact: &str) {
    let found = numbers::check(history);
    let is_exact = |what: &String| what.contains(exact);
    let transactions = &history.transactions;
    assert!(found.iter().any(is_exact), "{transactions:?}: {found:#?}");
}

#[track_caller]
fn assert_allowed(history: &History) {
    let transactions = &history.transactions;
    assert_eq!(black_box::check(history), [""; 0], "{transactions:?}");
    assert_eq!(numbers::check(history), [""; 0], "{transactions:?}");
}

#[test]
fn what_snapshot_isolation_allows_is_accepted() {
    let histories = "
        // Transactions in turn.
        0..1 x[] x+1 y[] y+1; 1..2 x[1] x+2; 2..2 x[1,2] y[1]
        // Write skew.
        0..1 y[] x[] x+1 | 0..2 x[] y[] y+2 | 2..2 x[1] y[2]
        // An old snapshot, for a reader that began early.
        0..1 x[] x+1 | 0..0 x[] | 1..1 x[1]
        // Merges into one key, which apply in the order of their commits.
        0..1 x*1 | 0..2 x*2 | 2..2 x[1,2]
        0..1 x*1; 1..2 x*2; 2..2 x[1,2]
    ";
    for [text] in parse_cases(histories) {
        assert_allowed(&history(text));
    }
}

#[test]
fn each_anomaly_is_caught_by_both_checkers() {
    let cases = "
        // A dirty read: the writer of the value commits only later.
        0..2 x[] x+1 y[] y+1 | 1..1 x[1] y[] => G-single-item => read of key 0 at 1
        // An aborted read.
        0..rolled-back x[] x+1 | 0..0 x[1] => G1a => read of key 0
        // An intermediate read.
        0..1 x[] x+1 x+2 | 1..1 x[1] => G1b => read of key 0
        // Circular information flow.
        0..1 x[] x+1 y[2] | 0..2 y[] y+2 x[1] => G1c => read of key 1 at 0
        // A dirty write.
        0..1 x+1 y+1 | 0..2 x+2 y+2 | 2..2 x[1,2] y[2,1] => G0 => lost update
        // A lost update.
        0..1 x[] x+1 | 0..2 x[] x+2 | 2..2 x[2] => lost-update => lost update
        // A fuzzy read.
        0..1 x[] x+1 | 0..0 x[] x[1] => internal => read of key 0 at 0
        // Read skew.
        0..1 x[] x+1 y[] y+1 | 0..0 x[] y[1] => G-single-item => read of key 1 at 0
        // A long fork: two readers see two writers in different orders.
        0..1 x+1 | 0..2 y+2 | 1..1 x[1] y[] | 1..1 x[] y[2]
        => G-nonadjacent-item => read of key 0 at 1
        // A stale read: the reader began after the commit had returned, and does not see it.
        0..1 x[] x+1; 0..0 x[] => G-single-item-realtime => which does not see it
        // A transaction that does not see its own write.
        0..1 x[] x+1 x[] => internal => read of key 0 at 0
        // A lost merge.
        0..1 x*1; 1..2 x*2; 2..2 x[2] => G-single-item-realtime => read of key 0 at 2
    ";
    for [text, anomaly, exact] in parse_cases(cases) {
        assert_caught(&history(text), anomaly, exact);
    }
}

/// Regression: on a history in which a commit has a smaller number than its transaction's start,
/// `numbers::check` panicked before it compared the two. And the check accepted a merge by another
/// transaction as the cause of any refused commit, although two merges do not conflict.
#[test]
fn what_only_the_order_of_commits_shows_is_caught() {
    let cases = "
        0..3 x+1 | 3..2 x+2 => commit 2 before its start
        // A broken guard.
        0..1 x[] x+1 | 0..2 x? y[] y+2 => lost update
        // Merges conflict with other writes and with guards.
        0..1 x*1 | 0..2 x+2 | 2..2 x[2] => lost update
        0..1 x*1 | 0..2 x? x*2 | 2..2 x[1,2] => lost update
        // A refusal without a cause.
        0..1 x[] x+1 | 1..conflict x[1] x+2 => refused for key 0
        0..1 x*1 | 0..conflict x*2 => refused for key 0
        0..unknown x*1 | 0..conflict x*2 => refused for key 0
    ";
    for [text, exact] in parse_cases(cases) {
        assert_exact(&history(text), exact);
    }
}

#[test]
fn a_refusal_with_a_cause_is_allowed() {
    for outcome in ["1", "unknown"] {
        for (other, steps) in [
            ("x+1", "x*2"),
            ("x*1", "x+2"),
            ("x*1", "x+2 x*3"),
            ("x*1", "x? x*2"),
        ] {
            let text = format!("0..{outcome} {other} | 0..conflict {steps}");
            assert_eq!(numbers::check(&history(&text)), [""; 0], "{text}");
        }
    }
}

#[test]
fn a_wrong_register_is_caught() {
    for (reader, is_allowed) in [
        ("1..1 r[1]", true),
        ("1..1 r[]", false),
        ("2..2 r[]", true),
        ("2..2 r[1]", false),
    ] {
        let found = numbers::check(&history(&format!("0..1 r=1 | 1..2 r- | {reader}")));
        assert_eq!(found.is_empty(), is_allowed, "{reader}: {found:?}");
    }
}

/// The faults: after a power loss, an acknowledged commit is missing, the write of a transaction
/// that was rolled back is there, or a commit with an unknown outcome is there in part. Such a
/// commit may be there entirely or not at all.
#[test]
fn a_recovery_that_loses_or_tears_is_caught() {
    let acknowledged = "0..1 x[] x+1 y[] y+1";
    let unknown = "1..unknown x[1] x+2 y[1] y+2";
    let text = format!("{acknowledged} | {unknown} | 1..rolled-back x+3");
    let after = |x: &str, y: &str| History {
        recovered: Some(vec![content(x), content(y)]),
        ..history(&text)
    };
    assert_allowed(&after("1", "1"));
    assert_allowed(&after("1,2", "1,2"));
    let lost = after("", "");
    assert_caught(&lost, "G-single-item-realtime", "after the restart");
    assert_caught(&after("1,3", "1"), "G1a", "after the restart");
    let torn = black_box::check(&after("1,2", "1"));
    assert!(!torn.is_empty(), "half of a commit");
}
