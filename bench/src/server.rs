//! The load server: lists, watches and WatchLists, from bytes that exist before any request, so that the server is
//! not what is measured.
//!
//! Every client receives the same objects in their first state and then, on request, the same updates on its open
//! watches. The server supports HTTP/1.1, JSON and protobuf. A thread per connection writes without copying, many
//! events per system call; each event is a chunk of its own, as API servers send them. Besides the objects:
//!
//! - `POST /prepare?updates=N&wire=W` generates N updates in that format;
//! - `POST /storm?updates=N` sends the first N updates to every open watch, as fast as it is read;
//! - `POST /trickle?after=N&events=M&gap_us=G` sends the M updates after the first N one at a time, and `GET
//!   /written` returns when each was written, in nanoseconds since 1970;
//! - `POST /relist` ends every open watch with 410, so that its client relists. After a storm this leads back to the
//!   first state;
//! - `GET /watches` returns how many watches were opened so far and how many of them are idle;
//! - `POST /shards?filter=true` makes the server honour `shardSelector` in lists and watches; at first, and with `false`, it
//!   ignores the parameter, as servers without the feature do;
//! - `GET /selected?shardSelector=S&updates=N&wire=W` returns how many objects and how many of the first N updates a selector
//!   has, whether or not the server filters;
//! - `GET /sent` returns how many bytes lists and watches have sent.

mod http;
mod pieces;
mod shards;
mod watch;
pub(crate) mod wire;

use std::io::{self, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use self::http::{Counted, Request};
use self::pieces::Pieces;
use self::shards::{Places, Selection};
use self::watch::{Updates, Watch};
use self::wire::{ListMetadata, Wire, status};
use crate::Failure;
use crate::data::{Data, Kind, Objects};

/// Contents of the server.
#[derive(Debug, clap::Parser)]
pub(crate) struct Options {
    /// Data set.
    #[arg(long, value_enum, default_value_t = Data::Pods)]
    data: Data,
    /// Number of objects.
    #[arg(long, default_value_t = 50_000)]
    objects: usize,
    /// Wire formats.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "json,protobuf")]
    wires: Vec<Wire>,
}

/// Numbers of watches, as `GET /watches` returns them.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Watches {
    pub(crate) opened: usize,
    pub(crate) waiting: usize,
}

/// Numbers of selected objects and updates, as `GET /selected` returns them.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Selected {
    pub(crate) objects: usize,
    pub(crate) updates: usize,
}

/// Serves until its input ends. The first line of the output is the server's URL.
pub(crate) fn serve(options: &Options) -> Result<(), Failure> {
    let server = Arc::new(Server::new(options)?);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("http://{}", listener.local_addr()?);
    std::io::stdout().flush()?;
    std::thread::spawn(|| {
        // The parent holds the other end; when it ends, the server ends too.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    loop {
        let (stream, _) = listener.accept()?;
        let server = Arc::clone(&server);
        // A client that disconnects is not an error.
        std::thread::spawn(move || drop(server.attend(stream)));
    }
}

/// A command to all watches.
#[derive(Clone)]
enum Command {
    Storm(Updates, usize),
    Trickle(Updates, Range<usize>, Duration),
    Relist,
}

/// Objects of a kind in one format.
struct Form {
    /// List items, with the places of their objects.
    items: Pieces<Places>,
    /// Event heads of the initial events.
    heads: Pieces,
}

/// Objects of a kind in all formats.
struct Served {
    kind: Kind,
    objects: Box<dyn Objects>,
    json: Option<Form>,
    protobuf: Option<Form>,
}

impl Served {
    fn new(kind: Kind, objects: Box<dyn Objects>, wires: &[Wire]) -> Result<Self, Failure> {
        let form = |wire: Wire| {
            let wanted = wires.contains(&wire) && (kind.has_protobuf || wire == Wire::Json);
            wanted.then(|| Form::new(wire, &kind, objects.as_ref())).transpose()
        };
        let (json, protobuf) = (form(Wire::Json)?, form(Wire::Protobuf)?);
        Ok(Served { kind, objects, json, protobuf })
    }

    fn form(&self, wire: Wire) -> io::Result<&Form> {
        let form = match wire {
            Wire::Json => self.json.as_ref(),
            Wire::Protobuf => self.protobuf.as_ref(),
        };
        form.ok_or_else(|| io::Error::other("the server was started without this format"))
    }

    /// Sends the selected objects, or a page of them. As with API servers, a list at any version is never paged.
    fn list(
        &self,
        stream: &mut impl io::Write,
        wire: Wire,
        request: &Request,
        selection: &Selection,
    ) -> io::Result<()> {
        let items = &self.form(wire)?.items;
        let first = request.number("continue").unwrap_or(0).min(items.len());
        let limit = request.number("limit").filter(|limit| *limit > 0 && request.get("resourceVersion") != Some("0"));
        let is_wanted = |places: &Places| selection.contains(places);
        let last =
            limit.and_then(|limit| (first..items.len()).filter(|item| is_wanted(items.tag(*item))).nth(limit - 1));
        let end = last.map_or(items.len(), |last| last + 1);
        let next = (end < items.len()).then_some(end);
        let selector = selection.selector();
        let remaining = next.filter(|_| selector.is_none()).map(|end| items.len() - end);
        let mut slices: Vec<&[u8]> = items.selected(first..end, is_wanted).collect();
        if let Some(last) = slices.last_mut() {
            *last = &last[..last.len() - wire.surplus()];
        }
        let bytes = slices.iter().map(|slice| slice.len()).sum();
        let metadata = ListMetadata { version: self.objects.list_version(), next, remaining, selector };
        let head = wire.list_head(&self.kind, &metadata, bytes);
        http::begin(stream, wire.content_type(false))?;
        let parts = [head.as_slice()].into_iter().chain(slices).chain([wire.list_tail()]);
        http::send_body(stream, parts)?;
        http::end(stream)
    }
}

impl Form {
    fn new(wire: Wire, kind: &Kind, objects: &dyn Objects) -> Result<Self, Failure> {
        let items = Pieces::new(objects.len(), |out, number| {
            let mut members = String::with_capacity(8 << 10);
            objects.write(&mut members, number);
            wire.item(out, kind, &members)?;
            Places::of(&members)
        })?;
        let heads = Pieces::new(items.len(), |out, number| {
            wire.event_head(out, "ADDED", kind, wire.of_item(items.get(number)).len());
            Ok(())
        })?;
        Ok(Form { items, heads })
    }
}

struct Server {
    served: Vec<Served>,
    updates: Mutex<Updates>,
    watches: Mutex<Vec<Sender<Command>>>,
    opened: AtomicUsize,
    waiting: AtomicUsize,
    written: Mutex<Vec<u64>>,
    /// Whether shard selectors are honoured.
    filters: AtomicBool,
    /// Bytes of lists and watches.
    sent: AtomicU64,
}

impl Server {
    fn new(options: &Options) -> Result<Self, Failure> {
        let kinds = options.data.kinds(options.objects).into_iter();
        let served = kinds.map(|(kind, objects)| Served::new(kind, objects, &options.wires));
        Ok(Server {
            served: served.collect::<Result<_, _>>()?,
            updates: Mutex::default(),
            watches: Mutex::default(),
            opened: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            written: Mutex::default(),
            filters: AtomicBool::new(false),
            sent: AtomicU64::new(0),
        })
    }

    /// Serves a connection to its end.
    fn attend(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut requests = BufReader::new(stream.try_clone()?);
        while let Some(request) = Request::read(&mut requests)? {
            self.answer(&mut stream, &request)?;
        }
        Ok(())
    }

    fn answer(&self, stream: &mut TcpStream, request: &Request) -> io::Result<()> {
        let served = self.served.iter().find(|served| served.kind.path == request.path);
        match (request.method.as_str(), request.path.as_str(), served) {
            ("GET", _, Some(served)) => {
                let wire = Wire::accepted(&request.accept, &served.kind);
                let selection = match self.filters.load(Ordering::Acquire).then(|| Selection::of(request)) {
                    None => Selection::default(),
                    Some(Ok(selection)) => selection,
                    Some(Err(error)) => return refuse(stream, &format!("invalid shard selector: {error}")),
                };
                if !request.is("watch") {
                    return served.list(&mut Counted { stream, sent: &self.sent }, wire, request, &selection);
                }
                let (sender, commands) = channel();
                self.lock_watches().push(sender);
                self.opened.fetch_add(1, Ordering::AcqRel);
                Watch::new(self, served, wire, request, selection).serve(stream, &commands)
            }
            ("POST", "/prepare", _) => match self.prepare(request) {
                Ok(()) => http::reply(stream, 200, "{}"),
                Err(error) => refuse(stream, &error.to_string()),
            },
            ("POST", "/shards", _) => {
                self.filters.store(request.is("filter"), Ordering::Release);
                http::reply(stream, 200, "{}")
            }
            ("GET", "/selected", _) => match self.selected(request) {
                Ok(selected) => http::reply(stream, 200, &json!(selected).to_string()),
                Err(error) => refuse(stream, &error.to_string()),
            },
            ("GET", "/sent", _) => http::reply(stream, 200, &json!(self.sent.load(Ordering::Acquire)).to_string()),
            ("POST", "/storm", _) => {
                self.command(stream, &Command::Storm(self.updates(), request.number("updates").unwrap_or(0)))
            }
            ("POST", "/trickle", _) => {
                self.written.lock().unwrap_or_else(PoisonError::into_inner).clear();
                let after = request.number("after").unwrap_or(0);
                let events = after..after + request.number("events").unwrap_or(0);
                let gap = Duration::from_micros(request.number("gap_us").unwrap_or(1_000) as u64);
                self.command(stream, &Command::Trickle(self.updates(), events, gap))
            }
            ("GET", "/written", _) => {
                let written = self.written.lock().unwrap_or_else(PoisonError::into_inner).clone();
                http::reply(stream, 200, &json!(written).to_string())
            }
            ("POST", "/relist", _) => self.command(stream, &Command::Relist),
            ("GET", "/watches", _) => {
                let (opened, waiting) = (self.opened.load(Ordering::Acquire), self.waiting.load(Ordering::Acquire));
                http::reply(stream, 200, &json!(Watches { opened, waiting }).to_string())
            }
            (method, path, _) => {
                let message = format!("the load server does not serve {method} {path}");
                http::reply(stream, 404, &status(&message, "NotFound", 404).to_string())
            }
        }
    }

    /// Generates updates, if there are not enough yet.
    fn prepare(&self, request: &Request) -> Result<(), Failure> {
        let count = request.number("updates").unwrap_or(0);
        let wire = Wire::named(request);
        let mut updates = self.updates.lock().unwrap_or_else(PoisonError::into_inner);
        let place = updates.place(wire);
        if place.as_ref().is_some_and(|pieces| pieces.len() >= count) {
            return Ok(());
        }
        let served = self.served.first().ok_or("there are no objects")?;
        let made = Pieces::new(count, |out, update| {
            let mut members = String::with_capacity(8 << 10);
            if !served.objects.write_update(&mut members, update) {
                return Err("these objects do not change".into());
            }
            wire.event(out, "MODIFIED", &served.kind, &members)?;
            Places::of(&members)
        })?;
        *place = Some(Arc::new(made));
        Ok(())
    }

    /// Counts what a selector selects.
    fn selected(&self, request: &Request) -> Result<Selected, Failure> {
        let (wire, selection) = (Wire::named(request), Selection::of(request)?);
        let count = |pieces: &Pieces<Places>, end: usize| {
            (0..end.min(pieces.len())).filter(|piece| selection.contains(pieces.tag(*piece))).count()
        };
        let items = &self.served.first().ok_or("there are no objects")?.form(wire)?.items;
        let updates = match request.number("updates").filter(|updates| *updates > 0) {
            Some(updates) => count(self.updates().of(wire)?, updates),
            None => 0,
        };
        Ok(Selected { objects: count(items, items.len()), updates })
    }

    fn updates(&self) -> Updates {
        self.updates.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn command(&self, stream: &mut TcpStream, command: &Command) -> io::Result<()> {
        let mut watches = self.lock_watches();
        // Removes watches that have ended.
        watches.retain(|watch| watch.send(command.clone()).is_ok());
        let notified = watches.len();
        drop(watches);
        http::reply(stream, 200, &json!({"watches": notified}).to_string())
    }

    fn lock_watches(&self) -> std::sync::MutexGuard<'_, Vec<Sender<Command>>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends an error of the server.
fn refuse(stream: &mut impl io::Write, message: &str) -> io::Result<()> {
    http::reply(stream, 500, &status(message, "InternalError", 500).to_string())
}

#[cfg(test)]
mod tests;
