//! An open watch.

use std::io;
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::http::{self, Counted, Request};
use super::pieces::Pieces;
use super::shards::{Places, Selection};
use super::wire::Wire;
use super::{Command, Served, Server};

/// Interval of bookmarks.
const BOOKMARKS: Duration = Duration::from_secs(60);
/// Interval at which an idle watch checks its connection.
const LOOK: Duration = Duration::from_millis(100);

pub(super) struct Watch<'a> {
    server: &'a Server,
    served: &'a Served,
    wire: Wire,
    selection: Selection,
    initial: bool,
    bookmarks: bool,
    end: Option<Instant>,
}

/// The next step of an idle watch.
enum Next {
    Do(Command),
    Bookmark,
    End,
}

impl<'a> Watch<'a> {
    pub(super) fn new(
        server: &'a Server,
        served: &'a Served,
        wire: Wire,
        request: &Request,
        selection: Selection,
    ) -> Self {
        let seconds = request.number("timeoutSeconds");
        Watch {
            server,
            served,
            wire,
            selection,
            initial: request.is("sendInitialEvents"),
            bookmarks: request.is("allowWatchBookmarks"),
            end: seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds as u64)),
        }
    }

    pub(super) fn serve(&self, stream: &mut TcpStream, commands: &Receiver<Command>) -> io::Result<()> {
        let kind = &self.served.kind;
        let is_wanted = |places: &Places| self.selection.contains(places);
        let mut version = self.served.objects.list_version();
        let mut out = Counted { stream, sent: &self.server.sent };
        http::begin(&mut out, self.wire.content_type(true))?;
        if self.initial {
            let form = self.served.form(self.wire)?;
            let wanted = (0..form.items.len()).filter(|number| is_wanted(form.items.tag(*number)));
            let events = wanted.flat_map(|number| {
                let object = self.wire.of_item(form.items.get(number));
                [form.heads.get(number), object, self.wire.event_tail()]
            });
            http::send_pieces(&mut out, events)?;
            http::send_pieces(&mut out, [self.wire.bookmark(kind, version, true).as_slice()].into_iter())?;
        }
        loop {
            self.server.waiting.fetch_add(1, Ordering::AcqRel);
            let next = self.next(out.stream, commands);
            self.server.waiting.fetch_sub(1, Ordering::AcqRel);
            match next {
                Next::Do(Command::Storm(updates, count)) => {
                    http::send_pieces(&mut out, updates.of(self.wire)?.selected(0..count, is_wanted))?;
                    version = version.max(self.served.objects.list_version() + count);
                }
                Next::Do(Command::Trickle(updates, events, gap)) => {
                    let updates = updates.of(self.wire)?;
                    for event in events.filter(|event| is_wanted(updates.tag(*event))) {
                        std::thread::sleep(gap);
                        self.written_now();
                        http::send_pieces(&mut out, updates.slices(event..event + 1))?;
                    }
                }
                Next::Do(Command::Relist) => {
                    http::send_pieces(&mut out, [self.wire.expired().as_slice()].into_iter())?;
                    return http::end(&mut out);
                }
                Next::Bookmark if self.bookmarks => {
                    let bookmark = self.wire.bookmark(kind, version, false);
                    http::send_pieces(&mut out, [bookmark.as_slice()].into_iter())?;
                }
                Next::Bookmark => {}
                Next::End => return http::end(&mut out),
            }
        }
    }

    fn next(&self, stream: &TcpStream, commands: &Receiver<Command>) -> Next {
        let since = Instant::now();
        loop {
            match commands.recv_timeout(LOOK) {
                Ok(command) => return Next::Do(command),
                Err(RecvTimeoutError::Disconnected) => return Next::End,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = Instant::now();
            if http::is_gone(stream) || self.end.is_some_and(|end| end <= now) {
                return Next::End;
            }
            if now - since > BOOKMARKS {
                return Next::Bookmark;
            }
        }
    }

    /// Records when an event is about to be written, by the clock that all programs share.
    fn written_now(&self) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut written = self.server.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.push(now.as_nanos() as u64);
    }
}

/// The updates of a storm, in the requested formats.
#[derive(Clone, Default)]
pub(super) struct Updates {
    pub(super) json: Option<Arc<Pieces<Places>>>,
    pub(super) protobuf: Option<Arc<Pieces<Places>>>,
}

impl Updates {
    pub(super) fn place(&mut self, wire: Wire) -> &mut Option<Arc<Pieces<Places>>> {
        match wire {
            Wire::Json => &mut self.json,
            Wire::Protobuf => &mut self.protobuf,
        }
    }

    pub(super) fn of(&self, wire: Wire) -> io::Result<&Pieces<Places>> {
        let updates = match wire {
            Wire::Json => self.json.as_deref(),
            Wire::Protobuf => self.protobuf.as_deref(),
        };
        updates.ok_or_else(|| io::Error::other("updates that were not prepared"))
    }
}
