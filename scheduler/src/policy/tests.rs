//! Tests of several policies, and of rules that hold for all of them on random views. The worked
//! examples are in the files of their policies.

use super::example::{job, running_map, slots, view};
use super::thesis::needs;
use super::*;
use crate::availability::Availability;
use crate::model::{
    Job, JobId, Node, NodeId, PendingSplits, Phase, PhaseProfile, Pool, Profile, Resources, Splits,
    TaskKind, TypedSlots,
};
use crate::test_rng::test_rng;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

#[test]
fn a_job_past_its_goal_needs_all_its_tasks_now() {
    let late = view(
        4,
        400.0,
        vec![job(1, 0.0, Some(-1.0), 6), job(2, 0.0, Some(1e6), 6)],
    );
    let needs = needs(&late);
    assert_eq!((needs[0].s_fit, needs[0].s_req), (6.0, 6.0));
    assert_eq!(needs[1].s_fit, 0.0);
    assert_eq!(slots(&ReverseAdaptive.decide(&late), 2), [4, 0]);
}

/// J1 has 200 s of work and 90 s until its last map must start: it needs 200 / 90 slots, rounded up
/// to three. The other slots go to the jobs without a goal, the oldest, J3, first, before J1 gets a
/// fourth.
#[test]
fn jobs_without_a_goal_get_what_the_goals_leave_in_order_of_submission() {
    let jobs = vec![
        job(1, 5.0, Some(100.0), 20),
        job(2, 4.0, None, 3),
        job(3, 3.0, None, 2),
    ];
    let decide = |n| slots(&ReverseAdaptive.decide(&view(n, 1e6, jobs.clone())), 3);
    assert_eq!(decide(2), [2, 0, 0]);
    assert_eq!(decide(4), [3, 0, 1]);
    assert_eq!(decide(7), [3, 2, 2]);
    assert_eq!(decide(10), [5, 3, 2]);
}

#[test]
fn reduces_that_follow_the_maps_count_as_work_and_are_then_placed() {
    let mut one = job(1, 0.0, Some(100.0), 4);
    one.pending_reduces = 2;
    one.profile.reduce.task_s = 20.0;
    let before = view(8, 800.0, vec![one.clone()]);
    // 4 maps of 10 s and 2 reduces of 20 s are 80 s; 100 - 10 - 20 s are left.
    assert!((needs(&before)[0].s_req - 80.0 / 70.0).abs() < 1e-12);
    let placement = ReverseAdaptive.decide(&before).placement;
    let of = |kind| placement.of(JobId(1), kind);
    assert_eq!((of(TaskKind::Map), of(TaskKind::Reduce)), (4, 0));

    one.pending_maps = 0;
    let after = view(8, 800.0, vec![one]);
    let placement = ReverseAdaptive.decide(&after).placement;
    let of = |kind| placement.of(JobId(1), kind);
    assert_eq!((of(TaskKind::Map), of(TaskKind::Reduce)), (0, 2));
}

#[test]
fn overlapped_reduces_are_spread_evenly_before_any_map() {
    let mut one = job(1, 0.0, Some(100.0), 9);
    one.pending_reduces = 3;
    let mut view = view(2, 400.0, vec![one]);
    view.nodes
        .push(Node::new(NodeId(1), view.nodes[0].capacity));
    view.reduce_start = ReduceStart::Overlapped;
    let placement = ReverseAdaptive.decide(&view).placement;
    let reduces_on = |node: u32| -> u32 {
        let cells = placement.cells().iter();
        let here = cells.filter(|cell| (cell.node.0, cell.kind) == (node, TaskKind::Reduce));
        here.map(|cell| cell.slots).sum()
    };
    assert_eq!([reduces_on(0), reduces_on(1)], [2, 1]);
    assert_eq!(
        placement.of(JobId(1), TaskKind::Map),
        4,
        "a shuffling reduce holds no CPU"
    );
}

/// J1 has no tasks left to start, so it needs no slots, and J2 gets all four. Where tasks cannot be
/// paused, J1's running tasks run to their ends, and J2's start after them.
#[test]
fn running_tasks_give_way_to_an_urgent_job() {
    let mut running = job(1, 0.0, Some(1e5), 0);
    running.running = (0..4).map(|index| running_map(index, 0, 0.0)).collect();
    let mut view = view(4, 400.0, vec![running, job(2, 1.0, Some(5.0), 4)]);
    assert_eq!(slots(&ReverseAdaptive.decide(&view), 2), [0, 4]);
    view.preemption = Preemption::EveryCycle;
    assert_eq!(slots(&ReverseAdaptive.decide(&view), 2), [0, 4]);
}

/// Draws a job for [`random_view`]. The largest demand is between a tenth and a sixth of the largest
/// node, and nodes may be almost empty: some have room for several tasks, and some tasks fit nowhere.
fn random_job(rng: &mut ChaCha8Rng, id: u64, nodes: u32, now_s: f64) -> JobView {
    let mut phase = || PhaseProfile {
        demand: Resources {
            cpu_hundredths: rng.random_range(0..200),
            io_bytes_per_s: rng.random_range(0..60),
            // At least 1: a task that demands nothing would fit on a node any number of times.
            memory_bytes: rng.random_range(1..400),
        },
        task_s: rng.random_range(0.1..60.0),
    };
    let profile = Profile {
        map: phase(),
        shuffle: phase(),
        reduce: phase(),
    };
    let goal_s = rng.random_bool(0.7).then(|| rng.random_range(0.0..2000.0));
    let mut job = Job::new(JobId(id), rng.random_range(0.0..50.0), goal_s);
    job.weight = rng.random_range(0.5..3.0);
    let maps = rng.random_range(0..30);
    let mut view = JobView::new(job, maps, rng.random_range(0..6), profile);
    // As long as maps are pending, a reduce can only shuffle.
    let running_phases = [
        Phase::Map,
        if maps == 0 {
            Phase::Reduce
        } else {
            Phase::Shuffle
        },
    ];
    view.running = (0..rng.random_range(0..5))
        .map(|index| RunningTask {
            // Above the indices of the pending maps, which are below 30.
            index: 100 + index,
            node: NodeId(rng.random_range(0..nodes)),
            phase: running_phases[rng.random_range(0..2)],
            since_s: now_s - rng.random_range(0.0..50.0),
        })
        .collect();
    view.accelerated = rng.random_bool(0.5);
    view.done_maps = rng.random_range(0..3);
    let mut length = || rng.random_bool(0.5).then(|| rng.random_range(1.0..50.0));
    view.map_s_on = [length(), length()];
    if rng.random_bool(0.5) {
        let replicas =
            (0..maps).map(|_| (0..2).map(|_| NodeId(rng.random_range(0..nodes))).collect());
        let splits = Splits::new(replicas.collect());
        view.local = Some(PendingSplits::all(Arc::new(splits)));
    }
    view.wait = Wait {
        skips: rng.random_range(0..5),
        since_s: rng
            .random_bool(0.5)
            .then(|| now_s - rng.random_range(0.0..30.0)),
    };
    view
}

fn random_view(rng: &mut ChaCha8Rng) -> ClusterView {
    let typed = rng.random_bool(0.3);
    let mut nodes: Vec<Node> = (0..rng.random_range(1..6))
        .map(|id| Node {
            id: NodeId(id),
            capacity: Resources {
                cpu_hundredths: rng.random_range(0..1200),
                io_bytes_per_s: rng.random_range(0..400),
                memory_bytes: rng.random_range(0..4000),
            },
            slots: typed.then(|| TypedSlots {
                maps: rng.random_range(0..5),
                reduces: rng.random_range(0..3),
            }),
            pool: Pool::ALL[rng.random_range(0..2)],
        })
        .collect();
    if rng.random_bool(0.2) {
        nodes[0].capacity = Resources::default();
    }
    let now_s = rng.random_range(0.0..100.0);
    let nodes_n = nodes.len() as u32;
    let jobs = (1..rng.random_range(2..9))
        .map(|id| random_job(rng, id, nodes_n, now_s))
        .collect();
    ClusterView {
        now_s,
        cycle_s: rng.random_range(0.1..60.0),
        availability: Arc::new(Availability::constant(rng.random_range(0.0..3000.0)).unwrap()),
        nodes,
        jobs,
        preemption: if rng.random_bool(0.5) {
            Preemption::Never
        } else {
            Preemption::EveryCycle
        },
        reduce_start: if rng.random_bool(0.5) {
            ReduceStart::AfterMaps
        } else {
            ReduceStart::Overlapped
        },
    }
}

#[test]
fn on_random_views_every_policy_keeps_the_rules_of_placement() {
    let mut rng = test_rng(31);
    for round in 0..400 {
        let view = random_view(&mut rng);
        let mut shuffled = view.clone();
        shuffled.jobs.reverse();
        for policy in all() {
            let decision = policy.decide(&view);
            let context = format!("{} in round {round}: {view:?}", policy.name());
            assert_eq!(
                decision,
                policy.decide(&view),
                "not deterministic: {context}"
            );
            let mut other = policy.decide(&shuffled);
            other.waits.reverse();
            assert_eq!(decision, other, "depends on the order of jobs: {context}");
            let by_slots = policy.measure() == Measure::Slots;
            let placement = &decision.placement;
            assert_no_node_has_more_than_it_holds(&view, placement, by_slots, &context);
            for job in &view.jobs {
                for kind in [TaskKind::Map, TaskKind::Reduce] {
                    let slots = placement.of(job.job.id, kind);
                    assert!(slots <= view.usable(job, kind), "{context}");
                }
            }
        }
    }
}

/// Checks that the slots of the placement need no more of any resource than their node has. Where
/// nodes have typed slots and the policy counts these, checks the number of slots instead.
fn assert_no_node_has_more_than_it_holds(
    view: &ClusterView,
    placement: &Placement,
    by_slots: bool,
    context: &str,
) {
    for node in &view.nodes {
        let cells: Vec<_> = (placement.cells().iter())
            .filter(|cell| cell.node == node.id)
            .collect();
        if let (true, Some(slots)) = (by_slots, node.slots) {
            let of = |kind| -> u32 {
                let cells = cells.iter().filter(|cell| cell.kind == kind);
                cells.map(|cell| cell.slots).sum()
            };
            assert!(of(TaskKind::Map) <= slots.maps, "{node:?}: {context}");
            assert!(of(TaskKind::Reduce) <= slots.reduces, "{node:?}: {context}");
            continue;
        }
        let mut used = Resources::default();
        for cell in &cells {
            let job = view.jobs.iter().find(|job| job.job.id == cell.job).unwrap();
            for _ in 0..cell.slots {
                used = used.plus(&job.profile.demand(job.starting_phase(cell.kind)));
            }
        }
        assert!(
            node.capacity.fits(&used),
            "{node:?} over capacity: {context}"
        );
        let down = node.capacity == Resources::default();
        assert!(!down || cells.is_empty(), "{node:?} is down: {context}");
    }
}

/// Returns a view like that of [`example::view`], with a map slot on each of four nodes.
fn four_nodes(jobs: Vec<JobView>) -> ClusterView {
    let mut view = view(1, 400.0, jobs);
    view.nodes = (0..4)
        .map(|id| Node::new(NodeId(id), view.nodes[0].capacity))
        .collect();
    view
}

/// Returns `job` with the input of map i on node `nodes[i]`.
fn with_input_on(mut job: JobView, nodes: &[u32]) -> JobView {
    let replicas = nodes.iter().map(|&node| vec![NodeId(node)]).collect();
    job.local = Some(PendingSplits::all(Arc::new(Splits::new(replicas))));
    job
}

fn jobs_on_nodes(placement: &Placement) -> Vec<(u32, u64)> {
    let cells = placement.cells().iter();
    cells.map(|cell| (cell.node.0, cell.job.0)).collect()
}

/// J1 is the older one; both have two maps. The input of J1 is on node 3, that of J2 on nodes 0 and
/// 1.
///
/// Node 0: J1 has the first turn and declines; J2 is local. Node 1: J1 declines again; J2 is local.
/// Node 2: J1 declines; J2 has no maps left. Node 3: J1 is local, and its wait starts anew. Its
/// second map has to wait for node 3 until 15 s after it first declined.
#[test]
fn delay_scheduling_by_hand() {
    let jobs = vec![
        with_input_on(job(1, 0.0, None, 2), &[3, 3]),
        with_input_on(job(2, 1.0, None, 2), &[0, 1]),
    ];
    let mut view = four_nodes(jobs);
    let decision = Delay.decide(&view);
    assert_eq!(jobs_on_nodes(&decision.placement), [(0, 2), (1, 2), (3, 1)]);
    assert_eq!(decision.refill, Refill::LocalTask);
    assert_eq!(decision.waits, [], "J1 ended with a local slot");

    // Later: only J1 waits, with one map left, and another job has node 3.
    let mut last = with_input_on(job(1, 0.0, None, 1), &[3]);
    let mut other = job(9, 5.0, None, 0);
    other.running = vec![running_map(0, 3, 0.0)];
    view.jobs = vec![last.clone(), other.clone()];
    let decision = Delay.decide(&view);
    assert_eq!(jobs_on_nodes(&decision.placement), [(3, 9)]);
    let wait = Wait {
        skips: 3,
        since_s: Some(0.0),
    };
    assert_eq!(decision.waits, [(JobId(1), wait)]);

    last.wait = wait;
    view.jobs = vec![last, other];
    view.now_s = 14.9;
    assert_eq!(jobs_on_nodes(&Delay.decide(&view).placement), [(3, 9)]);
    view.now_s = 15.0;
    assert_eq!(
        jobs_on_nodes(&Delay.decide(&view).placement),
        [(0, 1), (3, 9)],
        "it has waited long enough for any slot"
    );
}

/// Each job has 2 maps of 10 s left and 90 s until its last map must start, so it needs 20 / 90 =
/// 0.22 of a slot. The input of J1 is on node 3, that of J2 on node 1.
///
/// In the first case no job has a slot, and the nodes are offered one after another:
///
/// | node | result |
/// | --- | --- |
/// | 0 | J1, the older job, takes it: a job that lacks slots takes any |
/// | 1 | J2 takes it |
/// | 2 | both jobs have the slots that they need and decline; then J1 takes it after all |
/// | 3 | J1 has no maps left; J2 declines, and takes it after all |
///
/// In the second case J1 already holds a slot and declines node 0; J2 lacks slots and takes it. J1
/// declines node 1 too, where J2's input is, and takes node 2, because no other job is left.
#[test]
fn data_affinity_by_hand() {
    let goal_s = Some(100.0);
    let mut jobs = vec![
        with_input_on(job(1, 0.0, goal_s, 2), &[3, 3]),
        with_input_on(job(2, 1.0, goal_s, 2), &[1, 1]),
    ];
    for job in &mut jobs {
        job.done_maps = 1;
    }
    let decision = AdaptiveData::default().decide(&four_nodes(jobs.clone()));
    assert_eq!(
        jobs_on_nodes(&decision.placement),
        [(0, 1), (1, 2), (2, 1), (3, 2)]
    );

    // The goal of J1 is now in the far future and one of its maps runs, so J1 may always decline;
    // J2 needs all of its slots.
    jobs[0].job.goal_s = Some(1e6);
    jobs[1].job.goal_s = Some(20.0);
    jobs[0].running = vec![running_map(7, 3, 0.0)];
    let decision = AdaptiveData::default().decide(&four_nodes(jobs));
    assert_eq!(
        jobs_on_nodes(&decision.placement),
        [(0, 2), (1, 2), (2, 1), (3, 1)]
    );
}

/// Two maps of 10 s, both with their input on node 3, where one starts. With a goal at 1,000 s the
/// other may wait for that node, for at most three cycles; with a goal at 19 s both have to start
/// now.
#[test]
fn forecast_edf_waits_for_local_nodes_while_the_goal_allows() {
    let decide = |goal_s: f64, skips: u32| {
        let mut job = with_input_on(job(1, 0.0, Some(goal_s), 2), &[3, 3]);
        job.wait.skips = skips;
        let decision = ForecastEdf.decide(&four_nodes(vec![job]));
        let waits: Vec<u32> = decision.waits.iter().map(|(_, wait)| wait.skips).collect();
        (jobs_on_nodes(&decision.placement), waits, decision.refill)
    };
    let near = Refill::LocalTask;
    assert_eq!(decide(1000.0, 0), (vec![(3, 1)], vec![1], near));
    assert_eq!(decide(1000.0, 2), (vec![(3, 1)], vec![3], near));
    assert_eq!(decide(1000.0, 3), (vec![(0, 1), (3, 1)], vec![0], near));
    assert_eq!(decide(19.0, 0), (vec![(0, 1), (3, 1)], vec![], near));
}
