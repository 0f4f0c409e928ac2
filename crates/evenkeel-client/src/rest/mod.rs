//! Requests: how they are built, sent, repeated and read.

mod warnings;

pub use warnings::{Warning, WarningHandler};
