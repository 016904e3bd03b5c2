//! How far what submitters were told came true.

use std::fmt::Write as _;

use ebb_scheduler::planning::Told;

use crate::chart::{COLOURS, Picture, Plane};

const HEIGHT: f64 = 420.0;

/// A reliability diagram: how many of the jobs that were told a probability met their
/// goals, against that probability, in percent. The diagonal is what was promised; the
/// area of a dot grows with its number of jobs.
#[must_use]
pub fn reliability(title: &str, lines: &[(String, Vec<Told>)]) -> String {
    let mut picture = Picture::new(title, HEIGHT);
    picture.legend(lines.iter().map(|(name, _)| name.as_str()));
    let plane = Plane::new(62.0, HEIGHT - 62.0 - 48.0, (0.0, 100.0), (0.0, 100.0));
    let svg = &mut picture.body;
    plane.y_label(svg, "met, %");
    plane.grid_y(svg, 5);
    plane.labels_x(svg, "told, %");
    plane.line(svg, [(0.0, 0.0), (100.0, 100.0)], r#"class="level""#, "");
    for ((_, told), colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let at = |told: &Told| (100.0 * told.told, 100.0 * told.met);
        let how = format!(r#"class="curve" stroke="{colour}""#);
        plane.line(svg, told.iter().map(at), &how, "");
        for told in told {
            let (x, y) = at(told);
            let (x, y) = (plane.at_x(x), plane.at_y(y));
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
    picture.to_svg()
}
