//! The accuracy of predicted probabilities of meeting a goal.

use std::fmt::Write as _;

use ebb_scheduler::planning::ReliabilityBin;

use crate::chart::{COLOURS, Picture, Plane};

const HEIGHT: f64 = 420.0;

/// Draws a reliability diagram: the fraction of the jobs that met their goals over their predicted
/// probability, in percent. Accurate predictions lie on the diagonal. The area of a dot grows with
/// its number of jobs.
#[must_use]
pub fn reliability(title: &str, lines: &[(String, Vec<ReliabilityBin>)]) -> String {
    let mut picture = Picture::new(title, HEIGHT);
    picture.legend(lines.iter().map(|(name, _)| name.as_str()));
    let plane = Plane::new(62.0, HEIGHT - 62.0 - 48.0, (0.0, 100.0), (0.0, 100.0));
    let svg = &mut picture.body;
    plane.y_label(svg, "met, %");
    plane.grid_y(svg, 5);
    plane.labels_x(svg, "predicted, %");
    plane.line(svg, [(0.0, 0.0), (100.0, 100.0)], r#"class="level""#, "");
    for ((_, bins), colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let at = |bin: &ReliabilityBin| (100.0 * bin.predicted, 100.0 * bin.met);
        let how = format!(r#"class="curve" stroke="{colour}""#);
        plane.line(svg, bins.iter().map(at), &how, "");
        for bin in bins {
            let (x, y) = at(bin);
            let (x, y) = (plane.at_x(x), plane.at_y(y));
            let radius = (f64::from(bin.jobs).sqrt() / 6.0).clamp(1.5, 12.0);
            let _ = write!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" fill=\"{colour}\" \
                 fill-opacity=\"0.6\"><title>{} jobs: predicted {:.1}%, met {:.1}%</title></circle>",
                bin.jobs,
                100.0 * bin.predicted,
                100.0 * bin.met
            );
        }
    }
    picture.to_svg()
}
