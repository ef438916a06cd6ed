//! Measured figures for people: three significant digits and a unit. Reports hold exact ones; sizes that somebody
//! chose are written by [`super::format_bytes`].

/// Three significant digits where there is a fraction; whole numbers entire: `0.0123`, `4.21`, `812`, `12346`.
pub(crate) fn digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    // The exponent after rounding: 9.996 is shown as 10.0, not as 10.00.
    let scientific = format!("{value:.2e}");
    let exponent = scientific.rsplit('e').next().and_then(|text| text.parse::<i32>().ok());
    match exponent {
        Some(exponent @ -4..9) => format!("{value:.*}", (2 - exponent).max(0) as usize),
        _ => scientific,
    }
}

/// A count: `554 M`, `1.20 G`.
pub(crate) fn count(value: f64) -> String {
    scaled(value, ["", " k", " M", " G", " T"])
}

/// Bytes as disks are given: `812 MB`.
pub(crate) fn decimal(bytes: f64) -> String {
    scaled(bytes, [" B", " kB", " MB", " GB", " TB"])
}

/// In units that are thousands of each other.
fn scaled(value: f64, units: [&str; 5]) -> String {
    let mut value = value;
    let mut unit = 0;
    // 999.7 would be shown as 1000: it already is 1.00 of the next unit.
    while value.abs() >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let whole = value.fract() == 0.0 || unit == 0;
    let figure = if whole { format!("{value:.0}") } else { digits(value) };
    figure + units[unit]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        let shown = [0.0, 0.012_34, 4.206, 42.06, 812.4, 12_345.6, 1e-9, 2.5e12].map(digits);
        assert_eq!(shown, ["0", "0.0123", "4.21", "42.1", "812", "12346", "1.00e-9", "2.50e12"]);
    }

    #[test]
    fn units_are_chosen_after_rounding() {
        assert_eq!(
            [7.0, 999.4, 999.6, 554.2e6, 999.9e6, 1.2e9].map(count),
            ["7", "999", "1.00 k", "554 M", "1.00 G", "1.20 G"]
        );
        assert_eq!([812e6, 1.5e3].map(decimal), ["812 MB", "1.50 kB"]);
    }
}
