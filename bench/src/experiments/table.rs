//! Tables of text.

use serde::Serialize;

use crate::columns::columns;

#[derive(Debug, Serialize)]
pub struct Table {
    pub title: String,
    pub head: Vec<String>,
    /// Rows, each of which has as many cells as the head.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Prints the table: the first column flush left, the others flush right.
    pub fn print(&self) {
        println!("{}\n", self.title);
        for line in columns(&self.head, &self.rows, |column| column > 0) {
            println!("{line}");
        }
        println!();
    }
}
