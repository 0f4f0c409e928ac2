mod driver;
mod handshake;
mod state;

use super::{ChannelProtocol, ERROR, RESIZE, Role, STDERR, STDIN, STDOUT, SessionSettings};

fn client(protocol: ChannelProtocol) -> SessionSettings {
    SessionSettings {
        role: Role::Client,
        protocol,
        inbound: vec![STDOUT, STDERR, ERROR],
        outbound: vec![STDIN, RESIZE],
    }
}

fn server(protocol: ChannelProtocol) -> SessionSettings {
    SessionSettings {
        role: Role::Server,
        protocol,
        inbound: vec![STDIN, RESIZE],
        outbound: vec![STDOUT, STDERR, ERROR],
    }
}
