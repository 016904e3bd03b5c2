//! Figures 4.2 and 5.17: the shapes of the utility functions.

use ebb_scheduler::policy::{map_utility, reduce_utility, reverse_map_utility};

use super::{Analysis, words};
use crate::columns::row;
use crate::sim::picture::Heat;

const S_PEND: f64 = 35.0;
const R_PEND: f64 = 10.0;

/// Returns Figure 4.2: the utility by equations (5)-(7) of the thesis, over the slots of a job for maps
/// and for reduces. The maps require 20 slots (s_req).
#[must_use]
pub fn utility() -> Analysis {
    shape(
        "Utility of chapter 4: s_req = 20, 35 maps, 10 reduces",
        "utility",
        &|slots| map_utility(slots, 20.0, S_PEND),
    )
}

/// Returns Figure 5.17: the utility by equations (13)-(15) of the thesis, over the slots of a job for
/// maps and for reduces. The maps require 15 slots (s_req), at least 10 of them now (s_fit).
#[must_use]
pub fn reverse_utility() -> Analysis {
    shape(
        "Utility of chapter 5: s_fit = 10, s_req = 15, 35 maps, 10 reduces",
        "reverse-utility",
        &|slots| reverse_map_utility(slots, 10.0, 15.0, S_PEND),
    )
}

fn shape(title: &str, name: &'static str, map_part: &dyn Fn(f64) -> f64) -> Analysis {
    let value =
        |maps: f64, reduces: f64| map_part(maps.floor()) + reduce_utility(reduces.floor(), R_PEND);
    let rows = [1.0, 5.0, 10.0, 12.0, 20.0, 25.0, 35.0].map(|maps| {
        let cells = [1.0, 5.0, 10.0].map(|reduces| format!("{:.4}", value(maps, reduces)));
        row(format!("{maps}"), cells)
    });
    let picture = Heat {
        title,
        x_label: "slots for maps",
        x: (0.0, 50.0),
        columns: 50,
        y_label: "slots for reduces",
        y: (0.0, 20.0),
        rows: 20,
        scale: ("utility", -2.0, 1.0),
        value: &value,
    };
    Analysis {
        title: title.to_string(),
        head: words(["maps", "1 reduce", "5 reduces", "10 reduces"]),
        rows: rows.to_vec(),
        pictures: vec![(name, picture.to_svg())],
    }
}
