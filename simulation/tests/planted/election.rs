//! Defects of leader election.
