//! What the transactions of a life did, and what they were told.

/// A key, by its number.
pub type Key = u16;
/// What a transaction puts somewhere; never twice the same in a life, so that
/// whoever reads it knows who wrote it.
pub type Element = u32;
/// What a key holds; `None` when it is not there.
pub type Content = Option<Vec<Element>>;

/// Keys below this one are lists: transactions read and append to them, and a
/// list tells the order of its writers. The others are registers, which are
/// put and deleted without having been read.
pub const LISTS: Key = 14;
/// Keys in all.
pub const KEYS: Key = 22;

/// One step of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Read a key, alone or in a range.
    Read {
        /// Which.
        key: Key,
        /// What it held.
        content: Content,
    },
    /// Appended to a list that it had read.
    Append {
        /// Which.
        key: Key,
        /// What.
        element: Element,
    },
    /// Appended to a list without reading it: by a merge.
    Merge {
        /// Which.
        key: Key,
        /// What.
        element: Element,
    },
    /// Set a register.
    Put {
        /// Which.
        key: Key,
        /// To what.
        element: Element,
    },
    /// Removed a register.
    Delete {
        /// Which.
        key: Key,
    },
    /// Guarded a key.
    Guard {
        /// Which.
        key: Key,
    },
}

/// How a transaction ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It committed.
    Committed {
        /// The engine's number; `None` where it gave none.
        number: Option<u64>,
    },
    /// It was refused.
    Conflict {
        /// For this key.
        key: Key,
    },
    /// Nobody asked for a commit.
    RolledBack,
    /// The commit failed when the power did: after the restart it is there whole
    /// or not at all.
    Unknown,
}

/// A transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    /// Who ran it; one process runs one transaction after the other.
    pub process: u32,
    /// The event before it was begun.
    pub began: u64,
    /// The event after it ended. Of two transactions one precedes the other when
    /// it ended before the other began.
    pub ended: u64,
    /// The number at which it read.
    pub start: u64,
    /// What it did.
    pub steps: Vec<Step>,
    /// How it ended.
    pub outcome: Outcome,
}

/// All transactions of a life; every key starts out absent.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// In any order.
    pub transactions: Vec<Transaction>,
    /// What all keys held after a restart, when there was one.
    pub recovered: Option<Vec<Content>>,
    /// What was seen to be wrong while it was made.
    pub violations: Vec<String>,
}

impl Transaction {
    /// Whether all that it writes to a key are merges: to others that merge.
    pub fn only_merges(&self, key: Key) -> bool {
        let mut writes = self.steps.iter();
        writes.all(|step| step.written() != Some(key) || matches!(step, Step::Merge { .. }))
    }

    /// Whether merges by others do not matter to it: it does nothing but merge
    /// into the key itself, and does not guard it.
    pub fn merges_freely(&self, key: Key) -> bool {
        self.only_merges(key) && !self.steps.contains(&Step::Guard { key })
    }

    /// Whether it changes a key.
    pub fn writes(&self, key: Key) -> bool {
        self.steps.iter().any(|step| step.written() == Some(key))
    }
}

impl Step {
    /// What it writes.
    pub fn element(&self) -> Option<Element> {
        match self {
            Self::Append { element, .. }
            | Self::Merge { element, .. }
            | Self::Put { element, .. } => Some(*element),
            Self::Read { .. } | Self::Delete { .. } | Self::Guard { .. } => None,
        }
    }

    /// The key that it changes.
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
