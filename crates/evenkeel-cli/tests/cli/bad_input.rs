//! Wrong input: each gives one sentence and an exit code.

use std::process::Command;

use evenkeel_apiserver::{Action, ApiServer, Rule};
use evenkeel_core::{Reason, Status};

use crate::process::{Folder, evenkeel};

/// Runs the command to its end, on another thread than the server's runtime. Returns the exit code and the standard
/// error.
async fn run(mut command: Command) -> (Option<i32>, String) {
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "", "no output beside an error");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!errors.contains("panicked") && !errors.contains("error: error"), "{errors}");
    (output.status.code(), errors)
}

/// Returns the one sentence of a failure.
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

/// Returns the first line that clap prints for invalid arguments, and the rest.
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

/// Replaces the credentials in a kubeconfig.
fn with_token(kubeconfig: &str, token: &str) -> String {
    let kept: Vec<&str> = kubeconfig.lines().filter(|line| !line.trim_start().starts_with("client-")).collect();
    let text = kept.join("\n");
    assert!(text.contains("  user:\n"), "{text}");
    text.replace("  user:\n", &format!("  user:\n    token: {token}\n"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_resource_is_reported_with_similar_names() {
    let server = ApiServer::start().await.unwrap();
    for (resource, message) in [
        ("deploymnts", r#"the server has no resource "deploymnts"; did you mean deployments?"#),
        ("sevrices", r#"the server has no resource "sevrices"; did you mean services?"#),
        ("deployments/v9", r#"the server has no resource "deployments.v9"; did you mean deployments.v1.apps?"#),
        ("pods.nowhere", r#"the server has no resource "pods.nowhere"; did you mean pods/v1?"#),
        ("widgets", r#"the server has no resource "widgets""#),
        ("tokenreviews", "tokenreviews cannot be watched: it has no list and watch, only create"),
    ] {
        assert_eq!(sentence(&["observe", resource, "--server", server.url()]).await, message);
    }
    let (first, _) = usage(&["observe", "", "--server", server.url()]).await;
    assert!(first.contains("<RESOURCE>"), "{first}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_server_is_named_with_its_origin() {
    let (url, kubeconfig) = {
        let (server, kubeconfig) = protected().await;
        (server.url().to_owned(), kubeconfig)
    };
    let message = sentence(&["observe", "pods", "--server", &url]).await;
    assert_eq!(message, format!("connection refused by {url} (from --server); is it running?"));
    let folder = Folder::new("unreachable");
    let file = folder.file("config", &kubeconfig);
    let message = sentence(&["observe", "pods", "--kubeconfig", &file]).await;
    assert_eq!(message, format!("connection refused by {url} (from the context \"evenkeel\"); is it running?"));

    let message = sentence(&["observe", "pods", "--server", "https://no-such-host.invalid"]).await;
    let expected = "the host of https://no-such-host.invalid (from --server) has no address";
    assert!(message.starts_with(expected), "{message}");
    let message = sentence(&["observe", "pods", "--server", "ftp://here"]).await;
    assert_eq!(message, r#"the server URL "ftp://here" cannot be used: the scheme is neither http nor https"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn https_and_http_are_mixed_up() {
    let (server, _) = protected().await;
    let url = server.url().replace("https", "http");
    let message = sentence(&["observe", "pods", "--server", &url]).await;
    let expected = format!("{url} (from --server) does not speak HTTP; try https instead of http");
    assert_eq!(message, expected);

    let server = ApiServer::start().await.unwrap();
    let url = server.url().replace("http", "https");
    let message = sentence(&["observe", "pods", "--server", &url]).await;
    let expected = format!(
        "no secure connection to {url} (from --server): the server does not speak TLS; it may want http instead of \
         https"
    );
    assert_eq!(message, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_credentials_are_named() {
    let (server, kubeconfig) = protected().await;
    let folder = Folder::new("credentials");
    let url = server.url();
    let wrong = folder.file("wrong", &with_token(&kubeconfig, "expired"));
    let message = sentence(&["observe", "pods", "--kubeconfig", &wrong]).await;
    let expected = format!(
        "{url} (from the context \"evenkeel\") rejected the credentials of the user \"evenkeel\" \
         (wrong or expired): Unauthorized"
    );
    assert_eq!(message, expected);
    let message = sentence(&["observe", "pods", "--kubeconfig", &wrong, "--token", "mine"]).await;
    assert!(message.contains("rejected the token from --token (wrong or expired)"), "{message}");
    assert!(!message.contains("mine"), "{message}");
    let message = sentence(&["observe", "pods", "--server", url, "--insecure-skip-tls-verify"]).await;
    let expected =
        format!("{url} (from --server) requires credentials and none are configured; pass --kubeconfig or --token");
    assert_eq!(message, expected);
    let message = sentence(&["observe", "pods", "--server", url]).await;
    assert!(message.contains("not signed by an authority that is trusted here") && message.contains(url), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forbidden_list_is_reported() {
    let server = ApiServer::start().await.unwrap();
    let no = Status::forbidden("", "pods", "", "you may not look");
    server.faults().add(Rule::new(Action::Status(Box::new(no))).resource("pods"));
    let message = sentence(&["observe", "pods", "--server", server.url()]).await;
    assert_eq!(message, "not allowed to list pods in default with no credentials: pods is forbidden: you may not look");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_a_server_stays_in_one_line_without_escapes() {
    let server = ApiServer::start().await.unwrap();
    let no = Status::failure(403, Reason::FORBIDDEN, "no\n\x1b[2J\u{9b}31mno");
    server.faults().add(Rule::new(Action::Status(Box::new(no))).resource("pods"));
    let message = sentence(&["observe", "pods", "-A", "--server", server.url()]).await;
    assert!(message.starts_with("not allowed to list pods in all namespaces with no credentials: no "), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_kubeconfig_is_named_with_the_line() {
    let folder = Folder::new("kubeconfig");
    for (name, text, message) in [
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
            _ => assert_eq!(sentence, format!("cannot understand the kubeconfig {file}{message}")),
        }
    }
    let missing = folder.path("missing");
    let message = sentence(&["observe", "pods", "--kubeconfig", &missing]).await;
    assert!(message.starts_with(&format!("cannot read the kubeconfig from {missing}: ")), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_kubeconfig_is_reported_with_its_paths() {
    let message = sentence(&["observe", "pods"]).await;
    let expected = "no cluster configured: /nonexistent/.kube/config does not exist; pass --kubeconfig FILE or --server \
                    URL";
    assert_eq!(message, expected);
    let mut command = evenkeel(&["observe", "pods"]);
    command.env("KUBECONFIG", "/nowhere/a");
    let message = sentence_of(command).await;
    assert!(message.starts_with("no cluster configured: /nowhere/a does not exist; "), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_context_is_reported_with_the_known_ones() {
    let folder = Folder::new("contexts");
    let contexts = "contexts: [{name: kind, context: {cluster: a}}, {name: prod, context: {cluster: b}}]";
    let file = folder.file("config", contexts);
    let message = sentence(&["observe", "pods", "--kubeconfig", &file, "--context", "pord"]).await;
    assert_eq!(message, r#"--context names "pord", which the kubeconfig does not have; it has kind, prod"#);
    let message = sentence(&["observe", "pods", "--kubeconfig", &file]).await;
    let expected = "no cluster configured: the kubeconfig has no current-context; pass --context NAME, one of kind, \
                    prod";
    assert_eq!(message, expected);
    let message = sentence(&["observe", "pods", "--kubeconfig", &file, "--context", "prod"]).await;
    assert_eq!(message, r#"the context "prod" names the cluster "b", which is not in the kubeconfig; there is none"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_certificates_are_named() {
    let folder = Folder::new("authority");
    let empty = folder.file("ca.pem", "no certificate\n");
    for (authority, message) in [
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
        assert!(sentence.starts_with("cannot read ") && sentence.ends_with(&message), "{sentence}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_in_use_is_named_with_a_hint() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let message = sentence(&["apiserver", "--listen", &address]).await;
    let expected = format!(
        "{address} is in use by another program; stop that one, or listen on another port (port 0 picks a free one)"
    );
    assert_eq!(message, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unwritable_kubeconfig_is_named() {
    let folder = Folder::new("out");
    let file = format!("{}/config", folder.file("no-folder", ""));
    let message = sentence(&["apiserver", "--listen", "127.0.0.1:0", "--kubeconfig-out", &file]).await;
    assert!(message.starts_with(&format!("cannot write the kubeconfig to {file}: ")), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_arguments_are_reported_with_suggestions() {
    for (arguments, message) in [
        (&["obsrve", "pods"][..], "a similar subcommand exists: 'observe'"),
        (&["observe", "pods", "--selecter", "a"], "a similar argument exists: '--selector'"),
        (&["observe", "pods", "--dif"], "a similar argument exists: '--diff'"),
        (&["apiserver", "--kubeconfig", "a"], "a similar argument exists: '--kubeconfig-out'"),
    ] {
        let (first, rest) = usage(arguments).await;
        assert!(first.starts_with("error: un"), "{first}");
        assert!(rest.contains(message), "{rest}");
    }
    for (arguments, message) in [
        (["-l", "=x"], "invalid value '=x' for '--selector <SELECTOR>': found '='"),
        (["-l", "a in (b"], "invalid value 'a in (b' for '--selector <SELECTOR>': "),
        (["--field-selector", "x"], "invalid value 'x' for '--field-selector <SELECTOR>': "),
        (
            ["--resync", "soon"],
            "invalid value 'soon' for '--resync <TIME>': invalid duration: expected numbers with units",
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
        assert!(first.starts_with(&format!("error: {message}")), "{first}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn adm_002_an_unknown_admission_plugin_is_reported_with_the_known_ones() {
    let plugins = sentence(&["apiserver", "--enable-admission-plugins", "Priority,NoSuchPlugin"]).await;
    assert!(
        plugins.starts_with("admission plugin \"NoSuchPlugin\" is unknown; there are NamespaceLifecycle, "),
        "{plugins}"
    );
    let both = ["apiserver", "--enable-admission-plugins=Priority", "--disable-admission-plugins=PodSecurity,Priority"];
    assert_eq!(sentence(&both).await, "admission plugin Priority is both enabled and disabled; name it once");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_namespace_is_reported_before_any_request() {
    let message = sentence(&["observe", "pods", "-n", "A B", "--server", "http://127.0.0.1:1"]).await;
    assert_eq!(message, r#"invalid configuration: what was chosen has the namespace "A B", which is no DNS label"#);
}
