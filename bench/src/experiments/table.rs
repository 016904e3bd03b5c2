//! Tables of text.

use serde::Serialize;

use crate::columns::columns;

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
        for line in columns(&self.head, &self.rows, |column| column > 0) {
            println!("{line}");
        }
        println!();
    }
}
