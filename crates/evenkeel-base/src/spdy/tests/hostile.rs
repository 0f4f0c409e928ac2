//! Arbitrary input never panics, and never needs more memory than the limits allow.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

use super::super::error::SpdyError;
use super::super::frame::{self, DataFrame, FrameDecoder};
use super::super::headers::{HeaderDecoder, HeaderEncoder, StreamHeaders};
use super::super::state::{FrameReceipt, MAX_CONTROL_QUEUE, SpdyState};
use super::super::{INBOUND_LIMIT, ResetStatus, SESSION_INBOUND_LIMIT};
use super::context;
use crate::channels::{MAX_MESSAGE, Role};

/// A peer's input, in messages: frames that are mostly valid, and bytes that are not.
fn messages() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let id = prop_oneof![4 => 0_u32..12, 1 => any::<u32>()];
    let body = vec(any::<u8>(), 0..40);
    let control = (0_u16..12, id.clone(), any::<u8>(), body.clone()).prop_map(|(kind, id, flags, body)| {
        let length = (4 + body.len() as u32).to_be_bytes();
        [&[0x80, 3][..], &kind.to_be_bytes(), &[flags], &length[1..], &id.to_be_bytes(), &body].concat()
    });
    let data = (id.clone(), any::<bool>(), 0..100_000_usize)
        .prop_map(|(id, fin, length)| DataFrame::new(id & (u32::MAX >> 1), &vec![7; length]).finish(fin).to_vec());
    let open = (id, "[a-z]{0,8}").prop_map(|(id, value)| {
        let headers = StreamHeaders::from([("port", value.as_str())]);
        frame::syn_stream(id, &headers, &mut HeaderEncoder::default()).to_vec()
    });
    vec(prop_oneof![2 => open, 3 => control, 3 => data, 1 => body], 0..60)
}

/// Receives everything. Accepts no stream and reads nothing.
fn receive(messages: &[Vec<u8>]) -> Result<SpdyState, SpdyError> {
    let (mut decoder, mut state) = (FrameDecoder::new(), SpdyState::new(Role::Server));
    for message in messages {
        decoder.feed(Bytes::copy_from_slice(message));
        while let Some(frame) = decoder.decode()? {
            if let FrameReceipt::Full(_) = state.receive(frame)? {
                assert!(state.unread() >= INBOUND_LIMIT);
                return Ok(state);
            }
            assert!(state.unread() < SESSION_INBOUND_LIMIT + MAX_MESSAGE);
            assert!(state.control_frames() <= MAX_CONTROL_QUEUE);
        }
    }
    Ok(state)
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_decoded_or_refused(bytes in vec(any::<u8>(), 0..2000), piece in 1_usize..64) {
        let mut decoder = FrameDecoder::new();
        'pieces: for piece in bytes.chunks(piece) {
            decoder.feed(Bytes::copy_from_slice(piece));
            loop {
                match decoder.decode() {
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(_) => break 'pieces,
                }
            }
        }
    }

    #[test]
    fn arbitrary_header_blocks_are_decoded_or_refused(bytes in vec(any::<u8>(), 0..500), prefix in any::<bool>()) {
        let start: &[u8] = if prefix { &[0x78, 0xf9, 0xe3, 0xc6, 0xa7, 0xc2] } else { &[0x78, 0x01] };
        let mut decoder = HeaderDecoder::new();
        if decoder.decode(&[start, &bytes].concat()).is_ok() {
            let _ = decoder.decode(&bytes);
        }
    }

    #[test]
    fn a_hostile_peer_is_bounded(messages in messages()) {
        if let Ok(mut state) = receive(&messages) {
            while let std::task::Poll::Ready(Some((stream, _))) = state.poll_accept(&mut context()) {
                let _ = state.poll_read(stream, &mut context());
                let _ = state.poll_write(stream, b"x", &mut context());
                state.remove(stream, ResetStatus::CANCEL);
            }
            state.finish(Ok(()));
            while state.next_frame().is_some() {}
            prop_assert_eq!(state.unread(), 0);
        }
    }
}
