//! Which job an application makes of what it is given.

use std::path::Path;
use std::sync::Arc;

use ebb_scheduler::runtime::Input;
use ebb_scheduler::sim::scenario::Scenario;

use super::output::OpenOutput;
use crate::aggregate::{self, Aggregation};
use crate::chain::Work;
use crate::combine::{self, Grouping};
use crate::error::JobError;
use crate::grep::{self, Pattern};
use crate::join::{self, JoinKind, JoinSide};
use crate::pagerank::{self, Edges, PageRank};
use crate::records::{RecordFormat, RowSchema};
use crate::request::{ApplicationRequest, JobRequest, OrderRequest};
use crate::select::{self, Selection};
use crate::sort::{self, Order};
use crate::{RowFormat, index, pi, simulate, validate, wordcount};

/// What a job is made of beside its request.
pub(super) struct Materials<'a> {
    /// As many as the application takes, with what their values are.
    pub(super) inputs: Vec<(Arc<dyn Input>, RecordFormat)>,
    /// What is simulated instead of the thesis's scenario.
    pub(super) scenario: Option<Scenario>,
    pub(super) output: OpenOutput<'a>,
    /// Map tasks at most.
    pub(super) splits: u32,
    /// Where rows wait between the jobs of a chain.
    pub(super) spill_dir: &'a Path,
}

impl Materials<'_> {
    /// The input of this number.
    fn input(&self, number: usize) -> Result<(Arc<dyn Input>, &RecordFormat), JobError> {
        let found = self.inputs.get(number);
        let found = found.map(|(input, format)| (Arc::clone(input), format));
        found.ok_or_else(|| JobError::senseless(format!("there is no input {number}")))
    }
}

/// What `request` computes, of these materials.
///
/// # Errors
/// When an option names a column that the input has not, or makes no sense.
pub(super) fn make(request: &JobRequest, materials: &Materials<'_>) -> Result<Work, JobError> {
    let Materials {
        output,
        splits,
        spill_dir,
        ..
    } = materials;
    let name = request.application.name();
    let no = |error: &dyn std::fmt::Display| JobError::senseless(error);
    let spec = match &request.application {
        ApplicationRequest::Aggregate(options) => {
            let (input, format) = materials.input(0)?;
            let quantiles = options.quantiles.clone();
            let aggregation = Aggregation::new(format, &options.by, &options.of, quantiles);
            let aggregation = aggregation.map_err(|e| no(&e))?;
            let output = output.of(Arc::new(aggregation.rows()))?;
            aggregate::spec(name, input, output, aggregation, options.reduces)
        }
        ApplicationRequest::Combine(options) => {
            let (input, format) = materials.input(0)?;
            let grouping = Grouping::new(format, &options.by).map_err(|e| no(&e))?;
            let output = output.of(Arc::new(grouping.rows()))?;
            combine::spec(name, input, output, grouping, options.reduces)
        }
        ApplicationRequest::Grep(options) => {
            let pattern = match options.regex {
                true => Pattern::regex(&options.pattern),
                false => Pattern::text(&options.pattern),
            };
            let pattern = pattern.map_err(|e| no(&format!("the pattern: {e}")))?;
            let (input, format) = materials.input(0)?;
            let rows = format.shared();
            let output = output.of(Arc::clone(&rows))?;
            grep::spec(name, input, output, pattern, rows)
        }
        ApplicationRequest::Index(options) => {
            let (input, _) = materials.input(0)?;
            let output = output.of(Arc::new(index::rows()))?;
            index::spec(name, input, output, options.reduces)
        }
        ApplicationRequest::Join(options) => {
            let side = |number, on: &Option<String>| {
                let (input, format) = materials.input(number)?;
                JoinSide::new(input, format, on.as_deref()).map_err(|e| no(&e))
            };
            let (left, right) = (side(0, &options.left_on)?, side(1, &options.right_on)?);
            let kind = match options.keep_left {
                true => JoinKind::Left,
                false => JoinKind::Inner,
            };
            let output = output.of_any_keys(Arc::new(join::rows(&left, &right)))?;
            join::spec(name, left, right, output, kind, options.reduces)
        }
        ApplicationRequest::Pagerank(options) => {
            let (input, format) = materials.input(0)?;
            let edges = Edges::new(format, &options.from, &options.to).map_err(|e| no(&e))?;
            let output = output.of(Arc::new(pagerank::rows()))?;
            // Before the first of many jobs, what would be refused for the last.
            output.check()?;
            let (damping, iterations) = (options.damping, options.iterations);
            let chain = PageRank::new(
                name,
                input,
                edges,
                output,
                *spill_dir,
                damping,
                iterations,
                options.reduces,
            );
            return Ok(Work::Chain(Box::new(chain)));
        }
        ApplicationRequest::Pi(options) => {
            let output = output.of(Arc::new(pi::rows()))?;
            let (points, seed, variant) = (options.points, options.seed, options.variant);
            pi::spec(name, output, points, *splits, seed, variant)
        }
        ApplicationRequest::Select(options) => {
            let (input, format) = materials.input(0)?;
            let conditions = options.conditions.clone();
            let selection = Selection::new(format, conditions, &options.columns, options.keep);
            let mut selection = selection.map_err(|e| no(&e))?;
            if request.output.row_format() == RowFormat::JsonLines {
                selection = selection.keeping_json();
            }
            let output = output.of(selection.rows())?;
            select::spec(name, input, output, selection)
        }
        ApplicationRequest::Simulate(options) => {
            let mut scenario = match materials.scenario.clone() {
                None => Scenario::parse("the thesis's", simulate::SCENARIO).map_err(|e| no(&e))?,
                Some(scenario) => scenario,
            };
            if let Some(replicas) = options.replicas {
                scenario.set_replicas(replicas).map_err(|e| no(&e))?;
            }
            let output = output.of(Arc::new(simulate::rows()))?;
            simulate::spec(name, output, scenario, *splits).map_err(|e| no(&e))?
        }
        ApplicationRequest::Sort(options) => {
            let (input, format) = materials.input(0)?;
            let order = order(format, &options.order)?;
            let output = output.of_any_keys(order.rows())?;
            sort::spec(name, input, output, order, options.reduces)
        }
        ApplicationRequest::Validate(options) => {
            let (input, format) = materials.input(0)?;
            let order = order(format, &options.order)?;
            let output = output.of(Arc::new(validate::rows()))?;
            validate::spec(name, input, output, order)
        }
        ApplicationRequest::Wordcount(options) => {
            let (input, _) = materials.input(0)?;
            let output = output.of(Arc::new(wordcount::rows()))?;
            wordcount::spec(name, input, output, options.reduces)
        }
    };
    Ok(Work::Job(Box::new(spec)))
}

fn order(format: &RecordFormat, request: &OrderRequest) -> Result<Order, JobError> {
    let OrderRequest {
        by,
        numeric,
        reverse,
    } = request;
    Order::new(format, by, *numeric, *reverse).map_err(JobError::senseless)
}
