//! Token files, as kube-apiserver's `--token-auth-file` reads them (AUT-14).

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::http_types::User;

/// The largest token file.
const MAX_FILE: u64 = 1024 * 1024;

/// An error of [`Builder::token_file`](crate::Builder::token_file). It never shows a token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenFileError {
    /// The file cannot be read.
    #[error("cannot read the token file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The path is a directory, a pipe or a device.
    #[error("the token file {} is not a regular file", path.display())]
    NotAFile {
        /// The file.
        path: PathBuf,
    },
    /// The file is too large.
    #[error("the token file {} has more than {limit} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
    /// A line is not comma-separated text.
    #[error("line {line} of the token file {} is not comma-separated UTF-8 text", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
    },
    /// A line lacks columns.
    #[error(
        "line {line} of the token file {} must have at least 3 columns (token, user name, user uid), found {found}",
        path.display()
    )]
    MissingColumns {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// How many columns it has.
        found: usize,
    },
    /// A line has an empty token or user name.
    #[error("line {line} of the token file {} has no {column}", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// `token` or `user name`.
        column: &'static str,
    },
}

/// Reads the tokens of a file and their users.
pub(crate) fn read(path: &Path) -> Result<Vec<(String, User)>, TokenFileError> {
    let failed = |source| TokenFileError::Read { path: path.to_owned(), source };
    // A pipe would block, and a device would never end.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(TokenFileError::NotAFile { path: path.to_owned() });
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes)).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(TokenFileError::TooLarge { path: path.to_owned(), limit: MAX_FILE });
    }
    parse(&bytes, path)
}

fn parse(bytes: &[u8], path: &Path) -> Result<Vec<(String, User)>, TokenFileError> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
    let mut record = csv::StringRecord::new();
    let mut tokens = Vec::new();
    loop {
        let line = reader.position().line();
        let path = || path.to_owned();
        match reader.read_record(&mut record) {
            Ok(true) => {}
            Ok(false) => return Ok(tokens),
            // The error of the parser may quote the line.
            Err(_) => return Err(TokenFileError::Malformed { path: path(), line }),
        }
        let line = record.position().map_or(line, |position| first_line(bytes, position));
        let column = |index| record.get(index).unwrap_or_default();
        if record.len() < 3 {
            return Err(TokenFileError::MissingColumns { path: path(), line, found: record.len() });
        }
        for (index, name) in [(0, "token"), (1, "user name")] {
            if column(index).is_empty() {
                return Err(TokenFileError::Empty { path: path(), line, column: name });
            }
        }
        let groups = column(3).split(',').filter(|group| !group.is_empty()).map(str::to_owned).collect();
        let user = User { name: column(1).to_owned(), uid: column(2).to_owned(), groups, ..User::default() };
        tokens.push((column(0).to_owned(), user));
    }
}

/// Returns the line on which a record starts. Its position is that of the empty lines before it.
fn first_line(bytes: &[u8], position: &csv::Position) -> u64 {
    let start = usize::try_from(position.byte()).unwrap_or(usize::MAX);
    let rest = bytes.get(start..).unwrap_or_default();
    let empty = rest.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).filter(|byte| **byte == b'\n');
    position.line() + empty.count() as u64
}
