use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::{Bytes, BytesMut};

use super::super::state::{Receipt, SessionState};
use super::super::{CHUNK, ChannelError, ChannelProtocol, INBOUND_LIMIT, OUTBOX_LIMIT, RESIZE, STDERR, STDIN, STDOUT};
use super::{client, server};

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn message(channel: u8, payload: &[u8]) -> Bytes {
    [&[channel], payload].concat().into()
}

fn read(state: &mut SessionState, channel: u8) -> Poll<Option<Bytes>> {
    let mut unread = BytesMut::new();
    let read = state.poll_read(channel, &mut unread, &mut context());
    read.map(|read| read.map(|()| unread.freeze()).unwrap()).map(|unread| (!unread.is_empty()).then_some(unread))
}

fn sent(state: &mut SessionState) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| state.next_message()).map(|message| message.to_vec()).collect()
}

fn write(state: &mut SessionState, channel: u8, bytes: &[u8]) -> Poll<Result<usize, io::ErrorKind>> {
    state.poll_write(channel, bytes, &mut context()).map_err(|error| error.kind())
}

#[test]
fn rcm_011_the_first_byte_is_the_channel() {
    let mut state = SessionState::new(&client(ChannelProtocol::V5));
    assert_eq!(state.receive(message(STDOUT, b"out")).unwrap(), Receipt::Accepted);
    assert_eq!(state.receive(message(STDERR, b"err")).unwrap(), Receipt::Accepted);
    assert_eq!(read(&mut state, STDERR), Poll::Ready(Some(Bytes::from("err"))));
    assert_eq!(read(&mut state, STDOUT), Poll::Ready(Some(Bytes::from("out"))));
    assert_eq!(read(&mut state, STDOUT), Poll::Pending);
    assert_eq!(write(&mut state, STDIN, b"in"), Poll::Ready(Ok(2)));
    assert_eq!(sent(&mut state), [b"\0in"]);
}

#[test]
fn rcm_011_sec_50_an_empty_message_is_an_error_and_an_unknown_channel_is_discarded() {
    let mut state = SessionState::new(&client(ChannelProtocol::V5));
    assert!(matches!(state.receive(Bytes::new()), Err(ChannelError::Empty)));
    assert_eq!(state.receive(message(9, b"x")).unwrap(), Receipt::Accepted);
    // A server opens a channel with an empty payload, which is not its end.
    assert_eq!(state.receive(message(STDOUT, b"")).unwrap(), Receipt::Accepted);
    assert_eq!(read(&mut state, STDOUT), Poll::Pending);
}

#[test]
fn rcm_012_a_closed_channel_sends_one_message_and_rejects_writes() {
    let mut state = SessionState::new(&client(ChannelProtocol::V5));
    assert_eq!(write(&mut state, STDIN, b"a"), Poll::Ready(Ok(1)));
    state.close_channel(STDIN).unwrap();
    assert_eq!(write(&mut state, STDIN, b"b"), Poll::Ready(Err(io::ErrorKind::BrokenPipe)));
    assert_eq!(state.close_channel(STDIN).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    assert_eq!(sent(&mut state), [vec![0, b'a'], vec![255, 0]]);
}

#[test]
fn rcm_012_the_server_reads_the_end_of_a_closed_channel() {
    let mut state = SessionState::new(&server(ChannelProtocol::V5));
    state.receive(message(STDIN, b"last")).unwrap();
    state.receive(message(255, &[STDIN])).unwrap();
    state.receive(message(STDIN, b"ignored")).unwrap();
    assert_eq!(read(&mut state, STDIN), Poll::Ready(Some(Bytes::from("last"))));
    assert_eq!(read(&mut state, STDIN), Poll::Ready(None));
}

#[test]
fn rcm_012_v4_has_no_message_that_closes_a_channel() {
    let mut state = SessionState::new(&client(ChannelProtocol::V4));
    assert_eq!(state.close_channel(STDIN).unwrap_err().kind(), io::ErrorKind::Unsupported);
    assert_eq!(write(&mut state, STDIN, b"still open"), Poll::Ready(Ok(10)));
    let mut state = SessionState::new(&server(ChannelProtocol::V4));
    state.receive(message(255, &[STDIN])).unwrap();
    assert_eq!(read(&mut state, STDIN), Poll::Pending);
}

#[test]
fn rcm_013_rcm_023_a_large_write_is_split_into_chunks_of_32_kib() {
    let mut state = SessionState::new(&client(ChannelProtocol::V5));
    assert_eq!(write(&mut state, STDIN, &[7; CHUNK + 1]), Poll::Ready(Ok(CHUNK)));
    assert_eq!(sent(&mut state)[0].len(), CHUNK + 1);
}

#[test]
fn rcm_013_a_writer_waits_while_the_outbox_is_full() {
    let mut state = SessionState::new(&client(ChannelProtocol::V5));
    let mut queued = 0;
    while let Poll::Ready(written) = write(&mut state, STDIN, &[7; CHUNK]) {
        queued += written.unwrap();
        assert!(queued <= OUTBOX_LIMIT + CHUNK, "the outbox is not bounded");
    }
    state.next_message().unwrap();
    assert!(write(&mut state, STDIN, &[7; CHUNK]).is_ready());
}

#[test]
fn rcm_004_an_unread_channel_is_bounded_and_a_dropped_reader_discards() {
    let mut state = SessionState::new(&client(ChannelProtocol::V5));
    let full = message(STDOUT, &[7; CHUNK]);
    let mut received = 0;
    while state.receive(full.clone()).unwrap() == Receipt::Accepted {
        received += CHUNK;
        assert!(received <= INBOUND_LIMIT + CHUNK, "the buffer is not bounded");
    }
    // Another channel has a buffer of its own.
    assert_eq!(state.receive(message(STDERR, b"e")).unwrap(), Receipt::Accepted);
    state.discard(STDOUT);
    assert_eq!(state.receive(full).unwrap(), Receipt::Accepted);
    assert_eq!(read(&mut state, STDERR), Poll::Ready(Some(Bytes::from("e"))));
}

#[test]
fn rcm_006_a_newer_size_replaces_a_queued_one() {
    let mut state = SessionState::new(&client(ChannelProtocol::V5));
    write(&mut state, STDIN, b"x").is_ready();
    state.send_latest(RESIZE, b"1");
    state.send_latest(RESIZE, b"2");
    assert_eq!(sent(&mut state), [b"\0x", b"\x042"]);
}

#[test]
fn rcm_015_a_clean_end_is_eof_and_any_other_end_fails_readers_and_writers() {
    let mut state = SessionState::new(&client(ChannelProtocol::V5));
    state.receive(message(STDOUT, b"tail")).unwrap();
    state.finish(Ok(()));
    assert_eq!(read(&mut state, STDOUT), Poll::Ready(Some(Bytes::from("tail"))));
    assert_eq!(read(&mut state, STDOUT), Poll::Ready(None));
    assert_eq!(write(&mut state, STDIN, b"x"), Poll::Ready(Err(io::ErrorKind::BrokenPipe)));

    let mut state = SessionState::new(&client(ChannelProtocol::V5));
    state.receive(message(STDOUT, b"tail")).unwrap();
    state.finish(Err(ChannelError::Closed { code: 1006, reason: String::new() }));
    assert_eq!(read(&mut state, STDOUT), Poll::Ready(Some(Bytes::from("tail"))));
    let Poll::Ready(Err(error)) = state.poll_read(STDOUT, &mut BytesMut::new(), &mut context()) else {
        panic!("not the end of the data")
    };
    assert!(matches!(*error, ChannelError::Closed { code: 1006, .. }));
    assert_eq!(write(&mut state, STDIN, b"x"), Poll::Ready(Err(io::ErrorKind::ConnectionAborted)));
}

/// Counts how often a task is woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_full_channel_wakes_the_driver_when_it_is_read() {
    let mut state = SessionState::new(&client(ChannelProtocol::V5));
    let woken = Arc::new(Count::default());
    state.register_driver(&Waker::from(Arc::clone(&woken)));
    let payload = vec![0; INBOUND_LIMIT / 4];
    for _ in 0..4 {
        assert_eq!(state.receive(message(STDOUT, &payload)).unwrap(), Receipt::Accepted);
    }
    assert!(matches!(state.receive(message(STDOUT, b"held")).unwrap(), Receipt::Full(_)));
    assert_eq!(woken.0.load(Ordering::Relaxed), 0);
    assert_eq!(read(&mut state, STDOUT), Poll::Ready(Some(vec![0; INBOUND_LIMIT].into())));
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
}

#[test]
fn the_reader_of_several_messages_is_woken_once() {
    let mut state = SessionState::new(&client(ChannelProtocol::V5));
    let woken = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&woken));
    assert!(state.poll_read(STDOUT, &mut BytesMut::new(), &mut Context::from_waker(&waker)).is_pending());
    assert_eq!(state.receive(message(STDOUT, b"a")).unwrap(), Receipt::Accepted);
    assert_eq!(state.receive(message(STDOUT, b"b")).unwrap(), Receipt::Accepted);
    assert_eq!(woken.0.load(Ordering::Relaxed), 0);
    state.take_due().wake();
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
}
