//! [`Net`]: a faulty network between client and server.

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

/// A network that drops connections, cuts responses and splits them. Clones are the same network.
#[derive(Clone)]
pub(crate) struct Net(Arc<NetShared>);

struct NetShared {
    state: Mutex<NetState>,
    /// Number of cut responses.
    cuts: AtomicU64,
}

struct NetState {
    random: fastrand::Rng,
    network: NetworkState,
    /// Incremented when all connections are lost.
    epoch: u64,
    open: Vec<Waker>,
}

/// State of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NetworkState {
    /// Responses arrive complete, in one piece.
    Healthy,
    /// Many responses are cut, or arrive in small pieces.
    Lossy,
    /// Connections are refused.
    Refusing,
}

impl Net {
    pub(crate) fn new(seed: u64) -> Self {
        let state = NetState {
            random: fastrand::Rng::with_seed(seed),
            network: NetworkState::Healthy,
            epoch: 0,
            open: Vec::new(),
        };
        Net(Arc::new(NetShared { state: Mutex::new(state), cuts: AtomicU64::new(0) }))
    }

    pub(crate) fn set(&self, network: NetworkState) {
        self.0.state.lock().unwrap().network = network;
    }

    /// Breaks all connections.
    pub(crate) fn lose_connections(&self) {
        let mut state = self.0.state.lock().unwrap();
        state.epoch += 1;
        let open = std::mem::take(&mut state.open);
        drop(state);
        open.into_iter().for_each(Waker::wake);
    }

    /// Returns the number of cut responses.
    pub(crate) fn cuts(&self) -> u64 {
        self.0.cuts.load(Ordering::Relaxed)
    }

    /// Returns the faults of the next response.
    fn fault(&self, kind: ResponseKind) -> ResponseFault {
        let mut state = self.0.state.lock().unwrap();
        let epoch = state.epoch;
        let mut fault = ResponseFault { epoch, cut: None, pieces: None };
        if state.network == NetworkState::Lossy {
            let random = &mut state.random;
            let (chance, bits) = if kind == ResponseKind::Changes { (80, 1..13) } else { (30, 1..23) };
            if random.u8(..100) < chance {
                // Uniform in the logarithm of the position.
                let largest = 1 << random.u32(bits);
                let bytes = random.u64(0..largest);
                fault.cut = Some(Cut { after: bytes, is_orderly: random.bool() });
            }
            if random.u8(..100) < 30 {
                fault.pieces = Some((fastrand::Rng::with_seed(random.u64(..)), 1 << random.u32(4..15)));
            }
        }
        fault
    }
}

/// The kind of a response.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ResponseKind {
    /// All objects, perhaps followed by changes.
    Everything,
    /// Changes only.
    Changes,
}

impl ResponseKind {
    fn to(request: &Request<Body>) -> Self {
        let has_parameter = |text: &str| request.uri().query().is_some_and(|query| query.contains(text));
        match has_parameter("watch=") && !has_parameter("sendInitialEvents=") {
            true => ResponseKind::Changes,
            false => ResponseKind::Everything,
        }
    }
}

/// The faults of one response.
struct ResponseFault {
    epoch: u64,
    cut: Option<Cut>,
    /// Random numbers and maximum size of the pieces in which it arrives.
    pieces: Option<(fastrand::Rng, usize)>,
}

#[derive(Clone, Copy)]
struct Cut {
    after: u64,
    /// Whether it looks like the end of the body, not like an error.
    is_orderly: bool,
}

impl Layer<Transport> for Net {
    type Service = FaultyTransport;

    fn layer(&self, inner: Transport) -> FaultyTransport {
        FaultyTransport { inner, net: self.clone() }
    }
}

/// A transport through the network.
#[derive(Clone)]
pub(crate) struct FaultyTransport {
    inner: Transport,
    net: Net,
}

impl Service<Request<Body>> for FaultyTransport {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> ResponseFuture {
        let kind = ResponseKind::to(&request);
        let (net, response) = (self.net.clone(), self.inner.call(request));
        Box::pin(async move {
            if net.0.state.lock().unwrap().network == NetworkState::Refusing {
                return Err(io::Error::from(io::ErrorKind::ConnectionRefused).into());
            }
            let fault = net.fault(kind);
            let epoch = fault.epoch;
            let response = response.await?;
            if net.0.state.lock().unwrap().epoch != epoch {
                return Err(io::Error::from(io::ErrorKind::ConnectionReset).into());
            }
            Ok(response.map(|body| Body::new(LossyBody { body, net, fault, passed: 0, rest: Bytes::new() })))
        })
    }
}

/// A response body that passes through the network.
struct LossyBody {
    body: Body,
    net: Net,
    fault: ResponseFault,
    passed: u64,
    /// Data that has arrived and was not passed on yet.
    rest: Bytes,
}

impl http_body::Body for LossyBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let reset = || Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::ConnectionReset).into())));
        {
            let mut state = this.net.0.state.lock().unwrap();
            if state.epoch != this.fault.epoch {
                return reset();
            }
            if !state.open.iter().any(|waker| waker.will_wake(context.waker())) {
                state.open.push(context.waker().clone());
            }
        }
        if let Some(Cut { after, is_orderly }) = this.fault.cut
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
        if let Some((random, largest)) = &mut this.fault.pieces {
            size = size.min(random.usize(1..=*largest));
        }
        if let Some(cut) = this.fault.cut {
            size = size.min(usize::try_from(cut.after - this.passed).unwrap_or(usize::MAX));
        }
        this.passed += size as u64;
        Poll::Ready(Some(Ok(Frame::data(this.rest.split_to(size)))))
    }
}
