//! PageRank: the probability of finding a walker at each node who follows links at random,
//! and sometimes starts again at any node (Page, Brin, Motwani and Winograd, 1999).
//!
//! ```text
//!   edges ─> links ─> [ step ] x iterations ─> ranks ─> output
//!                  relay     relay          relay
//! ```
//!
//! With N nodes, damping d, and D the rank of all nodes without links, a step is
//!
//! ```text
//!   share(v) = sum of rank(u) / links(u) over the links from u to v
//!   rank(v)  = (1 - d) / N + d (share(v) + D / N)
//! ```
//!
//! The output of a step has the shares, and D under the empty key. The next step turns them into
//! ranks, because D is known only then.

use std::sync::Arc;

use ebb_scheduler::runtime::{
    Emit, Input, JobReport, JobSpec, Mapper, Output, Reducer, TaskError, Values, VecOutput,
};
use serde::{Deserialize, Serialize};

use super::application::{Application, Materials};
use super::chain::{Chain, Outline, Stage, Work};
use super::error::{JobError, RequestError};
use super::options::{one, part_of_one, within};
use super::outputs::{Relay, SpillPlace};
use super::records::{Column, Columns, InvalidRow, RecordFormat, UnknownColumn, shown};
use super::seen::SeenColumns;

#[cfg(feature = "args")]
const EXAMPLES: &str = "\
Examples:
  ebb run pagerank --text links.txt --output ranks.tsv
  ebb run pagerank --csv links.csv --from page --to target --iterations 30 --output app.ranks

A link is a line with two names, or two columns. Rows of the result: a node and its
rank; all ranks add up to 1. Every iteration is a job.";

/// Rank nodes by the links to them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "args", derive(clap::Args), command(after_help = EXAMPLES))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PagerankRequest {
    /// Number of reduce tasks, 1 to 10,000.
    #[serde(default = "one")]
    #[cfg_attr(feature = "args", arg(long, value_name = "N", default_value_t = 1))]
    #[cfg_attr(feature = "args", arg(value_parser = crate::options::reduces()))]
    pub reduces: u32,
    /// The column with the node that a link goes from; without effect on lines of text.
    #[cfg_attr(
        feature = "args",
        arg(long, value_name = "COLUMN", default_value = "1")
    )]
    pub from: String,
    /// The column with the node that a link goes to; without effect on lines of text.
    #[cfg_attr(
        feature = "args",
        arg(long, value_name = "COLUMN", default_value = "2")
    )]
    pub to: String,
    /// Number of iterations, 1 to 1000.
    #[cfg_attr(feature = "args", arg(long, value_name = "N", default_value_t = 20))]
    #[cfg_attr(
        feature = "args",
        arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(ITERATIONS_MAX)))
    )]
    pub iterations: u32,
    /// Damping factor, 0 to 1: the part of a rank that follows links; the rest goes to all
    /// nodes.
    #[cfg_attr(
        feature = "args",
        arg(long, value_name = "PART", default_value = "0.85")
    )]
    #[cfg_attr(feature = "args", arg(value_parser = crate::options::part))]
    pub damping: f64,
}

impl Application for PagerankRequest {
    const NAME: &'static str = "pagerank";

    fn columns(&self) -> Option<Vec<&str>> {
        Some(vec![&self.from, &self.to])
    }

    fn reduces(&self) -> Option<u32> {
        Some(self.reduces)
    }

    fn check(&self) -> Result<(), RequestError> {
        within("iterations", Some(self.iterations), 1, ITERATIONS_MAX)?;
        part_of_one("damping", self.damping)
    }

    fn make(&self, materials: &Materials<'_>) -> Result<Work, JobError> {
        let (input, format) = materials.input(0)?;
        let edges = Edges::new(format, &self.from, &self.to).map_err(JobError::senseless)?;
        let output = materials.destination.output(Arc::new(rows()))?;
        // Errors that the last of many jobs would have are found before the first one.
        output.check()?;
        let chain = PageRank::new(
            Self::NAME,
            input,
            edges,
            output,
            materials.spills.clone(),
            self.damping,
            self.iterations,
            self.reduces,
        );
        Ok(Work::Chain(Box::new(chain)))
    }
}

/// The largest number of iterations.
const ITERATIONS_MAX: u32 = 1000;

/// The largest size of the links of a node, in bytes: their names, and the lengths of the names.
/// All links of a node are in memory at once. The job fails if a node has more.
const LINKS_BYTES_MAX: usize = 64 << 20;

/// The most bytes of a node's links in one record of the shuffle. A record may have a tenth of a
/// task's memory, and a task may have as little as 16 KiB. The parts add few records, because each
/// link also has a record with a share.
const LINKS_PART_BYTES: usize = 1 << 10;

/// The key under which the rank of all nodes without links is summed up. It sorts before all names
/// of nodes.
const DANGLING: &[u8] = b"";

/// Returns the format of the result's rows: a node and its rank.
pub fn rows() -> RecordFormat {
    RecordFormat::rows(vec![Column::text("node")], vec![Column::number("rank")])
}

/// The place in the rows of the input where the two nodes of a link are.
#[derive(Debug, Clone)]
pub enum Edges {
    /// Two names with blanks between them; lines that begin with `#` are comments.
    Text,
    /// Two columns: the node that the link goes from, and the node that it goes to. A row that
    /// lacks one of the columns is not a link.
    Columns(Columns),
}

impl Edges {
    /// Returns the places of links in rows with the format `schema`: in the columns with the names
    /// `from` and `to`, or in plain text if the rows have no columns.
    ///
    /// # Errors
    /// When `schema` has columns, but not both `from` and `to`.
    pub fn new(schema: &RecordFormat, from: &str, to: &str) -> Result<Self, UnknownColumn> {
        match Columns::new(schema, &[from, to]) {
            Ok(columns) => Ok(Self::Columns(columns)),
            Err(UnknownColumn::Text(_)) => Ok(Self::Text),
            Err(error) => Err(error),
        }
    }

    /// Returns new flags, which the map tasks of one job share and set if the columns `from` and
    /// `to` occur.
    fn seen(&self) -> Arc<SeenColumns> {
        SeenColumns::new(match self {
            Self::Text => &[],
            Self::Columns(columns) => columns.names(),
        })
    }

    /// Returns the names of the two nodes of a link. `None` if the row is not a link, but a
    /// comment, an empty line, or a row without one of the two names. A line of text with another
    /// number of names is an error. Marks in `seen` which of the two columns the row has.
    fn read(
        &self,
        key: &[u8],
        value: &[u8],
        seen: &SeenColumns,
    ) -> Result<Option<[Vec<u8>; 2]>, TaskError> {
        match self {
            Self::Text => {
                if value.starts_with(b"#") || value.trim_ascii().is_empty() {
                    return Ok(None);
                }
                let mut names = value
                    .split(u8::is_ascii_whitespace)
                    .filter(|name| !name.is_empty());
                match (names.next(), names.next(), names.next()) {
                    (Some(from), Some(to), None) => Ok(Some([from.to_vec(), to.to_vec()])),
                    _ => {
                        let problem = format!("expected two names, got {}", shown(value));
                        Err(InvalidRow::error(key, problem))
                    }
                }
            }
            Self::Columns(columns) => columns.read(key, value, |fields| {
                seen.record(fields);
                let names = fields.iter().flatten().filter(|name| !name.is_empty());
                let names: Vec<Vec<u8>> = names.map(<[u8]>::to_vec).collect();
                Ok(<[Vec<u8>; 2]>::try_from(names).ok())
            }),
        }
    }
}

/// The chain of jobs that ranks nodes.
pub struct PageRank {
    name: String,
    input: Arc<dyn Input>,
    edges: Edges,
    output: Arc<dyn Output>,
    /// The place for rows that one job of the chain writes and the next one reads.
    spills: SpillPlace,
    damping: f64,
    iterations: u32,
    reduces: u32,
    jobs_done: u32,
    nodes: u64,
    relay: Relay,
    /// The computation of the job that `next` returned last. `describe` encodes it.
    step: Option<Step>,
}

impl PageRank {
    /// Creates a ranking of the nodes in `edges` of `input` by `iterations` steps with
    /// `damping` (0 to 1, usually 0.85). A row of the result is a node and its rank; all
    /// ranks add up to 1. A link that occurs twice counts twice. Rows wait in `spills`
    /// between the jobs, each of which has `reduces` reduce tasks, at least one.
    #[expect(clippy::too_many_arguments, reason = "each is a different thing")]
    pub fn new(
        name: impl Into<String>,
        input: Arc<dyn Input>,
        edges: Edges,
        output: Arc<dyn Output>,
        spills: impl Into<SpillPlace>,
        damping: f64,
        iterations: u32,
        reduces: u32,
    ) -> Self {
        let spills = spills.into();
        Self {
            name: name.into(),
            input,
            edges,
            output,
            relay: Relay::new(spills.clone()),
            spills,
            damping,
            iterations,
            reduces: reduces.max(1),
            jobs_done: 0,
            nodes: 0,
            step: None,
        }
    }

    /// Returns the job with the computation `step`. It reads the rows that the job before wrote to
    /// `left`; the first job reads the input of the ranking instead.
    fn job(&self, step: Step, left: Relay, output: Arc<dyn Output>) -> JobSpec {
        let left = Arc::new(left);
        match step {
            Step::Links => {
                let name = self.links_name();
                let seen = self.edges.seen();
                let mapper = edge_mapper(self.edges.clone(), Arc::clone(&seen));
                let reducer = links_reducer(LINKS_BYTES_MAX);
                let input = Arc::clone(&self.input);
                let spec = JobSpec::new(name, input, Arc::new(mapper), output)
                    .reducer(Arc::new(reducer), self.reduces);
                seen.required(spec)
            }
            Step::Shares(ranking) => {
                let name = self.step_name(self.jobs_done);
                JobSpec::new(name, left, Arc::new(step_mapper(ranking)), output)
                    .reducer(Arc::new(reduce_shares), self.reduces)
                    .combiner(Arc::new(combine_shares))
            }
            Step::Ranks(ranking) => {
                let mapper = Arc::new(rank_mapper(ranking));
                JobSpec::new(&self.name, left, mapper, output)
            }
        }
    }

    /// Returns the name of the job that computes the links of each node.
    fn links_name(&self) -> String {
        format!("{} links", self.name)
    }

    /// Returns the name of the job of iteration `number`, from 1.
    fn step_name(&self, number: u32) -> String {
        format!("{} step {number}", self.name)
    }

    /// Returns the formula for computing the ranks of nodes from their shares in the output of the
    /// job before.
    fn ranking(&self) -> Result<Ranking, TaskError> {
        let nodes = self.nodes as f64;
        if self.jobs_done == 1 {
            return Ok(Ranking {
                base: 1.0 / nodes,
                damping: 0.0,
            });
        }
        let dangling = self.dangling()?;
        Ok(Ranking {
            base: (1.0 - self.damping + self.damping * dangling) / nodes,
            damping: self.damping,
        })
    }

    /// Returns the sum of the ranks of all nodes without links. It is in the output of the job
    /// before, as the first row of one of the partitions. If all nodes have links, there is no such
    /// row, and the sum is 0.
    fn dangling(&self) -> Result<f64, TaskError> {
        for split in self.relay.splits()? {
            let mut found = None;
            let read = self.relay.read(&split, &mut |key, value| {
                if key == DANGLING {
                    found = Some(Row::decode(value)?.share);
                }
                // The first row is enough.
                Err(TaskError::Cancelled)
            });
            match (found, read) {
                (Some(share), _) => return Ok(share),
                (None, Ok(()) | Err(TaskError::Cancelled)) => {}
                (None, Err(error)) => return Err(error),
            }
        }
        Ok(0.0)
    }
}

impl Chain for PageRank {
    fn name(&self) -> &str {
        &self.name
    }

    fn length(&self) -> u32 {
        self.iterations + 2
    }

    fn outline(&self) -> Outline {
        let stage = |names, reduces| Stage { names, reduces };
        let steps = (1..=self.iterations).map(|number| self.step_name(number));
        Outline {
            input: Arc::clone(&self.input),
            stages: vec![
                stage(vec![self.links_name()], self.reduces),
                stage(steps.collect(), self.reduces),
                stage(vec![self.name.clone()], 0),
            ],
        }
    }

    fn next(&mut self, done: Option<&JobReport>) -> Result<Option<JobSpec>, TaskError> {
        if let Some(done) = done {
            self.jobs_done += 1;
            if self.jobs_done == 1 {
                self.nodes = done.counters.output_records;
            }
        }
        let step = match self.jobs_done {
            0 => Step::Links,
            done if done <= self.iterations => Step::Shares(self.ranking()?),
            done if done == self.iterations + 1 => Step::Ranks(self.ranking()?),
            _ => return Ok(None),
        };
        self.step = Some(step);
        let left = std::mem::replace(&mut self.relay, Relay::new(self.spills.clone()));
        let output: Arc<dyn Output> = match step {
            Step::Ranks(_) => Arc::clone(&self.output),
            _ => Arc::new(self.relay.clone()),
        };
        Ok(Some(self.job(step, left, output)))
    }

    fn describe(&self) -> Result<Vec<u8>, TaskError> {
        let step = self.step.ok_or_else(|| TaskError::failed("no job yet"))?;
        // Not as JSON, where numbers may be rounded to a neighbour.
        postcard::to_stdvec(&step).map_err(TaskError::failed)
    }

    fn described_job(&self, step: &[u8]) -> Result<JobSpec, TaskError> {
        let step = postcard::from_bytes(step).map_err(TaskError::failed)?;
        let output = Arc::new(VecOutput::new());
        Ok(self.job(step, self.relay.clone(), output))
    }
}

/// The computation of one of the jobs that a ranking consists of.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Step {
    /// Computes the links of each node from the input.
    Links,
    /// Computes the ranks of nodes from their shares, and divides each rank among the nodes that
    /// the node links to. The parts that a node receives add up to its next share.
    Shares(Ranking),
    /// Computes the final ranks of nodes from their shares.
    Ranks(Ranking),
}

/// The formula by which the share of a node becomes its rank: `base + damping * share`.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Ranking {
    base: f64,
    damping: f64,
}

impl Ranking {
    fn rank(self, row: &Row<'_>) -> f64 {
        self.base + self.damping * row.share
    }
}

/// The share of a node (the sum of the ranks that its links pass to it), and its own links, as the
/// value in the rows between two jobs:
///
/// ```text
///   share, f64 LE | per link: length of the name, u32 LE | name
/// ```
struct Row<'a> {
    share: f64,
    links: &'a [u8],
}

impl<'a> Row<'a> {
    fn decode(bytes: &'a [u8]) -> Result<Self, TaskError> {
        let (share, links) = bytes.split_first_chunk().ok_or_else(cut_short)?;
        Ok(Self {
            share: f64::from_le_bytes(*share),
            links,
        })
    }

    fn encode(share: f64, links: &[u8]) -> Vec<u8> {
        [&share.to_le_bytes()[..], links].concat()
    }

    fn links(&self) -> impl Iterator<Item = Result<&'a [u8], TaskError>> {
        let mut left = self.links;
        std::iter::from_fn(move || {
            if left.is_empty() {
                return None;
            }
            let name = left.split_first_chunk().and_then(|(length, rest)| {
                let (name, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
                left = rest;
                Some(name)
            });
            if name.is_none() {
                left = &[];
            }
            Some(name.ok_or_else(cut_short))
        })
    }
}

fn cut_short() -> TaskError {
    TaskError::failed("a node's row is cut short")
}

fn push_link(links: &mut Vec<u8>, name: &[u8]) -> Result<(), TaskError> {
    let length = u32::try_from(name.len()).map_err(TaskError::failed)?;
    links.extend_from_slice(&length.to_le_bytes());
    links.extend_from_slice(name);
    Ok(())
}

/// The first byte of those values in the shuffle that contain a part of a node's links; values with
/// a share begin with [`SHARE`].
const LINKS: u8 = 0;
const SHARE: u8 = 1;

fn tagged(tag: u8, bytes: &[u8]) -> Vec<u8> {
    [&[tag][..], bytes].concat()
}

/// A value of a node in the shuffle.
enum Part<'a> {
    /// At most [`LINKS_PART_BYTES`] of the encoded links of the node. One map emits all of these
    /// parts, and the shuffle keeps their order, so one after the other they are the links.
    Links(&'a [u8]),
    /// The sum of some ranks that links pass to the node.
    Share(f64),
}

impl<'a> Part<'a> {
    fn decode(value: &'a [u8]) -> Result<Self, TaskError> {
        match value.split_first() {
            Some((&LINKS, links)) => Ok(Self::Links(links)),
            Some((&SHARE, share)) => {
                let share = <[u8; 8]>::try_from(share).map_err(TaskError::failed)?;
                Ok(Self::Share(f64::from_le_bytes(share)))
            }
            _ => Err(cut_short()),
        }
    }
}

/// Returns the mapper of the first job. It emits each link under the node that it goes from, and an empty
/// list under the node that it goes to, which may have no links itself.
fn edge_mapper(edges: Edges, seen: Arc<SeenColumns>) -> impl Mapper {
    move |key: &[u8], value: &[u8], emit: &mut dyn Emit| {
        let Some([from, to]) = edges.read(key, value, &seen)? else {
            return Ok(());
        };
        let mut link = Vec::new();
        push_link(&mut link, &to)?;
        emit.emit(&from, &link)?;
        emit.emit(&to, b"")
    }
}

fn links_reducer(links_bytes_max: usize) -> impl Reducer {
    move |key: &[u8], values: &mut Values<'_>, emit: &mut dyn Emit| {
        let mut links = Vec::new();
        while let Some(link) = values.next_value()? {
            links.extend_from_slice(link);
            if links.len() > links_bytes_max {
                return Err(TaskError::failed(format!(
                    "node {:?} has more than {links_bytes_max} bytes of links",
                    key.escape_ascii().to_string()
                )));
            }
        }
        emit.emit(key, &Row::encode(0.0, &links))
    }
}

fn step_mapper(ranking: Ranking) -> impl Mapper {
    move |key: &[u8], value: &[u8], emit: &mut dyn Emit| -> Result<(), TaskError> {
        if key == DANGLING {
            return Ok(());
        }
        let row = Row::decode(value)?;
        // A node without links has no part. It keeps its row, because each node that links to it
        // passes a share to it.
        for links in row.links.chunks(LINKS_PART_BYTES) {
            emit.emit(key, &tagged(LINKS, links))?;
        }
        let rank = ranking.rank(&row);
        let count = row.links().count();
        if count == 0 {
            return emit.emit(DANGLING, &tagged(SHARE, &rank.to_le_bytes()));
        }
        let share = tagged(SHARE, &(rank / count as f64).to_le_bytes());
        row.links().try_for_each(|link| emit.emit(link?, &share))
    }
}

fn combine_shares(
    key: &[u8],
    values: &mut Values<'_>,
    emit: &mut dyn Emit,
) -> Result<(), TaskError> {
    let mut sum = 0.0_f64;
    while let Some(value) = values.next_value()? {
        match Part::decode(value)? {
            // Unchanged: several parts together may be too long for a record.
            Part::Links(_) => emit.emit(key, value)?,
            Part::Share(share) => sum += share,
        }
    }
    emit.emit(key, &tagged(SHARE, &sum.to_le_bytes()))
}

fn reduce_shares(
    key: &[u8],
    values: &mut Values<'_>,
    emit: &mut dyn Emit,
) -> Result<(), TaskError> {
    let (mut sum, mut links) = (0.0_f64, Vec::new());
    while let Some(value) = values.next_value()? {
        match Part::decode(value)? {
            Part::Links(part) => links.extend_from_slice(part),
            Part::Share(share) => sum += share,
        }
    }
    emit.emit(key, &Row::encode(sum, &links))
}

fn rank_mapper(ranking: Ranking) -> impl Mapper {
    move |key: &[u8], value: &[u8], emit: &mut dyn Emit| {
        if key == DANGLING {
            return Ok(());
        }
        let rank = ranking.rank(&Row::decode(value)?);
        emit.emit(key, rank.to_string().as_bytes())
    }
}

#[cfg(test)]
mod tests;
