//! CPU time of a simulated week and of one large decision, for each policy.
//!
//! ```sh
//! cargo bench -p ebb-scheduler --bench limits [-- FILTER]
//! ```
//!
//! The benchmark measures the CPU time of its process, so other processes on the machine
//! do not count; each number is the smallest of several rounds.

use ebb_scheduler::availability::{Availability, DAY_S, SineDay};
use ebb_scheduler::model::{
    Job, JobId, Node, NodeId, PendingSplits, Phase, Profile, Resources, Splits,
};
use ebb_scheduler::policy::{
    ClusterView, JobView, Policy, Preemption, ReduceStart, RunningTask, all,
};
use ebb_scheduler::sim::{Metrics, Recording, SimConfig, Variety, Workload, simulate};
use ebb_threads::process_cpu;
use std::cell::LazyCell;
use std::sync::Arc;

/// The number of rounds in which a decision is measured; the fastest round counts. The
/// simulation of a week is measured in three rounds. A decision is so short that its
/// time varies more, because other processes empty the caches between rounds.
const DECISIONS: u32 = 15;

fn cpu_ms() -> f64 {
    process_cpu().as_secs_f64() * 1e3
}

fn least_ms(rounds: u32, mut run: impl FnMut()) -> f64 {
    let once = |_| {
        let before_ms = cpu_ms();
        run();
        cpu_ms() - before_ms
    };
    (0..rounds).map(once).fold(f64::INFINITY, f64::min)
}

fn thesis_day() -> Availability {
    let day = SineDay {
        mean_hundredths: 5750.0,
        amplitude_hundredths: 3750.0,
        peak_at_s: 0.75 * DAY_S,
        day_s: DAY_S,
    };
    Availability::sine_day(day).expect("the thesis's day")
}

/// Simulates a week as in the thesis's table 5.6: 100 nodes, and `load` times 2,500 jobs on
/// average. Prints the time that the simulation takes, and its results.
fn week(name: &str, availability: Availability, load: f64, policy: &dyn Policy) {
    let workload = Workload {
        span_s: 7.0 * DAY_S,
        rate_per_s: load * 2500.0 / (7.0 * DAY_S),
        maps_mean: 62.0,
        maps_log_sd: 1.55,
        reduces_per_map: 0.0,
        profile: Profile::cpu(100, 387.0, 387.0),
        task_log_sd: 0.0,
        goal_factor: Some((1.5, 8.0)),
        isolated_slots: 100.0,
        replicas: 0,
        remote_factor: 1.0,
        stragglers: None,
        map_input_bytes: 0,
        variety: Variety::default(),
    };
    let jobs = workload.draw(1, 1, 100).expect("the week of the thesis");
    let mut config = SimConfig::one_slot_nodes(100, availability);
    config.recording = Recording::default();
    let mut metrics = Metrics::default();
    let ms = least_ms(3, || {
        metrics = Metrics::of(&simulate(&config, jobs.clone(), policy).expect("it can be run"));
    });
    println!(
        "week {name:<22} {:<18} {ms:>9.1} ms  {} jobs, {:.1}% missed, utilisation {:.2}, ended on day {:.1}",
        policy.name(),
        metrics.jobs,
        100.0 * metrics.missed_fraction.unwrap_or_default(),
        metrics.utilisation.unwrap_or_default(),
        metrics.makespan_s.unwrap_or_default() / DAY_S,
    );
}

/// Returns a view of 10,000 jobs and of 10,000 nodes with one slot each. `busy` nodes run a
/// task. Each split has `replicas` replicas.
fn large_view(busy: u32, replicas: u32) -> ClusterView {
    let (jobs_n, nodes_n, maps) = (10_000_u32, 10_000_u32, 62_u32);
    let mut jobs: Vec<JobView> = (0..jobs_n)
        .map(|id| {
            let submitted_s = f64::from(id) * 0.1;
            let goal_s = submitted_s + 2_000.0 + f64::from(id * 7919 % 40_000);
            let job = Job::new(JobId(id.into()), submitted_s, Some(goal_s));
            let mut view = JobView::new(job, maps, 0, Profile::cpu(100, 387.0, 387.0));
            view.done_maps = 1;
            if replicas > 0 {
                let node = |map: u32, replica: u32| {
                    NodeId((id * 7919 + map * 104_729 + replica * 3331) % nodes_n)
                };
                let places = (0..maps).map(|map| (0..replicas).map(|r| node(map, r)).collect());
                view.local = Some(PendingSplits::all(Arc::new(Splits::new(places.collect()))));
            }
            view
        })
        .collect();
    for node in 0..busy {
        let job = &mut jobs[(node * 31 % jobs_n) as usize];
        job.running.push(RunningTask {
            index: maps + node,
            node: NodeId(node),
            phase: Phase::Map,
            since_s: 900.0,
        });
    }
    ClusterView {
        now_s: 1000.0,
        cycle_s: 30.0,
        nodes: (0..nodes_n)
            .map(|id| Node::new(NodeId(id), Resources::cpu_bound(100)))
            .collect(),
        availability: Arc::new(thesis_day()),
        jobs,
        preemption: Preemption::Never,
        reduce_start: ReduceStart::AfterMaps,
    }
}

/// Like [`large_view`], but the jobs' demands differ in all three resources, and the
/// nodes have four cores and run four maps each.
fn mixed_view() -> ClusterView {
    let mut view = large_view(0, 0);
    for node in &mut view.nodes {
        node.capacity = Resources {
            cpu_hundredths: 400,
            io_bytes_per_s: 400,
            memory_bytes: 400,
        };
    }
    let jobs_n = view.jobs.len() as u32;
    for (id, job) in (0..).zip(&mut view.jobs) {
        let part = |prime: u32| 30 + id * prime % 131;
        let demand = Resources {
            cpu_hundredths: part(7919),
            io_bytes_per_s: part(104_729).into(),
            memory_bytes: part(3331).into(),
        };
        job.profile.map.demand = demand;
    }
    for slot in 0..4 * view.nodes.len() as u32 {
        let node = slot / 4;
        let job = &mut view.jobs[(slot * 31 % jobs_n) as usize];
        job.running.push(RunningTask {
            index: 1000 + slot,
            node: NodeId(node),
            phase: Phase::Map,
            since_s: 900.0,
        });
    }
    view
}

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    let selected = |what: &str| {
        filter
            .as_ref()
            .is_none_or(|filter| what.contains(filter.as_str()))
    };
    type View = fn() -> ClusterView;
    let views: [(&str, View); 6] = [
        ("empty cluster", || large_view(0, 0)),
        ("half busy", || large_view(5_000, 0)),
        ("busy", || large_view(10_000, 0)),
        ("empty, 3 replicas", || large_view(0, 3)),
        ("half busy, 3 replicas", || large_view(5_000, 3)),
        ("mixed demands, busy", mixed_view),
    ];
    for (name, view) in views {
        let view = LazyCell::new(view);
        for policy in all() {
            if !selected(&format!("decision {name} {}", policy.name())) {
                continue;
            }
            let mut slots = 0;
            let ms = least_ms(DECISIONS, || slots = policy.decide(&view).placement.total());
            println!(
                "decision {name:<22} {:<18} {ms:>9.1} ms  {slots} slots",
                policy.name()
            );
        }
    }
    for policy in all() {
        let constant = || Availability::constant(10_000.0).expect("100 nodes");
        for (name, availability, load) in [
            ("constant, load 0.9", constant(), 0.9),
            ("constant, load 1.0", constant(), 1.0),
            ("f(t), load 0.5", thesis_day(), 0.5),
            ("f(t), load 0.8", thesis_day(), 0.8),
        ] {
            if selected(&format!("week {name} {}", policy.name())) {
                week(name, availability, load, policy.as_ref());
            }
        }
    }
}
