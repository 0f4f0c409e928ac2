//! Reads: lists, watches, tables and subresources, through the in-process service and, where
//! the wire itself matters, over sockets. All in virtual time.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic fails the test")]

mod api;
mod bookmarks;
mod history;
mod lists;
mod model;
mod pods;
mod protobuf_responses;
mod selectors;
mod shards;
mod sockets;
mod subresources;
mod tables;
mod watches;
mod wire;

#[path = "../support/mod.rs"]
mod support;
