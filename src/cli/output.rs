//! Standard output and standard error. A reader that went away (`ioc check | head`) is no failure; a disk that is full
//! is one.

use std::io::{ErrorKind, Write};
use std::sync::OnceLock;

use rustix::fs::OFlags;

/// Why something that was said did not arrive. Kept for the end of the program: no work stops because nobody hears of
/// it.
static UNHEARD: OnceLock<String> = OnceLock::new();

/// A line, or several, to standard output.
pub(crate) fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    remember(writeln!(out, "{}", text.trim_end()).and_then(|()| out.flush()));
}

/// Why standard output lacks something, if it does.
pub(crate) fn unheard() -> Option<&'static str> {
    UNHEARD.get().map(String::as_str)
}

/// Remembers the first failure.
pub(crate) fn remember(written: std::io::Result<()>) {
    if let Err(error) = written.or_else(broken_pipe) {
        let _ = UNHEARD.set(format!("cannot write to standard output: {error}"));
    }
}

fn broken_pipe(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == ErrorKind::BrokenPipe { Ok(()) } else { Err(error) }
}

/// Whether standard output was closed when the program began (`>&-`). Rust then opens `/dev/null` in its place, to be
/// read and written, which a shell's `> /dev/null` is not.
pub(crate) fn is_closed() -> bool {
    let out = std::io::stdout();
    let null = rustix::fs::stat("/dev/null").map(|null| null.st_rdev);
    let is_null = rustix::fs::fstat(&out).is_ok_and(|out| null == Ok(out.st_rdev));
    let mode = rustix::fs::fcntl_getfl(&out).map(|flags| flags & OFlags::RWMODE);
    is_null && mode == Ok(OFlags::RDWR)
}

/// The same to standard error.
pub(crate) fn error(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", text.trim_end());
}

/// A file's content to standard output, for a program that reads it.
pub(crate) fn copy(file: &mut std::fs::File) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    std::io::copy(file, &mut out).and_then(|_| out.flush()).or_else(broken_pipe)
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
