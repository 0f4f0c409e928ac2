//! SOCKS version 5 (RFC 1928) with user names and passwords (RFC 1929): a machine that says what to write and how much to
//! read. No I/O.
//!
//! It never asks for more bytes than the answer has, so that whatever follows still belongs to the tunnel.

use std::net::IpAddr;

use zeroize::Zeroizing;

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const PASSWORD: u8 = 2;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Write this and ask again, with nothing.
    Write(Zeroizing<Vec<u8>>),
    /// Read exactly this many bytes and come back with them.
    Read(usize),
    /// The tunnel begins here.
    Done,
}

/// Why there is no tunnel.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Refused(u8),
    Credentials,
    Nonsense,
    TooLong(&'static str),
}

/// A handshake with the proxy.
pub(super) struct Handshake<'a> {
    host: &'a str,
    port: u16,
    credentials: Option<(&'a str, &'a str)>,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    Greet,
    Greeted,
    Method,
    LoggedIn,
    LoginReply,
    Requested,
    Head,
    /// Reading the address that the proxy uses, which means nothing to us.
    NameLength,
    Address,
    Done,
}

impl<'a> Handshake<'a> {
    /// For a tunnel to this host (a name, or an address without brackets) and port.
    pub(super) fn new(host: &'a str, port: u16, credentials: Option<(&'a str, &'a str)>) -> Self {
        Handshake { host, port, credentials, state: State::Greet }
    }

    /// Goes on, with what was asked to be read, or with nothing.
    pub(super) fn step(&mut self, input: &[u8]) -> Result<Step, Failure> {
        let (state, step) = match (self.state, input) {
            (State::Greet, _) => (State::Greeted, Step::Write(self.greeting())),
            (State::Greeted, _) => (State::Method, Step::Read(2)),
            (State::Method, [VERSION, NO_AUTHENTICATION]) => (State::Requested, Step::Write(self.request()?)),
            (State::Method, [VERSION, PASSWORD]) => (State::LoggedIn, Step::Write(self.login()?)),
            (State::Method, [VERSION, _]) => return Err(Failure::Credentials),
            (State::LoggedIn, _) => (State::LoginReply, Step::Read(2)),
            (State::LoginReply, [_, 0]) => (State::Requested, Step::Write(self.request()?)),
            (State::LoginReply, [_, _]) => return Err(Failure::Credentials),
            (State::Requested, _) => (State::Head, Step::Read(4)),
            (State::Head, [VERSION, 0, _, IPV4]) => (State::Address, Step::Read(4 + 2)),
            (State::Head, [VERSION, 0, _, IPV6]) => (State::Address, Step::Read(16 + 2)),
            (State::Head, [VERSION, 0, _, NAME]) => (State::NameLength, Step::Read(1)),
            (State::Head, [VERSION, code, _, _]) if *code != 0 => return Err(Failure::Refused(*code)),
            (State::NameLength, [length]) => (State::Address, Step::Read(usize::from(*length) + 2)),
            (State::Address | State::Done, _) => (State::Done, Step::Done),
            _ => return Err(Failure::Nonsense),
        };
        self.state = state;
        Ok(step)
    }

    fn greeting(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(match self.credentials {
            None => vec![VERSION, 1, NO_AUTHENTICATION],
            Some(_) => vec![VERSION, 2, NO_AUTHENTICATION, PASSWORD],
        })
    }

    fn login(&self) -> Result<Zeroizing<Vec<u8>>, Failure> {
        // A proxy that picks what was not offered has nothing to pick from.
        let (name, password) = self.credentials.ok_or(Failure::Nonsense)?;
        let mut login = Zeroizing::new(Vec::with_capacity(3 + name.len() + password.len()));
        login.push(1);
        push_short(&mut login, name).ok_or(Failure::TooLong("user name"))?;
        push_short(&mut login, password).ok_or(Failure::TooLong("password"))?;
        Ok(login)
    }

    fn request(&self) -> Result<Zeroizing<Vec<u8>>, Failure> {
        let mut request = Zeroizing::new(vec![VERSION, CONNECT, 0]);
        match self.host.parse() {
            Ok(IpAddr::V4(address)) => {
                request.push(IPV4);
                request.extend_from_slice(&address.octets());
            }
            Ok(IpAddr::V6(address)) => {
                request.push(IPV6);
                request.extend_from_slice(&address.octets());
            }
            Err(_) => {
                request.push(NAME);
                push_short(&mut request, self.host).ok_or(Failure::TooLong("name of the server"))?;
            }
        }
        request.extend_from_slice(&self.port.to_be_bytes());
        Ok(request)
    }
}

/// The text after its length in one byte; `None` if it is too long for that.
fn push_short(bytes: &mut Vec<u8>, text: &str) -> Option<()> {
    bytes.push(u8::try_from(text.len()).ok()?);
    bytes.extend_from_slice(text.as_bytes());
    Some(())
}

#[cfg(test)]
mod tests;
