//! Response bodies with injected faults: the timers around [`Chain`], and cuts after a number of bytes.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::Body as _;
use tokio::time::{Sleep, sleep};

use super::service::ServerShared;
use crate::faults::WatchAction;
use crate::faults::framing::Framing;
use crate::faults::stages::{Chain, FaultOutput};
use crate::faults::subject::Subject;
use crate::http_types::{Body, ConnectionCut, FrameStream};

/// The time that the transport gets to send pending bytes before a connection is cut.
const CUT_DELAY: Duration = Duration::from_millis(5);

/// A watch body that applies fault rules, including those added while it is open.
pub(crate) struct FaultInjectingWatch {
    /// `None` once the watch has ended for the client.
    inner: Option<Body>,
    shared: Arc<ServerShared>,
    subject: Subject,
    /// The newest rule that was considered.
    seen: u64,
    chain: Chain,
    outputs: VecDeque<FaultOutput>,
    pause: Option<Pin<Box<Sleep>>>,
    flush_timer: Option<Pin<Box<Sleep>>>,
    cut_timer: Option<Pin<Box<Sleep>>>,
}

impl FaultInjectingWatch {
    pub(crate) fn new(
        inner: Body,
        shared: Arc<ServerShared>,
        subject: Subject,
        seen: u64,
        actions: Vec<WatchAction>,
        framing: Framing,
    ) -> Self {
        let mut chain = Chain::new(framing);
        for action in actions {
            chain.push(action);
        }
        FaultInjectingWatch {
            inner: Some(inner),
            shared,
            subject,
            seen,
            chain,
            outputs: VecDeque::new(),
            pause: None,
            flush_timer: None,
            cut_timer: None,
        }
    }

    fn apply_new_rules(&mut self) {
        let newest = self.shared.faults.newest();
        if newest == self.seen {
            return;
        }
        let shared = &self.shared;
        let actions =
            shared.faults.newer_watch_faults(&self.subject, self.seen, shared.uptime(), &mut || shared.env.random());
        for action in actions {
            self.chain.push(action);
        }
        self.seen = newest;
    }

    /// Ready when no chunk of the engine's stream arrived in time: held frames may be due.
    fn poll_flush_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(wait) = self.chain.flush_after() else {
            self.flush_timer = None;
            return Poll::Pending;
        };
        let flush_timer = self.flush_timer.get_or_insert_with(|| Box::pin(sleep(wait)));
        ready!(flush_timer.as_mut().poll(cx));
        self.flush_timer = None;
        self.chain.flush(&mut self.outputs);
        Poll::Ready(())
    }
}

impl FrameStream for FaultInjectingWatch {
    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ConnectionCut>>> {
        let this = self.get_mut();
        loop {
            if let Some(pause) = &mut this.pause {
                ready!(pause.as_mut().poll(cx));
                this.pause = None;
            }
            match this.outputs.front() {
                Some(FaultOutput::Pause(duration)) => {
                    this.pause = Some(Box::pin(sleep(*duration)));
                    this.outputs.pop_front();
                    continue;
                }
                Some(FaultOutput::End) => {
                    this.inner = None;
                    return Poll::Ready(None);
                }
                Some(FaultOutput::ConnectionCut) => {
                    this.inner = None;
                    let cut_timer = this.cut_timer.get_or_insert_with(|| Box::pin(sleep(CUT_DELAY)));
                    ready!(cut_timer.as_mut().poll(cx));
                    return Poll::Ready(Some(Err(ConnectionCut)));
                }
                Some(FaultOutput::Send(_)) => {
                    if let Some(FaultOutput::Send(bytes)) = this.outputs.pop_front() {
                        return Poll::Ready(Some(Ok(bytes)));
                    }
                }
                None => {}
            }
            let Some(inner) = &mut this.inner else {
                return Poll::Ready(None);
            };
            match Pin::new(inner).poll_frame(cx) {
                Poll::Pending => ready!(this.poll_flush_timer(cx)),
                Poll::Ready(Some(Err(cut))) => return Poll::Ready(Some(Err(cut))),
                Poll::Ready(None) => this.chain.end(&mut this.outputs),
                Poll::Ready(Some(Ok(frame))) => {
                    this.apply_new_rules();
                    if let Ok(chunk) = frame.into_data() {
                        // Without faults, frames pass unchanged, however many events they hold.
                        if this.chain.is_empty() {
                            return Poll::Ready(Some(Ok(chunk)));
                        }
                        this.chain.feed(chunk, &mut this.outputs);
                    }
                }
            }
        }
    }
}

/// A body that fails after a number of bytes.
pub(crate) struct CutAfterBytes {
    inner: Body,
    left: u64,
    cut_timer: Option<Pin<Box<Sleep>>>,
}

impl CutAfterBytes {
    pub(crate) fn new(inner: Body, bytes: u64) -> Self {
        CutAfterBytes { inner, left: bytes, cut_timer: None }
    }
}

impl FrameStream for CutAfterBytes {
    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ConnectionCut>>> {
        let this = self.get_mut();
        loop {
            if this.left == 0 {
                let cut_timer = this.cut_timer.get_or_insert_with(|| Box::pin(sleep(CUT_DELAY)));
                ready!(cut_timer.as_mut().poll(cx));
                return Poll::Ready(Some(Err(ConnectionCut)));
            }
            let frame = match ready!(Pin::new(&mut this.inner).poll_frame(cx)) {
                None => return Poll::Ready(None),
                Some(Err(cut)) => return Poll::Ready(Some(Err(cut))),
                Some(Ok(frame)) => frame,
            };
            if let Ok(mut bytes) = frame.into_data() {
                bytes.truncate(usize::try_from(this.left).unwrap_or(usize::MAX));
                this.left -= bytes.len() as u64;
                return Poll::Ready(Some(Ok(bytes)));
            }
        }
    }
}
