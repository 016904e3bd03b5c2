//! Limits on the cost of statements: the guardrails of Cassandra 5.0, and its older limits on
//! batches and tombstones.
//!
//! ```text
//! limit      limited numbers: names, defaults, messages
//! feature    features that can be forbidden: names, messages
//! levels     consistency levels: names, messages
//! settings   all guardrails as text
//! schema     the checks of statements that change the schema
//! partitions sizes of partitions, checked when the store writes them
//! ```
//!
//! The code that reads or writes rows calls [`Guardrails::check`] for each number and
//! [`Guardrails::allow`] for each feature. As in Cassandra, guardrails are off by default and do
//! not hold for superusers, while the older limits have defaults and hold for all users. Only the
//! size of partitions makes no statement fail: it is logged and counted for operators.

mod feature;
mod levels;
mod limit;
mod partitions;
mod schema;
mod settings;
#[cfg(test)]
mod tests;

pub(crate) use self::feature::Feature;
pub(crate) use self::levels::Access;
pub(crate) use self::limit::Limit;
pub use self::partitions::{LargePartition, LargePartitions};

use ebb_cql::syntax::ast;

use self::levels::Levels;

use crate::error::{Result, invalid};

/// The values above which a number causes a warning or an error; `None` for never.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Threshold {
    /// The value above which there is a warning.
    pub warn: Option<u64>,
    /// The value above which there is an error.
    pub fail: Option<u64>,
}

/// The guardrails of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guardrails {
    /// The thresholds of all limits, indexed by [`Limit`].
    thresholds: [Threshold; Limit::ALL.len()],
    /// Whether each feature is forbidden, indexed by [`Feature`].
    forbidden: [bool; Feature::ALL.len()],
    /// The consistency levels that cause warnings or errors, indexed by [`Access`].
    levels: [Levels; Access::ALL.len()],
}

impl Default for Guardrails {
    fn default() -> Self {
        Self {
            thresholds: Limit::ALL.map(Limit::default_threshold),
            forbidden: [false; Feature::ALL.len()],
            levels: Default::default(),
        }
    }
}

impl Guardrails {
    /// Returns the guardrails that also hold for superusers; all others are off in the result.
    #[must_use]
    pub fn of_superusers(&self) -> Self {
        let mut held = Self::default();
        for limit in Limit::ALL
            .into_iter()
            .filter(|limit| limit.holds_superusers())
        {
            held.thresholds[limit as usize] = self.threshold(limit);
        }
        held
    }

    pub fn threshold(&self, limit: Limit) -> Threshold {
        self.thresholds[limit as usize]
    }

    /// Returns whether at least one of these limits has a threshold.
    pub fn has_any(&self, limits: &[Limit]) -> bool {
        let none = Threshold::default();
        limits.iter().any(|limit| self.threshold(*limit) != none)
    }

    /// Checks the number `value` of the object `what` against a limit. Adds a warning if the number
    /// is above the threshold for warnings.
    ///
    /// # Errors
    /// If the number is above the threshold for errors.
    pub fn check(
        &self,
        limit: Limit,
        what: &str,
        value: u64,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        let threshold = self.threshold(limit);
        match (threshold.fail, threshold.warn) {
            (Some(fail), _) if value > fail => invalid(limit.words(false, what, value, fail)),
            (_, Some(warn)) if value > warn => {
                warnings.push(limit.words(true, what, value, warn));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Checks that a feature is not forbidden.
    pub fn allow(&self, feature: Feature) -> Result<()> {
        if self.forbidden[feature as usize] {
            return invalid(feature.refusal());
        }
        Ok(())
    }

    /// Checks the features and the page size of a SELECT from a table that users have created, before
    /// the SELECT reads, and returns its warnings. No guardrail holds for system tables.
    pub fn check_select(
        &self,
        select: &ast::Select,
        page_size_rows: Option<u32>,
    ) -> Result<Vec<String>> {
        if select.allow_filtering {
            self.allow(Feature::AllowFiltering)?;
        }
        if !select.group_by.is_empty() {
            self.allow(Feature::GroupBy)?;
        }
        let mut warnings = Vec::new();
        if let Some(rows) = page_size_rows {
            let table = select.from.name.as_str();
            self.check(Limit::PageSize, table, rows.into(), &mut warnings)?;
        }
        Ok(warnings)
    }
}
