//! `evenkeel apiserver backup`, `--restore` and `--history-after-restart` (DUR-006, DUR-012).

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::process::{Process, evenkeel};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A folder that is removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("evenkeel-backup-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Server {
    process: Process,
    address: String,
    /// Open until the end, because the server writes to it when it stops.
    _stdout: BufReader<ChildStdout>,
}

impl Server {
    fn start(data_dir: &Path, more: &[&str]) -> Self {
        let mut command = evenkeel(&["apiserver", "--plain-http", "--listen", "127.0.0.1:0", "--data-dir"]);
        let mut process = Process(command.arg(data_dir).args(more).stdout(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let address = line.strip_prefix("listening on http://").unwrap().trim().to_owned();
        Server { process, address, _stdout: stdout }
    }

    /// Sends a request and returns the body of the response.
    fn send(&self, method: &str, path: &str, body: &str) -> Value {
        let mut connection = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        write!(
            connection,
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut response = String::new();
        connection.read_to_string(&mut response).unwrap();
        // The bodies are short and in one chunk.
        let start = response.find('{').unwrap();
        let end = response.rfind('}').unwrap();
        serde_json::from_str(&response[start..=end]).unwrap()
    }

    fn create(&self, name: &str) -> Value {
        let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}});
        self.send("POST", CONFIG_MAPS, &object.to_string())
    }

    fn names(&self) -> Vec<String> {
        let list = self.send("GET", CONFIG_MAPS, "");
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }
}

/// Runs the backup command. Returns the exit code, the output and the error.
fn backup(data_dir: &Path, file: &Path) -> (Option<i32>, String, String) {
    let output = evenkeel(&["apiserver", "backup", "--data-dir"]).arg(data_dir).arg(file).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn dur_012_a_running_server_is_backed_up_and_restored() {
    let folder = Folder::new("running");
    let (data, file, copy) = (folder.path("data"), folder.path("backup"), folder.path("copy"));
    let server = Server::start(&data, &[]);
    let created = server.create("before");
    let (code, output, errors) = backup(&data, &file);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    let version = created["metadata"]["resourceVersion"].as_str().unwrap();
    let start = format!("backup {}: revision {version}, ", file.display());
    let objects: u64 = output.strip_prefix(&start).unwrap().strip_suffix(" objects\n").unwrap().parse().unwrap();
    server.create("after");

    let restored = Server::start(&copy, &["--restore", file.to_str().unwrap()]);
    assert_eq!(restored.names(), ["before"]);
    let lost = restored.send("GET", &format!("{CONFIG_MAPS}?watch=true&resourceVersion={version}"), "");
    assert_eq!(lost["object"]["code"], 410, "every informer relists");
    assert_eq!(server.names(), ["after", "before"], "the original goes on");

    // A data directory without a server; the file is replaced.
    drop(server);
    let (code, output, errors) = backup(&data, &file);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert!(output.ends_with(&format!(", {} objects\n", objects + 1)), "{output}");
}

#[test]
fn dur_012_what_cannot_be_backed_up_or_restored_is_explained() {
    let folder = Folder::new("errors");
    let (data, file, empty) = (folder.path("data"), folder.path("backup"), folder.path("empty"));
    std::fs::create_dir(&empty).unwrap();
    let mut server = Server::start(&data, &[]);
    server.process.signal("TERM");
    assert!(server.process.wait().unwrap().success());
    let inside = data.join("snapshot-0000000009");
    for (data, file, message) in [
        (&folder.path("missing"), &file, "cannot read or write "),
        (&empty, &file, "has no data of an API server"),
        (&data, &inside, "is in the data directory: write the backup to another one"),
        (&data, &folder.path("no/folder"), "cannot read or write "),
    ] {
        let (code, output, errors) = backup(data, file);
        assert_eq!((code, output.as_str()), (Some(1), ""), "{errors}");
        assert!(
            errors.starts_with("evenkeel: ") && errors.contains(message) && errors.lines().count() == 1,
            "{errors}"
        );
    }
    assert!(!inside.exists() && !file.exists());

    let restore = |data: &Path, file: &Path| {
        let command = ["apiserver", "--plain-http", "--listen", "127.0.0.1:0", "--data-dir"];
        let output = evenkeel(&command).arg(data).arg("--restore").arg(file).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    std::fs::write(&file, "not a backup").unwrap();
    let errors = restore(&empty, &file);
    assert!(errors.contains(file.to_str().unwrap()) && errors.contains("damaged"), "{errors}");
    let errors = restore(&empty, &folder.path("missing"));
    assert!(errors.contains("No such file or directory"), "{errors}");
    assert_eq!(backup(&data, &file).0, Some(0));
    let errors = restore(&data, &file);
    assert!(errors.contains("has content"), "{errors}");

    for arguments in [&["backup"][..], &["backup", "x"], &["--data-dir", "x", "--history-after-restart", "some"]] {
        let output = evenkeel(&["apiserver"]).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn dur_006_the_history_after_a_restart_is_an_option() {
    let folder = Folder::new("history");
    let data = folder.path("data");
    let stop = |mut server: Server| {
        server.process.signal("TERM");
        assert!(server.process.wait().unwrap().success());
    };
    let server = Server::start(&data, &[]);
    let created = server.create("a");
    let version = created["metadata"]["resourceVersion"].as_str().unwrap();
    stop(server);
    let exact = format!("{CONFIG_MAPS}?resourceVersion={version}&resourceVersionMatch=Exact");
    let server = Server::start(&data, &["--history-after-restart", "keep"]);
    assert_eq!(server.send("GET", &exact, "")["kind"], "ConfigMapList");
    stop(server);
    let server = Server::start(&data, &["--history-after-restart", "drop"]);
    assert_eq!(server.send("GET", &exact, "")["code"], 410);
    assert_eq!(server.names(), ["a"]);
}
