//! Tests of the server-sent events: format and timing.

use std::pin::pin;

use evenkeel_base::http::ShutdownSignal;
use http_body_util::BodyExt;
use tokio::sync::watch;

use super::super::session::PageSession;
use super::super::stream::{EventStream, HEARTBEAT, StreamSlot, frame};
use super::*;
use crate::serve::Connection;

fn stream(inspector: &Inspector) -> (EventStream, watch::Sender<bool>) {
    let (stop, signal) = ShutdownSignal::channel();
    let slot = StreamSlot::acquire(inner(inspector)).unwrap();
    (EventStream::new(inner(inspector), PageSession::new(None), Connection::new(signal), slot), stop)
}

async fn next(stream: &mut EventStream) -> Option<String> {
    let data = stream.frame().await?.unwrap().into_data().unwrap();
    Some(String::from_utf8(data.to_vec()).unwrap())
}

#[test]
fn an_event_is_one_line_even_if_a_text_has_line_breaks() {
    let framed = frame(&json!({"text": "two\nlines\r\nand: more"}));
    assert_eq!(framed, "data: {\"text\":\"two\\nlines\\r\\nand: more\"}\n\n");
}

#[tokio::test(start_paused = true)]
async fn the_full_report_is_sent_at_once_and_changes_at_most_four_times_a_second() {
    let inspector = Inspector::new();
    let (mut stream, _stop) = stream(&inspector);
    let start = Instant::now();
    let first = next(&mut stream).await.unwrap();
    assert!(first.starts_with("retry: 1000\n\ndata: {") && first.ends_with("}\n\n"), "{first}");
    assert_eq!(start.elapsed(), Duration::ZERO);
    for index in 1..5u32 {
        inspector.note(index);
        let sent = next(&mut stream).await.unwrap();
        assert!(sent.contains(&format!("\"text\":\"{index}\"")), "{sent}");
        assert_eq!(start.elapsed(), Duration::from_millis(250) * index);
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_stream_sends_only_heartbeats() {
    let inspector = Inspector::new();
    let (mut stream, _stop) = stream(&inspector);
    next(&mut stream).await.unwrap();
    let start = Instant::now();
    for index in 1..4 {
        assert_eq!(next(&mut stream).await.unwrap(), "event: alive\ndata:\n\n");
        assert_eq!(start.elapsed(), HEARTBEAT * index);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_when_the_server_shuts_down() {
    let inspector = Inspector::new();
    let (mut stream, stop) = stream(&inspector);
    next(&mut stream).await.unwrap();
    let mut waiting = pin!(next(&mut stream));
    assert!(tokio::time::timeout(Duration::from_secs(1), &mut waiting).await.is_err());
    stop.send_replace(true);
    assert_eq!(waiting.await, None);
}

#[tokio::test(start_paused = true)]
async fn the_number_of_streams_is_limited_and_a_closed_one_frees_its_slot() {
    let inspector = Inspector::new();
    let mut streams: Vec<_> = (0..STREAMS).map(|_| stream(&inspector)).collect();
    assert!(StreamSlot::acquire(inner(&inspector)).is_none());
    streams.pop();
    assert!(StreamSlot::acquire(inner(&inspector)).is_some());
}
