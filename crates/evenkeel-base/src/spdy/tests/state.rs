use std::io;
use std::task::Poll;

use bytes::Bytes;

use super::super::error::{ResetStatus, SpdyError};
use super::super::frame::{self, Frame, FrameDecoder};
use super::super::headers::StreamHeaders;
use super::super::state::{FrameReceipt, MAX_CONTROL_QUEUE, SpdyState};
use super::super::{CHUNK, INBOUND_LIMIT, MAX_STREAMS, OUTBOX_LIMIT, SESSION_INBOUND_LIMIT};
use super::context;
use crate::channels::Role;

fn syn(stream: u32) -> Frame {
    Frame::SynStream { stream, fin: false, headers: StreamHeaders::default() }
}

fn data(stream: u32, payload: &[u8]) -> Frame {
    Frame::Data { stream, payload: Bytes::copy_from_slice(payload), fin: false }
}

fn open(state: &mut SpdyState) -> u32 {
    match state.poll_open(&StreamHeaders::default(), &mut context()) {
        Poll::Ready(Ok(id)) => id,
        other => panic!("{other:?}"),
    }
}

/// Sends everything to a decoder.
fn sent(state: &mut SpdyState) -> Vec<Frame> {
    let mut decoder = FrameDecoder::new();
    let mut frames = Vec::new();
    while let Some(bytes) = state.next_frame() {
        decoder.feed(bytes);
        frames.extend(std::iter::from_fn(|| decoder.decode().unwrap()));
    }
    frames
}

#[test]
fn ids_are_odd_for_the_client_and_even_for_the_server() {
    let (mut client, mut server) = (SpdyState::new(Role::Client), SpdyState::new(Role::Server));
    assert_eq!([open(&mut client), open(&mut client)], [1, 3]);
    assert_eq!([open(&mut server), open(&mut server)], [2, 4]);
    sent(&mut client);
    client.ping();
    client.ping();
    assert_eq!(sent(&mut client), [Frame::Ping { id: 1 }], "one ping without a response");
    client.receive(Frame::Ping { id: 1 }).unwrap();
    client.ping();
    assert_eq!(sent(&mut client), [Frame::Ping { id: 3 }]);
}

#[test]
fn small_writes_share_a_frame_and_the_end_is_a_flag() {
    let mut state = SpdyState::new(Role::Client);
    let (one, two) = (open(&mut state), open(&mut state));
    for part in [&b"ab"[..], b"cd"] {
        assert!(matches!(state.poll_write(one, part, &mut context()), Poll::Ready(Ok(2))));
    }
    assert!(matches!(state.poll_write(two, b"x", &mut context()), Poll::Ready(Ok(1))));
    assert!(matches!(state.poll_write(one, b"e", &mut context()), Poll::Ready(Ok(1))));
    state.shutdown(one).unwrap();
    state.shutdown(one).unwrap();
    state.shutdown(two).unwrap();
    let error = match state.poll_write(one, b"f", &mut context()) {
        Poll::Ready(Err(error)) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    let frames = sent(&mut state);
    assert_eq!(
        frames.get(2..).unwrap(),
        [
            data(one, b"abcd"),
            data(two, b"x"),
            Frame::Data { stream: one, payload: Bytes::from_static(b"e"), fin: true },
            Frame::Data { stream: two, payload: Bytes::new(), fin: true },
        ]
    );
}

#[test]
fn writers_wait_while_the_outbox_is_full() {
    let mut state = SpdyState::new(Role::Client);
    let stream = open(&mut state);
    let mut written = 0;
    while let Poll::Ready(length) = state.poll_write(stream, &[1; 2 * CHUNK], &mut context()) {
        written += length.unwrap();
    }
    assert!((OUTBOX_LIMIT..OUTBOX_LIMIT + CHUNK).contains(&written), "{written}");
    sent(&mut state);
    assert!(state.poll_write(stream, b"x", &mut context()).is_ready());
}

#[test]
fn a_full_stream_and_a_full_connection_hold_their_frame() {
    let mut state = SpdyState::new(Role::Server);
    let piece = vec![0; INBOUND_LIMIT / 2];
    let mut stream = 1;
    let mut received = 0;
    while received < SESSION_INBOUND_LIMIT {
        state.receive(syn(stream)).unwrap();
        for _ in 0..2 {
            assert_eq!(state.receive(data(stream, &piece)).unwrap(), FrameReceipt::Accepted);
            received += piece.len();
        }
        assert!(matches!(state.receive(data(stream, b"x")).unwrap(), FrameReceipt::Full(_)));
        stream += 2;
    }
    state.receive(syn(stream)).unwrap();
    assert!(matches!(state.receive(data(stream, b"x")).unwrap(), FrameReceipt::Full(_)));
    // The end of a stream and control frames need no room.
    let end = Frame::Data { stream: 1, payload: Bytes::new(), fin: true };
    assert_eq!(state.receive(end).unwrap(), FrameReceipt::Accepted);
    // A dropped stream makes room, and its data is discarded.
    state.remove(1, ResetStatus::CANCEL);
    assert_eq!(state.receive(data(stream, b"x")).unwrap(), FrameReceipt::Accepted);
    assert_eq!(state.receive(data(1, &piece)).unwrap(), FrameReceipt::Accepted);
}

#[test]
fn too_many_streams_and_invalid_ids_are_refused() {
    let mut state = SpdyState::new(Role::Server);
    state.receive(syn(2)).unwrap();
    state.receive(syn(3)).unwrap();
    state.receive(syn(3)).unwrap();
    state.receive(syn(1)).unwrap();
    let invalid = |stream| Frame::Reset { stream, status: ResetStatus::PROTOCOL_ERROR };
    assert_eq!(sent(&mut state), [invalid(2), invalid(3), invalid(1)]);
    for number in 0..MAX_STREAMS as u32 {
        state.receive(syn(5 + 2 * number)).unwrap();
    }
    let last = 5 + 2 * (MAX_STREAMS as u32 - 1);
    assert_eq!(sent(&mut state), [Frame::Reset { stream: last, status: ResetStatus::REFUSED_STREAM }]);
}

#[test]
fn a_flood_of_requests_ends_the_connection() {
    let mut state = SpdyState::new(Role::Server);
    for _ in 0..MAX_CONTROL_QUEUE {
        state.receive(Frame::Ping { id: 1 }).unwrap();
    }
    assert!(matches!(state.receive(Frame::Ping { id: 1 }), Err(SpdyError::Flood { .. })));
    // Accepting streams waits for the peer to read.
    state.receive(syn(1)).unwrap();
    assert!(state.poll_accept(&mut context()).is_pending());
    while state.next_frame().is_some() {}
    assert!(state.poll_accept(&mut context()).is_ready());
    // The response to an own ping is no request.
    state.receive(Frame::Ping { id: 2 }).unwrap();
    assert_eq!(state.next_frame().map(|frame| frame.len()), Some(frame::FRAME_HEADER + 4 + 2 + 5 + 4 + 5));
    assert_eq!(state.next_frame(), None);
}

#[test]
fn a_reset_keeps_what_arrived_and_fails_afterwards() {
    let mut state = SpdyState::new(Role::Client);
    let stream = open(&mut state);
    state.receive(Frame::SynReply { stream, fin: false }).unwrap();
    state.receive(data(stream, b"last words")).unwrap();
    state.receive(Frame::Reset { stream, status: ResetStatus::CANCEL }).unwrap();
    assert!(matches!(state.poll_replied(stream, &mut context()), Poll::Ready(Ok(()))), "it was accepted");
    let read = state.poll_read(stream, &mut context());
    assert!(matches!(read, Poll::Ready(Ok(Some(bytes))) if bytes == "last words"));
    let Poll::Ready(Err(error)) = state.poll_read(stream, &mut context()) else { panic!("no error") };
    assert!(matches!(*error, SpdyError::Reset(ResetStatus::CANCEL)));
    let Poll::Ready(Err(error)) = state.poll_write(stream, b"x", &mut context()) else { panic!("no error") };
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    sent(&mut state);
    state.remove(stream, ResetStatus::CANCEL);
    assert_eq!(sent(&mut state), [], "a reset is not answered with a reset");
}

#[test]
fn a_dropped_stream_is_reset_after_its_data() {
    let mut state = SpdyState::new(Role::Client);
    let stream = open(&mut state);
    sent(&mut state);
    assert!(state.poll_write(stream, b"x", &mut context()).is_ready());
    state.remove(stream, ResetStatus::CANCEL);
    let reset = Frame::Reset { stream, status: ResetStatus::CANCEL };
    assert_eq!(sent(&mut state), [data(stream, b"x"), reset]);
    // A stream that ended on both sides needs no reset.
    let mut state = SpdyState::new(Role::Client);
    let stream = open(&mut state);
    state.receive(Frame::SynReply { stream, fin: true }).unwrap();
    state.shutdown(stream).unwrap();
    sent(&mut state);
    state.remove(stream, ResetStatus::CANCEL);
    assert_eq!(sent(&mut state), []);
}

#[test]
fn after_a_goaway_no_stream_is_opened_and_the_others_continue() {
    let mut state = SpdyState::new(Role::Client);
    let stream = open(&mut state);
    state.receive(Frame::GoAway).unwrap();
    let Poll::Ready(Err(error)) = state.poll_open(&StreamHeaders::default(), &mut context()) else { panic!("opened") };
    assert!(matches!(*error, SpdyError::GoneAway));
    assert!(matches!(state.poll_accept(&mut context()), Poll::Ready(None)));
    state.receive(data(stream, b"more")).unwrap();
    assert!(matches!(state.poll_read(stream, &mut context()), Poll::Ready(Ok(Some(_)))));
    // The end of the connection is no end of a stream.
    state.finish(Ok(()));
    let Poll::Ready(Err(error)) = state.poll_read(stream, &mut context()) else { panic!("no error") };
    assert!(matches!(*error, SpdyError::Closed));
}
