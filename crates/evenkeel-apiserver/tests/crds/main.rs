//! CustomResourceDefinitions from end to end, through the in-process service: admission, establishment, the objects they
//! define, several versions, deletion, and what discovery and OpenAPI say of them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "in a test a panic is a finding")]

mod api;
mod definitions;
mod deletion;
mod install;
mod objects;
mod versions;
