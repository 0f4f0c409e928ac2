//! Server-sent events: what they look like and when they come.

use std::pin::pin;

use http_body_util::BodyExt;
use tokio::sync::watch;

use super::super::stream::{HEARTBEAT, Place, Stream, frame};
use super::super::viewer::Viewer;
use super::*;
use crate::serve::Line;

fn stream(inspector: &Inspector) -> (Stream, watch::Sender<bool>) {
    let (stop, stopped) = watch::channel(false);
    let place = Place::take(inner(inspector)).unwrap();
    (Stream::new(inner(inspector), Viewer::new(None), Line::new(stopped), place), stop)
}

async fn next(stream: &mut Stream) -> Option<String> {
    let data = stream.frame().await?.unwrap().into_data().unwrap();
    Some(String::from_utf8(data.to_vec()).unwrap())
}

#[test]
fn an_event_is_one_line_whatever_is_in_it() {
    let framed = frame(&json!({"text": "two\nlines\r\nand: more"}));
    assert_eq!(framed, "data: {\"text\":\"two\\nlines\\r\\nand: more\"}\n\n");
}

#[tokio::test(start_paused = true)]
async fn everything_comes_at_once_then_what_is_new_at_most_four_times_a_second() {
    let inspector = Inspector::new();
    let (mut stream, _stop) = stream(&inspector);
    let begun = Instant::now();
    let first = next(&mut stream).await.unwrap();
    assert!(first.starts_with("retry: 1000\n\ndata: {") && first.ends_with("}\n\n"), "{first}");
    assert_eq!(begun.elapsed(), Duration::ZERO);
    for turn in 1..5u32 {
        inspector.note(turn);
        let told = next(&mut stream).await.unwrap();
        assert!(told.contains(&format!("\"text\":\"{turn}\"")), "{told}");
        assert_eq!(begun.elapsed(), Duration::from_millis(250) * turn);
    }
}

#[tokio::test(start_paused = true)]
async fn while_nothing_happens_it_is_only_said_that_somebody_is_there() {
    let inspector = Inspector::new();
    let (mut stream, _stop) = stream(&inspector);
    next(&mut stream).await.unwrap();
    let begun = Instant::now();
    for turn in 1..4 {
        assert_eq!(next(&mut stream).await.unwrap(), "event: alive\ndata:\n\n");
        assert_eq!(begun.elapsed(), HEARTBEAT * turn);
    }
}

#[tokio::test(start_paused = true)]
async fn it_ends_when_the_server_does() {
    let inspector = Inspector::new();
    let (mut stream, stop) = stream(&inspector);
    next(&mut stream).await.unwrap();
    let mut waiting = pin!(next(&mut stream));
    assert!(tokio::time::timeout(Duration::from_secs(1), &mut waiting).await.is_err());
    stop.send_replace(true);
    assert_eq!(waiting.await, None);
}

#[tokio::test(start_paused = true)]
async fn there_are_only_so_many_places_and_one_that_is_left_is_free() {
    let inspector = Inspector::new();
    let mut streams: Vec<_> = (0..STREAMS).map(|_| stream(&inspector)).collect();
    assert!(Place::take(inner(&inspector)).is_none());
    streams.pop();
    assert!(Place::take(inner(&inspector)).is_some());
}
