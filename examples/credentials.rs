//! Credentials that change while a program runs: an exec plugin, as the kubeconfigs of EKS, GKE and AKS have one, and a token
//! source in the program itself.
//!
//! ```text
//! cargo run -p evenkeel-examples --example credentials
//! ```
//!
//! In client-go: `exec:` in a kubeconfig, and `Config.WrapTransport` with an `oauth2.TokenSource`. In kube-rs: `exec:` in a
//! kubeconfig.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel::apiserver::{ApiServer, User};
use evenkeel::client::auth::{ExecPolicy, Token, TokenSource};
use evenkeel::client::config::{Auth, Overrides};
use evenkeel::client::transport::BoxError;
use evenkeel::client::{Client, Config};
use evenkeel_examples::Outcome;

#[tokio::main]
async fn main() -> Outcome {
    let user = |name: &str| User { name: name.to_owned(), ..User::default() };
    let tokens = [("plugin-1", "ann"), ("plugin-2", "ann"), ("sdk-1", "bob")];
    let tokens = tokens.map(|(token, name)| (token.to_owned(), user(name)));
    let server = ApiServer::builder().tls().tokens(tokens).start().await?;

    let folder = std::env::temp_dir().join(format!("evenkeel-credentials-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let outcome = run(&server, &folder).await;
    std::fs::remove_dir_all(&folder)?;
    outcome
}

async fn run(server: &ApiServer, folder: &Path) -> Outcome {
    // A plugin prints an ExecCredential. This one prints another token at every run.
    let plugin = r#"
        echo run >> "$(dirname "$0")/runs"
        number=$(wc -l < "$(dirname "$0")/runs" | tr -d ' ')
        echo '{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1",'
        echo '"status": {"token": "plugin-'$number'"}}'
    "#;
    std::fs::write(folder.join("get-token.sh"), plugin)?;
    std::fs::write(folder.join("ca.pem"), server.ca_pem().unwrap_or_default())?;
    let kubeconfig = format!(
        "
clusters: [{{name: it, cluster: {{server: '{}', certificate-authority: ca.pem}}}}]
contexts: [{{name: it, context: {{cluster: it, user: ann}}}}]
current-context: it
users:
- name: ann
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: sh
      args: ['{}']
      interactiveMode: Never
      installHint: every machine has a shell
",
        server.url(),
        folder.join("get-token.sh").display()
    );
    std::fs::write(folder.join("config"), kubeconfig)?;

    let mut config = Config::from_kubeconfig_file(folder.join("config"), &Overrides::default())?;
    // A kubeconfig names a program to run. A program that reads the kubeconfigs of others states which ones it expects.
    config.exec_policy = ExecPolicy::Allowlist(vec!["sh".into()]);
    let client = Client::new(config.clone())?;
    for _ in 0..3 {
        assert_eq!(whoami(&client).await?, "ann");
    }
    let runs = || std::fs::read_to_string(folder.join("runs")).map(|runs| runs.lines().count());
    assert_eq!(runs()?, 1, "the token is reused");
    println!("the plugin ran once for three requests of {}", whoami(&client).await?);

    // The server rejects the token: the plugin runs again, and the request is sent again.
    server.faults().add(evenkeel::apiserver::Faults::parse("status:code=401,times=1")?);
    assert_eq!(whoami(&client).await?, "ann");
    assert_eq!(runs()?, 2);
    println!("it ran once more after a 401");

    // A policy that denies the plugin is an error that names the user and the command.
    config.exec_policy = ExecPolicy::DenyAll;
    let Err(error) = whoami(&Client::new(config.clone())?).await else { return Err("the plugin was denied".into()) };
    let cause = error.source().map(ToString::to_string).unwrap_or_default();
    assert_eq!(cause, "user \"ann\": the exec plugin \"sh\" is denied by the plugin policy");
    println!("{error}: {cause}");

    // Tokens of the program's own code.
    config.auth = Auth::source(Sdk::default());
    assert_eq!(whoami(&Client::new(config)?).await?, "bob");
    println!("a token source authenticates bob");
    Ok(())
}

/// Stands for the SDK of a cloud.
#[derive(Default)]
struct Sdk(AtomicUsize);

impl TokenSource for Sdk {
    async fn token(&self) -> Result<Token, BoxError> {
        let number = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(Token::new(format!("sdk-{number}")))
    }
}

async fn whoami(client: &Client) -> Outcome<String> {
    let review = client.authentication_v1().self_subject_reviews().create(&Default::default()).await?;
    let user = review.status.and_then(|status| status.user_info).and_then(|user| user.username);
    user.ok_or_else(|| "the server does not know the user".into())
}
