use std::convert::Infallible;

use http_body_util::BodyExt;

use super::*;

/// A body of this many chunks of this size, each after a delay, of unknown length.
struct Pieces {
    left: usize,
    size: usize,
    pause: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Pieces {
    fn new(count: usize, size: usize) -> Self {
        Pieces { left: count, size, pause: Duration::ZERO, sleep: None }
    }
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        if !self.pause.is_zero() {
            let pause = self.pause;
            ready!(self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(pause))).as_mut().poll(context));
            self.sleep = None;
        }
        self.left -= 1;
        Poll::Ready(Some(Ok(Frame::data(vec![b'x'; self.size].into()))))
    }
}

fn slow(count: usize, pause: u64) -> Body {
    Body::new(Pieces { pause: Duration::from_secs(pause), ..Pieces::new(count, 1) })
}

#[tokio::test(start_paused = true)]
async fn a_body_has_no_timeout_while_data_arrives() {
    let body = IdleTimeoutBody::new(slow(100, 59), Duration::from_secs(60), "server");
    assert_eq!(body.collect().await.unwrap().to_bytes().len(), 100);

    let begin = Instant::now();
    let mut body = IdleTimeoutBody::new(slow(2, 61), Duration::from_secs(60), "server");
    let error = body.frame().await.unwrap().unwrap_err();
    let error: Box<TransportError> = error.downcast().unwrap();
    assert_eq!((error.fault(), error.host()), (TransportFault::Timeout, "server"));
    assert_eq!(begin.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn the_idle_timeout_runs_only_while_the_body_is_polled() {
    let mut body = IdleTimeoutBody::new(slow(3, 10), Duration::from_secs(60), "server");
    for _ in 0..3 {
        body.frame().await.unwrap().unwrap();
        tokio::time::sleep(Duration::from_secs(1_000)).await;
    }
    assert!(body.frame().await.is_none());
}
