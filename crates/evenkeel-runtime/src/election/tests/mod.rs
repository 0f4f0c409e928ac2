//! Tests of the whole election: faults and a model.

mod faults;
mod model;
