//! A write as a merge operand, reconciliation, and a row as of a time.
