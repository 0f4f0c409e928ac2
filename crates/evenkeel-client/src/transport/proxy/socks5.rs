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
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Plays a whole handshake: what we write, with these answers in between.
    fn play(mut handshake: Handshake<'_>, mut answers: &[u8]) -> (Vec<u8>, Result<usize, Failure>) {
        let (mut written, mut input) = (Vec::new(), Vec::new());
        loop {
            match handshake.step(&input) {
                Ok(Step::Write(bytes)) => {
                    written.extend_from_slice(&bytes);
                    input.clear();
                }
                Ok(Step::Read(count)) => {
                    input = answers[..count].to_vec();
                    answers = &answers[count..];
                }
                Ok(Step::Done) => return (written, Ok(answers.len())),
                Err(failure) => return (written, Err(failure)),
            }
        }
    }

    #[test]
    fn names_are_left_to_the_proxy() {
        let (written, end) =
            play(Handshake::new("kube.example", 6443, None), b"\x05\x00\x05\x00\x00\x01\x7f\0\0\x01\0\x50next");
        assert_eq!(written, b"\x05\x01\x00\x05\x01\x00\x03\x0ckube.example\x19\x2b");
        assert_eq!(end, Ok(4), "what follows is not touched");
    }

    #[test]
    fn addresses_are_sent_as_such() {
        let (written, end) = play(Handshake::new("10.0.0.1", 443, None), b"\x05\0\x05\0\0\x03\x02ab\0\x50");
        assert_eq!((&written[3..], end), (&b"\x05\x01\x00\x01\x0a\0\0\x01\x01\xbb"[..], Ok(0)));
        let v6 = [&b"\x05\0\x05\0\0\x04"[..], &[0; 18]].concat();
        let (written, end) = play(Handshake::new("::1", 443, None), &v6);
        assert_eq!((&written[..7], written.len(), end), (&b"\x05\x01\x00\x05\x01\x00\x04"[..], 3 + 4 + 16 + 2, Ok(0)));
    }

    #[test]
    fn a_name_and_a_password_are_shown_if_asked_for() {
        let handshake = Handshake::new("h", 1, Some(("us", "pw!")));
        let (written, end) = play(handshake, b"\x05\x02\x01\0\x05\0\0\x01\0\0\0\0\0\0");
        assert_eq!(written, b"\x05\x02\x00\x02\x01\x02us\x03pw!\x05\x01\x00\x03\x01h\0\x01");
        assert_eq!(end, Ok(0));
        let refused = play(Handshake::new("h", 1, Some(("us", "pw!"))), b"\x05\x02\x01\x01").1;
        assert_eq!(refused, Err(Failure::Credentials));
    }

    #[test]
    fn refusals_and_nonsense_end_the_handshake() {
        let none = |answers| play(Handshake::new("h", 1, None), answers).1;
        assert_eq!(none(b"\x05\xff"), Err(Failure::Credentials));
        assert_eq!(none(b"\x05\x02"), Err(Failure::Nonsense), "it was not offered");
        assert_eq!(none(b"HT"), Err(Failure::Nonsense));
        assert_eq!(none(b"\x05\0\x05\x05\0\x01"), Err(Failure::Refused(5)));
        assert_eq!(none(b"\x05\0\x05\x00\0\x09"), Err(Failure::Nonsense));
        assert_eq!(none(b"\x05\0\x04\x00\0\x01"), Err(Failure::Nonsense));
        let long = "x".repeat(256);
        assert_eq!(play(Handshake::new(&long, 1, None), b"\x05\0").1, Err(Failure::TooLong("name of the server")));
        let login = play(Handshake::new("h", 1, Some(("u", &long))), b"\x05\x02").1;
        assert_eq!(login, Err(Failure::TooLong("password")));
    }

    proptest! {
        #[test]
        fn whatever_the_proxy_says_the_handshake_ends_soon(answers in proptest::collection::vec(any::<u8>(), 600)) {
            let mut answers = answers.as_slice();
            let mut handshake = Handshake::new("h", 1, Some(("u", "p")));
            let mut input: &[u8] = &[];
            for _ in 0..12 {
                match handshake.step(input) {
                    Ok(Step::Write(_)) => input = &[],
                    Ok(Step::Read(count)) => {
                        prop_assert!(count <= 257);
                        (input, answers) = answers.split_at(count);
                    }
                    Ok(Step::Done) | Err(_) => return Ok(()),
                }
            }
            prop_assert!(false, "no end");
        }
    }
}
