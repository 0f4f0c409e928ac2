//! Requests whose exec plugin misbehaves: real scripts, which run while the clock stands still.

use std::path::PathBuf;
use std::sync::mpsc;

use tokio::time::advance;

use super::*;
use crate::auth::ExecPlugin;
use crate::config::Auth;
use crate::small_file::tests::Folder;
use crate::tls::tests::logs::Logs;

const SECOND: Duration = Duration::from_secs(1);
/// The default timeout of a plugin.
const TIMEOUT: Duration = Duration::from_secs(60);
/// What a plugin knows and must not appear anywhere.
const SECRET: &str = "s3cret-of-the-plugin";

/// Keeps a paused clock from advancing by itself while children run: tokio does not advance it during a blocking task.
struct FrozenClock {
    _release: mpsc::Sender<()>,
}

impl FrozenClock {
    fn new() -> Self {
        let (release, released) = mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || released.recv());
        FrozenClock { _release: release }
    }
}

/// A plugin that is a script, with the number of its runs and the processes that it started.
struct ScriptPlugin {
    folder: Folder,
    plugin: ExecPlugin,
}

impl ScriptPlugin {
    fn new(script: &str) -> Self {
        let folder = Folder::new();
        let [runs, pids, done] = ["runs", "pids", "done"].map(|name| folder.path(name).display().to_string());
        let text = format!("started() {{ echo $1 >> '{pids}'; }}\nstarted $$; echo run >> '{runs}'\n{script}\n");
        let path = folder.write("plugin", text.replace("$DONE", &format!("'{done}'")));
        let mut plugin = ExecPlugin::new("/bin/sh");
        plugin.args = vec![path.display().to_string().into()];
        plugin.env = vec![("SECRET".into(), SECRET.into())];
        plugin.install_hint = Some("install it from example.com".into());
        ScriptPlugin { folder, plugin }
    }

    fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn runs(&self) -> usize {
        self.lines("runs").len()
    }

    /// Waits until every process that the plugin started has ended.
    async fn ended(&self) {
        reached(|| {
            self.lines("pids").iter().all(|pid| {
                let stat = std::fs::read_to_string(PathBuf::from("/proc").join(pid).join("stat")).unwrap_or_default();
                // A zombie has ended, and is not reaped yet.
                stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['Z', 'X']))
            })
        })
        .await;
    }
}

/// Waits for a file that another process writes. Time stands still.
async fn reached(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
    }
}

/// Sends requests at once, and returns their errors with all causes. If the plugin hangs, its time passes once it runs.
async fn requests(client: &Client, count: usize, hanging: Option<&ScriptPlugin>) -> Vec<String> {
    let before = hanging.map(ScriptPlugin::runs);
    let tasks: Vec<_> = (0..count)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { get(&client).send().await.unwrap_err() })
        })
        .collect();
    if let Some((plugin, before)) = hanging.zip(before) {
        reached(|| plugin.lines("pids").len() == 2 * (before + 1)).await;
        advance(TIMEOUT).await;
    }
    let mut errors = Vec::new();
    for task in tasks {
        let error = task.await.unwrap();
        let mut text = format!("{error}");
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        assert!(!format!("{text} {error:?}").contains(SECRET), "{text} {error:?}");
        errors.push(text);
    }
    errors
}

/// Asserts that a plugin fails with this error, runs once per pause, and leaves nothing behind.
async fn assert_fails(plugin: ScriptPlugin, runs: bool, hangs: bool, expected: &str) {
    let _frozen = FrozenClock::new();
    let logs = Logs::default();
    let _listening = crate::test_logs::listen(logs.clone());
    let script = Script::new([]);
    let client = script.client_with(|config| {
        config.auth = Auth::exec(plugin.plugin.clone());
        config.chosen.user = Some("eks".into());
    });
    let hanging = hangs.then_some(&plugin);
    let expected = format!(
        "GET /version: no credentials for api.example: user \"eks\": the exec plugin \"{}\" {expected}",
        plugin.plugin.command
    );
    for error in requests(&client, 100, hanging).await {
        assert!(error.starts_with(&expected), "{error}\n{expected}");
    }
    let mut attempts = 1;
    // The pauses after the first, the second and the third failure.
    for pause in [1, 2, 4] {
        for early in 0..pause {
            assert_eq!((plugin.runs(), logs.warnings()), (if runs { attempts } else { 0 }, attempts), "{early}");
            let error = requests(&client, 10, None).await.pop().unwrap();
            assert!(error.starts_with(&expected), "{error}");
            advance(SECOND).await;
        }
        attempts += 1;
        requests(&client, 10, hanging).await;
    }
    assert_eq!((plugin.runs(), logs.warnings()), (if runs { attempts } else { 0 }, attempts));
    assert_eq!(script.count(), 0, "nothing was sent");
    plugin.ended().await;
    assert_eq!(plugin.lines("done").len(), 0, "it was killed");
    let shown = format!("{} {client:?}", logs.text());
    assert!(shown.contains("cannot refresh the credentials") && !shown.contains(SECRET), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn exe_013_sec_28_a_plugin_that_hangs_is_one_clear_error() {
    let plugin = ScriptPlugin::new("sleep 100000 & started $!; echo waiting for $SECRET >&2; wait; echo >> $DONE");
    assert_fails(plugin, true, true, "did not finish within 60s").await;
}

#[tokio::test(start_paused = true)]
async fn exe_008_sec_26_a_plugin_that_prints_garbage_is_one_clear_error() {
    let plugin = ScriptPlugin::new("echo garbage $SECRET");
    assert_fails(plugin, true, false, "printed no credential: no ExecCredential in JSON (line 1, column 1)").await;
}

#[tokio::test(start_paused = true)]
async fn sec_28_a_plugin_that_prints_a_gigabyte_is_one_clear_error() {
    let plugin = ScriptPlugin::new("head -c 1000000000 /dev/zero & started $!; wait $! && echo >> $DONE");
    assert_fails(plugin, true, false, "printed more than 1048576 bytes").await;
}

#[tokio::test(start_paused = true)]
async fn exe_008_sec_27_a_plugin_that_fails_is_one_clear_error() {
    let plugin = ScriptPlugin::new("echo denied: $SECRET >&2; exit 1");
    assert_fails(plugin, true, false, "failed with exit code 1: denied: [redacted]").await;
}

#[tokio::test(start_paused = true)]
async fn exe_009_a_plugin_whose_credential_expires_at_once_is_one_clear_error() {
    let head = r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1""#;
    let status = r#""status":{"token":"%s","expirationTimestamp":"2020-01-01T00:00:00Z"}}"#;
    let plugin = ScriptPlugin::new(&format!("printf '{head},{status}' $SECRET"));
    assert_fails(plugin, true, false, "printed a credential that expired at 2020-01-01T00:00:00Z").await;
}

#[tokio::test(start_paused = true)]
async fn exe_008_a_plugin_that_is_missing_is_one_clear_error() {
    let mut plugin = ScriptPlugin::new("");
    plugin.plugin.command = plugin.folder.path("none").display().to_string();
    let expected = "is not installed: no executable file of this name was found\n\ninstall it from example.com";
    assert_fails(plugin, false, false, expected).await;
}

#[tokio::test(start_paused = true)]
async fn chc_18_a_storm_of_requests_runs_the_plugin_once_and_once_more_after_a_401() {
    let _frozen = FrozenClock::new();
    let head = r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1""#;
    let plugin = ScriptPlugin::new(&format!(r#"printf '{head},"status":{{"token":"t"}}}}'"#));
    let script = Script::always(ScriptStep::code(401));
    let client = script.client_with(|config| config.auth = Auth::exec(plugin.plugin.clone()));
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { get(&client).send().await.unwrap_err().is_unauthorized() })
        })
        .collect();
    for task in tasks {
        assert!(task.await.unwrap(), "every caller receives the 401");
    }
    assert_eq!(plugin.runs(), 2);
    assert!((50..=100).contains(&script.count()), "no request is sent more than twice: {}", script.count());
    plugin.ended().await;
}
