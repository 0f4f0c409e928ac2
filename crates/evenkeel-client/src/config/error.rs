//! [`ConfigError`]: why no client can be made.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why no client can be made from this configuration, or why a kubeconfig could not be written. Nothing has been sent.
///
/// No variant holds a secret: URLs come without credentials, and a syntax error is reported by its position in
/// the file, not by its text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The server's URL makes no sense.
    #[error("the server URL {url:?} cannot be used: {problem}")]
    Server {
        /// The URL as given, without credentials.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The URL of a proxy makes no sense.
    #[error("the proxy URL {url:?} cannot be used: {problem}")]
    Proxy {
        /// The URL as given, without credentials.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A file that the configuration names cannot be read.
    #[error("cannot read {what} from {}", path.display())]
    Read {
        /// What the file should hold.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A kubeconfig cannot be understood.
    #[error("cannot understand {origin}{}: {problem}", Place(*line, *column))]
    Parse {
        /// The file, or what else the text is.
        origin: String,
        /// The line, counted from 1, if it is known.
        line: Option<u64>,
        /// The column, counted from 1, if it is known.
        column: Option<u64>,
        /// What is wrong there.
        problem: String,
    },
    /// Something is named that is not there.
    #[error("{named_by} names the {kind} {name:?}, which is not in the kubeconfig; {}", Known(known))]
    Missing {
        /// What should be there.
        kind: EntryKind,
        /// Its name.
        name: String,
        /// Who names it.
        named_by: String,
        /// The names that there are instead.
        known: Vec<String>,
    },
    /// There is no configuration at all, or none of it is chosen.
    #[error("no cluster is configured: {}", Looked { files: looked, contexts })]
    NotConfigured {
        /// Where a kubeconfig was looked for.
        looked: Vec<PathBuf>,
        /// The contexts that could be chosen.
        contexts: Vec<String>,
    },
    /// This process does not run inside a cluster.
    #[error("not inside a cluster: the environment variable {variable} is not set")]
    NotInCluster {
        /// The variable that a pod would have.
        variable: &'static str,
    },
    /// Something in the configuration cannot be used. The problem names the field and shows no secret.
    #[error("invalid configuration: {problem}")]
    Invalid {
        /// What is wrong, and with which field.
        problem: String,
    },
    /// Credentials would travel in the clear, or not at all, because the server is spoken to without TLS.
    #[error("{field} would {} to {server}, which is not protected by TLS", if *dropped { "not be sent" } else { "be sent in the clear" })]
    InsecureCredentials {
        /// The server.
        server: String,
        /// The credential that is in danger.
        field: &'static str,
        /// Whether it could not be sent at all, as a client certificate without TLS.
        dropped: bool,
    },
    /// The user of the kubeconfig needs a way to get credentials that is not built in.
    #[error("the user {user:?} needs {mechanism}, which is {state}")]
    Unsupported {
        /// The user's name in the kubeconfig.
        user: String,
        /// The plugin or provider.
        mechanism: String,
        /// Whether there is hope, and what to do instead.
        state: &'static str,
    },
    /// A kubeconfig that is not trusted asks for something that only a trusted one may have.
    #[error("the {kind} {name:?} of an untrusted kubeconfig may not have {field}")]
    Untrusted {
        /// Which part of the kubeconfig.
        kind: EntryKind,
        /// Its name.
        name: String,
        /// The field that is refused.
        field: &'static str,
    },
    /// A kubeconfig in confined mode points outside its directory.
    #[error("{field} points to {}, which is outside {}", path.display(), directory.display())]
    Outside {
        /// The entry and its field.
        field: String,
        /// Where it points, with links followed.
        path: PathBuf,
        /// The directory it is confined to.
        directory: PathBuf,
    },
    /// A kubeconfig could not be written. What was in the file before is still there.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Another program changed a kubeconfig while it was edited. Nothing was written; the edit can be tried again.
    #[error("{} was changed by another program; nothing was written", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// More than one thing is wrong.
    #[error("invalid configuration: {}", Joined(errors))]
    Several {
        /// All of it.
        errors: Vec<ConfigError>,
    },
}

/// The named things in a kubeconfig.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum EntryKind {
    /// Where a cluster is.
    Cluster,
    /// Who someone is.
    User,
    /// A cluster, a user and a namespace under one name.
    Context,
    /// Something that only other programs understand.
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

    /// Nothing wrong, one thing, or several.
    pub(crate) fn collect(mut errors: Vec<ConfigError>) -> Result<(), ConfigError> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(ConfigError::Several { errors }),
        }
    }

    /// Whether there simply is no configuration, so that another source may be asked.
    pub fn is_not_configured(&self) -> bool {
        matches!(self, ConfigError::NotConfigured { .. })
    }

    /// Whether a file that was asked for does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, ConfigError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Everything that is wrong, one by one.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        match self {
            ConfigError::Several { errors } => errors.iter(),
            one => std::slice::from_ref(one).iter(),
        }
    }
}

struct Place(Option<u64>, Option<u64>);

impl fmt::Display for Place {
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

/// The names that could have been meant.
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

/// The errors of [`ConfigError::Several`], each with its causes: there is no single source to go on with.
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
