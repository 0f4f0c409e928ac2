//! An open watch.

use std::io;
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::http::{self, Request};
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
    pub(super) fn new(server: &'a Server, served: &'a Served, wire: Wire, request: &Request) -> Self {
        let seconds = request.number("timeoutSeconds");
        Watch {
            server,
            served,
            wire,
            initial: request.is("sendInitialEvents"),
            bookmarks: request.is("allowWatchBookmarks"),
            end: seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds as u64)),
        }
    }

    pub(super) fn serve(&self, stream: &mut TcpStream, commands: &Receiver<Command>) -> io::Result<()> {
        let kind = &self.served.kind;
        let mut version = self.served.objects.list_version();
        http::begin(stream, self.wire.content_type(true))?;
        if self.initial {
            let form = self.served.form(self.wire)?;
            let events = (0..form.items.len()).flat_map(|number| {
                let object = self.wire.of_item(form.items.get(number));
                [form.heads.get(number), object, self.wire.event_tail()]
            });
            http::send_pieces(stream, events)?;
            http::send_pieces(stream, [self.wire.bookmark(kind, version, true).as_slice()].into_iter())?;
        }
        loop {
            self.server.waiting.fetch_add(1, Ordering::AcqRel);
            let next = self.next(stream, commands);
            self.server.waiting.fetch_sub(1, Ordering::AcqRel);
            match next {
                Next::Do(Command::Storm(updates, count)) => {
                    http::send_pieces(stream, updates.of(self.wire)?.slices(0..count))?;
                    version = version.max(self.served.objects.list_version() + count);
                }
                Next::Do(Command::Trickle(updates, events, gap)) => {
                    let updates = updates.of(self.wire)?;
                    for event in events {
                        std::thread::sleep(gap);
                        self.written_now();
                        http::send_pieces(stream, updates.slices(event..event + 1))?;
                    }
                }
                Next::Do(Command::Relist) => {
                    http::send_pieces(stream, [self.wire.expired().as_slice()].into_iter())?;
                    return http::end(stream);
                }
                Next::Bookmark if self.bookmarks => {
                    let bookmark = self.wire.bookmark(kind, version, false);
                    http::send_pieces(stream, [bookmark.as_slice()].into_iter())?;
                }
                Next::Bookmark => {}
                Next::End => return http::end(stream),
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
    pub(super) json: Option<Arc<super::Pieces>>,
    pub(super) protobuf: Option<Arc<super::Pieces>>,
}

impl Updates {
    pub(super) fn place(&mut self, wire: Wire) -> &mut Option<Arc<super::Pieces>> {
        match wire {
            Wire::Json => &mut self.json,
            Wire::Protobuf => &mut self.protobuf,
        }
    }

    fn of(&self, wire: Wire) -> io::Result<&super::Pieces> {
        let updates = match wire {
            Wire::Json => self.json.as_deref(),
            Wire::Protobuf => self.protobuf.as_deref(),
        };
        updates.ok_or_else(|| io::Error::other("updates that were not prepared"))
    }
}
