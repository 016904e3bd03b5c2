//! Frames of the native protocol, version 4.
