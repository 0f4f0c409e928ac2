//! The driver: connects a [`SpdyState`](super::state::SpdyState) to a WebSocket.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Interval, MissedTickBehavior, Sleep, interval_at, sleep};

use super::Shared;
use super::error::SpdyError;
use super::frame::{Frame, FrameDecoder};
use super::state::FrameReceipt;
use super::tunnel::MessageTunnel;
use crate::channels::{ChannelError, Role};

/// The interval of pings, as in client-go.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// The longest time for the end of a connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Drives a connection to its end.
pub(super) fn drive<S>(io: S, role: Role, shared: Arc<Shared>) -> impl Future<Output = ()> + Send + use<S>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // Constructed outside of the future: handles must not wait for a future that is dropped before its first poll.
    let guard = AbortGuard(shared);
    async move {
        let mut driver = Driver {
            tunnel: MessageTunnel::new(io, role).await,
            decoder: FrameDecoder::new(),
            held: None,
            pings: (role == Role::Client).then(pings),
            close_deadline: None,
        };
        let end = poll_fn(|context| driver.poll(&guard.0, context)).await;
        guard.0.lock().finish(end);
    }
}

fn pings() -> Interval {
    let mut pings = interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pings
}

/// Ends the session when the driver is dropped.
struct AbortGuard(Arc<Shared>);

impl Drop for AbortGuard {
    fn drop(&mut self) {
        self.0.lock().finish(Err(SpdyError::Connection(ChannelError::Lost(None))));
    }
}

struct Driver<S> {
    tunnel: MessageTunnel<S>,
    decoder: FrameDecoder,
    /// A frame whose stream is full.
    held: Option<Frame>,
    pings: Option<Interval>,
    /// Set once the connection is to end.
    close_deadline: Option<Pin<Box<Sleep>>>,
}

/// The end of a connection.
type End = Result<(), SpdyError>;

impl<S: AsyncRead + AsyncWrite + Unpin> Driver<S> {
    fn poll(&mut self, shared: &Shared, context: &mut Context<'_>) -> Poll<End> {
        let polled = self.poll_connection(shared, context);
        let mut due = shared.lock().take_due();
        due.wake();
        polled
    }

    fn poll_connection(&mut self, shared: &Shared, context: &mut Context<'_>) -> Poll<End> {
        let is_cancelled = {
            let mut state = shared.lock();
            state.register_driver(context.waker());
            state.is_cancelled()
        };
        if is_cancelled {
            self.close_deadline.get_or_insert_with(|| Box::pin(sleep(CLOSE_TIMEOUT)));
        }
        if let Some(pings) = &mut self.pings {
            while pings.poll_tick(context).is_ready() {
                shared.lock().ping();
            }
        }
        // Both directions make progress independently: two peers that only write would wait for each other.
        loop {
            let received = match self.poll_receive(shared, context) {
                Poll::Ready(Some(end)) => return Poll::Ready(end),
                Poll::Ready(None) => true,
                Poll::Pending => false,
            };
            match self.poll_send(shared, context) {
                Poll::Ready(Err(error)) => return Poll::Ready(self.end_after(error, shared, context)),
                Poll::Ready(Ok(())) if is_cancelled && self.tunnel.close_sent() => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
            if !received {
                break;
            }
        }
        match &mut self.close_deadline {
            Some(deadline) => deadline.as_mut().poll(context).map(|()| Ok(())),
            None => Poll::Pending,
        }
    }

    /// Returns how the connection ended if nothing can be sent. The peer may have closed it before.
    fn end_after(&mut self, error: ChannelError, shared: &Shared, context: &mut Context<'_>) -> End {
        loop {
            match self.poll_receive(shared, context) {
                Poll::Ready(None) => {}
                Poll::Ready(Some(Ok(()))) => return Ok(()),
                Poll::Ready(Some(Err(_))) | Poll::Pending => return Err(error.into()),
            }
        }
    }

    /// Receives one message. Ready with `Some` at the end of the connection.
    fn poll_receive(&mut self, shared: &Shared, context: &mut Context<'_>) -> Poll<Option<End>> {
        match self.process_input(shared) {
            Ok(()) if self.held.is_some() => return Poll::Pending,
            Ok(()) => {}
            Err(error) => return Poll::Ready(Some(Err(error))),
        }
        match self.tunnel.poll_receive(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(None) => Poll::Ready(Some(Ok(()))),
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(Some(Ok(bytes))) => {
                self.decoder.feed(bytes);
                match self.process_input(shared) {
                    Ok(()) => Poll::Ready(None),
                    Err(error) => Poll::Ready(Some(Err(error))),
                }
            }
        }
    }

    /// Processes all frames that have arrived, until a stream is full.
    fn process_input(&mut self, shared: &Shared) -> Result<(), SpdyError> {
        let mut state = shared.lock();
        loop {
            let frame = match self.held.take() {
                Some(frame) => Some(frame),
                None => self.decoder.decode()?,
            };
            let Some(frame) = frame else { return Ok(()) };
            if let FrameReceipt::Full(frame) = state.receive(frame)? {
                self.held = Some(frame);
                return Ok(());
            }
        }
    }

    /// Sends all queued frames, and the close message after them.
    fn poll_send(&mut self, shared: &Shared, context: &mut Context<'_>) -> Poll<Result<(), ChannelError>> {
        while !self.tunnel.close_sent() {
            match self.tunnel.poll_ready(context) {
                Poll::Ready(Ok(())) => {}
                other => return other,
            }
            let next = {
                let mut state = shared.lock();
                state.next_frame().ok_or(state.is_closing())
            };
            match next {
                Ok(frame) => self.tunnel.send(frame)?,
                Err(true) => {
                    self.tunnel.close()?;
                    self.close_deadline.get_or_insert_with(|| Box::pin(sleep(CLOSE_TIMEOUT)));
                }
                Err(false) => break,
            }
        }
        self.tunnel.poll_flush(context)
    }
}
