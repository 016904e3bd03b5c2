//! The capacity region: the largest part of a traffic's mix that any policy can serve.
//!
//! The linear programme (1) of the survey divides the tasks of each type among the nodes so that
//! no node has more than one slot of work per slot. Here the rates of all types are multiplied
//! by a common scale, and the largest feasible scale is computed: above it no policy is stable,
//! and strictly below it some policy is.
//!
//! A stream over many nodes has as many types as there are sets of replicas. But nodes of one
//! rack that the same streams use are interchangeable, and a symmetric programme has a symmetric
//! optimum. So the variables are per *class* of nodes and per *pattern* of types (the number of
//! replicas in each class). The result equals that of the programme with every type and node of
//! its own.

use super::cluster::{Cluster, Locality, ModelError, bad};
use super::task::Task;
use super::traffic::{Model, Stream};
use crate::lp::{LinearProgramme, Variable};
use crate::model::NodeId;
use serde::Serialize;
use std::collections::BTreeMap;

/// A class: neighbouring nodes that are interchangeable in the linear programme, because they are
/// in one rack and may hold the data of the same streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NodeClass {
    /// The number of the first node of the class.
    pub first: u32,
    /// Number of nodes of the class.
    pub nodes: u32,
    /// Rack of the nodes; `None` without racks.
    pub rack: Option<u32>,
}

/// A part of a plan: the tasks of one pattern that the nodes of one class serve at one distance
/// from their data. A pattern stands for all tasks with the same number of replicas in each class
/// of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Activity {
    /// Index of the tasks' pattern in the list of patterns.
    pub pattern: usize,
    /// Index of the serving nodes' class in [`Capacity::classes`].
    pub class: usize,
    /// The distance of the serving nodes from the tasks' data.
    pub locality: Locality,
    /// Tasks per slot that all nodes of the class serve together, at capacity.
    pub tasks_per_slot: f64,
}

/// The number of a task's replicas in each class of nodes that has any: (class, replicas), classes
/// ascending.
type Pattern = Vec<(usize, u32)>;

/// The most tasks that the cluster can serve without queues that grow without limit, for the mix of
/// tasks of a model's traffic; and an optimal plan to serve them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Capacity {
    /// The tasks per time slot at which the queues just begin to grow without limit, whichever
    /// policy serves them.
    pub tasks_per_slot: f64,
    /// The factor by which the model's arrival rates can be multiplied at most: `tasks_per_slot`
    /// divided by the tasks per slot that arrive in the model.
    pub scale: f64,
    /// The classes of interchangeable nodes, ascending and without gaps.
    pub classes: Vec<NodeClass>,
    /// The patterns (numbers of replicas in each class of nodes), sorted. Tasks of one pattern
    /// are interchangeable.
    patterns: Vec<Pattern>,
    /// An optimal plan: the parts of it that serve at least a millionth of all tasks.
    pub activities: Vec<Activity>,
}

/// Part of all tasks below which an [`Activity`] counts as zero: the solver is not exact.
const NEARLY_NOTHING: f64 = 1e-6;
/// Largest number of variables (patterns times classes): to solve a programme of this size takes
/// some ten seconds.
const VARIABLES_MAX: usize = 200_000;

impl Capacity {
    /// Computes the capacity for the mix of tasks in the traffic of `model`.
    ///
    /// # Errors
    /// When the model is invalid, or has too many kinds of nodes and tasks, or the solver fails.
    pub fn of(model: &Model) -> Result<Self, ModelError> {
        model.check()?;
        let classes = classes(model);
        // Sorted by pattern, because `pattern_of` searches the patterns in this order.
        let mut rates: BTreeMap<Pattern, f64> = BTreeMap::new();
        let too_many = |patterns: f64| {
            (patterns * classes.len() as f64 > VARIABLES_MAX as f64).then(|| {
                let why = format!(
                    "{} kinds of nodes and {patterns:.0} or more of tasks are too many to plan: use \
                     fewer racks or streams, or fewer replicas",
                    classes.len()
                );
                bad("streams", why)
            })
        };
        for stream in &model.streams {
            // Checked before the patterns are generated, because that alone might take forever, and
            // again afterwards, because this is only a lower bound for one stream.
            too_many(patterns_min(stream, &classes)).map_or(Ok(()), Err)?;
            for (pattern, share) in patterns(stream, &classes) {
                *rates.entry(pattern).or_default() += share * stream.tasks_per_slot;
            }
            too_many(rates.len() as f64).map_or(Ok(()), Err)?;
        }
        // Maximises the factor `scale` of the traffic (costs are minimised, so it costs -1). The
        // activities must serve the scaled rate of each pattern, with the slots that each class of
        // nodes has.
        let mut lp = LinearProgramme::default();
        let scale = lp.variable(-1.0);
        let mut variables: Vec<(Variable, Activity)> = Vec::new();
        for (at, pattern) in rates.keys().enumerate() {
            for (class, nodes) in classes.iter().enumerate() {
                for locality in distances(pattern, class, nodes, &classes) {
                    let activity = Activity {
                        pattern: at,
                        class,
                        locality,
                        tasks_per_slot: 0.0,
                    };
                    variables.push((lp.variable(0.0), activity));
                }
            }
        }
        let mut served: Vec<Vec<(Variable, f64)>> = vec![Vec::new(); rates.len()];
        let mut busy: Vec<Vec<(Variable, f64)>> = vec![Vec::new(); classes.len()];
        for &(variable, activity) in &variables {
            // Variables have no bounds of their own.
            lp.at_least([(variable, 1.0)], 0.0);
            served[activity.pattern].push((variable, 1.0));
            // The mean time of a task in slots: its rate is the chance that it ends in a slot.
            let slots = 1.0 / model.cluster.rate(activity.locality);
            busy[activity.class].push((variable, slots));
        }
        for (terms, &rate) in served.into_iter().zip(rates.values()) {
            lp.equal(terms.into_iter().chain([(scale, -rate)]), 0.0);
        }
        for (terms, class) in busy.into_iter().zip(&classes) {
            lp.at_most(terms, f64::from(class.nodes));
        }
        let solution = lp.minimise().map_err(|e| bad("streams", e.to_string()))?;
        let tasks_per_slot = solution[scale] * model.load();
        let activities = (variables.into_iter())
            .map(|(variable, activity)| Activity {
                tasks_per_slot: solution[variable],
                ..activity
            })
            .filter(|activity| activity.tasks_per_slot > NEARLY_NOTHING * tasks_per_slot)
            .collect();
        Ok(Self {
            tasks_per_slot,
            scale: solution[scale],
            classes,
            patterns: rates.into_keys().collect(),
            activities,
        })
    }

    /// Returns the position of a task's pattern (the number of its replicas in each class of nodes) in
    /// the list of patterns. `None` if the model's traffic has no tasks with this pattern.
    pub(super) fn pattern_of(&self, task: &Task) -> Option<usize> {
        let mut pattern = Pattern::new();
        let mut classes: Vec<usize> = task.local_nodes().map(|node| self.class_of(node)).collect();
        classes.sort_unstable();
        for class in classes {
            match pattern.last_mut() {
                Some((last, replicas)) if *last == class => *replicas += 1,
                _ => pattern.push((class, 1)),
            }
        }
        self.patterns.binary_search(&pattern).ok()
    }

    pub(super) fn class_of(&self, node: NodeId) -> usize {
        // Classes are ordered by their first node and without gaps, so the node lies in the last class
        // that does not begin behind it.
        self.classes.partition_point(|class| class.first <= node.0) - 1
    }
}

/// Divides the nodes into classes. A class ends where a rack ends, or the range of nodes that
/// hold the data of a stream begins or ends.
fn classes(model: &Model) -> Vec<NodeClass> {
    let Cluster {
        nodes, rack_nodes, ..
    } = model.cluster;
    let mut ends: Vec<u32> = model
        .streams
        .iter()
        .flat_map(|s| [s.from, s.until])
        .collect();
    ends.extend([0, nodes]);
    if let Some(size) = rack_nodes {
        ends.extend((0..nodes).step_by(size as usize));
    }
    ends.sort_unstable();
    ends.dedup();
    (ends.windows(2))
        .map(|pair| NodeClass {
            first: pair[0],
            nodes: pair[1] - pair[0],
            rack: model.cluster.rack_of(NodeId(pair[0])),
        })
        .collect()
}

/// Returns a lower bound on the number of patterns (numbers of replicas in each class of nodes) that
/// the tasks of a stream can have: the number of those with at most one replica in each class.
fn patterns_min(stream: &Stream, classes: &[NodeClass]) -> f64 {
    let within = classes.iter().filter(|class| is_within(stream, class));
    let within = within.count() as u32;
    choose(within, stream.replicas.min(within))
}

fn is_within(stream: &Stream, class: &NodeClass) -> bool {
    (stream.from..stream.until).contains(&class.first)
}

/// Returns the patterns that the tasks of a stream can have (the number of replicas in each class of
/// nodes), each with its share of the stream's tasks.
fn patterns(stream: &Stream, classes: &[NodeClass]) -> Vec<(Pattern, f64)> {
    let within: Vec<(usize, u32)> = (classes.iter().enumerate())
        .filter(|(_, class)| is_within(stream, class))
        .map(|(at, class)| (at, class.nodes))
        .collect();
    let mut found = Vec::new();
    let ways = choose(stream.until - stream.from, stream.replicas);
    extend(
        &within,
        stream.replicas,
        &mut Vec::new(),
        1.0 / ways,
        &mut found,
    );
    found
}

/// Adds to `found` every pattern (number of replicas in each class of nodes) that begins with
/// `pattern` and has `left` more replicas in `classes`. Each is paired with its share of the
/// stream's tasks: `share` times the number of ways to choose the nodes of these replicas.
fn extend(
    classes: &[(usize, u32)],
    left: u32,
    pattern: &mut Pattern,
    share: f64,
    found: &mut Vec<(Pattern, f64)>,
) {
    if left == 0 {
        found.push((pattern.clone(), share));
        return;
    }
    let Some((&(class, nodes), rest)) = classes.split_first() else {
        return;
    };
    extend(rest, left, pattern, share, found);
    for replicas in 1..=left.min(nodes) {
        pattern.push((class, replicas));
        extend(
            rest,
            left - replicas,
            pattern,
            share * choose(nodes, replicas),
            found,
        );
        pattern.pop();
    }
}

/// Returns the number of ways to choose `k` of `n` things.
fn choose(n: u32, k: u32) -> f64 {
    (0..k)
        .map(|i| f64::from(n - i) / f64::from(i + 1))
        .product()
}

/// Returns the distances that the nodes of the class at index `class` can have from the data of a task
/// with this pattern (number of replicas in each class of nodes): local if some of them hold a
/// replica; rack or remote for the others, if there are any.
fn distances(
    pattern: &Pattern,
    class: usize,
    nodes: &NodeClass,
    classes: &[NodeClass],
) -> impl Iterator<Item = Locality> {
    let here = (pattern.iter())
        .find(|(at, _)| *at == class)
        .map_or(0, |&(_, n)| n);
    let in_rack =
        nodes.rack.is_some() && (pattern.iter()).any(|&(at, _)| classes[at].rack == nodes.rack);
    let beside = if in_rack {
        Locality::Rack
    } else {
        Locality::Remote
    };
    let local = (here > 0).then_some(Locality::Local);
    let others = (nodes.nodes > here).then_some(beside);
    local.into_iter().chain(others)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queueing::JobSizes;

    fn capacity(cluster: Cluster, streams: &[(f64, u32, u32, u32)]) -> f64 {
        let model = Model {
            cluster,
            sizes: JobSizes::single(),
            streams: (streams.iter())
                .map(|&(tasks, from, until, replicas)| Stream::new(tasks, from..until, replicas))
                .collect(),
        };
        Capacity::of(&model).unwrap().tasks_per_slot
    }

    fn near(value: f64, expected: f64) {
        assert!(
            (value - expected).abs() < 1e-4 * expected,
            "{value}, not {expected}"
        );
    }

    /// 800 nodes hold data and complete 0.8 tasks in each time slot. The other 200 read their input
    /// remotely and complete 0.2: 640 + 40 = 680 in all.
    #[test]
    fn wangs_cluster_serves_680_tasks_a_slot() {
        near(capacity(Model::wang().cluster, &[(1.0, 0, 800, 3)]), 680.0);
    }

    /// Two racks of two nodes, and all data on node 0. In each time slot node 0 completes 0.8
    /// tasks, the other node of its rack 0.5, and each node of the other rack 0.2.
    #[test]
    fn a_single_type_gets_all_nodes_at_their_distance() {
        let racks = Cluster::racks(4, 2, [0.8, 0.5, 0.2]);
        near(capacity(racks, &[(1.0, 0, 1, 1)]), 0.8 + 0.5 + 2.0 * 0.2);
        near(capacity(Cluster::flat(4, 0.8, 0.2), &[(1.0, 0, 1, 1)]), 1.4);
    }

    /// Two nodes have data of their own, with three times as many tasks for node 0 as for node 1.
    /// Node 0 serves 0.8 of its own tasks in a time slot. Node 1 spends a part s of its time on its
    /// own tasks, at 0.8, and the rest on those of node 0, at 0.2. So 0.8 + 0.2 (1 - s) is three
    /// times 0.8 s, which gives s = 1 / 2.6 and a total of four times 0.8 s.
    #[test]
    fn two_types_share_the_node_with_less_load() {
        let flat = Cluster::flat(2, 0.8, 0.2);
        near(capacity(flat, &[(3.0, 0, 1, 1), (1.0, 1, 2, 1)]), 3.2 / 2.6);
    }

    /// One stream over two interchangeable nodes has the same capacity as one stream for each of
    /// them, which makes each node a class of its own. The capacity for the stream alone is
    /// computed by hand: two nodes with the data at 0.8, two beside them in their rack at 0.5, four
    /// at 0.2.
    #[test]
    fn interchangeable_types_counted_together_have_the_same_capacity() {
        let racks = Cluster::racks(6, 4, [0.8, 0.5, 0.2]);
        assert!(racks.check().is_err(), "six nodes are no two racks of four");
        let racks = Cluster::racks(8, 4, [0.8, 0.5, 0.2]);
        let other = (3.0, 4, 6, 2);
        let together = capacity(racks, &[(1.0, 0, 2, 1), other]);
        let apart = capacity(racks, &[(0.5, 0, 1, 1), (0.5, 1, 2, 1), other]);
        near(together, apart);
        let alone = capacity(racks, &[(1.0, 0, 2, 1)]);
        near(alone, 2.0 * 0.8 + 2.0 * 0.5 + 4.0 * 0.2);
    }

    /// Each of 100,000 racks of one node is a class of its own, so there are 1.7 * 10^14 ways to
    /// place three replicas (patterns): too many to list.
    #[test]
    fn a_cluster_with_too_many_kinds_of_nodes_is_refused_before_patterns_are_generated() {
        let model = Model {
            cluster: Cluster::racks(100_000, 1, [0.8, 0.5, 0.2]),
            sizes: JobSizes::single(),
            streams: vec![Stream::new(1.0, 0..100_000, 3)],
        };
        let error = Capacity::of(&model).unwrap_err().to_string();
        assert!(error.contains("too many to plan"), "{error}");
    }

    #[test]
    fn shares_of_patterns_sum_to_one() {
        let classes = [(0, 2), (2, 3), (5, 1)].map(|(first, nodes)| NodeClass {
            first,
            nodes,
            rack: None,
        });
        let found = patterns(&Stream::new(1.0, 0..6, 3), &classes);
        near(found.iter().map(|(_, share)| share).sum(), 1.0);
        // One replica in class 0 and two in class 1: 2 x 3 of 20 ways.
        let one = found
            .iter()
            .find(|(pattern, _)| *pattern == [(0, 1), (1, 2)]);
        near(one.unwrap().1, 0.3);
    }
}
