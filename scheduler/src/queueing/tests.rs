//! What holds for every policy, and an example of each by hand.

use super::*;
use crate::model::NodeId;
use ebb_test_support::seed::for_seeds;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Routes the tasks, then asks the idle nodes in this order; who serves which task.
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

/// A task of its own job on one node.
fn on(job: u32, node: u32) -> Task {
    Task::new(job, 0, &[node])
}

const FLAT: Cluster = Cluster::flat(3, 0.8, 0.2);
/// Racks {0, 1} and {2, 3}.
const RACKS: Cluster = Cluster::racks(4, 2, [0.8, 0.5, 0.2]);

/// Job 0 on nodes 0 and 1, job 1 on node 1. Node 1 takes job 0 as the older, its local
/// task 1. Then job 1 has fewer running: node 0 takes its task though it is remote. Then
/// both have one: node 2 takes job 0's task 0, remote too.
#[test]
fn naive_fair_takes_the_job_first_and_looks_for_a_local_task_then() {
    let tasks = [Task::new(0, 0, &[0]), Task::new(0, 1, &[1]), on(1, 1)];
    let served = serve("naive-fair", FLAT, &tasks, &[1, 0, 2]);
    assert_eq!(served, [Some((0, 1)), Some((1, 0)), Some((0, 0))]);
}

/// Six tasks of node 0 join: with one queue of node 0 and the common one each next task
/// goes to the shorter, so both end with three, whatever the ties. Node 0 compares 0.8 x 3
/// with 0.2 x 3 and keeps its own; nodes 1 and 2 have nothing and serve the common one.
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

/// Node 1 has one task, and the common queue five or more of those of node 0 (0.8 x 1 <
/// 0.2 x 5): node 1 serves the common one first. With three in it, it keeps its own.
#[test]
fn jsq_maxweight_leaves_its_own_queue_when_the_common_one_is_heavier() {
    for (of_node_0, keeps) in [(10, false), (6, true)] {
        let mut tasks: Vec<Task> = (0..of_node_0).map(|job| on(job, 0)).collect();
        // Joins node 1, whose queue is empty.
        tasks.push(on(of_node_0, 1));
        let served = serve("jsq-maxweight-common", FLAT, &tasks, &[1]);
        assert_eq!(served[0] == Some((of_node_0, 0)), keeps, "{of_node_0}");
    }
}

/// Node 0 has five tasks, node 2 has one. Node 2 weighs 0.8 x 1 for its own against 0.2 x 5
/// = 1: it helps node 0. With four the weights are equal and it keeps its own.
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

/// Node 1 is idle; node 0 of its rack has two tasks, node 2 of the other has x. It weighs
/// 0.5 x 2 = 1 against 0.2 x: with five they are equal and the rack comes first, with six
/// the other rack does.
#[test]
fn jsq_maxweight_weighs_the_rack_between_local_and_remote() {
    for (far, served_job) in [(5, 0), (6, 2)] {
        let mut tasks = vec![on(0, 0), on(1, 0)];
        tasks.extend((0..far).map(|job| on(2 + job, 2)));
        let served = serve("jsq-maxweight", RACKS, &tasks, &[1]);
        assert_eq!(served[0], Some((served_job, 0)));
    }
}

/// alpha / gamma = 4: node 1 helps node 0 with four waiting, not with three. With a task of
/// its own it serves that, however many wait elsewhere.
#[test]
fn pandas_helps_only_where_a_task_gains() {
    let four: Vec<Task> = (0..4).map(|job| on(job, 0)).collect();
    assert_eq!(serve("pandas", FLAT, &four, &[1]), [Some((0, 0))]);
    assert_eq!(serve("pandas", FLAT, &four[..3], &[1]), [None]);
    let mut own: Vec<Task> = (0..20).map(|job| on(job, 0)).collect();
    own.push(on(20, 1));
    assert_eq!(serve("pandas", FLAT, &own, &[1]), [Some((20, 0))]);
}

/// Node 1 is idle; node 0 of its rack has two tasks (alpha / beta = 1.6 <= 2), node 2 of the
/// other rack has ten. Plain Pandas helps the longest, the variant its rack. With one task
/// in the rack the variant helps the other too.
#[test]
fn pandas_that_knows_racks_helps_its_own_first() {
    let mut tasks = vec![on(0, 0), on(1, 0)];
    tasks.extend((2..12).map(|job| on(job, 2)));
    assert_eq!(serve("pandas", RACKS, &tasks, &[1]), [Some((2, 0))]);
    assert_eq!(serve("pandas-rack", RACKS, &tasks, &[1]), [Some((0, 0))]);
    assert_eq!(
        serve("pandas-rack", RACKS, &tasks[1..], &[1]),
        [Some((2, 0))]
    );
}

/// Tasks of node 0. W / rate, with W = 0 everywhere: the first joins node 0 (W = 1.25), the
/// second node 1 at W = 0 in its rack (W = 2). The third compares 1.25 / 0.8 = 1.56 at node
/// 0, 1.25 / 0.5 = 2.5 in its rack and 0 in the other: remote, W = 5 there; so does the
/// fourth. The fifth: 1.56, 2.5 and 6.25: node 0. So node 0 has jobs 0 and 4, node 1 job 1.
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

/// A node serves local tasks before remote ones that it was sent earlier. Tasks 0 and 1
/// have data on node 0 only; with two nodes and rates 0.8 and 0.2, task 1 is sent to node 1.
/// Task 2 is local there: W / rate is 5 / 0.8 = 6.25 at node 1 and 1.25 / 0.2 = 6.25 at node
/// 0: a tie, which the local one wins.
#[test]
fn weighted_workload_serves_local_tasks_first() {
    let cluster = Cluster::flat(2, 0.8, 0.2);
    let tasks = [on(0, 0), on(1, 0), on(2, 1)];
    let served = serve("weighted-workload", cluster, &tasks, &[1, 1, 0]);
    assert_eq!(served, [Some((2, 0)), Some((1, 0)), Some((0, 0))]);
}

/// Type {0} has five tasks, type {1, 2} one. Node 1 weighs 0.8 x 1 against 0.2 x 5 = 1 and
/// serves type {0}; then 0.8 against 0.2 x 4: the nearer. Node 2 then has type {0} only.
#[test]
fn c_mu_serves_the_type_with_the_largest_marginal_cost_times_rate() {
    let mut tasks: Vec<Task> = (0..5).map(|job| on(job, 0)).collect();
    tasks.push(Task::new(5, 0, &[1, 2]));
    let served = serve("c-mu", FLAT, &tasks, &[1, 1, 2]);
    assert_eq!(served, [Some((0, 0)), Some((5, 0)), Some((1, 0))]);
}

fn small(racks: bool) -> Model {
    let stream = |tasks_per_slot, from, until| Stream {
        tasks_per_slot,
        from,
        until,
        replicas: 2,
    };
    Model {
        cluster: match racks {
            true => Cluster::racks(12, 4, [0.8, 0.5, 0.2]),
            false => Cluster::flat(12, 0.8, 0.2),
        },
        sizes: JobSizes(vec![
            SizeBin {
                share: 0.8,
                min: 1,
                max: 3,
            },
            SizeBin {
                share: 0.2,
                min: 4,
                max: 60,
            },
        ]),
        streams: vec![stream(2.0, 0, 3), stream(1.5, 2, 10)],
    }
}

/// Wraps a policy and checks what it is asked and answers.
struct Checked {
    inner: Box<dyn Discipline>,
    waiting: std::collections::HashSet<(u32, u32)>,
    running: Vec<Option<Task>>,
}

impl Discipline for Checked {
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
                let mut checked = Checked {
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
fn the_same_seed_gives_the_same_numbers_and_policies_meet_the_same_arrivals() {
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

/// Little's law: tasks in the system = arrivals per slot x mean delay, up to what crosses
/// the ends of the run.
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
        // A task counts at the ends of slots: of those from its arrival on, not of the
        // slot in which it ends.
        let per_slot = measured.finished as f64 / measured.slots as f64;
        let expected = per_slot * (measured.task_delay.unwrap() - 1.0);
        let backlog = measured.backlog.unwrap();
        let off = (backlog - expected).abs() / expected;
        assert!(off < 0.02, "{}: {backlog} or {expected}", policy.name);
    }
}

/// One node, local tasks only, one at a time: a discrete Geo/Geo/1 queue with Poisson
/// arrivals a slot. The mean number at the ends of slots is, with load l and rate p,
/// l (1 - p) / (p - l) + l^2 / (2 (p - l)): for 0.4 and 0.8 it is 0.4.
#[test]
fn a_single_node_queues_as_the_formula_says() {
    let model = Model {
        cluster: Cluster::flat(1, 0.8, 0.8),
        sizes: JobSizes::single(),
        streams: vec![Stream {
            tasks_per_slot: 0.4,
            from: 0,
            until: 1,
            replicas: 1,
        }],
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
fn models_that_make_no_sense_are_refused_with_what_is_wrong() {
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
    assert!(broken(|m| m.streams[0].replicas = 4).contains("4 replicas"));
    assert!(broken(|m| m.streams[0].tasks_per_slot = 0.0).contains("positive"));
    assert!(broken(|m| m.sizes.0[0].share = 0.9).contains("sum to"));
    for (error, field) in [
        (broken(|m| m.streams[1].until = 13), "streams[1].until: "),
        (
            broken(|m| m.streams[0].tasks_per_slot = f64::NAN),
            "streams[0].tasks_per_slot: ",
        ),
        (broken(|m| m.streams[0].tasks_per_slot = 1e9), "streams: "),
        (
            broken(|m| m.cluster.nodes = 4_000_000_000),
            "cluster.nodes: ",
        ),
        (broken(|m| m.cluster.remote = 1e-300), "cluster.remote: "),
        (broken(|m| m.cluster.local = f64::NAN), "cluster.local: "),
    ] {
        assert!(error.starts_with(field), "{error}");
    }
}

/// Nodes 0 and 1 with data of their own, 0.7 and 0.1 tasks a slot. The plan at capacity:
/// node 0 serves only its own type, and node 1 both. So node 0 idles though type {1}
/// waits, and node 1 takes the heavier: 0.2 x 5 of type {0} over 0.8 x 1 of its own, but
/// its own over 0.2 x 3.
#[cfg(feature = "lp")]
#[test]
fn fluid_serves_what_the_plan_says_and_nothing_else() {
    let stream = |tasks_per_slot, from| Stream {
        tasks_per_slot,
        from,
        until: from + 1,
        replicas: 1,
    };
    let model = Model {
        cluster: Cluster::flat(2, 0.8, 0.2),
        sizes: JobSizes::single(),
        streams: vec![stream(0.7, 0), stream(0.1, 1)],
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

/// Two nodes are overloaded, and hold data that others could serve too. Where a node served
/// what waits there by age alone, and helpers took that, the backlog would grow from 90%
/// of the capacity on.
#[cfg(feature = "lp")]
#[test]
fn late_binding_leaves_shared_data_to_nodes_with_time() {
    let stream = |tasks_per_slot, until, replicas| Stream {
        tasks_per_slot,
        from: 0,
        until,
        replicas,
    };
    let model = Model {
        cluster: Cluster::racks(8, 4, [0.8, 0.3, 0.25]),
        sizes: JobSizes::single(),
        streams: vec![stream(1.5, 2, 2), stream(1.0, 8, 3)],
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

/// More arrives than can be served, and the first slots already have more than 1,000 tasks
/// wait: the run ends in its warm-up, with nothing counted that could look stable.
#[test]
fn a_run_that_ends_at_its_largest_backlog_is_not_stable() {
    let model = Model::wang().at_load(5000.0);
    let mut policy = queueing_policy("pandas").unwrap().build(&model).unwrap();
    let run = Run {
        backlog_max: 1000,
        ..Run::new(500, 1)
    };
    let measured = simulate(&model, policy.as_mut(), run).unwrap();
    assert_eq!((measured.slots, measured.growth), (0, None));
    assert!(measured.overflowed && !measured.is_stable());
}
