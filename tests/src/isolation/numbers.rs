//! The exact checker: it takes the sequence numbers that the engine returns, and checks that
//! everything is consistent with them.
//!
//! With the number at which a transaction read and the number of its commit, snapshot isolation is
//! checked without any search:
//!
//! - a read returns what the last commit up to the start number left, with the transaction's own
//!   writes on top;
//! - between start and commit no other transaction wrote a key that this one writes or guards,
//!   except for merges beside merges;
//! - a refusal has a cause: another transaction wrote the key, and not by a merge beside merges;
//! - numbers follow real time: a transaction that begins after a commit returned sees that commit.

use std::collections::{BTreeMap, HashSet};

use super::history::{Content, Element, History, Key, LISTS, Outcome, Step, Transaction};

/// Returns the violations of a history; empty if it has none.
pub fn check(history: &History) -> Vec<String> {
    let mut violations = Vec::new();
    let versions = Versions::of(history, &mut violations);
    for transaction in &history.transactions {
        check_reads(transaction, &versions, &mut violations);
        check_outcome(transaction, history, &versions, &mut violations);
    }
    check_real_time(history, &mut violations);
    if let Some(recovered) = &history.recovered {
        check_recovered(history, recovered, &versions, &mut violations);
    }
    violations
}

/// The versions of each key, by the sequence number of the commit that wrote them.
struct Versions(BTreeMap<Key, BTreeMap<u64, Version>>);

struct Version {
    content: Content,
    /// Whether the transaction that wrote the version wrote to the key by merging operands only,
    /// without a put or a deletion.
    merged: bool,
}

impl Versions {
    fn of(history: &History, violations: &mut Vec<String>) -> Self {
        let mut versions = Self(BTreeMap::new());
        let mut commits = BTreeMap::new();
        for transaction in &history.transactions {
            let Outcome::Committed {
                number: Some(number),
            } = transaction.outcome
            else {
                continue;
            };
            if transaction.is_write() && commits.insert(number, transaction).is_some() {
                violations.push(format!("two commits have the number {number}"));
            }
        }
        for (number, transaction) in commits {
            // The new content of a list is what its writer had read and the element, or, for a
            // merge, what was there before the commit and the element.
            let mut own = Own::default();
            for step in &transaction.steps {
                let at = match step {
                    Step::Merge { .. } => number,
                    _ => transaction.start,
                };
                own.apply(step, |key| versions.at(key, at).clone());
            }
            for (key, content) in own.writes {
                let merged = transaction.only_merges(key);
                let version = Version { content, merged };
                versions.0.entry(key).or_default().insert(number, version);
            }
        }
        versions
    }

    fn at(&self, key: Key, number: u64) -> &Content {
        let versions = self.0.get(&key);
        let last = versions.and_then(|versions| versions.range(..=number).next_back());
        last.map_or(&None, |(_, version)| &version.content)
    }

    /// Returns the number of the first commit after `start` and before `end` that writes a key. If
    /// `merges` is false, commits that only merged operands into the key's value are skipped.
    /// `None` if there is no such commit.
    fn written_between(&self, key: Key, start: u64, end: u64, merges: bool) -> Option<u64> {
        let mut later = self.0.get(&key)?.range(start + 1..end);
        let found = later.find(|(_, version)| merges || !version.merged);
        found.map(|(number, _)| *number)
    }
}

/// The content of each key that a transaction has written so far.
#[derive(Default)]
struct Own {
    writes: BTreeMap<Key, Content>,
}

impl Own {
    fn apply(&mut self, step: &Step, below: impl Fn(Key) -> Content) {
        match step {
            Step::Append { key, element } | Step::Merge { key, element } => {
                let content = self.writes.get(key).cloned();
                let mut list = content.unwrap_or_else(|| below(*key)).unwrap_or_default();
                list.push(*element);
                self.writes.insert(*key, Some(list));
            }
            Step::Put { key, element } => {
                self.writes.insert(*key, Some(vec![*element]));
            }
            Step::Delete { key } => {
                self.writes.insert(*key, None);
            }
            Step::Read { .. } | Step::Guard { .. } => {}
        }
    }
}

/// Checks that each read returned the content of the last commit up to the start number, with the
/// writes on top that the transaction itself had made before the read.
fn check_reads(transaction: &Transaction, versions: &Versions, violations: &mut Vec<String>) {
    let mut own = Own::default();
    for step in &transaction.steps {
        if let Step::Read { key, content } = step {
            let below = versions.at(*key, transaction.start);
            let expected = own.writes.get(key).unwrap_or(below);
            if content != expected {
                violations.push(format!(
                    "read of key {key} at {}: {content:?} instead of {expected:?}, by {transaction:?}",
                    transaction.start
                ));
            }
        }
        own.apply(step, |key| versions.at(key, transaction.start).clone());
    }
}

/// Checks that, between the start and the commit of `transaction`, no other transaction committed a
/// conflicting write. If the commit of `transaction` was refused, checks instead that another
/// transaction committed, or may have committed, such a write after the start.
fn check_outcome(
    transaction: &Transaction,
    history: &History,
    versions: &Versions,
    violations: &mut Vec<String>,
) {
    match transaction.outcome {
        Outcome::Committed {
            number: Some(number),
        } => {
            // A transaction without writes commits nothing: its number is the one at which it read,
            // and its guards were not checked.
            if !transaction.is_write() {
                return;
            }
            if number <= transaction.start {
                violations.push(format!("commit {number} before its start: {transaction:?}"));
                return;
            }
            for step in &transaction.steps {
                let key = match step {
                    Step::Guard { key } => Some(*key),
                    step => step.written(),
                };
                // A merge of another commit counts unless this transaction, too, only merges operands
                // into the key, and does not guard it.
                let other = key.and_then(|key| {
                    let merges = !transaction.merges_freely(key);
                    versions.written_between(key, transaction.start, number, merges)
                });
                if let Some(other) = other {
                    violations.push(format!(
                        "lost update: commit {other} lies between start and commit {number} of {transaction:?}"
                    ));
                }
            }
        }
        Outcome::Conflict { key } => {
            // The number that the commit would have got is not known, so any later write counts as
            // the cause. The store compares, for each key, what the operations of two commits do: if
            // all are merges, the order of the commits decides, and there is no conflict. A guard of
            // the key counts as a put. So merges are no cause for a transaction that merges freely.
            let merges = !transaction.merges_freely(key);
            let cause = versions.written_between(key, transaction.start, u64::MAX, merges);
            // A write whose commit has no known number is in no version, but may be the cause.
            let unknown = |other: &Transaction| {
                let outcomes = [Outcome::Unknown, Outcome::Committed { number: None }];
                let writes = other.writes(key) && (merges || !other.only_merges(key));
                writes && outcomes.contains(&other.outcome)
            };
            if cause.is_none() && !history.transactions.iter().any(unknown) {
                violations.push(format!(
                    "refused for key {key}, without a write that conflicts: {transaction:?}"
                ));
            }
        }
        // Without a number there is nothing to compare.
        Outcome::Committed { number: None } | Outcome::RolledBack | Outcome::Unknown => {}
    }
}

/// Checks that each transaction sees every commit that had returned before it began.
fn check_real_time(history: &History, violations: &mut Vec<String>) {
    let number = |transaction: &Transaction| match transaction.outcome {
        Outcome::Committed { number } => number.unwrap_or(0),
        _ => 0,
    };
    let mut ends: Vec<_> = history
        .transactions
        .iter()
        .map(|transaction| (transaction.ended, number(transaction)))
        .collect();
    ends.sort_unstable();
    let mut begins: Vec<_> = history.transactions.iter().collect();
    begins.sort_unstable_by_key(|transaction| transaction.began);
    let (mut ends, mut returned) = (ends.into_iter().peekable(), 0);
    for transaction in begins {
        while let Some((_, number)) = ends.next_if(|(ended, _)| *ended < transaction.began) {
            returned = number.max(returned);
        }
        if transaction.start < returned {
            violations.push(format!(
                "commit {returned} had returned before this began, which does not see it: {transaction:?}"
            ));
        }
    }
}

/// Checks that after a restart nothing acknowledged is missing, and that everything else comes from
/// commits with an unknown outcome.
fn check_recovered(
    history: &History,
    recovered: &[Content],
    versions: &Versions,
    violations: &mut Vec<String>,
) {
    let unknown = || {
        let transactions = history.transactions.iter();
        transactions.filter(|transaction| transaction.outcome == Outcome::Unknown)
    };
    let elements: HashSet<Element> = unknown()
        .flat_map(|transaction| &transaction.steps)
        .filter_map(Step::element)
        .collect();
    for (key, found) in (0..).zip(recovered) {
        let expected = versions.at(key, u64::MAX);
        let deleted =
            || unknown().any(|transaction| transaction.steps.contains(&Step::Delete { key }));
        let explained = match found {
            _ if found == expected => true,
            None => key >= LISTS && deleted(),
            Some(found) if key >= LISTS => found.iter().all(|element| elements.contains(element)),
            Some(found) => {
                let known = expected.as_deref().unwrap_or_default();
                let rest = found.strip_prefix(known);
                rest.is_some_and(|rest| rest.iter().all(|element| elements.contains(element)))
            }
        };
        if !explained {
            violations.push(format!(
                "after the restart key {key} holds {found:?} instead of {expected:?}"
            ));
        }
    }
}
