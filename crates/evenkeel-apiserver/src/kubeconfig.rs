//! Kubeconfigs for the embedded server.

use std::io::{self, Write};
use std::path::Path;

use base64::{Engine, prelude::BASE64_STANDARD};

/// The connection settings of a client.
pub(crate) struct Kubeconfig<'a> {
    pub(crate) server: &'a str,
    pub(crate) ca_pem: Option<&'a str>,
    pub(crate) credential: Credential<'a>,
}

/// The credential of a client.
pub(crate) enum Credential<'a> {
    None,
    Token(&'a str),
    Certificate { pem: &'a str, key_pem: &'a str },
}

impl Kubeconfig<'_> {
    /// Returns the YAML text. Values are JSON strings, which are valid YAML.
    pub(crate) fn render(&self) -> String {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let mut text = String::from(
            "# evenkeel's embedded API server: a tool for tests and development, not hardened for hostile users.\n\
             apiVersion: v1\nkind: Config\nclusters:\n- name: evenkeel\n  cluster:\n",
        );
        text += &format!("    server: {}\n", quoted(self.server));
        if let Some(pem) = self.ca_pem {
            text += &format!("    certificate-authority-data: {}\n", BASE64_STANDARD.encode(pem));
        }
        text += "users:\n- name: evenkeel\n  user:";
        match self.credential {
            Credential::None => text += " {}\n",
            Credential::Token(token) => text += &format!("\n    token: {}\n", quoted(token)),
            Credential::Certificate { pem, key_pem } => {
                text += &format!(
                    "\n    client-certificate-data: {}\n    client-key-data: {}\n",
                    BASE64_STANDARD.encode(pem),
                    BASE64_STANDARD.encode(key_pem)
                );
            }
        }
        text += "contexts:\n- name: evenkeel\n  context:\n    cluster: evenkeel\n    user: evenkeel\n\
                 current-context: evenkeel\n";
        text
    }
}

/// Writes a file that only its owner can read, atomically (SEC-8): to a temporary name in the same directory, then
/// renamed. Missing directories are created, for their owner only.
pub(crate) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    private_directories().create(directory)?;
    warn_if_open(path);
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = directory.join(temporary);
    let written = private_file(&temporary).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    let done = written.and_then(|()| std::fs::rename(&temporary, path));
    if done.is_err() {
        // The first error is returned.
        let _ = std::fs::remove_file(&temporary);
    }
    done
}

fn private_file(path: &Path) -> io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn private_directories() -> std::fs::DirBuilder {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

fn warn_if_open(path: &Path) {
    #[cfg(unix)]
    if let Ok(metadata) = std::fs::metadata(path) {
        let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777;
        if mode & 0o077 != 0 {
            tracing::warn!(
                path = %path.display(),
                mode = format!("{mode:o}"),
                "kubeconfig was readable by other users; its replacement is not"
            );
        }
    }
}

#[cfg(test)]
mod tests;
