//! The guardrails of consistency levels, which cause warnings or errors.

use ebb_cql::protocol::Consistency;

use super::Guardrails;
use crate::error::{Result, invalid};

/// The kind of access that a set of consistency levels is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    /// INSERT, UPDATE, DELETE and batches. The consistency level and the serial consistency level
    /// (SERIAL by default) are checked, also for writes without IF, as in Cassandra.
    Write,
}

impl Access {
    /// Both kinds of access, in the order in which settings are displayed.
    pub(super) const ALL: [Self; 2] = [Self::Read, Self::Write];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Read => "read_consistency_levels",
            Self::Write => "write_consistency_levels",
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Levels {
    pub(super) warned: LevelSet,
    pub(super) disallowed: LevelSet,
}

/// A set of consistency levels: bit `n` is set for the level with the protocol's code `n`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LevelSet(u16);

impl LevelSet {
    /// Parses the names of consistency levels, separated by `+`; an empty text is the empty set.
    /// `None` if one of the names is no level.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut set = Self::default();
        for name in text
            .split('+')
            .map(str::trim)
            .filter(|name| !name.is_empty())
        {
            let level = all().find(|level| level.name().eq_ignore_ascii_case(name))?;
            set.0 |= 1 << level.code();
        }
        Some(set)
    }

    /// Returns the names of the levels, in the order of their codes.
    pub(super) fn names(self) -> Vec<&'static str> {
        let own = all().filter(|level| self.has(*level));
        own.map(Consistency::name).collect()
    }

    fn has(self, level: Consistency) -> bool {
        self.0 & (1 << level.code()) != 0
    }

    fn among(self, levels: &[Consistency]) -> Self {
        let found = levels.iter().filter(|level| self.has(**level));
        Self(found.fold(0, |bits, level| bits | (1 << level.code())))
    }
}

fn all() -> impl Iterator<Item = Consistency> {
    (0..16).filter_map(|code| Consistency::from_code(code).ok())
}

impl Guardrails {
    /// Checks the consistency levels of a request, and adds a warning if a guardrail warns of one of
    /// them.
    ///
    /// # Errors
    /// If one of the levels is disallowed.
    pub fn check_levels(
        &self,
        access: Access,
        requested: &[Consistency],
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        let Levels { warned, disallowed } = self.levels[access as usize];
        let words = |found: LevelSet, how: &str, kind: &str, all: LevelSet| {
            let (name, what) = (access.name(), access.name().replace('_', " "));
            format!(
                "Guardrail {name} violated: Provided values [{}] are not {how} for {what} ({kind} \
                 values are: [{}])",
                found.names().join(", "),
                all.names().join(", ")
            )
        };
        let refused = disallowed.among(requested);
        if refused != LevelSet::default() {
            return invalid(words(refused, "allowed", "disallowed", disallowed));
        }
        let found = warned.among(requested);
        if found != LevelSet::default() {
            warnings.push(words(found, "recommended", "warned", warned));
        }
        Ok(())
    }
}
