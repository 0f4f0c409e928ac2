//! The objects of a fresh server.
