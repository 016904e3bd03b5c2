//! The pictures of a day: cores over time (the thesis's Figure 5.15) and, on the same time axis, the
//! latency and the level that the guard allowed.
//!
//! Each is a figure of HTML with two drawings of the same data as SVG, for wide and for narrow windows. The style
//! sheet of the report shows one of them. A single drawing would shrink with the window, and its text with it.

use super::day::HOURS;
use super::outcome::Outcome;
use crate::chart::{LEFT, NARROW_LEFT, NARROW_WIDTH, Picture, Plane, RIGHT, WIDTH, escape, text};

/// The colours of the jobs, in the order of submission. They are distinct under colour blindness,
/// too.
pub(super) const JOB_COLOURS: [&str; 4] = ["#4269d0", "#efb118", "#ff725c", "#6cc5b0"];
/// The colour of the load: a variable of the report's style sheet, because its value depends on the
/// colour scheme.
pub(super) const LOAD_COLOUR: &str = "var(--load)";
/// The colour of other processes: a variable of the style sheet, as [`LOAD_COLOUR`] is.
pub(super) const OTHERS_COLOUR: &str = "var(--others)";

const TOP: f64 = 26.0;
const BOTTOM: f64 = 40.0;

const CORES_TITLE: &str = "Cores over time";
const CORES_HEIGHT: f64 = 380.0;

/// The kind of window for which a picture is drawn.
#[derive(Debug, Clone, Copy)]
enum Window {
    Wide,
    Narrow,
}

impl Window {
    /// Returns the width of the picture, in pixels.
    fn width(self) -> f64 {
        match self {
            Self::Wide => WIDTH,
            Self::Narrow => NARROW_WIDTH,
        }
    }

    /// Returns a plane in a picture of `height` pixels. Its horizontal axis has the hours of the day.
    fn plane(self, height: f64, y: (f64, f64)) -> Plane {
        let left = match self {
            Self::Wide => LEFT,
            Self::Narrow => NARROW_LEFT,
        };
        let plane = Plane::new(TOP, height - TOP - BOTTOM, (0.0, HOURS), y);
        plane.between(left, self.width() - RIGHT)
    }
}

/// Returns a picture of `height` pixels as a figure of HTML. `draw` draws its body for a kind of window.
fn figure(title: &str, height: f64, draw: impl Fn(&mut String, Window)) -> String {
    let drawn = |window: Window| {
        let mut picture = Picture::untitled(title, height).of_width(window.width());
        draw(&mut picture.body, window);
        picture.to_html()
    };
    format!(
        "<figure><figcaption>{}</figcaption><div class=\"wide\">{}</div><div class=\"narrow\">{}</div></figure>",
        escape(title),
        drawn(Window::Wide),
        drawn(Window::Narrow),
    )
}

/// Draws the hours and the labelled horizontal lines.
fn draw_frame(svg: &mut String, plane: &Plane, ticks: impl Iterator<Item = (f64, String)>) {
    plane.grid(svg, ticks);
    let hours = (0..=HOURS as u32).step_by(3);
    plane.labels(svg, hours.map(|hour| (f64::from(hour), hour.to_string())));
    plane.x_label(svg, "hour of the compressed day");
}

/// Draws the goals as vertical lines.
fn draw_goals(svg: &mut String, plane: &Plane, outcome: &Outcome) {
    for (job, colour) in outcome.jobs.iter().zip(JOB_COLOURS) {
        let Some(goal_s) = job.goal_s else { continue };
        let hour = outcome.day().hour_of(goal_s);
        plane.upright(svg, hour, &format!(r#"class="goal" stroke="{colour}""#));
        let at = (plane.at_x(hour) - 4.0, TOP + 12.0);
        text(
            svg,
            at,
            r#"class="name" text-anchor="end""#,
            &escape(&format!("goal {}", job.name)),
        );
    }
}

/// Returns the figure of the cores in use over time.
pub(super) fn cores(outcome: &Outcome) -> String {
    figure(CORES_TITLE, CORES_HEIGHT, |svg, window| {
        draw_cores(svg, window, outcome);
    })
}

/// Draws the cores in use over time: those of the load from the top down, those of other processes
/// below it, and those of the jobs stacked from the bottom up. In a demo with a server, the client
/// of the load counts as another process here. Adds the forecast f(t) and the goals of the jobs.
fn draw_cores(svg: &mut String, window: Window, outcome: &Outcome) {
    let day = outcome.day();
    let cores = f64::from(outcome.cores);
    let plane = window.plane(CORES_HEIGHT, (0.0, cores));
    let quarters = (0..=4).map(|i| cores * f64::from(i) / 4.0);
    draw_frame(svg, &plane, quarters.map(|v| (v, format!("{v:.1}"))));

    let left = |used: f64| (cores - used).max(0.0);
    let samples = outcome.series.load.iter();
    let (load, others): (Vec<_>, Vec<_>) = samples
        .filter(|sample| sample.t_s <= outcome.seconds)
        .map(|s| {
            let hour = day.hour_of(s.t_s);
            let below_load = left(s.transactional_cores);
            let below_both = left(s.transactional_cores + s.others_cores);
            ((hour, below_load, cores), (hour, below_both, below_load))
        })
        .unzip();
    let fill = |colour: &str| format!(r#"fill="{colour}""#);
    plane.area(svg, &load, &fill(LOAD_COLOUR), "transactional load");
    plane.area(svg, &others, &fill(OTHERS_COLOUR), "other processes");

    let cycles = outcome.series.cycles.iter();
    let cycles: Vec<_> = cycles
        .filter(|c| c.length_s > 0.0 && c.t_s <= outcome.seconds)
        .collect();
    let mut below = vec![0.0; cycles.len()];
    for (job, colour) in outcome.jobs.iter().zip(JOB_COLOURS) {
        let points: Vec<_> = cycles
            .iter()
            .zip(&mut below)
            .map(|(cycle, below)| {
                let sample = cycle.jobs.iter().find(|sample| sample.job == job.id);
                let low = *below;
                *below += sample.map_or(0.0, |sample| sample.used_cpu_s / cycle.length_s);
                (day.hour_of(cycle.t_s), low, *below)
            })
            .collect();
        plane.area(svg, &points, &fill(colour), &job.name);
    }
    let forecast = outcome.series.forecast.iter();
    let forecast = forecast.map(|&(t_s, hundredths)| (day.hour_of(t_s), hundredths / 100.0));
    let title = "f(t): forecast of what the load leaves";
    plane.line(svg, forecast, r#"class="forecast""#, title);
    draw_goals(svg, &plane, outcome);
}

/// Returns the figure of the latency of the load over time.
pub(super) fn latency(outcome: &Outcome) -> String {
    const HEIGHT: f64 = 260.0;
    let day = outcome.day();
    let samples = &outcome.series.latency;
    let most = samples.iter().map(|s| s.p99_us).fold(1000.0, f64::max);
    let top = 10f64.powf(most.log10().ceil());
    let label = |us: f64| {
        if us < 1e3 {
            format!("{us} us")
        } else if us < 1e6 {
            format!("{} ms", us / 1e3)
        } else {
            format!("{} s", us / 1e6)
        }
    };
    let title = "Latency of the transactional load, from the intended start";
    figure(title, HEIGHT, |svg, window| {
        let plane = window.plane(HEIGHT, (1.0, top)).log_y();
        let powers = (0..=top.log10() as i32).map(|power| 10f64.powi(power));
        draw_frame(svg, &plane, powers.map(|us| (us, label(us))));
        let alone = outcome.transactional.alone.p99_us;
        let ends = [(0.0, alone), (HOURS, alone)];
        plane.line(svg, ends, r#"class="alone""#, "p99 alone");
        let p99 = samples.iter().map(|s| (day.hour_of(s.t_s), s.p99_us));
        plane.line(svg, p99, r#"class="p99""#, "p99");
        let p50 = samples.iter().map(|s| (day.hour_of(s.t_s), s.p50_us));
        plane.line(svg, p50, r#"class="p50""#, "median");
        draw_goals(svg, &plane, outcome);
    })
}

/// Returns the figure of the limit that the latency guard set for analytics over time, as a
/// percentage of the capacity that the load leaves.
pub(super) fn guard(outcome: &Outcome) -> String {
    const HEIGHT: f64 = 200.0;
    let day = outcome.day();
    let title = "Part of what the load leaves that the guard allows";
    figure(title, HEIGHT, |svg, window| {
        let plane = window.plane(HEIGHT, (0.0, 100.0));
        let quarters = (0..=4).map(|i| f64::from(i) * 25.0);
        draw_frame(svg, &plane, quarters.map(|v| (v, format!("{v:.0}%"))));
        let samples = outcome.series.guard.iter();
        let allowed = samples
            .filter(|sample| sample.window.t_s <= outcome.seconds)
            .map(|sample| (day.hour_of(sample.window.t_s), sample.allowed * 100.0));
        plane.line(svg, allowed, r#"class="p50""#, "allowed");
    })
}

/// Returns the picture of cores with its own colours, for use outside of the report.
pub(super) fn cores_alone(outcome: &Outcome) -> String {
    const STYLE: &str = ".goal{stroke-width:1.5;stroke-dasharray:5 4}\
        .name{fill:#1d2733;stroke:#fff;stroke-width:3px;paint-order:stroke}\
        .forecast{fill:none;stroke:#1d2733;stroke-width:2}";
    let mut picture = Picture::new(CORES_TITLE, CORES_HEIGHT);
    draw_cores(&mut picture.body, Window::Wide, outcome);
    let svg = picture.to_svg_with(STYLE);
    svg.replace(LOAD_COLOUR, "#c9d1da")
        .replace(OTHERS_COLOUR, "#8e9aa8")
}
