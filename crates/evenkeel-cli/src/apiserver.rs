//! `evenkeel apiserver`: runs the embedded API server.

use std::io::{self, IsTerminal, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::builder::NonEmptyStringValueParser;
use evenkeel_apiserver::{
    ApiServer, AuditPolicy, ControllerTiming, FaultSpecError, Faults, Fsync, HistoryAfterRestart, OpenApiError, Rule,
    StartError, backup_data_dir,
};
use evenkeel_core::duration;
use evenkeel_core::quantity::ExactQuantity;

use crate::{Failure, Outcome, signals::Signals};

/// The address that kubectl expects.
const DEFAULT_ADDRESS: &str = "127.0.0.1:6443";

/// Syntax of `--fault`, for `--help`.
const FAULTS: &str = "\
Faults: --fault ACTION[:KEY=VALUE,...], repeatable
  on any request
    status              code=400..599, retry-after=SECONDS, reason, message
    delay               ms
    reset               bytes: closes the connection after N bytes
    drop, hang, refuse, commit-then-drop, drop-before-commit
    compact, reset-history
                        discards the history before handling the request
    lag-replica         revisions: watches and stale reads lag behind by N
    omit-item           item=0: the list of the response misses this item
  on watches; EVENT counts from 0, which is the default
    drop-watch          events: ends cleanly after N events
    drop-watch-bytes    bytes: ends after N bytes, even within a frame
    cut-frame, truncate-frame, corrupt-frame
                        event, byte=10
    split-frames        sizes=1/5/100
    coalesce-frames     events=2, ms=100
    duplicate-event, skip-event, unknown-event, wrong-kind
                        event
    reorder-events      first=0, second=1
    expire              event, as=event|http
    stall               event, ms
    error-event         event, and the keys of status
    bookmarks-only, no-bookmarks, early-initial-end
  request filters, for every action
    verb, group, resource, namespace, name, user, user-agent, watches=true|false
    skip=N, times=N, probability=0..1, from-ms, until-ms

Examples:
  evenkeel apiserver --kubeconfig-out /tmp/evenkeel.kubeconfig
  evenkeel apiserver --listen 127.0.0.1:8080 --plain-http
  evenkeel apiserver --data-dir /tmp/evenkeel-data --kubeconfig-out /tmp/evenkeel.kubeconfig
  evenkeel apiserver backup --data-dir /tmp/evenkeel-data /tmp/evenkeel.backup
  evenkeel apiserver --data-dir /tmp/evenkeel-copy --restore /tmp/evenkeel.backup --listen 127.0.0.1:6444
  evenkeel apiserver --fault drop-watch:events=3 --fault status:code=429,retry-after=1,times=5,resource=pods";

#[derive(Debug, clap::Args)]
#[command(after_long_help = FAULTS, args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// IP address and port; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS", default_value = DEFAULT_ADDRESS, value_parser = address)]
    listen: SocketAddr,
    /// Serve HTTP instead of HTTPS. Without --token, --token-file or --anonymous every caller is administrator
    #[arg(long)]
    plain_http: bool,
    /// Authenticate this bearer token as administrator
    #[arg(long, value_name = "TOKEN", value_parser = NonEmptyStringValueParser::new())]
    token: Option<String>,
    /// Authenticate the tokens of this file: lines of token,user,uid,"group1,group2"
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Authenticate client certificates of the authorities in this PEM file, beside the server's own: CN is the user, O are
    /// the groups
    #[arg(long, value_name = "FILE", alias = "client-ca-file", conflicts_with = "plain_http")]
    client_ca: Option<PathBuf>,
    /// Write an administrator kubeconfig to this file, readable by its owner only
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// Number of changes per resource that a watch can resume from [default: 4096]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    history: Option<u32>,
    /// Reads handled at the same time; users take turns beyond it. 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 400)]
    max_requests_inflight: usize,
    /// Writes handled at the same time; users take turns beyond it. 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 200)]
    max_mutating_requests_inflight: usize,
    /// Keep all objects, the revision and the keys in this folder; without it everything is in memory
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// When to sync the data folder: `always`, `group` (one sync for the writes of 5 ms) or `never` (a killed server
    /// loses nothing, a power loss may) [default: group]
    #[arg(long, value_name = "POLICY", requires = "data_dir", value_parser = fsync)]
    fsync: Option<Fsync>,
    /// What a restart leaves of the data folder's history: `keep`, or `drop`, after which every client relists
    /// [default: keep]
    #[arg(long, value_name = "KEEP", requires = "data_dir", value_parser = history_after_restart)]
    history_after_restart: Option<HistoryAfterRestart>,
    /// Start from the last good record if the data folder is damaged
    #[arg(long, requires = "data_dir")]
    salvage: bool,
    /// Start with the content of a backup, in memory or in an empty data folder
    #[arg(long, value_name = "FILE")]
    restore: Option<PathBuf>,
    /// Install the custom resource definitions in this folder before the first request
    #[arg(long, value_name = "FOLDER")]
    crd_dir: Option<PathBuf>,
    /// When the controllers act that a kube-controller-manager would run: those of namespaces, service accounts, garbage,
    /// quotas, volume protection and aggregated roles. `immediate` (before the response to the request that causes it),
    /// `delayed=TIME` or `off`, as on a kube-apiserver alone
    #[arg(long, value_name = "WHEN", default_value = "immediate", value_parser = timing)]
    controllers: ControllerTiming,
    /// When objects without living owners are deleted: `immediate`, `delayed=TIME` or `off`, for a server that a
    /// kube-controller-manager uses [default: as --controllers]
    #[arg(long, value_name = "WHEN", value_parser = timing)]
    garbage_collector: Option<ControllerTiming>,
    /// Take descriptions of built-in kinds, for `kubectl explain`, from the OpenAPI document of a cluster: the output of
    /// `kubectl get --raw /openapi/v2`, or of a document of /openapi/v3. Repeatable
    #[arg(long, value_name = "FILE")]
    openapi: Vec<PathBuf>,
    /// Switch admission plugins on, comma-separated, by kube-apiserver's names; all but ServiceAccount are on
    #[arg(long, value_name = "PLUGINS", value_delimiter = ',')]
    enable_admission_plugins: Vec<String>,
    /// Switch admission plugins off, comma-separated; an unknown name lists them
    #[arg(long, value_name = "PLUGINS", value_delimiter = ',')]
    disable_admission_plugins: Vec<String>,
    /// Inject a fault, e.g. drop-watch:events=3; see --help for the list. Repeatable
    #[arg(long = "fault", value_name = "SPEC", value_parser = fault)]
    faults: Vec<Rule>,
    /// Serve /evenkeel/faults to local programs; a separate token is printed at start
    #[arg(long)]
    control: bool,
    /// Limit of the server's memory, e.g. 512Mi; at least 64Mi [default: 2Gi]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory_budget: Option<usize>,
    /// Serve requests without credentials as system:anonymous, which may read health and version only
    #[arg(long)]
    anonymous: bool,
    /// Let the Roles, ClusterRoles and bindings of the store decide what users may do; system:masters may do everything
    #[arg(long)]
    rbac: bool,
    /// Honour shardSelector in lists, watches and delete-collections, like the feature gate ShardedListAndWatch; else ignored
    #[arg(long)]
    sharded_lists: bool,
    /// Append an audit event per line of JSON to this file; rotated by size
    #[arg(long, value_name = "FILE", alias = "audit-log-path")]
    audit_log: Option<PathBuf>,
    /// Size in MiB at which the audit log is rotated
    #[arg(long, value_name = "MIB", requires = "audit_log", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    audit_log_maxsize: u64,
    /// Number of rotated audit logs that are kept
    #[arg(long, value_name = "N", requires = "audit_log", default_value_t = 5, value_parser = clap::value_parser!(u16).range(..=1000))]
    audit_log_maxbackup: u16,
    /// Audit policy (audit.k8s.io/v1) [default: all requests at level Metadata]
    #[arg(long, value_name = "FILE", requires = "audit_log")]
    audit_policy_file: Option<PathBuf>,
    /// Print a line per request to stderr: method, path, status, user, latency. Slow requests are always printed
    #[arg(long)]
    log_requests: bool,
    /// Listen without authentication on an address that other machines can reach
    #[arg(long)]
    i_know_this_is_open: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Write the content of a data folder to a file for --restore, while a server uses it or not
    Backup(BackupArguments),
}

#[derive(Debug, clap::Args)]
struct BackupArguments {
    /// The data folder of the server
    #[arg(long, value_name = "FOLDER")]
    data_dir: PathBuf,
    /// The file; it is replaced if it exists, and readable by its owner only
    #[arg(value_name = "FILE")]
    backup: PathBuf,
}

pub(crate) fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "not an IP address and a port, such as 127.0.0.1:6443 or [::1]:0")
}

/// Parses a number of bytes as a resource quantity.
fn bytes(text: &str) -> Result<usize, &'static str> {
    const EXPECTED: &str = "not a number of bytes of at least 64Mi, such as 512Mi or 2Gi";
    let bytes = text.parse::<ExactQuantity>().ok().and_then(|quantity| quantity.value());
    bytes.and_then(|bytes| usize::try_from(bytes).ok()).filter(|bytes| *bytes >= 64 << 20).ok_or(EXPECTED)
}

fn fsync(policy: &str) -> Result<Fsync, &'static str> {
    match policy {
        "always" => Ok(Fsync::Always),
        "group" => Ok(Fsync::default()),
        "never" => Ok(Fsync::Never),
        _ => Err("there are always, group and never"),
    }
}

fn history_after_restart(keep: &str) -> Result<HistoryAfterRestart, &'static str> {
    match keep {
        "keep" => Ok(HistoryAfterRestart::Keep),
        "drop" => Ok(HistoryAfterRestart::Drop),
        _ => Err("there are keep and drop"),
    }
}

fn timing(when: &str) -> Result<ControllerTiming, String> {
    match when {
        "immediate" => Ok(ControllerTiming::Immediate),
        "off" => Ok(ControllerTiming::Off),
        _ => match when.strip_prefix("delayed=").map(duration::parse) {
            Some(Ok(delay)) => Ok(ControllerTiming::Delayed(delay)),
            Some(Err(error)) => Err(error.to_string()),
            None => Err("there are immediate, delayed=TIME (such as delayed=2s) and off".to_owned()),
        },
    }
}

fn fault(spec: &str) -> Result<Rule, FaultSpecError> {
    Faults::parse(spec)
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    if let Some(Command::Backup(arguments)) = arguments.command {
        return tokio::task::spawn_blocking(move || backup(&arguments)).await?;
    }
    // Without --token the server generates one for the administrator, which only the kubeconfig contains.
    let unreachable = (!arguments.plain_http || arguments.anonymous)
        && arguments.token.is_none()
        && arguments.token_file.is_none()
        && arguments.client_ca.is_none()
        && arguments.kubeconfig_out.is_none();
    let mut builder =
        ApiServer::builder().listen(arguments.listen).anonymous(arguments.anonymous).fault_endpoint(arguments.control);
    builder = builder.max_in_flight(arguments.max_requests_inflight, arguments.max_mutating_requests_inflight);
    let controllers = arguments.controllers;
    builder = builder.namespace_controller(controllers).service_account_controller(controllers);
    builder = builder.quota_controller(controllers).protection_controller(controllers).role_aggregation(controllers);
    builder = builder.garbage_collector(arguments.garbage_collector.unwrap_or(controllers));
    builder = if arguments.plain_http { builder.plain_http() } else { builder.tls() };
    builder = builder.rbac(arguments.rbac).sharded_lists(arguments.sharded_lists);
    if let Some(token) = arguments.token {
        builder = builder.token(token);
    }
    if let Some(path) = &arguments.token_file {
        builder = builder.token_file(path)?;
    }
    if let Some(path) = &arguments.client_ca {
        builder = builder.client_ca(client_ca(path)?).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if let Some(budget) = arguments.memory_budget {
        builder = builder.memory_budget(budget);
    }
    if let Some(history) = arguments.history {
        builder = builder.history(history as usize);
    }
    if let Some(folder) = arguments.data_dir {
        builder = builder.data_dir(folder).fsync(arguments.fsync.unwrap_or_default()).salvage(arguments.salvage);
        builder = builder.history_after_restart(arguments.history_after_restart.unwrap_or_default());
    }
    if let Some(backup) = arguments.restore {
        builder = builder.restore_backup(backup);
    }
    if let Some(folder) = arguments.crd_dir {
        builder = builder.crd_dir(folder);
    }
    for path in &arguments.openapi {
        builder = builder.openapi(path).map_err(|error| openapi_failure(path, error))?;
    }
    for (plugins, on) in [(&arguments.enable_admission_plugins, true), (&arguments.disable_admission_plugins, false)] {
        for plugin in plugins {
            builder = builder.admission(plugin, on)?;
        }
    }
    if let Some(plugin) =
        arguments.enable_admission_plugins.iter().find(|plugin| arguments.disable_admission_plugins.contains(plugin))
    {
        return Err(format!("admission plugin {plugin} is both enabled and disabled; name it once").into());
    }
    if let Some(path) = arguments.audit_log {
        let max_bytes = arguments.audit_log_maxsize << 20;
        builder = builder.audit_log(path).audit_log_rotation(max_bytes, arguments.audit_log_maxbackup.into());
    }
    if let Some(path) = &arguments.audit_policy_file {
        builder = builder.audit_policy(audit_policy(path)?);
    }
    if arguments.i_know_this_is_open {
        builder = builder.i_know_this_is_open();
    }
    log_to_stderr(arguments.log_requests);
    // Installed before "listening" is printed, so that a signal sent right after is not lost.
    let mut signals = Signals::listen()?;
    let server = builder.start().await.map_err(explain)?;
    for rule in arguments.faults {
        server.faults().add(rule);
    }
    if let Some(path) = &arguments.kubeconfig_out {
        server
            .write_kubeconfig(path)
            .map_err(|error| format!("cannot write the kubeconfig to {}: {error}", path.display()))?;
    }
    announce(&server, arguments.kubeconfig_out.as_deref())?;
    if unreachable {
        eprintln!("evenkeel: no client has credentials for this server; pass --kubeconfig-out FILE or --token TOKEN");
    }
    signals.next().await;
    let counts = server.faults().counts();
    server.shutdown().await;
    let mut out = io::stdout().lock();
    for (fault, count) in counts {
        writeln!(out, "fault {fault}: {count} times")?;
    }
    writeln!(out, "stopped")?;
    Ok(())
}

fn backup(arguments: &BackupArguments) -> Outcome {
    let summary = backup_data_dir(&arguments.data_dir, &arguments.backup)?;
    let (revision, objects) = (summary.revision, summary.objects);
    writeln!(io::stdout(), "backup {}: revision {revision}, {objects} objects", arguments.backup.display())?;
    Ok(())
}

/// Prints warnings, such as slow requests and exhausted file descriptors, and on request a line per request.
fn log_to_stderr(requests: bool) {
    use tracing_subscriber::filter::{LevelFilter, Targets};
    use tracing_subscriber::prelude::*;
    let level = if requests { LevelFilter::DEBUG } else { LevelFilter::WARN };
    let targets = Targets::new()
        .with_default(LevelFilter::WARN)
        // Clients decide how often it warns: each flood that it ends is a line.
        .with_target("h2", LevelFilter::ERROR)
        .with_target("evenkeel_apiserver::requests", level);
    let lines = tracing_subscriber::fmt::layer().with_ansi(io::stderr().is_terminal()).with_writer(io::stderr);
    tracing_subscriber::registry().with(lines.with_filter(targets)).init();
}

/// Reads a file of a little more than the limit of client CAs.
fn client_ca(path: &Path) -> Result<Vec<u8>, Failure> {
    const LIMIT: u64 = 1 << 20;
    let mut pem = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(LIMIT + 1).read_to_end(&mut pem));
    read.map_err(|error| format!("cannot read the client CA {}: {error}", path.display()))?;
    Ok(pem)
}

/// Names the file in errors that are about its content.
fn openapi_failure(path: &Path, error: OpenApiError) -> Failure {
    match error {
        OpenApiError::Read { .. } | OpenApiError::NotAFile { .. } => error.into(),
        OpenApiError::Malformed(source) => {
            format!("--openapi {}: {source}; save one with `kubectl get --raw /openapi/v2`", path.display()).into()
        }
        error => format!("--openapi {}: {error}", path.display()).into(),
    }
}

/// Reads a policy of at most 1 MiB.
fn audit_policy(path: &Path) -> Result<AuditPolicy, Failure> {
    const LIMIT: u64 = 1 << 20;
    let explain = |error: &dyn std::fmt::Display| format!("cannot use the audit policy {}: {error}", path.display());
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| explain(&error))?;
    file.take(LIMIT + 1).read_to_string(&mut text).map_err(|error| explain(&error))?;
    if text.len() as u64 > LIMIT {
        return Err(explain(&"it is larger than 1 MiB").into());
    }
    AuditPolicy::parse(&text).map_err(|error| explain(&error).into())
}

/// Phrases the error in terms of command-line arguments.
fn explain(error: StartError) -> Box<dyn std::error::Error + Send + Sync> {
    match error {
        StartError::OpenToTheNetwork { address } => format!(
            "refusing to listen on {address} without authentication: every client that can reach it would be administrator; \
             drop --plain-http, pass --token or --token-file, or allow it with --i-know-this-is-open"
        )
        .into(),
        other => other.into(),
    }
}

fn announce(server: &ApiServer, kubeconfig: Option<&Path>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if let Some(token) = server.fault_endpoint_token() {
        writeln!(out, "control token {token}")?;
    }
    if let Some(path) = kubeconfig {
        writeln!(out, "kubeconfig {}", path.display())?;
    }
    writeln!(out, "listening on {}", server.url())?;
    out.flush()
}
