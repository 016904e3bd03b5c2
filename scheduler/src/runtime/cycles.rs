//! The CPU that jobs were granted and used in each of the latest control cycles. Old cycles are
//! dropped.

use super::job::report::CycleSample;
use crate::model::JobId;
use std::collections::VecDeque;

/// The most cycles that are kept: an hour at the default length.
const CYCLES_MAX: usize = 4 * 3600;

/// The most job samples (one per job and control cycle) that are kept over all cycles: 12 MB. With
/// more than thirty jobs at a time, this limit is reached before `CYCLES_MAX`.
const JOB_SAMPLES_MAX: usize = 500_000;

/// The latest control cycles: those that have ended and are kept, and the present one.
#[derive(Default)]
pub(super) struct Cycles {
    closed: VecDeque<CycleSample>,
    /// Number of job samples (one per job and cycle) in `closed`, for the limit of memory.
    job_samples: usize,
    open: Option<CycleSample>,
}

impl Cycles {
    /// Ends the present control cycle with `memory_bytes` as its peak of reserved memory, and
    /// begins the cycle `next` at the time `next.t_s`. `used_cpu_s` returns the CPU time that a job
    /// used in the ended cycle, or `None` if the job has ended.
    pub fn turn(
        &mut self,
        next: CycleSample,
        memory_bytes: u64,
        mut used_cpu_s: impl FnMut(JobId) -> Option<f64>,
    ) {
        let now_s = next.t_s;
        let Some(mut ended) = self.open.replace(next) else {
            return;
        };
        ended.length_s = now_s - ended.t_s;
        ended.memory_bytes = memory_bytes;
        for sample in &mut ended.jobs {
            sample.used_cpu_s = used_cpu_s(sample.job).unwrap_or(sample.used_cpu_s);
        }
        self.job_samples += ended.jobs.len();
        self.closed.push_back(ended);
        while self.closed.len() > CYCLES_MAX || self.job_samples > JOB_SAMPLES_MAX {
            let oldest = self.closed.pop_front();
            self.job_samples -= oldest.map_or(0, |cycle| cycle.jobs.len());
        }
    }

    /// Records the CPU time that a job used in the present cycle until its end.
    pub fn job_ended(&mut self, job: JobId, used_cpu_s: f64) {
        let samples = self.open.as_mut().map(|open| &mut open.jobs);
        let sample = samples.and_then(|jobs| jobs.iter_mut().find(|sample| sample.job == job));
        if let Some(sample) = sample {
            sample.used_cpu_s = used_cpu_s;
        }
    }

    /// Returns the CPU time that a job used in the closed cycles that began after `t_s`, and the
    /// length of these cycles, both in seconds. Cycles at whose start the job did not exist are
    /// left out.
    pub fn used_after(&self, job: JobId, t_s: f64) -> (f64, f64) {
        let cycles = self.closed.iter().rev();
        let of_job = cycles
            .take_while(|cycle| cycle.t_s > t_s)
            .filter_map(|cycle| {
                let at = cycle.jobs.binary_search_by_key(&job, |sample| sample.job);
                Some((cycle.jobs[at.ok()?].used_cpu_s, cycle.length_s))
            });
        of_job.fold((0.0, 0.0), |sum, cycle| (sum.0 + cycle.0, sum.1 + cycle.1))
    }

    /// Returns the closed cycles, the oldest first.
    pub fn closed(&self) -> impl DoubleEndedIterator<Item = &CycleSample> {
        self.closed.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::JobSample;

    fn cycle(t_s: f64, jobs: u64) -> CycleSample {
        let sample = |id| JobSample {
            job: JobId(id),
            share_hundredths: 1,
            used_cpu_s: 0.0,
        };
        CycleSample {
            t_s,
            length_s: 0.0,
            capacity_hundredths: 100,
            memory_bytes: 0,
            jobs: (1..=jobs).map(sample).collect(),
        }
    }

    #[test]
    fn a_cycle_has_the_use_of_each_job_up_to_its_end() {
        let mut cycles = Cycles::default();
        cycles.turn(cycle(1.0, 2), 0, |_| None);
        cycles.job_ended(JobId(1), 0.25);
        cycles.turn(cycle(1.5, 1), 7, |job| (job == JobId(2)).then_some(0.5));
        let closed: Vec<_> = cycles.closed().collect();
        assert_eq!((closed[0].length_s, closed[0].memory_bytes), (0.5, 7));
        let used_s = closed[0].jobs.iter().map(|job| job.used_cpu_s);
        assert_eq!(used_s.collect::<Vec<_>>(), [0.25, 0.5]);
        cycles.turn(cycle(1.75, 1), 0, |_| Some(0.125));
        assert_eq!(cycles.used_after(JobId(1), 0.0), (0.375, 0.75));
        assert_eq!(cycles.used_after(JobId(1), 1.0), (0.125, 0.25));
        assert_eq!(cycles.used_after(JobId(2), 0.0), (0.5, 0.5));
        assert_eq!(cycles.used_after(JobId(3), 0.0), (0.0, 0.0));
    }

    /// Regression: with a thousand jobs at a time, the stored cycles of an hour took 350 MB.
    #[test]
    fn few_cycles_of_many_jobs_or_many_of_few_are_kept() {
        let mut cycles = Cycles::default();
        for n in 0..1200 {
            cycles.turn(cycle(f64::from(n), 1000), 0, |_| None);
        }
        assert_eq!(cycles.closed().count(), 500);
        for n in 0..2 * CYCLES_MAX {
            cycles.turn(cycle(1200.0 + n as f64, 1), 0, |_| None);
        }
        assert_eq!(cycles.closed().count(), CYCLES_MAX);
        assert_eq!(cycles.job_samples, CYCLES_MAX);
    }
}
