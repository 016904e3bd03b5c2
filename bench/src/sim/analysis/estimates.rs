//! Figures 3.2 and 3.3: the effects of wrong estimates of task lengths.

use super::{Analysis, words};
use crate::columns::row;
use crate::sim::picture::Heat;

/// Returns the number of slots that a job needs when `distance` percent of the time to its goal is
/// left, as a multiple of the slots that it needed at the start. A map takes `length` percent of
/// the whole time to the goal. Maps run in waves, so the result is the number of waves that fit
/// into the whole time, divided by the number that fits into the time left. It is infinite if none
/// fits.
fn slots_factor(distance: f64, length: f64) -> f64 {
    (100.0 / length).floor() / (distance / length).floor()
}

/// Returns how long after its goal a job ends, in percent of the job's planned length, if it was
/// planned to end at the goal. The reduces were estimated to take `part` percent of the planned
/// length, and take `deviation` percent longer than estimated.
fn deviation(part: f64, deviation: f64) -> f64 {
    part * deviation / 100.0
}

/// Returns the thesis's Figure 3.2: the slots that a job needs after a wrong estimate of the length
/// of its maps.
#[must_use]
pub fn map_length() -> Analysis {
    let rows = [5.0, 10.0, 20.0, 33.0, 50.0].map(|length| {
        let cells = [100.0, 80.0, 60.0, 40.0, 20.0].map(|distance| {
            let factor = slots_factor(distance, length);
            if factor.is_finite() {
                format!("{factor:.2}")
            } else {
                "-".into()
            }
        });
        row(format!("{length}%"), cells)
    });
    let picture = Heat {
        title: "Slots needed after a wrong estimate, in multiples of the first",
        x_label: "time left until the goal, % of what there was",
        x: (0.0, 100.0),
        columns: 200,
        y_label: "length of a map, % of that time",
        y: (0.0, 60.0),
        rows: 120,
        scale: ("slots", 1.0, 6.0),
        value: &|distance, length| {
            let factor = slots_factor(distance, length);
            if factor.is_finite() { factor } else { f64::NAN }
        },
    };
    Analysis {
        title: "Slots needed by the length of maps, with so much of the time left".into(),
        head: words(["map length", "100%", "80%", "60%", "40%", "20%"]),
        rows: rows.to_vec(),
        pictures: vec![("map-length", picture.to_svg())],
    }
}

/// Returns the thesis's Figure 3.3: how far a job misses its goal after a wrong estimate of the
/// length of its reduces.
#[must_use]
pub fn reduce_length() -> Analysis {
    let rows = [10.0, 30.0, 50.0, 70.0, 90.0].map(|part| {
        let cells = [5.0, 25.0, 50.0, 75.0, 100.0];
        let cells = cells.map(|wrong| format!("{:.1}%", deviation(part, wrong)));
        row(format!("{part}%"), cells)
    });
    let picture = Heat {
        title: "Distance to the goal after a wrong estimate of the reduces",
        x_label: "reduces, % of the job's length",
        x: (0.0, 100.0),
        columns: 100,
        y_label: "how much longer they take, %",
        y: (0.0, 100.0),
        rows: 100,
        scale: ("% of the job's length", 0.0, 100.0),
        value: &deviation,
    };
    Analysis {
        title: "Distance to the goal by the part of reduces, with estimates so wrong".into(),
        head: words(["reduces", "5%", "25%", "50%", "75%", "100%"]),
        rows: rows.to_vec(),
        pictures: vec![("reduce-length", picture.to_svg())],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_of_a_tenth_in_half_the_time_needs_twice_the_slots() {
        assert_eq!(slots_factor(100.0, 10.0), 1.0);
        assert_eq!(slots_factor(50.0, 10.0), 2.0);
        assert_eq!(slots_factor(5.0, 10.0), f64::INFINITY);
        assert_eq!(deviation(20.0, 50.0), 10.0);
    }
}
