//! Partition and clustering keys whose bytes sort as CQL sorts the values.
