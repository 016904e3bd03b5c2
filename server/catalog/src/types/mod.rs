//! CQL types and their native serialization.
