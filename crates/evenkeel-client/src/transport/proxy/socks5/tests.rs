use super::*;
use proptest::prelude::*;

/// Runs a whole handshake with these replies, and returns what was written.
fn play(mut handshake: Handshake<'_>, mut answers: &[u8]) -> (Vec<u8>, Result<usize, Failure>) {
    let (mut written, mut input) = (Vec::new(), Vec::new());
    loop {
        match handshake.step(&input) {
            Ok(SocksAction::Write(bytes)) => {
                written.extend_from_slice(&bytes);
                input.clear();
            }
            Ok(SocksAction::Read(count)) => {
                input = answers[..count].to_vec();
                answers = &answers[count..];
            }
            Ok(SocksAction::Done) => return (written, Ok(answers.len())),
            Err(failure) => return (written, Err(failure)),
        }
    }
}

#[test]
fn names_are_resolved_by_the_proxy() {
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
fn credentials_are_sent_on_request() {
    let handshake = Handshake::new("h", 1, Some(("us", "pw!")));
    let (written, end) = play(handshake, b"\x05\x02\x01\0\x05\0\0\x01\0\0\0\0\0\0");
    assert_eq!(written, b"\x05\x02\x00\x02\x01\x02us\x03pw!\x05\x01\x00\x03\x01h\0\x01");
    assert_eq!(end, Ok(0));
    let refused = play(Handshake::new("h", 1, Some(("us", "pw!"))), b"\x05\x02\x01\x01").1;
    assert_eq!(refused, Err(Failure::Credentials));
}

#[test]
fn refusals_and_invalid_replies_end_the_handshake() {
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
    fn any_reply_ends_the_handshake_in_few_steps(answers in proptest::collection::vec(any::<u8>(), 600)) {
        let mut answers = answers.as_slice();
        let mut handshake = Handshake::new("h", 1, Some(("u", "p")));
        let mut input: &[u8] = &[];
        for _ in 0..12 {
            match handshake.step(input) {
                Ok(SocksAction::Write(_)) => input = &[],
                Ok(SocksAction::Read(count)) => {
                    prop_assert!(count <= 257);
                    (input, answers) = answers.split_at(count);
                }
                Ok(SocksAction::Done) | Err(_) => return Ok(()),
            }
        }
        prop_assert!(false, "no end");
    }
}
