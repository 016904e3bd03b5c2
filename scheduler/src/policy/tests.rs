//! Worked examples by hand, one per policy, and claims that hold for all of
//! them on random views.

use super::reverse_adaptive::needs;
use super::*;
use crate::availability::Availability;
use crate::model::{Job, JobId, Node, NodeId, Phase, PhaseProfile, Profile, Resources, TaskKind};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

fn job(id: u64, submitted_s: f64, goal_s: Option<f64>, pending_maps: u32) -> JobView {
    JobView {
        job: Job {
            id: JobId(id),
            submitted_s,
            goal_s,
        },
        pending_maps,
        pending_reduces: 0,
        running: Vec::new(),
        profile: Profile::cpu(100, 10.0, 10.0),
    }
}

/// One node, tasks of one core and 10 s, a cycle of 10 s from time 0.
fn view(slots: u32, forecast_hundredths: f64, jobs: Vec<JobView>) -> ClusterView {
    ClusterView {
        now_s: 0.0,
        cycle_s: 10.0,
        nodes: vec![Node {
            id: NodeId(0),
            capacity: Resources::cpu_bound(slots * 100),
        }],
        availability: Arc::new(Availability::constant(forecast_hundredths).unwrap()),
        jobs,
        preemption: Preemption::Never,
        reduce_start: ReduceStart::AfterMaps,
    }
}

/// The jobs of `fit::tests::a_walk_by_hand`, submitted in reverse.
fn three_goals() -> Vec<JobView> {
    vec![
        job(1, 2.0, Some(40.0), 7),
        job(2, 1.0, Some(60.0), 12),
        job(3, 0.0, Some(100.0), 20),
    ]
}

fn slots(placement: &Placement, jobs: u64) -> Vec<u32> {
    (1..=jobs).map(|id| placement.slots(JobId(id))).collect()
}

#[test]
fn fifo_gives_everything_to_the_oldest_job_first() {
    assert_eq!(
        slots(&Fifo.decide(&view(4, 400.0, three_goals())), 3),
        [0, 0, 4]
    );
    assert_eq!(
        slots(&Fifo.decide(&view(34, 400.0, three_goals())), 3),
        [2, 12, 20]
    );
}

/// s_req = 70/30, 120/50 and 200/90, all between 2 and 3. Everyone is at minus
/// infinity, gets one slot and stands at -1; the fourth goes to the earliest
/// goal.
#[test]
fn resource_aware_balances_without_looking_ahead() {
    let view = view(4, 400.0, three_goals());
    assert_eq!(slots(&ResourceAware.decide(&view), 3), [2, 1, 1]);
}

/// s_fit = 3, 0, 0 as in the walk by hand. J1 climbs from minus infinity to 0
/// with three slots; then all stand at 0 and the earliest goal takes the fourth
/// (u = 1/4). With more room J2 and J3 follow: u = 1/4.8 and 1/4.44, so a seventh
/// goes to J2.
#[test]
fn reverse_adaptive_gives_what_cannot_wait_to_the_first_goal() {
    let decide = |slots_n| {
        slots(
            &ReverseAdaptive.decide(&view(slots_n, 400.0, three_goals())),
            3,
        )
    };
    assert_eq!(decide(3), [3, 0, 0]);
    assert_eq!(decide(4), [4, 0, 0]);
    assert_eq!(decide(6), [4, 1, 1]);
    assert_eq!(decide(7), [4, 2, 1]);
}

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

/// J1 needs s_req = 200/90 slots, so three; the rest goes to the jobs without a
/// goal, oldest first, before J1 gets a fourth.
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
    let placement = ReverseAdaptive.decide(&before);
    assert_eq!(
        (placement.maps(JobId(1)), placement.reduces(JobId(1))),
        (4, 0)
    );

    one.pending_maps = 0;
    let after = view(8, 800.0, vec![one]);
    let placement = ReverseAdaptive.decide(&after);
    assert_eq!(
        (placement.maps(JobId(1)), placement.reduces(JobId(1))),
        (0, 2)
    );
}

#[test]
fn overlapped_reduces_are_spread_evenly_before_any_map() {
    let mut one = job(1, 0.0, Some(100.0), 9);
    one.pending_reduces = 3;
    let mut view = view(2, 400.0, vec![one]);
    view.nodes.push(Node {
        id: NodeId(1),
        ..view.nodes[0]
    });
    view.reduce_start = ReduceStart::Overlapped;
    let placement = ReverseAdaptive.decide(&view);
    assert_eq!(placement.on(JobId(1), NodeId(0), TaskKind::Reduce), 2);
    assert_eq!(placement.on(JobId(1), NodeId(1), TaskKind::Reduce), 1);
    assert_eq!(
        placement.maps(JobId(1)),
        4,
        "a shuffling reduce holds no CPU"
    );
}

#[test]
fn with_preemption_running_tasks_give_way_to_an_urgent_job() {
    let mut running = job(1, 0.0, Some(1e5), 0);
    running.running = vec![
        RunningTask {
            node: NodeId(0),
            phase: Phase::Map,
            remaining_s: 10.0,
        };
        4
    ];
    let mut view = view(4, 400.0, vec![running, job(2, 1.0, Some(5.0), 4)]);
    assert_eq!(slots(&ReverseAdaptive.decide(&view), 2), [4, 0]);
    view.preemption = Preemption::EveryCycle;
    assert_eq!(slots(&ReverseAdaptive.decide(&view), 2), [0, 4]);
}

fn random_view(rng: &mut ChaCha8Rng) -> ClusterView {
    let nodes: Vec<Node> = (0..rng.random_range(1..6))
        .map(|id| Node {
            id: NodeId(id),
            capacity: Resources {
                cpu_hundredths: rng.random_range(0..1200),
                io_bytes_per_s: rng.random_range(0..400),
                memory_bytes: rng.random_range(0..4000),
            },
        })
        .collect();
    let now_s = rng.random_range(0.0..100.0);
    let jobs = (1..rng.random_range(2..9))
        .map(|id| {
            let mut phase = || PhaseProfile {
                demand: Resources {
                    cpu_hundredths: rng.random_range(0..200),
                    io_bytes_per_s: rng.random_range(0..60),
                    memory_bytes: rng.random_range(1..400),
                },
                task_s: rng.random_range(0.1..60.0),
            };
            let profile = Profile {
                map: phase(),
                shuffle: phase(),
                reduce: phase(),
            };
            let pending_maps = rng.random_range(0..30);
            let mut running_phases = vec![Phase::Map];
            running_phases.push(if pending_maps == 0 {
                Phase::Reduce
            } else {
                Phase::Shuffle
            });
            JobView {
                job: Job {
                    id: JobId(id),
                    submitted_s: rng.random_range(0.0..50.0),
                    goal_s: rng.random_bool(0.7).then(|| rng.random_range(0.0..2000.0)),
                },
                pending_maps,
                pending_reduces: rng.random_range(0..6),
                running: (0..rng.random_range(0..5))
                    .map(|_| RunningTask {
                        node: NodeId(rng.random_range(0..nodes.len() as u32)),
                        phase: running_phases[rng.random_range(0..2)],
                        remaining_s: rng.random_range(0.0..50.0),
                    })
                    .collect(),
                profile,
            }
        })
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
    let seed = 31;
    println!("seed {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for round in 0..400 {
        let view = random_view(&mut rng);
        let mut shuffled = view.clone();
        shuffled.jobs.reverse();
        for policy in all() {
            let placement = policy.decide(&view);
            let context = format!("{} in round {round}: {view:?}", policy.name());
            assert_eq!(
                placement,
                policy.decide(&view),
                "not deterministic: {context}"
            );
            assert_eq!(
                placement,
                policy.decide(&shuffled),
                "depends on the order of jobs: {context}"
            );
            assert_capacity_is_never_exceeded(&view, &placement, &context);
            for job in &view.jobs {
                for kind in [TaskKind::Map, TaskKind::Reduce] {
                    let slots = placement.maps(job.job.id) * u32::from(kind == TaskKind::Map)
                        + placement.reduces(job.job.id) * u32::from(kind == TaskKind::Reduce);
                    assert!(slots <= job.left(kind), "more slots than tasks: {context}");
                }
            }
        }
    }
}

/// Per node: what runs stays (no preemption), and what is added fits in what
/// that leaves, in every resource.
fn assert_capacity_is_never_exceeded(view: &ClusterView, placement: &Placement, context: &str) {
    for node in &view.nodes {
        let mut free = node.capacity;
        let mut added = Resources::default();
        for job in &view.jobs {
            for kind in [TaskKind::Map, TaskKind::Reduce] {
                let placed = placement.on(job.job.id, node.id, kind);
                let held: Vec<_> = match view.preemption {
                    Preemption::Never => {
                        job.running_of(kind).filter(|t| t.node == node.id).collect()
                    }
                    Preemption::EveryCycle => Vec::new(),
                };
                assert!(
                    placed >= held.len() as u32,
                    "a running task lost its slot: {context}"
                );
                for task in &held {
                    free = free.less(&job.profile.demand(task.phase));
                }
                for _ in held.len() as u32..placed {
                    added = added.plus(&job.profile.demand(job.starting_phase(kind)));
                }
            }
        }
        assert!(
            free.fits(&added),
            "node {:?} over capacity: {context}",
            node.id
        );
    }
}
