//! Commands that start, print and end.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use crate::process::{Process, evenkeel};

#[cfg(unix)]
#[test]
fn apiserver_prints_its_address_and_stops_on_a_signal() {
    use std::os::unix::fs::PermissionsExt;

    let directory = std::env::temp_dir().join(format!("evenkeel-cli-{}", std::process::id()));
    let kubeconfig = directory.join("kubeconfig");
    let mut server = Process(
        evenkeel(&[])
            .args(["apiserver", "--listen", "127.0.0.1:0", "--kubeconfig-out"])
            .arg(&kubeconfig)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut lines = BufReader::new(server.0.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("listening on ") {
        line.clear();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "the server ended");
    }
    let url = line.trim_start_matches("listening on ").trim();
    let address = url.strip_prefix("https://").unwrap();
    std::net::TcpStream::connect(address).unwrap();
    assert!(std::fs::read_to_string(&kubeconfig).unwrap().contains(url));
    assert_eq!(std::fs::metadata(&kubeconfig).unwrap().permissions().mode() & 0o777, 0o600);

    let second = evenkeel(&[]).args(["apiserver", "--listen", address]).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    let message = String::from_utf8(second.stderr).unwrap();
    assert!(message.starts_with(&format!("evenkeel: {address} is in use")), "{message}");

    let pid = server.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(server.0.wait().unwrap().success());
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "stopped\n");
    std::fs::remove_dir_all(&directory).unwrap();
}

#[cfg(unix)]
#[test]
fn apiserver_logs_requests_and_writes_an_audit_log() {
    use std::io::Write;

    let directory = std::env::temp_dir().join(format!("evenkeel-cli-audit-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let (log, policy) = (directory.join("audit.log"), directory.join("policy.yaml"));
    let rules = "omitStages: [RequestReceived]\nrules: [{level: Metadata}]";
    std::fs::write(&policy, format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{rules}")).unwrap();
    let mut server = Process(
        evenkeel(&["apiserver", "--listen", "127.0.0.1:0", "--plain-http", "--log-requests", "--audit-log"])
            .arg(&log)
            .arg("--audit-policy-file")
            .arg(&policy)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut line = String::new();
    // Open until the end, because the server writes to it when it stops.
    let mut stdout = BufReader::new(server.0.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    let address = line.strip_prefix("listening on http://").unwrap().trim();
    let mut connection = std::net::TcpStream::connect(address).unwrap();
    write!(connection, "GET /version?x=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    connection.read_to_string(&mut String::new()).unwrap();
    let mut logged = String::new();
    let mut stderr = BufReader::new(server.0.stderr.take().unwrap());
    stderr.read_line(&mut logged).unwrap();
    for part in ["method=GET", "path=\"/version?x=1\"", "status=200", "user=\"system:admin\"", "latency="] {
        assert!(logged.contains(part), "{part}: {logged}");
    }
    server.signal("TERM");
    assert!(server.0.wait().unwrap().success());
    let events = std::fs::read_to_string(&log).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    let event: serde_json::Value = serde_json::from_str(events.trim()).unwrap();
    assert_eq!((&event["stage"], &event["requestURI"]), (&"ResponseComplete".into(), &"/version?x=1".into()));
}

#[cfg(unix)]
#[test]
fn apiserver_without_controllers_is_a_kube_apiserver_alone() {
    use std::io::Write;

    for (flags, code) in [(&[][..], "200"), (&["--controllers", "off"], "404")] {
        let mut server = Process(
            evenkeel(&["apiserver", "--listen", "127.0.0.1:0", "--plain-http"])
                .args(flags)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap(),
        );
        let mut line = String::new();
        // Open until the end, because the server writes to it when it stops.
        let mut stdout = BufReader::new(server.0.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let mut connection =
            std::net::TcpStream::connect(line.strip_prefix("listening on http://").unwrap().trim()).unwrap();
        let account = "/api/v1/namespaces/default/serviceaccounts/default";
        write!(connection, "GET {account} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut response = String::new();
        connection.read_to_string(&mut response).unwrap();
        assert!(response.starts_with(&format!("HTTP/1.1 {code} ")), "{flags:?}: {response}");
        server.signal("TERM");
        assert!(server.0.wait().unwrap().success());
    }
}

#[test]
fn apiserver_explains_refused_arguments() {
    let open = evenkeel(&[]).args(["apiserver", "--listen", "0.0.0.0:0", "--plain-http"]).output().unwrap();
    assert_eq!(open.status.code(), Some(1));
    let message = String::from_utf8(open.stderr).unwrap();
    assert!(message.contains("without authentication") && message.contains("--i-know-this-is-open"), "{message}");
    let audited =
        ["apiserver", "--listen", "127.0.0.1:0", "--audit-log", "/dev/null", "--audit-policy-file", "/no/file"];
    let policy = evenkeel(&audited).output().unwrap();
    let message = String::from_utf8(policy.stderr).unwrap();
    assert_eq!(policy.status.code(), Some(1));
    assert!(message.starts_with("evenkeel: cannot use the audit policy /no/file: "), "{message}");
    let invalid = [
        ["--listen", "localhost:0"],
        ["--token", ""],
        ["--audit-policy-file", "x"],
        ["--memory-budget", "1Mi"],
        ["--memory-budget", "x"],
    ];
    for arguments in invalid {
        let output = evenkeel(&[]).arg("apiserver").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
    let missing = evenkeel(&[]).args(["apiserver", "--token-file", "/nowhere/tokens.csv"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(1));
    let message = String::from_utf8(missing.stderr).unwrap();
    assert!(message.contains("cannot read the token file /nowhere/tokens.csv"), "{message}");
    let misspelt = evenkeel(&[]).args(["apiserver", "--fault", "explode"]).output().unwrap();
    assert_eq!(misspelt.status.code(), Some(2));
    assert!(String::from_utf8(misspelt.stderr).unwrap().contains("drop-watch"));
}

#[test]
fn help_names_every_fault() {
    let help = evenkeel(&[]).args(["apiserver", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let unknown = evenkeel(&[]).args(["apiserver", "--fault", "explode"]).output().unwrap();
    let message = String::from_utf8(unknown.stderr).unwrap();
    let (_, faults) = message.lines().next().unwrap().split_once("there are ").unwrap();
    for fault in faults.split(", ") {
        let named = help.split([' ', ',', '\n']).any(|word| word == fault);
        assert!(named, "{fault} is missing from --help");
    }
}
