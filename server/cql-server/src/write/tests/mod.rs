//! Statements as text on a database in memory, and the rows afterwards.

mod batches;
mod collections;
mod conditional;
mod conditions;
mod counters;
mod harness;
mod json;
mod messages;
mod nested;
mod nulls;
mod rows;
mod served;
mod volatile;
