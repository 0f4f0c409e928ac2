//! Schedules and time zones of CronJobs, with the messages of the cron library that Kubernetes uses (robfig/cron).

/// The smallest and the largest value of a field of a schedule, and the names of its values.
struct FieldBounds {
    min: u64,
    max: u64,
    names: &'static [&'static str],
}

const MONTHS: &[&str] = &["", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const FIELDS: [FieldBounds; 5] = [
    FieldBounds { min: 0, max: 59, names: &[] },
    FieldBounds { min: 0, max: 23, names: &[] },
    FieldBounds { min: 1, max: 31, names: &[] },
    FieldBounds { min: 1, max: 12, names: MONTHS },
    FieldBounds { min: 0, max: 6, names: DAYS },
];
const EVERY: &str = "@every ";

/// Returns what is wrong with a schedule that is not empty.
pub(super) fn schedule_fault(schedule: &str) -> Option<String> {
    let rest = match schedule.strip_prefix("TZ=").or_else(|| schedule.strip_prefix("CRON_TZ=")) {
        None => schedule,
        Some(zoned) => zoned.split_once(' ').map_or("", |(_, rest)| rest).trim(),
    };
    if rest.starts_with('@') {
        return descriptor_fault(rest);
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let (expected, found) = (FIELDS.len(), fields.len());
        return Some(format!("expected exactly {expected} fields, found {found}: [{}]", fields.join(" ")));
    }
    fields.iter().zip(&FIELDS).find_map(|(field, bounds)| {
        field.split(',').filter(|range| !range.is_empty()).find_map(|range| range_fault(range, bounds).err())
    })
}

fn descriptor_fault(descriptor: &str) -> Option<String> {
    if matches!(descriptor, "@yearly" | "@annually" | "@monthly" | "@weekly" | "@daily" | "@midnight" | "@hourly") {
        return None;
    }
    match descriptor.strip_prefix(EVERY) {
        None => Some(format!("unrecognized descriptor: {descriptor}")),
        Some(period) => evenkeel_core::duration::parse(period)
            .err()
            .map(|error| format!("failed to parse duration {descriptor}: {error}")),
    }
}

/// Checks `*`, `N`, `N-M`, each optionally with `/STEP`.
fn range_fault(range: &str, bounds: &FieldBounds) -> Result<(), String> {
    let mut range_and_step = range.split('/');
    let mut low_and_high = range_and_step.next().unwrap_or_default().split('-');
    let (low, high, more) = (low_and_high.next().unwrap_or_default(), low_and_high.next(), low_and_high.next());
    let (start, mut end) = if matches!(low, "*" | "?") {
        (bounds.min, bounds.max)
    } else {
        let start = number_or_name(low, bounds.names)?;
        match (high, more) {
            (None, _) => (start, start),
            (Some(high), None) => (start, number_or_name(high, bounds.names)?),
            (Some(_), Some(_)) => return Err(format!("too many hyphens: {range}")),
        }
    };
    let mut step = 1;
    if let Some(text) = range_and_step.next() {
        if range_and_step.next().is_some() {
            return Err(format!("too many slashes: {range}"));
        }
        step = number(text)?;
        if high.is_none() {
            end = bounds.max;
        }
    }
    let FieldBounds { min, max, .. } = bounds;
    match () {
        () if start < *min => Err(format!("beginning of range ({start}) below minimum ({min}): {range}")),
        () if end > *max => Err(format!("end of range ({end}) above maximum ({max}): {range}")),
        () if start > end => Err(format!("beginning of range ({start}) beyond end of range ({end}): {range}")),
        () if step == 0 => Err(format!("step of range should be a positive number: {range}")),
        () => Ok(()),
    }
}

fn number_or_name(text: &str, names: &[&str]) -> Result<u64, String> {
    let lower = text.to_lowercase();
    match names.iter().position(|name| !name.is_empty() && *name == lower) {
        Some(index) => Ok(index as u64),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let fault = |why: &str| format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {why}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(fault("invalid syntax"));
    }
    let number: i64 = text.parse().map_err(|_| fault("value out of range"))?;
    u64::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
}

/// Returns what is wrong with the form of a time zone that is not empty. Whether it exists is not known here.
pub(super) fn time_zone_fault(zone: &str) -> Option<String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
    let is_valid = |part: &str| {
        !matches!(part, "" | "." | "..") && !part.starts_with('-') && part.len() <= 14 && part.bytes().all(allowed)
    };
    if !zone.split('/').all(is_valid) {
        return Some(format!("unknown time zone {zone}"));
    }
    zone.eq_ignore_ascii_case("local")
        .then(|| "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones".to_owned())
}
