//! Frames against the specification, and both ways.

mod frames;
mod golden;
mod round_trips;
mod samples;
