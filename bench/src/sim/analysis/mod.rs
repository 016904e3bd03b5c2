//! Figures of the thesis that are formulas: drawn from the code that the policies
//! use, where there is such.

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

/// What a formula comes to.
#[derive(Clone, Debug, Serialize)]
pub struct Analysis {
    /// What it is about.
    pub title: String,
    /// The names of the columns.
    pub head: Vec<String>,
    /// Some of its values.
    pub rows: Vec<Vec<String>>,
    /// Pictures as SVG, by the names of their files without the ending.
    #[serde(skip)]
    pub pictures: Vec<(&'static str, String)>,
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(String::from).to_vec()
}
