//! Figure 3.1: the fraction of a cluster that an accelerated job needs.

use super::{Analysis, words};
use crate::columns::row;
use crate::sim::picture::{Curves, Line};

/// The nodes with an accelerator, in percent of all nodes.
const ACCELERATED: f64 = 10.0;

/// Returns the nodes that a job gets, in percent of the cluster. Its maps run `speedup` times
/// faster on nodes with an accelerator. By equation (4) of the thesis it needs `load` percent of
/// these nodes, possibly more than 100 percent. It gets nodes with an accelerator first. By
/// equation (3), each of them that is missing is then replaced by `speedup` regular nodes.
fn allocated(load: f64, speedup: f64) -> f64 {
    let needed = load / 100.0 * ACCELERATED;
    let beyond = (needed - ACCELERATED).max(0.0);
    (needed.min(ACCELERATED) + speedup * beyond).min(100.0)
}

/// Returns the thesis's Figure 3.1: the nodes that a job takes, by its load and by the speedup
/// of accelerated nodes.
#[must_use]
pub fn acceleration() -> Analysis {
    let line = |speedup: u32| Line {
        name: format!("speedup {speedup}"),
        points: (0..=160)
            .map(|load| (f64::from(load), allocated(f64::from(load), speedup.into())))
            .collect(),
    };
    let rows = [100, 120, 140, 160].map(|load| {
        let cells = (1..=5).map(|speedup| {
            let percent = allocated(f64::from(load), f64::from(speedup));
            format!("{percent:.0}%")
        });
        row(format!("{load}%"), cells)
    });
    let picture = Curves {
        title: "Nodes that one accelerated job takes, a tenth of them accelerated",
        x_label: "load of the accelerated pool, %",
        x: (0.0, 160.0),
        y_label: "% of all nodes",
        y: (0.0, 50.0),
        lines: (1..=5).map(line).collect(),
        level: Some(ACCELERATED),
    };
    Analysis {
        title: "Nodes of an accelerated job, by the load of the pool and the speedup".into(),
        head: words(["load", "1x", "2x", "3x", "4x", "5x"]),
        rows: rows.to_vec(),
        pictures: vec![("acceleration", picture.to_svg())],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As long as the nodes with an accelerator (a pool of 10%) suffice, the speedup has no effect.
    /// Beyond that, `speedup` regular nodes replace each accelerated node that is missing.
    #[test]
    fn beyond_the_pool_regular_nodes_count_by_the_speedup() {
        assert_eq!(allocated(50.0, 5.0), 5.0);
        assert_eq!(allocated(100.0, 5.0), 10.0);
        assert_eq!(allocated(150.0, 2.0), 20.0);
        assert_eq!(allocated(160.0, 5.0), 40.0);
    }
}
