//! `cargo +nightly fuzz run protobuf`: any bytes as any of the kinds whose messages have every form there is.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../check_protobuf.rs"]
mod check_protobuf;

fuzz_target!(|data: &[u8]| {
    if let Some((kind, bytes)) = data.split_first() {
        check_protobuf::check(usize::from(*kind), bytes);
    }
});
