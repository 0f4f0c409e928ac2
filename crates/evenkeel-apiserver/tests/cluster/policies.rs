//! Admission policies.
