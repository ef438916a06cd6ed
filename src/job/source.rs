//! Texts that jobs are read from, and places in them.
//!
//! Every value remembers where it was written, because a fault found after merging (a buffer that outgrows a
//! memory bound given elsewhere) must point at the line that the user can change.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::fault::Fault;
use crate::io_advice::advice;
use crate::regular_file::{self, irregular};

/// A job file is a page of text: what is larger is some other file, given by mistake.
const LARGEST_FILE: u64 = 16 << 20;

/// What kind of text a [`Source`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SourceKind {
    /// A file, or a text that stands for one (the compiled-in job, what `ioc once` writes).
    Text,
    /// The argument of one `--set`.
    Set,
    /// The defaults of the table of options.
    Builtin,
}

/// A text with a name that users know it by.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) kind: SourceKind,
}

impl Source {
    pub(crate) fn new(kind: SourceKind, name: impl Into<String>, text: impl Into<String>) -> Arc<Self> {
        Arc::new(Self { name: name.into(), text: text.into(), kind })
    }

    /// Reads a file. Only regular files: a pipe or a device could keep us waiting for ever.
    pub(crate) fn read(path: &Path) -> Result<Arc<Self>, Fault> {
        let name = shown(path);
        let fault = |message: String, help: &str| {
            Fault::new(message).at_source(&Self::new(SourceKind::Text, name.clone(), "")).help(help)
        };
        let cannot = |error: std::io::Error| {
            let missing = error.kind() == std::io::ErrorKind::NotFound;
            let help = if missing { "check the path".to_owned() } else { advice(&error, "check the path") };
            fault(format!("cannot read the file: {error}"), help.trim_start_matches("; "))
        };
        let meta = std::fs::metadata(path).map_err(cannot)?;
        if let Some(found) = irregular(&meta) {
            let help = "give the path of a TOML file; a text from elsewhere is saved to one first";
            return Err(fault(format!("this is {found} and not a regular file"), help));
        }
        if meta.len() > LARGEST_FILE {
            let size = crate::units::format_bytes(meta.len());
            return Err(fault(
                format!("the file has {size}, far more than a TOML file of jobs or data sets"),
                "give the path of a TOML file",
            ));
        }
        let bytes = regular_file::read(path, LARGEST_FILE).map_err(cannot)?;
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self::new(SourceKind::Text, name, text)),
            Err(error) => {
                let offset = error.utf8_error().valid_up_to();
                Err(fault(
                    format!("the file is not UTF-8 text: byte {offset} begins no character"),
                    "TOML files are UTF-8; save it again in that encoding",
                ))
            }
        }
    }
}

/// A path for people: relative where it lies below the current directory.
pub(crate) fn shown(path: &Path) -> String {
    let here = std::env::current_dir().ok();
    let relative = here.as_deref().and_then(|here| path.strip_prefix(here).ok());
    relative.filter(|path| !path.as_os_str().is_empty()).unwrap_or(path).display().to_string()
}

/// A place in a source: a byte range, empty where only the source as a whole is meant.
#[derive(Clone)]
pub(crate) struct Origin {
    pub(crate) source: Arc<Source>,
    pub(crate) span: Range<usize>,
}

impl Origin {
    pub(crate) fn new(source: &Arc<Source>, span: Range<usize>) -> Self {
        Self { source: Arc::clone(source), span }
    }

    /// The text as written, for messages.
    pub(crate) fn text(&self) -> &str {
        self.source.text.get(self.span.clone()).unwrap_or("")
    }

    /// Whether the user wrote it (and so can change it).
    pub(crate) fn written(&self) -> bool {
        self.source.kind != SourceKind::Builtin
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:?}", self.source.name, self.span)
    }
}
