use bytes::Bytes;

use super::super::error::{ResetStatus, SpdyError};
use super::super::frame::{self, DataFrame, Frame, FrameDecoder, MAX_CONTROL};
use super::super::headers::{HeaderEncoder, StreamHeaders};
use super::hex;

/// Decodes all frames, from pieces of this size.
fn decode_all(bytes: &[u8], piece: usize) -> Result<Vec<Frame>, SpdyError> {
    let mut decoder = FrameDecoder::new();
    let mut frames = Vec::new();
    for piece in bytes.chunks(piece) {
        decoder.feed(Bytes::copy_from_slice(piece));
        while let Some(frame) = decoder.decode()? {
            match (frames.last_mut(), frame) {
                // Joins the parts of one payload.
                (
                    Some(Frame::Data { stream, payload, fin: fin @ false }),
                    Frame::Data { stream: same, payload: more, fin: last },
                ) if *stream == same => {
                    *payload = [&payload[..], &more].concat().into();
                    *fin = last;
                }
                (_, frame) => frames.push(frame),
            }
        }
    }
    Ok(frames)
}

/// The frames of Go's spdystream: two SYN_STREAM and a SYN_REPLY, with one compression.
const GO: [&str; 3] = [
    "80030001000000290000000100000000000078f9e3c6a7c26260606004a7b392a2d4c45c6851c29a0a0a6800000000ffff",
    "800300010000001600000003000000000000c22a052a651201000000ffff",
    "800300020000000e000000016260606000000000ffff",
];

#[test]
fn pfw_009_frames_of_go_are_decoded() {
    let bytes = hex(&GO.concat());
    for piece in [1, 3, 7, 1000] {
        let frames = decode_all(&bytes, piece).unwrap();
        let headers = |kind| StreamHeaders::from([("streamType", kind)]);
        assert_eq!(
            frames,
            [
                Frame::SynStream { stream: 1, fin: false, headers: headers("error") },
                Frame::SynStream { stream: 3, fin: false, headers: headers("data") },
                Frame::SynReply { stream: 1, fin: false },
            ]
        );
    }
}

#[test]
fn pfw_009_message_boundaries_have_no_meaning() {
    let mut encoder = HeaderEncoder::default();
    let headers = StreamHeaders::from([("port", "80")]);
    let settings = [0x80, 3, 0, 4, 0, 0, 0, 4, 0, 0, 0, 0];
    let window_update = [0x80, 3, 0, 9, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 9];
    let empty_of_unknown_type = [0x80, 3, 0, 99, 0, 0, 0, 0];
    let bytes = [
        &frame::syn_stream(1, &headers, &mut encoder)[..],
        &settings,
        &frame::syn_reply(1, &mut encoder),
        &empty_of_unknown_type.repeat(10_000),
        &DataFrame::new(1, b"hello world").finish(false),
        &window_update,
        &DataFrame::new(3, b"").finish(true),
        &frame::ping(7),
        &frame::reset(1, ResetStatus::CANCEL),
        &frame::go_away(3),
    ]
    .concat();
    let expected = [
        Frame::SynStream { stream: 1, fin: false, headers },
        Frame::SynReply { stream: 1, fin: false },
        Frame::Data { stream: 1, payload: Bytes::from_static(b"hello world"), fin: false },
        Frame::Data { stream: 3, payload: Bytes::new(), fin: true },
        Frame::Ping { id: 7 },
        Frame::Reset { stream: 1, status: ResetStatus::CANCEL },
        Frame::GoAway,
    ];
    for piece in [1, 2, 5, 8, 13, bytes.len()] {
        assert_eq!(decode_all(&bytes, piece).unwrap(), expected, "pieces of {piece} bytes");
    }
}

#[test]
fn the_payload_of_a_large_frame_is_passed_on_as_it_arrives() {
    let mut decoder = FrameDecoder::new();
    decoder.feed(Bytes::from_static(&[0, 0, 0, 1, 1, 0xff, 0xff, 0xff, b'a', b'b']));
    let part = Frame::Data { stream: 1, payload: Bytes::from_static(b"ab"), fin: false };
    assert_eq!(decoder.decode().unwrap(), Some(part));
    assert_eq!(decoder.decode().unwrap(), None);
}

#[test]
fn invalid_frames_are_refused() {
    let version = decode_all(&[0x80, 2, 0, 6, 0, 0, 0, 4], 8).unwrap_err();
    assert!(matches!(version, SpdyError::Version { version: 2 }), "{version}");
    let short = decode_all(&[0x80, 3, 0, 6, 0, 0, 0, 3], 8).unwrap_err();
    assert!(matches!(short, SpdyError::FrameLength { frame: "PING", length: 3 }), "{short}");
    let long = decode_all(&[0x80, 3, 0, 1, 0, 0xff, 0xff, 0xff], 8).unwrap_err();
    assert!(matches!(long, SpdyError::FrameLength { length, .. } if length > MAX_CONTROL), "{long}");
    let headers = decode_all(&[0x80, 3, 0, 2, 0, 0, 0, 4, 0, 0, 0, 1], 12).unwrap_err();
    assert!(matches!(headers, SpdyError::Headers(_)), "{headers}");
}
