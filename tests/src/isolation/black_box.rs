//! The independent checker: `adya`, after Elle, which knows nothing of ebb. From
//! what was read and appended alone it infers which transaction depends on
//! which, and looks for the cycles and reads that strong snapshot isolation
//! forbids: G0, G1a, G1b, G1c, G-single, G-nonadjacent, lost updates, and the
//! same with the order of real time.
//!
//! A merge that nothing guards applies at the commit, behind whatever others have
//! merged since the transaction began. So it counts as a transaction of its own;
//! that it belongs to the other is for the numbers to check.

use std::collections::HashSet;

use adya::history::{Interner, Mop, Op, OpType, ReadValue, Scalar};
use adya::{Opts, Valid, Workload};
use ebb_test_support::wait;

use super::history::{Content, Element, History, Key, LISTS, Outcome, Step, Transaction};

/// More than there are.
const PROCESSES: i64 = 1 << 20;

/// What is wrong with a history; empty when nothing is.
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
        // Unknown is a history without dependencies, or a cycle that is allowed
        // and was not named in time.
        return Vec::new();
    }
    let anomalies = report.anomalies.values().flatten();
    anomalies
        .map(|anomaly| format!("{}: {}", anomaly.kind, anomaly.explanation))
        .collect()
}

/// The lists of a history in the form of adya: operations in the order of their
/// events.
fn translate(history: &History) -> adya::History {
    let mut names = Interner::default();
    let mut events = Vec::new();
    let seen = seen_elements(history);
    for transaction in &history.transactions {
        let kind = match transaction.outcome {
            Outcome::Committed { .. } => OpType::Ok,
            Outcome::Conflict { .. } | Outcome::RolledBack => OpType::Fail,
            // Of a commit that failed with the power and was never seen nothing
            // is known, and nothing has to be explained.
            Outcome::Unknown if is_seen(transaction, &seen) => OpType::Info,
            Outcome::Unknown => OpType::Fail,
        };
        let process = i64::from(transaction.process);
        let mut add = |process, steps: &[&Step]| {
            let mut mops = |answered| -> Vec<Mop> {
                let mops = steps.iter();
                mops.filter_map(|step| mop(step, &mut names, answered))
                    .collect()
            };
            let (asked, answered) = (mops(false), mops(true));
            events.push((transaction.began, OpType::Invoke, process, asked));
            events.push((transaction.ended, kind, process, answered));
        };
        let is_free = |step: &&Step| match step {
            Step::Merge { key, .. } => transaction.merges_freely(*key),
            _ => false,
        };
        let (free, own): (Vec<_>, Vec<_>) = transaction.steps.iter().partition(is_free);
        add(process, &own);
        for (at, merge) in (1..).zip(free) {
            add(process + at * PROCESSES, &[merge]);
        }
    }
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
        time: None,
    });
    adya::History::from_ops(ops.collect(), names)
}

fn mop(step: &Step, names: &mut Interner, answered: bool) -> Option<Mop> {
    match step {
        Step::Read { key, content } if *key < LISTS => Some(Mop::Read {
            key: key_id(names, *key),
            value: if answered {
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

/// The elements that others than their writers read.
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

fn is_seen(transaction: &Transaction, seen: &HashSet<Element>) -> bool {
    transaction
        .steps
        .iter()
        .filter_map(Step::element)
        .any(|element| seen.contains(&element))
}
