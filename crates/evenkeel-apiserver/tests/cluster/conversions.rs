//! Conversion webhooks.
