//! Figure 5.16: Algorithm 2 step by step, on the motivating example.

use ebb_scheduler::policy::{FitJob, ReverseFit, reverse_fit as fit};
use ebb_scheduler::sim::scenario::Scenario;

use super::{Analysis, words};
use crate::sim::picture::{Curves, Line};

/// The length of maps in the thesis's motivating example, in seconds: the longest of those that the
/// scenario `motivation` tries. With shorter maps, no part of the work of job J2 has to run before
/// the first goal; in the thesis a part has to.
const MAP_S: f64 = 360.0;
/// The length of the scheduler's control cycle, as in the scenario, in seconds.
const CYCLE_S: f64 = 30.0;

/// Returns Figure 5.16: the placement of each job, step by step.
#[must_use]
pub fn reverse_fit() -> Analysis {
    let text = include_str!("../../../scenarios/motivation.toml");
    let scenario = Scenario::parse("motivation", text).expect("a scenario that comes with ebb");
    // The point with the longest maps, which take `MAP_S`.
    let point = scenario.points.last().expect("at least one");
    let (config, jobs) = point.draw(scenario.seed).expect("three jobs");
    let all: Vec<FitJob> = (jobs.iter())
        .map(|job| FitJob {
            goal_s: job.job.goal_s.expect("all three have goals"),
            pending_tasks: f64::from(job.maps),
            // In hundredths of a core times seconds: a map holds one core.
            task_work: MAP_S * 100.0,
        })
        .collect();
    // In each interval the walk places the jobs with later goals first, so a job never displaces those
    // behind it in `all`. So the difference between a walk with a job and the next walk, without it, is
    // the placement of this job.
    let walk = |first: usize| -> ReverseFit {
        let some: Vec<FitJob> = (all.iter().enumerate())
            .map(|(at, job)| FitJob {
                pending_tasks: if at < first { 0.0 } else { job.pending_tasks },
                ..*job
            })
            .collect();
        // At time 0, when nothing runs yet.
        fit(0.0, CYCLE_S, &config.forecast, 0.0, &some)
    };
    let walks: Vec<ReverseFit> = (0..=all.len()).map(walk).collect();
    // A node is one core, so work in core-hours is in node-hours, too.
    let hours = |work: f64| work / 100.0 / 3600.0;
    let placed = |job: usize, interval: usize| {
        let at = |walk: &ReverseFit| walk.intervals[interval].placed_work;
        hours(at(&walks[job]) - at(&walks[job + 1]))
    };
    let rows = (0..all.len()).rev().map(|interval| {
        let cells = (0..all.len()).map(|job| format!("{:.0}", placed(job, interval)));
        let free = hours(walks[0].intervals[interval].free_work);
        let name = match interval {
            0 => "now to D1".to_string(),
            n => format!("D{n} to D{}", n + 1),
        };
        let mut row = vec![name, format!("{free:.0}")];
        row.extend(cells);
        row
    });
    let mut rows: Vec<Vec<String>> = rows.collect();
    let now = |job: usize| walks[0].now_tasks[job] * MAP_S / 3600.0;
    // The tasks that found no room before their goals, and so would have to run at once.
    let mut last = vec!["in this cycle".to_string(), String::new()];
    last.extend((0..all.len()).map(|job| format!("{:.0}", now(job))));
    rows.push(last);

    // Lines of average nodes over each interval as steps, with the jobs stacked.
    let mut below = vec![0.0; all.len()];
    let lines = (0..all.len()).rev().map(|job| {
        let mut points = Vec::new();
        for (interval, below) in below.iter_mut().enumerate() {
            let stretch = &walks[0].intervals[interval];
            let span_h = (stretch.until_s - stretch.from_s) / 3600.0;
            *below += placed(job, interval) / span_h;
            points.extend([stretch.from_s, stretch.until_s].map(|t_s| (t_s / 3600.0, *below)));
        }
        Line {
            name: format!("up to J{}", job + 1),
            points,
        }
    });
    let mut lines: Vec<Line> = lines.collect();
    lines.push(Line {
        name: "f(t)".into(),
        points: (0..=96)
            .map(|quarter| f64::from(quarter) / 4.0)
            .map(|hour| (hour, config.forecast.at(hour * 3600.0) / 100.0))
            .collect(),
    });
    let picture = Curves {
        title: "Algorithm 2: mean nodes per interval, J3 first, then J2, then J1 on top",
        x_label: "hours",
        x: (0.0, 24.0),
        y_label: "nodes",
        y: (0.0, config.nodes.len() as f64),
        lines,
        level: None,
    };
    Analysis {
        title: "Algorithm 2 on the motivating example, node-hours from the last interval on".into(),
        head: words(["interval", "f(t)", "J1", "J2", "J3"]),
        rows,
        pictures: vec![("reverse-fit", picture.to_svg())],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The jobs J1 to J3, with the goals D1 to D3, need 426 node-hours each. The capacity f(t) has
    /// 535 before D1, 572 from D1 to D2 and 225 from D2 to D3. Placed backwards from the goals, J3
    /// fills the last interval with 225 and puts its other 201 into the middle one. There J2 gets
    /// the remaining 371. The last 55 of J2, and all of J1, go before D1.
    #[test]
    fn the_walk_carries_work_from_each_interval_to_the_one_before() {
        let analysis = reverse_fit();
        let cells: Vec<Vec<&str>> = (analysis.rows.iter())
            .map(|row| row[2..].iter().map(String::as_str).collect())
            .collect();
        assert_eq!(
            cells,
            [
                ["0", "0", "225"],
                ["0", "371", "201"],
                ["426", "55", "0"],
                ["0", "0", "0"]
            ]
        );
    }
}
