//! Tests of whole rings.

mod model;
