//! The satisfaction of a job with the slots that it holds: equations (5)-(7) of chapter 4 and
//! (13)-(15) of chapter 5.
//!
//! A job's utility is the sum of a map part and a reduce part, (5) and (13). No function here
//! decreases as slots are added. Slots are all slots of a job, running tasks included.

/// Returns the utility of the slots that a job has for its maps, in the Adaptive Scheduler: the
/// thesis's equation (6).
///
/// The job has `s_alloc` slots, needs `s_req` to meet its goal, and can use `s_pend`, one for each
/// map that is not done. The utility grows logarithmically from minus infinity (no slot) to 0
/// (`s_req` slots), then linearly to 1 (`s_pend` slots). With `s_req` = 0 it starts at 0.
///
/// ```
/// use ebb_scheduler::policy::map_utility;
/// assert!((map_utility(5.0, 20.0, 35.0) - -0.4628).abs() < 1e-4);
/// assert!((map_utility(25.0, 20.0, 35.0) - 0.3333).abs() < 1e-4);
/// ```
#[must_use]
pub fn map_utility(s_alloc: f64, s_req: f64, s_pend: f64) -> f64 {
    if s_alloc >= s_pend {
        1.0
    } else if s_alloc < s_req {
        logarithmic(s_alloc, s_req)
    } else {
        (s_alloc - s_req) / (s_pend - s_req)
    }
}

/// Returns the utility of the slots that a job has for its maps, in the Reverse-Adaptive Scheduler:
/// the thesis's equation (14).
///
/// The job has `s_alloc` slots. It needs `s_fit` in the coming cycle so that its goal stays in
/// reach, and `s_req` on average until the goal; it can use `s_pend`, one for each map that is not
/// done. The utility grows logarithmically from minus infinity (no slot) to 0 (`s_fit` slots), then
/// linearly to 1/2 (`s_req`) and to 1 (`s_pend`). When `s_req` does not exceed `s_fit`, it grows
/// linearly from 0 at `s_fit` to 1 at `s_pend`.
///
/// ```
/// use ebb_scheduler::policy::reverse_map_utility;
/// let u = |s_alloc| reverse_map_utility(s_alloc, 10.0, 15.0, 35.0);
/// assert!((u(5.0) - -0.301).abs() < 1e-3);
/// assert!((u(12.0) - 0.2).abs() < 1e-9);
/// assert!((u(25.0) - 0.75).abs() < 1e-9);
/// ```
#[must_use]
pub fn reverse_map_utility(s_alloc: f64, s_fit: f64, s_req: f64, s_pend: f64) -> f64 {
    if s_alloc >= s_pend {
        1.0
    } else if s_alloc < s_fit {
        logarithmic(s_alloc, s_fit)
    } else if s_req <= s_fit {
        (s_alloc - s_fit) / (s_pend - s_fit)
    } else if s_alloc <= s_req {
        (s_alloc - s_fit) / (2.0 * (s_req - s_fit))
    } else {
        0.5 + (s_alloc - s_req) / (2.0 * (s_pend - s_req))
    }
}

/// Returns the utility of the slots that a job has for its reduces, the thesis's equations (7) and
/// (15): from -1, where none of the `r_pend` remaining reduces has a slot, to 0, where all have
/// one. `r_alloc` is the number of slots.
///
/// The thesis gives the range as [-1, 0], so no slot counts as -1. With one reduce the printed form
/// divides by log 1; here the result is -1 or 0.
#[must_use]
pub fn reduce_utility(r_alloc: f64, r_pend: f64) -> f64 {
    if r_alloc >= r_pend {
        0.0
    } else {
        logarithmic(r_alloc, r_pend).max(-1.0)
    }
}

/// Returns log(alloc) / log(need) - 1, for `alloc` < `need`; minus infinity if `alloc` is below 1.
fn logarithmic(alloc: f64, need: f64) -> f64 {
    if alloc < 1.0 {
        // Also covers a need below one slot, whose negative logarithm would reverse the order.
        f64::NEG_INFINITY
    } else {
        alloc.ln() / need.ln() - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_rng::test_rng;
    use rand::RngExt;

    #[test]
    fn the_reduce_part_of_figure_4_2_is_zero_with_all_ten_placed() {
        assert_eq!(reduce_utility(10.0, 10.0), 0.0);
        assert!((reduce_utility(5.0, 10.0) - (5f64.ln() / 10f64.ln() - 1.0)).abs() < 1e-12);
        assert_eq!(reduce_utility(1.0, 10.0), -1.0);
        assert_eq!(reduce_utility(0.0, 10.0), -1.0);
        assert_eq!(reduce_utility(0.0, 1.0), -1.0);
        assert_eq!(reduce_utility(1.0, 1.0), 0.0);
        assert_eq!(reduce_utility(0.0, 0.0), 0.0);
    }

    #[test]
    fn a_job_without_a_required_slot_has_infinitely_low_utility() {
        assert_eq!(reverse_map_utility(0.0, 1.0, 2.0, 9.0), f64::NEG_INFINITY);
        assert_eq!(map_utility(0.0, 0.5, 9.0), f64::NEG_INFINITY);
        assert_eq!(reverse_map_utility(0.0, 0.0, 2.0, 9.0), 0.0);
    }

    #[test]
    fn the_corners_of_equation_14() {
        let u = |s_alloc| reverse_map_utility(s_alloc, 10.0, 15.0, 35.0);
        assert_eq!((u(10.0), u(15.0), u(35.0), u(50.0)), (0.0, 0.5, 1.0, 1.0));
        // s_req <= s_fit: one straight line.
        assert_eq!(reverse_map_utility(20.0, 10.0, 8.0, 30.0), 0.5);
    }

    #[test]
    fn utility_never_falls_as_slots_are_added() {
        let mut rng = test_rng(11);
        for _ in 0..2000 {
            let s_pend = f64::from(rng.random_range(1..60_u32));
            let s_fit = f64::from(rng.random_range(0..=60_u32)).min(s_pend);
            let s_req = rng.random_range(0.0..70.0_f64).min(s_pend);
            let mut last = [f64::NEG_INFINITY; 3];
            for s_alloc in 0..70 {
                let s_alloc = f64::from(s_alloc);
                let now = [
                    map_utility(s_alloc, s_req, s_pend),
                    reverse_map_utility(s_alloc, s_fit, s_req, s_pend),
                    reduce_utility(s_alloc, s_pend),
                ];
                for (now, last) in now.iter().zip(&last) {
                    assert!(!now.is_nan() && *now <= 1.0 && now >= last);
                }
                last = now;
            }
        }
    }
}
