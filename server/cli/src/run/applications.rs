//! The arguments of the applications, as far as they differ; `job` is any one of them.

mod job;

use std::path::PathBuf;

use ebb_jobs::pi::Variant;
use ebb_jobs::request::OrderRequest;
use ebb_jobs::select::Condition;

pub(super) use self::job::JobArgs;
use super::common::Common;
use super::input::{ColumnsArg, InputArgs};
use super::source_text::SourceText;

/// How many reduce tasks.
#[derive(Debug, Clone, clap::Args)]
struct Reduces {
    /// Number of reduce tasks.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    reduces: u32,
}

/// By what values are in order.
#[derive(Debug, Clone, clap::Args)]
struct OrderArgs {
    /// Columns of the order, the most significant first [default: the whole value].
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    by: Vec<String>,
    /// Compare as numbers; empty fields come first, and other text is an error.
    #[arg(long)]
    numeric: bool,
    /// Largest first.
    #[arg(long)]
    reverse: bool,
}

impl From<OrderArgs> for OrderRequest {
    fn from(order: OrderArgs) -> Self {
        Self {
            by: order.by,
            numeric: order.numeric,
            reverse: order.reverse,
        }
    }
}

const AGGREGATE_EXAMPLES: &str = "\
Examples:
  ebb run aggregate --csv trips.csv --by city --of fare,miles --output -
  ebb run aggregate --table app.events --values json --by user.country --of ms \\
      --quantiles 0.5,0.99 --output latencies.csv

The result has for each column: count, sum, min, max, mean, and the quantiles, which are
within half a percent of the value of that rank. Rows without the column are not counted.
Sums are exact. A mean has 20 digits.";

/// Compute count, sum, min, max, mean and quantiles of columns, by group.
#[derive(Debug, clap::Args)]
#[command(after_help = AGGREGATE_EXAMPLES)]
pub(super) struct Aggregate {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    reduces: Reduces,
    /// Columns to group by [default: one group of all rows].
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    by: Vec<String>,
    /// Columns of numbers to aggregate.
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    of: Vec<String>,
    /// Quantiles of these columns, from 0 to 1.
    #[arg(long, value_name = "Q,...", value_delimiter = ',', value_parser = part)]
    quantiles: Vec<f64>,
}

/// A number from 0 to 1.
fn part(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(part) if (0.0..=1.0).contains(&part) => Ok(part),
        _ => Err("expected a number from 0 to 1".to_string()),
    }
}

const COMBINE_EXAMPLES: &str = "\
Examples:
  ebb run combine --table app.lines --output -
  ebb run combine --csv trips.csv --by city,year --output cities.csv";

/// Count the rows of each group and their bytes.
#[derive(Debug, clap::Args)]
#[command(after_help = COMBINE_EXAMPLES)]
pub(super) struct Combine {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    reduces: Reduces,
    /// Columns to group by [default: the key up to its last colon, which is the file of
    /// loaded lines].
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    by: Vec<String>,
}

const GREP_EXAMPLES: &str = "\
Examples:
  ebb run grep --table app.lines --snapshot monday --output found.tsv --pattern TODO
  ebb run grep --text server.log --regex --pattern '^error' --output -

Rows of the result: each row whose value matches, unchanged: with its columns, or with
the place and the line of text.";

/// Find the rows whose value matches a pattern.
#[derive(Debug, clap::Args)]
#[command(after_help = GREP_EXAMPLES)]
pub(super) struct Grep {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    columns: ColumnsArg,
    /// Text to look for, case-sensitive.
    #[arg(long, value_name = "TEXT")]
    pattern: String,
    /// The pattern is a regular expression.
    #[arg(long)]
    regex: bool,
}

const INDEX_EXAMPLES: &str = "\
Examples:
  ebb run index --table app.lines --snapshot monday --output app.words
  ebb get app.words ebb

Rows of the result: a word, and the keys of the rows it occurs in as a CSV record.
A list of more than 1 MiB continues in rows WORD#2, WORD#3 and so on.";

/// List for each word the keys of the rows it occurs in.
#[derive(Debug, clap::Args)]
#[command(after_help = INDEX_EXAMPLES)]
pub(super) struct Index {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    columns: ColumnsArg,
    #[command(flatten)]
    reduces: Reduces,
}

const JOIN_EXAMPLES: &str = "\
Examples:
  ebb run join --csv cities.csv --on id --with trips.csv --with-on city --output joined.csv
  ebb run join --table app.users --with app.visits --snapshot monday --left --output seen.csv

Rows of the result: for every pair of rows with the same key, the key (with the name of
the left column), the other columns of the left row, and those of the right row. If both
have a column NAME, the right one is called right_NAME. --with takes FILE.csv with a
header, FILE.jsonl, KEYSPACE.TABLE, or any other file as lines of text. Files may be packed
by gzip. For each key, up to 64 MiB of left rows are held in memory, so the left side
should be the one with fewer rows per key.";

/// Join rows of two inputs that have the same key.
#[derive(Debug, clap::Args)]
#[command(after_help = JOIN_EXAMPLES)]
pub(super) struct Join {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    reduces: Reduces,
    /// The column that is the key on the left side [default: the row's key].
    #[arg(long, value_name = "COLUMN")]
    on: Option<String>,
    /// The right side.
    #[arg(long, value_name = "FILE|KEYSPACE.TABLE")]
    with: SourceText,
    /// The column that is the key on the right side [default: as --on].
    #[arg(long, value_name = "COLUMN")]
    with_on: Option<String>,
    /// Left outer join: keep left rows without a match, with empty columns.
    #[arg(long)]
    left: bool,
}

const PAGERANK_EXAMPLES: &str = "\
Examples:
  ebb run pagerank --text links.txt --output ranks.tsv
  ebb run pagerank --csv links.csv --from page --to target --iterations 30 --output app.ranks

A link is a line with two names, or two columns. Rows of the result: a node and its
rank; all ranks add up to 1. Every iteration is a job.";

/// Rank nodes by the links to them.
#[derive(Debug, clap::Args)]
#[command(after_help = PAGERANK_EXAMPLES)]
pub(super) struct Pagerank {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    reduces: Reduces,
    /// The column that a link goes from, of CSV and JSON.
    #[arg(long, value_name = "COLUMN", default_value = "1")]
    from: String,
    /// The column that a link goes to, of CSV and JSON.
    #[arg(long, value_name = "COLUMN", default_value = "2")]
    to: String,
    /// Number of iterations.
    #[arg(long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    iterations: u32,
    /// Damping factor, 0 to 1: the part of a rank that follows links; the rest goes to all
    /// nodes.
    #[arg(long, value_name = "PART", default_value = "0.85", value_parser = part)]
    damping: f64,
}

const PI_EXAMPLES: &str = "\
Examples:
  ebb run pi --output -
  ebb run pi --points 100000000000 --variant simd --output pi.tsv --goal 60s";

/// Estimate pi from random points.
#[derive(Debug, clap::Args)]
#[command(after_help = PI_EXAMPLES)]
pub(super) struct Pi {
    #[command(flatten)]
    common: Common,
    /// Number of points, rounded up to blocks of 2^20.
    #[arg(long, value_name = "N", default_value_t = 1_000_000_000)]
    points: u64,
    /// Seed of the points.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Implementation; both draw the same points.
    #[arg(long, value_name = "VARIANT", default_value = "plain")]
    variant: VariantArg,
}

/// How points are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum VariantArg {
    /// One after the other.
    Plain,
    /// Eight at once.
    Simd,
}

impl From<VariantArg> for Variant {
    fn from(arg: VariantArg) -> Self {
        match arg {
            VariantArg::Plain => Self::Plain,
            VariantArg::Simd => Self::Simd,
        }
    }
}

const SELECT_EXAMPLES: &str = "\
Examples:
  ebb run select --csv trips.csv --where 'fare >= 50' --where 'city = Bonn' \\
      --columns fare,miles --output dear.csv
  ebb run select --table app.lines --keep 0.01 --output sample.tsv

A condition is COLUMN OP VALUE; OP is = != < <= > >= or ~, which is \"contains\". A VALUE
that is a number is compared as a number, exactly; any other as text. A field of the other
kind is an error. A VALUE in quotes is text: --where \"zip = '0123'\". A row without the
column meets no condition. `key` and `value` are columns too.";

/// Select rows by conditions or as a sample, and columns of them.
#[derive(Debug, clap::Args)]
#[command(after_help = SELECT_EXAMPLES)]
pub(super) struct Select {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    input: InputArgs,
    /// Condition that a row has to meet. With several, it has to meet all.
    #[arg(long = "where", value_name = "CONDITION")]
    conditions: Vec<Condition>,
    /// Columns to write [default: the row unchanged].
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    columns: Vec<String>,
    /// Keep a sample of about this part of the rows, 0 to 1.
    #[arg(long, value_name = "PART", default_value = "1", value_parser = part)]
    keep: f64,
}

const SIMULATE_EXAMPLES: &str = "\
Examples:
  ebb run simulate --output -
  ebb run simulate --scenario week.toml --replicas 20 --output week.csv --goal 5m

Without a scenario: figure 5.21 of the thesis. `ebb sim run` does the same on all
cores at once.";

/// Simulate a scenario under policies, a replica per record.
#[derive(Debug, clap::Args)]
#[command(after_help = SIMULATE_EXAMPLES)]
pub(super) struct Simulate {
    #[command(flatten)]
    common: Common,
    /// Scenario to simulate; paths in it are relative to it.
    #[arg(long, value_name = "SCENARIO.toml")]
    scenario: Option<PathBuf>,
    /// Number of replicas [default: that of the scenario].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    replicas: Option<u32>,
}

const SORT_EXAMPLES: &str = "\
Examples:
  ebb run sort --text lines.txt --output sorted.txt
  ebb run sort --csv trips.csv --by fare --numeric --reverse --limit 10 --output top.csv
  ebb run validate --text sorted.txt --output -

Rows of the result: the rows of the input with their columns; for text only the lines.
Equal rows are all kept.";

/// Sort rows, by their values or by columns.
#[derive(Debug, clap::Args)]
#[command(after_help = SORT_EXAMPLES)]
pub(super) struct Sort {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    reduces: Reduces,
    #[command(flatten)]
    order: OrderArgs,
}

const VALIDATE_EXAMPLES: &str = "\
Examples:
  ebb run validate --text sorted.txt --output -
  ebb run validate --csv trips.csv --by fare --numeric --output -

Rows of the result: checksum, which is the same for the same values in any order; misplaced,
the number of values that belong before the value ahead of them; records; and if some are
misplaced, misplaced_first, the first of them.";

/// Check whether values are in order; count them and compute a checksum.
#[derive(Debug, clap::Args)]
#[command(after_help = VALIDATE_EXAMPLES)]
pub(super) struct Validate {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    order: OrderArgs,
}

const WORDCOUNT_EXAMPLES: &str = "\
Examples:
  ebb run wordcount --table app.lines --snapshot monday --output counts.tsv
  ebb run wordcount --table app.lines --snapshot monday --output app.counts --goal 30s
  ebb run wordcount --text notes.md --output -

A word is a maximal run of bytes that are ASCII letters, ASCII digits or above
0x7f; ASCII letters count as lower case. Rows of the result: the word, the count.";

/// Count how often each word occurs in the values.
#[derive(Debug, clap::Args)]
#[command(after_help = WORDCOUNT_EXAMPLES)]
pub(super) struct Wordcount {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    columns: ColumnsArg,
    #[command(flatten)]
    reduces: Reduces,
}
