//! [`ConfigError`]: errors of reading, validating and writing configuration.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Returned when no client can be built from a configuration, or when a kubeconfig cannot be written. No request has
/// been sent.
///
/// No variant holds a secret: URLs are shown without credentials, and a syntax error is reported by its position in
/// the file, not by its text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The server's URL is invalid.
    #[error("the server URL {url:?} cannot be used: {problem}")]
    Server {
        /// The URL as given, without credentials.
        url: String,
        /// The problem with the URL.
        problem: String,
    },
    /// The proxy's URL is invalid.
    #[error("the proxy URL {url:?} cannot be used: {problem}")]
    Proxy {
        /// The URL as given, without credentials.
        url: String,
        /// The problem with the URL.
        problem: String,
    },
    /// A file named by the configuration cannot be read.
    #[error("cannot read {what} from {}", path.display())]
    Read {
        /// The expected content of the file.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// A kubeconfig cannot be parsed.
    #[error("cannot understand {origin}{}: {problem}", LineAndColumn(*line, *column))]
    Parse {
        /// The path of the file, or a description of the text.
        origin: String,
        /// The line, counted from 1, if known.
        line: Option<u64>,
        /// The column, counted from 1, if known.
        column: Option<u64>,
        /// The problem at that position.
        problem: String,
    },
    /// A reference to an entry that does not exist.
    #[error("{named_by} names the {kind} {name:?}, which is not in the kubeconfig; {}", Known(known))]
    Missing {
        /// The kind of the missing entry.
        kind: EntryKind,
        /// The name of the missing entry.
        name: String,
        /// The source of the reference.
        named_by: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// No configuration was found, or no context is selected.
    #[error("no cluster is configured: {}", Looked { files: looked, contexts })]
    NotConfigured {
        /// The paths that were searched for a kubeconfig.
        looked: Vec<PathBuf>,
        /// The contexts that exist.
        contexts: Vec<String>,
    },
    /// This process does not run inside a cluster.
    #[error("not inside a cluster: the environment variable {variable} is not set")]
    NotInCluster {
        /// The variable that every pod has.
        variable: &'static str,
    },
    /// A field has an unusable value. The problem names the field and shows no secret.
    #[error("invalid configuration: {problem}")]
    Invalid {
        /// The field and its problem.
        problem: String,
    },
    /// TLS needs a crypto provider, and there is none.
    #[error(
        "TLS needs a crypto provider: enable the feature `ring` or `aws-lc-rs`, or set `crypto_provider` of the configuration's `tls`"
    )]
    NoCryptoProvider,
    /// Credentials would be sent in cleartext, or could not be sent, because the server has no TLS.
    #[error("{field} would {} to {server}, which is not protected by TLS", if *dropped { "not be sent" } else { "be sent in the clear" })]
    InsecureCredentials {
        /// The server.
        server: String,
        /// The affected credential.
        field: &'static str,
        /// True if the credential cannot be sent at all, such as a client certificate without TLS.
        dropped: bool,
    },
    /// The user of the kubeconfig needs an authentication mechanism that is not built in.
    #[error("the user {user:?} needs {mechanism}, which is {state}")]
    Unsupported {
        /// The user's name in the kubeconfig.
        user: String,
        /// The plugin or provider.
        mechanism: String,
        /// The state of support, and the alternative.
        state: &'static str,
    },
    /// An untrusted kubeconfig uses a field that is reserved for trusted ones.
    #[error("the {kind} {name:?} of an untrusted kubeconfig may not have {field}")]
    Untrusted {
        /// The kind of the entry.
        kind: EntryKind,
        /// The name of the entry.
        name: String,
        /// The rejected field.
        field: &'static str,
    },
    /// A kubeconfig in confined mode points outside its directory.
    #[error("{field} points to {}, which is outside {}", path.display(), directory.display())]
    Outside {
        /// The entry and its field.
        field: String,
        /// The target path, with links resolved.
        path: PathBuf,
        /// The directory that paths are confined to.
        directory: PathBuf,
    },
    /// A kubeconfig could not be written. The previous content of the file is unchanged.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// Another program changed a kubeconfig during an edit. Nothing was written; the edit can be retried.
    #[error("{} was changed by another program; nothing was written", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// More than one problem.
    #[error("invalid configuration: {}", Joined(errors))]
    Several {
        /// All problems.
        errors: Vec<ConfigError>,
    },
}

/// The kinds of named entries in a kubeconfig.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum EntryKind {
    /// The address and CA of an API server.
    Cluster,
    /// The credentials of a user.
    User,
    /// A cluster, a user and a namespace under one name.
    Context,
    /// Data of other programs, kept as it is.
    Extension,
}

impl fmt::Display for EntryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EntryKind::Cluster => "cluster",
            EntryKind::User => "user",
            EntryKind::Context => "context",
            EntryKind::Extension => "extension",
        })
    }
}

impl ConfigError {
    pub(crate) fn invalid(problem: impl Into<String>) -> Self {
        ConfigError::Invalid { problem: problem.into() }
    }

    pub(crate) fn read(what: &'static str, path: &Path, source: io::Error) -> Self {
        ConfigError::Read { what, path: path.to_owned(), source }
    }

    pub(crate) fn write(path: &Path, source: io::Error) -> Self {
        ConfigError::Write { path: path.to_owned(), source }
    }

    /// Combines zero, one or several errors into one result.
    pub(crate) fn collect(mut errors: Vec<ConfigError>) -> Result<(), ConfigError> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(ConfigError::Several { errors }),
        }
    }

    /// Returns whether no configuration exists, so that another source may be tried.
    pub fn is_not_configured(&self) -> bool {
        matches!(self, ConfigError::NotConfigured { .. })
    }

    /// Returns whether an explicitly named file does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, ConfigError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Iterates over the individual errors.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        match self {
            ConfigError::Several { errors } => errors.iter(),
            one => std::slice::from_ref(one).iter(),
        }
    }
}

struct LineAndColumn(Option<u64>, Option<u64>);

impl fmt::Display for LineAndColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.0 {
            write!(f, ", line {line}")?;
        }
        if let Some(column) = self.1 {
            write!(f, ", column {column}")?;
        }
        Ok(())
    }
}

/// Formats the names that exist.
struct Known<'a>(&'a [String]);

impl fmt::Display for Known<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("there is none"),
            [name] => write!(f, "there is {name:?}"),
            names => {
                let names: Vec<_> = names.iter().map(|name| format!("{name:?}")).collect();
                write!(f, "there are {}", names.join(", "))
            }
        }
    }
}

struct Looked<'a> {
    files: &'a [PathBuf],
    contexts: &'a [String],
}

impl fmt::Display for Looked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.contexts.is_empty() {
            return write!(f, "no context is chosen; there are {}", self.contexts.join(", "));
        }
        if self.files.is_empty() {
            return f.write_str("there is no kubeconfig, and no server was named");
        }
        let files: Vec<_> = self.files.iter().map(|file| file.display().to_string()).collect();
        write!(f, "looked into {}", files.join(", "))
    }
}

/// Formats the errors of [`ConfigError::Several`], each with its causes: several errors have no single `source()`.
struct Joined<'a>(&'a [ConfigError]);

impl fmt::Display for Joined<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            match error {
                ConfigError::Invalid { problem } => f.write_str(problem)?,
                error => write!(f, "{error}")?,
            }
            let mut source = std::error::Error::source(error);
            while let Some(cause) = source {
                write!(f, ": {cause}")?;
                source = cause.source();
            }
        }
        Ok(())
    }
}
