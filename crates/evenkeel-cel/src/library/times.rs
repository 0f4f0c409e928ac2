//! The parts of points in time and of durations.

use super::{Evaluated, Library, no_overload};
use crate::error::EvalError;
use crate::time;
use crate::value::Value;

macro_rules! part {
    ($name:ident, $function:literal, $zoned:expr) => {
        fn $name<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
            let zoned = match args {
                [Value::Timestamp(at)] => time::in_zone(*at, None),
                [Value::Timestamp(at), Value::String(zone)] => time::in_zone(*at, Some(zone)),
                _ => return Err(no_overload($function, args)),
            };
            let zoned = zoned.ok_or_else(|| EvalError::failed("unknown time zone"))?;
            let part: fn(&jiff::Zoned) -> i64 = $zoned;
            Ok(Value::Int(part(&zoned)))
        }
    };
}

macro_rules! part_or_total {
    ($name:ident, $function:literal, $unit:expr, $inner:ident) => {
        fn $name<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
            match args {
                [Value::Duration(nanos)] => {
                    let total: fn(i64) -> i64 = $unit;
                    Ok(Value::Int(total(*nanos)))
                }
                _ => $inner(args),
            }
        }
    };
}

part!(full_year, "getFullYear", |at| i64::from(at.year()));
part!(month, "getMonth", |at| i64::from(at.month()) - 1);
part!(date, "getDate", |at| i64::from(at.day()));
part!(day_of_month, "getDayOfMonth", |at| i64::from(at.day()) - 1);
part!(day_of_week, "getDayOfWeek", |at| i64::from(at.weekday().to_sunday_zero_offset()));
part!(day_of_year, "getDayOfYear", |at| i64::from(at.day_of_year()) - 1);
part!(hours_of_day, "getHours", |at| i64::from(at.hour()));
part!(minutes_of_hour, "getMinutes", |at| i64::from(at.minute()));
part!(seconds_of_minute, "getSeconds", |at| i64::from(at.second()));
part!(milliseconds_of_second, "getMilliseconds", |at| i64::from(at.subsec_nanosecond()) / 1_000_000);
part_or_total!(hours, "getHours", |nanos| nanos / 3_600_000_000_000, hours_of_day);
part_or_total!(minutes, "getMinutes", |nanos| nanos / 60_000_000_000, minutes_of_hour);
part_or_total!(seconds, "getSeconds", |nanos| nanos / 1_000_000_000, seconds_of_minute);
part_or_total!(milliseconds, "getMilliseconds", |nanos| nanos / 1_000_000 % 1_000, milliseconds_of_second);

macro_rules! of_timestamp {
    ($id:literal) => {
        &[($id, "timestamp.() -> int"), (concat!($id, "_with_tz"), "timestamp.(string) -> int")]
    };
}

macro_rules! of_both {
    ($id:literal, $duration:literal) => {
        &[
            ($id, "timestamp.() -> int"),
            (concat!($id, "_with_tz"), "timestamp.(string) -> int"),
            ($duration, "duration.() -> int"),
        ]
    };
}

pub(super) const LIBRARY: Library = Library {
    since: 0,
    rows: &[
        ("getFullYear", full_year, of_timestamp!("timestamp_to_year")),
        ("getMonth", month, of_timestamp!("timestamp_to_month")),
        ("getDate", date, of_timestamp!("timestamp_to_day_of_month_1_based")),
        ("getDayOfMonth", day_of_month, of_timestamp!("timestamp_to_day_of_month")),
        ("getDayOfWeek", day_of_week, of_timestamp!("timestamp_to_day_of_week")),
        ("getDayOfYear", day_of_year, of_timestamp!("timestamp_to_day_of_year")),
        ("getHours", hours, of_both!("timestamp_to_hours", "duration_to_hours")),
        ("getMinutes", minutes, of_both!("timestamp_to_minutes", "duration_to_minutes")),
        ("getSeconds", seconds, of_both!("timestamp_to_seconds", "duration_to_seconds")),
        ("getMilliseconds", milliseconds, of_both!("timestamp_to_milliseconds", "duration_to_milliseconds")),
    ],
};
