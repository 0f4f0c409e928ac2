//! The parser of what exec plugins print, for the fuzz targets.

use jiff::Timestamp;

use super::ExecProblem;
use super::protocol::{self, ExecApiVersion};
use crate::secret::Secret;

/// What an exec plugin has printed.
#[derive(Debug)]
pub struct ParsedExecCredential {
    /// The token.
    pub token: Option<Secret>,
    /// The certificate and its key.
    pub certificate: Option<(String, Secret)>,
    /// When the credential expires.
    pub expires: Option<Timestamp>,
}

/// Parses what an exec plugin has printed.
pub fn parse_exec_credential(version: ExecApiVersion, stdout: &[u8]) -> Result<ParsedExecCredential, ExecProblem> {
    let printed = protocol::response(version, stdout)?;
    Ok(ParsedExecCredential { token: printed.token, certificate: printed.certificate, expires: printed.expires })
}
