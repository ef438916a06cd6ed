//! One cell of a CSV: how a value becomes text and text a value again. An empty cell means *not measured*, so a
//! number that is none (NaN, an infinity) becomes empty and never reaches a spreadsheet as a word or a zero.
//!
//! Text is made harmless: control characters (line breaks above all) become blanks, and a text that a spreadsheet
//! would evaluate as a formula gets a leading apostrophe, which reading takes off again. Numbers stay bare.

use std::fmt;
use std::time::Duration;

/// A type that a column can hold.
pub trait Cell: Sized {
    /// Name of the type in `docs/report.md`.
    const KIND: &'static str;
    /// The cell's text, before CSV quoting.
    fn write(&self) -> String;
    /// The value of a cell's text; the error says what was expected.
    fn read(cell: &str) -> Result<Self, &'static str>;
}

impl<T: Cell> Cell for Option<T> {
    const KIND: &'static str = T::KIND;

    fn write(&self) -> String {
        self.as_ref().map(T::write).unwrap_or_default()
    }

    fn read(cell: &str) -> Result<Self, &'static str> {
        if cell.is_empty() { Ok(None) } else { T::read(cell).map(Some) }
    }
}

macro_rules! integer_cell {
    ($type:ty) => {
        impl Cell for $type {
            const KIND: &'static str = "count";

            fn write(&self) -> String {
                self.to_string()
            }

            fn read(cell: &str) -> Result<Self, &'static str> {
                cell.parse().map_err(|_| "a whole number")
            }
        }
    };
}
integer_cell!(u32);
integer_cell!(u64);

impl Cell for bool {
    const KIND: &'static str = "true/false";

    fn write(&self) -> String {
        self.to_string()
    }

    fn read(cell: &str) -> Result<Self, &'static str> {
        cell.parse().map_err(|_| "true or false")
    }
}

impl Cell for f64 {
    const KIND: &'static str = "number";

    fn write(&self) -> String {
        let mut text = Vec::with_capacity(24);
        push_number(&mut text, *self);
        String::from_utf8(text).unwrap_or_default()
    }

    fn read(cell: &str) -> Result<Self, &'static str> {
        finite(cell).ok_or("a number")
    }
}

fn finite(cell: &str) -> Option<f64> {
    cell.parse().ok().filter(|value: &f64| value.is_finite())
}

/// Appends the shortest decimal text that reads back as the same f64, with an exponent where there would be many
/// zeros (`1e-7`), and without a useless `.0`; nothing where the value is not finite.
pub(super) fn push_number(text: &mut Vec<u8>, value: f64) {
    if !value.is_finite() {
        return;
    }
    serde_json::to_writer(&mut *text, &value)
        .expect("a finite number is valid JSON and a Vec takes every byte");
    if text.ends_with(b".0") {
        text.truncate(text.len() - 2);
    }
}

/// Appends a whole number.
pub(super) fn push_count(text: &mut Vec<u8>, value: u64) {
    serde_json::to_writer(text, &value).expect("a whole number is valid JSON and a Vec takes every byte");
}

/// Seconds, written with 9 decimals.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Seconds(pub f64);

impl From<Duration> for Seconds {
    fn from(duration: Duration) -> Self {
        Self(duration.as_secs_f64())
    }
}

impl Cell for Seconds {
    const KIND: &'static str = "seconds";

    fn write(&self) -> String {
        if !self.0.is_finite() {
            return String::new();
        }
        let text = format!("{:.9}", self.0);
        if text == "-0.000000000" { text[1..].to_owned() } else { text }
    }

    fn read(cell: &str) -> Result<Self, &'static str> {
        finite(cell).map(Self).ok_or("seconds")
    }
}

/// A 64-bit checksum, written as `x` and 16 hexadecimal digits: the letter keeps spreadsheets from reading
/// `123e4567...` as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub u64);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "x{:016x}", self.0)
    }
}

impl Cell for Digest {
    const KIND: &'static str = "digest";

    fn write(&self) -> String {
        self.to_string()
    }

    fn read(cell: &str) -> Result<Self, &'static str> {
        let hex = cell.strip_prefix('x').filter(|hex| hex.len() == 16 && !hex.starts_with('+'));
        hex.and_then(|hex| u64::from_str_radix(hex, 16).ok()).map(Self).ok_or("`x` and 16 hexadecimal digits")
    }
}

/// What makes a spreadsheet evaluate a cell; the wide forms count in East Asian locales. Tabs and carriage returns
/// would too, but are blanks by then.
const FORMULA: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

impl Cell for String {
    const KIND: &'static str = "text";

    fn write(&self) -> String {
        let flat = flatten(self);
        if starts_formula(&flat) { format!("'{flat}") } else { flat }
    }

    fn read(cell: &str) -> Result<Self, &'static str> {
        match cell.strip_prefix('\'') {
            _ if cell.is_empty() => Err("a text"),
            Some(rest) if starts_formula(rest) => Ok(rest.to_owned()),
            _ => Ok(cell.to_owned()),
        }
    }
}

/// Apostrophes before the dangerous character do not count, so that taking one off undoes exactly what writing did,
/// even for a text that had apostrophes of its own.
fn starts_formula(text: &str) -> bool {
    text.trim_start_matches('\'').starts_with(FORMULA)
}

/// One line without control characters, each run of which becomes a blank.
fn flatten(text: &str) -> String {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let parts: Vec<&str> = text.split(breaks).map(str::trim).filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

macro_rules! word_cell {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub enum $name { $($(#[$doc])* $variant,)+ }

        impl $name {
            /// The word in the cell.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl Cell for $name {
            const KIND: &'static str = "word";

            fn write(&self) -> String {
                self.as_str().to_owned()
            }

            fn read(cell: &str) -> Result<Self, &'static str> {
                match cell {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(concat!("one of" $(, " ", $word)+)),
                }
            }
        }
    };
}

word_cell! {
    /// What a repetition is for. Warm-ups sort before measured repetitions.
    Phase {
        /// It does not count.
        Warmup = "warmup",
        /// It counts.
        #[default]
        Measured = "measured",
    }
}

word_cell! {
    /// How an attempt ended.
    Status {
        /// It finished, and its figures stand.
        Ok = "ok",
        /// It did not finish, or its answer is wrong: see `error`. The state of a row nobody has filled in yet, since
        /// a process that dies cannot say so.
        #[default]
        Failed = "failed",
        /// The user or the system stopped it.
        Interrupted = "interrupted",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn formulas_are_defused_and_numbers_are_not() {
        for text in ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n\n@x", " =1", "'=1", "''-1", "＝1"] {
            let cell = text.to_owned().write();
            assert!(cell.starts_with('\''), "{text:?} became {cell:?}");
            assert!(!cell.contains(['\t', '\r', '\n']), "{text:?} became {cell:?}");
        }
        assert_eq!((-1.5f64).write(), "-1.5");
        assert_eq!(Seconds(-1.5).write(), "-1.500000000");
    }

    #[test]
    fn harmless_text_stays_as_it_is() {
        for text in ["kron-22", "'tis", "a=b", "x - y", "naïve 图", "\"quoted\", with comma"] {
            assert_eq!(text.to_owned().write(), text);
        }
    }

    #[test]
    fn line_breaks_in_errors_become_blanks() {
        let text = "first\r\n  second\n\nthird\u{2028}fourth\0".to_owned();
        assert_eq!(text.write(), "first second third fourth");
    }

    #[test]
    fn what_is_no_number_is_empty() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(value.write(), "");
            assert_eq!(Seconds(value).write(), "");
            assert_eq!(Some(value).write(), "");
        }
        for cell in ["NaN", "nan", "inf", "-infinity", "1e999"] {
            assert!(f64::read(cell).is_err(), "{cell}");
            assert!(Seconds::read(cell).is_err(), "{cell}");
        }
    }

    #[test]
    fn digests_start_with_a_letter_and_keep_their_zeros() {
        assert_eq!(Digest(0x0123_e456_7000_0000).write(), "x0123e45670000000");
        assert_eq!(Digest::read("x0000000000000001"), Ok(Digest(1)));
        for cell in ["0000000000000001", "x1", "x+000000000000001", "x000000000000000g"] {
            assert!(Digest::read(cell).is_err(), "{cell}");
        }
    }

    #[test]
    fn seconds_have_nine_decimals_and_no_negative_zero() {
        assert_eq!(Seconds(0.25).write(), "0.250000000");
        assert_eq!(Seconds::from(Duration::from_nanos(1)).write(), "0.000000001");
        assert_eq!(Seconds(-1e-12).write(), "0.000000000");
    }

    proptest! {
        #[test]
        fn any_number_reads_back_bit_for_bit_and_stays_short(bits: u64) {
            let value = f64::from_bits(bits);
            let cell = value.write();
            prop_assert!(cell.len() <= 25, "{cell}");
            if value.is_finite() {
                prop_assert_eq!(f64::read(&cell).map(f64::to_bits), Ok(bits));
            } else {
                prop_assert_eq!(cell, "");
            }
        }

        #[test]
        fn any_text_reads_back_as_its_own_single_line(text in "['=+@\\-\\t\\r\\n a-c\"，＝]{0,12}") {
            let cell = text.write();
            let flat = flatten(&text);
            prop_assert!(!cell.starts_with(FORMULA));
            if flat.is_empty() {
                prop_assert_eq!(cell, "");
            } else {
                prop_assert_eq!(String::read(&cell), Ok(flat));
            }
        }
    }
}
