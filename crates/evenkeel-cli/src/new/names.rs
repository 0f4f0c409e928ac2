//! The names of a new project.

use crate::Failure;

/// The longest name: objects have suffixes such as `-metrics-reader`, and labels at most 63 characters.
const MAX_NAME: usize = 40;
const MAX_KIND: usize = 50;

/// Names that a package cannot have, or that would hide a crate of the project.
const RESERVED_NAMES: &[&str] = &[
    "alloc",
    "build",
    "core",
    "deps",
    "evenkeel",
    "examples",
    "incremental",
    "proc-macro",
    "std",
    "test",
    "tokio",
    "tracing-subscriber",
];

/// Names that the files of a project use.
const RESERVED_KINDS: &[&str] = &[
    "AccessRecorder",
    "ApiServer",
    "BoxError",
    "Check",
    "Client",
    "Clone",
    "Condition",
    "ConfigMap",
    "Context",
    "Controller",
    "Debug",
    "Default",
    "Duration",
    "ElectionHealth",
    "Err",
    "ExitCode",
    "Health",
    "HealthServer",
    "LeaderElector",
    "ListMerge",
    "Manager",
    "Manifests",
    "MetricsSource",
    "Next",
    "None",
    "Obj",
    "Ok",
    "Option",
    "Outcome",
    "PartialEq",
    "Prometheus",
    "ReconcileError",
    "Result",
    "Rule",
    "Self",
    "Some",
    "String",
    "Time",
    "Timestamp",
    "Vec",
];

/// The checked names of a new project.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) name: String,
    pub(super) group: String,
    pub(super) kind: String,
}

impl Names {
    pub(super) fn new(name: String, group: String, kind: Option<String>) -> Result<Self, Failure> {
        if let Some(problem) = name_problem(&name) {
            return Err(format!("{name:?} cannot be the name of a project: {problem}").into());
        }
        if let Some(problem) = group_problem(&group) {
            return Err(format!("{group:?} cannot be an API group: {problem}").into());
        }
        let is_given = kind.is_some();
        let kind = kind.unwrap_or_else(|| default_kind(&name));
        match kind_problem(&kind) {
            None => Ok(Names { name, group, kind }),
            Some(problem) if is_given => Err(format!("{kind:?} cannot be a kind: {problem}").into()),
            Some(problem) => Err(format!("the name gives the kind {kind:?}: {problem}; pass --kind KIND").into()),
        }
    }
}

fn is_lower(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'
}

fn name_problem(name: &str) -> Option<String> {
    if name.is_empty() || !name.chars().all(is_lower) {
        return Some("it has other characters than lower case letters, digits and dashes".to_owned());
    }
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || name.ends_with('-') {
        return Some("it does not start with a letter, or ends with a dash".to_owned());
    }
    if name.len() > MAX_NAME {
        return Some(format!("it is longer than {MAX_NAME} characters"));
    }
    if RESERVED_NAMES.contains(&name) || is_keyword(name) {
        return Some("cargo or Rust use it; add -operator, for example".to_owned());
    }
    None
}

fn group_problem(group: &str) -> Option<String> {
    let is_part = |part: &str| {
        !part.is_empty()
            && part.len() <= 63
            && part.chars().all(is_lower)
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    if !group.split('.').all(is_part) || !group.contains('.') || group.len() > 200 {
        return Some("it is a domain of yours in lower case, such as shop.example.com".to_owned());
    }
    let is_below = |domain: &str| group == domain || group.ends_with(&format!(".{domain}"));
    if is_below("k8s.io") || is_below("kubernetes.io") {
        return Some("it belongs to Kubernetes, which has to approve kinds in it; use a domain of yours".to_owned());
    }
    None
}

fn kind_problem(kind: &str) -> Option<String> {
    if !kind.starts_with(|c: char| c.is_ascii_uppercase()) || !kind.chars().all(|c| c.is_ascii_alphanumeric()) {
        return Some("it is a word in upper camel case, such as Shop or WebSite".to_owned());
    }
    if kind.len() > MAX_KIND {
        return Some(format!("it is longer than {MAX_KIND} characters"));
    }
    if kind.ends_with("List") {
        return Some("kinds that end in List are lists of others".to_owned());
    }
    if RESERVED_KINDS.contains(&kind) {
        return Some("the code of the project uses this name".to_owned());
    }
    None
}

/// Returns the kind of a project without one: `web-site-operator` is about a `WebSite`.
fn default_kind(name: &str) -> String {
    let stem = ["-operator", "-controller"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
    let capitalized = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    };
    stem.split('-').map(capitalized).collect()
}

fn is_keyword(name: &str) -> bool {
    const KEYWORDS: &[&str] = &[
        "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
        "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro",
        "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super",
        "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
    ];
    KEYWORDS.contains(&name)
}
