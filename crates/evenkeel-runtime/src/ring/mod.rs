//! Rings.
#![cfg_attr(not(test), expect(dead_code, reason = "the driver follows"))]

mod assigner;
mod member;
mod member_record;
mod plan;
mod planted;
mod settings;
mod table;

#[cfg(test)]
mod tests;
