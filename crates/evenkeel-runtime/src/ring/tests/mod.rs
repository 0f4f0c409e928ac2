//! Tests of whole rings.

mod faults;
mod model;
mod replicas;
