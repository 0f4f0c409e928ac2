//! Cutting values out of a JSON text: [`JsonPaths`].

use std::fmt;

use super::{JsonError, Scanner, Segment, Shape, segments};

/// Paths are told apart by the bits of a number.
pub(crate) type Active = u128;

/// How many paths a [`JsonPaths`] can have.
const MAX_PATHS: usize = Active::BITS as usize;

/// Some paths of a JSON text, such as `metadata.managedFields`, `metadata.annotations[example.com/big]` or
/// `spec.containers[*].env`, to be cut out of objects or to be all that is left of them.
///
/// A path is written as [`JsonValue::at_path`](super::JsonValue::at_path) reads it; `[*]` stands for every element of an
/// array, and for every member of an object. The paths are read once, here, and not again for every text.
///
/// ```
/// use evenkeel_core::json::JsonPaths;
///
/// let heavy = JsonPaths::new(["metadata.managedFields", "spec.containers[*].env"])?;
/// # assert!(JsonPaths::new(["spec..x"]).is_err());
/// # drop(heavy);
/// # Ok::<(), evenkeel_core::json::PathError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct JsonPaths {
    paths: Vec<Box<[Step]>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The member of an object.
    Member(Box<str>),
    /// The element of an array with this index, or else the member of an object.
    Bracketed(Box<str>, Option<usize>),
    /// Every element, or every member.
    Any,
}

/// Paths that make no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The path is empty, or not well-formed.
    #[error("not a path: {path:?}")]
    Malformed {
        /// The path.
        path: String,
    },
    /// There are more paths than can be looked for at once.
    #[error("more than {limit} paths")]
    TooMany {
        /// How many there may be.
        limit: usize,
    },
}

/// What becomes of what the paths lead to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// It goes, and the rest stays.
    These,
    /// It stays, and the rest goes.
    Others,
}

/// Where the paths lead, seen from one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nowhere in it.
    Nothing,
    /// To the value itself.
    Itself,
    /// To values inside of it, by these paths.
    Inside(Active),
}

impl JsonPaths {
    /// These paths, of which there may be 128.
    pub fn new(paths: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, PathError> {
        let mut read = Vec::new();
        for path in paths {
            let path = path.as_ref();
            let steps: Option<Box<[Step]>> = segments(path).map(|segment| segment.map(Step::of)).collect();
            match steps {
                Some(steps) if !steps.is_empty() => read.push(steps),
                _ => return Err(PathError::Malformed { path: path.into() }),
            }
        }
        if read.len() > MAX_PATHS {
            return Err(PathError::TooMany { limit: MAX_PATHS });
        }
        Ok(JsonPaths { paths: read })
    }

    /// Whether a path leads to one of these members of `metadata`, or to one of these of the object itself.
    pub(crate) fn may_reach(&self, of_object: &[&str], of_metadata: &[&str]) -> bool {
        self.paths.iter().any(|steps| match &**steps {
            [first, ..] if first.is_one_of(of_object) => true,
            [first] => first.is_one_of(&["metadata"]),
            [first, second, ..] => first.is_one_of(&["metadata"]) && second.is_one_of(of_metadata),
            [] => false,
        })
    }

    /// The text after the cut; `None` if nothing had to be cut. The text is that of an object whose header has been read.
    pub(crate) fn cut(&self, text: &str, cut: Cut) -> Result<Option<Vec<u8>>, JsonError> {
        let mut knife = Knife { paths: self, cut, text, gone: Vec::new() };
        let all = self.all();
        let mut scanner = Scanner::of_str(text);
        // The usual case. There is only one metadata, and what stands behind it need not be looked at.
        if cut == Cut::These && self.stay_in("metadata") {
            let mut inside = scanner.clone();
            if inside.find_member("metadata")? && inside.shape()? == Shape::Object {
                knife.value(&mut inside, all, 1)?;
                return Ok(knife.rest());
            }
        }
        knife.value(&mut scanner, all, 0)?;
        Ok(knife.rest())
    }

    /// All paths.
    pub(crate) fn all(&self) -> Active {
        Active::MAX.checked_shr((MAX_PATHS - self.paths.len()) as u32).unwrap_or(0)
    }

    /// Where those paths lead that are `active` after `depth` steps, if the next step is one that fits.
    pub(crate) fn step(&self, active: Active, depth: usize, leads: impl Fn(&Step) -> bool) -> Found {
        let mut inside: Active = 0;
        let mut rest = active;
        while rest != 0 {
            let index = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let Some([step, further @ ..]) = self.paths.get(index).and_then(|steps| steps.get(depth..)) else {
                continue;
            };
            if leads(step) {
                if further.is_empty() {
                    return Found::Itself;
                }
                inside |= 1 << index;
            }
        }
        if inside == 0 { Found::Nothing } else { Found::Inside(inside) }
    }

    /// Whether all paths lead to something inside of this member.
    fn stay_in(&self, name: &str) -> bool {
        self.paths.iter().all(|steps| match &**steps {
            [Step::Member(first) | Step::Bracketed(first, _), _, ..] => **first == *name,
            _ => false,
        })
    }
}

impl Step {
    fn of(segment: Segment<'_>) -> Self {
        match segment {
            Segment::Member(name) => Step::Member(name.into()),
            Segment::Bracketed("*") => Step::Any,
            Segment::Bracketed(inside) => Step::Bracketed(inside.into(), inside.parse().ok()),
        }
    }

    pub(crate) fn is_member(&self, name: &str) -> bool {
        match self {
            Step::Member(own) | Step::Bracketed(own, _) => **own == *name,
            Step::Any => true,
        }
    }

    pub(crate) fn is_element(&self, index: usize) -> bool {
        match self {
            Step::Member(_) => false,
            Step::Bracketed(_, own) => *own == Some(index),
            Step::Any => true,
        }
    }

    fn is_one_of(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.is_member(name))
    }
}

/// Walks a text and notes what has to go.
struct Knife<'a> {
    paths: &'a JsonPaths,
    cut: Cut,
    text: &'a str,
    /// Pieces of the text, in order, none of which touches the next.
    gone: Vec<(usize, usize)>,
}

impl<'a> Knife<'a> {
    /// Looks through the value that the scanner stands before, in which `active` paths lead on after `depth` steps.
    fn value(&mut self, scanner: &mut Scanner<'a>, active: Active, depth: usize) -> Result<(), JsonError> {
        let shape = scanner.shape()?;
        // Behind the bracket.
        let mut row = Row { behind: scanner.offset() + 1, has_kept: false, is_first: true };
        match shape {
            Shape::Object => scanner.object(|scanner, name| {
                let found = self.paths.step(active, depth, |step| step.is_member(name));
                self.part(scanner, &mut row, found, depth)
            }),
            Shape::Array => {
                let mut index = 0;
                scanner.array(|scanner| {
                    let found = self.paths.step(active, depth, |step| step.is_element(index));
                    index += 1;
                    self.part(scanner, &mut row, found, depth)
                })
            }
            _ => scanner.skip().map(drop),
        }
    }

    /// Passes a member or an element, and decides on it.
    fn part(&mut self, scanner: &mut Scanner<'a>, row: &mut Row, found: Found, depth: usize) -> Result<(), JsonError> {
        let (goes, inside) = match (self.cut, found) {
            (Cut::These, Found::Nothing) | (Cut::Others, Found::Itself) => (false, None),
            (Cut::These, Found::Itself) | (Cut::Others, Found::Nothing) => (true, None),
            (Cut::These, Found::Inside(paths)) => (false, Some(paths)),
            // A path leads on into something that has no inside, so it leads nowhere.
            (Cut::Others, Found::Inside(paths)) => {
                let has_inside = matches!(scanner.shape()?, Shape::Object | Shape::Array);
                (!has_inside, has_inside.then_some(paths))
            }
        };
        let is_first = std::mem::take(&mut row.is_first);
        if !goes && !std::mem::replace(&mut row.has_kept, true) && !is_first {
            // Everything before it is gone, so the comma has to go as well: only space stands before that.
            let comma = self.text.get(row.behind..).and_then(|rest| rest.find(',')).unwrap_or(0);
            self.remove(row.behind, row.behind + comma + 1);
        }
        match inside {
            Some(paths) => self.value(scanner, paths, depth + 1)?,
            None => scanner.skip_checked()?,
        }
        let end = scanner.offset();
        if goes {
            // From behind what stands before it, so that the comma between them goes with it.
            self.remove(row.behind, end);
        }
        row.behind = end;
        Ok(())
    }

    fn remove(&mut self, start: usize, end: usize) {
        match self.gone.last_mut() {
            Some((_, last)) if *last == start => *last = end,
            _ => self.gone.push((start, end)),
        }
    }

    /// What is left of the text.
    fn rest(self) -> Option<Vec<u8>> {
        if self.gone.is_empty() {
            return None;
        }
        let gone: usize = self.gone.iter().map(|(start, end)| end - start).sum();
        let mut rest = Vec::with_capacity(self.text.len() - gone);
        let mut at = 0;
        for (start, end) in self.gone.into_iter().chain([(self.text.len(), self.text.len())]) {
            rest.extend_from_slice(self.text.as_bytes().get(at..start).unwrap_or_default());
            at = end;
        }
        Some(rest)
    }
}

/// The members of an object, or the elements of an array, as far as they are passed.
struct Row {
    /// Where the last one ended, or the bracket.
    behind: usize,
    has_kept: bool,
    is_first: bool,
}

impl fmt::Display for JsonPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, steps) in self.paths.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            for (depth, step) in steps.iter().enumerate() {
                match step {
                    Step::Member(name) if depth == 0 => f.write_str(name)?,
                    Step::Member(name) => write!(f, ".{name}")?,
                    Step::Bracketed(inside, _) => write!(f, "[{inside}]")?,
                    Step::Any => f.write_str("[*]")?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
