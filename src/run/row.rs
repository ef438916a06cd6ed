//! From what a repetition knows to the columns of its row.

use std::fmt::Write;

use super::layout;
use super::plan::{JobPlan, PlannedRun};
use crate::algorithm::{Outcome, pagerank};
use crate::engine::accounting::Account;
use crate::engine::plan::Plan;
use crate::grid::Grid;
use crate::grid::manifest::Order;
use crate::job::external;
use crate::job::spec::{AlgorithmSpec, Auto, BfsSpec, ExternalSpec, ModelSpec, RunSpec, SsspSpec};
use crate::measure::environment::Environment;
use crate::measure::{clock, disk};
use crate::report::{AttemptId, Digest, Row, Seconds};

/// A row that knows whose it is, what was asked for, and on which machine.
pub(crate) fn blank(plan: &JobPlan, run: &PlannedRun, id: &AttemptId) -> Row {
    let spec = &run.spec;
    let mut row = Row::new(id, &plan.job);
    row.variant = some_text(&spec.variant);
    row.dataset = Some(spec.dataset.name.clone());
    row.algorithm = Some(spec.algorithm.name().to_owned());
    row.algorithm_params = some_text(&parameters(&spec.algorithm));
    row.started_utc = Some(now_utc());
    fill_machine(&mut row, plan, run);
    match &spec.algorithm {
        AlgorithmSpec::External(external) => fill_used(&mut row, external),
        _ => fill_settings(&mut row, spec),
    }
    row
}

/// What a run of ours was asked for.
fn fill_settings(row: &mut Row, spec: &RunSpec) {
    row.model = Some(spec.engine.model.name().to_owned());
    row.io = Some(spec.engine.io.name().to_owned());
    row.kernel = Some(spec.engine.kernel.name().to_owned());
    row.encoding = Some(spec.grid.encoding.name().to_owned());
    row.order = Order::asked(&spec.grid).map(|order| order.name().to_owned());
    row.cache = Some(spec.engine.cache.name().to_owned());
    row.ssds = Some(spec.storage.ssds);
    row.stripe_b = Some(spec.storage.stripe);
    row.emulated_mb_per_s = spec.storage.emulate.map(|rate| rate as f64 / 1e6);
    row.memory_b = Some(spec.engine.memory);
}

/// What an external was told in its words; what else it does is its own matter.
fn fill_used(row: &mut Row, external: &ExternalSpec) {
    row.memory_b = external.memory;
    let cores = row.cores.map_or(1, |cores| cores as u32);
    row.compute_threads = external.threads.map(|threads| threads.or_else(|| cores));
    row.ssds = external.ssds;
}

fn fill_machine(row: &mut Row, plan: &JobPlan, run: &PlannedRun) {
    let machine = Environment::current();
    row.machine = Some(machine.machine);
    row.cpu_model = machine.cpu_model;
    row.cores = machine.cores.map(|cores| cores as u64);
    row.llc_b = machine.llc_b;
    row.memory_total_b = machine.memory_total_b;
    row.kernel_release = some_text(&machine.kernel_release);
    // Where an external has its files is its own matter.
    if run.spec.algorithm.external().is_none() {
        let folders = layout::folders(&plan.data, &run.spec);
        row.filesystem = disk::of_all(&folders, disk::filesystem);
        row.disk_model = disk::of_all(&folders, disk::disk_model);
    }
    row.ioc_version = Some(machine.ioc_version.to_owned());
    row.git_rev = machine.git_rev.map(ToOwned::to_owned);
    row.slurm_job = machine.slurm_job;
    row.slurm_node = machine.slurm_node;
}

/// What the grid says of itself.
pub(crate) fn fill_grid(row: &mut Row, grid: &Grid) {
    let manifest = &grid.manifest;
    row.dataset_checksum = Some(Digest(manifest.dataset_checksum));
    row.vertices = Some(manifest.vertices);
    row.vertex_rule = Some(manifest.vertex_rule.clone());
    row.edges = Some(manifest.edges);
    row.weighted = Some(manifest.weights.bytes() > 0);
    row.order = Some(manifest.order.name().to_owned());
    row.columns = Some(manifest.columns.len() as u64);
    row.bytes_per_edge = (manifest.edges > 0).then(|| grid.total_bytes() as f64 / manifest.edges as f64);
}

/// The engine's parameters as resolved.
pub(crate) fn fill_plan(row: &mut Row, plan: &Plan) {
    row.block_b = Some(plan.block);
    row.io_depth = Some(plan.depth);
    row.io_threads = (plan.model == ModelSpec::Ioc).then_some(plan.io_threads);
    row.compute_threads = Some(plan.compute_threads);
    row.buffer_b = Some(plan.buffer_bytes());
}

/// Where the time went.
pub(crate) fn fill_account(row: &mut Row, account: &Account) {
    let runtime = account.runtime.as_secs_f64();
    let per_second = |amount: f64| (runtime > 0.0).then(|| amount / runtime);
    row.runtime_s = Some(account.runtime.into());
    row.io_s = Some(account.io.into());
    row.compute_s = Some(Seconds(account.compute_mean_s(|thread| thread.compute)));
    row.compute_wait_s = Some(Seconds(account.compute_mean_s(|thread| thread.wait)));
    if row.model.as_deref() == Some("ioc") {
        row.io_wait_s = Some(Seconds(account.read.wait.as_secs_f64() / account.io_threads.max(1) as f64));
    }
    row.edges_per_s = per_second(account.compute.iter().map(|thread| thread.edges as f64).sum());
    row.read_b = Some(account.read.bytes);
    row.cached_b = Some(account.read.cached);
    row.skipped_b = Some(account.skipped);
    row.read_requests = Some(account.read.requests);
    row.read_mb_per_s = per_second(account.read.bytes as f64 / 1e6);
    if account.read.requests > 0 {
        let latencies = &account.read.latencies;
        row.latency_p50_ms = Some(latencies.value_at_quantile(0.5) as f64 / 1e6);
        row.latency_p99_ms = Some(latencies.value_at_quantile(0.99) as f64 / 1e6);
        row.latency_max_ms = Some(latencies.max() as f64 / 1e6);
    }
    row.balance = account.balance(|thread| thread.compute.as_secs_f64());
    row.edges_balance = account.balance(|thread| thread.edges as f64);
}

/// How far the run is from what its devices and its computing allow, where a scan has shown what the devices sustain.
pub(crate) fn fill_limit(row: &mut Row, device_mb_per_s: Option<f64>) {
    let Some(rate) = device_mb_per_s.filter(|rate| *rate > 0.0) else { return };
    row.device_mb_per_s = Some(rate);
    let (Some(read), Some(compute), Some(runtime)) = (row.read_b, row.compute_s, row.runtime_s) else {
        return;
    };
    let read = read + row.state_read_b.unwrap_or(0);
    let io_limit = read as f64 / 1e6 / rate;
    let limit = io_limit.max(compute.0);
    row.io_limit_s = Some(Seconds(io_limit));
    row.limit_s = Some(Seconds(limit));
    row.limit_ratio = (limit > 0.0).then(|| runtime.0 / limit);
}

/// What the process has used so far.
pub(crate) fn fill_usage(row: &mut Row) {
    let times = clock::process_times();
    row.user_s = times.map(|(user, _)| Seconds(user));
    row.system_s = times.map(|(_, system)| Seconds(system));
    row.max_rss_b = Some(clock::max_rss_bytes()).filter(|&bytes| bytes > 0);
}

/// What came out.
pub(crate) fn fill_outcome(row: &mut Row, outcome: &Outcome) {
    row.iterations = Some(outcome.iterations);
    row.converged = outcome.converged;
    row.residual = outcome.residual;
    row.result_checksum = Some(Digest(outcome.checksum));
    row.quantum = outcome.quantum;
}

fn some_text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn now_utc() -> String {
    jiff::Timestamp::from_second(jiff::Timestamp::now().as_second()).unwrap_or_default().to_string()
}

/// An algorithm's parameters in one cell.
fn parameters(algorithm: &AlgorithmSpec) -> String {
    let mut text = algorithm.iterations().map_or_else(String::new, |count| format!("iterations={count}"));
    match algorithm {
        AlgorithmSpec::External(external) => return external::shown(&external.command),
        AlgorithmSpec::Scan(_) => {}
        AlgorithmSpec::Wcc => text.clear(),
        AlgorithmSpec::Bfs(BfsSpec { root }) | AlgorithmSpec::Sssp(SsspSpec { root }) => match root {
            Auto::Auto => text += "root=auto",
            Auto::Value(root) => {
                let _ = write!(text, "root={root}");
            }
        },
        AlgorithmSpec::Spmv(spec) => text += if spec.x.is_some() { " x=file" } else { " x=1" },
        AlgorithmSpec::Pagerank(spec) => {
            if let Some(tolerance) = spec.tolerance {
                let _ = write!(text, " tolerance={tolerance:e}");
            }
            let (dangling, init) = (spec.dangling.name(), spec.init.name());
            let (damping, precision) = (spec.damping, pagerank::precision(spec).name());
            let _ = write!(text, " damping={damping} dangling={dangling} init={init} precision={precision}");
        }
    }
    text
}
