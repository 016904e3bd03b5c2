//! Charts of results as SVG. No other module draws.
//!
//! ```text
//!   Picture   a title, a body, a style: alone in a file, or within a page
//!     ├─ Plane      two axes in it: grid, labels, lines, areas, levels, marks
//!     │    └─ scale     from values to pixels; round values between two ends
//!     └─ BarChart   groups of bars, with spreads, levels and a line through them
//! ```
//!
//! The modules of studies, of the demo and of forecasts each have a file that draws their own
//! charts with these types.

mod bars;
mod picture;
mod plane;
mod scale;

pub use bars::{Bar, BarChart, Group, Line, stack};
pub use picture::{COLOURS, LEFT, NARROW_LEFT, NARROW_WIDTH, Picture, RIGHT, WIDTH, escape, text};
pub use plane::Plane;
pub use scale::{Scale, label, short, ticks};
