//! Figures of the thesis that show formulas. They are drawn from the policies' own code, if that
//! has the formula.

mod acceleration;
mod burstiness;
mod estimates;
mod reverse_fit;
mod utility;

pub use acceleration::acceleration;
pub use burstiness::burstiness_levels;
pub use estimates::{map_length, reduce_length};
pub use reverse_fit::reverse_fit;
pub use utility::{reverse_utility, utility};

use serde::Serialize;

/// The table and the pictures of a formula.
#[derive(Clone, Debug, Serialize)]
pub struct Analysis {
    pub title: String,
    /// The names of the columns.
    pub head: Vec<String>,
    /// The rows of the table that evaluates the formula for some values: a text for each column.
    pub rows: Vec<Vec<String>>,
    /// Pictures in SVG, with the names of their files without the extension.
    #[serde(skip)]
    pub pictures: Vec<(&'static str, String)>,
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(String::from).to_vec()
}
