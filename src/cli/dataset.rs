//! `ioc dataset`: the registry and the built grids.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::args::{BatchArgs, BuildArgs, DatasetArgs, DatasetCommand};
use super::progress::Console;
use super::{Problem, batch, build, exit, output};
use crate::dataset::Context;
use crate::grid::manifest::Manifest;
use crate::grid::{self, Grid, Layout};
use crate::interrupt::Interrupt;
use crate::job::JobSource;
use crate::job::registry::{Registry, find_project};
use crate::job::source::shown;
use crate::job::spec::{DatasetSpec, SourceSpec};
use crate::job::suggest::did_you_mean;
use crate::units::{format_bytes, format_count, plural};

/// Does what the arguments say.
pub(crate) fn dataset(args: &DatasetArgs, interrupt: &Interrupt) -> Result<u8, Problem> {
    match &args.command {
        DatasetCommand::List => list(&args.data),
        DatasetCommand::Info { name } => info(&args.data, name),
        DatasetCommand::Import { name, memory } => import(args, name, memory, interrupt),
        DatasetCommand::Verify { name } => verify(args, name, interrupt),
        DatasetCommand::Rm { name, grid } => remove(args, name, grid.as_deref()),
        DatasetCommand::Gc { devices } => collect(args, devices),
    }
}

fn registry() -> Result<Registry, Problem> {
    let here = std::env::current_dir().map_err(Problem::failed)?;
    Registry::open(&find_project(&here).unwrap_or(here)).map_err(Problem::usage)
}

fn list(data: &Path) -> Result<u8, Problem> {
    let registry = registry()?;
    let layouts = grid::list(data).map_err(Problem::failed)?;
    let mut names: Vec<&str> = registry.names().collect();
    names.extend(
        layouts
            .iter()
            .map(|layout| layout.dataset.as_str())
            .filter(|name| !registry.names().any(|n| n == *name)),
    );
    names.dedup();
    if names.is_empty() {
        output::say("no data sets: there is no datasets.toml in this folder or above, and no grid is built");
    }
    for name in names {
        let source = match registry.get(name) {
            Some(Ok(spec)) => source(&spec),
            Some(Err(_)) => "(invalid entry; `ioc dataset info` says why)".to_owned(),
            None => "(no entry in datasets.toml)".to_owned(),
        };
        let built: Vec<_> = layouts.iter().filter(|layout| layout.dataset == name).collect();
        output::say(&format!("{name:<24} {source:<56} {}", state(&built)));
    }
    Ok(exit::OK)
}

/// How far a data set's layouts have come: `2 grids, 5 MiB, 1 unfinished, 1 MiB`.
fn state(layouts: &[&Layout]) -> String {
    let (complete, others): (Vec<&Layout>, Vec<&Layout>) =
        layouts.iter().partition(|layout| layout.grid.is_some());
    let (away, unfinished): (Vec<&Layout>, Vec<&Layout>) =
        others.into_iter().partition(|layout| layout.unmounted.is_some());
    let bytes = |layouts: &[&Layout]| format_bytes(layouts.iter().map(|layout| layout.bytes).sum());
    let mut parts = Vec::new();
    if !complete.is_empty() {
        parts.push(format!("{}, {}", plural(complete.len(), "grid"), bytes(&complete)));
    }
    if !away.is_empty() {
        parts.push(format!("{} not mounted", away.len()));
    }
    if !unfinished.is_empty() {
        parts.push(format!("{} unfinished, {}", unfinished.len(), bytes(&unfinished)));
    }
    if parts.is_empty() { "not built".to_owned() } else { parts.join(", ") }
}

/// Why a layout is no grid, and what to do.
fn why_none(layout: &Layout) -> String {
    match &layout.unmounted {
        Some(device) => format!(
            "its device {} is not mounted, or another one is: mount it, or remove the grid with `ioc dataset rm {} \
             --grid {}`",
            device.display(),
            layout.dataset,
            layout.key
        ),
        None => {
            "unfinished or damaged: a file is missing or the import did not end; `ioc dataset gc` removes it"
                .to_owned()
        }
    }
}

fn source(spec: &DatasetSpec) -> String {
    match &spec.source {
        SourceSpec::Kronecker(kronecker) => format!(
            "kronecker, scale {}, edge factor {}, seed {}{}",
            kronecker.scale,
            kronecker.edge_factor,
            kronecker.seed,
            if kronecker.weights { ", weights" } else { "" }
        ),
        SourceSpec::File { path, .. } => shown(path),
    }
}

/// The grids of a data set, of which there must be one.
fn layouts_of(data: &Path, name: &str) -> Result<Vec<Layout>, Problem> {
    let layouts = grid::list(data).map_err(Problem::failed)?;
    let (wanted, others): (Vec<_>, Vec<_>) = layouts.into_iter().partition(|layout| layout.dataset == name);
    if !wanted.is_empty() {
        return Ok(wanted);
    }
    let registry = registry()?;
    let data = data.display();
    if registry.names().any(|other| other == name) {
        return Err(Problem::failed(format!(
            "no grid of the data set `{name}` is built in {data}; `ioc dataset import {name}` builds one"
        )));
    }
    let known = registry.names().chain(others.iter().map(|layout| layout.dataset.as_str()));
    let help =
        did_you_mean(name, known).unwrap_or_else(|| "`ioc dataset list` lists what there is".to_owned());
    Err(Problem::usage(format!(
        "error: there is no data set `{name}`: datasets.toml has no such entry, and {data} holds no grid of it; \
         {help}"
    )))
}

fn info(data: &Path, name: &str) -> Result<u8, Problem> {
    let entry = registry()?.get(name).transpose().map_err(Problem::usage)?;
    if let Some(spec) = &entry {
        output::say(&format!("{name}: {}", source(spec)));
    }
    let built = grid::list(data).map_err(Problem::failed)?.iter().any(|layout| layout.dataset == name);
    if entry.is_some() && !built {
        output::say("not built; its counts are known after `ioc dataset import`");
        return Ok(exit::OK);
    }
    for layout in layouts_of(data, name)? {
        output::say(&match &layout.grid {
            Some(grid) => describe(&layout, grid),
            None => format!("\ngrid {} ({}): {}", layout.key, format_bytes(layout.bytes), why_none(&layout)),
        });
    }
    Ok(exit::OK)
}

fn describe(layout: &Layout, grid: &Grid) -> String {
    let Manifest { vertices, edges, dangling, self_loops, .. } = grid.manifest;
    let manifest = &grid.manifest;
    let mut text = format!("\ngrid {} in {}\n", layout.key, layout.dir.display());
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<18} {value}");
    };
    line("vertices", format!("{} (rule: {})", format_count(vertices), manifest.vertex_rule));
    line("arcs", format_count(edges));
    line("dangling", format_count(dangling));
    line("self-loops", format_count(self_loops));
    line("checksum", crate::report::Digest(manifest.dataset_checksum).to_string());
    let weights = match manifest.weights.bytes() {
        0 => "none".to_owned(),
        bytes => format!("f{}, largest magnitude {}", bytes * 8, manifest.max_abs_weight),
    };
    line("weights", weights);
    let per_edge = if edges > 0 { grid.total_bytes() as f64 / edges as f64 } else { 0.0 };
    line(
        "edges on disk",
        format!(
            "{} ({per_edge:.3} bytes per edge, {})",
            format_bytes(grid.total_bytes()),
            manifest.encoding.name()
        ),
    );
    line(
        "columns",
        format!("{}, source windows of {}", manifest.columns.len(), format_count(manifest.source_window)),
    );
    line("devices", format!("{}, stripes of {}", manifest.ssds, format_bytes(manifest.stripe)));
    for folder in &layout.folders {
        line("device directory", folder.display().to_string());
    }
    line(
        "import",
        format!("{:.1} s, peak memory {}", manifest.import_s, format_bytes(manifest.import_max_rss_b)),
    );
    text
}

/// The default layout of a data set is that of a job which names nothing else.
fn import(args: &DatasetArgs, name: &str, memory: &str, interrupt: &Interrupt) -> Result<u8, Problem> {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let text =
        format!("dataset = {}\n[algorithm.scan]\n[engine]\nmemory = {}\n", quoted(name), quoted(memory));
    let here = std::env::current_dir().map_err(Problem::failed)?;
    let project = find_project(&here).unwrap_or(here);
    let source = JobSource::Text { name: "import".to_owned(), text, project };
    let out = tempfile::tempdir().map_err(Problem::failed)?;
    let batch_args = BatchArgs {
        paths: Vec::new(),
        sets: Vec::new(),
        only: None,
        out: out.path().to_owned(),
        data: args.data.clone(),
        quiet: args.quiet,
    };
    let batch = batch::load_sources(&[source], &batch_args)?;
    let build_args = BuildArgs { batch: batch_args, memory: None, plan: None, index: None };
    build::build_batch(&batch, &build_args, interrupt)
}

fn verify(args: &DatasetArgs, name: &str, interrupt: &Interrupt) -> Result<u8, Problem> {
    let progress = Console::new(args.quiet);
    let context = Context { threads: super::cores(), interrupt, progress: &progress };
    let mut code = exit::OK;
    for layout in layouts_of(&args.data, name)? {
        let verdict = match &layout.grid {
            None => Err(why_none(&layout)),
            Some(grid) => grid::verify(grid, context).map_err(|error| error.to_string()),
        };
        match verdict {
            Ok(found) => say(
                args,
                &format!(
                    "{name} {}: {} edges in {} are as they were written",
                    layout.key,
                    format_count(found.edges),
                    format_bytes(found.bytes)
                ),
            ),
            Err(_) if interrupt.raised() => return Ok(exit::INTERRUPTED),
            Err(error) => {
                output::error(&format!("error: {name} {}: {error}", layout.key));
                code = exit::FAILED;
            }
        }
    }
    Ok(code)
}

fn remove(args: &DatasetArgs, name: &str, grid: Option<&str>) -> Result<u8, Problem> {
    let mut layouts = layouts_of(&args.data, name)?;
    if let Some(wanted) = grid {
        let keys: Vec<String> = layouts.iter().map(|layout| layout.key.clone()).collect();
        layouts.retain(|layout| layout.key == wanted);
        if layouts.is_empty() {
            return Err(Problem::usage(format!(
                "error: {name} has no grid {wanted}; it has {}",
                keys.join(", ")
            )));
        }
    }
    let mut freed = 0;
    for layout in layouts {
        freed += grid::remove(&args.data, name, &layout.key).map_err(Problem::failed)?;
    }
    say(args, &format!("{name}: {} freed", format_bytes(freed)));
    Ok(exit::OK)
}

fn collect(args: &DatasetArgs, devices: &[PathBuf]) -> Result<u8, Problem> {
    if let Some(device) = devices.iter().find(|device| !device.is_dir()) {
        return Err(Problem::usage(format!("error: --device {}: this is no directory", device.display())));
    }
    let collected = grid::gc(&args.data, devices, |_| true).map_err(Problem::failed)?;
    if !args.quiet {
        for busy in &collected.busy {
            output::error(&format!("note: {busy} is being imported and was left alone"));
        }
        for device in &collected.unmounted {
            let device = device.display();
            output::error(&format!("note: {device} is not mounted, and a grid that is there was left alone"));
        }
    }
    let mut removed = plural(collected.layouts as usize, "incomplete grid");
    if collected.orphans > 0 {
        let folders = plural(collected.orphans as usize, "left folder");
        let _ = write!(removed, " and {folders} on devices");
    }
    say(args, &format!("{removed} removed, {} freed", format_bytes(collected.bytes)));
    Ok(exit::OK)
}

/// What a command did, which `--quiet` need not hear; what was asked for (a list) is printed in any case.
fn say(args: &DatasetArgs, text: &str) {
    if !args.quiet {
        output::say(text);
    }
}
