//! `ioc once`: one algorithm on one file. It is the job file that it prints, so that what began as a one-off can be
//! kept, changed and repeated.

use std::fmt::Write;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::args::{AlgorithmName, BatchArgs, OnceArgs, RunArgs};
use super::run::run_batch;
use super::{Problem, batch, exit, output};
use crate::interrupt::Interrupt;
use crate::job::JobSource;
use crate::report::{JobReport, Status, copy_values, values_path};

/// Runs it.
pub(crate) fn once(args: &OnceArgs, interrupt: &Interrupt) -> Result<u8, Problem> {
    if args.output.is_some() && args.algorithm == AlgorithmName::Scan {
        return Err(Problem::usage("error: a scan has no values to write; leave -o away"));
    }
    if args.output.as_deref().is_some_and(|output| is_same_file(output, &args.file)) {
        return Err(Problem::usage("error: -o names the edge list itself; give the values another file"));
    }
    let text = job_text(args)?;
    // Where the values go to standard output, whatever reads them there must find nothing else.
    let say = match &args.output {
        _ if args.quiet => |_: &str| (),
        Some(to) if is_stdout(to) => output::error,
        _ => output::say,
    };
    say(&format!("# the job file that this run stands for\n{text}"));
    let project = std::env::current_dir().map_err(Problem::failed)?;
    let source = JobSource::Text { name: name(args), text, project };
    let batch_args = BatchArgs {
        paths: Vec::new(),
        sets: args.sets.clone(),
        only: None,
        out: args.out.clone(),
        data: args.data.clone(),
        quiet: args.quiet,
    };
    let batch = batch::load_sources(&[source], &batch_args)?;
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
    let done = run_batch(&batch, &run_args, interrupt)?;
    say(&done.summary);
    if let (exit::OK, Some(to), Some(report)) = (done.code, &args.output, done.reports.first()) {
        deliver(&values_of(report, &args.out)?, to)?;
    }
    Ok(done.code)
}

/// Whether two paths lead to one file, by whatever names.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| std::fs::metadata(path).ok().map(|data| (data.dev(), data.ino()));
    place(one).is_some_and(|one| Some(one) == place(other))
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-") || path == Path::new("/dev/stdout")
}

/// The job's name: `once-pagerank-edges`.
fn name(args: &OnceArgs) -> String {
    let file = args.file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = file.split('.').next().unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
    format!("once-{}-{}", args.algorithm.name(), stem.chars().map(plain).collect::<String>())
}

fn job_text(args: &OnceArgs) -> Result<String, Problem> {
    let path = std::path::absolute(&args.file).map_err(Problem::failed)?;
    let path = path.to_str().ok_or_else(|| {
        Problem::usage(format!(
            "error: {}: the path is no valid UTF-8, which a job file needs",
            args.file.display()
        ))
    })?;
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let mut dataset = format!("path = {}, format = {}", quoted(path), quoted(&args.format));
    if args.skip_lines > 0 {
        let _ = write!(dataset, ", skip_lines = {}", args.skip_lines);
    }
    if let Some(vertices) = args.vertices {
        let _ = write!(dataset, ", vertices = {vertices}");
    }
    if args.undirected {
        dataset += ", directed = false";
    }
    let mut text = format!("name = {}\ndataset = {{ {dataset} }}\n\n", quoted(&name(args)));
    let _ = writeln!(text, "[algorithm.{}]", args.algorithm.name());
    if let Some(iterations) = args.iterations {
        let _ = writeln!(text, "iterations = {iterations}");
    }
    if let Some(tolerance) = args.tolerance {
        let _ = writeln!(text, "tolerance = {tolerance:e}");
    }
    let _ =
        writeln!(text, "\n[engine]\nmemory = {}\n\n[measure]\nrepeat = 1\nwarmup = 0", quoted(&args.memory));
    if args.output.is_some() {
        text += "\n[output]\nvalues = \"csv\"\n";
    }
    Ok(text)
}

/// The values file of the one run of a report.
fn values_of(report: &JobReport, out: &Path) -> Result<PathBuf, Problem> {
    let row = report.rows().find(|row| row.status == Status::Ok);
    let row = row.ok_or_else(|| Problem::failed("the run left no values, a defect of ioc"))?;
    let out = std::path::absolute(out).map_err(Problem::failed)?;
    let table = report.path().with_extension("");
    values_path(&out, table.strip_prefix(&out).unwrap_or(&table), &row.run_id).map_err(Problem::failed)
}

/// Takes the values to where the user wants them.
fn deliver(from: &Path, to: &Path) -> Result<(), Problem> {
    let undelivered =
        |error: String| Problem::failed(format!("{error}; the values are in {}", from.display()));
    if is_stdout(to) {
        let copied = File::open(from).and_then(|mut file| output::copy(&mut file));
        return copied
            .map_err(|error| undelivered(format!("cannot write the values to standard output: {error}")));
    }
    copy_values(from, to).map_err(|error| undelivered(error.to_string()))
}
