//! Watch faults on frames: a chain of small state machines, each fed one frame at a time.
//!
//! No clock runs here. A stage that needs a delay emits [`FaultOutput::Pause`], or returns from [`Chain::flush_after`] how
//! long it holds frames back; the driver of the chain has the timer.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use evenkeel_core::Status;

use super::framing::Framing;
use super::rule::{ExpireForm, WatchAction};

/// The next output of a faulty stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FaultOutput {
    /// Sends these bytes, in one piece.
    Send(Bytes),
    /// Sends nothing for this long.
    Pause(Duration),
    /// Ends the body cleanly.
    End,
    /// Breaks the connection.
    ConnectionCut,
}

/// Faults applied to one stream, in the order of their rules.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    framing: Framing,
    stages: Vec<Stage>,
}

#[derive(Debug)]
struct Stage {
    action: WatchAction,
    /// Events so far.
    events: u64,
    /// Bytes passed so far.
    bytes: u64,
    held: Vec<Bytes>,
    withheld: bool,
}

impl Chain {
    /// Returns an empty chain for a stream of this framing.
    pub(crate) fn new(framing: Framing) -> Self {
        Chain { framing, stages: Vec::new() }
    }

    pub(crate) fn push(&mut self, action: WatchAction) {
        self.stages.push(Stage { action, events: 0, bytes: 0, held: Vec::new(), withheld: false });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// Processes the frames of a chunk of the original stream.
    pub(crate) fn feed(&mut self, mut chunk: Bytes, out: &mut VecDeque<FaultOutput>) {
        while !chunk.is_empty() {
            let frame = self.framing.take(&mut chunk);
            self.run(0, FaultOutput::Send(frame), out);
        }
    }

    /// Processes the end of the original stream: stages release held frames.
    pub(crate) fn end(&mut self, out: &mut VecDeque<FaultOutput>) {
        self.flush(out);
        out.push_back(FaultOutput::End);
    }

    /// Returns how long the stages hold frames back.
    pub(crate) fn flush_after(&self) -> Option<Duration> {
        self.stages
            .iter()
            .filter_map(|stage| match stage.action {
                WatchAction::CoalesceFrames { wait, .. } if !stage.held.is_empty() => Some(wait),
                _ => None,
            })
            .min()
    }

    /// Makes every stage release its held frames.
    pub(crate) fn flush(&mut self, out: &mut VecDeque<FaultOutput>) {
        for index in 0..self.stages.len() {
            let mut released = Vec::new();
            if let Some(stage) = self.stages.get_mut(index) {
                stage.release(&mut released);
            }
            for step in released {
                self.run(index + 1, step, out);
            }
        }
    }

    fn run(&mut self, index: usize, step: FaultOutput, out: &mut VecDeque<FaultOutput>) {
        let frame = match (step, self.stages.get_mut(index)) {
            (FaultOutput::Send(frame), Some(_)) => frame,
            (step, _) => return out.push_back(step),
        };
        let mut produced = Vec::new();
        if let Some(stage) = self.stages.get_mut(index) {
            stage.feed(frame, self.framing, &mut produced);
        }
        for step in produced {
            self.run(index + 1, step, out);
        }
    }
}

impl Stage {
    fn feed(&mut self, frame: Bytes, framing: Framing, out: &mut Vec<FaultOutput>) {
        let index = self.events;
        self.events += 1;
        match &self.action {
            WatchAction::CloseAfterEvents(events) => {
                if index < *events {
                    out.push(FaultOutput::Send(frame));
                }
                if index + 1 >= *events {
                    out.push(FaultOutput::End);
                }
            }
            WatchAction::CloseAfterBytes(limit) => {
                let left = limit.saturating_sub(self.bytes);
                self.bytes += frame.len() as u64;
                match usize::try_from(left) {
                    Ok(left) if left <= frame.len() => {
                        send_some(frame.slice(..left), out);
                        out.push(FaultOutput::End);
                    }
                    _ => out.push(FaultOutput::Send(frame)),
                }
            }
            WatchAction::CloseMidFrame { event, byte } if index == *event => {
                send_some(frame.slice(..frame.len().min(*byte)), out);
                out.push(FaultOutput::ConnectionCut);
            }
            WatchAction::TruncateFrame { event, byte } if index == *event => {
                send_some(frame.slice(..frame.len().min(*byte)), out);
                out.push(FaultOutput::End);
            }
            WatchAction::CorruptFrame { event, byte } if index == *event => {
                out.push(FaultOutput::Send(framing.corrupt(frame, *byte)));
            }
            WatchAction::SplitFrame { sizes } => split(frame, sizes, out),
            WatchAction::CoalesceFrames { events, .. } => {
                self.held.push(frame);
                if self.held.len() >= *events {
                    out.push(FaultOutput::Send(joined(&mut self.held)));
                }
            }
            WatchAction::DuplicateEvent { event } if index == *event => {
                out.push(FaultOutput::Send(frame.clone()));
                out.push(FaultOutput::Send(frame));
            }
            WatchAction::SkipEvent { event } if index == *event => {}
            WatchAction::Reorder { first, second } if (*first..=*second).contains(&index) => {
                self.held.push(frame);
                if index == *second {
                    let last = self.held.len() - 1;
                    self.held.swap(0, last);
                    out.extend(self.held.drain(..).map(FaultOutput::Send));
                }
            }
            WatchAction::Expire { event, form: ExpireForm::Event } if index == *event => {
                out.push(FaultOutput::Send(framing.error(&expired())));
                out.push(FaultOutput::End);
            }
            WatchAction::BookmarkOnly => {
                self.withheld |= !framing.is_bookmark(&frame);
                if !self.withheld {
                    out.push(FaultOutput::Send(frame));
                }
            }
            WatchAction::NoBookmarks if framing.is_bookmark(&frame) => {}
            WatchAction::EarlyInitialEnd if framing.is_initial_end(&frame) => {
                self.withheld = true;
                out.push(FaultOutput::Send(frame));
                out.extend(self.held.drain(..).map(FaultOutput::Send));
            }
            WatchAction::EarlyInitialEnd if !self.withheld => {
                out.extend(self.held.drain(..).map(FaultOutput::Send));
                self.held.push(frame);
            }
            WatchAction::StallFor { event, duration } if index == *event => {
                out.push(FaultOutput::Pause(*duration));
                out.push(FaultOutput::Send(frame));
            }
            WatchAction::ErrorEvent { event, status } if index == *event => {
                out.push(FaultOutput::Send(framing.error(status)));
                out.push(FaultOutput::End);
            }
            WatchAction::UnknownEventType { event } if index == *event => {
                out.push(FaultOutput::Send(framing.surprise("SURPRISE")));
                out.push(FaultOutput::Send(frame));
            }
            WatchAction::WrongKindObject { event } if index == *event => {
                out.push(FaultOutput::Send(framing.surprise("ADDED")));
                out.push(FaultOutput::Send(frame));
            }
            _ => out.push(FaultOutput::Send(frame)),
        }
    }

    fn release(&mut self, out: &mut Vec<FaultOutput>) {
        if self.held.is_empty() {
            return;
        }
        match self.action {
            WatchAction::CoalesceFrames { .. } => out.push(FaultOutput::Send(joined(&mut self.held))),
            _ => out.extend(self.held.drain(..).map(FaultOutput::Send)),
        }
    }
}

/// Returns the status of an injected expiry.
pub(crate) fn expired() -> Status {
    Status::expired("too old resource version: 1 (2)")
}

fn send_some(bytes: Bytes, out: &mut Vec<FaultOutput>) {
    if !bytes.is_empty() {
        out.push(FaultOutput::Send(bytes));
    }
}

fn split(mut frame: Bytes, sizes: &[usize], out: &mut Vec<FaultOutput>) {
    let mut sizes = sizes.iter().copied();
    let mut size = 1;
    while !frame.is_empty() {
        size = sizes.next().unwrap_or(size).max(1);
        out.push(FaultOutput::Send(frame.split_to(size.min(frame.len()))));
    }
}

fn joined(held: &mut Vec<Bytes>) -> Bytes {
    let mut all = BytesMut::with_capacity(held.iter().map(Bytes::len).sum());
    for frame in held.drain(..) {
        all.extend_from_slice(&frame);
    }
    all.freeze()
}
