//! Layers of settings, and their merging.
//!
//! A table of a job file becomes a [`Layer`]: the options it sets, each checked against the table of options and
//! typed, with its place. A run is a stack of layers (built-in defaults, data set, job, variant, matrix point,
//! `--set`), and merging is looking an option up from the top. So arrays replace and tables merge, a value is
//! checked once however many runs it takes part in, and its place is never lost.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use super::external::{self, EXTERNAL, EXTERNAL_TABLE};
use super::fault::{Fault, Faults};
use super::file::{NAME_RULE, is_name};
use super::limits;
use super::options::{self, ALGORITHM_NAMES, Kind, OPTIONS, OptionEntry};
use super::source::{Origin, Source, SourceKind};
use super::suggest;
use super::tree::{self, Key, Node, Table, Value};
use crate::units::{UnitError, UnitProblem, format_bytes, parse_bytes, parse_duration, parse_rate};

/// A value of the type that its option takes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Typed {
    Auto,
    Off,
    Bool(bool),
    Count(u64),
    Real(f64),
    Time(Duration),
    Text(String),
    Texts(Vec<String>),
    Choice(&'static str),
    /// It was faulty, which is reported already: checks that need it are left out.
    Invalid,
}

/// An option that a layer sets.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    pub(crate) value: Typed,
    /// Of the value.
    pub(crate) origin: Origin,
    /// Of an array's items.
    pub(crate) items: Vec<Origin>,
}

/// Options set together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layer {
    settings: BTreeMap<&'static str, Setting>,
    /// Tables of algorithms that occur, in the order written, also empty ones.
    pub(crate) algorithms: Vec<(&'static str, Origin)>,
    /// Tables of externals, in the order written.
    pub(crate) externals: Vec<External>,
}

/// A table `[external.NAME]`, whose options are those of `external.NAME`.
#[derive(Debug, Clone)]
pub(crate) struct External {
    pub(crate) name: String,
    /// Of the name.
    pub(crate) origin: Origin,
    pub(crate) layer: Layer,
}

/// Which names a table may hold, for messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    /// How the table is called where it is not a table of options: `[[variant]]`.
    pub(crate) name: &'a str,
    /// Its keys beside the options.
    pub(crate) keys: &'a [&'a str],
    /// The table of options that it stands for: `dataset` for an entry of `datasets.toml`, otherwise empty.
    pub(crate) prefix: &'a str,
}

impl Place<'_> {
    /// An option's name as it is written here: below `[kron-22]` nobody writes `dataset.`.
    fn shown<'p>(&self, path: &'p str) -> &'p str {
        path.strip_prefix(self.prefix).and_then(|rest| rest.strip_prefix('.')).unwrap_or(path)
    }

    /// A table of options as it is written here: `[engine]`, `[kron-22.generate]`.
    fn table(&self, table: &str) -> String {
        match table.strip_prefix(self.prefix) {
            Some("") => self.name.to_owned(),
            Some(rest) if !self.prefix.is_empty() => format!("{}{rest}]", self.name.trim_end_matches(']')),
            _ => format!("[{table}]"),
        }
    }
}

impl Layer {
    /// The built-in defaults.
    pub(crate) fn defaults() -> &'static Self {
        static DEFAULTS: LazyLock<Layer> = LazyLock::new(|| {
            let lines = OPTIONS.iter().filter(|option| !option.default.is_empty());
            let lines: Vec<String> =
                lines.map(|option| format!("{} = {}", option.path, option.default)).collect();
            let source = Source::new(SourceKind::Builtin, "built-in defaults", lines.join("\n"));
            let mut faults = Faults::new();
            let table = tree::parse(&source).expect("the table of options holds TOML, as its test shows");
            Layer::read(&table, Place { name: "", keys: &[], prefix: "" }, &mut faults)
        });
        &DEFAULTS
    }

    /// Reads a table. Whatever is wrong in it becomes a fault, and the rest is still read.
    pub(crate) fn read(table: &Table, place: Place<'_>, faults: &mut Faults) -> Self {
        let mut layer = Self::default();
        layer.read_table(place.prefix, table, place, faults);
        layer
    }

    fn read_table(&mut self, prefix: &str, table: &Table, place: Place<'_>, faults: &mut Faults) {
        for (key, node) in table {
            self.read_entry(prefix, key, node, place, faults);
        }
    }

    /// Reads one key. Its name may be dotted (`"storage.ssds"` of a matrix).
    pub(crate) fn read_entry(
        &mut self,
        prefix: &str,
        key: &Key,
        node: &Node,
        place: Place<'_>,
        faults: &mut Faults,
    ) {
        let path = join(prefix, &key.name);
        if key.name.is_empty() {
            faults.push(
                Fault::new("a key must not be empty").at(&key.origin).help("name an option, or take it out"),
            );
            return;
        }
        // The defaults are of no external, but of the options that all of them have.
        if path == EXTERNAL && key.origin.written() {
            return self.read_externals(node, faults);
        }
        let table = node.as_table().filter(|_| options::is_table(&path));
        if let Some(table) = table {
            self.note_algorithm(&path, &key.origin);
            self.read_table(&path, table, place, faults);
        } else if let Some(option) = options::find(&path) {
            self.note_algorithm(&path, &key.origin);
            self.set(option, key, node, place, faults);
        } else if options::is_table(&path) {
            let keys = options::offered_keys_of(&path).join(", ");
            faults.push(
                Fault::new(format!("`{}` is a table, found {}", place.shown(&path), node.describe()))
                    .at(&node.origin)
                    .help(format!("its keys are: {keys}")),
            );
        } else {
            faults.push(unknown_key(&path, key, place));
        }
    }

    fn read_externals(&mut self, node: &Node, faults: &mut Faults) {
        let Some(tables) = node.as_table() else {
            let fault = Fault::new(format!("`external` is a table of tables, found {}", node.describe()));
            faults.push(fault.at(&node.origin).help("begin each external with a line [external.NAME]"));
            return;
        };
        for (key, node) in tables {
            if !is_name(&key.name) {
                let fault = Fault::new(format!("{:?} is not a valid name", key.name)).at(&key.origin);
                faults.push(fault.help(format!("names are made of {NAME_RULE}")));
                continue;
            }
            let Some(table) = node.as_table() else {
                let message =
                    format!("the external `{}` must be a table, found {}", key.name, node.describe());
                let help = format!("write [external.{}] and its keys below", key.name);
                faults.push(Fault::new(message).at(&node.origin).help(help));
                continue;
            };
            let name = format!("[external.{}]", key.name);
            let place = Place { name: &name, keys: &[], prefix: EXTERNAL_TABLE };
            let layer = Self::read(table, place, faults);
            self.externals.push(External { name: key.name.clone(), origin: key.origin.clone(), layer });
        }
    }

    fn set(
        &mut self,
        option: &'static OptionEntry,
        key: &Key,
        node: &Node,
        place: Place<'_>,
        faults: &mut Faults,
    ) {
        let value = typed(option, key, node, place).unwrap_or_else(|fault| {
            faults.push(fault);
            Typed::Invalid
        });
        let items = match &node.value {
            Value::Array(items) => items.iter().map(|item| item.origin.clone()).collect(),
            _ => Vec::new(),
        };
        let setting = Setting { value, origin: node.origin.clone(), items };
        if self.settings.insert(option.path, setting).is_some() {
            faults.push(Fault::new(format!("`{}` is given twice", place.shown(option.path))).at(&key.origin));
        }
    }

    fn note_algorithm(&mut self, path: &str, origin: &Origin) {
        let name = path.strip_prefix("algorithm.").and_then(|rest| rest.split('.').next());
        let known = name.and_then(|name| ALGORITHM_NAMES.into_iter().find(|known| *known == name));
        if let Some(known) = known.filter(|known| !self.algorithms.iter().any(|(name, _)| name == known)) {
            self.algorithms.push((known, origin.clone()));
        }
    }

    /// An option, if this layer sets it.
    pub(crate) fn get(&self, path: &str) -> Option<&Setting> {
        self.settings.get(path)
    }

    /// All that it sets.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &Setting)> {
        self.settings.iter().map(|(path, setting)| (*path, setting))
    }

    /// What it sets, as a text: layers that set the same options to the same values have the same.
    pub(crate) fn identity(&self) -> String {
        let values: Vec<_> = self.iter().map(|(path, setting)| (path, &setting.value)).collect();
        format!("{values:?}")
    }
}

/// The layers of one run, the strongest last.
#[derive(Debug, Clone)]
pub(crate) struct Layers<'a>(pub(crate) Vec<&'a Layer>);

impl<'a> Layers<'a> {
    /// The strongest setting of an option.
    pub(crate) fn get(&self, path: &str) -> Option<&'a Setting> {
        self.0.iter().rev().find_map(|layer| layer.get(path))
    }

    /// The layers of an external, above the defaults of all.
    pub(crate) fn external(&self, name: &str) -> Self {
        let own = self.0.iter().flat_map(|layer| &layer.externals).filter(|external| external.name == name);
        Self(std::iter::once(Layer::defaults()).chain(own.map(|external| &external.layer)).collect())
    }
}

fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}

fn unknown_key(path: &str, key: &Key, place: Place<'_>) -> Fault {
    // The deepest table on the way is where the user went wrong.
    let mut table = String::new();
    let mut name = path;
    while let Some((first, rest)) = name.split_once('.') {
        let deeper = join(&table, first);
        if !options::is_table(&deeper) {
            break;
        }
        (table, name) = (deeper, rest);
    }
    let name = name.split('.').next().unwrap_or(name);
    let top = table == place.prefix;
    let mut known = options::keys_of(&table);
    let mut offered = options::offered_keys_of(&table);
    if top {
        known.extend(place.keys);
        // `algorithm` is a key of an exclude, and a table of options.
        offered.retain(|key| !place.keys.contains(key));
        offered.extend(place.keys);
    }
    let help =
        suggest::did_you_mean(name, known.iter().copied()).or_else(|| elsewhere(name)).unwrap_or_else(|| {
            match offered.as_slice() {
                [] => "it has no keys".to_owned(),
                offered => format!("known here: {}", offered.join(", ")),
            }
        });
    Fault::new(format!("unknown key `{name}` in {}", place.table(&table))).at(&key.origin).help(help)
}

/// Where a key belongs that is right but misplaced.
fn elsewhere(name: &str) -> Option<String> {
    let found = OPTIONS.iter().find_map(|option| {
        let (table, last) = option.path.rsplit_once('.')?;
        (last == name).then_some(table)
    });
    found.map(|table| format!("`{name}` belongs in [{table}]"))
}

/// Why a value does not fit.
enum Misfit {
    /// The kind is wrong.
    Kind,
    /// The kind is right; this follows the option's name.
    Value { says: String, help: Option<String> },
    /// The job format has it, this version does not.
    Later { help: String },
}

fn typed(option: &'static OptionEntry, key: &Key, node: &Node, place: Place<'_>) -> Result<Typed, Fault> {
    let path = place.shown(option.path);
    convert(&option.kind, node).map_err(|misfit| match misfit {
        Misfit::Kind => {
            let help = node.as_text().and_then(|text| suggest::did_you_mean(text, words(&option.kind)));
            Fault::new(format!("`{path}` must be {}, found {}", option.kind.expected(), node.describe()))
                .at(&node.origin)
                .maybe_help(help)
        }
        Misfit::Value { says, help } => {
            Fault::new(format!("`{path}` {says}")).at(&node.origin).maybe_help(help)
        }
        Misfit::Later { help } if matches!(option.kind, Kind::Later(_)) => {
            Fault::new(format!("`{path}` is not available in this version of ioc")).at(&key.origin).help(help)
        }
        Misfit::Later { help } => {
            let found = node.origin.text();
            Fault::new(format!("`{path} = {found}` is not available in this version of ioc"))
                .at(&node.origin)
                .help(help)
        }
    })
}

/// The words that a kind takes, for suggestions.
fn words(kind: &Kind) -> Vec<&'static str> {
    match kind {
        Kind::Choice { names, .. } => names.to_vec(),
        Kind::Auto(kind) => [vec!["auto"], words(kind)].concat(),
        Kind::Off(kind) => [vec!["off"], words(kind)].concat(),
        _ => Vec::new(),
    }
}

fn convert(kind: &Kind, node: &Node) -> Result<Typed, Misfit> {
    match kind {
        Kind::Bool => match &node.value {
            Value::Bool(value) => Ok(Typed::Bool(*value)),
            _ => Err(Misfit::Kind),
        },
        Kind::OnlyFalse => match &node.value {
            Value::Bool(false) => Ok(Typed::Bool(false)),
            Value::Bool(true) => Err(Misfit::Later { help: "available: false".into() }),
            _ => Err(Misfit::Kind),
        },
        Kind::Text | Kind::Dataset | Kind::Path => non_empty_text(node).map(Typed::Text),
        Kind::Paths => texts(kind, node, non_empty_text),
        Kind::Words => words_of(kind, node),
        Kind::TimeRegex => {
            let text = non_empty_text(node)?;
            let wrong = |why| value(format!("must be {}: {why}", kind.expected()));
            external::time_regex(&text).map_err(wrong)?;
            Ok(Typed::Text(text))
        }
        Kind::Count { min, max } => match node.value {
            Value::Integer(number) => in_range(number, *min, *max),
            _ => Err(Misfit::Kind),
        },
        Kind::Bytes { multiple } => bytes(kind, node, *multiple),
        Kind::Rate => quantity(kind, node, parse_rate).and_then(positive).map(Typed::Count),
        Kind::Duration => quantity(kind, node, parse_duration).and_then(positive).map(Typed::Time),
        Kind::Fraction => real(node, |x| (0.0..1.0).contains(&x)),
        Kind::Positive => real(node, |x| x > 0.0 && x.is_finite()),
        Kind::Sha256 => {
            let text = node.as_text().ok_or(Misfit::Kind)?;
            let valid = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            if valid { Ok(Typed::Text(text.to_ascii_lowercase())) } else { Err(Misfit::Kind) }
        }
        Kind::OneOrPath => match &node.value {
            Value::Integer(1) => Ok(Typed::Count(1)),
            Value::Text(_) => non_empty_text(node).map(Typed::Text),
            _ => Err(Misfit::Kind),
        },
        Kind::Choice { names, later } => {
            let text = node.as_text().ok_or(Misfit::Kind)?;
            match names.iter().find(|name| **name == text) {
                Some(name) => Ok(Typed::Choice(name)),
                None if later.contains(&text) => {
                    Err(Misfit::Later { help: format!("available: {}", options::one_of(names)) })
                }
                None => Err(Misfit::Kind),
            }
        }
        Kind::Auto(_) if node.as_text() == Some("auto") => Ok(Typed::Auto),
        Kind::Off(_) if node.as_text() == Some("off") => Ok(Typed::Off),
        Kind::Auto(kind) | Kind::Off(kind) => convert(kind, node),
        // As a table it is not a value.
        Kind::Empty => Err(Misfit::Kind),
        Kind::Later(help) => Err(Misfit::Later { help: (*help).into() }),
    }
}

fn value(says: impl Into<String>) -> Misfit {
    Misfit::Value { says: says.into(), help: None }
}

fn non_empty_text(node: &Node) -> Result<String, Misfit> {
    match node.as_text() {
        Some("") => Err(value("must not be empty")),
        Some(text) if text.contains('\0') => Err(value("must not contain a zero character")),
        Some(text) => Ok(text.to_owned()),
        None => Err(Misfit::Kind),
    }
}

/// A command, whose first word is a program; others may be empty.
fn words_of(kind: &Kind, node: &Node) -> Result<Typed, Misfit> {
    let words = texts(kind, node, |word| match word.as_text() {
        Some(text) if text.contains('\0') => Err(value("must not contain a zero character")),
        Some(text) => Ok(text.to_owned()),
        None => Err(Misfit::Kind),
    })?;
    match &words {
        Typed::Texts(words) if words.first().is_none_or(String::is_empty) => {
            Err(value("must begin with a program"))
        }
        _ => Ok(words),
    }
}

fn texts(kind: &Kind, node: &Node, text: impl Fn(&Node) -> Result<String, Misfit>) -> Result<Typed, Misfit> {
    let Value::Array(items) = &node.value else { return Err(Misfit::Kind) };
    let item = |item: &Node| {
        text(item).map_err(|misfit| match misfit {
            Misfit::Kind => value(format!("must be {}, found {} in it", kind.expected(), item.describe())),
            other => other,
        })
    };
    items.iter().map(item).collect::<Result<_, _>>().map(Typed::Texts)
}

/// A number with a unit.
fn quantity<T>(kind: &Kind, node: &Node, parse: impl Fn(&str) -> Result<T, UnitError>) -> Result<T, Misfit> {
    parse(node.as_text().ok_or(Misfit::Kind)?).map_err(|error| {
        let help = match &error.problem {
            UnitProblem::UnknownUnit(unit, known) => suggest::did_you_mean(unit, known.split(", ")),
            _ => None,
        };
        let says = format!("must be {}, found {:?}: {}", kind.expected(), error.found, error.problem);
        Misfit::Value { says, help }
    })
}

fn positive<T: Default + PartialEq>(number: T) -> Result<T, Misfit> {
    if number == T::default() { Err(value("must be above zero")) } else { Ok(number) }
}

fn in_range(number: i64, min: u64, max: u64) -> Result<Typed, Misfit> {
    match u64::try_from(number) {
        Ok(count) if (min..=max).contains(&count) => Ok(Typed::Count(count)),
        _ => Err(Misfit::Kind),
    }
}

fn real(node: &Node, valid: impl Fn(f64) -> bool) -> Result<Typed, Misfit> {
    let number = match node.value {
        Value::Float(number) => number,
        // Exact below 2^53, and no option takes numbers near that.
        Value::Integer(number) => number as f64,
        _ => return Err(Misfit::Kind),
    };
    // Adding zero turns -0.0 into 0.0, which would otherwise be another run.
    if valid(number) { Ok(Typed::Real(number + 0.0)) } else { Err(Misfit::Kind) }
}

fn bytes(kind: &Kind, node: &Node, multiple: u64) -> Result<Typed, Misfit> {
    let bytes = match node.value {
        Value::Integer(number) => u64::try_from(number).map_err(|_| value("must not be negative"))?,
        _ => quantity(kind, node, parse_bytes)?,
    };
    let bytes =
        limits::size(bytes).map_err(|most| value(format!("must be {most}, found {}", node.origin.text())))?;
    if bytes.is_multiple_of(multiple) {
        return Ok(Typed::Count(bytes));
    }
    let below = bytes / multiple * multiple;
    let near: Vec<String> = [Some(below).filter(|n| *n > 0), below.checked_add(multiple)]
        .into_iter()
        .flatten()
        .map(format_bytes)
        .collect();
    Err(Misfit::Value {
        says: format!(
            "must be a multiple of {}, the chunk of the grid's format, found {}",
            format_bytes(multiple),
            node.origin.text()
        ),
        help: Some(format!("the nearest: {}", near.join(" and "))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_valid_for_its_option_and_listed_once() {
        let defaults = Layer::defaults();
        for option in OPTIONS {
            let same = OPTIONS.iter().filter(|other| other.path == option.path).count();
            assert_eq!(same, 1, "{}", option.path);
            let value = defaults.get(option.path).map(|setting| &setting.value);
            assert_eq!(value.is_some(), !option.default.is_empty(), "{}", option.path);
            assert_ne!(value, Some(&Typed::Invalid), "{}", option.path);
        }
    }
}
