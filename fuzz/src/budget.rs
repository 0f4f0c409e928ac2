//! The memory that a piece of code may use, as a multiple of its input.

use allocation_counter::measure;

/// What every piece of code may use, however small its input: buffers of a fixed size, tables, error texts.
const BASE: u64 = 64 << 10;

/// What a decoder of streams may reserve for a message whose claimed length has not arrived yet.
const RESERVED: u64 = 1 << 20;

/// The multiple of the input that decoders may use.
pub(crate) const DECODER: u64 = 10;

/// The multiple of the input that code which builds trees of `serde_json::Value` may use. An element takes two bytes of text and 32 of
/// memory, and a list that grows has up to three times the room that it needs.
pub(crate) const TREE: u64 = 100;

/// Calls a function and checks the most memory that it holds at one time: a fixed amount, and a multiple of its input. Tables that are
/// made once belong to no input, so a call that takes more is repeated.
#[track_caller]
pub(crate) fn within<T>(factor: u64, input: usize, work: impl FnMut() -> T) -> T {
    within_limit(BASE + factor * input as u64, input, work)
}

/// Does the same with room for one claimed length.
#[track_caller]
pub(crate) fn within_and_reserved<T>(factor: u64, input: usize, work: impl FnMut() -> T) -> T {
    within_limit(BASE + RESERVED + factor * input as u64, input, work)
}

#[track_caller]
fn within_limit<T>(limit: u64, input: usize, mut work: impl FnMut() -> T) -> T {
    let mut result = None;
    let mut memory = measure(|| result = Some(work()));
    if memory.bytes_max > limit {
        memory = measure(|| result = Some(work()));
    }
    assert!(memory.bytes_max <= limit, "{} bytes of memory for an input of {input} bytes", memory.bytes_max);
    result.expect("the work was done")
}
