//! Character classes: ranges, Perl's and POSIX's, and those of Unicode.

use regex_automata::util::syntax;

use super::fault::PatternFault;
use super::fault::PatternFaultKind as Kind;
use super::{NOTHING, before};

/// Appends a range of code points to a class, without the surrogates.
pub(super) fn push_range(text: &mut String, low: u32, high: u32) {
    const SURROGATES: std::ops::RangeInclusive<u32> = 0xD800..=0xDFFF;
    let mut push = |low: u32, high: u32| {
        if low < high {
            text.push_str(&format!("\\x{{{low:X}}}-\\x{{{high:X}}}"));
        } else if low == high {
            text.push_str(&format!("\\x{{{low:X}}}"));
        }
    };
    if high < *SURROGATES.start() || low > *SURROGATES.end() {
        return push(low, high);
    }
    push(low, SURROGATES.start() - 1);
    push(SURROGATES.end() + 1, high);
    if SURROGATES.contains(&low) && SURROGATES.contains(&high) {
        text.push_str(NOTHING);
    }
}

/// Returns the contents of a class that a Perl escape stands for: ASCII, and its complement in Unicode.
pub(super) fn perl_class(escape: char) -> String {
    let class = match escape.to_ascii_lowercase() {
        'd' => "0-9",
        's' => "\\t\\n\\x{C}\\r\\x{20}",
        _ => "0-9A-Za-z_",
    };
    if escape.is_ascii_uppercase() { format!("[^{class}]") } else { class.to_owned() }
}

pub(super) fn is_posix_class(name: &str) -> bool {
    let name = name.strip_prefix("[:").and_then(|name| name.strip_suffix(":]")).unwrap_or_default();
    matches!(
        name.strip_prefix('^').unwrap_or(name),
        "alnum"
            | "alpha"
            | "ascii"
            | "blank"
            | "cntrl"
            | "digit"
            | "graph"
            | "lower"
            | "print"
            | "punct"
            | "space"
            | "upper"
            | "word"
            | "xdigit"
    )
}

/// Reads `\pN`, `\p{Name}`, `\P…` or `\p{^Name}`: a category or a script.
pub(super) fn unicode_class(start: &str) -> Result<(String, &str), PatternFault> {
    let fault = |part: &str| PatternFault::new(Kind::CharRange, part);
    let mut negative = start.starts_with("\\P");
    let body = start.get(2..).unwrap_or_default();
    let (name, after) = match body.strip_prefix('{') {
        Some(body) => body.split_once('}').ok_or_else(|| fault(start))?,
        None => body.split_at_checked(body.chars().next().map_or(0, char::len_utf8)).ok_or_else(|| fault(start))?,
    };
    let sequence = before(start, after);
    let name = match name.strip_prefix('^') {
        Some(name) => {
            negative = !negative;
            name
        }
        None => name,
    };
    const CATEGORIES: [&str; 36] = [
        "C", "Cc", "Cf", "Co", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl", "No", "P",
        "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs", "Any",
    ];
    let escape = if negative { 'P' } else { 'p' };
    if CATEGORIES.contains(&name) {
        return Ok((format!("\\{escape}{{{name}}}"), after));
    }
    if name == "Cs" {
        return Ok((if negative { "\\p{Any}" } else { NOTHING }.to_owned(), after));
    }
    let spelled = name.starts_with(|first: char| first.is_ascii_uppercase())
        && name.len() > 2
        && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphabetic());
    let script = format!("\\{escape}{{Script={name}}}");
    if !spelled || name.len() > 64 || syntax::parse(&script).is_err() {
        return Err(fault(sequence));
    }
    Ok((script, after))
}
