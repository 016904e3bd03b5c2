//! The steps and outcomes of the transactions in one life of a database, from when it is opened
//! until it is closed or the power fails.

/// The number of a key.
pub type Key = u16;
/// A value that a transaction writes. While a database is open, no value is written twice, so a
/// value that is read identifies its writer.
pub type Element = u32;
/// The content of a key: the elements of a list, or the only element of a register. `None` if the
/// key does not exist.
pub type Content = Option<Vec<Element>>;

/// The number of keys that hold lists, and thus the first key that is a register. Transactions only
/// append to lists, so a list shows the order of its writers. Registers are put and deleted as a
/// whole.
pub const LISTS: Key = 14;
/// Number of keys that transactions use.
pub const KEYS: Key = 22;

/// One step of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A read of a key, alone, with other keys, or in a range.
    Read { key: Key, content: Content },
    /// An append to a list that the transaction had read.
    Append { key: Key, element: Element },
    /// An append by a merge, which does not read the list.
    Merge { key: Key, element: Element },
    /// A put of a register.
    Put {
        key: Key,
        /// The value that the put writes.
        element: Element,
    },
    /// A deletion of a register.
    Delete { key: Key },
    /// A guard on a key: the commit is refused if another transaction has written the key since
    /// this one began.
    Guard { key: Key },
}

/// The end of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Committed {
        /// The sequence number of the commit; `None` under
        /// [`Sabotage::NoValidation`](super::Sabotage), where a plain batch is written, which
        /// returns no number.
        number: Option<u64>,
    },
    /// The commit was refused.
    Conflict {
        /// The key for which the commit was refused: another transaction has written it since this
        /// one began.
        key: Key,
    },
    /// The transaction ended without a commit.
    RolledBack,
    /// The power failed during the commit: after the restart the transaction is there entirely or
    /// not at all.
    Unknown,
}

/// A transaction, as it was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    /// The number of the process that ran the transaction, in the sense of the checker `adya`: a
    /// process runs one transaction at a time. A worker has as many processes as it may have open
    /// transactions.
    pub process: u32,
    /// The number of the event with which the transaction began. All begins and ends of
    /// transactions are numbered in one sequence.
    pub began: u64,
    /// The number of the event with which the transaction ended. A transaction precedes another one
    /// if it ended before the other one began.
    pub ended: u64,
    /// The sequence number at which the transaction read.
    pub start: u64,
    pub steps: Vec<Step>,
    /// The end of the transaction.
    pub outcome: Outcome,
}

/// All transactions from an opening of a database until the database is closed or the power fails.
/// Before the first transaction, no key exists.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// The transactions, in any order.
    pub transactions: Vec<Transaction>,
    /// The content of all keys after the database was opened again; `None` if it was not.
    pub recovered: Option<Vec<Content>>,
    /// Violations that were noticed while the transactions ran.
    pub violations: Vec<String>,
}

impl Transaction {
    /// Returns whether the transaction writes to the key by merges only, or not at all.
    pub fn only_merges(&self, key: Key) -> bool {
        let mut writes = self.steps.iter();
        writes.all(|step| step.written() != Some(key) || matches!(step, Step::Merge { .. }))
    }

    /// Returns whether merges by other transactions into the key cause no conflict with this
    /// transaction: it does not guard the key, and writes to it by merges only, or not at all.
    pub fn merges_freely(&self, key: Key) -> bool {
        self.only_merges(key) && !self.steps.contains(&Step::Guard { key })
    }

    /// Returns whether the transaction changes any key.
    pub fn is_write(&self) -> bool {
        self.steps.iter().any(|step| step.written().is_some())
    }

    /// Returns whether the transaction changes the key.
    pub fn writes(&self, key: Key) -> bool {
        self.steps.iter().any(|step| step.written() == Some(key))
    }
}

impl Step {
    /// Returns the element that this step of a transaction appends or puts; `None` for other steps.
    pub fn element(&self) -> Option<Element> {
        match self {
            Self::Append { element, .. }
            | Self::Merge { element, .. }
            | Self::Put { element, .. } => Some(*element),
            Self::Read { .. } | Self::Delete { .. } | Self::Guard { .. } => None,
        }
    }

    /// Returns the key that the step changes; `None` for a read or a guard.
    pub fn written(&self) -> Option<Key> {
        match self {
            Self::Append { key, .. }
            | Self::Merge { key, .. }
            | Self::Put { key, .. }
            | Self::Delete { key } => Some(*key),
            Self::Read { .. } | Self::Guard { .. } => None,
        }
    }
}
