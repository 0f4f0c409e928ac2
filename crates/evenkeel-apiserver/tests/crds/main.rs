//! CustomResourceDefinitions from end to end, through the in-process service: admission, establishment, the objects they
//! define, several versions, deletion, discovery and OpenAPI.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic fails the test")]

mod api;
mod definitions;
mod deletion;
mod install;
mod objects;
mod versions;
