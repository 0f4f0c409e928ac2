//! SOCKS version 5 (RFC 1928) with user names and passwords (RFC 1929), as a state machine that returns what to write
//! and how much to read. Sans-IO.
//!
//! It never requests more bytes than the response has, so that the rest belongs to the tunnel.

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
pub(super) enum SocksAction {
    /// Write this, then call again with empty input.
    Write(Zeroizing<Vec<u8>>),
    /// Read exactly this many bytes, then call again with them.
    Read(usize),
    /// The tunnel starts here.
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
    state: SocksState,
}

#[derive(Clone, Copy)]
enum SocksState {
    Greet,
    Greeted,
    Method,
    LoggedIn,
    LoginReply,
    Requested,
    Head,
    /// Reading the proxy's own address, which is ignored.
    NameLength,
    Address,
    Done,
}

impl<'a> Handshake<'a> {
    /// Returns a handshake for a tunnel to this host (a name, or an address without brackets) and port.
    pub(super) fn new(host: &'a str, port: u16, credentials: Option<(&'a str, &'a str)>) -> Self {
        Handshake { host, port, credentials, state: SocksState::Greet }
    }

    /// Advances, with the bytes that were requested, or with none.
    pub(super) fn step(&mut self, input: &[u8]) -> Result<SocksAction, Failure> {
        let (state, step) = match (self.state, input) {
            (SocksState::Greet, _) => (SocksState::Greeted, SocksAction::Write(self.greeting())),
            (SocksState::Greeted, _) => (SocksState::Method, SocksAction::Read(2)),
            (SocksState::Method, [VERSION, NO_AUTHENTICATION]) => {
                (SocksState::Requested, SocksAction::Write(self.request()?))
            }
            (SocksState::Method, [VERSION, PASSWORD]) => (SocksState::LoggedIn, SocksAction::Write(self.login()?)),
            (SocksState::Method, [VERSION, _]) => return Err(Failure::Credentials),
            (SocksState::LoggedIn, _) => (SocksState::LoginReply, SocksAction::Read(2)),
            (SocksState::LoginReply, [_, 0]) => (SocksState::Requested, SocksAction::Write(self.request()?)),
            (SocksState::LoginReply, [_, _]) => return Err(Failure::Credentials),
            (SocksState::Requested, _) => (SocksState::Head, SocksAction::Read(4)),
            (SocksState::Head, [VERSION, 0, _, IPV4]) => (SocksState::Address, SocksAction::Read(4 + 2)),
            (SocksState::Head, [VERSION, 0, _, IPV6]) => (SocksState::Address, SocksAction::Read(16 + 2)),
            (SocksState::Head, [VERSION, 0, _, NAME]) => (SocksState::NameLength, SocksAction::Read(1)),
            (SocksState::Head, [VERSION, code, _, _]) if *code != 0 => return Err(Failure::Refused(*code)),
            (SocksState::NameLength, [length]) => (SocksState::Address, SocksAction::Read(usize::from(*length) + 2)),
            (SocksState::Address | SocksState::Done, _) => (SocksState::Done, SocksAction::Done),
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
        // The proxy selected a method that was not offered.
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

/// Appends the text after its length in one byte; `None` if it is too long.
fn push_short(bytes: &mut Vec<u8>, text: &str) -> Option<()> {
    bytes.push(u8::try_from(text.len()).ok()?);
    bytes.extend_from_slice(text.as_bytes());
    Some(())
}

#[cfg(test)]
mod tests;
