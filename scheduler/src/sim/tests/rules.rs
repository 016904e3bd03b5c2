//! Properties of every run, for random clusters and jobs under all policies.

use super::*;
use crate::model::{NodeId, PhaseProfile, Pool, TaskKind, TypedSlots};
use crate::policy::{ClusterView, Decision, Measure, Placement, Policy};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

fn random_cluster(rng: &mut ChaCha8Rng) -> SimConfig {
    let typed = rng.random_bool(0.5);
    let nodes = rng.random_range(2..6);
    let mut config = SimConfig::one_slot_nodes(nodes, Availability::constant(0.0).unwrap());
    for node in &mut config.nodes {
        node.capacity = Resources {
            cpu_hundredths: rng.random_range(200..500),
            io_bytes_per_s: rng.random_range(100..300),
            memory_bytes: rng.random_range(100..300),
        };
        node.slots = typed.then(|| TypedSlots {
            maps: rng.random_range(1..5),
            reduces: rng.random_range(1..3),
        });
        node.pool = Pool::ALL[rng.random_range(0..2)];
    }
    let whole = config.cpu_hundredths();
    // At least the CPU of one node stays available, so that every job ends.
    let low = rng.random_range(0.6..1.0) * whole;
    config.availability = Arc::new(
        Availability::sine_day(SineDay {
            mean_hundredths: (low + whole) / 2.0,
            amplitude_hundredths: (whole - low) / 2.0,
            peak_at_s: 100.0,
            day_s: 400.0,
        })
        .unwrap(),
    );
    config.forecast = config.availability.clone();
    config.cycle_s = rng.random_range(1.0..20.0);
    config.seed = rng.random_range(0..1000);
    if rng.random_bool(0.5) {
        config.reduce_start = ReduceStart::Overlapped;
    }
    if rng.random_bool(0.5) {
        config.losses = vec![NodeLoss {
            node: NodeId(rng.random_range(0..nodes)),
            at_s: rng.random_range(10.0..60.0),
            back_s: Some(rng.random_range(70.0..120.0)),
        }];
    }
    config
}

fn random_jobs(rng: &mut ChaCha8Rng, nodes: u32) -> Vec<SimJob> {
    let jobs = rng.random_range(1..6);
    (1..=jobs)
        .map(|id| {
            let mut phase = || PhaseProfile {
                demand: Resources {
                    cpu_hundredths: rng.random_range(1..150),
                    io_bytes_per_s: rng.random_range(0..60),
                    memory_bytes: rng.random_range(0..60),
                },
                task_s: rng.random_range(2.0..20.0),
            };
            let (map, reduce) = (phase(), phase());
            // A reduce has the same demand in both phases, so that the records determine
            // what a node holds at any instant.
            let profile = Profile {
                map,
                shuffle: reduce,
                reduce,
            };
            let submitted_s = rng.random_range(0.0..80.0);
            let goal_s = rng
                .random_bool(0.7)
                .then(|| submitted_s + rng.random_range(0.0..400.0));
            let maps = rng.random_range(1..25);
            let length = TaskLength::LogNormal {
                mean_s: profile.map.task_s,
                log_sd: 0.4,
            };
            let mut job = SimJob::of_maps(
                Job::new(JobId(id), submitted_s, goal_s),
                maps,
                profile,
                length,
            );
            job.reduces = rng.random_range(0..3);
            job.remote_factor = rng.random_range(1.0..2.0);
            job.speedup = rng.random_bool(0.5).then(|| rng.random_range(0.8..5.0));
            job.splits = rng
                .random_bool(0.5)
                .then(|| place_splits(maps, rng.random_range(1..3), nodes, rng));
            job.stragglers = rng.random_bool(0.3).then_some(Stragglers {
                fraction: 0.1,
                factor: 4.0,
            });
            job
        })
        .collect()
}

#[test]
fn every_task_runs_once_within_the_resources_of_its_node() {
    let mut rng = test_rng(41);
    for round in 0..60 {
        let config = random_cluster(&mut rng);
        let jobs = random_jobs(&mut rng, config.nodes.len() as u32);
        for policy in all() {
            let context = format!("{} in round {round}", policy.name());
            let report = simulate(&config, jobs.clone(), policy.as_ref()).unwrap();
            let again = simulate(&config, jobs.clone(), policy.as_ref()).unwrap();
            assert_eq!(report, again, "not deterministic: {context}");
            assert_each_task_ended_once(&jobs, &report, &context);
            assert_running_tasks_fit(&config, &jobs, &report, policy.as_ref(), &context);
            for task in &report.tasks {
                let job = &jobs[task.task.job.0 as usize - 1];
                let near = (job.splits.as_ref())
                    .filter(|_| task.task.kind == TaskKind::Map)
                    .is_none_or(|s| s.nodes_of(task.task.index).contains(&task.node));
                assert_eq!(task.local, near, "{task:?}: {context}");
                assert!(task.started_s >= job.job.submitted_s);
            }
        }
    }
}

fn assert_each_task_ended_once(jobs: &[SimJob], report: &SimReport, context: &str) {
    let mut ended: Vec<_> = report.tasks.iter().map(|task| task.task).collect();
    ended.sort_unstable();
    let expected = jobs.iter().flat_map(|job| {
        let of = |kind, count| {
            (0..count).map(move |index| crate::model::TaskId {
                job: job.job.id,
                kind,
                index,
            })
        };
        of(TaskKind::Map, job.maps).chain(of(TaskKind::Reduce, job.reduces))
    });
    assert!(
        ended.into_iter().eq(expected),
        "a task ran twice or never: {context}"
    );
    for (job, record) in jobs.iter().zip(&report.jobs) {
        let last_map = |kind| {
            let of_kind = report
                .tasks
                .iter()
                .filter(move |task| (task.task.job, task.task.kind) == (job.job.id, kind));
            of_kind.map(|task| task.finished_s).fold(0.0, f64::max)
        };
        assert_eq!(
            record.maps_done_s,
            Some(last_map(TaskKind::Map)),
            "{context}"
        );
        let end_s = last_map(TaskKind::Map).max(last_map(TaskKind::Reduce));
        assert_eq!(record.finished_s, Some(end_s), "{context}");
    }
}

/// Checks at every start that the running tasks of the node fit into its resources, or
/// into its slots if the policy counts slots.
fn assert_running_tasks_fit(
    config: &SimConfig,
    jobs: &[SimJob],
    report: &SimReport,
    policy: &dyn Policy,
    context: &str,
) {
    for start in &report.tasks {
        let node = &config.nodes[start.node.0 as usize];
        let mut used = Resources::default();
        let mut slots = TypedSlots::default();
        let beside = report.tasks.iter().filter(|task| {
            task.node == start.node
                && task.started_s <= start.started_s
                && task.finished_s > start.started_s
        });
        for task in beside {
            let profile = &jobs[task.task.job.0 as usize - 1].profile;
            match task.task.kind {
                TaskKind::Map => {
                    used = used.plus(&profile.map.demand);
                    slots.maps += 1;
                }
                TaskKind::Reduce => {
                    used = used.plus(&profile.reduce.demand);
                    slots.reduces += 1;
                }
            }
        }
        match node.slots {
            Some(most) if policy.measure() == Measure::Slots => {
                let holds = slots.maps <= most.maps && slots.reduces <= most.reduces;
                assert!(holds, "{slots:?} of {most:?}: {context}");
            }
            _ => assert!(node.capacity.fits(&used), "{used:?} of {node:?}: {context}"),
        }
    }
}

/// A node has two map slots and one core. Two maps that each need a core for 10 s run at
/// half speed; a third one, which starts when they end, has the core to itself.
#[test]
fn tasks_that_exceed_the_resources_of_a_node_slow_each_other_down() {
    let mut config = SimConfig::one_slot_nodes(1, Availability::constant(100.0).unwrap());
    config.nodes[0].slots = Some(TypedSlots {
        maps: 2,
        reduces: 0,
    });
    config.cycle_s = 1.0;
    let report = simulate(&config, vec![job(1, 0.0, None, 3, 10.0)], &Fifo).unwrap();
    let ends: Vec<f64> = report.tasks.iter().map(|task| task.finished_s).collect();
    assert_eq!(ends, [20.0, 20.0, 30.0]);
    // By resources there is room for one map at a time.
    let report = simulate(&config, vec![job(1, 0.0, None, 3, 10.0)], &Ras).unwrap();
    let ends: Vec<f64> = report.tasks.iter().map(|task| task.finished_s).collect();
    assert_eq!(ends, [10.0, 20.0, 30.0]);
}

/// Two nodes run four maps of 10 s, and node 1 is down from 5 s to 12 s. Its map is lost
/// and runs again. Node 0 ends maps at 10 and 20 s, node 1 at 22 s; the last map runs on
/// node 0 until 30 s.
#[test]
fn tasks_of_a_lost_node_run_again() {
    let mut config = SimConfig::one_slot_nodes(2, Availability::constant(200.0).unwrap());
    config.cycle_s = 1.0;
    config.losses = vec![NodeLoss {
        node: NodeId(1),
        at_s: 5.0,
        back_s: Some(12.0),
    }];
    let report = simulate(&config, vec![job(1, 0.0, None, 4, 10.0)], &Fifo).unwrap();
    let ends: Vec<f64> = report.tasks.iter().map(|task| task.finished_s).collect();
    assert_eq!(ends, [10.0, 20.0, 22.0, 30.0]);
    assert_eq!(report.jobs[0].lost_attempts, 1);
    assert_eq!(
        report.jobs[0].slot_s, 45.0,
        "the lost 5 s are held time too"
    );
}

/// A node is lost from 5 s on. The map of 10 s runs again when the last of its losses has ended.
#[test]
fn a_node_is_back_when_all_losses_of_it_have_ended() {
    let lost = |at_s: f64, back_s: Option<f64>| NodeLoss {
        node: NodeId(0),
        at_s,
        back_s,
    };
    let mut config = SimConfig::one_slot_nodes(1, Availability::constant(100.0).unwrap());
    config.cycle_s = 1.0;
    config.horizon_s = 1000.0;
    let mut finished_s = |losses: Vec<NodeLoss>| {
        config.losses = losses;
        let report = simulate(&config, vec![job(1, 0.0, None, 1, 10.0)], &Fifo).unwrap();
        report.jobs[0].finished_s
    };
    // Regression: the first end of any loss brought the node back.
    let overlapping = vec![lost(5.0, Some(20.0)), lost(8.0, Some(30.0))];
    assert_eq!(finished_s(overlapping), Some(40.0));
    let one_within_the_other = vec![lost(5.0, Some(30.0)), lost(8.0, Some(20.0))];
    assert_eq!(finished_s(one_within_the_other), Some(40.0));
    let touching = vec![lost(20.0, Some(30.0)), lost(5.0, Some(20.0))];
    assert_eq!(finished_s(touching), Some(40.0));
    let for_ever = vec![lost(5.0, Some(20.0)), lost(8.0, None)];
    assert_eq!(finished_s(for_ever), None);
}

/// Maps take 20 s and are ten times faster on the accelerator of node 1. The map there
/// reads its input from node 0 and takes twice as long.
#[test]
fn hardware_and_distance_change_the_length_of_a_map() {
    let mut config = SimConfig::one_slot_nodes(2, Availability::constant(200.0).unwrap());
    config.nodes[1].pool = Pool::Accelerated;
    let mut one = job(1, 0.0, None, 2, 20.0);
    one.speedup = Some(10.0);
    one.remote_factor = 2.0;
    let on_node_0 = vec![vec![NodeId(0)]; 2];
    one.splits = Some(Arc::new(crate::model::Splits::new(on_node_0)));
    let report = simulate(&config, vec![one], &Fifo).unwrap();
    let ends: Vec<(u32, f64)> = (report.tasks.iter())
        .map(|task| (task.node.0, task.finished_s))
        .collect();
    assert_eq!(ends, [(1, 4.0), (0, 20.0)]);
    let record = report.jobs[0];
    assert_eq!(
        (
            record.local_maps,
            record.remote_maps,
            record.accelerated_maps
        ),
        (1, 1, 1)
    );
}

/// At 10 s the policy gives J3's slots to J1 and J2, one each. A task of J3 runs until 25 s,
/// so there is room for only one task before. J1 has no goal. J2 has a goal and no slot, so it
/// is the least satisfied job and starts first (the thesis's section 4.2.5); J1 starts when J3
/// ends.
#[test]
fn the_least_satisfied_job_starts_first_while_tasks_drain() {
    struct MovingPlacement;
    impl Policy for MovingPlacement {
        fn name(&self) -> &'static str {
            "moves"
        }
        fn decide(&self, view: &ClusterView) -> Decision {
            let jobs: &[u64] = if view.now_s < 10.0 { &[3] } else { &[1, 2] };
            let slots = jobs.iter().map(|&id| (NodeId(0), JobId(id), TaskKind::Map));
            Placement::of_slots(slots.collect()).into()
        }
    }
    let mut config = SimConfig::one_slot_nodes(1, Availability::constant(200.0).unwrap());
    config.nodes[0].capacity.cpu_hundredths = 200;
    config.cycle_s = 10.0;
    let jobs = vec![
        job(1, 5.0, None, 1, 25.0),
        job(2, 5.0, Some(60.0), 1, 25.0),
        job(3, 0.0, None, 1, 25.0),
    ];
    let report = simulate(&config, jobs, &MovingPlacement).unwrap();
    let started = report.jobs.iter().map(|job| job.started_s.unwrap());
    assert_eq!(started.collect::<Vec<_>>(), [25.0, 10.0, 0.0]);
}
