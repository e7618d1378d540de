//! What rules would have found in recorded load.
