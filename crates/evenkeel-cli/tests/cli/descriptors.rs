//! A server that runs out of file descriptors (SEC-65).

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::process::{Process, evenkeel};

/// More than the server needs for itself, and fewer than the connections of the test.
const DESCRIPTORS: usize = 48;
const CONNECTIONS: usize = 64;

/// Sends a GET and returns the connection. Its response has not been read.
fn get(address: &str, path: &str) -> TcpStream {
    let mut connection = TcpStream::connect(address).unwrap();
    send(&mut connection, path, "keep-alive");
    connection
}

fn send(connection: &mut TcpStream, path: &str, then: &str) {
    write!(connection, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: {then}\r\n\r\n").unwrap();
}

/// Reads the response of `/livez` from a connection that stays open.
fn is_alive(connection: &mut TcpStream) -> bool {
    let mut response = Vec::new();
    let mut byte = [0];
    while !response.ends_with(b"\r\n\r\nok") {
        connection.read_exact(&mut byte).unwrap();
        response.extend(byte);
    }
    response.starts_with(b"HTTP/1.1 200")
}

#[test]
fn sec_65_a_server_without_descriptors_warns_goes_on_and_recovers() {
    let program = evenkeel(&[]).get_program().to_owned();
    let mut command = Command::new("bash");
    command.args(["-c", &format!("ulimit -n {DESCRIPTORS}; exec \"$@\""), "bash"]).arg(program);
    command.args(["apiserver", "--plain-http", "--listen", "127.0.0.1:0"]).env("HOME", "/nonexistent");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut server = Process(command.spawn().unwrap());
    let mut stdout = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let address = line.strip_prefix("listening on http://").unwrap().trim().to_owned();

    let mut old = get(&address, "/livez");
    assert!(is_alive(&mut old));
    let watch = "/api/v1/namespaces/default/configmaps?watch=true";
    let watches: Vec<TcpStream> = (0..CONNECTIONS).map(|_| get(&address, watch)).collect();
    let mut stderr = BufReader::new(server.stderr.take().unwrap());
    let mut warning = String::new();
    stderr.read_line(&mut warning).unwrap();
    assert!(warning.contains("cannot accept connections; retrying"), "{warning}");
    assert!(warning.contains("(os error 24)"), "{warning}");
    send(&mut old, "/livez", "keep-alive");
    assert!(is_alive(&mut old), "an open connection is served");

    drop(watches);
    let mut new = get(&address, "/livez");
    assert!(is_alive(&mut new), "new connections are accepted again");
    server.signal("TERM");
    assert!(server.wait().unwrap().success());
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    let repeated = |line: &&str| line.contains("cannot accept connections");
    // A repetition after the interval of the limit counts what was left out.
    assert!(rest.lines().filter(repeated).all(|line| !line.contains("unlogged=0")), "{rest}");
}
