mod driver;
mod frame;
mod headers;
mod hostile;
mod state;

use std::task::{Context, Waker};

/// A context that wakes nothing.
fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// Decodes hexadecimal digits.
fn hex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}
