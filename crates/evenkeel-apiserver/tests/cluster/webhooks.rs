//! Admission webhooks.
