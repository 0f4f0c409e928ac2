//! The user agent.

use super::Config;

impl Config {
    /// Returns the default user agent: `<program>/<version> (<os>/<arch>) evenkeel/<version>`, with Go's names of
    /// systems and processors, which dashboards expect.
    pub fn default_user_agent() -> String {
        let program = std::env::args_os().next();
        let program = program.as_deref().map(std::path::Path::new).and_then(|path| path.file_name());
        build(
            &program.map(|name| name.to_string_lossy()).unwrap_or_default(),
            env!("CARGO_PKG_VERSION"),
            std::env::consts::OS,
            std::env::consts::ARCH,
        )
    }

    /// Sets the user agent to [`Config::default_user_agent`], a slash, and this suffix.
    pub fn add_user_agent(&mut self, suffix: &str) {
        self.user_agent = Some(format!("{}/{suffix}", Config::default_user_agent()));
    }
}

fn build(program: &str, version: &str, os: &str, arch: &str) -> String {
    let version = or_unknown(version.split('-').next().unwrap_or_default());
    let os = match os {
        "macos" => "darwin",
        other => other,
    };
    let arch = match arch {
        "x86_64" => "amd64",
        "x86" => "386",
        "aarch64" => "arm64",
        "powerpc64" if cfg!(target_endian = "little") => "ppc64le",
        other => other,
    };
    format!("{}/{version} ({}/{}) evenkeel/{version}", or_unknown(program), or_unknown(os), or_unknown(arch))
}

/// Returns the word as a valid header token: other characters are replaced with `_`.
fn or_unknown(word: &str) -> String {
    if word.is_empty() {
        return "unknown".into();
    }
    word.chars().map(|c| if c.is_ascii_graphic() && !"()<>@,;:\\\"/[]?={}".contains(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests;
