//! How far what submitters were told came true.

use std::fmt::Write as _;

use ebb_scheduler::planning::Told;

use super::COLOURS;
use super::plane::{Plane, legend, open};

const HEIGHT: f64 = 420.0;

/// A reliability diagram: how many of the jobs that were told a probability met their
/// goals, against that probability, in percent. The diagonal is what was promised; the
/// area of a dot grows with its number of jobs.
#[must_use]
pub fn reliability(title: &str, lines: &[(String, Vec<Told>)]) -> String {
    let mut svg = open(title, HEIGHT);
    legend(&mut svg, lines.iter().map(|(name, _)| name.as_str()));
    let plane = Plane {
        top: 62.0,
        height: HEIGHT - 62.0 - 48.0,
        x: (0.0, 100.0),
        y: (0.0, 100.0),
    };
    svg += "<text x=\"8\" y=\"52\">met, %</text>";
    plane.grid_y(&mut svg, 5);
    plane.labels_x(&mut svg, "told, %");
    let _ = write!(
        svg,
        "<line class=\"level\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        plane.at_x(0.0),
        plane.at_y(0.0),
        plane.at_x(100.0),
        plane.at_y(100.0)
    );
    for ((_, told), colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let at = |told: &Told| (plane.at_x(100.0 * told.told), plane.at_y(100.0 * told.met));
        let points: Vec<String> = (told.iter().map(at))
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let _ = write!(
            svg,
            "<polyline class=\"curve\" stroke=\"{colour}\" points=\"{}\"/>",
            points.join(" ")
        );
        for told in told {
            let (x, y) = at(told);
            let radius = (f64::from(told.jobs).sqrt() / 6.0).clamp(1.5, 12.0);
            let _ = write!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" fill=\"{colour}\" \
                 fill-opacity=\"0.6\"><title>{} jobs: told {:.1}%, met {:.1}%</title></circle>",
                told.jobs,
                100.0 * told.told,
                100.0 * told.met
            );
        }
    }
    svg + "</svg>\n"
}
