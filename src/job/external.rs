//! `[external.NAME]`: a command of another program, measured beside ours. Its words are given as they are, without a shell;
//! what they say of the run stands in them as placeholders, and an external crosses with those axes only that it so uses.

use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use regex::bytes::Regex;

use super::fault::{Fault, Faults};
use super::layer::{Layers, Setting, Typed};
use super::resolve::{Invalid, Values};
use super::source::Origin;
use super::spec::{DatasetSpec, ExportFormatSpec, ExternalSpec, SourceSpec};
use super::suggest;

/// Path of the options of every external, whatever its name.
pub(crate) const EXTERNAL: &str = "external";
/// The table that they are in there.
pub(crate) const EXTERNAL_TABLE: &str = "external.NAME";

/// What may stand in braces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placeholder {
    /// Path of the data set in the external's format.
    Export,
    /// Path of the folder that `prepare` fills.
    Prepared,
    /// Path of the data set's own file.
    Source,
    /// Number of vertices.
    Vertices,
    /// Number of arcs.
    Edges,
    /// 1 where the arcs have weights, otherwise 0.
    Weighted,
    /// `engine.compute_threads`.
    Threads,
    /// `engine.memory` in MiB.
    MemoryMib,
    /// `engine.memory` in GiB.
    MemoryGib,
    /// `storage.ssds`.
    Ssds,
}

impl Placeholder {
    /// Every one.
    pub const ALL: [Self; 10] = [
        Self::Export,
        Self::Prepared,
        Self::Source,
        Self::Vertices,
        Self::Edges,
        Self::Weighted,
        Self::Threads,
        Self::MemoryMib,
        Self::MemoryGib,
        Self::Ssds,
    ];

    /// Its name between the braces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Export => "export",
            Self::Prepared => "prepared",
            Self::Source => "source",
            Self::Vertices => "vertices",
            Self::Edges => "edges",
            Self::Weighted => "weighted",
            Self::Threads => "threads",
            Self::MemoryMib => "memory_mib",
            Self::MemoryGib => "memory_gib",
            Self::Ssds => "ssds",
        }
    }

    /// Whether it is known only when the data set has been exported.
    pub fn needs_export(self) -> bool {
        matches!(self, Self::Export | Self::Vertices | Self::Edges | Self::Weighted)
    }
}

/// A placeholder that there is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownPlaceholder(pub String);

impl fmt::Display for UnknownPlaceholder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown placeholder {{{}}}", self.0)
    }
}

impl UnknownPlaceholder {
    fn help(&self) -> String {
        let names = Placeholder::ALL.map(Placeholder::name);
        let known = || format!("known: {}; for a brace that is none write {{{{", names.join(", "));
        suggest::did_you_mean(&self.0, names).unwrap_or_else(known)
    }
}

/// A part of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece<'a> {
    /// As it is.
    Text(&'a str),
    /// To be replaced.
    Placeholder(Placeholder),
}

/// The parts of a word. Lower-case letters and `_` in braces are a placeholder; `{{` is a brace; any other brace is itself.
pub fn pieces(word: &str) -> Result<Vec<Piece<'_>>, UnknownPlaceholder> {
    let mut pieces = Vec::new();
    let mut rest = word;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        let inside = from[1..].split_once('}').map(|(inside, _)| inside);
        let name = inside.filter(|name| !name.is_empty() && name.chars().all(is_of_name));
        let (piece, length) = match name {
            _ if from.starts_with("{{") => (Piece::Text("{"), 2),
            None => (Piece::Text("{"), 1),
            Some(name) => {
                let known = Placeholder::ALL.into_iter().find(|placeholder| placeholder.name() == name);
                let known = known.ok_or_else(|| UnknownPlaceholder(name.to_owned()))?;
                (Piece::Placeholder(known), name.len() + 2)
            }
        };
        pieces.extend([Piece::Text(before), piece]);
        rest = &from[length..];
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_lowercase() || c == '_'
}

/// A word with its placeholders replaced.
pub fn expand<E>(word: &str, mut value: impl FnMut(Placeholder) -> Result<String, E>) -> Result<String, E>
where
    E: From<UnknownPlaceholder>,
{
    pieces(word)?.into_iter().try_fold(String::new(), |text, piece| {
        Ok(text
            + &match piece {
                Piece::Text(part) => part.to_owned(),
                Piece::Placeholder(placeholder) => value(placeholder)?,
            })
    })
}

/// The placeholders of words; those that are unknown were refused with the job.
pub fn placeholders<'a>(words: impl IntoIterator<Item = &'a String>) -> Vec<Placeholder> {
    let pieces = words.into_iter().filter_map(|word| pieces(word).ok()).flatten();
    let mut found: Vec<Placeholder> = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Placeholder(placeholder) if !found.contains(&placeholder) => found.push(placeholder),
            _ => {}
        }
    }
    found
}

/// The regular expression of `time_regex`: it matches bytes, because output may be anything.
pub fn time_regex(pattern: &str) -> Result<Regex, String> {
    let regex = Regex::new(pattern).map_err(|error| {
        let text = error.to_string();
        let last = text.lines().last().unwrap_or("it does not compile");
        last.trim_start_matches("error: ").to_owned()
    })?;
    match regex.captures_len() - 1 {
        1 => Ok(regex),
        groups => Err(format!("it has {groups} groups, expected the one that finds the seconds")),
    }
}

/// The program that a command's first word names: as it is where it has a slash (relative to `directory`), otherwise from
/// `PATH`.
pub fn find_program(word: &str, directory: &Path) -> Option<PathBuf> {
    if word.contains('/') {
        return Some(directory.join(word)).filter(|path| is_executable(path));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(word)).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// A command in one line for people; words with blanks are quoted.
pub fn shown(words: &[String]) -> String {
    let quote = |word: &String| {
        let plain = !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || "'\"\\".contains(c));
        if plain { word.clone() } else { format!("'{}'", word.replace('\'', r"'\''")) }
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// A program that an external starts, and where the job names it.
pub(crate) type Program = (String, Origin);

/// Builds an external from its merged table (`own`) and what else its placeholders stand for (`values`). Returns the
/// programs that it needs too.
pub(crate) fn resolve(
    name: &str,
    origin: &Origin,
    own: &Layers<'_>,
    values: &Values<'_>,
    dataset: Option<&DatasetSpec>,
    faults: &mut Faults,
) -> Result<(ExternalSpec, Vec<Program>), Invalid> {
    let Some(command) = own.get("external.NAME.command") else {
        let fault = Fault::new(format!("the external `{name}` has no `command`")).at(origin);
        faults.push(fault.help("add for example command = [\"program\", \"{export}\"]"));
        return Err(Invalid);
    };
    let prepare = own.get("external.NAME.prepare");
    let mut words = Words { values, dataset, has_prepare: prepare.is_some(), faults, used: Vec::new() };
    let command = words.read(command);
    let prepare = prepare.map(|prepare| words.read(prepare)).transpose();
    let used = words.used;
    let (mut spec, programs) =
        (ExternalSpec::new(name, values.project), [command?, prepare?.unwrap_or_default()]);
    let text = |path: &str| match own.get(path).map(|setting| &setting.value) {
        None => Ok(None),
        Some(Typed::Text(text)) => Ok(Some(text.clone())),
        Some(_) => Err(Invalid),
    };
    let own_values = Values { layers: own, project: values.project };
    spec.format =
        own_values.choice("external.NAME.format", &ExportFormatSpec::ALL, ExportFormatSpec::name)?;
    spec.time_regex = text("external.NAME.time_regex")?;
    spec.algorithm = text("external.NAME.algorithm")?;
    spec.iterations = match own.get("external.NAME.iterations") {
        None => None,
        Some(_) => Some(own_values.count("external.NAME.iterations")?),
    };
    if used.contains(&Placeholder::Threads) {
        spec.threads = Some(values.auto_u32("engine.compute_threads")?);
    }
    if used.contains(&Placeholder::MemoryMib) || used.contains(&Placeholder::MemoryGib) {
        spec.memory = Some(values.count("engine.memory")?);
    }
    let needed = programs.iter().filter_map(|words| words.first().cloned()).collect();
    let [command, prepare] = programs.map(|words| words.into_iter().map(|(word, _)| word).collect());
    (spec.command, spec.prepare) = (command, prepare);
    Ok((spec, needed))
}

/// Reads words and checks what stands in them.
struct Words<'a> {
    values: &'a Values<'a>,
    dataset: Option<&'a DatasetSpec>,
    has_prepare: bool,
    faults: &'a mut Faults,
    used: Vec<Placeholder>,
}

impl Words<'_> {
    fn read(&mut self, setting: &Setting) -> Result<Vec<(String, Origin)>, Invalid> {
        let Typed::Texts(words) = &setting.value else { return Err(Invalid) };
        let before = self.faults.len();
        for (word, origin) in words.iter().zip(&setting.items) {
            match pieces(word) {
                Ok(pieces) => pieces.iter().for_each(|piece| self.check(piece, origin)),
                Err(unknown) => {
                    self.faults.push(Fault::new(unknown.to_string()).at(origin).help(unknown.help()));
                }
            }
        }
        if self.faults.len() > before {
            return Err(Invalid);
        }
        Ok(words.iter().cloned().zip(setting.items.iter().cloned()).collect())
    }

    fn check(&mut self, piece: &Piece<'_>, origin: &Origin) {
        let &Piece::Placeholder(placeholder) = piece else { return };
        self.used.push(placeholder);
        let fault = match placeholder {
            Placeholder::Prepared if !self.has_prepare => {
                Fault::new("{prepared} is the folder that `prepare` fills, and there is no `prepare`")
                    .help("add a `prepare`, or use {export}, the data set in the external's format")
            }
            Placeholder::Source if self.is_generated() => {
                Fault::new("{source} is the data set's own file, and this data set is generated")
                    .help("use {export}, the data set in the external's format")
            }
            Placeholder::MemoryMib => return self.check_whole(1 << 20, "MiB", origin),
            Placeholder::MemoryGib => return self.check_whole(1 << 30, "GiB", origin),
            _ => return,
        };
        self.faults.push(fault.at(origin));
    }

    fn is_generated(&self) -> bool {
        self.dataset.is_some_and(|dataset| matches!(dataset.source, SourceSpec::Kronecker(_)))
    }

    /// Programs take whole numbers: a memory that is none would be rounded by whoever reads it.
    fn check_whole(&mut self, unit: u64, name: &str, origin: &Origin) {
        let Ok(memory) = self.values.count("engine.memory") else { return };
        if !memory.is_multiple_of(unit) {
            let found = crate::units::format_bytes(memory);
            let fault =
                Fault::new(format!("`engine.memory` is {found}, no whole number of {name}")).at(origin);
            self.faults.push(fault.help(format!("give the external whole {name}, or another unit")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_braces_are_placeholders_and_other_braces_are_not() {
        let expand = |word: &str| {
            super::expand(word, |placeholder| Ok::<_, UnknownPlaceholder>(placeholder.name().to_uppercase()))
        };
        for (word, expanded) in [
            ("", ""),
            ("plain", "plain"),
            ("{export}", "EXPORT"),
            ("a{threads}b{threads}", "aTHREADSbTHREADS"),
            ("{{export}", "{export}"),
            ("{ print $1 }{", "{ print $1 }{"),
            ("{}{A}{1}}", "{}{A}{1}}"),
            ("é{ssds}é", "éSSDSé"),
        ] {
            assert_eq!(expand(word).as_deref(), Ok(expanded), "{word}");
        }
        assert_eq!(expand("x{exprt}"), Err(UnknownPlaceholder("exprt".into())));
    }

    #[test]
    fn a_time_regex_has_one_group() {
        assert!(time_regex("took ([0-9.]+) s").is_ok());
        assert!(time_regex("(?:took|used) ([0-9.]+)").is_ok());
        assert_eq!(
            time_regex("took").unwrap_err(),
            "it has 0 groups, expected the one that finds the seconds"
        );
        assert!(time_regex("(a)(b)").is_err());
        assert_eq!(time_regex("(a").unwrap_err(), "unclosed group");
    }

    #[test]
    fn a_command_is_shown_as_a_shell_would_take_it() {
        let words = ["sh", "-c", "echo 'a b'", ""].map(str::to_owned);
        assert_eq!(shown(&words), r"sh -c 'echo '\''a b'\''' ''");
    }

    #[test]
    fn programs_are_found_by_path_or_in_path_and_must_be_executable() {
        assert!(find_program("sh", Path::new("/")).is_some());
        assert!(find_program("bin/sh", Path::new("/")).is_some());
        assert_eq!(find_program("no-such-program-at-all", Path::new("/")), None);
        assert_eq!(find_program("/etc/passwd", Path::new("/")), None);
    }
}
