//! Statements as text on a database in memory, and what is seen of its rows then.

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
mod oracle;
mod rows;
mod served;
mod volatile;
