//! The most work that tasks of a simulated cluster can do between two instants.

use crate::availability::Availability;

/// An upper bound on the CPU that tasks can hold over time: piecewise constant over control cycles,
/// in hundredths of a core.
///
/// A task starts only if the availability f(t) of its first control cycle has room for it, and then
/// runs on even if f(t) falls. If tasks take at most `task_s_max`, they hold at any instant no more
/// than the largest capacity within the last `task_s_max`. And if all tasks hold multiples of
/// `unit_hundredths`, the bound is rounded down to such a multiple, too.
#[derive(Clone, Debug)]
pub(super) struct Supply {
    cycle_s: f64,
    hundredths: Vec<f64>,
    /// The most work that tasks can do from 0 to the start of each cycle, in hundredths of a core
    /// times seconds; the last element counts to the end of the last cycle.
    work_until: Vec<f64>,
}

impl Supply {
    pub fn new(
        availability: &Availability,
        whole_hundredths: f64,
        cycle_s: f64,
        task_s_max: f64,
        unit_hundredths: u32,
        until_s: f64,
    ) -> Self {
        let unit = f64::from(unit_hundredths);
        let cycles = (until_s / cycle_s).ceil().max(1.0) as usize + 1;
        let capacity: Vec<f64> = (0..cycles)
            .map(|cycle| {
                let hundredths = availability.at(cycle as f64 * cycle_s);
                (hundredths.min(whole_hundredths) / unit).floor() * unit
            })
            .collect();
        let back = (task_s_max / cycle_s).ceil().min(cycles as f64) as usize;
        let hundredths = sliding_max(&capacity, back);
        let mut work_until = vec![0.0];
        for (cycle, hundredths) in hundredths.iter().enumerate() {
            work_until.push(work_until[cycle] + hundredths * cycle_s);
        }
        Self {
            cycle_s,
            hundredths,
            work_until,
        }
    }

    fn cycle(&self, t_s: f64) -> usize {
        ((t_s / self.cycle_s).floor().max(0.0) as usize).min(self.hundredths.len() - 1)
    }

    /// Returns the most CPU that tasks can hold at `t_s`, in hundredths of a core.
    pub fn at(&self, t_s: f64) -> f64 {
        self.hundredths[self.cycle(t_s)]
    }

    /// Returns the most work that tasks can do from 0 until `t_s`, in hundredths of a core times
    /// seconds.
    pub fn work_until(&self, t_s: f64) -> f64 {
        let cycle = self.cycle(t_s);
        let into_s = (t_s - cycle as f64 * self.cycle_s).clamp(0.0, self.cycle_s);
        self.work_until[cycle] + self.hundredths[cycle] * into_s
    }
}

/// Returns, for each value, the maximum of this value and the `back` values before it.
fn sliding_max(values: &[f64], back: usize) -> Vec<f64> {
    let mut falling: std::collections::VecDeque<usize> = std::collections::VecDeque::new();
    let mut result = Vec::with_capacity(values.len());
    for (at, value) in values.iter().enumerate() {
        while falling.back().is_some_and(|&last| values[last] <= *value) {
            falling.pop_back();
        }
        falling.push_back(at);
        while falling.front().is_some_and(|&first| first + back < at) {
            falling.pop_front();
        }
        result.push(values[falling[0]]);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::availability::Step;

    #[test]
    fn tasks_that_started_before_f_fell_count_until_they_end() {
        let steps = [(0.0, 300.0), (60.0, 129.5), (90.0, 50.0)];
        let steps = steps.map(|(from_s, hundredths)| Step { from_s, hundredths });
        let f = Availability::steps(steps.to_vec()).unwrap();
        let supply = Supply::new(&f, 200.0, 30.0, 40.0, 10, 200.0);
        let held: Vec<f64> = (0..6).map(|c| supply.at(30.0 * f64::from(c))).collect();
        // Never more than the 200 of the nodes, and the fall of f(t) shows two cycles
        // late.
        assert_eq!(held, [200.0, 200.0, 200.0, 200.0, 120.0, 50.0]);
        assert_eq!(supply.work_until(45.0), 9000.0);
        assert_eq!(supply.work_until(130.0), 24_000.0 + 1200.0);
    }
}
