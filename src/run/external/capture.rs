//! A command's output as it comes: what is kept of it is bounded, and the line that tells the time is looked for on the
//! way, so that a command that prints without end costs neither memory nor disk.

use std::collections::VecDeque;

use memchr::memchr2;
use regex::bytes::Regex;

/// Bytes kept of the start, and of the end.
const KEPT: usize = 512 << 10;
/// Bytes that are searched at once: a line, or a part of a longer one.
const LINE: usize = 64 << 10;
/// Bytes that two parts of a line have in common, so that a match of up to as many is whole in one of them.
const OVERLAP: usize = 4 << 10;
/// Bytes of the end that a message shows.
const SHOWN: usize = 400;
/// Lines of the end that a message shows.
const LINES: usize = 3;
/// Characters kept of the line that tells the time.
const TOLD: usize = 200;

/// What was found of the time.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Told {
    /// Seconds, and the line that says so.
    Seconds(f64, String),
    /// No line matches.
    Nothing,
    /// More than one match, which cannot all be the time.
    Several(u64),
    /// What the group found is no number of seconds.
    NoNumber(String),
}

/// Output so far.
#[derive(Debug)]
pub(super) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Bytes that are in neither.
    dropped: u64,
    regex: Option<Regex>,
    /// The unfinished line, or what of it is not searched yet.
    line: Vec<u8>,
    told: Told,
    matches: u64,
}

impl Capture {
    pub(super) fn new(regex: Option<Regex>) -> Self {
        let (head, tail, line) = (Vec::new(), VecDeque::new(), Vec::new());
        Self { head, tail, dropped: 0, regex, line, told: Told::Nothing, matches: 0 }
    }

    /// Takes what the command has printed next.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.keep(bytes);
        if self.regex.is_none() {
            return;
        }
        let mut rest = bytes;
        while let Some(end) = memchr2(b'\n', b'\r', rest) {
            self.extend_line(&rest[..end]);
            self.end_line();
            rest = &rest[end + 1..];
        }
        self.extend_line(rest);
    }

    /// What the output says of the time, now that it has ended.
    pub(super) fn told(&mut self) -> Told {
        self.end_line();
        match self.matches {
            0 | 1 => self.told.clone(),
            several => Told::Several(several),
        }
    }

    /// All that was kept, with a line in place of what was not.
    pub(super) fn kept(&self) -> Vec<u8> {
        let mut kept = self.head.clone();
        if self.dropped > 0 {
            kept.extend_from_slice(format!("\n[{} bytes are left out here]\n", self.dropped).as_bytes());
        }
        kept.extend(&self.tail);
        kept
    }

    /// The last lines, for a message; nothing where nothing was printed.
    pub(super) fn end(&self) -> Option<String> {
        let last = self.head.iter().chain(&self.tail).rev().take(SHOWN).copied();
        let mut last: Vec<u8> = last.collect();
        last.reverse();
        let text = String::from_utf8_lossy(&last);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let end = lines[lines.len().saturating_sub(LINES)..].join(" / ");
        let end = end.trim_start_matches('\u{fffd}');
        (!end.is_empty()).then(|| end.to_owned())
    }

    fn keep(&mut self, bytes: &[u8]) {
        let (first, rest) = bytes.split_at(bytes.len().min(KEPT - self.head.len()));
        self.head.extend_from_slice(first);
        let skipped = rest.len().saturating_sub(KEPT);
        self.tail.extend(&rest[skipped..]);
        let excess = self.tail.len().saturating_sub(KEPT);
        self.tail.drain(..excess);
        self.dropped += (skipped + excess) as u64;
    }

    fn extend_line(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(LINE - self.line.len()));
            self.line.extend_from_slice(now);
            if self.line.len() == LINE {
                self.search(LINE - OVERLAP);
            }
            bytes = later;
        }
    }

    fn end_line(&mut self) {
        self.search(self.line.len() + 1);
    }

    /// Looks for matches that begin in the first `part` bytes of the line, and takes these bytes off it.
    fn search(&mut self, part: usize) {
        if let Some(regex) = &self.regex {
            let matches = regex.captures_iter(&self.line);
            for found in matches.take_while(|found| found.get_match().start() < part) {
                self.matches += 1;
                if self.matches == 1 {
                    self.told = read(found.get(1).map_or(&[][..], |group| group.as_bytes()), &self.line);
                }
            }
        }
        self.line.drain(..part.min(self.line.len()));
    }
}

fn read(group: &[u8], line: &[u8]) -> Told {
    let group = String::from_utf8_lossy(group);
    match group.trim().parse::<f64>() {
        Ok(seconds) if seconds.is_finite() && seconds >= 0.0 => {
            let line: String = String::from_utf8_lossy(line).trim().chars().take(TOLD).collect();
            Told::Seconds(seconds, line)
        }
        _ => Told::NoNumber(group.chars().take(TOLD).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_in_a_line_of_any_length_is_found_whole_and_once() {
        let regex = Regex::new("took ([0-9.]+)").unwrap();
        for dots in [0, 10, 65_521, 65_526, 65_530, 65_536, 70_000, LINE - OVERLAP - 3, 300_000] {
            let mut capture = Capture::new(Some(regex.clone()));
            let line = format!("{} took 1.345 s", ".".repeat(dots));
            line.as_bytes().chunks(1000).for_each(|bytes| capture.take(bytes));
            let Told::Seconds(seconds, _) = capture.told() else { panic!("{dots}: {:?}", capture.told()) };
            assert!((seconds - 1.345).abs() < 1e-12, "{dots}: {seconds}");
            capture.take(b" took 2 s\n");
            assert_eq!(capture.told(), Told::Several(2), "{dots}");
        }
    }

    fn capture(pieces: &[&[u8]]) -> Capture {
        let mut capture = Capture::new(Some(Regex::new(r"took (\S+) s").unwrap()));
        for piece in pieces {
            capture.take(piece);
        }
        capture
    }

    #[test]
    fn the_time_is_found_across_pieces_and_without_a_last_line_feed() {
        let mut capture = capture(&[b"one\nit to", b"ok 1.", b"5 s"]);
        assert_eq!(capture.told(), Told::Seconds(1.5, "it took 1.5 s".into()));
        assert_eq!(capture.kept(), b"one\nit took 1.5 s");
    }

    #[test]
    fn a_time_that_is_none_or_not_one_is_told_apart() {
        assert_eq!(capture(&[b"nothing\n"]).told(), Told::Nothing);
        assert_eq!(capture(&[b"took 1 s\rtook 2 s\n"]).told(), Told::Several(2));
        assert_eq!(capture(&[b"took 1 s took 2 s"]).told(), Told::Several(2));
        for wrong in ["1,5", "-1", "NaN", "inf", "x"] {
            let told = capture(&[format!("took {wrong} s").as_bytes()]).told();
            assert_eq!(told, Told::NoNumber(wrong.into()));
        }
    }

    #[test]
    fn much_output_is_kept_at_both_ends_only() {
        let mut capture = capture(&[b"first\n"]);
        let garbage: Vec<u8> = (0..1_000_000_u32).map(|at| (at * 7) as u8).collect();
        for _ in 0..20 {
            capture.take(&garbage);
        }
        let last = b"\n\xfftook 2 s\n";
        capture.take(last);
        let kept = capture.kept();
        assert!(kept.len() < 2 * KEPT + 100 && kept.starts_with(b"first\n") && kept.ends_with(b"took 2 s\n"));
        let dropped = b"first\n".len() + 20_000_000 + last.len() - 2 * KEPT;
        let text = format!("[{dropped} bytes are left out here]");
        assert!(kept.windows(text.len()).any(|window| window == text.as_bytes()));
        assert_eq!(capture.told(), Told::Seconds(2.0, "\u{fffd}took 2 s".into()));
        assert!(capture.end().unwrap().ends_with("took 2 s"));
    }
}
