//! Properties of every policy, and an example of each, computed by hand.

use super::*;
use crate::model::NodeId;
use ebb_test_support::seed::for_seeds;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Routes the tasks, then lets the nodes in `idle` choose a task one after the other; a node may
/// occur several times. Returns the job and the index of each chosen task; `None` if the node stays
/// idle.
fn serve(name: &str, cluster: Cluster, tasks: &[Task], idle: &[u32]) -> Vec<Option<(u32, u32)>> {
    let model = Model {
        cluster,
        ..Model::wang()
    };
    let discipline = (queueing_policy(name).unwrap().build)(&model).unwrap();
    serve_by(discipline, tasks, idle)
}

fn serve_by(
    mut discipline: Box<dyn Discipline>,
    tasks: &[Task],
    idle: &[u32],
) -> Vec<Option<(u32, u32)>> {
    let mut ties = ChaCha8Rng::seed_from_u64(1);
    for &task in tasks {
        discipline.route(task, &mut ties);
    }
    let jobs = tasks.iter().map(|task| task.job + 1).max().unwrap_or(0);
    let mut running = vec![0; jobs as usize];
    (idle.iter())
        .map(|&node| {
            let task = discipline.choose(NodeId(node), &running, &mut ties)?;
            running[task.job as usize] += 1;
            Some((task.job, task.index))
        })
        .collect()
}

/// Returns the only task of a job, with data on one node.
fn on(job: u32, node: u32) -> Task {
    Task::new(job, 0, &[node])
}

const FLAT: Cluster = Cluster::flat(3, 0.8, 0.2);
/// Racks {0, 1} and {2, 3}; the service rates of local, rack-local and remote tasks, per
/// slot.
const RACKS: Cluster = Cluster::racks(4, 2, [0.8, 0.5, 0.2]);

/// Job 0 has one task with data on node 0 and one with data on node 1, job 1 has one with data on
/// node 1. Node 1 takes job 0, the older one, and its local task 1. Then job 1 has fewer running
/// tasks, so node 0 takes the task of job 1 though it is remote. Then both jobs have one running
/// task, and node 2 takes job 0's task 0, remote too.
#[test]
fn naive_fair_takes_the_job_first_and_looks_for_a_local_task_then() {
    let tasks = [Task::new(0, 0, &[0]), Task::new(0, 1, &[1]), on(1, 1)];
    let served = serve("naive-fair", FLAT, &tasks, &[1, 0, 2]);
    assert_eq!(served, [Some((0, 1)), Some((1, 0)), Some((0, 0))]);
}

/// Six tasks with data on node 0 arrive. Each joins the shorter of node 0's queue and the
/// common one, so both end with three, whatever the ties. Node 0 compares 0.8 x 3 with 0.2 x
/// 3 and keeps its own; nodes 1 and 2 have no tasks and serve the common queue.
#[test]
fn jsq_maxweight_with_a_common_queue_splits_and_weighs() {
    let tasks: Vec<Task> = (0..6).map(|job| on(job, 0)).collect();
    let served = serve("jsq-maxweight-common", FLAT, &tasks, &[0, 1, 2, 0, 0, 0, 1]);
    assert!(
        served[..6].iter().all(Option::is_some),
        "six tasks for six turns"
    );
    assert_eq!(served[6], None, "and no more");
}

/// Node 1 serves its own queue or the common one, whichever has the larger product of length and
/// rate: 0.8 for its own, 0.2 for the common one. Its own queue has one task. Of the ten tasks with
/// data on node 0, five are in the common queue: 0.8 * 1 < 0.2 * 5, so node 1 serves that one. Of
/// six tasks, three are there, and node 1 serves its own queue.
#[test]
fn jsq_maxweight_leaves_its_own_queue_when_the_common_one_is_heavier() {
    for (of_node_0, keeps) in [(10, false), (6, true)] {
        let mut tasks: Vec<Task> = (0..of_node_0).map(|job| on(job, 0)).collect();
        // This task joins node 1, whose queue is empty.
        tasks.push(on(of_node_0, 1));
        let served = serve("jsq-maxweight-common", FLAT, &tasks, &[1]);
        assert_eq!(served[0] == Some((of_node_0, 0)), keeps, "{of_node_0}");
    }
}

/// An idle node serves the queue with the largest product of length and rate: 0.8 for its own, 0.2
/// for others. Node 2 has one task, node 0 has five: 0.8 * 1 < 0.2 * 5, so node 2 helps node 0.
/// With four the weights are equal and node 2 keeps its own.
#[test]
fn jsq_maxweight_per_node_serves_the_largest_weight() {
    for (of_node_0, keeps) in [(5, false), (4, true)] {
        let mut tasks: Vec<Task> = (0..of_node_0).map(|job| on(job, 0)).collect();
        tasks.push(on(of_node_0, 2));
        let served = serve("jsq-maxweight", FLAT, &tasks, &[2]);
        let own = Some((of_node_0, 0));
        assert_eq!(served[0], if keeps { own } else { Some((0, 0)) });
    }
}

/// An idle node serves the queue with the largest product of length and rate: 0.5 in its rack, 0.2
/// in the other rack. Node 0, in the rack of node 1, has two tasks, and node 2 of the other rack
/// has five or six. Node 1 compares 0.5 * 2 = 1 with 0.2 * 5 = 1, and the rack comes first; 0.2 * 6
/// is more, and the other rack comes first.
#[test]
fn jsq_maxweight_weighs_the_rack_between_local_and_remote() {
    for (far, served_job) in [(5, 0), (6, 2)] {
        let mut tasks = vec![on(0, 0), on(1, 0)];
        tasks.extend((0..far).map(|job| on(2 + job, 2)));
        let served = serve("jsq-maxweight", RACKS, &tasks, &[1]);
        assert_eq!(served[0], Some((served_job, 0)));
    }
}

/// A node serves local tasks four times as fast (0.8) as remote ones (0.2). So node 1 helps node 0
/// if four tasks wait there, but not with three. If node 1 has a task of its own, it serves that
/// one, however many wait elsewhere.
#[test]
fn pandas_helps_only_where_a_task_gains() {
    let four: Vec<Task> = (0..4).map(|job| on(job, 0)).collect();
    assert_eq!(serve("pandas", FLAT, &four, &[1]), [Some((0, 0))]);
    assert_eq!(serve("pandas", FLAT, &four[..3], &[1]), [None]);
    let mut own: Vec<Task> = (0..20).map(|job| on(job, 0)).collect();
    own.push(on(20, 1));
    assert_eq!(serve("pandas", FLAT, &own, &[1]), [Some((20, 0))]);
}

/// Node 1 is idle; node 0 of its rack has two tasks, node 2 of the other rack has ten. Plain
/// Pandas helps the longest queue. The variant helps its rack if that has at least alpha /
/// beta tasks, the rate of local tasks divided by that of rack-local ones: 0.8 / 0.5 = 1.6
/// <= 2. With one task in the rack the variant helps the other rack too.
#[test]
fn pandas_rack_helps_its_own_rack_first() {
    let mut tasks = vec![on(0, 0), on(1, 0)];
    tasks.extend((2..12).map(|job| on(job, 2)));
    assert_eq!(serve("pandas", RACKS, &tasks, &[1]), [Some((2, 0))]);
    assert_eq!(serve("pandas-rack", RACKS, &tasks, &[1]), [Some((0, 0))]);
    assert_eq!(
        serve("pandas-rack", RACKS, &tasks[1..], &[1]),
        [Some((2, 0))]
    );
}

/// Each node has a workload W, 0 at first: the slots that its assigned tasks take. A task adds 1 /
/// rate: 1.25 on a node with its data (rate 0.8), 2 in the rack (0.5), 5 elsewhere (0.2). A task
/// joins the node with the least W / rate.
///
/// All tasks have data on node 0. The first joins node 0 (W = 1.25 there), the second node 1 in its
/// rack (W = 2). The third compares 1.25 / 0.8 = 1.56 at node 0, 2 / 0.5 = 4 at node 1, and 0 in
/// the other rack: it goes there (W = 5), and so does the fourth, to the other node. The fifth
/// joins node 0. So node 0 has jobs 0 and 4, node 1 has job 1.
#[test]
fn weighted_workload_joins_the_least_workload_for_the_rate_there() {
    let tasks: Vec<Task> = (0..5).map(|job| on(job, 0)).collect();
    let served = serve("weighted-workload", RACKS, &tasks, &[0, 0, 0, 1, 1]);
    assert_eq!(
        served,
        [Some((0, 0)), Some((4, 0)), None, Some((1, 0)), None]
    );
    let far = serve("weighted-workload", RACKS, &tasks, &[2, 3]);
    assert!(far == [Some((2, 0)), Some((3, 0))] || far == [Some((3, 0)), Some((2, 0))]);
}

/// A node serves local tasks before remote ones that were assigned to it earlier. Each node has a
/// workload W, the slots that its assigned tasks take at their rates there: 1 / 0.8 = 1.25 with
/// their data, 1 / 0.2 = 5 without. A task joins the node with the least W / rate.
///
/// Tasks 0 and 1 have data on node 0 only. Task 0 joins it (W = 1.25), and task 1 joins node 1 (W =
/// 5). Task 2 has data on node 1: W / rate is 5 / 0.8 = 6.25 there and 1.25 / 0.2 = 6.25 at node 0,
/// a tie that the local node wins.
#[test]
fn weighted_workload_serves_local_tasks_first() {
    let cluster = Cluster::flat(2, 0.8, 0.2);
    let tasks = [on(0, 0), on(1, 0), on(2, 1)];
    let served = serve("weighted-workload", cluster, &tasks, &[1, 1, 0]);
    assert_eq!(served, [Some((2, 0)), Some((1, 0)), Some((0, 0))]);
}

/// Type {0} has five tasks, type {1, 2} has one. Node 1 compares 0.8 x 1 with 0.2 x 5 = 1
/// and serves type {0}; then it compares 0.8 with 0.2 x 4 and serves the nearer type. Only
/// type {0} is left for node 2.
#[test]
fn c_mu_serves_the_type_with_the_largest_marginal_cost_times_rate() {
    let mut tasks: Vec<Task> = (0..5).map(|job| on(job, 0)).collect();
    tasks.push(Task::new(5, 0, &[1, 2]));
    let served = serve("c-mu", FLAT, &tasks, &[1, 1, 2]);
    assert_eq!(served, [Some((0, 0)), Some((5, 0)), Some((1, 0))]);
}

fn small(racks: bool) -> Model {
    let bin = |share, min, max| SizeBin { share, min, max };
    Model {
        cluster: if racks {
            Cluster::racks(12, 4, [0.8, 0.5, 0.2])
        } else {
            Cluster::flat(12, 0.8, 0.2)
        },
        sizes: JobSizes(vec![bin(0.8, 1, 3), bin(0.2, 4, 60)]),
        streams: vec![Stream::new(2.0, 0..3, 2), Stream::new(1.5, 2..10, 2)],
    }
}

/// Wraps a policy and checks its calls and results: each task arrives, starts and ends once.
struct CheckedDiscipline {
    inner: Box<dyn Discipline>,
    waiting: std::collections::HashSet<(u32, u32)>,
    running: Vec<Option<Task>>,
}

impl Discipline for CheckedDiscipline {
    fn route(&mut self, task: Task, ties: &mut ChaCha8Rng) {
        assert!(self.waiting.insert((task.job, task.index)), "arrives once");
        self.inner.route(task, ties);
    }

    fn choose(&mut self, node: NodeId, running: &[u32], ties: &mut ChaCha8Rng) -> Option<Task> {
        assert_eq!(
            self.running[node.0 as usize], None,
            "only idle nodes are asked"
        );
        let task = self.inner.choose(node, running, ties)?;
        assert!(self.waiting.remove(&(task.job, task.index)), "starts once");
        self.running[node.0 as usize] = Some(task);
        Some(task)
    }

    fn finished(&mut self, node: NodeId, task: &Task, running: &[u32]) {
        let was = self.running[node.0 as usize].take();
        assert_eq!(was.as_ref(), Some(task), "ends what it started");
        self.inner.finished(node, task, running);
    }
}

#[test]
fn every_policy_serves_every_task_once_and_loses_none() {
    let test = "every_policy_serves_every_task_once_and_loses_none";
    for_seeds(test, 1, |seed| {
        for racks in [false, true] {
            let model = small(racks);
            for policy in QUEUEING_POLICIES {
                let mut checked = CheckedDiscipline {
                    inner: policy.build(&model).unwrap(),
                    waiting: Default::default(),
                    running: vec![None; 12],
                };
                let run = Run {
                    warmup_slots: 0,
                    ..Run::new(5000, seed)
                };
                let measured = simulate(&model, &mut checked, run).unwrap();
                let left = checked.waiting.len() + checked.running.iter().flatten().count();
                assert_eq!(
                    measured.arrived,
                    measured.finished + left as u64,
                    "{}",
                    policy.name
                );
                assert_eq!(measured.backlog_at_end, left as u64);
                assert!(measured.finished > 10_000, "{}: {measured:?}", policy.name);
            }
        }
    });
}

#[test]
fn a_seed_repeats_a_run_and_all_policies_get_the_same_arrivals() {
    let model = small(true);
    let mut arrived = Vec::new();
    for policy in QUEUEING_POLICIES {
        let go = |seed| {
            let run = Run::new(2000, seed);
            simulate(&model, policy.build(&model).unwrap().as_mut(), run).unwrap()
        };
        assert_eq!(go(3), go(3), "{}", policy.name);
        assert_ne!(go(3), go(4), "{}", policy.name);
        arrived.push(go(3).arrived);
    }
    assert!(arrived.windows(2).all(|pair| pair[0] == pair[1]));
}

/// Little's law: tasks in the system = arrivals per slot x mean delay, except for tasks that
/// cross the ends of the run.
#[test]
fn backlog_is_load_times_delay() {
    let model = small(false);
    for policy in QUEUEING_POLICIES {
        let run = Run {
            warmup_slots: 0,
            ..Run::new(20_000, 11)
        };
        let measured = simulate(&model, policy.build(&model).unwrap().as_mut(), run).unwrap();
        if !measured.is_stable() {
            continue;
        }
        // A task counts at the end of each slot from its arrival on, but not in the slot in
        // which it ends: one slot less than its delay.
        let per_slot = measured.finished as f64 / measured.slots as f64;
        let expected = per_slot * (measured.task_delay.unwrap() - 1.0);
        let backlog = measured.backlog.unwrap();
        let off = (backlog - expected).abs() / expected;
        assert!(off < 0.02, "{}: {backlog} or {expected}", policy.name);
    }
}

/// One node whose tasks are all local is a discrete Geo/Geo/1 queue with Poisson arrivals. With l
/// arriving tasks per slot, and a probability p that the task in service ends in a slot, the mean
/// number of tasks at the ends of slots is l (1 - p) / (p - l) + l^2 / (2 (p - l)). For l = 0.4 and
/// p = 0.8 this is 0.4.
#[test]
fn the_backlog_of_a_single_node_agrees_with_queueing_theory() {
    let model = Model {
        cluster: Cluster::flat(1, 0.8, 0.8),
        sizes: JobSizes::single(),
        streams: vec![Stream::new(0.4, 0..1, 1)],
    };
    for policy in QUEUEING_POLICIES {
        let mut discipline = policy.build(&model).unwrap();
        let measured = simulate(&model, discipline.as_mut(), Run::new(400_000, 5)).unwrap();
        assert!(
            (measured.backlog.unwrap() - 0.4).abs() < 0.02,
            "{}: {measured:?}",
            policy.name
        );
    }
}

#[test]
fn invalid_models_are_refused_with_the_field_and_the_reason() {
    let good = small(true);
    good.check().unwrap();
    let broken = |change: fn(&mut Model)| {
        let mut model = small(true);
        change(&mut model);
        model.check().unwrap_err().to_string()
    };
    assert!(broken(|m| m.cluster.nodes = 0).contains("at least one node"));
    assert!(broken(|m| m.cluster.rack_nodes = Some(5)).contains("12 nodes fill no whole"));
    assert!(broken(|m| m.cluster.rack = None).contains("both cluster.rack_nodes"));
    assert!(broken(|m| m.cluster.remote = 0.9).contains("not rise"));
    assert!(broken(|m| m.streams.clear()).contains("at least one"));
    assert!(broken(|m| m.streams[0].until = 13).contains("names no nodes"));
    assert!(broken(|m| m.streams[0].replicas = 4).contains("is 4; use 1 to 3"));
    assert!(broken(|m| m.streams[0].tasks_per_slot = 0.0).contains("positive"));
    assert!(broken(|m| m.sizes.0[0].share = 0.9).contains("sum to"));
    let of_field = |field: &str, change: fn(&mut Model)| {
        let error = broken(change);
        assert!(error.starts_with(&format!("{field}: ")), "{error}");
    };
    of_field("streams[1].until", |m| m.streams[1].until = 13);
    of_field("streams[0].tasks_per_slot", |m| {
        m.streams[0].tasks_per_slot = f64::NAN
    });
    of_field("streams", |m| m.streams[0].tasks_per_slot = 1e9);
    of_field("cluster.nodes", |m| m.cluster.nodes = 4_000_000_000);
    of_field("cluster.remote", |m| m.cluster.remote = 1e-300);
    of_field("cluster.local", |m| m.cluster.local = f64::NAN);
}

/// The policy follows a plan that lists the types of tasks that each node serves: the optimal plan
/// for the largest load. A type is the set of nodes with a task's data. 0.7 tasks a slot have type
/// {0}, and 0.1 type {1}; in the plan, node 0 serves only its own type, and node 1 both. So node 0
/// idles though a task of type {1} waits.
///
/// Node 1 serves the type with the larger product of rate and number of waiting tasks: 0.2 * 5 of
/// type {0} rather than 0.8 * 1 of its own, but its own rather than 0.2 * 3.
#[cfg(feature = "lp")]
#[test]
fn fluid_serves_only_the_basic_activities_of_the_plan() {
    let model = Model {
        cluster: Cluster::flat(2, 0.8, 0.2),
        sizes: JobSizes::single(),
        streams: vec![Stream::new(0.7, 0..1, 1), Stream::new(0.1, 1..2, 1)],
    };
    let serve = |tasks: &[Task], idle: &[u32]| {
        let fluid = queueing_policy("fluid").unwrap().build(&model).unwrap();
        serve_by(fluid, tasks, idle)
    };
    assert_eq!(serve(&[on(0, 1)], &[0, 1]), [None, Some((0, 0))]);
    for (x, first) in [(5, 0), (3, 3)] {
        let mut tasks: Vec<Task> = (0..x).map(|job| on(job, 0)).collect();
        tasks.push(on(x, 1));
        assert_eq!(serve(&tasks, &[1]), [Some((first, 0))]);
    }
}

/// Two nodes are overloaded, but other nodes, with spare capacity, also hold some of their data.
/// The policy must leave the tasks with this shared data to the other nodes. If each node served
/// its waiting tasks by age alone, and the other nodes helped with the shared ones, the backlog
/// would grow without limit from a load of 90% of the capacity on.
#[cfg(feature = "lp")]
#[test]
fn late_binding_leaves_shared_data_to_nodes_with_spare_capacity() {
    let model = Model {
        cluster: Cluster::racks(8, 4, [0.8, 0.3, 0.25]),
        sizes: JobSizes::single(),
        streams: vec![Stream::new(1.5, 0..2, 2), Stream::new(1.0, 0..8, 3)],
    };
    let model = model.at_load(0.95 * Capacity::of(&model).unwrap().tasks_per_slot);
    let run = |name| {
        let mut policy = queueing_policy(name).unwrap().build(&model).unwrap();
        simulate(&model, policy.as_mut(), Run::new(20_000, 3)).unwrap()
    };
    let (ours, theirs) = (run("late-binding"), run("weighted-workload"));
    assert!(ours.is_stable(), "{ours:?}");
    assert!(ours.task_delay < theirs.task_delay, "{ours:?}, {theirs:?}");
}

/// More tasks arrive than can be served, and in the first slots more than 1,000 tasks wait
/// already. So the run ends in its warm-up, without a measured slot that could look stable. Once its
/// backlog at the end was 0, as if it had served everything.
#[test]
fn a_run_that_ends_at_its_largest_backlog_is_not_stable_and_has_that_backlog() {
    let model = Model::wang().at_load(5000.0);
    let mut policy = queueing_policy("pandas").unwrap().build(&model).unwrap();
    let run = Run {
        backlog_max: 1000,
        ..Run::new(500, 1)
    };
    let measured = simulate(&model, policy.as_mut(), run).unwrap();
    assert_eq!((measured.slots, measured.growth), (0, None));
    assert!(measured.overflowed && !measured.is_stable());
    assert!(measured.backlog_at_end > 1000, "{measured:?}");
}
