//! [`CopyError`]: why a copy failed.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why a copy into or out of a container failed. Errors of the connection are other variants of
/// [`SessionError`](super::super::SessionError).
///
/// Text of the container is escaped: it cannot control a terminal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The container has no `tar`, or cannot run it.
    #[error(
        "the container cannot run tar, which copies need ({message}); use an image that contains tar, or copy through a debug container"
    )]
    NoTar {
        /// The message of the container runtime.
        message: String,
    },
    /// `tar` failed. Some files may have been copied.
    #[error("tar in the container exited with code {code}: {stderr}")]
    Exit {
        /// The exit code.
        code: u8,
        /// The first 4 KiB of its standard error.
        stderr: String,
    },
    /// The path in the container has no final name, or is empty.
    #[error("{path:?} is not the path of a file or directory in the container; it must end with a name")]
    RemotePath {
        /// The path.
        path: String,
    },
    /// A local file or directory cannot be read or written.
    #[error("{path:?}: {error}")]
    Local {
        /// Its path.
        path: PathBuf,
        /// What happened.
        error: io::Error,
    },
    /// The destination contains a symbolic link where the copy has a directory. It is not followed.
    #[error("{path:?} is a symbolic link, which the copy does not follow; remove it or choose another destination")]
    LocalLink {
        /// The path of the link.
        path: PathBuf,
    },
    /// A local file became shorter while it was read.
    #[error("{path:?} became shorter while it was copied; copy again")]
    Shrunk {
        /// Its path.
        path: PathBuf,
    },
    /// The source is neither a file nor a directory.
    #[error(
        "{path:?} is a symbolic link or a special file, which is not copied; `follow_symlinks` copies what a link points to"
    )]
    NotCopyable {
        /// The path of the source.
        path: PathBuf,
    },
    /// The archive is not valid.
    #[error("the container sent an invalid archive: {0}")]
    Archive(io::Error),
    /// The archive has no end. Complete files have been copied; the last one has not.
    #[error("the container sent an incomplete archive; copy again")]
    Truncated,
    /// An entry of the archive has a path outside of the source. Nothing was written for it.
    #[error("the container sent an entry outside of the source: {entry:?}")]
    Outside {
        /// The path of the entry.
        entry: PathBuf,
    },
    /// The files are larger than [`CopyLimits::bytes`](super::CopyLimits::bytes).
    #[error("the files are larger than the limit of {limit} bytes; raise CopyLimits::bytes")]
    TooManyBytes {
        /// The limit.
        limit: u64,
    },
    /// There are more entries than [`CopyLimits::entries`](super::CopyLimits::entries).
    #[error("there are more than {limit} entries; raise CopyLimits::entries")]
    TooManyEntries {
        /// The limit.
        limit: u64,
    },
    /// A path is longer than [`CopyLimits::path_length`](super::CopyLimits::path_length), or the header of an entry is larger
    /// than 1 MiB.
    #[error("a path is longer than {limit} bytes; raise CopyLimits::path_length")]
    PathTooLong {
        /// The limit.
        limit: usize,
    },
    /// The whole archive was sent, and `tar` did not end. The server cannot close standard input: its session protocol is
    /// `v4.channel.k8s.io`. GNU tar stops at the end of the archive; others, such as BusyBox', wait for the end of standard
    /// input.
    #[error(
        "tar did not end within {limit:?} after the archive, and the server cannot end its standard input (protocol \
         v4.channel.k8s.io, before Kubernetes 1.30); use GNU tar in the container"
    )]
    NoHalfClose {
        /// How long it may take.
        limit: Duration,
    },
    /// The copy was cancelled, or its thread panicked.
    #[error("the copy was interrupted")]
    Interrupted,
}

impl CopyError {
    pub(super) fn local(path: &Path, error: io::Error) -> Self {
        CopyError::Local { path: path.to_owned(), error }
    }
}
