//! Tables of text.

use serde::Serialize;

/// A table with a title.
#[derive(Debug, Serialize)]
pub struct Table {
    pub title: String,
    pub head: Vec<String>,
    /// Each as long as the head.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Prints it: the first column flush left, others flush right.
    pub fn print(&self) {
        println!("{}\n", self.title);
        let all = || std::iter::once(&self.head).chain(&self.rows);
        let width = |column: usize| all().map(|row| row[column].len()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        for row in all() {
            let mut line = format!("{:<1$}", row[0], widths[0]);
            for (cell, width) in row[1..].iter().zip(&widths[1..]) {
                line += &format!("  {cell:>width$}");
            }
            println!("{line}");
        }
        println!();
    }
}
