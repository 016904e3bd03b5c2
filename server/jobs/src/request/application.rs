//! What is computed: a struct of options per application.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::pi::Variant;
use crate::select::Condition;
use crate::{
    Application, aggregate, combine, grep, index, join, pagerank, pi, select, simulate, sort,
    validate, wordcount,
};

/// An application with its options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ApplicationRequest {
    /// Count, sum, min, max, mean and quantiles of columns, by group.
    Aggregate(AggregateRequest),
    /// The rows of each group and their bytes.
    Combine(CombineRequest),
    /// The rows whose value matches a pattern.
    Grep(GrepRequest),
    /// For each word the keys of the rows it occurs in.
    Index(IndexRequest),
    /// Rows of two inputs that have the same key.
    Join(JoinRequest),
    /// Nodes by the links to them.
    Pagerank(PagerankRequest),
    /// Points drawn to compute pi.
    Pi(PiRequest),
    /// Rows by conditions or as a sample, and columns of them.
    Select(SelectRequest),
    /// A scenario under policies.
    Simulate(SimulateRequest),
    /// The values in order.
    Sort(SortRequest),
    /// Whether values are in order, and a checksum.
    Validate(ValidateRequest),
    /// How often each word occurs.
    Wordcount(WordcountRequest),
}

impl ApplicationRequest {
    /// Its name and summary, for listings.
    pub fn application(&self) -> Application {
        match self {
            Self::Aggregate(_) => aggregate::APPLICATION,
            Self::Combine(_) => combine::APPLICATION,
            Self::Grep(_) => grep::APPLICATION,
            Self::Index(_) => index::APPLICATION,
            Self::Join(_) => join::APPLICATION,
            Self::Pagerank(_) => pagerank::APPLICATION,
            Self::Pi(_) => pi::APPLICATION,
            Self::Select(_) => select::APPLICATION,
            Self::Simulate(_) => simulate::APPLICATION,
            Self::Sort(_) => sort::APPLICATION,
            Self::Validate(_) => validate::APPLICATION,
            Self::Wordcount(_) => wordcount::APPLICATION,
        }
    }

    /// Its name, as in `ebb run NAME`.
    pub fn name(&self) -> &'static str {
        self.application().name
    }

    /// How many inputs it takes.
    pub fn inputs(&self) -> usize {
        match self {
            Self::Pi(_) | Self::Simulate(_) => 0,
            Self::Join(_) => 2,
            _ => 1,
        }
    }

    /// The columns of its input that it looks at; `None`: at all of them, or at the rows as
    /// they are.
    pub fn columns(&self) -> Option<Vec<&str>> {
        match self {
            Self::Aggregate(options) => {
                let columns = options.by.iter().chain(&options.of);
                Some(columns.map(String::as_str).collect())
            }
            Self::Pagerank(options) => Some(vec![&options.from, &options.to]),
            Self::Select(options) if !options.columns.is_empty() => {
                let conditions = options.conditions.iter().map(Condition::column);
                let columns = options.columns.iter().map(String::as_str);
                Some(columns.chain(conditions).collect())
            }
            _ => None,
        }
    }

    /// Reduce tasks, of those that let one choose.
    pub(super) fn reduces(&self) -> Option<u32> {
        match self {
            Self::Aggregate(options) => Some(options.reduces),
            Self::Combine(options) => Some(options.reduces),
            Self::Index(options) => Some(options.reduces),
            Self::Join(options) => Some(options.reduces),
            Self::Pagerank(options) => Some(options.reduces),
            Self::Sort(options) => Some(options.reduces),
            Self::Wordcount(options) => Some(options.reduces),
            Self::Grep(_)
            | Self::Pi(_)
            | Self::Select(_)
            | Self::Simulate(_)
            | Self::Validate(_) => None,
        }
    }
}

fn one() -> u32 {
    1
}

fn all() -> f64 {
    1.0
}

/// Options of `aggregate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AggregateRequest {
    /// The columns that make a group; none: all rows are one.
    #[serde(default)]
    pub by: Vec<String>,
    /// The columns of numbers to aggregate.
    #[serde(default)]
    pub of: Vec<String>,
    /// Quantiles of them, 0 to 1.
    #[serde(default)]
    pub quantiles: Vec<f64>,
    /// Reduce tasks, 1 to 10,000.
    #[serde(default = "one")]
    pub reduces: u32,
}

/// Options of `combine`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CombineRequest {
    /// The columns that make a group; none: the key up to its last colon.
    #[serde(default)]
    pub by: Vec<String>,
    /// Reduce tasks, 1 to 10,000.
    #[serde(default = "one")]
    pub reduces: u32,
}

/// Options of `grep`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct GrepRequest {
    /// What to look for.
    pub pattern: String,
    /// Whether that is a regular expression; else it is text.
    #[serde(default)]
    pub regex: bool,
}

/// Options of `index`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct IndexRequest {
    /// Reduce tasks, 1 to 10,000.
    #[serde(default = "one")]
    pub reduces: u32,
}

/// Options of `join`, whose inputs are the left and the right one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct JoinRequest {
    /// The column that is the key on the left side; `None`: the row's key.
    #[serde(default)]
    pub left_on: Option<String>,
    /// The same of the right side.
    #[serde(default)]
    pub right_on: Option<String>,
    /// Whether left rows without a right one are in the result.
    #[serde(default)]
    pub keep_left: bool,
    /// Reduce tasks, 1 to 10,000.
    #[serde(default = "one")]
    pub reduces: u32,
}

/// Options of `pagerank`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PagerankRequest {
    /// The column that a link comes from.
    pub from: String,
    /// The column that it goes to.
    pub to: String,
    /// How often ranks are passed on, 1 to 1000.
    pub iterations: u32,
    /// The part of a rank that goes by links rather than to all nodes, 0 to 1.
    pub damping: f64,
    /// Reduce tasks, 1 to 10,000.
    #[serde(default = "one")]
    pub reduces: u32,
}

/// Options of `pi`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PiRequest {
    /// How many points, rounded up to blocks of 2^20.
    pub points: u64,
    /// What they are drawn from.
    pub seed: u64,
    /// How they are drawn.
    pub variant: Variant,
}

/// Options of `select`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SelectRequest {
    /// What a row has to meet, all of it.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub conditions: Vec<Condition>,
    /// The columns that are wanted; none: the value as it is.
    #[serde(default)]
    pub columns: Vec<String>,
    /// About which part of the rows is kept, 0 to 1.
    #[serde(default = "all")]
    pub keep: f64,
}

/// Options of `simulate`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SimulateRequest {
    /// The file of the scenario; files that it names lie beside it. `None`: the
    /// thesis's.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub scenario: Option<PathBuf>,
    /// How many times to draw it, at least 1; `None`: as the scenario says.
    #[serde(default)]
    pub replicas: Option<u32>,
}

/// By what values are in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct OrderRequest {
    /// Columns, the first one first; none: the whole value.
    #[serde(default)]
    pub by: Vec<String>,
    /// As numbers; a field that is none fails the job.
    #[serde(default)]
    pub numeric: bool,
    /// The largest first.
    #[serde(default)]
    pub reverse: bool,
}

/// Options of `sort`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SortRequest {
    /// By what.
    #[serde(default)]
    pub order: OrderRequest,
    /// Reduce tasks, 1 to 10,000.
    #[serde(default = "one")]
    pub reduces: u32,
}

/// Options of `validate`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ValidateRequest {
    /// The order that values should be in.
    #[serde(default)]
    pub order: OrderRequest,
}

/// Options of `wordcount`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WordcountRequest {
    /// Reduce tasks, 1 to 10,000.
    #[serde(default = "one")]
    pub reduces: u32,
}
