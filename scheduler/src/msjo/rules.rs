//! Rules of thumb: tasks ordered by one number, without a linear programme.

use super::instance::Instance;
use super::list::{in_order, non_idling};
use super::order::{available_first, ranks};
use super::schedule::Schedule;

/// The criterion that orders tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// HUWF: first the job with the highest weight per second of work.
    HighUnitWeightFirst,
    /// HJWF: first the job whose weight is highest.
    HighJobWeightFirst,
    /// STF: first the shortest task.
    ShortestTaskFirst,
    /// HTWF: first the task whose own weight is highest.
    HighTaskWeightFirst,
}

impl Rule {
    /// Returns the rank of each task; 0 comes first. Ties go to the job that comes first in
    /// the instance, then to maps before reduces, then to the lower number.
    #[must_use]
    pub fn ranks(self, instance: &Instance) -> Vec<u32> {
        let jobs = 0..instance.jobs.len();
        let unit_weight: Vec<f64> = jobs.map(|job| instance.unit_weight(job)).collect();
        ranks(instance, |at| {
            let task = &instance.tasks[at];
            match self {
                Self::HighUnitWeightFirst => -unit_weight[task.job],
                Self::HighJobWeightFirst => -instance.jobs[task.job].job.weight,
                Self::ShortestTaskFirst => task.length_s,
                Self::HighTaskWeightFirst => -task.weight,
            }
        })
    }

    /// Builds the schedule task by task, as Ling et al. do for the rules by job, HUWF and HJWF.
    /// Takes the tasks from a list by rank, and plans each on the machine that is free first, even
    /// if this machine then has to idle until the task may start. Reduces join the list once all
    /// maps of their job are *planned*.
    #[must_use]
    pub fn planned(self, instance: &Instance) -> Schedule {
        in_order(instance, &available_first(instance, &self.ranks(instance)))
    }

    /// Builds the schedule in which a machine that becomes free takes the first, by rank, of the
    /// tasks that may start, and never idles to wait for another one. Ling et al. do this for the
    /// rules by task, STF and HTWF; for the rules by job it is a variant.
    #[must_use]
    pub fn non_idling(self, instance: &Instance) -> Schedule {
        non_idling(instance, &self.ranks(instance))
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::job;
    use super::super::instance::TaskSpec;
    use super::super::schedule::Objective;
    use super::*;

    /// Returns an instance of one machine. Job 0: weight 6, a map of 2 s whose output takes 1 s to
    /// arrive, a reduce of 4 s: 6 / (2 + 4) = 1 of weight per second of work. Job 1: weight 4, a
    /// map of 1 s: 4 of weight per second of work.
    fn instance() -> Instance {
        let jobs = vec![
            job(0, 0.0, 6.0, &[(2.0, 1.0)], &[4.0]),
            job(1, 0.0, 4.0, &[(1.0, 0.0)], &[]),
        ];
        Instance::new(1, jobs).unwrap()
    }

    /// HUWF runs the job with the highest weight per second of work first. Job 1's map runs
    /// from 0 to 1, job 0's map from 1 to 3; its output has arrived at 4, and the reduce
    /// runs from 4 to 8.
    #[test]
    fn huwf_takes_what_is_worth_most_a_second() {
        let schedule = Rule::HighUnitWeightFirst.planned(&instance());
        assert_eq!(schedule.start_s, [1.0, 4.0, 0.0]);
        assert_eq!(schedule.value(&instance(), Objective::Jobs), 52.0);
    }

    /// HJWF prefers job 0, the job with the highest weight. Its map ends at 2, and its reduce can
    /// start at 3. The published variant plans the reduce right after its map, before job 1's map,
    /// so the machine idles for a second. The non-idling one runs job 1's map in that second.
    #[test]
    fn hjwf_waits_when_planned_and_does_not_when_non_idling() {
        let rule = Rule::HighJobWeightFirst;
        let planned = rule.planned(&instance());
        assert_eq!(planned.start_s, [0.0, 3.0, 7.0]);
        assert_eq!(planned.value(&instance(), Objective::Jobs), 74.0);
        let non_idling = rule.non_idling(&instance());
        assert_eq!(non_idling.start_s, [0.0, 3.0, 2.0]);
        assert_eq!(non_idling.value(&instance(), Objective::Jobs), 54.0);
    }

    /// STF runs the shortest task that may start: job 1's map of 1 s, then job 0's map of 2 s,
    /// whose reduce follows at 4 s.
    #[test]
    fn stf_takes_the_shortest_of_those_that_may_start() {
        let schedule = Rule::ShortestTaskFirst.non_idling(&instance());
        assert_eq!(schedule.start_s, [1.0, 4.0, 0.0]);
        assert_eq!(schedule.value(&instance(), Objective::Tasks), 12.0);
    }

    /// HTWF runs the task with the highest weight of its own among those that may start: job 1's
    /// map with 3 before job 0's map with 1. Job 0's reduce has 9, but waits for its map.
    #[test]
    fn htwf_looks_at_the_weight_of_tasks() {
        let mut jobs = vec![
            job(0, 0.0, 6.0, &[(2.0, 1.0)], &[]),
            job(1, 0.0, 4.0, &[(1.0, 0.0)], &[]),
        ];
        jobs[0].reduces.push(TaskSpec {
            weight: 9.0,
            ..TaskSpec::of(4.0)
        });
        jobs[1].maps[0].weight = 3.0;
        let instance = Instance::new(1, jobs).unwrap();
        let schedule = Rule::HighTaskWeightFirst.non_idling(&instance);
        assert_eq!(schedule.start_s, [1.0, 4.0, 0.0]);
        // 1 * 3 + 9 * 8 + 3 * 1.
        assert_eq!(schedule.value(&instance, Objective::Tasks), 78.0);
    }
}
