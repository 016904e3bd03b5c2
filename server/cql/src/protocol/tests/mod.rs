//! Frames against the specification, against another implementation, and both ways.

mod any_bytes;
mod frames;
mod golden;
mod other;
mod round_trips;
mod samples;
mod version5;
