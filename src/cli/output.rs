//! Standard output and standard error. A reader that went away (`ioc check | head`) is no failure.

use std::io::Write;

/// A line, or several, to standard output.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{}", text.trim_end());
}

/// The same to standard error.
pub(crate) fn error(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", text.trim_end());
}

/// A file's content to standard output, for a program that reads it.
pub(crate) fn copy(file: &mut std::fs::File) -> std::io::Result<()> {
    match std::io::copy(file, &mut std::io::stdout().lock()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// What a child has to say to its parent, as JSON.
pub(crate) fn tell_parent(aftermath: &crate::run::repetition::Aftermath) {
    // Serialising numbers and strings cannot fail; a parent that is gone needs no word.
    if let Ok(text) = serde_json::to_string(aftermath) {
        say(&text);
    }
}

/// Characters of a line on standard output: the terminal's width, and 120 where there is none.
pub(crate) fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    size.map_or(120, |size| usize::from(size.ws_col)).max(80)
}
