//! Frames: compared with the specification and another implementation, and encoded and decoded.

mod any_bytes;
mod frames;
mod golden;
mod other;
mod round_trips;
mod samples;
mod version5;
