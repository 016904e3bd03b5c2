//! The arguments of the applications, as far as they differ; `job` is any one of them.

mod job;

use std::path::PathBuf;

use ebb_server::jobs::pi::Variant;
use ebb_server::jobs::request::OrderRequest;
use ebb_server::jobs::select::Condition;

pub(super) use self::job::JobArgs;
use super::common::Common;
use super::input::InputArgs;
use super::source_text::SourceText;

/// How many reduce tasks.
#[derive(Debug, Clone, clap::Args)]
struct Reduces {
    /// Reduce tasks.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    reduces: u32,
}

/// By what values are in order.
#[derive(Debug, Clone, clap::Args)]
struct OrderArgs {
    /// By these columns, the first one first [default: by the whole value].
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    by: Vec<String>,
    /// As numbers, which have to be numbers; empty fields come first.
    #[arg(long)]
    numeric: bool,
    /// The largest first.
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

Of each column: count, sum, min, max, mean, and the quantiles within half a percent
of the value that has the rank. Rows without the column are not counted. Sums are
exact, however large; a mean has 20 digits.";

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
    /// The columns that make a group [default: all rows are one].
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    by: Vec<String>,
    /// The columns to aggregate, of numbers.
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    of: Vec<String>,
    /// Quantiles of them, 0 to 1.
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
    /// The columns that make a group [default: the key up to its last colon, which
    /// is the file of loaded lines].
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    by: Vec<String>,
}

const GREP_EXAMPLES: &str = "\
Examples:
  ebb run grep --table app.lines --snapshot monday --output found.tsv --pattern TODO
  ebb run grep --text /var/log --regex --pattern '^error' --output -

Rows of the result: those rows whose value matches, as they are: with the columns
that they have, or the place and the line of text.";

/// Find the rows whose value matches a pattern.
#[derive(Debug, clap::Args)]
#[command(after_help = GREP_EXAMPLES)]
pub(super) struct Grep {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    input: InputArgs,
    /// What to look for: this text, upper and lower case being different.
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
Beyond a MiB the list goes on in rows WORD#2, WORD#3 and so on.";

/// List for each word the keys of the rows it occurs in.
#[derive(Debug, clap::Args)]
#[command(after_help = INDEX_EXAMPLES)]
pub(super) struct Index {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    reduces: Reduces,
}

const JOIN_EXAMPLES: &str = "\
Examples:
  ebb run join --csv cities.csv --on id --with trips.csv --with-on city --output joined.csv
  ebb run join --table app.users --with app.visits --snapshot monday --left --output seen.csv

Rows of the result: for every pair of rows with the same key the key, called as on the
left side, the other columns of the left row and those of the right one. Of columns
with the same name the right one is called right_NAME. What --with names is read as
FILE.csv with a header, FILE.jsonl, a table when it is KEYSPACE.TABLE, else as lines
of text. Of one key up to 64 MiB of left rows are held in memory: the side with fewer
rows per key should be the left one.";

/// Put rows of two inputs that have the same key side by side.
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
    /// Left rows without a right one too, with empty columns.
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
    /// The column that it goes to.
    #[arg(long, value_name = "COLUMN", default_value = "2")]
    to: String,
    /// How often ranks are passed on.
    #[arg(long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    iterations: u32,
    /// The part of a rank that goes by links rather than to all nodes, 0 to 1.
    #[arg(long, value_name = "PART", default_value = "0.85", value_parser = part)]
    damping: f64,
}

const PI_EXAMPLES: &str = "\
Examples:
  ebb run pi --output -
  ebb run pi --points 100000000000 --variant simd --output pi.tsv --goal 60s";

/// Draw points to compute pi.
#[derive(Debug, clap::Args)]
#[command(after_help = PI_EXAMPLES)]
pub(super) struct Pi {
    #[command(flatten)]
    common: Common,
    /// How many points, rounded up to blocks of 2^20.
    #[arg(long, value_name = "N", default_value_t = 1_000_000_000)]
    points: u64,
    /// What they are drawn from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How they are drawn; both draw the same points.
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

A condition is COLUMN OP VALUE; OP is = != < <= > >= or ~, which is \"contains\". A
value that is a number is compared with numbers, exactly, and any other with text; a
field that is the other is an error. In quotes a value is text: --where \"zip = '0123'\".
A row without the column meets no condition. `key` and `value` are columns too.";

/// Select rows by conditions or as a sample, and columns of them.
#[derive(Debug, clap::Args)]
#[command(after_help = SELECT_EXAMPLES)]
pub(super) struct Select {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    input: InputArgs,
    /// A condition; of several a row meets all.
    #[arg(long = "where", value_name = "CONDITION")]
    conditions: Vec<Condition>,
    /// The columns that are wanted [default: the row as it is].
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    columns: Vec<String>,
    /// Only a sample of the rows: about this part of them, 0 to 1.
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
    /// What to simulate; files that it names lie beside it.
    #[arg(long, value_name = "SCENARIO.toml")]
    scenario: Option<PathBuf>,
    /// How many times to draw it [default: as the scenario says].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    replicas: Option<u32>,
}

const SORT_EXAMPLES: &str = "\
Examples:
  ebb run sort --text lines.txt --output sorted.txt
  ebb run sort --csv trips.csv --by fare --numeric --reverse --limit 10 --output top.csv
  ebb run validate --text sorted.txt --output -

Rows of the result: those of the input with their columns; of text the lines, nothing
else. Equal ones stay as many as they are.";

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

Rows of the result: checksum, the same for the same values in any order; misplaced,
how many values come before one that should be before them; records; and if some are
misplaced the first of them as misplaced_first.";

/// Tell whether values are in order, how many they are, and a checksum.
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
  ebb run wordcount --text docs --output -

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
    reduces: Reduces,
}
