//! The independent checker: the crate `adya`, after Elle, which depends on nothing of ebb. From the
//! reads and appends alone it infers which transaction depends on which, and searches for the
//! cycles and reads that strong snapshot isolation forbids: G0, G1a, G1b, G1c, G-single,
//! G-nonadjacent, lost updates, and the same with the order of real time.
//!
//! A merge without a guard applies at the commit, behind everything that others have merged since
//! the transaction began. So this checker treats it as a transaction of its own; the checker of
//! sequence numbers (`numbers`) verifies that it belongs to its transaction.

use std::collections::HashSet;

use adya::history::{Interner, Mop, Op, OpType, ReadValue, Scalar};
use adya::{Opts, Valid, Workload};
use ebb_test_support::wait;

use super::history::{Content, Element, History, Key, LISTS, Outcome, Step, Transaction};

/// The distance between the numbers of the processes that stand for the parts of one transaction.
/// The checker expects that a process runs one transaction at a time, but the parts into which a
/// transaction is split overlap in time. So each part counts as the transaction of a process of its
/// own. The numbers of real processes are smaller than this.
const PROCESSES: i64 = 1 << 20;

/// Returns the anomalies of a history; empty if it has none.
pub fn check(history: &History) -> Vec<String> {
    let options = Opts {
        models: vec!["strong-snapshot-isolation".into()],
        // The search for a cycle's name takes milliseconds, and more on a slow machine. Whether a
        // cycle exists is found without this limit.
        timeout: wait::HANG,
        ..Opts::default()
    };
    let report = adya::check(&translate(history), Workload::ListAppend, &options);
    if report.valid != Valid::False {
        // `Unknown` is a history without dependencies, or a cycle that is allowed and was not
        // classified in time.
        return Vec::new();
    }
    let anomalies = report.anomalies.values().flatten();
    anomalies
        .map(|anomaly| format!("{}: {}", anomaly.kind, anomaly.explanation))
        .collect()
}

/// Translates the steps of a history on keys that hold lists into the input of the checker `adya`:
/// operations in the order of time.
fn translate(history: &History) -> adya::History {
    let mut names = Interner::default();
    let mut events = Vec::new();
    let seen = seen_elements(history);
    for transaction in &history.transactions {
        let kind = match transaction.outcome {
            Outcome::Committed { .. } => OpType::Ok,
            Outcome::Conflict { .. } | Outcome::RolledBack => OpType::Fail,
            // Nothing is known of a commit that failed with the power and whose writes were never
            // read, so nothing has to be explained.
            Outcome::Unknown if is_seen(transaction, &seen) => OpType::Info,
            Outcome::Unknown => OpType::Fail,
        };
        let process = i64::from(transaction.process);
        let mut add = |process, steps: &[&Step]| {
            let mut mops = |is_completed| -> Vec<Mop> {
                let mops = steps.iter();
                mops.filter_map(|step| mop(step, &mut names, is_completed))
                    .collect()
            };
            let (invoked, completed) = (mops(false), mops(true));
            events.push((transaction.began, OpType::Invoke, process, invoked));
            events.push((transaction.ended, kind, process, completed));
        };
        let is_free = |step: &&Step| match step {
            Step::Merge { key, .. } => transaction.merges_freely(*key),
            _ => false,
        };
        let (free, own): (Vec<_>, Vec<_>) = transaction.steps.iter().partition(is_free);
        add(process, &own);
        // Each gets a process of its own: a process runs one transaction at a time, and these overlap.
        for (at, merge) in (1..).zip(free) {
            add(process + at * PROCESSES, &[merge]);
        }
    }
    // The content after the restart is a read by one more process, behind all other events. The
    // numbers of the other processes are not negative.
    if let Some(recovered) = &history.recovered {
        let reads = (0..LISTS).zip(recovered).map(|(key, content)| Mop::Read {
            key: key_id(&mut names, key),
            value: list(&mut names, content),
        });
        let reads: Vec<_> = reads.collect();
        events.push((u64::MAX - 1, OpType::Invoke, -1, reads.clone()));
        events.push((u64::MAX, OpType::Ok, -1, reads));
    }
    events.sort_by_key(|(event, ..)| *event);
    let ops = (0..).zip(events);
    let ops = ops.map(|(index, (_, kind, process, value))| Op {
        index,
        kind,
        process: Some(process),
        value,
        // The order of the operations is enough: `adya` uses times only for its explanations.
        time: None,
    });
    adya::History::from_ops(ops.collect(), names)
}

/// Converts a step of a transaction into a micro-operation for the crate `adya`. Returns `None` if
/// the step is neither a read nor an append, or reads a key that holds no list. Without
/// `is_completed`, a read has no result yet.
fn mop(step: &Step, names: &mut Interner, is_completed: bool) -> Option<Mop> {
    match step {
        Step::Read { key, content } if *key < LISTS => Some(Mop::Read {
            key: key_id(names, *key),
            value: if is_completed {
                list(names, content)
            } else {
                ReadValue::Nil
            },
        }),
        Step::Append { key, element } | Step::Merge { key, element } => Some(Mop::Append {
            key: key_id(names, *key),
            value: element_id(names, *element),
        }),
        _ => None,
    }
}

fn key_id(names: &mut Interner, key: Key) -> u32 {
    names.intern(Scalar::Str(format!("k{key}")))
}

fn element_id(names: &mut Interner, element: Element) -> u32 {
    names.intern(Scalar::Int(element.into()))
}

fn list(names: &mut Interner, content: &Content) -> ReadValue {
    let elements = content.iter().flatten();
    ReadValue::List(
        elements
            .map(|element| element_id(names, *element))
            .collect(),
    )
}

/// Returns the elements that are known to be committed: those that were read by transactions with a
/// known outcome, and those that the keys had after the restart.
fn seen_elements(history: &History) -> HashSet<Element> {
    let steps = |transaction: &Transaction| {
        let read = |step: &Step| match step {
            Step::Read { content, .. } => content.clone().unwrap_or_default(),
            _ => Vec::new(),
        };
        let elements = transaction.steps.iter().flat_map(read);
        elements.collect::<Vec<_>>()
    };
    let ended = history
        .transactions
        .iter()
        .filter(|transaction| transaction.outcome != Outcome::Unknown);
    let recovered = history.recovered.iter().flatten().flatten().flatten();
    ended.flat_map(steps).chain(recovered.copied()).collect()
}

/// Returns whether an element of the transaction is in `seen`: then the transaction has committed.
fn is_seen(transaction: &Transaction, seen: &HashSet<Element>) -> bool {
    transaction
        .steps
        .iter()
        .filter_map(Step::element)
        .any(|element| seen.contains(&element))
}
