use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use http_body::Body as _;

use super::*;
use crate::http_types::{Body, ConnectionCut, FrameStream};

const MIB: usize = 1 << 20;

#[test]
fn bud_8_a_full_store_refuses_growth_and_nothing_else() {
    let memory = Memory::new(64 * MIB);
    memory.set_store(40, 46 * MIB, MIB);
    memory.admit_write(None, 100 * 1024, false).unwrap();
    let full = memory.admit_write(None, 2 * MIB, false).unwrap_err();
    assert_eq!((full.code, full.message.as_str()), (500, "etcdserver: mvcc: database space exceeded"));
    memory.admit_write(Some(2 * MIB), 2 * MIB, false).unwrap();
    memory.admit_write(Some(2 * MIB), MIB, false).unwrap();
    assert!(memory.admit_write(Some(10), 2 * MIB, false).is_err());
    memory.set_store(48, 48 * MIB, MIB);
    assert!(memory.admit_write(Some(100), 101, false).is_err());
    memory.admit_write(Some(100), 200, true).unwrap();
    assert!(memory.admit_write(Some(100), MIB, true).is_err(), "a deleting object is no way around the limit");
    assert!(memory.charge_encoding(1).is_none());
    assert_eq!(memory.stats().refused_writes, 4);
    memory.set_store(1, MIB, 0);
    memory.admit_write(None, 2 * MIB, false).unwrap();
}

#[test]
fn bud_8_cached_encodings_count_until_they_are_dropped() {
    let memory = Memory::new(64 * MIB);
    let cached = memory.charge_encoding(40 * MIB).unwrap();
    assert!(memory.charge_encoding(10 * MIB).is_none());
    assert!(memory.admit_write(None, 10 * MIB, false).is_err());
    assert_eq!((memory.stats().encodings, memory.stats().used()), (40 * MIB, 40 * MIB));
    drop(cached);
    memory.admit_write(None, 10 * MIB, false).unwrap();
}

#[test]
fn bud_10_bodies_in_flight_are_limited_per_connection_and_per_server() {
    // The share of bodies is 128 MiB.
    let memory = Arc::new(Memory::new(1024 * MIB));
    let connection = || Arc::new(ConnectionMemory::new(Arc::clone(&memory)));
    let greedy = connection();
    let body = |connection: &Arc<ConnectionMemory>, bytes| {
        let mut meter = BodyMeter::new(Some(Arc::clone(connection)));
        meter.grow_to(bytes).map(|()| meter)
    };
    let held: Vec<_> = (0..16).map(|_| body(&greedy, 2 * MIB).unwrap()).collect();
    let refused = body(&greedy, 1).unwrap_err();
    assert_eq!((refused.code, refused.retry_after().map(|wait| wait.as_secs())), (429, Some(1)));
    assert_eq!(memory.stats().request_bodies, 32 * MIB);

    // More greedy connections reach three quarters of the share; a modest one still has room.
    let greedy: Vec<_> = (0..4).map(|_| connection()).collect();
    let more: Vec<_> = (0..64).filter_map(|index| body(&greedy[index % 4], 4 * MIB).ok()).collect();
    assert!(memory.stats().request_bodies <= 96 * MIB + 4 * 4 * MIB, "{:?}", memory.stats());
    let modest = body(&connection(), 3 * MIB).unwrap();
    assert!(memory.stats().refused_bodies > 40);
    drop((held, more, modest));
    assert_eq!(memory.stats().request_bodies, 0);
}

#[test]
fn bud_10_a_growing_body_is_charged_once() {
    let memory = Arc::new(Memory::new(64 * MIB));
    let mut meter = BodyMeter::new(Some(Arc::new(ConnectionMemory::new(Arc::clone(&memory)))));
    for bytes in [100, 50, 200, 200] {
        meter.grow_to(bytes).unwrap();
    }
    assert_eq!(memory.stats().request_bodies, 200);
    BodyMeter::new(None).grow_to(usize::MAX).unwrap();
    assert_eq!(memory.stats().request_bodies, 200, "in-process bodies are the caller's");
}

/// Frames of one size without end.
struct Endless(usize);

impl FrameStream for Endless {
    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, ConnectionCut>>> {
        Poll::Ready(Some(Ok(vec![0; self.0].into())))
    }
}

#[derive(Default)]
struct CountWakes(AtomicUsize);

impl Wake for CountWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Returns the available frames, at most 1,000.
fn available(body: &mut Body, waker: &Waker) -> Vec<Bytes> {
    let mut body = pin!(body);
    let mut frames = Vec::new();
    while frames.len() < 1_000
        && let Poll::Ready(Some(Ok(frame))) = body.as_mut().poll_frame(&mut Context::from_waker(waker))
    {
        frames.push(frame.into_data().unwrap());
    }
    frames
}

#[test]
fn bud_11_a_response_is_encoded_no_faster_than_it_is_read() {
    let memory = Arc::new(Memory::new(1024 * MIB));
    let connection = Arc::new(ConnectionMemory::new(Arc::clone(&memory)));
    let mut body = Body::stream(Endless(MIB)).metered(&connection);
    let wakes = Arc::new(CountWakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut unread = available(&mut body, &waker);
    assert_eq!((unread.len(), memory.stats().responses), (8, 8 * MIB));
    assert_eq!(available(&mut body, &waker), Vec::<Bytes>::new());
    // A part of a frame keeps the whole frame.
    let part = unread.pop().unwrap().slice(..10);
    assert_eq!(available(&mut body, &waker).len(), 0);
    assert_eq!(wakes.0.load(Ordering::SeqCst), 0);
    drop(part);
    assert_eq!(wakes.0.load(Ordering::SeqCst), 1, "registered once, woken once");
    unread.extend(available(&mut body, &waker));
    assert_eq!(unread.len(), 8);
    drop(unread);
    assert_eq!(memory.stats().responses, 0);
}

#[test]
fn bud_11_a_connection_that_reads_is_served_while_others_hold_the_share() {
    // The share of responses is 8 MiB.
    let memory = Arc::new(Memory::new(64 * MIB));
    let connection = || Arc::new(ConnectionMemory::new(Arc::clone(&memory)));
    let (idle, reader) = (connection(), connection());
    let _unread = available(&mut Body::stream(Endless(MIB)).metered(&idle), Waker::noop());
    let mut body = Body::stream(Endless(MIB)).metered(&reader);
    for _ in 0..20 {
        assert_eq!(available(&mut body, Waker::noop()).len(), 1, "one frame at a time");
    }
    // A third connection that reads nothing adds one frame.
    let _frame = available(&mut Body::stream(Endless(MIB)).metered(&connection()), Waker::noop());
    assert_eq!(memory.stats().responses, 9 * MIB);
}

#[test]
fn bud_11_small_and_complete_bodies() {
    let memory = Arc::new(Memory::new(64 * MIB));
    let connection = Arc::new(ConnectionMemory::new(Arc::clone(&memory)));
    let small = Body::whole(vec![0; 100]).metered(&connection);
    assert_eq!((small.size_hint().exact(), memory.stats().responses), (Some(100), 0));
    let large = Body::whole(vec![0; 100_000]).metered(&connection);
    assert_eq!((large.size_hint().exact(), memory.stats().responses), (Some(100_000), 100_000));
    drop(large);
    assert_eq!(memory.stats().responses, 0);
    assert!(Body::whole("").metered(&connection).is_end_stream());
}
