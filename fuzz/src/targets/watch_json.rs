//! JSON watches and lists, cut anywhere (FUZ-10). The first byte selects the decoder and the cuts.

use evenkeel_core::codec::Codec;

use super::streams::check_stream;
use crate::input::Input;

pub(super) fn run(data: &[u8]) {
    check_stream(Codec::Json, &mut Input(data));
}
