use super::*;

/// Returns a job of ten map tasks of 2 s each and a reduce task of 4 s, with 1000 bytes of input.
fn job() -> PlannedJobs {
    let all = |tasks: u64, cpu_s: f64, bytes_in: u64| TaskMeasures {
        tasks,
        cpu_s,
        cpu_s_max: cpu_s / tasks as f64,
        bytes_in,
        ..TaskMeasures::default()
    };
    PlannedJobs {
        jobs: 1,
        maps: 10,
        reduces: 1,
        bytes_in: 1000,
        measured: MeasuredProfile {
            map: all(10, 20.0, 1000),
            reduce: all(1, 4.0, 500),
            split_bytes: 1000,
        },
    }
}

/// Returns a question about [`job`].
fn question() -> Question {
    Question {
        stages: vec![job()],
        is_same_work: true,
        took_over_estimate: Vec::new(),
        free_cores: 2.0,
        goal_s: Some(14.0),
    }
}

fn is_near(found: f64, expected: f64) {
    assert!(
        (found / expected - 1.0).abs() < 0.05,
        "{found} for {expected}"
    );
}

/// Each of two cores runs five maps of 2 s, one after the other. Then one core runs a reduce of
/// 4 s. So the job takes 14 s. Without earlier runs, ln(time / estimate) has the standard
/// deviation `SAME_WORK_LOG_SD`, 0.2. A normal variable is below its mean plus 1.645 standard
/// deviations with a probability of 95%.
#[test]
fn the_median_is_what_the_last_run_took_and_the_safe_goal_lies_behind() {
    let advice = advise(&question());
    assert_eq!(
        (advice.map_task_cpu_s, advice.reduce_task_cpu_s),
        (2.0, 4.0)
    );
    is_near(advice.median_s, 14.0);
    is_near(advice.safe_goal_s, 14.0 * (1.645_f64 * 0.2).exp());
    assert!((advice.met_probability.unwrap() - 0.5).abs() < 0.05);
    assert_eq!(advise(&question()), advice, "the same every time");
}

#[test]
fn a_later_goal_is_more_probable_and_one_that_is_safe_is_met() {
    let probability = |goal_s| {
        let asked = Question {
            goal_s: Some(goal_s),
            ..question()
        };
        advise(&asked).met_probability.unwrap()
    };
    assert!(probability(5.0) < 0.01);
    assert!(probability(12.0) < probability(16.0));
    let safe_s = advise(&question()).safe_goal_s;
    assert!(probability(safe_s) >= CONFIDENCE);
    assert!(probability(60.0) > 0.99);
}

/// With one free core, ten maps of 2 s take 20 s instead of 10. The only reduce takes 4 s in both
/// cases, because it runs on one core.
#[test]
fn what_others_use_and_more_bytes_make_it_longer() {
    let half = Question {
        free_cores: 1.0,
        ..question()
    };
    is_near(advise(&half).median_s, 24.0);
    let twice = PlannedJobs {
        bytes_in: 2000,
        maps: 20,
        ..job()
    };
    let twice = Question {
        stages: vec![twice],
        ..question()
    };
    is_near(advise(&twice).median_s, 28.0);
}

/// Regression: a floor below 0.05 cores was taken for 0.05 cores, so the estimate was too short.
#[test]
fn a_job_on_the_floor_gets_the_floor_and_without_one_its_time_is_finite() {
    let beside_busy_processes = |floor_cores| {
        let free = FreeCores::beside(7.0).with_floor(floor_cores);
        advise(&Question {
            free_cores: free.of(2, 2),
            ..question()
        })
    };
    let on_floor = beside_busy_processes(0.01);
    assert_eq!(on_floor.free_cores, 0.01);
    is_near(on_floor.median_s, (20.0 + 4.0) / 0.01);
    assert!(beside_busy_processes(0.0).median_s.is_finite());
}

/// Regression: each task was slowed by the used part of the machine, so a job with fewer tasks than
/// cores was predicted to end later if it could use more cores, none of which were free.
#[test]
fn a_job_that_may_use_more_cores_is_never_predicted_to_take_longer() {
    let mut measured = job().measured;
    measured.map.cpu_s_max *= 3.0;
    for left_cores in [0.05, 0.5, 1.0, 1.05, 1.5, 1.95, 2.5, 3.9] {
        for (maps, reduces) in [(1, 0), (1, 1), (2, 1), (3, 2), (4, 3), (5, 0), (7, 5)] {
            let on = |cores: u32| {
                let job = PlannedJobs {
                    maps,
                    reduces,
                    measured,
                    ..job()
                };
                advise(&Question {
                    stages: vec![job],
                    free_cores: f64::min(left_cores, cores.into()),
                    ..question()
                })
            };
            for cores in 1..5 {
                let (fewer, more) = (on(cores), on(cores + 1));
                // The sums of seconds are rounded.
                let limit = 1.0 + 1e-9;
                let context = format!("{left_cores} {maps} {reduces} {cores}");
                assert!(more.median_s <= fewer.median_s * limit, "{context}");
                assert!(more.safe_goal_s <= fewer.safe_goal_s * limit, "{context}");
                assert!(more.met_probability >= fewer.met_probability, "{context}");
            }
        }
    }
}

#[test]
fn tasks_get_whole_cores_in_their_order_and_the_next_one_the_fraction() {
    let cases: [(&[f64], f64, f64); 6] = [
        (&[], 2.0, 0.0),
        (&[1.0], 4.0, 1.0),
        (&[1.0], 0.25, 4.0),
        (&[1.0, 1.0, 1.0], 2.0, 2.0),
        (&[3.0, 1.0, 1.0, 1.0], 2.0, 3.0),
        // The second task ends after 2 s on half a core, and the first after 3 s. The third then
        // has half a second left, on a whole core.
        (&[3.0, 1.0, 1.0], 1.5, 3.5),
    ];
    for (cpu_s, cores, expected_s) in cases {
        let found_s = makespan_s(cpu_s.iter().copied(), cores);
        assert_eq!(found_s, expected_s, "{cpu_s:?} {cores}");
    }
}

#[test]
fn how_far_off_earlier_advice_was_is_learned() {
    let with = |took_over_estimate: Vec<f64>, is_same_work| {
        let asked = Question {
            took_over_estimate,
            is_same_work,
            ..question()
        };
        advise(&asked)
    };
    let unsure = with(Vec::new(), false);
    assert!(unsure.safe_goal_s > with(Vec::new(), true).safe_goal_s);
    let off = with(vec![1.5; 20], true);
    is_near(off.median_s, 14.0 * (20.0 / 21.0 * 1.5_f64.ln()).exp());
    assert!(off.log_sd < SAME_WORK_LOG_SD);
    let wild = with(vec![0.5, 2.0, 0.5, 2.0], true);
    is_near(wild.median_s, 14.0);
    assert!(wild.log_sd > 0.6);
}

/// Each run takes half as long again as its tasks, for starting a process and opening a
/// database.
#[test]
fn what_every_run_takes_beside_its_tasks_is_learned_whole() {
    let mut asked = question();
    for _ in 0..20 {
        let advice = advise(&asked);
        let off = advice.took_over_estimate(1.5 * 14.0);
        asked.took_over_estimate.push(off);
    }
    let told_s = advise(&asked).median_s;
    assert!((20.0..22.0).contains(&told_s), "{told_s} s instead of 21");
}

/// A chain of [`job`], which takes 14 s, three jobs of one reduce task of 4 s each, and a job of ten maps, which takes
/// 10 s. Only one core has work in the three jobs, so more cores do not shorten them.
#[test]
fn the_jobs_of_a_chain_take_their_times_one_after_the_other() {
    let reduces_only = PlannedJobs {
        jobs: 3,
        maps: 0,
        ..job()
    };
    let maps_only = PlannedJobs {
        reduces: 0,
        ..job()
    };
    let chain = Question {
        stages: vec![job(), reduces_only, maps_only],
        ..question()
    };
    let advice = advise(&chain);
    is_near(advice.median_s, 14.0 + 3.0 * 4.0 + 10.0);
    let task_cpu_s = (advice.map_task_cpu_s, advice.reduce_task_cpu_s);
    assert_eq!(task_cpu_s, (2.0, 4.0));
    let more_cores = Question {
        free_cores: 10.0,
        ..chain
    };
    is_near(advise(&more_cores).median_s, (2.0 + 4.0) + 3.0 * 4.0 + 2.0);
}

#[test]
fn the_cpu_time_of_a_task_is_the_mean_of_all_tasks_of_a_chain() {
    assert_eq!(mean([(1, 4.0), (3, 8.0)].into_iter()), 7.0);
    assert_eq!(mean([(0, 1.0), (0, 3.0)].into_iter()), 1.0);
}
