//! [`Net`]: a bad network between client and server.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use evenkeel_client::transport::{Body, BoxError, ResponseFuture, Transport};
use http::{Request, Response};
use http_body::Frame;
use tower_layer::Layer;
use tower_service::Service;

/// A network that can be made to lose, to cut and to chop. Clones are the same network.
#[derive(Clone)]
pub(crate) struct Net(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// How many answers were cut.
    cuts: AtomicU64,
}

struct State {
    random: fastrand::Rng,
    weather: Weather,
    /// Moves whenever all connections are lost.
    epoch: u64,
    open: Vec<Waker>,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
    /// Everything arrives, in one piece.
    Calm,
    /// Many answers are cut somewhere, or arrive in small pieces.
    Stormy,
    /// Nobody listens at the other end.
    Refusing,
}

impl Net {
    pub(crate) fn new(seed: u64) -> Self {
        let state =
            State { random: fastrand::Rng::with_seed(seed), weather: Weather::Calm, epoch: 0, open: Vec::new() };
        Net(Arc::new(Shared { state: Mutex::new(state), cuts: AtomicU64::new(0) }))
    }

    pub(crate) fn set(&self, weather: Weather) {
        self.0.state.lock().unwrap().weather = weather;
    }

    /// Breaks all connections.
    pub(crate) fn lose_connections(&self) {
        let mut state = self.0.state.lock().unwrap();
        state.epoch += 1;
        let open = std::mem::take(&mut state.open);
        drop(state);
        open.into_iter().for_each(Waker::wake);
    }

    /// How many answers were cut somewhere.
    pub(crate) fn cuts(&self) -> u64 {
        self.0.cuts.load(Ordering::Relaxed)
    }

    /// What becomes of the next answer.
    fn fate(&self, answer: Answer) -> Fate {
        let mut state = self.0.state.lock().unwrap();
        let epoch = state.epoch;
        let mut fate = Fate { epoch, cut: None, pieces: None };
        if state.weather == Weather::Stormy {
            let random = &mut state.random;
            let (chance, bits) = if answer == Answer::Changes { (80, 1..13) } else { (30, 1..23) };
            if random.u8(..100) < chance {
                // As likely among the first bytes as among the last of those that there may be.
                let largest = 1 << random.u32(bits);
                let bytes = random.u64(0..largest);
                fate.cut = Some(Cut { after: bytes, is_orderly: random.bool() });
            }
            if random.u8(..100) < 30 {
                fate.pieces = Some((fastrand::Rng::with_seed(random.u64(..)), 1 << random.u32(4..15)));
            }
        }
        fate
    }
}

/// What an answer consists of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// All objects, perhaps with what happens to them afterwards.
    Everything,
    /// What happens to them.
    Changes,
}

impl Answer {
    fn to(request: &Request<Body>) -> Self {
        let asks_for = |text: &str| request.uri().query().is_some_and(|query| query.contains(text));
        match asks_for("watch=") && !asks_for("sendInitialEvents=") {
            true => Answer::Changes,
            false => Answer::Everything,
        }
    }
}

/// What becomes of an answer.
struct Fate {
    epoch: u64,
    cut: Option<Cut>,
    /// The chance and the size of the largest of the pieces in which it arrives.
    pieces: Option<(fastrand::Rng, usize)>,
}

#[derive(Clone, Copy)]
struct Cut {
    after: u64,
    /// It looks like the end, not like an error.
    is_orderly: bool,
}

impl Layer<Transport> for Net {
    type Service = Line;

    fn layer(&self, inner: Transport) -> Line {
        Line { inner, net: self.clone() }
    }
}

/// A line through the network.
#[derive(Clone)]
pub(crate) struct Line {
    inner: Transport,
    net: Net,
}

impl Service<Request<Body>> for Line {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> ResponseFuture {
        let kind = Answer::to(&request);
        let (net, answer) = (self.net.clone(), self.inner.call(request));
        Box::pin(async move {
            if net.0.state.lock().unwrap().weather == Weather::Refusing {
                return Err(io::Error::from(io::ErrorKind::ConnectionRefused).into());
            }
            let fate = net.fate(kind);
            let epoch = fate.epoch;
            let answer = answer.await?;
            if net.0.state.lock().unwrap().epoch != epoch {
                return Err(io::Error::from(io::ErrorKind::ConnectionReset).into());
            }
            Ok(answer.map(|body| Body::new(Torn { body, net, fate, passed: 0, rest: Bytes::new() })))
        })
    }
}

/// A body on its way through the network.
struct Torn {
    body: Body,
    net: Net,
    fate: Fate,
    passed: u64,
    /// What has arrived and is not yet handed on.
    rest: Bytes,
}

impl http_body::Body for Torn {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let reset = || Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::ConnectionReset).into())));
        {
            let mut state = this.net.0.state.lock().unwrap();
            if state.epoch != this.fate.epoch {
                return reset();
            }
            if !state.open.iter().any(|waker| waker.will_wake(context.waker())) {
                state.open.push(context.waker().clone());
            }
        }
        if let Some(Cut { after, is_orderly }) = this.fate.cut
            && this.passed >= after
        {
            this.net.0.cuts.fetch_add(1, Ordering::Relaxed);
            return if is_orderly { Poll::Ready(None) } else { reset() };
        }
        while this.rest.is_empty() {
            match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(frame)) => this.rest = frame.into_data().unwrap_or_default(),
            }
        }
        let mut size = this.rest.len();
        if let Some((random, largest)) = &mut this.fate.pieces {
            size = size.min(random.usize(1..=*largest));
        }
        if let Some(cut) = this.fate.cut {
            size = size.min(usize::try_from(cut.after - this.passed).unwrap_or(usize::MAX));
        }
        this.passed += size as u64;
        Poll::Ready(Some(Ok(Frame::data(this.rest.split_to(size)))))
    }
}
