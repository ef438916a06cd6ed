//! A job file as written: its name, its settings, its variants, its matrix, each with places. What it means is
//! found by [`super::expand`].

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::external::EXTERNAL;
use super::fault::{Fault, Faults};
use super::layer::{External, Layer, Place};
use super::options;
use super::source::{Origin, Source};
use super::suggest;
use super::tree::{self, Key, Node, Table, Value};

/// What names of jobs, variants and data sets look like.
pub(crate) const NAME_RULE: &str = "letters, digits, `.`, `_` and `-`, beginning with a letter or digit";

/// Whether a text is a name by [`NAME_RULE`]: names become parts of paths.
pub(crate) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}

/// A job, as written.
#[derive(Debug)]
pub(crate) struct JobFile {
    pub(crate) source: Arc<Source>,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) base: Layer,
    /// At least one: a job without variants has one that has no name and sets nothing.
    pub(crate) variants: Vec<Variant>,
    /// In the order written.
    pub(crate) axes: Vec<Axis>,
    pub(crate) excludes: Vec<Exclude>,
    /// Something in it is wrong, so that what seems to be missing may only be misspelt.
    pub(crate) flawed: bool,
}

/// A named set of overrides.
#[derive(Debug, Default)]
pub(crate) struct Variant {
    pub(crate) name: String,
    pub(crate) layer: Layer,
}

/// An axis of the matrix: its values one by one, as the layers that they are.
#[derive(Debug)]
pub(crate) struct Axis {
    pub(crate) path: String,
    pub(crate) values: Vec<Layer>,
    pub(crate) origin: Origin,
}

impl Axis {
    /// The algorithm that alone it belongs to.
    pub(crate) fn algorithm(&self) -> Option<&str> {
        self.path.strip_prefix("algorithm.").map(|rest| rest.split('.').next().unwrap_or(rest))
    }
}

/// Points that are left out: those on which all that it names agrees.
#[derive(Debug)]
pub(crate) struct Exclude {
    pub(crate) variant: Option<String>,
    pub(crate) algorithm: Option<String>,
    pub(crate) settings: Layer,
    pub(crate) origin: Origin,
}

impl JobFile {
    /// Reads a job. Nothing is given where it is not TOML or has no valid name; other faults leave gaps.
    pub(crate) fn read(source: &Arc<Source>, default_name: &str, faults: &mut Faults) -> Option<Self> {
        let table = tree::parse(source).map_err(|syntax| faults.append(syntax)).ok()?;
        let before = faults.len();
        let mut reader = Reader {
            table: &table,
            source,
            faults,
            name: None,
            description: None,
            axes: Vec::new(),
            excludes: Vec::new(),
        };
        let (base, variants) = reader.settings_and_variants();
        reader.external_names(&base, &variants);
        reader.matrix(&base, &variants);
        let name = reader.job_name(default_name);
        let description = reader.description.take().unwrap_or_default();
        let (axes, excludes) = (std::mem::take(&mut reader.axes), std::mem::take(&mut reader.excludes));
        let flawed = faults.len() > before;
        Some(Self {
            source: Arc::clone(source),
            name: name?,
            description,
            base,
            variants,
            axes,
            excludes,
            flawed,
        })
    }
}

/// Keys of a job beside the options.
const JOB_KEYS: &[&str] = &["name", "description", "matrix", "variant"];
const JOB: Place<'_> = Place { name: "the job", keys: JOB_KEYS, prefix: "" };
const VARIANT: Place<'_> = Place { name: "[[variant]]", keys: &["name"], prefix: "" };
const MATRIX: Place<'_> = Place { name: "[matrix]", keys: &["exclude"], prefix: "" };
const EXCLUDE: Place<'_> =
    Place { name: "an entry of `exclude`", keys: &["variant", "algorithm"], prefix: "" };

struct Reader<'a> {
    table: &'a Table,
    source: &'a Arc<Source>,
    faults: &'a mut Faults,
    name: Option<&'a Node>,
    description: Option<String>,
    axes: Vec<Axis>,
    excludes: Vec<Exclude>,
}

impl Reader<'_> {
    fn settings_and_variants(&mut self) -> (Layer, Vec<Variant>) {
        let mut base = Layer::default();
        let mut variants = Vec::new();
        for (key, node) in self.table {
            match key.name.as_str() {
                "name" => self.name = Some(node),
                "description" => self.description = self.text(node, "description"),
                "variant" => variants = self.variants(node),
                "matrix" => {}
                _ => base.read_entry("", key, node, JOB, self.faults),
            }
        }
        if variants.is_empty() {
            variants.push(Variant::default());
        }
        (base, variants)
    }

    fn text(&mut self, node: &Node, what: &str) -> Option<String> {
        let Value::Text(text) = &node.value else {
            let message = format!("`{what}` must be a string, found {}", node.describe());
            self.faults.push(Fault::new(message).at(&node.origin));
            return None;
        };
        Some(text.clone())
    }

    /// A text that is a name.
    fn name_of(&mut self, node: &Node, what: &str) -> Option<String> {
        let name = self.text(node, what)?;
        if is_name(&name) {
            return Some(name);
        }
        let message = format!("{name:?} is not a valid name");
        self.faults.push(Fault::new(message).at(&node.origin).help(format!("names are made of {NAME_RULE}")));
        None
    }

    fn job_name(&mut self, default: &str) -> Option<String> {
        if let Some(node) = self.name {
            return self.name_of(node, "name");
        }
        if is_name(default) {
            return Some(default.to_owned());
        }
        let fault = Fault::new(format!("the file's name {default:?} is not a valid name for its job"));
        let help = format!("give the job a `name` made of {NAME_RULE}");
        self.faults.push(fault.at_source(self.source).help(help));
        None
    }

    fn variants(&mut self, node: &Node) -> Vec<Variant> {
        let Some(tables) = tables(node) else {
            let message = format!("`variant` must be an array of tables, found {}", node.describe());
            let help = "begin each variant with a line [[variant]]";
            self.faults.push(Fault::new(message).at(&node.origin).help(help));
            return Vec::new();
        };
        let mut variants: Vec<Variant> = Vec::new();
        for (table, origin) in tables {
            if let Some(variant) = self.variant(table, origin, &variants) {
                variants.push(variant);
            }
        }
        variants
    }

    fn variant(&mut self, table: &Table, origin: &Origin, others: &[Variant]) -> Option<Variant> {
        let mut layer = Layer::default();
        let mut named = None;
        for (key, node) in table {
            match key.name.as_str() {
                "name" => named = Some(node),
                _ => layer.read_entry("", key, node, VARIANT, self.faults),
            }
        }
        let Some(named) = named else {
            let fault = Fault::new("the variant has no `name`").at(origin);
            self.faults
                .push(fault.help("add for example name = \"sync\": reports tell variants apart by it"));
            return None;
        };
        let name = self.name_of(named, "name")?;
        if others.iter().any(|other| other.name == name) {
            let fault = Fault::new(format!("two variants have the name `{name}`")).at(&named.origin);
            self.faults.push(fault.help("reports tell variants apart by their names"));
            return None;
        }
        Some(Variant { name, layer })
    }

    /// In reports the name of an external stands where that of a variant does.
    fn external_names(&mut self, base: &Layer, variants: &[Variant]) {
        let layers = std::iter::once(base).chain(variants.iter().map(|variant| &variant.layer));
        for External { name, origin, .. } in layers.flat_map(|layer| &layer.externals) {
            if variants.iter().any(|variant| variant.name == *name) {
                let message = format!("a variant and an external have the name `{name}`");
                let help = "rename one: reports tell them apart by their names, in one column";
                self.faults.push(Fault::new(message).at(origin).help(help));
            }
        }
    }

    fn matrix(&mut self, base: &Layer, variants: &[Variant]) {
        let Some((_, node)) = self.table.iter().find(|(key, _)| key.name == "matrix") else { return };
        let Some(table) = node.as_table() else {
            let message = format!("`matrix` must be a table, found {}", node.describe());
            let help = "each key is an option and its value an array: \"storage.ssds\" = [1, 2]";
            self.faults.push(Fault::new(message).at(&node.origin).help(help));
            return;
        };
        self.axes_below("", table);
        // `storage.ssds` and `storage.stripe`, unquoted, sit in one table whatever was written between them.
        self.axes.sort_by_key(|axis| axis.origin.span.start);
        self.overlaps();
        if let Some((_, node)) = table.iter().find(|(key, _)| key.name == "exclude") {
            self.excludes(node, base, variants);
        }
    }

    fn axes_below(&mut self, prefix: &str, table: &Table) {
        for (key, node) in table {
            let path = if prefix.is_empty() { key.name.clone() } else { format!("{prefix}.{}", key.name) };
            match &node.value {
                _ if path == "exclude" => {}
                _ if path.split('.').next() == Some(EXTERNAL) => self.no_external_axis(key),
                Value::Table(inner) if options::is_table(&path) => self.axes_below(&path, inner),
                Value::Array(values) if path != "algorithm" => self.axis(prefix, &path, key, node, values),
                _ => self.no_axis(prefix, &path, key, node),
            }
        }
    }

    fn no_external_axis(&mut self, key: &Key) {
        let fault = Fault::new("an external cannot be varied by [matrix]").at(&key.origin);
        let help = "write a table [external.NAME] for each, or use placeholders such as {threads} in its words: it is \
                    run for each value of the axes that it so uses";
        self.faults.push(fault.help(help));
    }

    /// What is wrong with an entry of the matrix that is no array, beginning with its name.
    fn no_axis(&mut self, prefix: &str, path: &str, key: &Key, node: &Node) {
        if path == "algorithm" {
            let fault = Fault::new("`algorithm` cannot be an axis of the matrix").at(&key.origin);
            self.faults.push(fault.help("several [algorithm.*] tables are one already"));
        } else if options::find(path).is_none() && !options::is_table(path) {
            Layer::default().read_entry(prefix, key, node, MATRIX, self.faults);
        } else {
            let message = format!("`{path}` in [matrix] must be an array, found {}", node.describe());
            let help = match &node.value {
                Value::Table(_) => format!("write [matrix] {path} = [{{ .. }}, {{ .. }}]"),
                _ => format!("write \"{path}\" = [{}], or set it outside of the matrix", node.origin.text()),
            };
            self.faults.push(Fault::new(message).at(&node.origin).help(help));
        }
    }

    fn axis(&mut self, prefix: &str, path: &str, key: &Key, node: &Node, values: &[Node]) {
        if values.is_empty() {
            let fault = Fault::new(format!("the axis `{path}` has no values, so the job would have no runs"));
            self.faults.push(fault.at(&node.origin).help("give it values, or take it out"));
            return;
        }
        let mut layers: Vec<Layer> = Vec::new();
        let mut known = HashSet::new();
        for value in values {
            let before = self.faults.len();
            let mut layer = Layer::default();
            layer.read_entry(prefix, key, value, MATRIX, self.faults);
            if self.faults.len() > before && options::find(path).is_none() && !options::is_table(path) {
                // An unknown name is one fault, not one per value.
                return;
            }
            if self.faults.len() == before && !known.insert(layer.identity()) {
                let found = value.origin.text();
                let fault = Fault::new(format!("the axis `{path}` has the value {found} twice"));
                self.faults.push(fault.at(&value.origin).help("take one out: both would be the same run"));
            }
            layers.push(layer);
        }
        self.axes.push(Axis { path: path.to_owned(), values: layers, origin: key.origin.clone() });
    }

    /// Two axes that set one option: the second would silently undo the first.
    fn overlaps(&mut self) {
        let mut known = HashSet::new();
        for axis in &self.axes {
            let options = axis.values.iter().flat_map(Layer::iter).map(|(path, _)| path);
            for path in options.collect::<BTreeSet<_>>() {
                if !known.insert(path) {
                    let fault = Fault::new(format!("two axes of the matrix set `{path}`"));
                    self.faults.push(fault.at(&axis.origin).help("keep one of them"));
                }
            }
        }
    }

    fn excludes(&mut self, node: &Node, base: &Layer, variants: &[Variant]) {
        let Some(tables) = tables(node) else {
            let message = format!("`exclude` must be an array of tables, found {}", node.describe());
            let help = "write exclude = [{ variant = \"sync\", \"storage.ssds\" = 5 }]";
            self.faults.push(Fault::new(message).at(&node.origin).help(help));
            return;
        };
        for (table, origin) in tables {
            let mut exclude = Exclude {
                variant: None,
                algorithm: None,
                settings: Layer::default(),
                origin: origin.clone(),
            };
            if table.is_empty() {
                let fault = Fault::new("an empty entry of `exclude` would leave out every run");
                self.faults.push(fault.at(origin).help("name what is to be left out, or take the entry out"));
            }
            for (key, node) in table {
                match (key.name.as_str(), &node.value) {
                    ("variant", _) => exclude.variant = self.variant_name(node, base, variants),
                    (EXTERNAL, _) => {
                        let fault = Fault::new("`external` cannot be named in `exclude`").at(&key.origin);
                        self.faults
                            .push(fault.help("an external is excluded by its name: variant = \"NAME\""));
                    }
                    ("algorithm", Value::Text(name)) => {
                        self.check_algorithm(node, name);
                        exclude.algorithm = Some(name.clone());
                    }
                    _ => exclude.settings.read_entry("", key, node, EXCLUDE, self.faults),
                }
            }
            self.excludes.push(exclude);
        }
    }

    fn variant_name(&mut self, node: &Node, base: &Layer, variants: &[Variant]) -> Option<String> {
        let name = self.text(node, "variant")?;
        let externals = variants.iter().flat_map(|variant| &variant.layer.externals).chain(&base.externals);
        let mut names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        names.extend(externals.map(|external| external.name.as_str()));
        if !names.contains(&name.as_str()) {
            let help = match suggest::did_you_mean(&name, names.iter().copied()) {
                Some(help) => help,
                None if names == [""] => "the job has no variants".into(),
                None => format!("the job's variants: {}", names.join(", ")),
            };
            self.faults
                .push(Fault::new(format!("no variant is called {name:?}")).at(&node.origin).help(help));
        }
        Some(name)
    }

    fn check_algorithm(&mut self, node: &Node, name: &str) {
        let names = options::ALGORITHM_NAMES;
        if !names.contains(&name) {
            let help =
                suggest::did_you_mean(name, names).unwrap_or_else(|| format!("known: {}", names.join(", ")));
            self.faults
                .push(Fault::new(format!("no algorithm is called {name:?}")).at(&node.origin).help(help));
        }
    }
}

/// The items of an array of tables.
fn tables(node: &Node) -> Option<Vec<(&Table, &Origin)>> {
    match &node.value {
        Value::Array(items) => items.iter().map(|item| Some((item.as_table()?, &item.origin))).collect(),
        _ => None,
    }
}
