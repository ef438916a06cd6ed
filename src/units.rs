//! Units as users write and read them: bytes, rates, durations, counts.
//!
//! Parsing is exact: numbers are decimal integers with a scale and never pass through a float, so `0.1 MB` is
//! 100,000 bytes, what is no whole number of bytes is an error, and so is an overflow. Formatting is exact
//! where three decimals suffice (`1.5 MiB`) and has three significant digits otherwise (`97.7 KiB`).

pub(crate) mod figures;

use std::fmt;
use std::time::Duration;

/// Units of a quantity, ascending: names (the first one is written, all are read) and size in the smallest.
type Units = [(&'static [&'static str], u64)];

const BINARY: &Units = &[
    (&["B"], 1),
    (&["KiB"], 1 << 10),
    (&["MiB"], 1 << 20),
    (&["GiB"], 1 << 30),
    (&["TiB"], 1 << 40),
    (&["PiB"], 1 << 50),
];
const DECIMAL: &Units = &[
    (&["B"], 1),
    (&["kB", "KB"], 1_000),
    (&["MB"], 1_000_000),
    (&["GB"], 1_000_000_000),
    (&["TB"], 1_000_000_000_000),
    (&["PB"], 1_000_000_000_000_000),
];
const TIME: &Units = &[
    (&["ns"], 1),
    (&["µs", "us"], 1_000),
    (&["ms"], 1_000_000),
    (&["s"], SECOND),
    (&["min"], 60 * SECOND),
    (&["h"], 3_600 * SECOND),
    (&["d"], 86_400 * SECOND),
];
const SECOND: u64 = 1_000_000_000;

/// What a text was to be, and was not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not a {quantity}: {problem}; write for example \"{example}\"")]
pub struct UnitError {
    /// The text.
    pub found: String,
    /// `size`, `rate` or `duration`.
    pub quantity: &'static str,
    /// What is wrong with it.
    pub problem: UnitProblem,
    /// How it is done.
    pub example: &'static str,
}

/// What is wrong with a quantity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitProblem {
    /// No number at the start.
    NoNumber,
    /// A number and nothing else.
    NoUnit,
    /// An unknown unit, and the known ones.
    UnknownUnit(String, String),
    /// A fraction of the smallest unit.
    NotWhole(&'static str),
    /// More than 64 bits hold.
    TooLarge,
    /// `1 s 1 min`: parts go from large to small.
    Unordered,
}

impl fmt::Display for UnitProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNumber => write!(f, "it does not begin with a number"),
            Self::NoUnit => write!(f, "its unit is missing"),
            Self::UnknownUnit(unit, known) => write!(f, "the unit `{unit}` is unknown (known: {known})"),
            Self::NotWhole(smallest) => write!(f, "it is not a whole number of {smallest}"),
            Self::TooLarge => write!(f, "it is too large"),
            Self::Unordered => write!(f, "its parts must go from the largest unit to the smallest"),
        }
    }
}

/// Bytes of `128 KiB`, `1.5 GB` or `4096`.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    let fail = |problem| UnitError { found: text.into(), quantity: "size", problem, example: "64 MiB" };
    let (number, unit) = Number::split(text.trim()).map_err(fail)?;
    let factor = if unit.is_empty() { 1 } else { find_unit(unit, &[BINARY, DECIMAL], "").map_err(fail)? };
    number.times(factor, "bytes").map_err(fail)
}

/// Bytes per second of `450 MB/s`.
pub fn parse_rate(text: &str) -> Result<u64, UnitError> {
    let fail = |problem| UnitError { found: text.into(), quantity: "rate", problem, example: "450 MB/s" };
    let (number, unit) = Number::split(text.trim()).map_err(fail)?;
    let factor = find_unit(unit, &[BINARY, DECIMAL], "/s").map_err(fail)?;
    number.times(factor, "bytes per second").map_err(fail)
}

/// The duration of `10 min`, `1.5 h`, `200 ms` or `1 h 30 min`.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let fail = |problem| UnitError { found: text.into(), quantity: "duration", problem, example: "10 min" };
    let mut rest = text.trim();
    let mut total: u64 = 0;
    let mut last = u64::MAX;
    while !rest.is_empty() || last == u64::MAX {
        let (number, tail) = Number::split(rest).map_err(fail)?;
        let end = tail.find(|c: char| c.is_ascii_digit() || c.is_whitespace()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let factor = find_unit(unit, &[TIME], "").map_err(fail)?;
        if factor >= last {
            return Err(fail(UnitProblem::Unordered));
        }
        let part = number.times(factor, "nanoseconds").map_err(fail)?;
        total = total.checked_add(part).ok_or_else(|| fail(UnitProblem::TooLarge))?;
        last = factor;
        rest = tail.trim_start();
    }
    Ok(Duration::from_nanos(total))
}

/// A decimal number: `digits / 10^scale`.
#[derive(Clone, Copy)]
struct Number {
    digits: u128,
    scale: u32,
}

impl Number {
    /// The number that a text begins with, and what follows it.
    fn split(text: &str) -> Result<(Self, &str), UnitProblem> {
        let (whole, rest) = split_digits(text);
        let (fraction, rest) = match rest.strip_prefix('.') {
            Some(tail) => split_digits(tail),
            None => ("0", rest),
        };
        if whole.is_empty() || fraction.is_empty() {
            return Err(UnitProblem::NoNumber);
        }
        let fraction = fraction.trim_end_matches('0');
        let digits = format!("{whole}{fraction}").parse().map_err(|_| UnitProblem::TooLarge)?;
        // A fraction whose digits fit u128 has at most 38 significant ones; leading zeros can make it longer,
        // and then it is no whole number of anything.
        let scale = u32::try_from(fraction.len()).unwrap_or(u32::MAX);
        Ok((Self { digits, scale }, rest.trim_start()))
    }

    /// The number in the smallest unit.
    fn times(self, unit: u64, smallest: &'static str) -> Result<u64, UnitProblem> {
        let product = self.digits.checked_mul(u128::from(unit)).ok_or(UnitProblem::TooLarge)?;
        match 10_u128.checked_pow(self.scale) {
            Some(divisor) if product.is_multiple_of(divisor) => {
                u64::try_from(product / divisor).map_err(|_| UnitProblem::TooLarge)
            }
            _ => Err(UnitProblem::NotWhole(smallest)),
        }
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn find_unit(text: &str, tables: &[&Units], suffix: &str) -> Result<u64, UnitProblem> {
    let text = text.trim_end();
    if text.is_empty() {
        return Err(UnitProblem::NoUnit);
    }
    let known = text.strip_suffix(suffix).and_then(|name| {
        tables.iter().flat_map(|table| table.iter()).find(|(names, _)| names.contains(&name.trim_end()))
    });
    if let Some((_, factor)) = known {
        return Ok(*factor);
    }
    let mut names: Vec<String> = Vec::new();
    for (aliases, _) in tables.iter().flat_map(|table| table.iter()) {
        let name = format!("{}{suffix}", aliases[0]);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Err(UnitProblem::UnknownUnit(text.into(), names.join(", ")))
}

/// `128 KiB`, `1.5 MiB`, `97.7 KiB`.
pub fn format_bytes(bytes: u64) -> String {
    in_best_unit(bytes, BINARY, "")
}

/// `450 MB/s`, `2.69 GB/s`.
pub fn format_rate(bytes_per_second: u64) -> String {
    in_best_unit(bytes_per_second, DECIMAL, "/s")
}

/// `1 h 30 min`, `1 min 5 s`, `12.3 s`, `200 ms`: two units from a minute on, three digits below.
pub fn format_duration(duration: Duration) -> String {
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    if nanos == 0 {
        return "0 s".into();
    }
    // What rounds to a minute is written as one.
    if nanos < 60 * SECOND - SECOND / 20 {
        return in_best_unit(nanos, &TIME[..4], "");
    }
    let (large, small) = match nanos {
        n if n < 3_600 * SECOND - SECOND / 2 => (4, 3),
        n if n < 86_400 * SECOND - 30 * SECOND => (5, 4),
        _ => (6, 5),
    };
    let ((large_names, large), (small_names, small)) = (TIME[large], TIME[small]);
    let rounded = nanos / small + u64::from(nanos % small >= small / 2);
    let (whole, rest) = (rounded / (large / small), rounded % (large / small));
    match rest {
        0 => format!("{whole} {}", large_names[0]),
        _ => format!("{whole} {} {rest} {}", large_names[0], small_names[0]),
    }
}

/// Thousands apart: `33,554,432`.
pub fn format_count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 fault`, `2 faults`.
pub(crate) fn plural(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// A value in the largest unit that it reaches after rounding.
fn in_best_unit(value: u64, units: &Units, suffix: &str) -> String {
    let mut at = units.iter().rposition(|(_, size)| value >= *size).unwrap_or(0);
    loop {
        let (names, size) = units[at];
        let carried = units.get(at + 1).is_some_and(|(_, next)| rounds_up_to(value, size, *next));
        if !carried {
            return format!("{} {}{suffix}", in_unit(value, size), names[0]);
        }
        at += 1;
    }
}

/// Whether three significant digits of a value in this unit are already the next one: 1023.9 KiB is written
/// `1.00 MiB`, but 1023 KiB, being exact, as it is.
fn rounds_up_to(value: u64, size: u64, next: u64) -> bool {
    exact_decimals(value, size).is_none() && rounded(value, size, 0) >= u128::from(next / size)
}

fn in_unit(value: u64, size: u64) -> String {
    if let Some(decimals) = exact_decimals(value, size) {
        return decimal(rounded(value, size, decimals), decimals);
    }
    // The most decimals that stay within three digits: 9.995 is 10.0, not 10.00.
    let decimals = (1..=2).rev().find(|&decimals| rounded(value, size, decimals) < 1_000).unwrap_or(0);
    decimal(rounded(value, size, decimals), decimals)
}

/// Decimals, at most three, that give the value exactly.
fn exact_decimals(value: u64, size: u64) -> Option<u32> {
    (0..=3).find(|&decimals| (u128::from(value) * 10_u128.pow(decimals)).is_multiple_of(u128::from(size)))
}

/// `value / size * 10^decimals`, rounded to nearest.
fn rounded(value: u64, size: u64, decimals: u32) -> u128 {
    let size = u128::from(size);
    (u128::from(value) * 10_u128.pow(decimals) + size / 2) / size
}

fn decimal(scaled: u128, decimals: u32) -> String {
    let ten = 10_u128.pow(decimals);
    match decimals {
        0 => scaled.to_string(),
        _ => format!("{}.{:0width$}", scaled / ten, scaled % ten, width = decimals as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_binary_or_decimal_and_exact() {
        for (text, bytes) in [
            ("128 KiB", 131_072),
            ("64MiB", 64 << 20),
            ("1 GB", 1_000_000_000),
            ("1.5 GiB", 3 << 29),
            ("0.1 MB", 100_000),
            (" 4096 ", 4096),
            ("0 B", 0),
            ("3.000 KB", 3_000),
            ("16383.99951171875 PiB", u64::MAX - (u64::MAX % (1 << 39))),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_told_with_an_example() {
        for (text, message) in [
            ("", r#""" is not a size: it does not begin with a number; write for example "64 MiB""#),
            (
                "-1 MB",
                r#""-1 MB" is not a size: it does not begin with a number; write for example "64 MiB""#,
            ),
            (
                "1. MB",
                r#""1. MB" is not a size: it does not begin with a number; write for example "64 MiB""#,
            ),
            (
                "0.3 KiB",
                r#""0.3 KiB" is not a size: it is not a whole number of bytes; write for example "64 MiB""#,
            ),
            ("16384 PiB", r#""16384 PiB" is not a size: it is too large; write for example "64 MiB""#),
            (
                "64 mib",
                r#""64 mib" is not a size: the unit `mib` is unknown (known: B, KiB, MiB, GiB, TiB, PiB, kB, MB, GB, TB, PB); write for example "64 MiB""#,
            ),
        ] {
            assert_eq!(parse_bytes(text).unwrap_err().to_string(), message);
        }
        let long = format!("0.{}1 GB", "0".repeat(1_000));
        assert!(matches!(parse_bytes(&long).unwrap_err().problem, UnitProblem::NotWhole(_)));
        let long = format!("{} GB", "9".repeat(1_000));
        assert_eq!(parse_bytes(&long).unwrap_err().problem, UnitProblem::TooLarge);
    }

    #[test]
    fn a_rate_is_bytes_per_second_and_needs_its_unit() {
        assert_eq!(parse_rate("450 MB/s"), Ok(450_000_000));
        assert_eq!(parse_rate("1.5 GiB/s"), Ok(3 << 29));
        assert_eq!(parse_rate("450").unwrap_err().problem, UnitProblem::NoUnit);
        assert!(matches!(parse_rate("450 MB").unwrap_err().problem, UnitProblem::UnknownUnit(..)));
    }

    #[test]
    fn a_duration_has_one_or_more_parts_from_large_to_small() {
        for (text, millis) in [
            ("10 min", 600_000),
            ("1.5 h", 5_400_000),
            ("90 s", 90_000),
            ("200 ms", 200),
            ("1 h 30 min", 5_400_000),
            ("1h30min", 5_400_000),
            ("2 d", 172_800_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse_duration("1 s 1 min").unwrap_err().problem, UnitProblem::Unordered);
        assert_eq!(parse_duration("10").unwrap_err().problem, UnitProblem::NoUnit);
        assert_eq!(parse_duration("").unwrap_err().problem, UnitProblem::NoNumber);
        assert_eq!(parse_duration("300000 d").unwrap_err().problem, UnitProblem::TooLarge);
        assert!(matches!(parse_duration("0.5 ns").unwrap_err().problem, UnitProblem::NotWhole(_)));
    }

    #[test]
    fn people_read_round_values_exactly_and_others_in_three_digits() {
        for (bytes, text) in [
            (0, "0 B"),
            (1000, "1000 B"),
            (1 << 20, "1 MiB"),
            (3 << 19, "1.5 MiB"),
            (100_000, "97.7 KiB"),
            (1025, "1.00 KiB"),
            ((1 << 20) - 1, "1.00 MiB"),
            (1023 << 10, "1023 KiB"),
            (u64::MAX, "16384 PiB"),
        ] {
            assert_eq!(format_bytes(bytes), text);
        }
        assert_eq!(format_rate(450_000_000), "450 MB/s");
        assert_eq!(format_rate(2_689_900_001), "2.69 GB/s");
        assert_eq!(format_rate(9_995_000_001), "10.0 GB/s");
        assert_eq!(format_count(0), "0");
        assert_eq!(format_count(33_554_432), "33,554,432");
    }

    #[test]
    fn a_duration_reads_as_people_say_it() {
        for (nanos, text) in [
            (0, "0 s"),
            (850_000, "850 µs"),
            (12_345_678_901, "12.3 s"),
            (59_960_000_000, "1 min"),
            (65 * SECOND, "1 min 5 s"),
            (3_599 * SECOND + 600_000_000, "1 h"),
            (5_400 * SECOND, "1 h 30 min"),
            (86_400 * SECOND - 1, "1 d"),
            (100_000 * SECOND, "1 d 4 h"),
        ] {
            assert_eq!(format_duration(Duration::from_nanos(nanos)), text);
        }
    }

    proptest! {
        #[test]
        fn a_round_size_survives_formatting(count in 1_u64..1024, shift in 0_u32..6) {
            let bytes = count << (10 * shift);
            prop_assert_eq!(parse_bytes(&format_bytes(bytes)), Ok(bytes));
        }

        #[test]
        fn a_round_rate_survives_formatting(count in 1_u64..1000, power in 0_u32..6) {
            let rate = count * 1000_u64.pow(power);
            prop_assert_eq!(parse_rate(&format_rate(rate)), Ok(rate));
        }

        #[test]
        fn a_round_duration_survives_formatting(count in 1_u64..60, unit in 0_usize..7, half in 0_u64..60) {
            let (_, size) = TIME[unit];
            let part = if (4..6).contains(&unit) { half * (size / 60) } else { 0 };
            let duration = Duration::from_nanos(count * size + part);
            if !(unit == 5 && count >= 24) {
                prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
            }
        }

        #[test]
        fn any_size_is_formatted_within_half_a_percent(bytes in any::<u64>()) {
            let text = format_bytes(bytes);
            let (number, unit) = text.split_once(' ').unwrap();
            let size = BINARY.iter().find(|(names, _)| names[0] == unit).unwrap().1;
            let approximate = number.parse::<f64>().unwrap() * size as f64;
            prop_assert!((approximate - bytes as f64).abs() <= 0.0051 * bytes as f64, "{} for {}", text, bytes);
        }

        #[test]
        fn no_text_makes_a_parser_panic(text in "\\PC{0,40}|[0-9. ]{0,30}[a-zA-Z/ ]{0,6}") {
            let _ = (parse_bytes(&text), parse_rate(&text), parse_duration(&text));
        }
    }
}
