//! `ioc dataset`: the registry and the built grids.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::args::{BatchArgs, BuildArgs, DatasetArgs, DatasetCommand};
use super::progress::Console;
use super::{Problem, batch, build, exit, output};
use crate::dataset::Context;
use crate::file_id::is_same_file;
use crate::grid::derived::{self, Derived, DerivedKind};
use crate::grid::manifest::Manifest;
use crate::grid::{self, ExportPath, ExportRequest, Exported, Grid, Layout};
use crate::interrupt::Interrupt;
use crate::job::JobSource;
use crate::job::registry::{REGISTRY_FILE, Registry, find_project};
use crate::job::source::shown;
use crate::job::spec::{DatasetSpec, ExportFormatSpec, SourceSpec};
use crate::job::suggest::did_you_mean;
use crate::progress::Unit;
use crate::units::{format_bytes, format_count, plural};

/// Does what the arguments say.
pub(crate) fn dataset(args: &DatasetArgs, interrupt: &Interrupt) -> Result<u8, Problem> {
    match &args.command {
        DatasetCommand::List => list(&args.data),
        DatasetCommand::Info { name } => info(&args.data, name),
        DatasetCommand::Import { name, memory } => import(args, name, &memory.text, interrupt),
        DatasetCommand::Verify { name } => verify(args, name, interrupt),
        DatasetCommand::Export { name, format, output, memory } => {
            export(args, name, *format, output, memory.bytes, interrupt)
        }
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
    let derived = derived::list(data).map_err(Problem::failed)?;
    let mut others: Vec<&str> = layouts.iter().map(|layout| layout.dataset.as_str()).collect();
    others.extend(derived.iter().map(|derived| derived.dataset.as_str()));
    others.sort_unstable();
    others.dedup();
    others.retain(|name| !registry.names().any(|known| known == *name));
    let names: Vec<&str> = registry.names().chain(others).collect();
    if names.is_empty() {
        output::say("no data sets: there is no datasets.toml in this folder or above, and no grid is built");
    }
    let mut code = exit::OK;
    for name in names {
        let source = match registry.get(name) {
            Some(Ok(spec)) => source(&spec),
            Some(Err(_)) => "(invalid entry; `ioc dataset info` says why)".to_owned(),
            None => "(no entry in datasets.toml)".to_owned(),
        };
        let built: Vec<_> = layouts.iter().filter(|layout| layout.dataset == name).collect();
        let made: Vec<_> = derived.iter().filter(|derived| derived.dataset == name).collect();
        output::say(&format!("{name:<24} {source:<56} {}{}", state(&built), state_of_derived(&made)));
        for error in built.iter().filter_map(|layout| layout.unreadable.as_ref()) {
            output::error(&format!("error: {name}: {error}"));
            code = exit::FAILED;
        }
    }
    Ok(code)
}

/// How far a data set's layouts have come: `2 grids, 5 MiB, 1 unfinished, 1 MiB`.
fn state(layouts: &[&Layout]) -> String {
    let (complete, others): (Vec<&Layout>, Vec<&Layout>) =
        layouts.iter().partition(|layout| layout.grid.is_some());
    let (unreadable, others): (Vec<&Layout>, Vec<&Layout>) =
        others.into_iter().partition(|layout| layout.unreadable.is_some());
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
    if !unreadable.is_empty() {
        parts.push(format!("{} unreadable", unreadable.len()));
    }
    if parts.is_empty() { "not built".to_owned() } else { parts.join(", ") }
}

/// What was made for other programs: `; 1 export, 5 MiB, 1 prepared, 9 MiB`, or nothing.
fn state_of_derived(derived: &[&Derived]) -> String {
    let bytes = |derived: &[&Derived]| format_bytes(derived.iter().map(|derived| derived.bytes()).sum());
    let (complete, others): (Vec<&Derived>, Vec<&Derived>) =
        derived.iter().partition(|derived| derived.is_complete());
    let (exports, prepared): (Vec<&Derived>, Vec<&Derived>) =
        complete.into_iter().partition(|derived| derived.kind == DerivedKind::Export);
    let mut parts = Vec::new();
    if !exports.is_empty() {
        parts.push(format!("{}, {}", plural(exports.len(), "export"), bytes(&exports)));
    }
    if !prepared.is_empty() {
        parts.push(format!("{} prepared, {}", prepared.len(), bytes(&prepared)));
    }
    if !others.is_empty() {
        parts.push(format!("{} for peers unfinished, {}", others.len(), bytes(&others)));
    }
    if parts.is_empty() { String::new() } else { format!("; {}", parts.join(", ")) }
}

/// Why a layout is no grid, and what to do.
fn why_none(layout: &Layout) -> String {
    match (&layout.unreadable, &layout.unmounted) {
        (Some(error), _) => format!("unreadable: {error}"),
        (None, Some(device)) => format!(
            "its device {} is not mounted, or another one is: mount it, or remove the grid with `ioc dataset rm {} \
             --grid {}`",
            device.display(),
            layout.dataset,
            layout.key
        ),
        (None, None) => {
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
    let mut code = exit::OK;
    for layout in layouts_of(data, name)? {
        output::say(&match &layout.grid {
            Some(grid) => describe(&layout, grid),
            None => format!("\ngrid {} ({}): {}", layout.key, format_bytes(layout.bytes), why_none(&layout)),
        });
        if layout.unreadable.is_some() {
            code = exit::FAILED;
        }
    }
    Ok(code)
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
    line("order", manifest.order.name().to_owned());
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
    let exports: Vec<Derived> = derived::list(&args.data)
        .map_err(Problem::failed)?
        .into_iter()
        .filter(|derived| derived.dataset == name && derived.kind == DerivedKind::Export)
        .filter(Derived::is_complete)
        .collect();
    let mut layouts = grid::list(&args.data).map_err(Problem::failed)?;
    layouts.retain(|layout| layout.dataset == name);
    if layouts.is_empty() && exports.is_empty() {
        layouts = layouts_of(&args.data, name)?;
    }
    let of_exports = exports.iter().map(|export| verify_export(export, context));
    let of_grids = layouts.iter().map(|layout| verify_grid(layout, context));
    let mut code = exit::OK;
    for verdict in of_exports.chain(of_grids) {
        match verdict {
            Ok(text) => say(args, &format!("{name} {text}")),
            Err(_) if interrupt.raised() => return Ok(exit::INTERRUPTED),
            Err(error) => {
                output::error(&format!("error: {name} {error}"));
                code = exit::FAILED;
            }
        }
    }
    Ok(code)
}

fn verify_export(export: &Derived, context: Context<'_>) -> Result<String, String> {
    let (key, stage) = (export.key(), format!("{}: verify an export", export.dataset));
    context.progress.begin(&stage, Some(export.bytes()), Unit::Bytes);
    let verdict = export.verify(context);
    context.progress.end();
    let bytes = verdict.map_err(|error| format!("{key}: {error}"))?;
    Ok(format!("{key}: an export of {} is as it was written", format_bytes(bytes)))
}

fn verify_grid(layout: &Layout, context: Context<'_>) -> Result<String, String> {
    let verdict = match &layout.grid {
        None => Err(why_none(layout)),
        Some(grid) => grid::verify(grid, context).map_err(|error| error.to_string()),
    };
    let key = &layout.key;
    let found = verdict.map_err(|error| format!("{key}: {error}"))?;
    let (edges, bytes) = (format_count(found.edges), format_bytes(found.bytes));
    Ok(format!("{key}: {edges} edges in {bytes} are as they were written"))
}

/// Exports what the registry says; no grid is needed.
fn export(
    args: &DatasetArgs,
    name: &str,
    format: ExportFormatSpec,
    output: &Path,
    memory: u64,
    interrupt: &Interrupt,
) -> Result<u8, Problem> {
    let registry = registry()?;
    let Some(spec) = registry.get(name).transpose().map_err(Problem::usage)? else {
        let help = did_you_mean(name, registry.names())
            .unwrap_or_else(|| "an export is made of the source that an entry names".to_owned());
        return Err(Problem::usage(format!("error: datasets.toml has no entry `{name}`; {help}")));
    };
    let source = match &spec.source {
        SourceSpec::File { path, .. } => Some(path.clone()),
        SourceSpec::Kronecker(_) => None,
    };
    if source
        .into_iter()
        .chain([registry.project().join(REGISTRY_FILE)])
        .any(|own| is_same_file(&own, output))
    {
        let output = output.display();
        return Err(Problem::usage(format!(
            "error: -o: {output} is what the export is made of, and would be lost; name another file"
        )));
    }
    let progress = Console::new(args.quiet);
    let context = Context { threads: super::cores(), interrupt, progress: &progress };
    // Whether the file is what the entry says.
    crate::dataset::fingerprint(&spec, &args.data, context).map_err(Problem::failed)?;
    let source = crate::dataset::open(&spec).map_err(Problem::failed)?;
    let request = ExportRequest {
        source: source.as_ref(),
        format,
        directed: spec.directed,
        expected_edges: spec.edges,
        memory,
        stage: name,
    };
    let exported = match grid::export(ExportPath::File(output), request, context) {
        Err(_) if interrupt.raised() => return Ok(exit::INTERRUPTED),
        exported => exported.map_err(Problem::failed)?.1,
    };
    say(args, &exported_text(name, output, &exported));
    if exported.rounded > 0 && !args.quiet {
        let (rounded, edges) = (format_count(exported.rounded), format_count(exported.edges));
        output::error(&format!(
            "note: {rounded} of {edges} weights were rounded to f32, so that what is computed of them differs a little"
        ));
    }
    Ok(exit::OK)
}

fn exported_text(name: &str, path: &Path, exported: &Exported) -> String {
    let Exported { vertices, vertex_rule, edges, weighted, dataset_checksum, bytes, .. } = *exported;
    format!(
        "{name}: {} vertices (rule: {vertex_rule}), {} arcs{}, {} in {}, checksum {}",
        format_count(vertices),
        format_count(edges),
        if weighted { " with weights" } else { "" },
        format_bytes(bytes),
        shown(path),
        crate::report::Digest(dataset_checksum)
    )
}

fn remove(args: &DatasetArgs, name: &str, grid: Option<&str>) -> Result<u8, Problem> {
    let mut freed = 0;
    if grid.is_none() {
        let (removed, bytes) = derived::remove_all(&args.data, name).map_err(Problem::failed)?;
        freed += bytes;
        let grids = grid::list(&args.data).map_err(Problem::failed)?;
        if removed > 0 && !grids.iter().any(|layout| layout.dataset == name) {
            say(args, &format!("{name}: {} freed", format_bytes(freed)));
            return Ok(exit::OK);
        }
    }
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
    let mut code = exit::OK;
    for layout in layouts {
        // Of a folder that cannot be listed the error is known already.
        let removed = match layout.unreadable.filter(|_| layout.key.is_empty()) {
            Some(error) => Err(error),
            None => grid::remove(&args.data, name, &layout.key).map_err(|error| error.to_string()),
        };
        match removed {
            Ok(bytes) => freed += bytes,
            Err(error) => {
                output::error(&format!("error: {error}"));
                code = exit::FAILED;
            }
        }
    }
    say(args, &format!("{name}: {} freed", format_bytes(freed)));
    Ok(code)
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
    if collected.derived > 0 {
        let _ = write!(removed, " and {} for peers", plural(collected.derived as usize, "unfinished folder"));
    }
    if collected.orphans > 0 {
        let folders = plural(collected.orphans as usize, "left folder");
        let _ = write!(removed, " and {folders} on devices");
    }
    collected.failed.iter().for_each(|error| output::error(&format!("error: {error}")));
    say(args, &format!("{removed} removed, {} freed", format_bytes(collected.bytes)));
    Ok(if collected.failed.is_empty() { exit::OK } else { exit::FAILED })
}

/// What a command did, which `--quiet` need not hear; what was asked for (a list) is printed in any case.
fn say(args: &DatasetArgs, text: &str) {
    if !args.quiet {
        output::say(text);
    }
}
