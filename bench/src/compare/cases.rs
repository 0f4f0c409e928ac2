//! The cases: objects, their number, and what is done to the programs.

use crate::data::Data;
use crate::server::wire::Wire;

/// A group of rows of the table.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) title: String,
    pub(crate) data: Data,
    pub(crate) objects: usize,
    pub(crate) wires: Vec<Wire>,
    pub(crate) rounds: usize,
    /// Updates in the storm after a relist; without updates there is no relist.
    pub(crate) updates: usize,
    /// Single updates afterwards.
    pub(crate) latency: usize,
    /// Whether programs read at the end.
    pub(crate) reads: bool,
    /// Whether managedFields are stripped.
    pub(crate) light: bool,
    /// Whether only evenkeel runs.
    pub(crate) alone: bool,
}

/// Size of the benchmark.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    pub(crate) objects: usize,
    pub(crate) updates: usize,
    pub(crate) latency: usize,
    pub(crate) rounds: usize,
}

/// Names of the default cases.
pub(crate) const NAMES: &[&str] =
    &["informer", "small", "large", "light", "kinds", "secrets", "endpointslices", "documents"];

/// Factor of the case million.
const MILLION: usize = 20;

/// Returns the cases of these names, in order.
pub(crate) fn cases(names: &[String], million: bool, wires: &[Wire], scale: Scale) -> Result<Vec<Case>, String> {
    if let Some(unknown) = names.iter().find(|name| !NAMES.contains(&name.as_str())) {
        return Err(format!("there is no case {unknown:?}; there are {}", NAMES.join(", ")));
    }
    if million {
        return Ok(vec![
            Case { title: "before".to_owned(), alone: true, ..sync("before", scale.objects, wires, scale) },
            // One round is enough for runs of minutes.
            Case { alone: true, rounds: 1, ..sync("million", scale.objects * MILLION, wires, scale) },
        ]);
    }
    let wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    Ok(NAMES.iter().filter(|name| wanted(name)).map(|name| case(name, wires, scale)).collect())
}

fn case(name: &'static str, wires: &[Wire], scale: Scale) -> Case {
    let Scale { objects, updates, latency, .. } = scale;
    // Cases for growth or other data need fewer rounds.
    let some = Scale { rounds: scale.rounds.min(2), ..scale };
    match name {
        "informer" => Case { updates, latency, reads: true, ..sync(name, objects, wires, scale) },
        "small" => sync(name, objects / 10, wires, scale),
        "large" => sync(name, objects * 4, wires, some),
        "light" => {
            let case = sync(name, objects, wires, some);
            Case { title: format!("{}, managedFields dropped", case.title), light: true, ..case }
        }
        "kinds" => other(name, "objects of 20 kinds", Data::Kinds, objects, wires, some),
        "secrets" => other(name, "Secrets of random bytes", Data::Secrets, objects * 2 / 5, wires, some),
        "endpointslices" => other(name, "EndpointSlices", Data::Endpointslices, objects * 2 / 5, wires, some),
        _ => {
            let json: Vec<Wire> = wires.iter().copied().filter(|wire| *wire == Wire::Json).collect();
            other(name, "custom resources of 100 KB", Data::Documents, objects / 50, &json, some)
        }
    }
}

/// Returns a case that only syncs pods.
fn sync(name: &'static str, objects: usize, wires: &[Wire], scale: Scale) -> Case {
    other(name, "pods", Data::Pods, objects, wires, scale)
}

fn other(name: &'static str, what: &str, data: Data, objects: usize, wires: &[Wire], scale: Scale) -> Case {
    Case {
        name,
        title: format!("{} {what}", thousands(objects)),
        data,
        objects,
        wires: wires.to_vec(),
        rounds: scale.rounds,
        updates: 0,
        latency: 0,
        reads: false,
        light: false,
        alone: false,
    }
}

/// Formats a number with thousands separators.
pub(crate) fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests;
