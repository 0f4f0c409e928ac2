//! The channels of exec, attach and port-forward (FUZ-18). The first byte selects the check.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use evenkeel_base::channels::{ChannelProtocol, ERROR, Role, STDERR, STDIN, STDOUT, Session, SessionSettings};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::budget::{DECODER, within};
use crate::input::{Input, chunks};

/// The channels that a client reads.
const INBOUND: [u8; 3] = [STDOUT, STDERR, ERROR];

/// The buffers of the socket and of the session.
const BUFFERS: usize = 1 << 20;

pub(super) fn run(data: &[u8]) {
    let mut input = Input(data);
    let protocol = input.choice(&[ChannelProtocol::V5, ChannelProtocol::V4]);
    let is_raw = input.choice(&[false, true]);
    let seed = input.byte();
    if is_raw { check_bytes(protocol, seed, input.0) } else { check_messages(protocol, seed, &mut input) }
}

/// Any bytes on the connection give the same channels, however they are cut.
fn check_bytes(protocol: ChannelProtocol, seed: u8, bytes: &[u8]) {
    let (whole, end) = within(DECODER, bytes.len() + BUFFERS / 5, || receive(protocol, vec![bytes.to_vec()]));
    let parts = chunks(bytes, seed).into_iter().map(<[u8]>::to_vec).collect();
    assert_eq!(receive(protocol, parts), (whole, end), "cut with seed {seed}");
}

/// Each channel contains what was sent on it.
fn check_messages(protocol: ChannelProtocol, seed: u8, input: &mut Input<'_>) {
    let mut expected = BTreeMap::from(INBOUND.map(|channel| (channel, Vec::new())));
    let mut closed = Vec::new();
    let mut stream = Vec::new();
    while !input.0.is_empty() {
        let (channel, length) = (input.choice(&[0, 1, 2, 3, 4, 5, 255]), input.byte());
        let payload = input.bytes(usize::from(length) % 32);
        let message = [&[channel], payload].concat();
        write_frames(&mut stream, &message, length);
        match expected.get_mut(&channel) {
            _ if channel == 255 && protocol == ChannelProtocol::V5 => closed.extend(payload.first().copied()),
            Some(content) if !closed.contains(&channel) => content.extend_from_slice(payload),
            _ => {}
        }
    }
    // The closing handshake, with the code for a normal end.
    stream.extend_from_slice(&[0x88, 2, 0x03, 0xe8]);
    let parts = chunks(&stream, seed).into_iter().map(<[u8]>::to_vec).collect();
    let (channels, end) = receive(protocol, parts);
    assert_eq!(channels, expected);
    assert_eq!(end, "Ok(())", "how the session ended");
}

/// Writes a message as one frame, or as two with a ping between them.
fn write_frames(stream: &mut Vec<u8>, message: &[u8], choice: u8) {
    if choice & 0x80 == 0 {
        stream.extend_from_slice(&[0x82, message.len() as u8]);
        stream.extend_from_slice(message);
        return;
    }
    let (start, end) = message.split_at(message.len() / 2);
    stream.extend_from_slice(&[0x02, start.len() as u8]);
    stream.extend_from_slice(start);
    stream.extend_from_slice(&[0x89, 1, b'p', 0x80, end.len() as u8]);
    stream.extend_from_slice(end);
}

/// Returns what a client reads from each channel of a connection with these bytes, and how the session ends.
fn receive(protocol: ChannelProtocol, parts: Vec<Vec<u8>>) -> (BTreeMap<u8, Vec<u8>>, String) {
    let settings = SessionSettings { role: Role::Client, protocol, inbound: INBOUND.to_vec(), outbound: vec![STDIN] };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let (session, driver) = Session::new(Connection { parts: parts.into() }, &settings);
        let driver = tokio::spawn(driver);
        let mut channels = BTreeMap::new();
        let readers = INBOUND.map(|channel| {
            let mut reader = session.reader(channel);
            tokio::spawn(async move {
                let mut content = Vec::new();
                while let Some(Ok(chunk)) = reader.next().await {
                    content.extend_from_slice(&chunk);
                }
                (channel, content)
            })
        });
        for reader in readers {
            let (channel, content) = reader.await.expect("a reader does not panic");
            channels.insert(channel, content);
        }
        let end = format!("{:?}", session.ended().await);
        driver.await.expect("the driver does not panic");
        (channels, end)
    })
}

/// A connection from which these parts are read, one at a time. What is written to it is dropped.
struct Connection {
    parts: std::collections::VecDeque<Vec<u8>>,
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while let Some(mut part) = self.parts.pop_front() {
            if part.is_empty() {
                continue;
            }
            let rest = part.split_off(into.remaining().min(part.len()));
            into.put_slice(&part);
            if !rest.is_empty() {
                self.parts.push_front(rest);
            }
            break;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
