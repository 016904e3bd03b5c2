//! Any application with its arguments, and the request that it is.

use anyhow::Result;
use ebb_jobs::request::{
    AggregateRequest, ApplicationRequest, CombineRequest, GrepRequest, IndexRequest, InputRequest,
    JobRequest, JoinRequest, PagerankRequest, PiRequest, SelectRequest, SimulateRequest,
    SortRequest, ValidateRequest, WordcountRequest,
};

use super::*;

/// An application with its arguments.
#[derive(Debug, clap::Subcommand)]
pub(in crate::run) enum JobArgs {
    Aggregate(Box<Aggregate>),
    Combine(Box<Combine>),
    Grep(Box<Grep>),
    Index(Box<Index>),
    Join(Box<Join>),
    Pagerank(Box<Pagerank>),
    Pi(Box<Pi>),
    Select(Box<Select>),
    Simulate(Box<Simulate>),
    Sort(Box<Sort>),
    Validate(Box<Validate>),
    Wordcount(Box<Wordcount>),
}

impl JobArgs {
    /// What every job takes, and what it reads first.
    fn parts(&self) -> (&Common, Option<&InputArgs>) {
        match self {
            Self::Aggregate(args) => (&args.common, Some(&args.input)),
            Self::Combine(args) => (&args.common, Some(&args.input)),
            Self::Grep(args) => (&args.common, Some(&args.input)),
            Self::Index(args) => (&args.common, Some(&args.input)),
            Self::Join(args) => (&args.common, Some(&args.input)),
            Self::Pagerank(args) => (&args.common, Some(&args.input)),
            Self::Pi(args) => (&args.common, None),
            Self::Select(args) => (&args.common, Some(&args.input)),
            Self::Simulate(args) => (&args.common, None),
            Self::Sort(args) => (&args.common, Some(&args.input)),
            Self::Validate(args) => (&args.common, Some(&args.input)),
            Self::Wordcount(args) => (&args.common, Some(&args.input)),
        }
    }

    pub(in crate::run) fn common(&self) -> &Common {
        self.parts().0
    }

    /// The right side of a join.
    pub(in crate::run) fn right(&self) -> Option<&SourceText> {
        match self {
            Self::Join(args) => Some(&args.with),
            _ => None,
        }
    }

    /// Whether a table is read.
    pub(in crate::run) fn reads_table(&self) -> bool {
        let data = self.common().data();
        let is_right_table = self.right().is_some_and(|right| right.is_table(data));
        is_right_table || self.parts().1.is_some_and(InputArgs::is_table)
    }

    /// The request that these arguments are. Its output is as [`Common::request`] has it.
    pub(in crate::run) fn into_request(self) -> Result<JobRequest> {
        let common = self.common().clone();
        let (application, inputs) = match self {
            Self::Aggregate(args) => {
                let application = ApplicationRequest::Aggregate(AggregateRequest {
                    by: args.by,
                    of: args.of,
                    quantiles: args.quantiles,
                    reduces: args.reduces.reduces,
                });
                (application, one(args.input)?)
            }
            Self::Combine(args) => {
                let application = ApplicationRequest::Combine(CombineRequest {
                    by: args.by,
                    reduces: args.reduces.reduces,
                });
                (application, one(args.input)?)
            }
            Self::Grep(args) => {
                let application = ApplicationRequest::Grep(GrepRequest {
                    pattern: args.pattern,
                    regex: args.regex,
                });
                (application, one(args.input.with(args.columns))?)
            }
            Self::Index(args) => {
                let application = ApplicationRequest::Index(IndexRequest {
                    reduces: args.reduces.reduces,
                });
                (application, one(args.input.with(args.columns))?)
            }
            Self::Join(args) => {
                let right = args
                    .input
                    .at(args.with.place(common.data()))
                    .into_request()?;
                let application = ApplicationRequest::Join(JoinRequest {
                    right_on: args.with_on.or_else(|| args.on.clone()),
                    left_on: args.on,
                    keep_left: args.left,
                    reduces: args.reduces.reduces,
                });
                (application, vec![args.input.into_request()?, right])
            }
            Self::Pagerank(args) => {
                let application = ApplicationRequest::Pagerank(PagerankRequest {
                    from: args.from,
                    to: args.to,
                    iterations: args.iterations,
                    damping: args.damping,
                    reduces: args.reduces.reduces,
                });
                (application, one(args.input)?)
            }
            Self::Pi(args) => {
                let application = ApplicationRequest::Pi(PiRequest {
                    points: args.points,
                    seed: args.seed,
                    variant: args.variant.into(),
                });
                (application, Vec::new())
            }
            Self::Select(args) => {
                let application = ApplicationRequest::Select(SelectRequest {
                    conditions: args.conditions,
                    columns: args.columns,
                    keep: args.keep,
                });
                (application, one(args.input)?)
            }
            Self::Simulate(args) => {
                let application = ApplicationRequest::Simulate(SimulateRequest {
                    scenario: args.scenario,
                    replicas: args.replicas,
                });
                (application, Vec::new())
            }
            Self::Sort(args) => {
                let application = ApplicationRequest::Sort(SortRequest {
                    order: args.order.into(),
                    reduces: args.reduces.reduces,
                });
                (application, one(args.input)?)
            }
            Self::Validate(args) => {
                let application = ApplicationRequest::Validate(ValidateRequest {
                    order: args.order.into(),
                });
                (application, one(args.input)?)
            }
            Self::Wordcount(args) => {
                let application = ApplicationRequest::Wordcount(WordcountRequest {
                    reduces: args.reduces.reduces,
                });
                (application, one(args.input.with(args.columns))?)
            }
        };
        common.request(application, inputs)
    }
}

fn one(input: InputArgs) -> Result<Vec<InputRequest>> {
    Ok(vec![input.into_request()?])
}
