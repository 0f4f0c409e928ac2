use http_body::Body as _;
use http_body_util::BodyExt;
use tokio::time::sleep;

use super::*;
use crate::http_types::FrameStream;

/// Sends frames at once, or never.
struct Frames(usize, usize);

impl FrameStream for Frames {
    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, ConnectionCut>>> {
        match self.0.checked_sub(1) {
            Some(left) => {
                self.0 = left;
                Poll::Ready(Some(Ok(Bytes::from(vec![0; self.1]))))
            }
            None => Poll::Pending,
        }
    }
}

fn in_flight() -> (Arc<Activity>, InFlight) {
    let activity = Arc::new(Activity::default());
    (Arc::clone(&activity), InFlight::start(activity, Instant::now()))
}

#[tokio::test(start_paused = true)]
async fn sec_65_a_stream_whose_response_is_not_read_is_reset() {
    let start = Instant::now();
    until_stalled(async {
        let mut body = NetworkBody::new(Body::stream(Frames(9, 10)), in_flight().1);
        for _ in 0..3 {
            body.frame().await.unwrap().unwrap();
            // Slow, but reading.
            sleep(STALL_LIMIT / 2).await;
        }
        std::future::pending::<()>().await;
        drop(body);
    })
    .await;
    assert_eq!(start.elapsed(), STALL_LIMIT * 2, "from the last frame");
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_is_not_stalled() {
    let watch = until_stalled(async {
        let mut body = NetworkBody::new(Body::stream(Frames(1, 10)), in_flight().1);
        while body.frame().await.is_some() {}
    });
    assert!(tokio::time::timeout(STALL_LIMIT * 100, watch).await.is_err(), "the client has read all events");
}

#[tokio::test]
async fn large_frames_are_passed_to_http2_in_parts() {
    let mut sizes = Vec::new();
    until_stalled(async {
        let mut body = NetworkBody::new(Body::whole(vec![1; HTTP2_PART * 2 + 5]), in_flight().1);
        assert_eq!(body.size_hint().exact(), Some(HTTP2_PART as u64 * 2 + 5));
        while let Some(frame) = body.frame().await {
            sizes.push(frame.unwrap().into_data().unwrap().len());
            assert_eq!(body.is_end_stream(), sizes.len() == 3);
        }
    })
    .await;
    assert_eq!(sizes, [HTTP2_PART, HTTP2_PART, 5]);
}

#[tokio::test(start_paused = true)]
async fn a_request_is_in_flight_until_its_body_is_dropped() {
    let (activity, in_flight) = in_flight();
    let body = NetworkBody::new(Body::whole("x"), in_flight);
    assert_eq!(activity.idle_since(), None);
    tokio::time::advance(Duration::from_secs(3)).await;
    drop(body);
    assert_eq!(activity.idle_since(), Some(Duration::from_secs(3)));
    activity.upgrade();
    assert_eq!(activity.idle_since(), None, "a session is in use until it ends");
}
