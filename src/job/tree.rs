//! TOML as a tree whose every key and value remembers where it was written.
//!
//! Why not serde: `flatten`, untagged and internally tagged enums lose spans, one unknown key hides the next, and
//! a value cannot be checked after merging at the place it came from.

use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fault::{Fault, Faults};
use super::source::{Origin, Source, SourceKind};

/// A value and its place.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// What TOML knows.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Bool(bool),
    Datetime,
    Array(Vec<Node>),
    Table(Table),
}

/// Keys in the order written.
pub(crate) type Table = Vec<(Key, Node)>;

/// A key and its place.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) origin: Origin,
}

impl Node {
    /// For messages: `the string "x"`, `the integer 3`, `a table`.
    pub(crate) fn describe(&self) -> String {
        match &self.value {
            Value::Text(text) => format!("the string {text:?}"),
            Value::Integer(number) => format!("the integer {number}"),
            Value::Float(number) => format!("the float {number:?}"),
            Value::Bool(value) => format!("the boolean {value}"),
            Value::Datetime => format!("the date {}", self.origin.text()),
            Value::Array(_) => "an array".into(),
            Value::Table(_) => "a table".into(),
        }
    }

    /// The text as the user typed it, for what is textual: in `--set dataset=2024` nobody means a number.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            Value::Integer(_) | Value::Float(_) | Value::Bool(_) | Value::Datetime
                if self.origin.source.kind == SourceKind::Set =>
            {
                Some(self.origin.text())
            }
            _ => None,
        }
    }

    pub(crate) fn as_table(&self) -> Option<&Table> {
        match &self.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }
}

/// Parses a document. All its syntax errors are reported; its tree is given only where there is none.
pub(crate) fn parse(source: &Arc<Source>) -> Result<Table, Faults> {
    let (document, errors) = DeTable::parse_recoverable(&source.text);
    let mut faults = Faults::new();
    for error in errors {
        faults.push(syntax_fault(source, &error));
    }
    let table = Convert { source, shift: 0 }.table(document.get_ref(), &mut faults);
    faults.or(table)
}

/// Parses `KEY=VALUE` of `--set`: the value as TOML where it is, otherwise as a string. The key is split at
/// dots; the result is nested tables with one leaf.
pub(crate) fn parse_set(argument: &str) -> Result<Table, Faults> {
    let source = Source::new(SourceKind::Set, "--set", argument);
    let whole = Origin::new(&source, 0..argument.len());
    let help = "write --set KEY=VALUE, for example --set engine.io_depth=8";
    let Some(equals) = argument.find('=') else {
        let fault = Fault::new(format!("`--set` has no `=`: found {argument:?}"));
        return Err(fault.at(&whole).help(help).into());
    };
    let key = trimmed(argument, 0..equals);
    let value = trimmed(argument, equals + 1..argument.len());
    if argument[key.clone()].split('.').any(|part| part.trim().is_empty()) {
        let fault = Fault::new(format!("`--set` has no valid key before `=`: found {argument:?}"));
        return Err(fault.at(&whole).help(help).into());
    }
    let mut faults = Faults::new();
    let node = match DeValue::parse(&argument[value.clone()]) {
        Ok(parsed) => Convert { source: &source, shift: value.start }.node(&parsed, &mut faults),
        Err(_) => Node {
            value: Value::Text(argument[value.clone()].to_owned()),
            // Nothing to point at: the whole argument is.
            origin: if value.is_empty() { whole } else { Origin::new(&source, value) },
        },
    };
    let origin = Origin::new(&source, key.clone());
    let mut parts: Vec<&str> =
        argument[key].split('.').map(|part| part.trim().trim_matches(['"', '\''])).collect();
    let last = parts.pop().unwrap_or_default();
    let wrap = |name: &str, node| vec![(Key { name: name.to_owned(), origin: origin.clone() }, node)];
    let table = parts.into_iter().rev().fold(wrap(last, node), |inner, name| {
        wrap(name, Node { value: Value::Table(inner), origin: origin.clone() })
    });
    faults.or(table)
}

fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let part = &text[range.clone()];
    let start = range.start + (part.len() - part.trim_start().len());
    start..start + part.trim().len()
}

fn syntax_fault(source: &Arc<Source>, error: &toml::de::Error) -> Fault {
    let end = source.text.len();
    let span = error.span().unwrap_or(end..end);
    // An error at the end of a line or of the file has an empty span: point at the character there.
    let start = span.start.min(end.saturating_sub(1));
    let origin = Origin::new(source, start..span.end.max(start + 1));
    // The parser's words, less what it expected instead where that does not help a user.
    let message = match error.message() {
        unquoted if unquoted.starts_with(UNQUOTED) && origin.text().trim().is_empty() => "a value is missing",
        unquoted if unquoted.starts_with(UNQUOTED) => UNQUOTED,
        other => other.trim_end_matches(", expected nothing"),
    };
    Fault::new(format!("this is not TOML: {message}")).at(&origin)
}

/// What the parser says of any value that it cannot read.
const UNQUOTED: &str = "string values must be quoted";

/// From the parser's tree, whose spans count from `shift` in the source.
struct Convert<'a> {
    source: &'a Arc<Source>,
    shift: usize,
}

impl Convert<'_> {
    fn origin(&self, span: Range<usize>) -> Origin {
        Origin::new(self.source, span.start + self.shift..span.end + self.shift)
    }

    fn table(&self, table: &DeTable<'_>, faults: &mut Faults) -> Table {
        let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>), faults: &mut Faults| {
            let key: &Spanned<std::borrow::Cow<'_, str>> = key;
            let key = Key { name: key.get_ref().to_string(), origin: self.origin(key.span()) };
            (key, self.node(value, faults))
        };
        table.iter().map(|pair| entry(pair, faults)).collect()
    }

    fn node(&self, node: &Spanned<DeValue<'_>>, faults: &mut Faults) -> Node {
        let origin = self.origin(node.span());
        let value = match node.get_ref() {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(integer) => {
                let parsed = i64::from_str_radix(integer.as_str(), integer.radix());
                Value::Integer(parsed.unwrap_or_else(|_| {
                    faults.push(out_of_range(&origin, "integer", "-2^63 to 2^63 - 1"));
                    0
                }))
            }
            DeValue::Float(float) => {
                // Rust reads an overflowing literal as infinity, which is not what was written.
                let parsed = float.as_str().parse().ok();
                let valid = parsed.filter(|x: &f64| !x.is_infinite() || float.as_str().contains("inf"));
                Value::Float(valid.unwrap_or_else(|| {
                    faults.push(out_of_range(&origin, "float", "about -1.8e308 to 1.8e308"));
                    0.0
                }))
            }
            DeValue::Boolean(value) => Value::Bool(*value),
            DeValue::Datetime(_) => Value::Datetime,
            DeValue::Array(array) => Value::Array(array.iter().map(|item| self.node(item, faults)).collect()),
            DeValue::Table(table) => Value::Table(self.table(table, faults)),
        };
        Node { value, origin }
    }
}

fn out_of_range(origin: &Origin, kind: &str, range: &str) -> Fault {
    Fault::new(format!("the {kind} {} is out of range", origin.text()))
        .at(origin)
        .help(format!("{kind}s go from {range}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_text(text: &str) -> Result<Table, Faults> {
        parse(&Source::new(SourceKind::Text, "test.toml", text))
    }

    #[test]
    fn every_key_and_value_knows_its_place_behind_a_byte_order_mark_and_crlf() {
        let table = parse_text("\u{feff}a.b = 1\r\n[x]\r\ny = [\"é\", {z = 2.5}]\r\n").unwrap();
        assert_eq!(table[0].0.origin.text(), "a");
        let (key, value) = &table[0].1.as_table().unwrap()[0];
        assert_eq!((key.origin.text(), value.origin.text()), ("b", "1"));
        let (_, array) = &table[1].1.as_table().unwrap()[0];
        let Value::Array(items) = &array.value else { panic!("{array:?}") };
        assert_eq!(items[0].origin.text(), "\"é\"");
        assert_eq!(items[1].as_table().unwrap()[0].1.origin.text(), "2.5");
    }

    #[test]
    fn a_set_value_is_toml_where_it_can_be_and_a_string_otherwise() {
        for (argument, value) in [
            ("engine.io_depth=8", "the integer 8"),
            ("engine.io_depth = 8", "the integer 8"),
            ("engine.memory=1 GiB", "the string \"1 GiB\""),
            ("engine.cache=off", "the string \"off\""),
            ("engine.cache=\"off\"", "the string \"off\""),
            ("engine.cache=", "the string \"\""),
            ("storage.devices=[\"/a\"]", "an array"),
        ] {
            let table = parse_set(argument).unwrap();
            let (key, node) = &table[0].1.as_table().unwrap()[0];
            assert_eq!(node.describe(), value, "{argument}");
            assert_eq!(key.origin.text(), argument.split('=').next().unwrap().trim());
        }
        for bad in ["engine.cache", "=3", "engine.=3", ""] {
            assert!(parse_set(bad).is_err(), "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_parsing_or_its_report_panic(text in "[a-z.=\\[\\]{}\"'#0-9 \n\r\té]{0,60}") {
            if let Err(faults) = parse_text(&text) {
                proptest::prop_assert!(faults.to_string().ends_with("fault") || faults.len() > 1);
            }
            let _ = parse_set(&text).map_err(|faults| faults.to_string());
        }
    }
}
