//! What people get wrong, and what they are told: one sentence, and an exit code.
#![allow(clippy::unwrap_used, reason = "in a test a panic is a finding")]

mod common;

use std::path::PathBuf;
use std::process::Command;

use evenkeel_apiserver::{Action, ApiServer, Rule};
use evenkeel_core::{Reason, Status};

use common::evenkeel;

/// A folder that is gone with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("evenkeel-bad-input-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs it to its end, away from the runtime that the server runs on; the code and what is said on the standard error.
async fn run(mut command: Command) -> (Option<i32>, String) {
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "", "nothing is said where results would be");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!errors.contains("panicked") && !errors.contains("error: error"), "{errors}");
    (output.status.code(), errors)
}

/// The one sentence that a failure is.
async fn sentence_of(command: Command) -> String {
    let (code, errors) = run(command).await;
    assert_eq!(code, Some(1), "{errors}");
    let sentence = errors.strip_prefix("evenkeel: ").unwrap_or_else(|| panic!("{errors}"));
    let sentence = sentence.strip_suffix('\n').unwrap();
    assert!(!sentence.contains('\n') && !sentence.chars().any(char::is_control), "one line: {sentence:?}");
    sentence.to_owned()
}

async fn sentence(arguments: &[&str]) -> String {
    sentence_of(evenkeel(arguments)).await
}

/// The first line that clap says of arguments that make no sense, and the rest.
async fn usage(arguments: &[&str]) -> (String, String) {
    let (code, errors) = run(evenkeel(arguments)).await;
    assert_eq!(code, Some(2), "{errors}");
    let (first, rest) = errors.split_once('\n').unwrap();
    (first.to_owned(), rest.to_owned())
}

/// A server with TLS, and its administrator's kubeconfig.
async fn protected() -> (ApiServer, String) {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let kubeconfig = server.kubeconfig();
    (server, kubeconfig)
}

/// The kubeconfig with other credentials than those of its user.
fn with_token(kubeconfig: &str, token: &str) -> String {
    let kept: Vec<&str> = kubeconfig.lines().filter(|line| !line.trim_start().starts_with("client-")).collect();
    let text = kept.join("\n");
    assert!(text.contains("  user:\n"), "{text}");
    text.replace("  user:\n", &format!("  user:\n    token: {token}\n"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_that_is_not_there_is_told_beside_those_with_like_names() {
    let server = ApiServer::start().await.unwrap();
    for (resource, told) in [
        ("deploymnts", r#"the server has no resource "deploymnts"; did you mean deployments?"#),
        ("sevrices", r#"the server has no resource "sevrices"; did you mean services?"#),
        ("deployments/v9", r#"the server has no resource "deployments.v9"; did you mean deployments.v1.apps?"#),
        ("pods.nowhere", r#"the server has no resource "pods.nowhere"; did you mean pods/v1?"#),
        ("widgets", r#"the server has no resource "widgets""#),
        ("tokenreviews", "tokenreviews cannot be observed: it has no list and watch, only create"),
    ] {
        assert_eq!(sentence(&["observe", resource, "--server", server.url()]).await, told);
    }
    let (first, _) = usage(&["observe", "", "--server", server.url()]).await;
    assert!(first.contains("<RESOURCE>"), "{first}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_reached_is_named_with_who_named_it() {
    let (url, kubeconfig) = {
        let (server, kubeconfig) = protected().await;
        (server.url().to_owned(), kubeconfig)
    };
    let told = sentence(&["observe", "pods", "--server", &url]).await;
    assert_eq!(told, format!("nobody listens at {url} (named by --server); is it running?"));
    let folder = Folder::new("unreachable");
    let file = folder.file("config", &kubeconfig);
    let told = sentence(&["observe", "pods", "--kubeconfig", &file]).await;
    assert_eq!(told, format!("nobody listens at {url} (the server of the context \"evenkeel\"); is it running?"));

    let told = sentence(&["observe", "pods", "--server", "https://no-such-host.invalid"]).await;
    let expected = "the host of https://no-such-host.invalid (named by --server) has no address";
    assert!(told.starts_with(expected), "{told}");
    let told = sentence(&["observe", "pods", "--server", "ftp://here"]).await;
    assert_eq!(told, r#"the server URL "ftp://here" cannot be used: the scheme is neither http nor https"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn https_where_http_is_spoken_and_the_other_way_round() {
    let (server, _) = protected().await;
    let url = server.url().replace("https", "http");
    let told = sentence(&["observe", "pods", "--server", &url]).await;
    let expected = format!("{url} (named by --server) does not speak HTTP; it may want https instead of http");
    assert_eq!(told, expected);

    let server = ApiServer::start().await.unwrap();
    let url = server.url().replace("http", "https");
    let told = sentence(&["observe", "pods", "--server", &url]).await;
    let expected = format!(
        "no secure connection to {url} (named by --server): the server does not speak TLS; it may want http instead of \
         https"
    );
    assert_eq!(told, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_are_refused_are_named() {
    let (server, kubeconfig) = protected().await;
    let folder = Folder::new("credentials");
    let url = server.url();
    let wrong = folder.file("wrong", &with_token(&kubeconfig, "expired"));
    let told = sentence(&["observe", "pods", "--kubeconfig", &wrong]).await;
    let expected = format!(
        "{url} (the server of the context \"evenkeel\") does not accept the credentials of the user \"evenkeel\" \
         (wrong, or expired): Unauthorized"
    );
    assert_eq!(told, expected);
    let told = sentence(&["observe", "pods", "--kubeconfig", &wrong, "--token", "mine"]).await;
    assert!(told.contains("does not accept the token of --token (wrong, or expired)"), "{told}");
    assert!(!told.contains("mine"), "{told}");
    let told = sentence(&["observe", "pods", "--server", url, "--insecure-skip-tls-verify"]).await;
    let expected =
        format!("{url} (named by --server) wants credentials, and there are none; a kubeconfig or --token gives some");
    assert_eq!(told, expected);
    let told = sentence(&["observe", "pods", "--server", url]).await;
    assert!(told.contains("not signed by an authority that is trusted here") && told.contains(url), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_look_is_told_so() {
    let server = ApiServer::start().await.unwrap();
    let no = Status::forbidden("", "pods", "", "you may not look");
    server.faults().add(Rule::new(Action::Status(Box::new(no))).resource("pods"));
    let told = sentence(&["observe", "pods", "--server", server.url()]).await;
    assert_eq!(told, "not allowed to list pods in default with no credentials: pods is forbidden: you may not look");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_says_stays_in_one_line_and_does_nothing_to_the_terminal() {
    let server = ApiServer::start().await.unwrap();
    let no = Status::failure(403, Reason::FORBIDDEN, "no\n\x1b[2J\u{9b}31mno");
    server.faults().add(Rule::new(Action::Status(Box::new(no))).resource("pods"));
    let told = sentence(&["observe", "pods", "-A", "--server", server.url()]).await;
    assert!(told.starts_with("not allowed to list pods in all namespaces with no credentials: no "), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_that_makes_no_sense_is_named_with_the_line() {
    let folder = Folder::new("kubeconfig");
    for (name, text, told) in [
        ("torn", "kind: Config\nclusters: [\n", ", line 2, column 11: this is not proper YAML"),
        ("number", "kind: Config\nclusters: 7\n", ", line 2, column 11: there should be a list"),
        ("pod", "kind: Pod\n", ": it is no kubeconfig: kind is not \"Config\""),
        ("dangling", "current-context: a\n", ""),
    ] {
        let file = folder.file(name, text);
        let sentence = sentence(&["observe", "pods", "--kubeconfig", &file]).await;
        match name {
            "dangling" => assert_eq!(
                sentence,
                r#"current-context names the context "a", which is not in the kubeconfig; there is none"#
            ),
            _ => assert_eq!(sentence, format!("cannot understand the kubeconfig {file}{told}")),
        }
    }
    let missing = folder.path("missing");
    let told = sentence(&["observe", "pods", "--kubeconfig", &missing]).await;
    assert!(told.starts_with(&format!("cannot read the kubeconfig from {missing}: ")), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_kubeconfig_at_all_is_told_with_where_it_was_looked_for() {
    let told = sentence(&["observe", "pods"]).await;
    let expected = "no cluster to talk to: /nonexistent/.kube/config does not exist; --kubeconfig FILE or --server URL \
                    says which";
    assert_eq!(told, expected);
    let mut command = evenkeel(&["observe", "pods"]);
    command.env("KUBECONFIG", "/nowhere/a");
    let told = sentence_of(command).await;
    assert!(told.starts_with("no cluster to talk to: /nowhere/a does not exist; "), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_that_is_not_there_is_told_beside_those_that_are() {
    let folder = Folder::new("contexts");
    let contexts = "contexts: [{name: kind, context: {cluster: a}}, {name: prod, context: {cluster: b}}]";
    let file = folder.file("config", contexts);
    let told = sentence(&["observe", "pods", "--kubeconfig", &file, "--context", "pord"]).await;
    assert_eq!(told, r#"--context names "pord", which the kubeconfig does not have; it has kind, prod"#);
    let told = sentence(&["observe", "pods", "--kubeconfig", &file]).await;
    let expected = "no cluster to talk to: the kubeconfig has no current-context; --context NAME chooses one of kind, \
                    prod";
    assert_eq!(told, expected);
    let told = sentence(&["observe", "pods", "--kubeconfig", &file, "--context", "prod"]).await;
    assert_eq!(told, r#"the context "prod" names the cluster "b", which is not in the kubeconfig; there is none"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_that_cannot_be_read_are_named() {
    let folder = Folder::new("authority");
    let empty = folder.file("ca.pem", "no certificate\n");
    for (authority, told) in [
        ("/nowhere/ca.pem", "/nowhere/ca.pem: No such file or directory (os error 2)".to_owned()),
        (empty.as_str(), format!("{empty}: there is no certificate in it")),
    ] {
        let config = format!(
            "current-context: a\n\
             contexts: [{{name: a, context: {{cluster: a}}}}]\n\
             clusters: [{{name: a, cluster: {{server: 'https://127.0.0.1:1', certificate-authority: '{authority}'}}}}]\n"
        );
        let file = folder.file("config", &config);
        let sentence = sentence(&["observe", "pods", "--kubeconfig", &file]).await;
        assert!(sentence.starts_with("cannot read ") && sentence.ends_with(&told), "{sentence}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_taken_is_named_with_what_to_do() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let told = sentence(&["apiserver", "--listen", &address]).await;
    let expected = format!(
        "{address} is in use by another program; stop that one, or listen on another port (port 0 picks a free one)"
    );
    assert_eq!(told, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_that_cannot_be_written_is_named() {
    let folder = Folder::new("out");
    let file = format!("{}/config", folder.file("no-folder", ""));
    let told = sentence(&["apiserver", "--listen", "127.0.0.1:0", "--kubeconfig-out", &file]).await;
    assert!(told.starts_with(&format!("cannot write the kubeconfig to {file}: ")), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_make_no_sense_are_answered_with_those_that_do() {
    for (arguments, told) in [
        (&["obsrve", "pods"][..], "a similar subcommand exists: 'observe'"),
        (&["observe", "pods", "--selecter", "a"], "a similar argument exists: '--selector'"),
        (&["observe", "pods", "--dif"], "a similar argument exists: '--diff'"),
        (&["apiserver", "--kubeconfig", "a"], "a similar argument exists: '--kubeconfig-out'"),
    ] {
        let (first, rest) = usage(arguments).await;
        assert!(first.starts_with("error: un"), "{first}");
        assert!(rest.contains(told), "{rest}");
    }
    for (arguments, told) in [
        (["-l", "=x"], "invalid value '=x' for '--selector <SELECTOR>': found '='"),
        (["-l", "a in (b"], "invalid value 'a in (b' for '--selector <SELECTOR>': "),
        (["--field-selector", "x"], "invalid value 'x' for '--field-selector <SELECTOR>': "),
        (
            ["--resync", "soon"],
            "invalid value 'soon' for '--resync <TIME>': this is no duration: numbers with units are",
        ),
        (["--resync", "-1s"], "invalid value '-1s' for '--resync <TIME>': "),
        (["--wire", "cbor"], "invalid value 'cbor' for '--wire <FORM>'"),
        (["-o", "yaml"], "invalid value 'yaml' for '--output <FORMAT>'"),
        (["--server", ""], "a value is required for '--server <URL>'"),
    ] {
        let flag = format!("{}={}", arguments[0], arguments[1]);
        let arguments = match arguments[0].starts_with("--") && !arguments[1].is_empty() {
            true => vec!["observe", "pods", &flag],
            false => vec!["observe", "pods", arguments[0], arguments[1]],
        };
        let (first, _) = usage(&arguments).await;
        assert!(first.starts_with(&format!("error: {told}")), "{first}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_cannot_be_one_is_told_before_anybody_is_asked() {
    let told = sentence(&["observe", "pods", "-n", "A B", "--server", "http://127.0.0.1:1"]).await;
    assert_eq!(told, r#"invalid configuration: what was chosen has the namespace "A B", which is no DNS label"#);
}
