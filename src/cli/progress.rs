//! Progress on stderr, which leaves stdout to results. A person at a terminal sees a bar with the rate and the time
//! left; a log gets one line per stage when it is over, and one per repetition. `--quiet` gets neither: errors, which are
//! not progress, are printed by whoever ends the program.
//!
//! Nothing here fails: where stderr is closed there is nobody to tell.

use std::fmt::{self, Display, Formatter};
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use crate::progress::{Progress, Unit};
use crate::report::table::repetition;
use crate::report::{Row, Status};
use crate::units::figures;

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Bars,
    Lines,
    Quiet,
}

/// Shows progress to whoever watches stderr.
pub struct Console {
    mode: Mode,
    state: Mutex<State>,
}

struct State {
    out: Box<dyn Write + Send>,
    stage: Option<Stage>,
}

struct Stage {
    name: String,
    unit: Unit,
    done: u64,
    started: Instant,
    /// Clears itself when dropped.
    bar: Option<ProgressBar>,
}

impl Console {
    /// Bars where stderr is a terminal that can move its cursor and no CI service's log, otherwise lines.
    pub fn new(quiet: bool) -> Self {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "false");
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let mode = match quiet {
            true => Mode::Quiet,
            false if io::stderr().is_terminal() && !dumb && !set("CI") => Mode::Bars,
            false => Mode::Lines,
        };
        Self::with(mode, Box::new(io::stderr()))
    }

    fn with(mode: Mode, out: Box<dyn Write + Send>) -> Self {
        Self { mode, state: Mutex::new(State { out, stage: None }) }
    }

    /// A repetition is over.
    pub fn finished(&self, line: &StatusLine<'_>) {
        let mut state = self.state();
        state.stage = None;
        self.say(&mut state, &line.to_string());
    }

    fn say(&self, state: &mut State, line: &str) {
        if self.mode == Mode::Quiet {
            return;
        }
        let State { out, stage } = state;
        let mut write = || {
            let _ = writeln!(out, "{line}");
        };
        match stage.as_ref().and_then(|stage| stage.bar.as_ref()) {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// A thread that panicked while it reported has left a line unfinished at worst.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for Console {
    fn begin(&self, stage: &str, total: Option<u64>, unit: Unit) {
        let bar = (self.mode == Mode::Bars).then(|| bar(stage, total, unit));
        self.state().stage = Some(Stage::new(stage.to_owned(), unit, bar));
    }

    fn advance(&self, amount: u64) {
        let mut state = self.state();
        if let Some(stage) = &mut state.stage {
            stage.done = stage.done.saturating_add(amount);
            if let Some(bar) = &stage.bar {
                bar.inc(amount);
            }
        }
    }

    fn end(&self) {
        let mut state = self.state();
        if let Some(stage) = state.stage.take() {
            let line = stage.summary(stage.started.elapsed());
            drop(stage);
            self.say(&mut state, &line);
        }
    }

    fn note(&self, text: &str) {
        self.say(&mut self.state(), &format!("note: {text}"));
    }
}

/// How often a bar moves when nothing else moves it.
const TICK: Duration = Duration::from_millis(200);

impl Stage {
    fn new(name: String, unit: Unit, bar: Option<ProgressBar>) -> Self {
        Self { name, unit, done: 0, started: Instant::now(), bar }
    }

    fn summary(&self, elapsed: Duration) -> String {
        let seconds = elapsed.as_secs_f64();
        let (name, time) = (&self.name, figures::digits(seconds));
        if self.done == 0 {
            return format!("{name}: {time} s");
        }
        let rate = rate(self.unit, self.done as f64 / seconds.max(1e-9));
        format!("{name}: {} in {time} s, {rate}", amount(self.unit, self.done))
    }
}

fn amount(unit: Unit, done: u64) -> String {
    match unit {
        Unit::Bytes => figures::decimal(done as f64),
        Unit::Edges => format!("{} edges", figures::count(done as f64)),
    }
}

fn rate(unit: Unit, per_second: f64) -> String {
    match unit {
        Unit::Bytes => format!("{} MB/s", figures::digits(per_second / 1e6)),
        Unit::Edges => format!("{} M edges/s", figures::digits(per_second / 1e6)),
    }
}

fn bar(stage: &str, total: Option<u64>, unit: Unit) -> ProgressBar {
    let bar = match total {
        Some(total) => ProgressBar::new(total),
        None => ProgressBar::no_length(),
    };
    let bar = bar.with_style(stage_style(total, unit)).with_message(stage.to_owned());
    // It ticks on a thread of its own, and panics where there is none to be had.
    if std::thread::Builder::new().spawn(|| ()).is_ok() {
        bar.enable_steady_tick(TICK);
    }
    bar
}

fn stage_style(total: Option<u64>, unit: Unit) -> ProgressStyle {
    let template = match total {
        Some(_) => "{msg} [{bar:24}] {done} of {total}, {rate}, {eta} left",
        None => "{spinner} {msg} {done}, {rate}, {elapsed}",
    };
    style(template)
        .progress_chars("=> ")
        .with_key("done", move |state: &ProgressState, out: &mut dyn fmt::Write| {
            let _ = out.write_str(&amount(unit, state.pos()));
        })
        .with_key("total", move |state: &ProgressState, out: &mut dyn fmt::Write| {
            let _ = out.write_str(&amount(unit, state.len().unwrap_or(0)));
        })
        .with_key("rate", move |state: &ProgressState, out: &mut dyn fmt::Write| {
            let _ = out.write_str(&rate(unit, state.per_sec()));
        })
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates of this file are valid: its tests draw each")
}

/// A repetition in one line: `[3/24] overlap ioc pagerank rep 2: 4.21 s, 812 MB/s`.
#[derive(Debug, Clone, Copy)]
pub struct StatusLine<'a> {
    /// Which repetition of the batch, from 1.
    pub number: usize,
    /// Repetitions of the batch.
    pub total: usize,
    /// What tells the run apart from others of the same variant and algorithm, maybe empty.
    pub point: &'a str,
    /// What came of it.
    pub row: &'a Row,
}

impl Display for StatusLine<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let row = self.row;
        let names =
            [Some(row.job.as_str()), row.variant.as_deref(), row.algorithm.as_deref(), Some(self.point)];
        let names: Vec<&str> = names.into_iter().flatten().filter(|name| !name.is_empty()).collect();
        write!(f, "[{}/{}] {} {}: ", self.number, self.total, names.join(" "), repetition(row))?;
        if row.status != Status::Ok {
            let error = row.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
            return write!(f, "{}{error}", row.status.as_str());
        }
        let time = row.runtime_s.map(|runtime| format!("{} s", figures::digits(runtime.0)));
        let rate = row.read_mb_per_s.map(|rate| format!("{} MB/s", figures::digits(rate)));
        let figures: Vec<String> = time.into_iter().chain(rate).collect();
        f.write_str(if figures.is_empty() { "ok" } else { "" })?;
        f.write_str(&figures.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use indicatif::{ProgressDrawTarget, TermLike};

    use super::*;
    use crate::report::{AttemptId, Phase, Seconds};

    #[derive(Debug, Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Paper {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().expect("paper").clone()).expect("UTF-8")
        }
    }

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("paper").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl TermLike for Paper {
        fn width(&self) -> u16 {
            120
        }
        fn move_cursor_up(&self, _n: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _n: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _n: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _n: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(&format!("{text}\n"))
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.clone().write_all(text.as_bytes())
        }
        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    fn printed(mode: Mode, act: impl Fn(&Console)) -> String {
        let paper = Paper::default();
        let console = Console::with(mode, Box::new(paper.clone()));
        act(&console);
        paper.text()
    }

    fn import(console: &Console) {
        console.begin("kron-22: partition", Some(100_000_000), Unit::Edges);
        for _ in 0..1000 {
            console.advance(67_109);
        }
        console.note("the weights are ignored.");
        console.end();
        console.end();
    }

    fn row() -> Row {
        Row {
            status: Status::Ok,
            variant: Some("ioc".to_owned()),
            algorithm: Some("pagerank".to_owned()),
            runtime_s: Some(Seconds(4.2104)),
            read_mb_per_s: Some(812.3),
            ..Row::new(&AttemptId::new("r1", Phase::Measured, 2, 1), "overlap")
        }
    }

    #[test]
    fn a_log_gets_a_line_per_stage_and_not_one_per_batch() {
        let text = printed(Mode::Lines, import);
        let lines: Vec<&str> = text.lines().collect();
        let [note, stage] = lines.as_slice() else { panic!("{text}") };
        assert_eq!(*note, "note: the weights are ignored.");
        assert!(
            stage.starts_with("kron-22: partition: 67.1 M edges in ") && stage.ends_with(" M edges/s"),
            "{stage}"
        );
    }

    #[test]
    fn quiet_prints_nothing() {
        assert_eq!(printed(Mode::Quiet, import), "");
        let row = row();
        assert_eq!(
            printed(Mode::Quiet, |console| console.finished(&StatusLine {
                number: 1,
                total: 2,
                point: "",
                row: &row
            })),
            ""
        );
    }

    #[test]
    fn summaries_have_amount_time_and_rate() {
        let mut stage = Stage::new("read".to_owned(), Unit::Bytes, None);
        assert_eq!(stage.summary(Duration::from_millis(1500)), "read: 1.50 s");
        stage.done = 3_000_000_000;
        assert_eq!(stage.summary(Duration::from_secs(4)), "read: 3 GB in 4.00 s, 750 MB/s");
        assert!(stage.summary(Duration::ZERO).starts_with("read: 3 GB in 0 s, "));
    }

    #[test]
    fn a_bar_shows_what_is_done_the_rate_and_the_time_left() {
        let drawn = |total, unit| {
            let paper = Paper::default();
            let target = ProgressDrawTarget::term_like(Box::new(paper.clone()));
            let bar = ProgressBar::with_draw_target(total, target).with_style(stage_style(total, unit));
            bar.set_message("kron-22: sort");
            bar.set_position(25_000_000);
            bar.abandon();
            paper.text()
        };
        let text = drawn(Some(100_000_000), Unit::Bytes);
        assert!(text.contains("kron-22: sort [======>") && text.contains("25 MB of 100 MB, "), "{text}");
        assert!(text.contains(" MB/s, ") && text.contains(" left"), "{text}");
        let text = drawn(None, Unit::Edges);
        assert!(text.contains("kron-22: sort 25 M edges, ") && text.contains(" M edges/s, "), "{text}");
    }

    #[test]
    fn bars_leave_the_same_lines_behind() {
        // Drawn nowhere, since this test's stderr is no terminal; what is printed beside the bar still is.
        let text = printed(Mode::Bars, |console| {
            let row = row();
            console.note("one.");
            console.finished(&StatusLine { number: 1, total: 2, point: "", row: &row });
            import(console);
        });
        let starts: Vec<&str> = text.lines().map(|line| &line[..5]).collect();
        assert_eq!(starts, ["note:", "[1/2]", "note:", "kron-"], "{text}");
    }

    #[test]
    fn a_repetition_is_a_line() {
        let line = |row: &Row| StatusLine { number: 3, total: 24, point: "", row }.to_string();
        let mut row = row();
        assert_eq!(line(&row), "[3/24] overlap ioc pagerank rep 2: 4.21 s, 812 MB/s");
        let point = StatusLine { number: 3, total: 24, point: "engine.io_depth=8", row: &row }.to_string();
        assert_eq!(point, "[3/24] overlap ioc pagerank engine.io_depth=8 rep 2: 4.21 s, 812 MB/s");
        row.phase = Phase::Warmup;
        row.variant = None;
        (row.runtime_s, row.read_mb_per_s) = (None, None);
        assert_eq!(line(&row), "[3/24] overlap pagerank warm-up 2: ok");
        row.status = Status::Failed;
        row.error = Some("out of memory".to_owned());
        assert_eq!(line(&row), "[3/24] overlap pagerank warm-up 2: failed: out of memory");
        (row.status, row.error) = (Status::Interrupted, None);
        assert_eq!(line(&row), "[3/24] overlap pagerank warm-up 2: interrupted");
    }
}
