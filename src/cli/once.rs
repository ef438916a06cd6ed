//! `ioc once`: one algorithm on one file. It is the job file that it prints, so that what began as a one-off can be
//! kept, changed and repeated.

use std::io::ErrorKind;
use std::path::Path;

use rustix::fs::{Access, access};
use toml::{Table, Value};

use super::args::{BatchArgs, OnceArgs, RunArgs};
use super::run::run_batch;
use super::{Problem, batch, exit, output};
use crate::atomic_file::{AtomicFile, FileError};
use crate::file_id::is_same_file;
use crate::grid::paths::MOST_NAME;
use crate::interrupt::Interrupt;
use crate::job::{Batch, JobSource, write};
use crate::regular_file;
use crate::report::{JobReport, Status, copy_values, values_path};

/// Runs it.
pub(crate) fn once(args: &OnceArgs, interrupt: &Interrupt) -> Result<u8, Problem> {
    attempt(args, interrupt).map_err(|problem| Problem { text: in_flags(&problem.text), ..problem })
}

fn attempt(args: &OnceArgs, interrupt: &Interrupt) -> Result<u8, Problem> {
    check(args).map_err(|text| Problem::usage(format!("error: {text}")))?;
    let mut job = job(args)?;
    let project = std::env::current_dir().map_err(Problem::failed)?;
    let source = JobSource::Text { name: name(args), text: write::render(&job), project };
    let batch_args = BatchArgs {
        paths: Vec::new(),
        sets: args.sets.clone(),
        only: None,
        out: args.out.clone(),
        data: args.data.clone(),
        quiet: args.quiet,
    };
    let batch = batch::load_sources(&[source], &batch_args)?;
    if args.output.is_some() && !batch.runs().all(|run| run.output.values) {
        return Err(Problem::usage("error: --set output.values=off contradicts -o; leave one of them away"));
    }
    write::apply(&mut job, &args.sets).map_err(Problem::usage)?;
    let text = write::render(&job);
    if let Some(path) = &args.job {
        keep(path, &text)?;
    }
    // Where the values go to standard output, whatever reads them there must find nothing else.
    let say = match &args.output {
        _ if args.quiet => |_: &str| (),
        Some(to) if is_stdout(to) => output::error,
        _ => output::say,
    };
    say(&format!("# the job file that this run stands for\n{text}"));
    let run_args = RunArgs {
        batch: batch_args,
        resume: false,
        fail_fast: true,
        // Whoever wants a result does not want to wait for figures about the machine.
        no_scan: true,
        plan: None,
        index: None,
        rep: None,
        attempt: None,
        device_rate: None,
        scan: false,
    };
    let done = run_batch(&batch, &run_args, in_flags, interrupt)?;
    say(&done.summary);
    if let (exit::OK, Some(to), Some(report)) = (done.code, &args.output, done.reports.first()) {
        deliver(&batch, report, &args.out, to)?;
    }
    Ok(done.code)
}

/// What the job cannot know: the file that is read, and the one that the values go to, which would otherwise be found
/// to be impossible when all is computed.
fn check(args: &OnceArgs) -> Result<(), String> {
    let file = args.file.display();
    match std::fs::metadata(&args.file) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(format!("{file} does not exist; give the path of an edge list"));
        }
        Ok(data) if data.is_dir() => {
            return Err(format!("{file} is a directory; give the path of an edge list"));
        }
        // Whatever else is wrong, its reader says.
        _ => {}
    }
    let Some(output) = &args.output else { return Ok(()) };
    if args.algorithm == "scan" {
        return Err("a scan has no values to write; leave -o away".to_owned());
    }
    if is_stdout(output) {
        let closed = "-o: standard output is closed; open it, or name a file";
        return if output::is_closed() { Err(closed.to_owned()) } else { Ok(()) };
    }
    if is_same_file(output, &args.file) {
        return Err("-o names the edge list itself; give the values another file".to_owned());
    }
    check_output(output)
}

/// Whether a file of values can be made there: whole or not at all, so what is written as a stream will not do.
fn check_output(output: &Path) -> Result<(), String> {
    let shown = output.display();
    match std::fs::metadata(output) {
        Ok(data) if data.is_dir() => return Err(format!("-o: {shown} is a directory; name a file in it")),
        Ok(data) if !data.is_file() => {
            return Err(format!("-o: {shown} is no regular file; name one, or `-` for standard output"));
        }
        _ => {}
    }
    let place = std::fs::canonicalize(output).unwrap_or_else(|_| output.to_owned());
    let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(format!(
            "-o: there is no directory {}; create it, or name a file elsewhere",
            folder.display()
        ));
    }
    access(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| {
        format!("-o: no file can be made in {}: {error}; name one elsewhere", folder.display())
    })
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-") || path == Path::new("/dev/stdout")
}

/// The job's name: `once-pagerank-edges`.
fn name(args: &OnceArgs) -> String {
    let file = args.file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = file.split('.').next().unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
    // Cut, because a folder is named by it, and the file's own name may be as long as names can be.
    format!("once-{}-{}", args.algorithm, stem.chars().map(plain).take(MOST_NAME).collect::<String>())
}

fn job(args: &OnceArgs) -> Result<Table, Problem> {
    let path = std::path::absolute(&args.file).map_err(Problem::failed)?;
    let path = path.to_str().ok_or_else(|| {
        let file = args.file.display();
        Problem::usage(format!("error: {file}: the path is no valid UTF-8, which a job file needs"))
    })?;
    let number = |number: u64| Value::Integer(number.cast_signed());
    let text = |text: &str| Value::String(text.to_owned());
    let given = |key: &'static str, value: Option<Value>| value.map(|value| (key, value));
    let dataset = [
        given("path", Some(text(path))),
        given("format", Some(text(&args.format))),
        given("skip_lines", (args.skip_lines > 0).then(|| number(args.skip_lines))),
        given("vertices", args.vertices.map(number)),
        given("directed", args.undirected.then_some(Value::Boolean(false))),
    ];
    let algorithm = [
        given("iterations", args.iterations.map(number)),
        given("tolerance", args.tolerance.map(Value::Float)),
        given("root", args.root.map(number)),
    ];
    let values = args.output.is_some().then(|| table([given("values", Some(text("csv")))]));
    Ok(table([
        given("name", Some(text(&name(args)))),
        given("dataset", Some(table(dataset).into())),
        given(
            "algorithm",
            Some(Table::from_iter([(args.algorithm.clone(), table(algorithm).into())]).into()),
        ),
        given("engine", Some(table([given("memory", Some(text(&args.memory.text)))]).into())),
        given(
            "measure",
            Some(table([given("repeat", Some(number(1))), given("warmup", Some(number(0)))]).into()),
        ),
        given("output", values.map(Value::Table)),
    ]))
}

fn table<const N: usize>(entries: [Option<(&'static str, Value)>; N]) -> Table {
    entries.into_iter().flatten().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Saves the job.
fn keep(path: &Path, text: &str) -> Result<(), Problem> {
    let file = AtomicFile::create(path).and_then(|mut file| file.write(text.as_bytes()).map(|()| file));
    file.and_then(AtomicFile::commit_new).map_err(|error| match error {
        FileError::Exists(path) => {
            Problem::usage(format!("error: --job: {} exists already; name a new file", path.display()))
        }
        other => Problem::failed(format!("--job: {other}")),
    })
}

/// Takes the values of the one run to where the user wants them.
fn deliver(batch: &Batch, report: &JobReport, out: &Path, to: &Path) -> Result<(), Problem> {
    let row = report.rows().find(|row| row.status == Status::Ok);
    let (Some(row), Some(job)) = (row, batch.jobs.first()) else {
        return Err(Problem::failed("the run left no values, a defect of ioc"));
    };
    let out = std::path::absolute(out).map_err(Problem::failed)?;
    let from = values_path(&out, &job.report, &row.run_id).map_err(Problem::failed)?;
    let undelivered =
        |error: String| Problem::failed(format!("{error}; the values are in {}", from.display()));
    if is_stdout(to) {
        let copied = regular_file::open(&from).and_then(|mut file| output::copy(&mut file));
        return copied
            .map_err(|error| undelivered(format!("cannot write the values to standard output: {error}")));
    }
    copy_values(&from, to).map_err(|error| undelivered(error.to_string()))
}

/// What messages say of the keys of a job, and how `ioc once` is told the same.
const FLAGS: [(&str, &str); 15] = [
    ("set format = ", "give --format "),
    ("use format = ", "use --format "),
    ("correct `format`", "correct --format"),
    ("use skip_lines = ", "use --skip-lines "),
    ("the data set says skip_lines = ", "--skip-lines is "),
    ("remove `skip_lines` from the data set", "leave --skip-lines away"),
    ("the data set says ", "the command line says "),
    ("leave `vertices` away", "leave --vertices away"),
    ("by weights = \"none\"", "by --set dataset.weights=none"),
    ("engine.memory is ", "--memory is "),
    ("raise engine.memory", "raise --memory"),
    ("`engine.memory`", "--memory"),
    ("lower the buffer:", "lower the buffer by --set engine.buffer=SIZE:"),
    ("make engine.buffer smaller", "make the buffer smaller by --set engine.buffer=SIZE"),
    ("; --resume runs it again", ""),
];

/// A message in the words of whoever typed options and no job.
fn in_flags(text: &str) -> String {
    FLAGS.iter().fold(text.to_owned(), |text, (key, flag)| text.replace(key, flag))
}
